/*
 * Inside a session: the lowered graph, its programs, the weights in flat arrays, and what runs between them.
 */
#ifndef PDL_TRAIN_SESSION_H
#define PDL_TRAIN_SESSION_H

#include "train/make/channel.h"
#include "train/make/make.h"
#include <paradl/comm/exchange.h>
#include <paradl/oracle/replay.h>
#include <paradl/program/copies.h>
#include <paradl/train/session.h>
#include <paradl/train/train.h>
#include <signal.h>

/* One weight or statistic: [offset, offset + storage) of the flat arrays. */
typedef struct pdl__trace_entry {
    pdl_session_tensor_t info;
    int                  unit, k; /* the op that translates it */
    pdl_region_t         region;  /* the part of it on this rank; info has the dimensions of the whole */
    bool                 whole;   /* that is all of it */
    int                  owner; /* layer whose weight it is: that of the unit unless tied to one of another stage */
    int64_t              copies; /* ranks that hold the same part */
    unsigned             axes;   /* over which gradients are summed */
    int64_t              offset, storage;
    int64_t              held;          /* where it lies in an array of parts, unless it is cut itself */
    int                  group, bucket; /* of the exchange; group -1: nothing to sum */
} pdl__trace_entry_t;

/* The time of one operation. */
typedef struct pdl__moment {
    double start_s, end_s;
    double moved_s; /* of it, redistribution */
    int    op;      /* of the training program; negative: one of those below */
    bool   waits;   /* until it was complete */
} pdl__moment_t;

/* Moments of rounds. Those of turns count down: worker w has PDL__MOMENT_TURN - w. */
enum { PDL__MOMENT_MEAN = -1, PDL__MOMENT_MOVE = -2, PDL__MOMENT_TURN = -3 };

/* Weights whose gradients are exchanged together. Where state is sharded every rank of the data axes has a part of it. */
typedef struct pdl__bucket {
    int     first, last;         /* entries */
    int64_t low, high;           /* elements of the flat arrays */
    int64_t part_low, part_high; /* of [low, high): this rank's part */
    int64_t held;                /* where that lies in an array of parts */
    /* All of the bucket, while it is there: zero3, and from zero2 on; or with weights on the host. */
    float *weights, *gradients;
} pdl__bucket_t;

/* Gradients that are summed over the same ranks: a range of the flat array, cut into buckets. */
typedef struct pdl__buckets {
    unsigned        axes;
    int             first, last; /* entries */
    pdl_exchange_t *exchange;    /* an allreduce, or where sharded a reduce-scatter over `shard_ranks` */
    int             count;
    pdl__bucket_t  *bucket;
    /* where sharded: */
    pdl_ranks_t    *shard_ranks; /* NULL: every rank has all of it */
    pdl_exchange_t *gather;      /* of weights */
    pdl_exchange_t *rest;        /* sums of parts over the axes that are no data axes; or NULL */
} pdl__buckets_t;

/* Fills in by which schedule the exchange of a group over these axes runs; the other fields say what it is. */
void pdl__name_exchange(const pdl_session_t *session, unsigned axes, pdl_exchange_spec_t *spec);

/* A weight that several stages hold: their gradients are summed. */
typedef struct pdl__tie {
    pdl_ranks_t    *ranks;
    pdl_exchange_t *exchange;
} pdl__tie_t;

/* A weight or statistic of the model, whichever stage holds it. */
typedef struct pdl__listed {
    pdl_session_tensor_t info;
    int                  stage, entry;
} pdl__listed_t;

/* Weights and optimizer state that can take the place of the session's own. */
typedef struct pdl__weight_set {
    void *array[PDL_ARRAY_COUNT]; /* of weights and moments; the others stay */
} pdl__weight_set_t;

/* What the hook of the logits is shown, and what it answers. */
typedef struct pdl__logits {
    pdl_logits_fn_t call;
    void           *context;
    int64_t         classes;
    float          *values; /* pinned: [micro_samples][classes] */
    float          *extra;  /* pinned: [count][classes] */
    void           *added;  /* of the device: `extra` of a micro-batch in the activation type */
    size_t          added_bytes;
} pdl__logits_t;

