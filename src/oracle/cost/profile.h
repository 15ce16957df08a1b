/*
 * The cost profile of one cut: everything about a program that does not depend on how many pipeline stages,
 * micro-batches or data-parallel replicas there are. Kept between projections.
 */
#ifndef PDL_ORACLE_PROFILE_H
#define PDL_ORACLE_PROFILE_H

#include "oracle/cost/cost.h"

/* Forward work that backward repeats. */
typedef struct pdl__repeated {
    double forward, layer, halo; /* seconds, as the sums have them */
    double queue;
} pdl__repeated_t;

/* Costs of a run of layers on the busiest rank, one micro-batch. Differences of prefix sums. */
typedef struct pdl_sums {
    double forward, backward;             /* computation, framework time included */
    double layer_forward, layer_backward; /* collectives in layers */
    double halo_forward, halo_backward;
    double queue_forward, queue_backward; /* host time to queue all of it */
    double startup;                       /* of layer collectives, the volume-free part */
    double allreduce;                     /* of layer collectives, those that sum */
    double later, later_queue; /* of backward, gradients of weights that a later pass may make; queueing them */
    double matrix;             /* of computation, convolutions and linear layers */
    double attention;          /* forward of attention: what selective recompute repeats */
    double attention_scores;   /* elements of unfused scores */
    double replicated;         /* computation that other ranks do as well */
    double weights, tensors;   /* local elements that are trained; tensors */
    double frozen;             /* local elements that are not */
    double data_weights, data_tensors;   /* partial over the data axes only */
    double full_weights;                 /* of the same layers, all elements */
    double wide_weights, wide_tensors;   /* partial over the data axes and an inner one */
    double outer_weights, outer_tensors; /* of these, over a spatial axis alone where there is a tensor axis too */
    double expert_weights, expert_tensors; /* over data axes, but that on which replicas share experts out */
    double inner_expert_weights,
        inner_expert_tensors;      /* of these, over an inner axis too: a context axis whose ranks have the same */
    double host_gradients;         /* seconds to pass those through host memory once */
    double host_replicated;        /* the same for weights of layers left whole */
    double attentions;             /* layers */
    double outside, outside_queue; /* forward of logits and loss, which belong to no block, and its host time */
    double norm_inputs, pool_outputs, logits; /* elements that a framework may keep in other formats */
    pdl__repeated_t blocks;                   /* of layers in blocks that the plan has recomputed */
} pdl_sums_t;

enum { PDL_GRADIENT_POINTS = 16 };

/* Bytes that one micro-batch of a stage keeps for backward, and that are held besides for a while. */
typedef struct pdl__stage_load {
    int                 stage;
    const pdl_device_t *device;           /* that has the least room, of those the stage is on */
    double              elements, frozen; /* of weights that are trained, and that are not */
    double              expert_elements;  /* of those that are trained, that fewer replicas have */
    double              saved_bytes, transient_bytes, logits;
    double              later_bytes; /* after its backward pass, where gradients of weights are made later */
} pdl__stage_load_t;
/* By recomputation, one more where the host keeps what is kept; all again where passes are divided. */
#define PDL__LOAD_SETS (2 * (PDL_RECOMPUTE_COUNT + 1))

/* Activations of the stages. */
typedef struct pdl__stage_memory {
    int                      kind_count; /* 0: not known yet */
    int                     *kinds;      /* first stage of each kind: alike ones that follow need no more memory */
    pdl_activation_memory_t *memory;     /* per stage */
    pdl__stage_load_t       *load;       /* sets of room for all stages: of those that may need the most memory */
    int                      loads[PDL__LOAD_SETS]; /* how many these are; 0: not known */
} pdl__stage_memory_t;

/* Stage partition for one pipeline depth. */
typedef struct pdl_stages {
    int64_t count;
    /* Of every stage, the kinds of devices it is on, and the profile for these; NULL: of the profile that is cut. */
    unsigned            *kinds;
    struct pdl_profile **on;
    uint64_t             places; /* of the case, by which they are found again */
    bool                 alike;  /* a layer takes all stages as long */
    bool                 given;  /* not the partition of this profile */
    int                 *first;  /* count + 1 */
    pdl_sums_t *sums;    /* per stage; NULL, and all that follows not known, where only borders were asked for */
    double     *seconds; /* forward + backward with collectives, one micro-batch */
    double      total, slowest;
    int         slowest_stage, heaviest_stage; /* in time; in weights */
    double      border_elements;               /* largest border between stages */
    struct pdl__stage_memory *held;            /* filled in when it is asked for */
    double                   *cuts;            /* per stage: places where only one tensor crosses */
    double                   *tied;            /* per stage: elements of weights that another stage owns */
    double                    tied_elements;   /* the most of these */
    /* For the heaviest stage: when the gradients of the last `weights` elements begin to be ready, in seconds
       after the start of backward, for overlap. */
    double ready[PDL_GRADIENT_POINTS], remaining[PDL_GRADIENT_POINTS];
    double remaining_wide[PDL_GRADIENT_POINTS]; /* of these, summed over an inner axis too */
    int    points;
} pdl_stages_t;

