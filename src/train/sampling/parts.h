/*
 * Inside the sampling of a run.
 */
#ifndef PDL_TRAIN_SAMPLING_PARTS_H
#define PDL_TRAIN_SAMPLING_PARTS_H

#include "train/exec/session.h"
#include "train/sampling/sampling.h"

struct pdl__sampling {
    const pdl_train_options_t *options;
    pdl_session_t             *session;
    pdl_shuffle_t             *shuffle;
    pdl_hide_t                *hide; /* NULL: losses are not kept */
    pdl_store_t               *store;
    pdl_loader_t              *loader;
    pdl_source_t              *source; /* what is loaded from: the store's, or the one of the options */
    int32_t                   *labels; /* of all samples; NULL where nobody asks */
    int64_t                    epochs, epoch, steps;
    int64_t                    batch; /* of all workers */
};

/* What is loaded of a training set; the caller adds the order. */
pdl_loader_spec_t pdl__sampling_loader(pdl__sampling_t *sampling);

/* sampling_refresh.c: a pdl_logits_fn_t whose confidence is the greatest share that a sample has of a class in its batch: the
   softmax goes over samples, as in the published program of KAKURENBO. */
void pdl__batch_confidence(void *context, const pdl_logits_t *logits);
/* sampling_refresh.c: a forward pass over the hidden samples of this rank, whose results are noted. */
pdl_status_t pdl__sampling_refresh(pdl__sampling_t *sampling);
/* Takes down what the session knows of the samples of a batch, the first of which is at `position` of the epoch. */
pdl_status_t pdl__sampling_note(pdl__sampling_t *sampling, const pdl_batch_t *batch, int64_t position);

#endif