/* The batch at hand (input.c). Where the host may not use memory of the device it is copied to one of two slots there. */
enum {
    PDL__INPUT_VALUES, /* or bytes */
    PDL__INPUT_CHANGES,
    PDL__INPUT_TOKENS,
    PDL__INPUT_LABELS,
    PDL__INPUT_NUMBERS,
    PDL__INPUT_WEIGHT,
    PDL__INPUT_PARTS
};
typedef struct pdl__input {
    pdl_batch_t         batch;                     /* as operations read it */
    size_t              bytes[PDL__INPUT_PARTS];   /* of what this rank reads */
    size_t              slot_at[2];                /* among the small buffers of the device */
    size_t              part_at[PDL__INPUT_PARTS]; /* in a slot */
    int                 slot;                      /* of the batch at hand */
    bool                waits[2];                  /* a slot has, or gets, a batch whose step comes: */
    pdl_batch_t         expected[2];
    pdl_tensor_event_t *uploaded[2];
} pdl__input_t;

/* What a loss reads, among the small buffers of the device; and the results, copied to the host. */
typedef struct pdl__targets {
    size_t numbers_at; /* regression: the targets of a micro-batch in the activation type */
    size_t labels_at;  /* labels of the positions this rank has, where these are not all */
    char  *home;       /* pinned: [micro-batches][3][samples] in the type of weights */
    bool  *coming;     /* by micro-batch: its results are in flight to the host */
} pdl__targets_t;

/* Weights and the state of the optimizer on this rank. Trainable ones come first, in the order in which backward finishes
   their gradients. */
typedef struct pdl__weights {
    int64_t                workers; /* with statistics of their own */
    void                  *kept;    /* statistics of the workers while their mean is in use, or NULL */
    bool                   statistics_are_mean;
    pdl__trace_entry_t    *entry;
    int                    entry_count;
    pdl__listed_t         *listed; /* those of all stages, the same on every rank */
    int                    listed_count;
    char                  *listed_names;
    int64_t                elements, trainable; /* of the flat arrays; of these, trainable */
    void                  *array[PDL_ARRAY_COUNT];
    pdl_parameter_t       *parameter; /* what this rank updates: weights, or its parts of them */
    int                    parameter_count;
    int                   *parameter_entry;
    pdl_optimizer_table_t *table;    /* of them */
    double                *sums;     /* two of every entry: for the norms of weights that lie in parts */
    pdl_sharding_t         sharding; /* none where there is nobody to share with */
    int64_t                held;     /* trainable elements of an array of parts */
    bool                   passes;   /* weights are on the host, statistics alone are here: */
    void                  *statistics;
    void                  *packed;
    size_t                 packed_bytes;
    size_t                *packed_at; /* per unit */
    bool                  *updated;   /* per unit: an update writes its packed copies */
    /* Optimizer state in a file (state/state_file.h), or NULL; slots of memory, and pieces of this update that have been given back. */
    struct pdl__state_file *file;
    void                   *slots;
    int                     written, returned;
    struct pdl__host_piece *hosted; /* pieces that processors of the host update (state/host_update.c), or NULL */
    pdl_backend_t          *host;   /* which they do it with */
    int64_t                 moments_from; /* the update before which the optimizer's state was zero */
    pdl__weight_set_t      *weight_set;   /* set 0 is the session's own; NULL: there are no others */
    int                     weight_set_count, selected;
    bool                    weight_set_moments;
} pdl__weights_t;

/* How gradients, and weights that are sharded, go between ranks. */
typedef struct pdl__exchanges {
    pdl__buckets_t *buckets; /* one for every set of axes over which gradients are summed */
    int             bucket_groups;
    pdl__tie_t     *ties;
    int             tie_count;
    double          sent_bytes; /* by redistributions, since the beginning */
} pdl__exchanges_t;

/* Work of a program that is replayed: all of it that does not need the host, under what it depends on besides memory of the
   device. */
