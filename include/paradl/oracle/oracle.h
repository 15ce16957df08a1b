/*
 * The oracle: projects compute, communication, input and memory of a plan on a system, says what limits it,
 * and searches for the best plan.
 *
 *     pdl_oracle_t *oracle;
 *     pdl_oracle_create(model, system, parameters, &oracle);
 *     pdl_projection_t projection;
 *     pdl_oracle_project(oracle, plan, dataset, &projection);
 *     printf("%g s per iteration\n", projection.total_s);
 *
 * Layer costs come from the compiled program of the plan (paradl/program.h) and are kept per (modes, mesh,
 * micro-batch), so that projecting another batch, pipeline depth or data width of the same cut takes well under a
 * microsecond.
 */
#ifndef PARADL_ORACLE_H
#define PARADL_ORACLE_H

#include <paradl/base/status.h>
#include <paradl/base/units.h>
#include <paradl/base/yaml.h>
#include <paradl/model/dataset.h>
#include <paradl/plan/partition.h>
#include <paradl/plan/plan.h>
#include <paradl/system/system.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Parameters of the cost model. Each has a physical meaning; 0 where the table says so means "as the system
   description says". X(field, default, low, high, fitted, unit, meaning); low and high bound the fit. */
/* clang-format off */
#define PDL_PARAMETER_MAP(X)                                                                                     \
    X(matrix_efficiency, 0, .2, 1, 1, NONE, "share of the peak that convolutions and 32-bit products reach; 0: system") \
    X(winograd_gain, 1, 1, 2.25, 1, NONE, "speed-up of 3x3 convolutions with stride 1 over direct ones")         \
    X(tensor_efficiency, 0, .05, 1, 1, NONE, "share of the peak that 16-bit products reach; 0: system")          \
    X(product_gain, 1, 1, 1.7, 0, NONE, "rate of large 16-bit products over the mean rate that the system states, where kernels have shapes") \
    X(attention_efficiency, 0, .05, 1, 0, NONE, "share of the 16-bit peak that attention kernels reach; 0: as products") \
    X(attention_flop_per_s, 0, 0, 1e16, 0, FLOP_RATE, "most that attention kernels reach on any device; 0: no bound") \
    X(convolution_efficiency, 0, .02, 1, 0, NONE, "share of the 16-bit or TF32 peak of convolutions; 0: as products") \
    X(expert_efficiency, 0, .05, 1, 0, NONE, "share of the peak that experts' products reach; 0: as other products") \
    X(memory_efficiency, 0, .3, 1, 1, NONE, "share of the memory bandwidth that element-wise layers reach; 0: system") \
    X(few_channels, 0, 0, 64, 0, NONE, "channels that a convolution of fewer than 8 takes as long as, with tensor cores; 0: as many as it has") \
    X(norm_factor, 1, 1, 4, 0, NONE, "time of a norm over rows beside one that reads them once") \
    X(batch_norm_factor, 1, 1, 4, 0, NONE, "time of a norm over samples beside one that reads them twice") \
    X(loss_bytes, 0, 0, 100, 0, BYTES, "moved per logit by a loss in separate kernels, forward and backward; 0: fused") \
    X(kernel_s, 0, 1e-6, 3e-4, 1, SECONDS, "least time of a kernel; 0: system")                                  \
    X(layer_s, 0, 1e-6, 1e-3, 1, SECONDS, "framework time per layer, forward and backward together")             \
    X(queue_layer_s, 0, 1e-6, 2e-3, 0, SECONDS, "host time to queue a layer, forward and backward; shows where the device is faster") \
    X(dispatch_s, 0, 1e-6, 1e-3, 0, SECONDS, "host time of an operation that is called alone, forward") \
    X(dispatch_backward_s, 0, 1e-6, 1e-3, 0, SECONDS, "the same of its backward, called alone") \
    X(queue_element_s, 0, 1e-6, 2e-3, 0, SECONDS, "the same of a layer without a product; 0: as any layer") \
    X(queue_step_s, 0, 1e-6, 2e-2, 0, SECONDS, "host time of an update besides its layers") \
    X(queue_blend, 0, 0, 20, 0, NONE, "exponent with which host and device add up; 0: the slower one alone counts") \
    X(queue_call_s, 0, 1e-6, 2e-3, 0, SECONDS, "host time to queue a collective inside a layer")                 \
    X(layer_overlap, 0, 0, 1, 0, NONE, "share of the bytes of collectives in layers that move beside products") \
    X(expert_overlap, 0, 0, 1, 0, NONE, "share of what tokens take to experts of other ranks and back that is beside the computation of another micro-batch") \
    X(split_layer_s, 0, 1e-5, 1e-2, 1, SECONDS, "more framework time for a layer split by filters or channels")  \
    X(split_piece_s, 0, 1e-6, 1e-3, 1, SECONDS, "and per gathered piece of a filter-split layer")                \
    X(narrow_tile, 16, 1, 64, 1, NONE, "channels per rank below which a kernel loses speed in proportion")       \
    X(update_bytes_per_s, 0, 1e9, 5e11, 1, BYTE_RATE, "weights updated per second by an update that is not fused")\
    X(update_tensor_s, 2e-6, 1e-7, 1e-3, 1, SECONDS, "time per weight tensor in the update")                     \
    X(fabric_efficiency, .85, .3, 1, 1, NONE, "share of the link speed inside a node")                           \
    X(network_efficiency, .85, .3, 1, 1, NONE, "share of the link speed between nodes")                          \
    X(fabric_step_s, 0, 1e-6, 1e-4, 1, SECONDS, "start-up of one step inside a node; 0: system")                 \
    X(network_step_s, 0, 1e-6, 3e-4, 1, SECONDS, "start-up of one step between nodes; 0: system")                \
    X(call_s, 1e-5, 1e-5, 2e-3, 1, SECONDS, "cost of calling a collective inside a layer")                       \
    X(pack_tensor_s, 0, 1e-6, 1e-3, 1, SECONDS, "cost of packing one gradient tensor")                           \
    X(pack_bytes_per_s, 0, 2e9, 3e11, 1, BYTE_RATE, "speed of packing and unpacking gradients; 0: no cost")      \
    X(tensor_exchange_s, 2e-5, 1e-5, 3e-3, 1, SECONDS, "cost of exchanging one gradient tensor on its own")      \
    X(skew_s_per_rank, 0, 1e-6, 1e-3, 1, SECONDS, "waiting for late ranks in the gradient exchange, per rank")   \
    X(host_efficiency, .8, .02, 1, 1, NONE, "share of the link speed of transfers staged through host memory")   \
    X(host_step_s, 0, 1e-6, 5e-3, 1, SECONDS, "start-up of a step through host memory; 0: system")               \
    X(pinned_bytes, 0, 8e6, 2e9, 1, BYTES, "largest message staged through pinned memory; 0: no bound")          \
    X(pageable_bytes_per_s, 0, 2e8, 5e9, 1, BYTE_RATE, "speed of what exceeds it, and of checkpoints that the host keeps; 0: those cost no time")                               \
    X(bucket_bytes, 25e6, 1e6, 1e9, 0, BYTES, "gradients exchanged at a time while backward runs")               \
    X(overlap_slowdown, 1.05, 1, 2, 0, NONE, "slow-down of computation while collectives run")                   \
    X(memory_margin, 1.1, 1, 2, 0, NONE, "fragmentation: memory needed over memory used")                        \
    X(loss_forward_bytes, 0, 0, 32, 0, BYTES, "per logit, that the loss has allocated at the end of forward, besides the logits") \
    X(loss_backward_bytes, 0, 0, 32, 0, BYTES, "the same while its backward runs")                           \
    X(pool_index_bytes, 0, 0, 8, 0, BYTES, "kept per output of a max pooling: where its maximum was") \
    X(gradient_bytes, 0, 0, 8, 0, BYTES, "of a gradient, with copies; 0: as the precision and wide_gradients say") \
    X(update_gradient_bytes, 0, 0, 8, 0, BYTES, "of a gradient that an update makes of its share of the weights, besides the one of backward") \
    X(workspace_bytes, 256e6, 0, 4e9, 0, BYTES, "scratch memory of kernels")                                     \
    X(compute_deviation, .1, 0, 2, 0, NONE, "standard deviation of ln(measured / projected) of computation")     \
    X(comm_deviation, .25, 0, 2, 0, NONE, "the same of communication")                                           \
    X(interval_width, 1.645, 0, 10, 0, NONE, "half-width of the 90 % interval in those deviations")            \
    X(estimate_width, .65, 0, 3, 0, NONE, "least half-width of that interval, in ln, where nothing was measured") \
    X(machine_width, .25, 0, 3, 0, NONE, "the same where the parameters were fitted, but not on this machine")
