/*
 * The oracle object and the pieces of a projection.
 */
#ifndef PDL_ORACLE_INTERNAL_H
#define PDL_ORACLE_INTERNAL_H

#include "oracle/cost/profile.h"
#include "oracle/cost/transfers.h"

enum { PDL_GROUP_SLOTS = 4096, PDL_PROFILE_SLOTS = 64, PDL_PLAN_SLOTS = 256 };

typedef struct pdl_group_slot {
    pdl_group_query_t query;
    pdl_group_t       group;
    bool              used;
} pdl_group_slot_t;

typedef struct pdl_profile_slot {
    uint64_t       key;
    pdl_profile_t *profile;
} pdl_profile_slot_t;

/* Modes do not depend on the micro-batch, so plans are kept apart from profiles; so are refusals. */
typedef struct pdl_plan_slot {
    bool         used;
    uint64_t     key, alike; /* alike: without the sizes of data axes */
    pdl_plan_t  *plan;       /* NULL when it was refused */
    pdl_status_t status;
    char         reason[160];
} pdl_plan_slot_t;

/* What the closed form needs to know of a plan or configuration. */
typedef struct pdl_case {
    int64_t         pe, pipeline, data, inner; /* inner: tensor and spatial axes together */
    int64_t         pipeline_stride, data_stride, inner_stride;
    int             part_order;          /* of a machine with several kinds of devices */
    uint64_t        places;              /* pdl__places_key() */
    int64_t         experts;             /* replicas that share experts out, neighbours; 1: none do */
    int64_t         outer, outer_stride; /* of these, the spatial one beside a tensor axis; 0: one axis only */
    int64_t         batch, micro_batches;
    double          micro_batch; /* samples per replica and micro-batch */
    bool            hybrid;      /* data beside another axis that splits tensors */
    bool            spatial;
    pdl_algorithm_t data_algorithm, inner_algorithm, outer_algorithm;
    pdl_pipeline_schedule_t schedule;
    int                     virtual_stages;
    pdl_recompute_t         recompute;
    bool                    block_segments; /* what is recomputed are blocks: logits and loss are not */
    pdl_sharding_t          sharding;
    pdl_tier_t              optimizer_tier, weights_tier;
    pdl_optimizer_t         optimizer;
    pdl_precision_t         precision;
    pdl_run_mode_t          run_mode;
    const pdl_dataset_t    *dataset;
} pdl_case_t;

/* Whether a pipeline leaves gradients of weights to passes of their own. */
static inline bool pdl__divides_passes(const pdl_case_t *c)
{
    return c->schedule == PDL_SCHEDULE_ZERO_BUBBLE && c->run_mode == PDL_TRAINING && c->pipeline > 1;
}

/* The passes of the latest case, of any sharding. */
typedef struct pdl__passes {
    pdl_case_t           key;
    const pdl_profile_t *profile; /* NULL: of none */
    const pdl_stages_t  *cut;
    double               drain_s;
    pdl_projection_t     projection;
} pdl__passes_t;

/* A bound of the passes of a pipeline, which several orders of the mesh and all shardings share. */
typedef struct pdl__kept_bound {
    const pdl_profile_t *profile; /* NULL: none */
    int64_t              pipeline, micro_batches;
    int                  virtual_stages;
    unsigned             schedule, recompute;
    uint64_t             places; /* pdl__places_key() */
    double               seconds;
} pdl__kept_bound_t;
enum { PDL_BOUND_SLOTS = 256 };

/* project/kept_replays.c */
typedef struct pdl__kept_replays pdl__kept_replays_t;
void                             pdl__kept_replays_free(pdl__kept_replays_t *kept);
/* cost/kept_schedules.c */
typedef struct pdl__kept_schedules pdl__kept_schedules_t;
void                               pdl__kept_schedules_free(pdl__kept_schedules_t *kept);

