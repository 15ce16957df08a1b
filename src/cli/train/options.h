/*
 * The options of training: what they are called, and what they come to.
 */
#ifndef PDL_CLI_TRAIN_OPTIONS_H
#define PDL_CLI_TRAIN_OPTIONS_H

#include "cli/commands.h"
#include "cli/device.h"
#include "cli/train/sampling_options.h"

#include <paradl/train/train.h>

typedef struct pdl__train_values {
    pdl__sampling_values_t sampling;
    pdl__lora_values_t     lora;
    pdl__device_t          device; /* what device_text comes to */
    const char *model, *data, *strategy, *mesh, *log, *trace, *checkpoint, *init, *augment, *system, *vocabulary,
        *algorithm, *state_dir, *milestones, *device_text;
    int64_t pe, epochs, steps, batch, micro_batches, seed, threads, loader_threads, warmup, valid_every,
        checkpoint_every, keep, samples, virtual_stages, rank, restarts, sparse_warmup;
    double lr, momentum, weight_decay, beta1, beta2, epsilon, clip, ema, label_smoothing, min_lr, gamma, power,
        trust, bucket, gradient_sparsity, max_memory, stall_timeout;
    int  optimizer, schedule, precision, recompute, sharding, pipeline_schedule, transport, sparse_momentum;
    bool nesterov, elastic, decay_all, resume, overwrite, sync_batch_norm, no_overlap, direct, no_valid,
        no_normalise, init_strict, json, quiet, optimizer_given, momentum_given, lr_given, steps_given;
} pdl__train_values_t;

extern const pdl__option_t pdl__train_option_table[];

/* The mesh that --mesh asks for. */
pdl_status_t pdl__train_mesh(const char *text, pdl_mesh_t *mesh);
/* Everything but plan, backend, ranks and sources. */
pdl_status_t pdl__train_options_from(const pdl__train_values_t *values, pdl_train_options_t *options);

#endif
