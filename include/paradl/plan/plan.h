/*
 * A plan says how a model is cut over a machine: mesh, a mode for every layer and axis, pipeline, memory
 * policy, collectives. It is what `paradl plan` writes and every other verb reads.
 *
 *     pdl_plan_t *plan;
 *     pdl_mesh_t  mesh = {{{PDL_AXIS_DATA, 128, 0}, {PDL_AXIS_TENSOR, 4, 0}}, 2};
 *     pdl_plan_create(model, &mesh, 8192, &plan);
 *     pdl_plan_apply_preset(plan, "data+filter", NULL);
 *     if (pdl_plan_check(plan)) puts(pdl_error_message());
 *     pdl_plan_destroy(plan);
 */
#ifndef PARADL_PLAN_H
#define PARADL_PLAN_H

#include <paradl/base/status.h>
#include <paradl/coll/coll.h>
#include <paradl/model/model.h>
#include <paradl/plan/mesh.h>
#include <paradl/plan/strategy.h>
#include <paradl/system/system.h>
#include <stdbool.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How an operation runs on one axis. */
typedef enum pdl_mode {
    PDL_MODE_PASS, /* keep the placement of the input where the operation allows it, else replicate */
    PDL_MODE_REPLICATE,
    PDL_MODE_SAMPLE,
    PDL_MODE_SPACE,      /* the axis' extent; a sequence: tokens */
    PDL_MODE_FILTER,     /* output channels (column) */
    PDL_MODE_CHANNEL,    /* input channels (row) */
    PDL_MODE_HEADS,      /* attention by whole key-value groups */
    PDL_MODE_VOCABULARY, /* embedding and cross-entropy */
    PDL_MODE_EXPERT,     /* mixture of experts by whole experts */
    PDL_MODE_COUNT
} pdl_mode_t;
extern const char *const pdl_mode_names[PDL_MODE_COUNT];

typedef enum pdl_pipeline_schedule {
    PDL_SCHEDULE_GPIPE,
    PDL_SCHEDULE_1F1B,
    PDL_SCHEDULE_INTERLEAVED,
    PDL_SCHEDULE_ZERO_BUBBLE,
    PDL_SCHEDULE_COUNT
} pdl_pipeline_schedule_t;
typedef enum pdl_recompute {
    PDL_RECOMPUTE_NONE,
    PDL_RECOMPUTE_SELECTIVE,
    PDL_RECOMPUTE_FULL,
    PDL_RECOMPUTE_COUNT
} pdl_recompute_t;
/* What becomes of the activations of a block of layers between forward and backward. */
typedef enum pdl_memory_policy {
    PDL_MEMORY_KEEP,
    PDL_MEMORY_RECOMPUTE,       /* what other blocks read is kept, the rest is made again */
    PDL_MEMORY_SWAP,            /* copied to the host in forward, and back in backward */
    PDL_MEMORY_SWAP_BOUNDARY,   /* what it reads of other blocks is copied so, the rest is made again */
    PDL_MEMORY_RECOMPUTE_CHEAP, /* outputs of norms, activations and sums are made again, the rest is kept */
    PDL_MEMORY_SWAP_CHEAP,      /* or copied */
    PDL_MEMORY_POLICY_COUNT
} pdl_memory_policy_t;
/* Where state is kept that is not needed all the time. */
typedef enum pdl_tier { PDL_TIER_DEVICE, PDL_TIER_HOST, PDL_TIER_DISK, PDL_TIER_COUNT } pdl_tier_t;
typedef enum pdl_sharding {
    PDL_SHARDING_NONE,
    PDL_SHARDING_ZERO1,
    PDL_SHARDING_ZERO2,
    PDL_SHARDING_ZERO3,
    PDL_SHARDING_COUNT
} pdl_sharding_t;
typedef enum pdl_optimizer {
    PDL_OPTIMIZER_SGD,
    PDL_OPTIMIZER_MOMENTUM,
    PDL_OPTIMIZER_ADAM,
    PDL_OPTIMIZER_COUNT
} pdl_optimizer_t;
typedef enum pdl_run_mode { PDL_TRAINING, PDL_INFERENCE } pdl_run_mode_t;