struct pdl_oracle {
    const pdl_model_t     *model;
    const pdl_system_t    *system;
    pdl_parameters_t       p;
    double                 memory_cap;
    pdl_group_slot_t      *groups; /* open addressing */
    int                    group_count;
    pdl_profile_slot_t     profiles[PDL_PROFILE_SLOTS];
    int                    profile_count;
    pdl_plan_slot_t        plans[PDL_PLAN_SLOTS];
    int                    plan_count;
    pdl__passes_t          passes;
    pdl__kept_bound_t      bounds[PDL_BOUND_SLOTS]; /* each in the place of its key */
    pdl__sends_cache_t    *sends;
    pdl__kept_replays_t   *replays;
    pdl__kept_schedules_t *schedules;
    struct pdl_backend    *backend; /* describes ops where memory is the trainer's own; NULL until asked for */
};

/* FNV-1a over 64-bit words, for the keys of what is kept. */
static inline uint64_t pdl__mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 29;
}

static inline uint64_t pdl__mix_text(uint64_t hash, const char *text)
{
    for (; text && *text; text++) hash = pdl__mix(hash, (unsigned char)*text);
    return pdl__mix(hash, 0);
}

/* Drops kept profiles (their memory is soon used again), and plans too, but not the prices of groups. */
void pdl__oracle_forget_profiles(pdl_oracle_t *oracle);
void pdl__oracle_forget(pdl_oracle_t *oracle);

static inline bool pdl__shares_experts(const pdl_config_t *config)
{
    return config->experts > 1;
}
/* Neighbours on the data axis that do: of each all ranks of a context axis are among them. */
static inline int64_t pdl__expert_replicas(const pdl_config_t *config)
{
    return config->experts > config->spatial ? config->experts / config->spatial : 1;
}
/* The mesh of a configuration. Neighbours of the data axis are an axis of their own where they share experts: the place of that one,
   else 0. */
int pdl__lay_out(const pdl_config_t *config, pdl_mesh_t *mesh);
/* The plan of a preset on a mesh, not yet checked. expert_axis: as in the options of a preset. */
pdl_status_t pdl__plan_of_config(pdl_oracle_t *oracle, const pdl_config_t *config, const pdl_mesh_t *mesh,
                                 int expert_axis, pdl_plan_t **plan);
/* Elements of which a share is what one of the replicas keeps and updates: those of experts have fewer replicas. */
static inline double pdl__shared_weights(const pdl_case_t *c, double weights, double expert_weights)
{
    return weights + (double)(c->experts - 1) * expert_weights;
}
pdl_status_t pdl__case_of_plan(pdl_oracle_t *oracle, const pdl_plan_t *plan, const pdl_dataset_t *dataset,
                               pdl_case_t *c);
/* oracle->backend becomes what describes ops as the trainer would compute them: the backend of the system, or where that cannot be
   had here the generic one. */
pdl_status_t pdl__describing_backend(pdl_oracle_t *oracle, const pdl_case_t *c);
/* A rank that holds as much as any. */
int64_t pdl__busy_rank(const pdl_mesh_t *mesh);

/* What a pipeline is cut into. The closed form counts memory and gradients of an interleaved one as if ranks had one stage
   each. */
typedef struct pdl__pipeline_cut {
    const pdl_stages_t *ranks, *virtual_stages;
} pdl__pipeline_cut_t;
/* `given`: the borders of the virtual stages; NULL: they take equally long. */
pdl_status_t pdl__case_stages(const pdl_case_t *c, pdl_profile_t *profile, const int *given,
                              pdl__pipeline_cut_t *cut);
/* Closed form over a profile cut into stages. */
pdl_status_t pdl__project_case(pdl_oracle_t *oracle, const pdl_case_t *c, pdl_profile_t *profile,
                               const pdl__pipeline_cut_t *cut, pdl_projection_t *projection);

/* Computation, exchanges in layers and the pipeline, into a projection of zeros. drain_s: from the last pass of the heaviest stage to
   that of the first. */
pdl_status_t pdl__project_passes(pdl_oracle_t *oracle, const pdl_case_t *c, pdl_profile_t *profile,
                                 const pdl__pipeline_cut_t *cut, double *drain_s, pdl_projection_t *projection);
/* Reading and decoding samples; staging_s: of it, decoding and passing on. */
double pdl__input_seconds(const pdl_oracle_t *oracle, const pdl_case_t *c, double *staging_s);