typedef struct pdl__capture {
    const pdl_program_t *program;
    int                  mode, slot, stop; /* of the input; operation behind the last one */
    bool                 bytes;            /* the batch has bytes, scaled by: */
    pdl_image_scale_t    scale;
    int64_t              mean_over, draws_at;
    const void          *weights;
    pdl_tensor_work_t   *work;
} pdl__capture_t;
#define PDL__CAPTURES 8 /* programs, modes, slots of the input; others are executed as ever */

typedef struct pdl__captures {
    pdl__capture_t one[PDL__CAPTURES];
    int            count;
    unsigned       warm;     /* modes in which a program has been executed: its kernels are loaded */
    bool           refused;  /* the device could not */
    int64_t        replayed; /* executions */
} pdl__captures_t;

/* What programs are executed with: the device, its memory, and what goes to it and comes home. */
typedef struct pdl__executor {
    int64_t              mean_over;                /* samples whose mean the loss is */
    int64_t              draws_at;                 /* index of the first sample in the random numbers of a step */
    pdl_tensor_device_t *device;                   /* of the backend */
    pdl_transport_t     *transport;                /* of its memory between ranks */
    pdl_tensor_stream_t *stream[PDL_STREAM_COUNT]; /* without order unless pdl__session_order() gives it */
    pdl_tensor_event_t  *event;                    /* orders streams */
    pdl_tensor_event_t **copied; /* of every operation that copies, in either program: it is done */
    int                  copied_count;
    char                *arena, *host_arena; /* of the device, and pinned */
    size_t               arena_bytes, host_bytes;
    void                *zeros;      /* the bias that another rank adds */
    char                *small;      /* small buffers of the device: */
    double              *scalars;    /* numbers for the host: of the optimizer first, then */
    int64_t              numbers_at; /* pdl_step_numbers_t, */
    int64_t              flag_at;    /* whether results of a loss are not finite, a sum of squares of statistics; */
    int64_t              inputs_at;  /* of the input of every micro-batch, the first element that is not finite */
    size_t               zeros_at;   /* zeros */
    size_t               small_bytes;  /* and those of `targets` */
    double              *scalars_home; /* pinned: the numbers here, */
    double         *meeting_home; /* and those of ops whose ranks meet, where the host cannot use them in place */
    int64_t         scalar_count;
    pdl__captures_t captures;
    pdl__input_t    input;
    pdl__targets_t  targets;
    float          *results; /* [3][count]: loss, correctness, confidence */
    pdl__logits_t   logits;
    const pdl_outputs_t *outputs; /* that are asked for in this execution, or NULL */
    void                *plain;   /* of the device: outputs in the plain format, where the loss reads another */
    char    *cache; /* generation: keys and values of all attention layers; those of spec.like where there is one */
    size_t   cache_bytes;
    size_t  *cache_at; /* per unit */
    int32_t *past;     /* of the device: [count] */
    int      halted;   /* the operation with which pdl_session_step_finish() goes on; 0: none */
} pdl__executor_t;

/* What is seen of a run: times, and numbers that are not finite. */
typedef struct pdl__observer {
    const pdl_source_t *source;     /* whose samples the batches have, for messages; NULL: not known */
    int                 not_finite; /* what is known of numbers that are not finite (finite.c); 0: nothing */
    char                not_finite_text[512];
    pdl__moment_t      *timeline;
    int64_t             timeline_count; /* of all moments; the latest PDL__TIMELINE_CAPACITY are kept */
    double              timeline_zero_s;
    pdl_clock_t         clock;                       /* of this rank beside rank 0, when the timeline began */
    double              class_s[PDL_OP_CLASS_COUNT]; /* of all steps */
    double              moved_s;                     /* redistribution of the operation at hand */
    /* Devices that work while the host goes on (events.c): */
    pdl_tensor_event_t    *
        *event; /* the first at the begin of a step, then one behind every operation that computes */
    int     event_count;
    double *end_s;                /* of every operation, in the step that was measured last */
    pdl_program_copies_t copies;  /* in it; of devices that do everything at once bytes alone */
    double               begun_s; /* the step, by the host's clock */
    double               measured_s[PDL_OP_CLASS_COUNT]; /* of the step that was measured last */
    int64_t              steps;                          /* begun */
    bool                 measures;                       /* the step at hand, */
    int                  marked;                         /* of which so many operations have an event */
} pdl__observer_t;