extern const char *const pdl_schedule_names[PDL_SCHEDULE_COUNT];
extern const char *const pdl_recompute_names[PDL_RECOMPUTE_COUNT];
extern const char *const pdl_memory_policy_names[PDL_MEMORY_POLICY_COUNT]; /* keep recompute swap ... */
extern const char *const pdl_tier_names[PDL_TIER_COUNT];                   /* device host disk */
extern const char *const pdl_sharding_names[PDL_SHARDING_COUNT];
extern const char *const pdl_optimizer_names[PDL_OPTIMIZER_COUNT];

/* How samples reach the workers, and how many are left out: docs/data_policy.md. The names are those of the training
   options. */
typedef enum pdl_policy_shuffle {
    PDL_POLICY_GLOBAL,
    PDL_POLICY_LOCAL,
    PDL_POLICY_PARTIAL,
    PDL_POLICY_PAIRED,
    PDL_POLICY_SHUFFLE_COUNT
} pdl_policy_shuffle_t;
extern const char *const pdl_policy_shuffle_names[PDL_POLICY_SHUFFLE_COUNT]; /* global local partial paired */
/* Where samples are read: the parallel file system that all nodes share, or the storage of the node. */
typedef enum pdl_policy_store { PDL_POLICY_PFS, PDL_POLICY_NODE, PDL_POLICY_STORE_COUNT } pdl_policy_store_t;
extern const char *const pdl_policy_store_names[PDL_POLICY_STORE_COUNT]; /* pfs local */

typedef struct pdl_data_policy {
    bool                 given; /* false: the plan says nothing, and the rest is as after default() */
    pdl_policy_shuffle_t shuffle;
    double               exchange;      /* Q: share of a worker's samples that changes hands in an epoch */
    pdl_policy_store_t   store;         /* pfs only with global */
    double               hide;          /* F: share of the samples that is hidden at most; 0: none */
    double               hide_mean;     /* expected mean over the run of what is really hidden, at most F */
    int64_t              refresh_every; /* hidden samples are looked at every so many epochs; 0: never */
} pdl_data_policy_t;

/* Share of F that is hidden on average when nothing better is known: factors 1, 0.8, 0.6 and 0.4 that change after
   3/10, 6/10 and 8/10 of the run, and no candidate moved back. */
#define PDL_POLICY_HIDE_MEAN 0.74

/* Global from the parallel file system, nothing hidden, refreshed every epoch. */
pdl_data_policy_t pdl_data_policy_default(void);
/* "partial:0.1,hide:0.3,mean:0.2,refresh:1,store:local"; everything after the first part is optional. */
pdl_status_t pdl_data_policy_parse(const char *text, pdl_data_policy_t *policy);
/* The same form, without what is as usual; returns `text`. */
#define PDL_POLICY_TEXT_SIZE 128
char        *pdl_data_policy_format(const pdl_data_policy_t *policy, char text[PDL_POLICY_TEXT_SIZE]);
pdl_status_t pdl_data_policy_check(const pdl_data_policy_t *policy);

/* The schedule of the collectives on an axis (paradl/plan/collectives.h). */
typedef struct pdl_plan_collective {
    char    algorithm[PDL_COLL_NAME_SIZE]; /* a name of paradl/coll; "": open, as "auto" in a file */
    int64_t ranks_per_node;                /* of a group, for schedules that look at it; 0: 1 */
    double  density; /* of sparse sums of gradients: share of the elements that a rank sends; 0: they are dense */
} pdl_plan_collective_t;

/* Modes of one layer, an entry per axis of the mesh. */
typedef struct pdl_modes {
    uint8_t on[PDL_MAX_AXES];
} pdl_modes_t;

/* Consecutive layers with one memory policy: those behind the block before it, up to `last`. */
typedef struct pdl_plan_block {
    int                 last;
    pdl_memory_policy_t policy;
    /* Swapped: memory is released when so many further blocks have been computed, and copying back begins when so many are
       left before the one that needs it; 0 stands for 1. */
    int release_after, prefetch;
} pdl_plan_block_t;