/* clang-format on */

/* What a framework does differently from the ideal; docs/oracle.md, "What the measured runs taught". */
/* clang-format off */
#define PDL_SWITCH_MAP(X)                                                                                        \
    X(overlap_gradients, 1, "gradient exchange runs during backward")                                            \
    X(overlap_stages, 1, "transfers between pipeline stages run during computation")                             \
    X(zero_bubble, 1, "pipelines may make gradients of weights later than those of inputs, when a stage would wait")  \
    X(offload_activations, 1, "what forward keeps may be copied to the host and back, where the device has no room") \
    X(even_stages, 0, "stages have as many blocks each, the first the embedding too and the last the logits; else they take equally long") \
    X(scattered_sends, 0, "tensor ranks send a part each of what passes between stages and gather it in their node") \
    X(pack_gradients, 1, "data parallelism exchanges packed gradients, not tensor by tensor")                    \
    X(pack_hybrid_gradients, 1, "so do the hybrids")                                                             \
    X(multi_rail, 1, "a collective uses all ports of a node")                                                    \
    X(ring_only, 0, "every collective is a ring; otherwise the cheapest of ring, tree and hierarchical")         \
    X(published_forms, 0, "filter and channel gather after every layer, and leave linear layers whole")          \
    X(full_gradients, 0, "hybrids with filters exchange all gradients, not only the local share")                \
    X(pointwise_gradients_skipped, 0, "filter: only windowed convolutions reduce their input gradient")          \
    X(host_replicated_gradients, 0, "filter and channel: whole layers synchronise their gradients through the host") \
    X(host_spatial_gradients, 0, "spatial hybrids: leaders exchange gradients through the host")                 \
    X(host_halo, 0, "halos and spatial gathers are staged through host memory")                                  \
    X(gather_returns, 0, "the end of a spatial split scatters in backward as it gathers in forward")             \
    X(asynchronous, 1, "kernels and collectives are queued ahead, so framework time per layer and call is hidden") \
    X(fused_update, 1, "the update makes one pass over memory; otherwise it runs at update_bytes_per_s")         \
    X(leader_loads, 0, "one device of a group loads the samples for all of it")                                      \
    X(wide_gradients, 0, "gradients of 16-bit weights are kept in 32 bits")                                      \
    X(shaped_kernels, 0, "products and attention take time by their shape: tiles, waves of them, depth; else by their operations") \
    X(autocast, 0, "16-bit products of 32-bit weights, which are cast in every pass; sequences are summed up and normalised in 32 bits") \
    X(late_gradients, 0, "gradients are released before backward, which makes them anew") \
    X(fused_elements, 0, "activations, sums and gates are computed along with the norm or element-wise layer in front of them") \
    X(block_segments, 0, "what is recomputed is recomputed block by block; else in the segments that need the least memory") \
    X(host_checkpoints, 0, "with weights shared out, inputs of recomputed blocks are kept by the host")           \
    X(host_updates, 0, "optimizer state that is on the host is updated by its processors; else it passes through the device")  \
    X(causal_skip, 1, "attention kernels skip the masked half")                                                  \
    X(fused_softmax, 1, "unfused attention scales, masks and normalises in one 16-bit kernel, not in several 32-bit ones") \
    X(fused_attention, 1, "attention keeps no scores; otherwise selective recompute pays")                      \
    X(measured, 0, "fitted to measured runs; otherwise, unless layers of the system were measured, intervals are estimates")
