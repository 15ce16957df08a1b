/*
 * Initial weights from files. Internal to the module.
 */
#ifndef PDL_TRAIN_INITIAL_H
#define PDL_TRAIN_INITIAL_H

#include <paradl/model/onnx_weights.h>
#include <paradl/train/checkpoint.h>
#include <paradl/train/initial.h>
#include <paradl/train/session.h>

/* A tensor of the file. */
typedef struct pdl__initial_tensor {
    const char *name;
    int         rank; /* without dimensions of 1 */
    int64_t     dims[PDL_SAFETENSORS_RANK];
    int64_t     elements;
    bool        usable; /* its type converts to real numbers */
    bool        used;
} pdl__initial_tensor_t;

struct pdl_initial_file {
    char                  *path;
    pdl_initial_demand_t   demand;
    pdl_checkpoint_t      *checkpoint; /* either this */
    pdl_onnx_weights_t    *onnx;       /* or this */
    pdl__initial_tensor_t *tensor;     /* sorted by name */
    int                   *place;      /* of each in the file */
    int                    count;
    char                 **line;
    int                    line_count, line_room;
};

/* file.c: by name, or -1; its numbers, `elements` of them. */
int          pdl__initial_find(const pdl_initial_file_t *initial, const char *name);
pdl_status_t pdl__initial_read(const pdl_initial_file_t *initial, int tensor, float *values);
pdl_status_t pdl__initial_say(pdl_initial_file_t *initial, const char *format, ...) PDL_PRINTF(2, 3);
void         pdl__initial_forget(pdl_initial_file_t *initial); /* the lines, and what is used */

/* What becomes of a weight of the model. */
typedef enum pdl__initial_fit {
    PDL__FIT_SAME,
    PDL__FIT_TRANSPOSED,
    PDL__FIT_FIRST, /* the first rows of a longer table */
    PDL__FIT_MISSING,
    PDL__FIT_SHAPE /* the file has it in another shape */
} pdl__initial_fit_t;
typedef struct pdl__initial_match {
    pdl__initial_fit_t fit;
    int                tensor; /* of the file; -1: missing */
} pdl__initial_match_t;

/* match.c: one for each of the tensors of the model; the lines say what came of it. */
pdl_status_t pdl__initial_match(pdl_initial_file_t *initial, const pdl_model_t *model,
                                const pdl_session_tensor_t *const *wanted, int count,
                                pdl__initial_match_t *matches);

#endif