typedef struct pdl_plan {
    const pdl_model_t *model; /* borrowed */
    char               strategy[32];
    pdl_mesh_t         mesh;
    int64_t            batch;         /* samples per weight update, over all ranks */
    int64_t            micro_batches; /* per update and data-parallel replica */
    pdl_modes_t       *modes;         /* one per layer */
    /* First layer of each virtual stage, pdl_plan_stage_count() of them, and the number of layers. Virtual stage k is
       number k / P of rank k % P on a pipeline axis of P. */
    int *stage_first;
    bool stages_given; /* fixed: written in a file, or chosen for a machine; otherwise the oracle balances them */
    pdl_pipeline_schedule_t schedule;
    int                     virtual_stages; /* per rank; 1 unless interleaved: pdl_plan_set_virtual_stages() */
    pdl_recompute_t         recompute;      /* the rule for all layers, where there are no blocks */
    pdl_plan_block_t       *block;          /* together all layers; none lies in two virtual stages */
    int                     block_count;    /* 0: every virtual stage is a block */
    pdl_tier_t     optimizer_tier; /* of the optimizer's state: beyond the device it passes through in pieces */
    pdl_tier_t     weights_tier;   /* device or host: from there they come before every use */
    pdl_tier_t     update_tier;    /* device or host: whose processors update weights that are on the host */
    pdl_sharding_t sharding;
    bool           sequence_parallel; /* the stretches between tensor-split pairs are split along the sequence */
    bool           sync_batch_norm;
    pdl_plan_collective_t collective[PDL_MAX_AXES];
    pdl_optimizer_t       optimizer;
    pdl_precision_t       precision;
    pdl_run_mode_t        run_mode;
    pdl_data_policy_t     data_policy;
    /* Of a machine with several kinds of devices, its parts in the order in which ranks are on them; none: as the machine has them. */
    char part[PDL_MAX_PARTS][PDL_PART_NAME];
    int  part_count;
    char stage_devices
        [256]; /* which stage is on which of them, in words, where that is known: a comment of the file */
} pdl_plan_t;

/* All layers in mode PASS, one stage per pipeline rank with equal shares of the operations, SGD with momentum, fp32. */
pdl_status_t pdl_plan_create(const pdl_model_t *model, const pdl_mesh_t *mesh, int64_t batch, pdl_plan_t **plan);
pdl_status_t pdl_plan_copy(const pdl_plan_t *plan, pdl_plan_t **copy);
void         pdl_plan_destroy(pdl_plan_t *plan);
/* Virtual stages of all ranks of the pipeline axis together. */
int64_t pdl_plan_stage_count(const pdl_plan_t *plan);
/* So many virtual stages on every rank of the pipeline axis, with equal shares of the operations: what is known without a
   machine. */
pdl_status_t pdl_plan_set_virtual_stages(pdl_plan_t *plan, int64_t count);
/* Gives the layers blocks instead of one rule; none: `recompute` holds again. pdl_plan_check() says what is wrong with them. */
pdl_status_t pdl_plan_set_blocks(pdl_plan_t *plan, const pdl_plan_block_t *blocks, int count);
/* The block of a layer, and its policy: the one place where it is decided what is kept. */
int                 pdl_plan_block_of(const pdl_plan_t *plan, int layer);
pdl_memory_policy_t pdl_plan_memory_policy(const pdl_plan_t *plan, int layer);
/* Whether the policy copies tensors to the host and back; whether it makes all again that other blocks do not read, or only
   what is cheap. */
bool pdl_memory_swaps(pdl_memory_policy_t policy);
bool pdl_memory_recomputes(pdl_memory_policy_t policy);
bool pdl_memory_recomputes_cheap(pdl_memory_policy_t policy);
/* Whether a layer is one of those that are cheap: it passes over memory and makes as much as it reads. */
bool pdl_layer_is_cheap(const pdl_layer_t *layer);
/* Whether the forward work of a layer is repeated in backward. */
bool pdl_plan_recomputes(const pdl_plan_t *plan, int layer);
/* Whether ranks of a data axis share out the experts of a layer: mode EXPERT, where all other layers split samples. */
bool pdl_plan_shares_experts(const pdl_plan_t *plan, int layer, int axis);
/* The innermost data axis on which some layer does so, or -1. */
int pdl_plan_expert_axis(const pdl_plan_t *plan);
/* How many ranks of the axes of a kind share the experts of some layer out. */
int64_t pdl_plan_expert_ranks(const pdl_plan_t *plan, pdl_axis_kind_t kind);
/* Leaves out the axes of size 1 with what is said about them, which nothing depends on. */
void pdl_plan_drop_unit_axes(pdl_plan_t *plan);