/* clang-format on */

/* How many there are of each. */
#define PDL_COUNT_ONE(...) +1
enum {
    PDL_PARAMETER_NUMBER = 0 PDL_PARAMETER_MAP(PDL_COUNT_ONE),
    PDL_SWITCH_NUMBER = 0 PDL_SWITCH_MAP(PDL_COUNT_ONE)
};
#undef PDL_COUNT_ONE

typedef struct pdl_parameters {
    char name[256];     /* of the set, and what was changed of it */
    char framework[64]; /* that was laid over them; "": none */
    char machine[64];   /* the system that the numbers of the framework were measured on; "": several */
#define PDL_PARAMETER_FIELD(field, ...) double field;
    PDL_PARAMETER_MAP(PDL_PARAMETER_FIELD)
#undef PDL_PARAMETER_FIELD
#define PDL_SWITCH_FIELD(field, ...) bool field;
    PDL_SWITCH_MAP(PDL_SWITCH_FIELD)
#undef PDL_SWITCH_FIELD
} pdl_parameters_t;

typedef struct pdl_parameter_info {
    const char *name, *meaning;
    double      standard, low, high;
    bool        fitted;
    pdl_unit_t  unit;
    size_t      offset; /* of the double in pdl_parameters_t */
} pdl_parameter_info_t;
extern const pdl_parameter_info_t pdl_parameter_info[];
extern const int                  pdl_parameter_count;