typedef struct pdl__execution pdl__execution_t; /* below */

struct pdl_session {
    pdl_session_spec_t    spec;
    bool                  dry;       /* of a dry rank: no memory is allocated, nothing can be executed */
    pdl_ranks_t          *dry_ranks; /* owned; NULL unless made by pdl_session_create_dry() */
    pdl__layouts_t       *layouts;
    pdl__groups_t        *groups;
    pdl__graph_t         *graph;
    pdl_program_t        *program, *forward_program; /* the first only when training */
    int64_t               batch, first, count, micro_samples;
    int                   micro_batches;
    pdl_plan_t           *own_plan;      /* with a micro-batch for each of them; else NULL */
    double                rate_position; /* of the schedule; negative: the number of updates */
    double                rate_factor;
    pdl_ranks_t          *replica; /* the ranks that update the same weights; owned when separate */
    int64_t               updates;
    bool                  updating; /* weights may be those of the next update already */
    volatile sig_atomic_t stop;

    pdl__weights_t   weights;
    pdl__exchanges_t exchange;
    pdl__executor_t  executor;
    pdl__observer_t  observer;
};

/* session.c: `later` goes on behind what `earlier` has been given so far. */
pdl_status_t pdl__session_order(pdl_session_t *session, pdl_op_stream_t earlier, pdl_op_stream_t later);

/* communicate.c: events of the operations that copy. */
pdl_status_t pdl__copies_create(pdl_session_t *session);
void         pdl__copies_destroy(pdl_session_t *session);

/* Waits for all streams: the host may look at memory of the device, at once. */
pdl_status_t pdl__session_await(const pdl_session_t *session);

/* buckets.c */
pdl_status_t pdl__buckets_take(pdl_session_t *session);    /* local: those of the graph */
pdl_status_t pdl__buckets_connect(pdl_session_t *session); /* collective, once there is memory */
void         pdl__buckets_destroy(pdl_session_t *session);
/* A whole bucket in an array that is not sharded. */
float *pdl__bucket_at(const pdl_session_t *session, pdl_session_array_t array, const pdl__bucket_t *bucket);
/* A bucket of an exchange is complete when what the compute stream has been given so far is done; and what it is given after
   the wait finds the result. */
pdl_status_t pdl__bucket_ready(pdl_session_t *session, pdl_exchange_t *exchange, int b);
pdl_status_t pdl__bucket_wait(pdl_session_t *session, pdl_exchange_t *exchange, int b);
/* weights.c */
pdl_status_t pdl__weights_plan(pdl_session_t *session); /* which there are, and where they lie */
pdl_status_t pdl__weights_take(pdl_session_t *session); /* memory, and initial values */
void         pdl__session_free_weights(pdl_session_t *session);
/* Copies that kernels have of weights; `updated`: but for those that an update has written. */
pdl_status_t pdl__session_refresh(pdl_session_t *session, bool updated);
/* Of statistics that have an array of their own. */
size_t  pdl__statistics_bytes(const pdl_session_t *session);
int64_t pdl__session_elements(const pdl_session_t *session, pdl_session_array_t array);
/* Where an entry is for an operation; and where it is between executions, where ranks have no parts of it. */
void *pdl__entry_at(const pdl_session_t *session, pdl_session_array_t array, const pdl__trace_entry_t *entry);
void *pdl__entry_home(const pdl_session_t *session, pdl_session_array_t array, const pdl__trace_entry_t *entry);

/* workers.c: statistics of batch norm, a copy for every worker behind those of the first. */
void        *pdl__statistics_at(const pdl_session_t *session, const pdl__trace_entry_t *entry, int64_t worker);
int64_t      pdl__worker_elements(const pdl_session_t *session); /* of all copies but the first */
int64_t      pdl__worker_of(const pdl_session_t *session, int micro_batch);
pdl_slice_t  pdl__statistics(const pdl_session_t *session, void **array); /* of all workers, in an array */
pdl_status_t pdl__spread_statistics(pdl_session_t *session);              /* of the first worker to the others */
/* Collective. The statistics of all workers of all ranks, to be freed; NULL where there is only one set of them. */
pdl_status_t pdl__statistics_gather(pdl_session_t *session, void **all, int64_t *bytes);
/* Collective. Back to their workers, if these are as many and as large; else nothing happens. */
pdl_status_t pdl__statistics_scatter(pdl_session_t *session, const void *all, int64_t bytes);

