/*
 * Initial weights from a file instead of random ones: fine-tuning, and inference with weights of others.
 *
 *     pdl_initial_file_t *initial;
 *     pdl_initial_open("gpt2/model.safetensors", PDL_INITIAL_ANY, &initial);
 *     spec.initial = initial;                            // of pdl_session_spec_t
 *     pdl_session_create(&spec, &session);
 *     for (int i = 0; i < pdl_initial_line_count(initial); i++) puts(pdl_initial_line(initial, i));
 *
 * Files are safetensors (ours, or a PyTorch state dict), checkpoints, folders with a model.safetensors as Hugging Face
 * keeps them, and ONNX files. A tensor belongs to the weight of its name ("layer1.0.conv1.weight"), but for
 *   - a prefix that the names of a file have in common ("transformer.", "module.");
 *   - linear weights stored [inputs][outputs], as GPT-2's of Hugging Face are: they are transposed. Square ones are where all
 *     others are;
 *   - a table that two layers share: under the name of either;
 *   - positions: the first ones of a longer table.
 * Weights that the file lacks, or has in another shape (the head for other classes), stay as they are drawn.
 */
#ifndef PARADL_INITIAL_H
#define PARADL_INITIAL_H

#include <paradl/base/status.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is an error: a file none of whose tensors fits is always one. */
typedef enum pdl_initial_demand {
    PDL_INITIAL_ANY,
    PDL_INITIAL_COMPLETE, /* a weight that the file lacks */
    PDL_INITIAL_STRICT    /* that, or a tensor that is not used */
} pdl_initial_demand_t;

typedef struct pdl_initial_file pdl_initial_file_t;

/* Whether a path is that of weights alone: a file, or a folder with a model.safetensors and without our state. Others are
   checkpoints. */
bool pdl_initial_is_weights(const char *path);

pdl_status_t pdl_initial_open(const char *path, pdl_initial_demand_t demand, pdl_initial_file_t **initial);
void         pdl_initial_close(pdl_initial_file_t *initial); /* NULL is allowed */

/* What came of the file in the session that was made last: a summary, then a line for every weight that was drawn
   although the file was to have it, and one of tensors that were not used. */
int         pdl_initial_line_count(const pdl_initial_file_t *initial);
const char *pdl_initial_line(const pdl_initial_file_t *initial, int i);

#ifdef __cplusplus
}
#endif
#endif
