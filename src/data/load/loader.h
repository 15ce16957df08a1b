/*
 * A loader from inside: its slots and workers. Internal to the room.
 */
#ifndef PDL_DATA_LOADER_H
#define PDL_DATA_LOADER_H

#include "data/image/augment.h"

#include <pthread.h>
#include <stdatomic.h>

#define MESSAGE_SIZE 512

typedef struct pdl__slot {
    int64_t             epoch, step, left; /* samples that are not prepared yet */
    float              *values, *numbers, *weight;
    int32_t            *tokens, *labels;
    uint8_t            *pixels;  /* instead of values, */
    pdl_image_change_t *changes; /* with what is to become of them */
    int64_t            *index;
    void               *memory; /* of all these but the indices */
    size_t              bytes;
    pdl_status_t        status;                /* of the first sample in the batch that failed */
    int64_t             failed;                /* its place */
    char                message[MESSAGE_SIZE]; /* errors belong to threads: the text is carried to the caller's */
} pdl__slot_t;

typedef struct pdl__loader_worker {
    pdl_loader_t *loader;
    pthread_t     thread;
    float        *values; /* a sample before it is moved */
    int32_t      *labels;
} pdl__loader_worker_t;

struct pdl_loader {
    pdl_loader_spec_t        spec;
    const pdl_source_info_t *info;
    int64_t                  elements, positions, chunk;
    bool                     moves;
    pdl_image_scale_t        scale;

    pdl__slot_t          *slots;
    int                   slot_count;
    pdl__loader_worker_t *workers;
    int                   started;

    pthread_mutex_t lock;
    pthread_cond_t  work;  /* something to do for workers, or the end */
    pthread_cond_t  ready; /* a batch is complete, or the workers have come to rest */
    /* Below: under the lock. Batch n is in slot n % slot_count. */
    int64_t     next;        /* batch that the caller gets next; it holds the one before */
    int64_t     filling;     /* batch whose samples are being given out */
    int64_t     given;       /* samples of it that were given out; -1: it is not open yet */
    int64_t     epoch, step; /* of the next batch to be opened */
    int         busy;        /* workers that prepare samples */
    bool        opening, holding, resting, stop;
    atomic_bool hurry; /* the end is near: leave samples unprepared */
};

/* prepare.c. By how much channels are shifted and scaled. */
pdl_image_scale_t pdl__loader_scale(const pdl_loader_t *loader);
/* The sample at a place of the batch in a slot. */
pdl_status_t pdl__loader_prepare(pdl__loader_worker_t *worker, pdl__slot_t *slot, int64_t place);

#endif
