/*
 * Prices of single operations: what a layer costs on one rank, what a collective costs on a group of the mesh.
 */
#ifndef PDL_ORACLE_COST_H
#define PDL_ORACLE_COST_H

#include <paradl/model/traits.h>
#include <paradl/oracle/prices.h>

/* Device and parameters folded together once, so that pricing a layer is arithmetic only. */
typedef struct pdl_compute_cost {
    double                flop_per_s; /* reachable, for this precision */
    double                convolution_flop_per_s, winograd_flop_per_s;
    double                bytes_per_s; /* reachable memory bandwidth */
    double                kernel_s;
    double                item_bytes;
    double                cast_bytes; /* moved per factor of a product in a narrow format; 0 for other precisions */
    double                factor_bytes; /* of a product, an element without its scale */
    double                attention_flop_per_s, expert_flop_per_s;
    double                plain_flop_per_s; /* of products that are not for tensor cores */
    double                wide_flop_per_s;  /* of products that stay in 16 bits beside narrow ones */
    double                narrow_tile;
    bool                  causal_skip, fused_attention, fused_softmax;
    double                norm_factor, batch_norm_factor, loss_bytes, few_channels;
    bool                  autocast; /* in this precision */
    bool                  fused_elements;
    double                units; /* SMs of the device, where kernels take time by their shape; else 0 */
    double                attention_backward; /* rate of attention's backward over that of forward */
    double                dilation;           /* time over that of a rank which has its device to itself */
    double                step_s;             /* of an update besides its operations */
    const pdl_measured_t *measured; /* layers as they were measured, some of them in this precision; or NULL */
    int                   measured_count;
    pdl_precision_t       precision;
    const pdl_model_t    *model; /* says what a layer follows; without it nothing measured is used */
} pdl_compute_cost_t;

/* `device`: one of the system's. */
void pdl__compute_cost(const pdl_system_t *system, const pdl_device_t *device, const pdl_parameters_t *p,
                       pdl_precision_t precision, pdl_compute_cost_t *cost);

/* shapes.c: seconds of a product of m x k and k x n elements, where large ones reach `flop_per_s`. */
double pdl__product_seconds(const pdl_compute_cost_t *cost, double flop_per_s, double m, double n, double k);
/* Share of the rate of long sequences with large heads that attention reaches; `heads` over all samples. */
double pdl__attention_share(const pdl_compute_cost_t *cost, double heads, double tokens, double head_size);

/* Seconds of forward and backward of one layer on one rank for one micro-batch. */
void pdl__layer_seconds(const pdl_compute_cost_t *cost, const pdl_layer_t *layer, const pdl_local_t *local,
                        double *forward_s, double *backward_s);

/* measured.c: whether layers of a machine were measured in a precision. */
bool pdl__measured_in(const pdl_system_t *system, pdl_precision_t precision);
/* Corrects projected seconds by the measured layers that are like this one. */
void pdl__measured_apply(const pdl_compute_cost_t *cost, const pdl_measured_t *row, double seconds[2]);
/* timed.c: an operation with this key (pdl_op_key) and number of samples, as it was timed by itself; false where it was not. */
bool pdl__timed(const pdl_system_t *system, uint64_t key, pdl_precision_t precision, double samples,
                pdl_timed_op_t *timed);
/* Seconds of updating `weights` elements in `tensors` tensors, and of what an update takes besides its operations. */
double pdl__update_seconds(const pdl_parameters_t *p, const pdl_compute_cost_t *cost, pdl_optimizer_t optimizer,
                           double weights, double tensors);

pdl_status_t pdl__group(const pdl_system_t *system, const pdl_parameters_t *p, const pdl_group_query_t *query,
                        pdl_group_t *group);

/* schedules.c: by which formula a schedule is priced, with nothing counted yet. Borrows the name. */
pdl_algorithm_t pdl__algorithm(const pdl_system_t *system, const pdl_plan_collective_t *named);
/* What one collective takes by a schedule that is counted; PDL_ERR_LIMIT where there is none for it. */
pdl_status_t pdl__count_collective(const pdl_system_t *system, const pdl_parameters_t *p,
                                   const pdl_group_query_t *query, const pdl_plan_collective_t *named,
                                   pdl_collective_t collective, pdl_schedule_cost_t *cost);
#define PDL__DIRECT_NAME 32
/* Sums by all schedules that may be chosen for a group which a network joins that is not a tree. */
pdl_status_t pdl__count_sums(const pdl_system_t *system, const pdl_parameters_t *p, const pdl_group_query_t *query,
                             pdl_group_t *group);
/* Ranks `stride` apart that enter such a network by one switch; 0 where that is one, or no such network is there. */
int64_t pdl__switch_ranks(const pdl_system_t *system, int64_t stride);
/* The name of a schedule for direct networks with the shape of the system's network as ranks `stride` apart see it: "multiport:4" on a
   torus of four nodes a side, say. */
pdl_status_t pdl__direct_name(const pdl_system_t *system, int64_t stride, const char *name,
                              char shaped[PDL__DIRECT_NAME]);
double       pdl__counted_seconds(const pdl_algorithm_t *algorithm, pdl_primitive_t primitive, double bytes);

/* The part of a collective that does not shrink with the volume. */
double pdl__collective_startup(const pdl_group_t *group, pdl_primitive_t primitive);

/* One message through host memory: what exceeds the pinned buffers goes at pageable speed. */
double pdl__host_seconds(const pdl_parameters_t *p, const pdl_group_t *group, double bytes);

#endif
