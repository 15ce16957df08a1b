/*
 * Projections as the published ParaDL program makes them (--formulas orig), faults included, so that its numbers
 * can be reproduced and compared with. docs/oracle.md gives the formulas and lists the faults.
 *
 *     pdl_orig_case_t   question = {.model = model, .split = flags, .system = system,
 *                                   .dataset_samples = 1280000, .pe = 16, .batch = 1024};
 *     pdl_orig_result_t answer;
 *     if (pdl_orig_project(&question, "data", &answer)) return ...;
 *     printf("%g s + %g s per epoch\n", answer.compute_s, answer.comm_s);
 *
 * It works on layer tables (.net and .lc files); other models are taken as the chain of their layers, in which
 * types that the program does not know cost no time.
 */
#ifndef PARADL_ORIG_H
#define PARADL_ORIG_H

#include <paradl/base/status.h>
#include <paradl/model/model.h>
#include <paradl/oracle/search.h>
#include <paradl/system/system.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A .plat file. The program reads the speed of the network and then ignores it, and so do we. */
typedef struct pdl_orig_platform {
    double  memory_bytes; /* of one device */
    double  flop_per_s;   /* of one device, for models without measured times */
    double  bandwidth_bytes_per_s, latency_s;
    int64_t max_pe, pe_per_node;
} pdl_orig_platform_t;

pdl_status_t pdl_orig_read_plat(const char *path, pdl_orig_platform_t *platform);

typedef struct pdl_orig_case {
    const pdl_model_t         *model;
    const bool                *split;    /* of each layer of the model (pdl_model_read_lc); NULL: all are split */
    const pdl_system_t        *system;   /* start-up time and bandwidth of its levels; its device, unless ... */
    const pdl_orig_platform_t *platform; /* ... this one replaces memory, speed and size of a node; or NULL */
    int64_t                    dataset_samples;
    int64_t                    pe;       /* p */
    int64_t                    groups;   /* p1 of the hybrids; 0: a group is a node */
    int64_t                    batch;    /* samples per weight update, over all devices */
    int64_t                    segments; /* micro-batches of the pipeline; 0: as many as devices */
    double divisor; /* of the bandwidth where groups contend; 0: twice the devices of a group, as published */
} pdl_orig_case_t;

#define PDL_ORIG_REASON_SIZE 160

typedef struct pdl_orig_result {
    double  compute_s, comm_s; /* per epoch; comm_s is the sum of the next five */
    double  gradient_s;        /* exchange of weight gradients */
    double  collective_s;      /* in the layers, forward and backward: filter, channel */
    double  halo_s, gather_s;  /* spatial: borders; joining the pieces after the last split layer */
    double  transfer_s;        /* between the stages of a pipeline */
    double  memory_bytes;      /* of the device that needs most */
    double  samples_fit; /* samples of a device (data), of a group (hybrids) or of the batch (others) for which
                                  the memory would suffice; below 1: not even for one */
    int64_t iterations;  /* per epoch */
    bool    fits;        /* memory_bytes is at most what a device has. The program does not ask this of a batch
                                  that was set by hand, but for filter and channel */
    bool    feasible;    /* what the program, or a limit of the strategy, refuses is not */
    char    reason[PDL_ORIG_REASON_SIZE]; /* why not; else "" */
} pdl_orig_result_t;

/* serial, data, spatial, filter, channel, pipeline, data+filter, data+spatial; then NULL. */
const char *pdl_orig_strategy_name(int i);

/* An infeasible case is no error. One that exceeds a limit of its strategy has no times and no memory; one that the
   program refuses for its memory has both. */
pdl_status_t pdl_orig_project(const pdl_orig_case_t *question, const char *strategy, pdl_orig_result_t *result);

/* Samples per update when `samples` is what a device (data) or a group (hybrids) holds at any number of devices; the other
   strategies keep the batch (weak scaling of the program). `groups` as in the case. */
pdl_status_t pdl_orig_batch(const pdl_orig_case_t *question, const char *strategy, int64_t samples, int64_t *batch);

/* The strategy asked for, or all of them (NULL), ranked by the time of an epoch, per iteration as pdl_search_run()
   gives them but without plans and intervals. The layers that are split come from NAME.filter.lc, NAME.channel.lc
   and NAME.spatial.lc beside the table `model_name` where these exist. question->batch holds for all strategies;
   when it is 0, `samples` does by pdl_orig_batch(), and when that is 0 too, as many as fit, at most 64. */
pdl_status_t pdl_orig_search(const pdl_orig_case_t *question, const char *model_name,
                             const pdl_strategy_t *strategy, int64_t samples, pdl_search_t **search);

/* Operations of forward and backward for one sample as the program counts them. */
double pdl_orig_flop(const pdl_layer_t *layer);

/* Seconds per sample of each layer, pdl_model_layer_count of them: the sum of the measured times is spread by
   operations, however many layers have one. Without any, operations over `flop_per_s`. */
pdl_status_t pdl_orig_layer_seconds(const pdl_model_t *model, double flop_per_s, double *seconds);

#ifdef __cplusplus
}
#endif
#endif
