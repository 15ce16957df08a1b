/*
 * What planning needs to know of a data set: how many samples of which shape, size and target, and whether a model
 * can read them. Reading the samples themselves is the business of the data module.
 */
#ifndef PARADL_DATASET_H
#define PARADL_DATASET_H

#include <paradl/base/status.h>
#include <paradl/model/model.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pdl_target {
    PDL_TARGET_CLASS,  /* one class a sample */
    PDL_TARGET_TOKENS, /* the next token at every position */
    PDL_TARGET_MASK,   /* a class at every position of the sample */
    PDL_TARGET_VALUES  /* numbers (regression) */
} pdl_target_t;

typedef struct pdl_dataset {
    char         name[64];
    int64_t      samples;      /* in one epoch; 0: unlimited (synthetic) */
    pdl_shape_t  shape;        /* of one sample as stored; rank 0 and channels 0 when it does not matter */
    bool         tokens;       /* samples are token indices, not numbers */
    int64_t      classes;      /* labels are below it; of tokens, the vocabulary; 0: not known */
    int64_t      target_count; /* labels or numbers per sample; 0: not known, nor is the target */
    pdl_target_t target;
    double       bytes_per_sample;    /* as read from storage */
    double       decode_s_per_sample; /* on one core; 0 when nothing is decoded */
} pdl_dataset_t;

/* A built-in name (share/data) or the path of a .yaml file. */
pdl_status_t pdl_dataset_load(const char *name_or_path, pdl_dataset_t *dataset);
pdl_status_t pdl_dataset_read_memory(const char *text, size_t length, const char *name, pdl_dataset_t *dataset);

/* The number of different tokens a model can read, 0 when it reads numbers. */
int64_t pdl_model_vocabulary(const pdl_model_t *model);
/* The layer that compares with the target, NULL when there is none. */
const pdl_layer_t *pdl_model_loss(const pdl_model_t *model);

/* Whether images of one shape can be scaled, cropped and coloured to another. */
bool pdl_shape_scales(const pdl_shape_t *stored, const pdl_shape_t *asked);
/* From samples as stored to samples as the readers hand them to a model (docs/data_formats.md): tokens in windows of its
   sequence, so that their number changes; pictures in its size; samples of any shape in its shape. */
void pdl_dataset_deliver(const pdl_model_t *model, pdl_dataset_t *dataset);
/* Whether these samples, as delivered, can be fed to this model: shape and vocabulary and, for training, targets and
   classes. The message says what differs. */
pdl_status_t pdl_dataset_check(const pdl_model_t *model, const pdl_dataset_t *dataset, bool training);
/* Whether a data set of so many samples (0: unlimited) has enough for one update. */
pdl_status_t pdl_dataset_check_batch(const char *name, int64_t samples, int64_t batch);

#ifdef __cplusplus
}
#endif
#endif
