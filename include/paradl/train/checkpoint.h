/*
 * Checkpoints: everything a run needs to go on as if it had never stopped.
 *
 * A checkpoint folder holds complete checkpoints, `step-00001234` each, and nothing else of ours for longer
 * than it takes to write one. Each has `model.safetensors` (weights and statistics under the names of a PyTorch
 * state dict) and `state.safetensors` (the optimizer's moments and averages). Random numbers are counter-based,
 * so the state of sampler and generator is (seed, epoch, step), which the info holds. docs/checkpoint_format.md
 * has the details.
 *
 *     pdl_checkpoint_info_t info = {.step = 1234, .seed = 1, .model = "resnet50", ...};
 *     pdl_checkpoint_write("run1", &info, &model_part, &state_part, 2);
 *
 *     pdl_checkpoint_t *checkpoint;
 *     pdl_checkpoint_open("run1", &checkpoint);                    // the latest; or "run1/step-00001234"
 *     pdl_safetensors_find(pdl_checkpoint_model(checkpoint), "conv1.weight") ...
 *     pdl_checkpoint_close(checkpoint);
 *
 * Writing is not collective: one rank does it. A kill at any moment leaves the earlier checkpoints whole.
 */
#ifndef PARADL_CHECKPOINT_H
#define PARADL_CHECKPOINT_H

#include <paradl/base/status.h>
#include <paradl/comm/ranks.h>
#include <paradl/train/optimizer.h>
#include <paradl/train/safetensors.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_checkpoint_info {
    int64_t step;                 /* updates done since the beginning */
    int64_t epoch, step_in_epoch; /* where the sampler goes on */
    /* Sums over the epoch so far, or since its latest report: of losses, of correct predictions, of samples. 0 in
       checkpoints of the first version. */
    double                  loss_sum, accuracy_sum, sample_sum;
    uint64_t                seed;
    int64_t                 batch;      /* samples of an update, over all ranks */
    const char             *model;      /* its name */
    uint64_t                model_hash; /* pdl_model_hash() */
    pdl_optimizer_options_t optimizer;
    const char             *version; /* of paradl */
    const char *description;         /* the model as YAML, kept beside the tensors; NULL: only its name is known */
    /* More of the caller's, readable with pdl_safetensors_metadata() of the state: names of data, precision ...
       Keys do not begin with "paradl." Reading: NULL and 0. */
    const pdl_metadata_t *extra;
    int                   extra_count;
} pdl_checkpoint_info_t;

/* The tensors of one of the two files; `fill` writes tensor i, row-major and of the type declared. */
typedef struct pdl_checkpoint_part {
    const pdl_stored_t *tensors;
    int                 count;
    pdl_fill_fn_t       fill;
    void               *context;
} pdl_checkpoint_part_t;

#define PDL_CHECKPOINT_KEEP 2

/* Writes the checkpoint of info->step into `folder`, which is made if it is missing. Then all but the `keep` (>= 1)
   latest checkpoints that are not later than it are removed, and so is what killed writers left behind. Checkpoints
   that hold files of somebody else are not touched. On failure the folder is as it was. */
pdl_status_t pdl_checkpoint_write(const char *folder, const pdl_checkpoint_info_t *info,
                                  const pdl_checkpoint_part_t *model, const pdl_checkpoint_part_t *state, int keep);

/* The highest complete step in `folder`, or -1 when there is none (or no such folder). */
pdl_status_t pdl_checkpoint_latest(const char *folder, int64_t *step);

typedef struct pdl_checkpoint pdl_checkpoint_t;

/* `path`: a checkpoint folder (its latest is taken), one checkpoint in it, or a single safetensors file of whatever
   origin, which has neither info nor state. What has checksums is compared with them. Of a folder, the latest that
   is whole is taken; an error is that none is. */
pdl_status_t pdl_checkpoint_open(const char *path, pdl_checkpoint_t **checkpoint);
/* Collective. The first rank chooses, and all open what it chose. */
pdl_status_t pdl_checkpoint_open_together(pdl_ranks_t *ranks, const char *path, pdl_checkpoint_t **checkpoint);
/* One line on a later checkpoint that is damaged and what is taken instead; NULL where the latest was taken. Only on
   the rank that chose. */
const char *pdl_checkpoint_damage(const pdl_checkpoint_t *checkpoint);
/* Whether all of it has checksums: files of earlier versions and of others have none. */
bool        pdl_checkpoint_summed(const pdl_checkpoint_t *checkpoint);
void        pdl_checkpoint_close(pdl_checkpoint_t *checkpoint);      /* NULL is allowed */
const char *pdl_checkpoint_path(const pdl_checkpoint_t *checkpoint); /* the checkpoint that was chosen */
/* NULL for a single file. Strings live as long as the checkpoint. */
const pdl_checkpoint_info_t *pdl_checkpoint_info(const pdl_checkpoint_t *checkpoint);
const pdl_safetensors_t     *pdl_checkpoint_model(const pdl_checkpoint_t *checkpoint);
const pdl_safetensors_t     *pdl_checkpoint_state(const pdl_checkpoint_t *checkpoint); /* NULL for a single file */

/* PDL_OK when `file` holds the tensors `wanted`, by name and shape, of a type that converts to float, and no
   others; otherwise the message names the first that differs. Counters of PyTorch's batch norms
   (num_batches_tracked) are no difference. */
pdl_status_t pdl_checkpoint_compare(const pdl_safetensors_t *file, const pdl_stored_t *wanted, int count);

/* The same for the model of a checkpoint, which must also have been written for the model of this hash: equal
   tensors in another network (other strides, say) are another model. */
pdl_status_t pdl_checkpoint_check_model(const pdl_checkpoint_t *checkpoint, const char *model, uint64_t model_hash,
                                        const pdl_stored_t *wanted, int count);

#ifdef __cplusplus
}
#endif
#endif