void pdl_parameters_default(pdl_parameters_t *parameters);
/* A built-in name (share/parameters) or a .yaml file; keys it leaves out keep their defaults. */
pdl_status_t pdl_parameters_load(const char *name_or_path, pdl_parameters_t *parameters);
/* The set of this name; when it is NULL the one fitted for the system, else "default", else the defaults of the table
   above. A file that is there but cannot be read is an error. */
pdl_status_t pdl_parameters_choose(const char *name_or_path, const pdl_system_t *system,
                                   pdl_parameters_t *parameters);
/* Lays "NAME=VALUE", of parameters and switches, over what is there; the name of the set says so. */
pdl_status_t pdl_parameters_change(const char *const *changes, size_t count, pdl_parameters_t *parameters);
/* Reads a map of switches over what is there. */
pdl_status_t pdl_parameters_read_switches(const pdl_yaml_t *map, pdl_parameters_t *parameters);
pdl_status_t pdl_parameters_write(const pdl_parameters_t *parameters, const char *comment, FILE *stream);

typedef enum pdl_comm_class {
    PDL_COMM_LAYER,
    PDL_COMM_HALO,
    PDL_COMM_STAGE,
    PDL_COMM_GRADIENT,
    PDL_COMM_CLASS_COUNT
} pdl_comm_class_t;
extern const char *const pdl_comm_class_names[PDL_COMM_CLASS_COUNT];

/* Bytes on the busiest rank. */
typedef struct pdl_memory_breakdown {
    double weights, gradients, optimizer, saved_activations, transient, buffers, workspace, context, margin;
} pdl_memory_breakdown_t;

#define PDL_MAX_FINDINGS 8
typedef struct pdl_finding {
    const char *name;      /* "gradient exchange", as in the table of limits and bottlenecks */
    bool        limit;     /* inherent in the strategy; else a bottleneck of framework or system */
    double      share;     /* the number that triggered it */
    char        hint[160]; /* what would lift it */
} pdl_finding_t;

/* One iteration: one update on the whole batch. */
typedef struct pdl_projection {
    double total_s, low_s, high_s; /* 90 % interval */
    bool   estimated;              /* nothing of this machine and framework was measured: the interval is wide */
    bool   replayed;    /* these are of the programs that ranks execute, compiled and replayed (replay.h) */
    double congested_s; /* with the congestion of other jobs (kappa) */
    double forward_s, backward_s, update_s,
        compute_s; /* busiest stage, all micro-batches; compute_s is their sum */
    double bubble_s;
    double staging_s;     /* decoding samples and handing them to the devices of a group */
    double input_s, io_s; /* reading or staging, whichever is slower; io_s: the part the rest does not hide */
    double comm_s;        /* exposed; the sum of the next */
    double comm[PDL_COMM_CLASS_COUNT];
    double gradient_total_s;  /* before overlap */
    double layer_startup_s;   /* the part of comm[PDL_COMM_LAYER] that does not shrink with the volume */
    double layer_allreduce_s; /* the part of it in allreduces; the rest gathers and scatters */
    double matrix_s;          /* the part of compute_s in convolutions and linear layers */
    double replicated_share;  /* of computation done by several ranks alike */
    double stage_imbalance;   /* slowest stage over the mean */
    double contention;        /* phi of the gradient exchange */
    double memory_bytes;
    bool   compiled; /* these bytes were counted by compiling the plan (dry.h), not modelled */
    pdl_memory_breakdown_t memory;
    double                 host_bytes; /* compiled: of the host, where activations, state or weights are there */
    bool        fits;         /* memory_bytes within the device or the given cap; and host_bytes within the host */
    double      memory_room;  /* that plans may use of the device which has memory_bytes */
    int64_t     memory_stage; /* the stage which has them, of those that are nearest to the room of their devices */
    const char *memory_device; /* of a machine with several kinds of devices: the one of that stage; else NULL */
    double      energy_j;      /* whole machine, one iteration */
    double      flop;          /* useful operations of one iteration, all ranks */
    pdl_finding_t findings[PDL_MAX_FINDINGS];
    int           finding_count;
} pdl_projection_t;