typedef struct pdl_preset_options {
    bool        published;     /* the forms of the published study: gather after every layer, linear layers whole */
    const char *spatial_until; /* last layer split in space, or NULL: as long as pieces hold the halo */
    bool        keep_small;    /* a layer that is too small for the axis stays whole instead of being refused */
    int         expert_axis; /* the data axis on which replicas share out experts too, and a context axis with them; 0, which is none of a
                                mesh of several: none */
} pdl_preset_options_t;

/* Sets the modes and the name of a strategy (strategy.h). The mesh must have the axes of the strategy (others of size 1).
   options may be NULL. */
pdl_status_t pdl_plan_apply_preset(pdl_plan_t *plan, const char *strategy, const pdl_preset_options_t *options);

/* Whether a layer can run in a mode on an axis of this size; if not, the reason ("has 64 filters") is put
   into `why` (may be NULL). */
bool pdl_mode_allowed(const pdl_layer_t *layer, pdl_mode_t mode, const pdl_axis_t *axis, char *why,
                      size_t why_size);

/* The largest size of an axis of this kind for which every layer the preset splits is allowed; *limiting is
   that layer. */
int64_t pdl_preset_limit(const pdl_model_t *model, const pdl_strategy_t *strategy,
                         const pdl_preset_options_t *options, int *limiting_layer);
/* The largest number that divides the key-value heads of every attention layer, as the ranks must that share them out over all axes
   together; 0: there is no attention. */
int64_t pdl_preset_heads(const pdl_model_t *model);
/* The same of experts; 0: there is no mixture. */
int64_t pdl_preset_experts(const pdl_model_t *model);
/* What that layer has, of which the limit is made: "64 filters", "8 key-value heads for its 64 heads". */
char *pdl_preset_describe_limit(const pdl_model_t *model, const pdl_strategy_t *strategy,
                                const pdl_preset_options_t *options, int limiting_layer, char *text, size_t size);

/* Everything that can be wrong with a plan, before anything starts: batch against axes, modes against layers,
   stages. The message names the layer and what would be allowed. */
pdl_status_t pdl_plan_check(const pdl_plan_t *plan);
/* Whether so many samples of a replica make up so many micro-batches, none of them empty. */
pdl_status_t pdl_plan_check_micro_batches(int64_t parts, int64_t samples);

/* Results of the oracle that a plan file carries for later comparison. */
typedef struct pdl_plan_projection {
    double iteration_s, low_s, high_s, compute_s, comm_s, io_s, bubble_s, memory_bytes;
} pdl_plan_projection_t;

/* The plan file (docs/plan_format.md), without axes of size 1. `model_name` is what pdl_model_load() was given, NULL for the model's own
   name; system_name, data_name and projection may be NULL. */
pdl_status_t pdl_plan_write(const pdl_plan_t *plan, const char *model_name, const char *system_name,
                            const char *data_name, const pdl_plan_projection_t *projection, FILE *stream);
typedef struct pdl_plan_file {
    pdl_model_t          *model; /* owned */
    pdl_plan_t           *plan;
    char                  model_name[1024], system_name[1024], data_name[1024]; /* "" when absent */
    char                  note[512]; /* one line on a path that was found elsewhere than beside the plan, or "" */
    bool                  has_projection;
    pdl_plan_projection_t projection;
} pdl_plan_file_t;
/* Paths in the file are relative to it; names and absolute paths are what they are. */
pdl_status_t pdl_plan_read(const char *path, pdl_plan_file_t *file);
pdl_status_t pdl_plan_read_memory(const char *text, size_t length, const char *name, pdl_plan_file_t *file);
void         pdl_plan_file_free(pdl_plan_file_t *file);

#ifdef __cplusplus
}
#endif
#endif
