/*
 * What planning needs to know of a data set: how many samples of which shape and size. Reading the samples
 * themselves is the business of the data module.
 */
#ifndef PARADL_DATASET_H
#define PARADL_DATASET_H

#include <paradl/model.h>
#include <paradl/status.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_dataset {
    char        name[64];
    int64_t     samples;             /* in one epoch; 0: unlimited (synthetic) */
    pdl_shape_t shape;               /* of one sample as stored; rank 0 and channels 0 when it does not matter */
    double      bytes_per_sample;    /* as read from storage */
    double      decode_s_per_sample; /* on one core; 0 when nothing is decoded */
} pdl_dataset_t;

/* A built-in name (share/data) or the path of a .yaml file. */
pdl_status_t pdl_dataset_load(const char *name_or_path, pdl_dataset_t *dataset);
pdl_status_t pdl_dataset_read_memory(const char *text, size_t length, const char *name, pdl_dataset_t *dataset);

#ifdef __cplusplus
}
#endif
#endif
