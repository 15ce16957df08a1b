/*
 * Measuring this machine: what a device (one rank with some cores, or a GPU) computes and moves, layer by layer,
 * and what messages between ranks, memory and storage take. The result is a system description for the oracle.
 *
 *     pdl_calibration_options_t options = {.ranks = ranks, .threads = 1, .talk = stderr};
 *     pdl_calibration_t *calibration;
 *     pdl_calibrate(&options, &calibration);           // on every rank
 *     pdl_calibration_write(calibration, "here", stream);
 *     pdl_calibration_destroy(calibration);
 */
#ifndef PARADL_CALIBRATE_H
#define PARADL_CALIBRATE_H

#include <paradl/base/status.h>
#include <paradl/comm/ranks.h>
#include <paradl/system/system.h>
#include <paradl/tensor/backend.h>
#include <stdbool.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PDL_CALIBRATION_MODELS 16

/* What computes in place of processor cores: its times are those of its events. */
typedef struct pdl_calibration_device {
    const char *backend; /* as system descriptions name it */
    char        name[128], versions[160];
    double      memory_bytes;
    int         units; /* multiprocessors */
    int         count; /* on this node; ranks beyond that share them */
    pdl_status_t (*create)(const struct pdl_calibration_device *device, pdl_dtype_t precision,
                           pdl_backend_t **backend);
    void *context;
} pdl_calibration_device_t;

typedef struct pdl_calibration_options {
    pdl_ranks_t                    *ranks;      /* borrowed; all of this node */
    const pdl_calibration_device_t *device;     /* borrowed; NULL: processor cores */
    int                             threads;    /* of a rank */
    const char *models[PDL_CALIBRATION_MODELS]; /* whose layers are timed beside those of the standard ones */
    int         model_count;
    bool        quick; /* fewer models, shapes and repetitions */
    FILE       *talk;  /* progress; NULL: none */
} pdl_calibration_options_t;

/* One size of a message (two ranks) or of an allreduce of gradients (all). */
typedef struct pdl_calibrated_message {
    bool   allreduce;
    double bytes, seconds;
} pdl_calibrated_message_t;
#define PDL_CALIBRATION_MESSAGES 32
#define PDL_CALIBRATION_SIZES    8

typedef struct pdl_calibration {
    char   date[32], processor[128], topology[192], libraries[160];
    char   backend[16];
    int    ranks, threads;                 /* cores of a rank; multiprocessors of a device */
    int    devices;                        /* as many as ranks, or fewer, which these share */
    double flop_per_s_alone, flop_per_s;   /* of a device in 32 bits: the others idle; all at work */
    double half_flop_per_s;                /* in bf16; 0: not measured */
    double bytes_per_s_alone, bytes_per_s; /* of memory, likewise */
    double memory_bytes;                   /* of a device */
    bool   graphs;                         /* operations are replayed */
    double host_bytes;                     /* of the host, for one of its devices; 0: it is the device's */
    double host_update_bytes_per_s;        /* read and written by its processors in an update, for one device */
    double copy_bytes_per_s;               /* of a piece of a tensor into another one, all ranks at work */
    double matrix_efficiency, memory_efficiency, launch_s;
    /* Where the host queues work for a device: the host's time for a kernel, and the device's for one that does nothing; the
       host's for a pass of a layer, and what an update takes besides; of its speed, what ranks reach together that share it. */
    double          kernel_queue_s, kernel_gap_s, queue_s, step_s, sharing;
    double          slice_s;                     /* for which ranks that share a device have it in turn */
    double          issue_s;                     /* of queue_s, what is not the kernels' */
    pdl_host_size_t host[PDL_CALIBRATION_SIZES]; /* copies to and from the host */
    int             host_count;
    double          latency_s, link_bytes_per_s; /* between ranks; 0 where there is only one */
    double          storage_bytes_per_s;         /* 0: could not be measured */
    double          samples_per_s;               /* read, decoded and normalised by one thread */

    pdl_calibrated_message_t message[PDL_CALIBRATION_MESSAGES];
    int                      message_count;
    pdl_measured_t          *row;
    int                      row_count, row_capacity;
    pdl_timed_op_t          *operation; /* with keys of their own */
    int                      operation_count, operation_capacity;
    double                   elapsed_s;
} pdl_calibration_t;

/* Collective; the result is the same on all ranks but for the rows, which are those of rank 0. */
pdl_status_t pdl_calibrate(const pdl_calibration_options_t *options, pdl_calibration_t **calibration);
void         pdl_calibration_destroy(pdl_calibration_t *calibration); /* NULL is allowed */
/* A system description. */
pdl_status_t pdl_calibration_write(const pdl_calibration_t *calibration, const char *name, FILE *stream);

#ifdef __cplusplus
}
#endif
#endif