/* The parts of a step as they add up to its time and energy. */
typedef struct pdl__parts {
    double compute_s, comm[PDL_COMM_CLASS_COUNT], bubble_s, input_s;
} pdl__parts_t;
typedef struct pdl__sum {
    double comm_s, io_s, total_s, energy_j;
} pdl__sum_t;
/* Of the first `pe` devices of a machine that compute and wait for so long. */
double     pdl__energy(const pdl_system_t *system, int part_order, int64_t pe, double busy_s, double idle_s);
pdl__sum_t pdl__add_up(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl__parts_t *parts);

/* Totals, interval and energy from the parts of a projection; kappa is the congestion of the gradient exchange. */
void pdl__project_sums(const pdl_oracle_t *oracle, const pdl_case_t *c, double kappa, pdl_projection_t *projection);

/* Computation, update and the exchanges inside layers: what one iteration takes of a run of layers, gradient
   exchange left out. Additive over layers. */
double pdl__layers_seconds(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_profile_t *profile,
                           const pdl_sums_t *sums);

/* Whether backward makes a layer again, and what it repeats of a run of layers: the blocks of the profile's plan, or all or
   some of them by the rule of the case. */
bool                 pdl__recomputes(const pdl_case_t *c, const pdl_profile_t *profile, int layer);
pdl__repeated_t      pdl__repeated(const pdl_case_t *c, const pdl_sums_t *sums);
static inline double pdl__repeated_seconds(const pdl__repeated_t *r)
{
    return r->forward + r->layer + r->halo;
}

/* Of the rate of a link to the host: where the computation is faster than projected, copies that fill the link would hold it up. */
#define PDL__LINK_SHARE 0.7

/* What a device waits for a host that takes `host_s` to queue what the device does in `device_s`. */
double pdl__host_wait(const pdl_parameters_t *p, double host_s, double device_s);
/* The same of a run of layers between two prefix sums, a micro-batch. */
double pdl__run_wait(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_sums_t *a, const pdl_sums_t *b);

/* One micro-batch through the layers between two prefix sums, with what is computed again. */
double pdl__run_seconds(const pdl_case_t *c, const pdl_sums_t *before, const pdl_sums_t *after);
/* Fills in forward and pass of the profile. */
pdl_status_t pdl__sum_passes(const pdl_case_t *c, pdl_profile_t *profile);

/* Replaces the total of a projection of the case by what it takes when it is replayed; stages are cut to take equally long.
   The difference counts as bubble: to tell the parts apart takes more replays. */
pdl_status_t pdl__replay_case(pdl_oracle_t *oracle, const pdl_case_t *c, pdl_profile_t *profile,
                              pdl_projection_t *projection);

/* Gradient exchange of one stage: total time, and how much of it backward cannot hide. wide_s: of the total, what
   gradients take that are summed over an inner axis too; startup_s: what every bucket pays again. */
typedef struct pdl__gradient_cost {
    double total_s, exposed_s, wide_s, startup_s, phi, kappa;
    double gather_s; /* of the total, gathers of weights whose update is shared out; but of stage 3 */
} pdl__gradient_cost_t;
/* Of wide gradients, those that are summed over all inner axes, not over the spatial one alone. */
double pdl__inner_weights(const pdl_sums_t *sums);
/* Bytes of a gradient over those of a weight: 32-bit ones are summed up as such. */
double pdl__gradient_width(const pdl_parameters_t *p, pdl_precision_t precision);
/* Before overlap; of the sums only the gradients are read. */
pdl_status_t pdl__gradient_total(pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_sums_t *sums,
                                 double item_bytes, pdl__gradient_cost_t *exchange);
/* Whether gradients pass through host memory, which no network knows. */
bool pdl__gradients_by_host(const pdl_oracle_t *oracle, const pdl_case_t *c);
/* Weights that are sharded are gathered for every pass, one after the other: what this takes at the least. */
pdl_status_t pdl__least_gathers(pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_profile_t *profile,
                                double *seconds);
/* Whether inputs of recomputed blocks are kept by the host; how many elements those of a stage are, as a block of a transformer has two
   norms, whose inputs are as large as its own; what the device waits for them in an update. */
bool         pdl__checkpoints_on_host(const pdl_oracle_t *oracle, const pdl_case_t *c);
double       pdl__checkpoint_elements(const pdl_sums_t *sums);
double       pdl__checkpoint_seconds(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_profile_t *profile,
                                     const pdl_sums_t *sums);