/* state/residuals.c: the share of gradients that ranks send where sums of them are sparse; else 0. */
double pdl__plan_thins(const pdl_plan_t *plan);
/* Whether a session may have such sums, where its plan says so. */
pdl_status_t pdl__residuals_check(const pdl_session_spec_t *spec);
/* The largest share that ranks send of gradients whose sums have this density. */
double pdl__first_density(const pdl_session_t *session, double density);
/* The next update has the density of its place in the warm-up. */
void pdl__residuals_thin(pdl_session_t *session);
/* Collective. What all ranks have not sent yet, one after the other, to be freed; 0 bytes where sums are dense. */
pdl_status_t pdl__residuals_gather(pdl_session_t *session, void **all, int64_t *bytes);
pdl_status_t pdl__residuals_scatter(pdl_session_t *session, const void *all, int64_t bytes);

/* initial/apply.c: the weights of spec.initial, once all are listed. */
pdl_status_t pdl__session_initialise(pdl_session_t *session);

/* checkpoint/listed.c: collective. */
pdl_status_t pdl__session_list(pdl_session_t *session);
/* The entry of this rank that holds a listed tensor: its own, or a copy of another stage's; -1: none. */
int  pdl__session_entry_of(const pdl_session_t *session, int listed);
void pdl__session_free_list(pdl_session_t *session);
/* Whether sessions like this one have an array at all: a stage without weights has none. */
bool pdl__session_keeps(const pdl_session_t *session, pdl_session_array_t array);

/* ties.c: collective. */
pdl_status_t pdl__ties_create(pdl_session_t *session);
void         pdl__ties_destroy(pdl_session_t *session);

/* borders.c: before and after a program is executed. */
pdl_status_t pdl__borders_begin(pdl_session_t *session, bool training);
pdl_status_t pdl__borders_end(pdl_session_t *session);
/* Memory of messages between stages. */
size_t pdl__borders_bytes(const pdl_session_t *session);

/* separate.c: data-parallel replicas that update each for itself. */
pdl_status_t pdl__separate_create(pdl_session_t *session);
void         pdl__separate_destroy(pdl_session_t *session);

/* phases.c: an op with the meetings of its ranks; and bytes of pinned memory that these need. */
pdl_status_t pdl__run_forward(pdl_session_t *session, pdl__unit_t *unit, pdl_op_t *op, pdl_op_run_t *run);
pdl_status_t pdl__run_backward(pdl_session_t *session, pdl__unit_t *unit, pdl_op_t *op, pdl_op_run_t *run,
                               unsigned what);
size_t       pdl__phases_bytes(const pdl_session_t *session);

/* targets.c: places of small buffers from `at` on, returns where they end; and what is on the host. */
size_t       pdl__targets_place(pdl_session_t *session, size_t at);
pdl_status_t pdl__targets_create(pdl_session_t *session);
void         pdl__targets_destroy(pdl_session_t *session);
/* What the loss of a micro-batch reads, where it can read it. */
pdl_status_t pdl__targets_set(pdl_session_t *session, int64_t micro_batch, pdl_op_run_t *run);
/* Loss, correctness and confidence of a micro-batch start home; and, after a wait, all of them are in
   session->executor.results. */
pdl_status_t pdl__results_keep(pdl_session_t *session, int64_t micro_batch, const void *output);
pdl_status_t pdl__results_fetch(pdl_session_t *session);
/* The part of a sample's positions whose loss this rank computes: a mean over them is that part of the whole mean. */
double pdl__loss_share(const pdl_session_t *session);

/* logits.c: makes ready to show logits to `call`; then shows those of a micro-batch, and adds what was answered. */
pdl_status_t pdl__logits_create(pdl_session_t *session, pdl_logits_fn_t call, void *context);
void         pdl__logits_destroy(pdl_session_t *session);
pdl_status_t pdl__logits_show(pdl_session_t *session, int micro_batch, const pdl_op_run_t *run,
                              const pdl__execution_t *execution);