/* Bytes of activations of a rank that places its buffers, and what they were found for. */
typedef struct pdl__placed {
    double          micro_batch;
    bool            accumulates;
    pdl_recompute_t recompute;
    pdl_run_mode_t  run_mode;
    pdl_precision_t precision;
    int             threads; /* 0: of nothing */
    double          saved, arena;
} pdl__placed_t;
#define PDL__PLACED 8

/* Of machines with several kinds of devices there is a profile for every set of kinds that a stage is on: of a layer the slowest of them
   decides. All are made from the first, which is that of all kinds, and borrow its plan and partition (kinds.c). */
typedef struct pdl_profile {
    pdl_oracle_t       *oracle;
    unsigned            kinds;                     /* 0: all devices are alike */
    const pdl_device_t *device;                    /* or what those of these kinds have at the least */
    pdl_device_t        weakest;                   /* room for this */
    pdl_compute_cost_t  slower[PDL_MAX_PARTS - 1]; /* besides `compute` */
    int                 slower_count;
    struct pdl_profile *other[1u << PDL_MAX_PARTS]; /* by their kinds; of the first */
    pdl_plan_t         *plan;                       /* owned copy: modes, mesh without data and pipeline */
    pdl_partition_t    *partition;
    pdl_sums_t         *prefix;  /* layer_count + 1 */
    double             *borders; /* filled in when a pipeline asks for them */
    bool                borders_known;
    int                *single; /* borders that one tensor only crosses, ascending */
    int                 single_count;
    bool                even_stages; /* by blocks, not by time */
    double              send_share;  /* of what crosses a border of stages, that a rank sends */
    double             *run;         /* prefix sums of all that a micro-batch spends in a layer */
    double *balance; /* the same with what its host takes, by which stages are cut; NULL: hosts take none */
    double *forward; /* of its forward pass */
    double *later;   /* of backward, what may be made later; and of all with what is computed again: */
    double *pass[PDL_RECOMPUTE_COUNT]; /* filled in for a case (pdl__case_stages) */
    pdl_compute_cost_t compute;
    double             largest_transfer; /* bytes, for buffers */
    pdl_stages_t     **stages;           /* kept partitions */
    int                stage_sets;
    pdl__placed_t      placed[PDL__PLACED]; /* the latest */
    int                next_placed;
} pdl_profile_t;

/* What pricing a layer needs to know of the groups of a mesh. */
typedef struct pdl_pricing {
    pdl_oracle_t           *oracle;
    const pdl_system_t     *system;
    const pdl_parameters_t *p;
    pdl_profile_t          *profile;
    pdl_group_t             group[PDL_MAX_AXES];  /* ring pattern per axis */
    pdl_group_t             halo[PDL_MAX_AXES];   /* neighbour pattern */
    pdl_group_t             staged[PDL_MAX_AXES]; /* ring through host memory */
    pdl_group_t             pairwise[PDL_MAX_AXES];
    pdl_algorithm_t         algorithm[PDL_MAX_AXES];
    pdl_group_t             leaders;    /* one rank per node through host memory */
    bool                    rings_only; /* only `group` and `leaders` are needed */
} pdl_pricing_t;

/* Fills in the groups of the profile's mesh. */
pdl_status_t pdl__price_groups(pdl_pricing_t *pricing);
/* Seconds in which a rank copies what stays with it when a tensor is redistributed; 0 where nothing is known of it. */
double pdl__copy_seconds(const pdl_pricing_t *pricing, const pdl_transfer_t *transfer);
/* Bytes by which a transfer is priced: of the complete vector of a group, or, of an all-to-all, of what a rank has of it. */
double pdl__transfer_bytes(const pdl_profile_t *profile, const pdl_transfer_t *transfer);
/* Adds the closed form of one transfer of the profile's program to the sums. */
/* Whether replicas exchange tokens for their experts; what that takes, whatever the schedules of their axis. */
bool   pdl__to_experts(const pdl_profile_t *profile, const pdl_transfer_t *transfer);
double pdl__route_seconds(const pdl_pricing_t *pricing, const pdl_transfer_t *transfer);
void   pdl__price_transfer(const pdl_pricing_t *pricing, const pdl_transfer_t *transfer, pdl_sums_t *sums);
/* Whether a parameter switch leaves a transfer out. */
bool pdl__transfer_skipped(const pdl_pricing_t *pricing, const pdl_transfer_t *transfer);
/* Adds the costs of one compiled layer of the profile's program to the sums. */
void pdl__price_layer(const pdl_pricing_t *pricing, int index, pdl_sums_t *sums);