/* One iteration replayed pass by pass; the parts add up to the total. Input is left out. */
typedef struct pdl_plan_parts {
    double compute_s; /* of the busiest stage, with the slow-down by hidden exchanges */
    double comm[PDL_COMM_CLASS_COUNT];
    double bubble_s;
    double total_s;
} pdl_plan_parts_t;

/* Kinds of work by which a projection and a run are compared. */
typedef enum pdl_op_class {
    PDL_CLASS_PRODUCT_FORWARD, /* convolutions, linear layers, attention */
    PDL_CLASS_PRODUCT_BACKWARD,
    PDL_CLASS_NORM,
    PDL_CLASS_ELEMENT, /* all other layers */
    PDL_CLASS_CONVERT, /* between the arrangements of images that layers and messages want */
    PDL_CLASS_UPDATE,
    PDL_CLASS_MOVE,     /* exchanges inside and between layers */
    PDL_CLASS_GRADIENT, /* exchange of gradients, as far as it is not hidden */
    PDL_CLASS_COPY,     /* waiting for copies between device and host */
    PDL_CLASS_INPUT,    /* waiting for samples */
    PDL_OP_CLASS_COUNT
} pdl_op_class_t;
extern const char *const pdl_op_class_names[PDL_OP_CLASS_COUNT];
pdl_op_class_t           pdl_op_class(pdl_layer_type_t type, bool backward);

typedef struct pdl_oracle pdl_oracle_t;

/* Borrows all three; `parameters` is copied. */
pdl_status_t pdl_oracle_create(const pdl_model_t *model, const pdl_system_t *system,
                               const pdl_parameters_t *parameters, pdl_oracle_t **oracle);
void         pdl_oracle_destroy(pdl_oracle_t *oracle);
/* Replaces the parameters and forgets what was kept. */
void pdl_oracle_set_parameters(pdl_oracle_t *oracle, const pdl_parameters_t *parameters);
/* Memory cap per device in bytes; 0: the device's. */
void pdl_oracle_set_memory_cap(pdl_oracle_t *oracle, double bytes);

/* Seconds of forward and backward of one layer, whole, on a device by itself. */
pdl_status_t pdl_oracle_layer_seconds(const pdl_oracle_t *oracle, int layer, double samples,
                                      pdl_precision_t precision, double seconds[2]);

/* Projects a checked plan; stages are balanced first unless they were given (written into the plan). `dataset` may be
   NULL: no input time. */
pdl_status_t pdl_oracle_project(pdl_oracle_t *oracle, pdl_plan_t *plan, const pdl_dataset_t *dataset,
                                pdl_projection_t *projection);

/* The same with the passes of every stage replayed one after the other, each waiting for its inputs, and gradients exchanged
   bucket by bucket, instead of the formulas of even pipelines; communications have their closed form. Takes time in
   proportion to stages times micro-batches. Where these are more than 300,000: as pdl_oracle_project(). On machines with a backend of
   ours it is the programs of the ranks that are replayed, operation by operation. */
pdl_status_t pdl_oracle_replay(pdl_oracle_t *oracle, pdl_plan_t *plan, const pdl_dataset_t *dataset,
                               pdl_projection_t *projection);

/* Decides what a plan leaves open, for this machine, and writes it into the plan: the borders of its virtual stages, which
   are cut to take equally long, and the schedules of collectives, which are the cheapest for the messages that the plan has (the
   simplest, where prices differ by less than 2 %). What the plan says stays. */
pdl_status_t pdl_oracle_settle(pdl_oracle_t *oracle, pdl_plan_t *plan);

/* The seconds of a projection of this plan class by class, which add up to the total. Of pipelines, the mean over the
   stages; what a stage waits for others, bubbles included, counts as exchange between layers. Of programs (`replayed`), what their
   operations take: the total is more by what is between these. */
pdl_status_t pdl_oracle_classes(pdl_oracle_t *oracle, const pdl_plan_t *plan, const pdl_projection_t *projection,
                                double seconds[PDL_OP_CLASS_COUNT]);

