/*
 * The state of samples in a checkpoint: partitions as they were when the epoch began, and what is known of every sample.
 */
#include "train/sampling/parts.h"
#include <stdlib.h>
#include <string.h>

static const char partition_name[] = PDL__EXTRA "partition", losses_name[] = PDL__EXTRA "losses";

static bool saves_partitions(const pdl__sampling_t *s)
{
    return s->options->sampling.shuffle.kind != PDL_SHUFFLE_GLOBAL;
}

bool pdl__sampling_plain(const pdl__sampling_t *s)
{
    return !saves_partitions(s) && !s->hide;
}

pdl_status_t pdl__sampling_save(pdl__sampling_t *s, pdl__extras_t *extras)
{
    pdl_status_t status = PDL_OK;

    *extras = (pdl__extras_t){0};
    if (saves_partitions(s)) {
        int64_t *numbers = NULL, count = 0;
        status = pdl_shuffle_save(s->shuffle, &numbers, &count);
        if (!status) extras->extra[extras->count++] = (pdl__extra_t){partition_name, false, count, numbers};
    }
    if (!status && s->hide) {
        int64_t bytes = pdl_hide_state_bytes(s->hide);
        void   *state = malloc((size_t)bytes);
        status = pdl_ranks_agree(s->options->session.ranks,
                                 state ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory for a checkpoint"));
        if (!status) status = pdl_hide_combine(s->hide, s->options->session.ranks);
        if (!status) pdl_hide_save(s->hide, state);
        if (status)
            free(state);
        else
            extras->extra[extras->count++] = (pdl__extra_t){losses_name, true, bytes, state};
    }
    if (status) pdl__extras_free(extras);
    return status;
}

/* Finds what this run needs, and refuses a checkpoint of a run that had it otherwise. */
static pdl_status_t find_extra(const pdl_checkpoint_t *checkpoint, const char *name, bool wanted, bool bytes,
                               const char *option, const pdl_stored_t **found)
{
    const pdl_stored_t *stored = pdl_safetensors_find(pdl_checkpoint_state(checkpoint), name);

    *found = stored;
    if (!!stored != wanted)
        return pdl_error(PDL_ERR_INPUT, "%s was written %s %s: resume with the same options",
                         pdl_checkpoint_path(checkpoint), wanted ? "without" : "with", option);
    if (stored && (stored->type != (bytes ? PDL_STORED_U8 : PDL_STORED_I64) || stored->rank != 1))
        return pdl_error(PDL_ERR_INPUT, "%s: %s is not what a run has written", pdl_checkpoint_path(checkpoint),
                         name);
    return PDL_OK;
}

static pdl_status_t restore_partition(pdl__sampling_t *s, const pdl_stored_t *stored, bool inside)
{
    /* A copy, because tensors of a file are not aligned. */
    int64_t     *numbers = malloc((size_t)stored->dims[0] * sizeof(*numbers) + 1);
    pdl_status_t status = numbers ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory for the partitions");

    if (numbers) memcpy(numbers, stored->data, (size_t)stored->dims[0] * sizeof(*numbers));
    status = pdl_ranks_agree(s->options->session.ranks, status);
    if (!status) status = pdl_shuffle_restore(s->shuffle, numbers, stored->dims[0], inside);
    free(numbers);
    return status;
}

pdl_status_t pdl__sampling_restore(pdl__sampling_t *s, const pdl_checkpoint_t *checkpoint, bool inside)
{
    const pdl_stored_t *partition, *losses;
    pdl_status_t        status = find_extra(checkpoint, partition_name, saves_partitions(s), false,
                                            "--shuffle local, partial or paired", &partition);

    if (!status)
        status = find_extra(checkpoint, losses_name, s->hide != NULL, true, "--hide or --shuffle paired", &losses);
    if (!status && losses) status = pdl_hide_restore(s->hide, losses->data, losses->dims[0], inside);
    status = pdl_ranks_agree(s->options->session.ranks, status);
    if (!status && partition) status = restore_partition(s, partition, inside);
    return status;
}