/* Of the backward pass of a layer, what makes the gradients of weights. */
double pdl__weight_share(const pdl_layer_t *layer, const pdl_local_t *local);

/* Whether a pass of its own may make them: both gradients are products. */
bool pdl__divides_backward(const pdl_layer_t *layer);

/* The loss, and the logits that it reads: no part of a block. */
bool pdl__outside_blocks(const pdl_model_t *model, int index);

/* What computation takes where ranks share a device, over what it takes a rank that has it to itself. */
double pdl__dilation(const pdl_device_t *device, const pdl_plan_t *plan);

/* kinds.c */
/* Those of a machine; 0: all devices are alike. */
unsigned pdl__all_kinds(const pdl_system_t *system);
/* Computation of the profile is priced for these kinds. */
void pdl__profile_computes(pdl_profile_t *profile, const pdl_pricing_t *pricing, unsigned kinds);
/* The profile of the same layers for these kinds; belongs to the first. */
pdl_status_t pdl__profile_for(pdl_profile_t *profile, unsigned kinds, pdl_profile_t **other);
/* Forward and backward of a layer on the slowest of its devices. */
void pdl__slowest_seconds(const pdl_profile_t *profile, const pdl_layer_t *layer, const pdl_local_t *local,
                          double *forward_s, double *backward_s);
/* Of updating weights likewise. */
double pdl__slowest_update(const pdl_parameters_t *p, const pdl_profile_t *profile, pdl_optimizer_t optimizer,
                           double weights, double tensors);
/* Bytes per second that a pass over memory reaches. */
double pdl__slowest_memory(const pdl_profile_t *profile);
/* The prices of layers where stage k computes. */
static inline const pdl_profile_t *pdl__profile_on(const pdl_profile_t *profile, const pdl_stages_t *stages,
                                                   int64_t k)
{
    return stages->on != NULL ? stages->on[k] : profile;
}
/* Frees a profile that borrows from another one. */
void pdl__profile_unborrow(pdl_profile_t *profile);
/* Whether no other pattern of a group than the ring is asked for. */
bool pdl__uses_rings_only(const pdl_partition_t *partition);
/* Fills in the prices of its layers. */
void pdl__price_all(const pdl_pricing_t *pricing);

/* `plan` gives modes, mesh and policies; `micro_batch` samples per replica. */
pdl_status_t pdl__profile_create(pdl_oracle_t *oracle, const pdl_plan_t *plan, double micro_batch,
                                 pdl_profile_t **profile);
void         pdl__profile_destroy(pdl_profile_t *profile);

/* The partition into `count` stages, on the devices of the case, with the smallest slowest stage, or the given one. */
struct pdl_case;
pdl_status_t pdl__profile_stages(const struct pdl_case *c, pdl_profile_t *profile, int64_t count, const int *given,
                                 const pdl_stages_t **stages);
/* Borders of stages with so many blocks of a transformer each; false where the model has others. */
bool pdl__stages_of_blocks(const pdl_profile_t *profile, int64_t count, const int64_t *blocks, int *first);
/* Where the block of an attention begins: at the last border before it that one tensor only crosses. */
int pdl__block_begin(const pdl_profile_t *profile, int attention);
/* Elements that a rank sends over the border in front of a layer; borders are known. */
static inline double pdl__sent_elements(const pdl_profile_t *profile, int layer)
{
    return profile->send_share * profile->borders[layer];
}
/* Their borders alone. */
pdl_status_t pdl__profile_runs(const struct pdl_case *c, pdl_profile_t *profile, int64_t count, const int *given,
                               const pdl_stages_t **stages);
/* Finds out which kinds of stages there are, and what their activations take. */
void pdl__stages_memory(const pdl_profile_t *profile, const pdl_stages_t *stages);
void pdl__stages_destroy(pdl_stages_t *stages);

#endif