/* In which order the axes of a mesh are on the levels of a machine: the last one is innermost, inside a node first. INNER: the
   tensor or spatial axis. */
typedef enum pdl_order {
    PDL_ORDER_PIPELINE_DATA_INNER,
    PDL_ORDER_DATA_PIPELINE_INNER,
    PDL_ORDER_PIPELINE_INNER_DATA,
    PDL_ORDER_DATA_INNER_PIPELINE,
    PDL_ORDER_INNER_PIPELINE_DATA,
    PDL_ORDER_INNER_DATA_PIPELINE,
    PDL_ORDER_COUNT
} pdl_order_t;
extern const char *const pdl_order_names[PDL_ORDER_COUNT]; /* "pipeline, data, inner" ... */

/* A preset on a mesh, for fast enumeration. */
typedef struct pdl_config {
    const pdl_strategy_t *strategy; /* NULL is refused */
    int64_t               pipeline, data, spatial, tensor;
    int64_t context; /* of the data axis: ranks that share every sample along its sequence; 0 or 1: none */
    int64_t
                            experts; /* ranks that share the experts of mixtures out, beside a tensor axis: all of a context axis, and neighbours
                            on the data axis; 0 or 1: none */
    pdl_order_t             order;
    int64_t                 batch, micro_batches;
    pdl_pipeline_schedule_t schedule;
    int                     virtual_stages;
    pdl_recompute_t         recompute;
    /* Of a candidate of a search that recomputes in full: the first so many blocks of every virtual stage; 0: all. Or they are copied
       to the host and back instead. */
    int             recomputed_blocks;
    bool            offloaded;
    pdl_sharding_t  sharding;
    pdl_tier_t      optimizer_tier; /* of the optimizer's state */
    bool            sequence_parallel;
    pdl_optimizer_t optimizer;
    pdl_precision_t precision;
    pdl_run_mode_t  run_mode;
    const char     *spatial_until;
    const int64_t  *stage_blocks; /* of a transformer: blocks of every stage; NULL: as parameters say */
    int             part_order;   /* of a machine with several kinds of devices: pdl_system_order() */
} pdl_config_t;

/* One device, one sample; a name that no strategy has leaves it NULL. */
pdl_config_t pdl_config_default(const char *strategy);
/* The next larger number of such ranks, each with as many experts, after config->experts; 0: there is none. `experts`:
   pdl_preset_experts(). */
int64_t pdl_config_next_experts(const pdl_config_t *config, int64_t experts);
/* The default on a mesh of the strategy. */
pdl_config_t pdl_config_on(const pdl_strategy_t *strategy, const pdl_strategy_mesh_t *mesh);
pdl_mesh_t   pdl_config_mesh(const pdl_config_t *config);
/* Builds the plan of a configuration, checked, stages not yet balanced. */
pdl_status_t pdl_oracle_plan(pdl_oracle_t *oracle, const pdl_config_t *config, pdl_plan_t **plan);
/* Same numbers as project() on that plan, without findings; layer costs are kept between calls. */
pdl_status_t pdl_oracle_evaluate(pdl_oracle_t *oracle, const pdl_config_t *config, const pdl_dataset_t *dataset,
                                 pdl_projection_t *projection);

/* Of a machine with several kinds of devices: the parts on which a stage of a pipeline is, and all of them: "stages 0-1: a100, 2: v100"; ""
   where devices are alike. Both return `text`. */
char *pdl_oracle_stage_place(const pdl_system_t *system, int part_order, const pdl_mesh_t *mesh, int64_t stage,
                             char *text, size_t size);
char *pdl_oracle_places(const pdl_system_t *system, int part_order, const pdl_mesh_t *mesh, char *text,
                        size_t size);

/* Largest batch for which the plan's memory fits, other things equal; 0 when not even the smallest does. */
pdl_status_t pdl_oracle_largest_batch(pdl_oracle_t *oracle, const pdl_config_t *config, int64_t *batch);

/* A layer, or the part that a rank has of it, as calibration describes it: everything but the seconds. */
void pdl_measured_describe(const pdl_model_t *model, const pdl_layer_t *layer, const pdl_local_t *local,
                           pdl_precision_t precision, pdl_measured_t *row);

/* Bytes that an update passes over. */
double pdl_update_bytes(pdl_optimizer_t optimizer, double weights);

#ifdef __cplusplus
}
#endif
#endif