pdl_status_t pdl__logits_add(pdl_session_t *session, int micro_batch, const pdl_op_run_t *run);

/* predict/outputs.c: what pdl_session_predict() asked for of a micro-batch; memory for it. */
pdl_status_t pdl__outputs_take(pdl_session_t *session, int micro_batch, const pdl__unit_t *loss,
                               const pdl_op_run_t *run);
void         pdl__outputs_destroy(pdl_session_t *session);

/* predict/cache.c: generation. Where keys and values are, and memory for them; what an op of a unit reads and writes there. */
pdl_status_t pdl__cache_place(pdl_session_t *session);
pdl_status_t pdl__cache_take(pdl_session_t *session);
void         pdl__cache_destroy(pdl_session_t *session);
void         pdl__cache_set(const pdl_session_t *session, int unit, pdl_op_run_t *run);

/* traffic.c: memory of all messages, those between stages included. */
size_t pdl__messages_bytes(const pdl_session_t *session);
/* What collectives send by another schedule than that of the plan, where the session was given one. */
void pdl__session_count_bytes(pdl_session_t *session);

/* dry.c: refuses a session that needs more memory, with those of other ranks on its device, than that has left; collective. */
pdl_status_t pdl__session_check_device(const pdl_session_t *s);
/* dry.c: refuses a session that would hold more than spec->max_memory on some rank; collective. */
pdl_status_t pdl__session_check_memory(const pdl_session_spec_t *spec);

/* execution.c: runs a program on this rank's batch. */
typedef enum pdl__execute_mode {
    PDL__EXECUTE_TRAIN,
    PDL__EXECUTE_EVALUATE,
    PDL__EXECUTE_PASS /* forward as in training */
} pdl__execute_mode_t;
struct pdl__execution {
    const pdl_program_t *program; /* set by the call */
    pdl_step_result_t   *result;  /* NULL: not wanted */
    const pdl_batch_t   *batch;
    pdl__execute_mode_t  mode;
    bool                 halts;    /* before the first operation that is not of the forward pass */
    int                  next;     /* operation to begin with; where it stopped */
    bool                 searches; /* executes a forward pass again, for: */
    int                  found;    /* the unit whose output is the first that is not finite, or -1 */
    bool                 resumed;  /* set by the call: results are here already */
    bool                 defers;   /* likewise: one wait at the end; until then the device knows whether results are
                                      finite */
    bool                 updated;  /* weights, which the end looks at */
};
pdl_status_t pdl__session_execute(pdl_session_t *session, const pdl_program_t *program,
                                  pdl__execution_t *execution);

/* plan_memory.c: a session that trains by the plan alone. */
void pdl__dry_spec(const pdl_plan_t *plan, pdl_backend_t *backend, pdl_session_spec_t *spec);

/* Seconds since some fixed moment. */
#define PDL__TIMELINE_CAPACITY 400000 /* moments of a session */
/* events.c: events of the device, where it has times of its own: made, and destroyed; a step begins, an operation has been
   given to the stream that computes, and the step has been waited for. */
pdl_status_t pdl__events_create(pdl_session_t *session);
void         pdl__events_destroy(pdl_session_t *session);
pdl_status_t pdl__events_begin(pdl_session_t *session);
pdl_status_t pdl__events_mark(pdl_session_t *session, int op);
pdl_status_t pdl__events_end(pdl_session_t *session);

/* trace.c: an operation of the training program, or the wait for it, has ended that began at start_s. */
void pdl__session_note(pdl_session_t *session, int op, bool waits, double start_s);
/* A moment of the timeline, if there is one. */
void pdl__trace_moment(pdl_session_t *session, const pdl__moment_t *moment);
/* Something of a round has ended that began at start_s; only the timeline has it. */
void pdl__trace_span(pdl_session_t *session, int op, double start_s);
/* Collective. The timelines of sessions of all ranks into one file of rank 0, by its clock. */
pdl_status_t pdl__trace_write(const pdl_session_t *const *sessions, int count, const char *path);

#endif