pdl_status_t pdl__gradient_exchange(pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_profile_t *profile,
                                    const pdl_stages_t *stages, pdl__gradient_cost_t *exchange);

/* What an exchange adds to the passes: as far as backward and stages that still work do not overlap it, and by which it slows down
   computation. drain_s: of pdl__project_passes(). */
typedef struct pdl__beside {
    double exposed_s, slowdown_s;
} pdl__beside_t;
pdl__beside_t pdl__exchange_beside(const pdl_oracle_t *oracle, const pdl_stages_t *stages,
                                   const pdl__gradient_cost_t *exchange, double drain_s);

pdl_status_t pdl__project_memory(pdl_oracle_t *oracle, const pdl_case_t *c, pdl_profile_t *profile,
                                 const pdl_stages_t *stages, pdl_projection_t *projection);

/* What plans of so many stages may use of a device; what the stages of a case may use, of one device each. */
double pdl__memory_room(const pdl_oracle_t *oracle, int64_t pipeline);
double pdl__memory_rooms(const pdl_oracle_t *oracle, const pdl_case_t *c);

/* Bytes of a weight, and of the optimizer's moments of it. 8-bit formats are for products only: weights stay in 16 bits. */
double pdl__weight_bytes(const pdl_case_t *c);
double pdl__moment_bytes(const pdl_case_t *c);
/* Seconds in which a rank updates its share of a stage, and of what an update takes besides its operations. */
double pdl__stage_update_seconds(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_profile_t *profile,
                                 const pdl_sums_t *sums);
/* The same of the heaviest stage, or where devices differ of the one that takes longest. */
double pdl__longest_update(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_profile_t *profile,
                           const pdl_stages_t *stages);

/* Bytes of weight, gradient and optimizer state that one rank keeps per weight element; without gradients, which frameworks
   keep in other ways. */
double pdl__state_bytes(const pdl_case_t *c);
double pdl__least_state_bytes(const pdl_case_t *c);

/* The steps of an evaluation, for who evaluates many that differ in a little: what is asked, whether it can be, and the costs of
   layers, which belong to the oracle and last until the next question about others. */
void pdl__case_of_config(const pdl_oracle_t *oracle, const pdl_config_t *config, const pdl_dataset_t *dataset,
                         pdl_case_t *c);
pdl_status_t pdl__check_config(const pdl_oracle_t *oracle, const pdl_config_t *config, const pdl_case_t *c);
pdl_status_t pdl__config_profile(pdl_oracle_t *oracle, const pdl_config_t *config, const pdl_case_t *c,
                                 pdl_profile_t **profile);

/* Whether layers can be split as the configuration says, whatever its batch. */
pdl_status_t pdl__check_split(pdl_oracle_t *oracle, const pdl_config_t *config);

/* Bounds for pruning; cheap once the profile is kept. What a micro-batch takes in all layers together, each on the fastest device: */
pdl_status_t pdl__least_pass(pdl_oracle_t *oracle, const pdl_config_t *config, double *seconds);
/* a time that no partition into stages can beat, */
pdl_status_t pdl__lower_bound(pdl_oracle_t *oracle, const pdl_config_t *config, double *seconds);
/* and ones that replaying the configuration with its partition cannot: by its passes, which are the same for all shardings (one above
   enough_s may be found to be lower, but not lower than that; 0: none), */
pdl_status_t pdl__replay_bound(pdl_oracle_t *oracle, const pdl_config_t *config, double enough_s, double *seconds);
/* and by its gathers, of a configuration that is possible: */
pdl_status_t pdl__gather_bound(pdl_oracle_t *oracle, const pdl_config_t *config, double *seconds);
/* Whether a configuration fits in memory, without the rest of its projection. */
pdl_status_t pdl__fits(pdl_oracle_t *oracle, const pdl_config_t *config, bool *fits);
/* pdl_oracle_evaluate() of a configuration, replayed. */
pdl_status_t pdl__evaluate_replayed(pdl_oracle_t *oracle, const pdl_config_t *config, const pdl_dataset_t *dataset,
                                    pdl_projection_t *projection);

void pdl__find_limits(const pdl_oracle_t *oracle, const pdl_case_t *c, pdl_projection_t *projection);

#endif
