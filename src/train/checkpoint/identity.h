/*
 * What makes a run the run it is, besides model, batch, seed and optimizer, which checkpoints have anyway: data, loss and
 * the options that change what is computed. Internal to train.
 */
#ifndef PDL_TRAIN_IDENTITY_H
#define PDL_TRAIN_IDENTITY_H

#include <paradl/train/checkpoint.h>
#include <paradl/train/train.h>

#define PDL__IDENTITY_ENTRIES 64
#define PDL__IDENTITY_TEXT    160

/* As metadata of a checkpoint, under "run." and the option. */
typedef struct pdl__identity {
    pdl_metadata_t entry[PDL__IDENTITY_ENTRIES];
    char           key[PDL__IDENTITY_ENTRIES][32];
    char           text[PDL__IDENTITY_ENTRIES][PDL__IDENTITY_TEXT];
    int            count;
    char          *model; /* its description as YAML; or NULL */
} pdl__identity_t;

/* Collective. The first rank reads a few samples. */
pdl_status_t pdl__identity_create(const pdl_train_options_t *options, pdl__identity_t **identity);
void         pdl__identity_destroy(pdl__identity_t *identity); /* NULL is allowed */
/* What a run does otherwise than the checkpoint that it goes on from, and may: "--lr 0.01 instead of 0.02"; or "". */
typedef struct pdl__identity_change {
    char text[400];
} pdl__identity_change_t;
/* Whether a checkpoint is of this run; the message has what differs, as it was and as it is. What a checkpoint of the
   first version does not say is no difference, nor is the length of the run. */
pdl_status_t pdl__identity_check(const pdl__identity_t *identity, const pdl_optimizer_options_t *optimizer,
                                 const pdl_checkpoint_t *checkpoint, pdl__identity_change_t *change);

#endif
