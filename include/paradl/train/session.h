/*
 * A training session: one rank's share of a plan, made ready once and then run step after step without taking memory.
 *
 *     pdl_session_spec_t spec;
 *     pdl_session_defaults(&spec);
 *     spec.plan = plan;
 *     spec.backend = backend;
 *     pdl_session_create(&spec, &session);
 *     while (...) {
 *         pdl_loader_next(loader, &batch);
 *         pdl_session_step(session, &batch, &result);   // forward, backward, exchange, update
 *     }
 *
 * All functions but the queries are collective over the ranks of the plan.
 *
 * With ranks of pdl_ranks_create_dry() a session is dry: it allocates, sends and computes nothing. Any rank of a plan of
 * any size can be asked for what it would hold (pdl_session_memory()), send (pdl_session_traffic()) and do (dry.h), to
 * the byte.
 */
#ifndef PARADL_SESSION_H
#define PARADL_SESSION_H

#include <paradl/base/status.h>
#include <paradl/comm/transport.h>
#include <paradl/data/data.h>
#include <paradl/oracle/oracle.h>
#include <paradl/plan/plan.h>
#include <paradl/tensor/backend.h>
#include <paradl/train/initial.h>
#include <paradl/train/optimizer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a network says of the samples of a micro-batch, one position and all classes a sample, before the softmax. */
typedef struct pdl_logits {
    int64_t        first, samples, classes; /* samples of this rank's batch from `first` on */
    const float   *values;                  /* [samples][classes] */
    const int32_t *labels;                  /* [samples] */
    const float   *weight;                  /* [samples] */
    float         *confidence;              /* [samples]: may be changed, see pdl_session_samples() */
    float         *extra; /* [samples][classes], zero: added to the gradient of the loss by the logits; NULL when
                             there is no backward pass */
    double scale; /* of the gradient of one sample's loss: what is put into `extra` is to be multiplied by it */
} pdl_logits_t;
typedef void (*pdl_logits_fn_t)(void *context, const pdl_logits_t *logits);

typedef struct pdl_session pdl_session_t;

typedef struct pdl_session_spec {
    const pdl_plan_t       *plan; /* borrowed, as the next two */
    pdl_backend_t          *backend;
    pdl_ranks_t            *ranks; /* of pdl_ranks_create(): also where there is only one */
    pdl_optimizer_options_t optimizer;
    bool                    training; /* otherwise only pdl_session_evaluate() may be called */
    uint64_t                seed;
    double                  label_smoothing;
    size_t                  bucket_bytes; /* of the gradient exchange */
    /* Of all exchanges of gradients, instead of what the plan says: a schedule's name, "library", or "measure" (pdl_exchange_spec_t).
       NULL: as the plan says. */
    const char *algorithm;
    int64_t
            chunk_bytes; /* of the messages of all exchanges of gradients, on all ranks alike; 0: as pdl_exchange_spec_t has it */
    int64_t sparse_warmup; /* updates in which sums that are sparse become so: at first ranks send a quarter */
    pdl_transport_kind_t transport; /* of memory of the backend between ranks */
    bool                 overlap;   /* exchange while backward runs, move tensors while others are made */
    bool                 timeline;  /* keep the times of operations for pdl_session_trace() */
    /* Workers that share this rank's samples, each with statistics of its own in batch norm: the numbers of as many
       ranks. 0 means 1. Not together with sync_batch_norm, where it would change nothing. */
    int64_t workers;
    bool first_statistics; /* pdl_session_mean_statistics() takes those of the first worker instead of the mean */
    /* Data-parallel replicas update each for itself: gradients are not summed over data axes, and the loss is the mean
       over this replica's samples. What brings them together is the caller's (aggregate.h). */
    bool separate;
    /* Called after the forward pass of the loss, once per micro-batch; may be NULL. */
    pdl_logits_fn_t     logits;
    void               *logits_context;
    pdl_initial_file_t *initial; /* borrowed: weights that are not drawn, or NULL */
    /* Generation (generate.h): the tokens of a batch follow earlier ones, in sequences of so many tokens at most; 0: they are whole
       sequences. `like`: a session of the same model for other numbers of new tokens, which lives longer and whose weights and key-value cache
       this one uses; or NULL. */
    int64_t        context;
    pdl_session_t *like;
    const char    *state_folder; /* of optimizer state that the plan has on disk; NULL: the working directory */
    int64_t        program_micro_batches; /* dry: of programs, whatever the plan has; 0: those of the plan */
    size_t max_memory; /* creation is refused, before memory is taken, where a rank would hold more; 0: none */
} pdl_session_spec_t;
/* Training, seed 1, buckets of 8 MiB, overlapped, SGD. */
void pdl_session_defaults(pdl_session_spec_t *spec);

pdl_status_t pdl_session_create(const pdl_session_spec_t *spec, pdl_session_t **session);
void         pdl_session_destroy(pdl_session_t *session); /* NULL is allowed */

/* This rank's part of every batch: samples [first, first + count) of the global one. */
void pdl_session_share(const pdl_session_t *session, int64_t *first, int64_t *count);

/* Sums and means over the global batch. */
typedef struct pdl_step_result {
    double loss;          /* mean over samples */
    double accuracy;      /* share of positions predicted right; 0 for regression */
    double samples;       /* that counted */
    double lr;            /* of this step */
    double gradient_norm; /* 0 unless clipping needs it */
    double step_s;        /* the whole call, on this rank */
    double compute_s, comm_s;
    bool   stop; /* some rank has called pdl_session_request_stop() */
} pdl_step_result_t;

/* `batch` holds this rank's samples. A loss that is not finite is an error that names the layer whose output, or the weight whose
   gradient, was not finite first. */
pdl_status_t pdl_session_step(pdl_session_t *session, const pdl_batch_t *batch, pdl_step_result_t *result);
/* The batch of the next step: it is brought to the device while the step at hand is computed, and stays as it is until its
   own step has ended. Not needed, and of no effect where the device reads memory of the host. */
pdl_status_t pdl_session_expect(pdl_session_t *session, const pdl_batch_t *batch);
/* The same in two calls, forward and the rest, for a loss that is common to several sessions: what the hook was shown as
   `extra` may be filled in between. The two get the same batch. Not with micro-batches or stages. */
pdl_status_t pdl_session_step_begin(pdl_session_t *session, const pdl_batch_t *batch);
pdl_status_t pdl_session_step_finish(pdl_session_t *session, const pdl_batch_t *batch, pdl_step_result_t *result);
/* Forward only, with running statistics and without dropout. */
pdl_status_t pdl_session_evaluate(pdl_session_t *session, const pdl_batch_t *batch, pdl_step_result_t *result);
/* The same, and what the network says of the samples of this rank, before the loss: `values` takes them one after the other, each as the input
   of the loss is (vectors [channels], sequences [positions][channels], images [channels][extents]). Sequences with `position`:
   only the channels of that position of every sample. With `largest` instead of values, which is for samples of one position
   where pdl_session_finds_largest(): the number of the largest channel of every sample, in pinned memory. Not for samples that are split over
   ranks. */
typedef struct pdl_outputs {
    float         *values;
    int32_t       *largest;
    const int32_t *position; /* [count of pdl_session_share()], or NULL */
} pdl_outputs_t;
bool         pdl_session_finds_largest(const pdl_session_t *session);
pdl_status_t pdl_session_predict(pdl_session_t *session, const pdl_batch_t *batch, const pdl_outputs_t *outputs,
                                 pdl_step_result_t *result);
/* The shape of one sample's outputs. An error where outputs cannot be had. */
pdl_status_t pdl_session_output_shape(const pdl_session_t *session, pdl_shape_t *shape);
/* Generation: how many earlier tokens every sample of this rank has, for the next runs. */
pdl_status_t pdl_session_set_past(pdl_session_t *session, const int32_t *past);
/* Forward only, but as in training: with statistics of the batch, which also enter the running ones, and dropout. */
pdl_status_t pdl_session_pass(pdl_session_t *session, const pdl_batch_t *batch, pdl_step_result_t *result);
/* Evaluation takes the averaged weights between these two calls (does nothing without EMA). */
pdl_status_t pdl_session_swap_ema(pdl_session_t *session);

/* Loss, correctness and confidence of this rank's samples in the latest step or evaluation, [count] each; of the whole
   samples on ranks for which pdl_session_reports() holds, and of no meaning on others. Where the plan divides the samples of the
   loss further (mode sample on a tensor or spatial axis), every rank has those it computed, and all of them only after
   pdl_session_gather_samples(). */
typedef struct pdl_sample_results {
    const float *loss, *correct, *confidence;
    int64_t      count;
} pdl_sample_results_t;
pdl_sample_results_t pdl_session_samples(const pdl_session_t *session);

/* Collective. Completes the results of samples whose positions, or which themselves, are on several ranks; at most once a
   step. */
pdl_status_t pdl_session_gather_samples(pdl_session_t *session);
/* Whether this rank speaks for its samples: of the ranks that share them, one does. */
bool pdl_session_reports(const pdl_session_t *session);
/* The ranks that have other samples, this one included, in the order of their samples; the session's. */
pdl_status_t pdl_session_data_ranks(const pdl_session_t *session, pdl_ranks_t **ranks);

/* The rate of the next updates is that of the schedule at `position` (in updates, with fractions) times `factor`.
   Without this call it is that of the number of updates, times 1. */
void pdl_session_set_rate(pdl_session_t *session, double position, double factor);

/* Asks all ranks to stop: the next result says so on every one of them. May be called from a signal handler. */
void pdl_session_request_stop(pdl_session_t *session);
/* How many of the workers of a rank are told apart, each of them by micro-batches of its own: all of them where the model has
   batch norm with statistics of theirs, else one. */
int64_t pdl_session_workers(const pdl_plan_t *plan, int64_t workers);

/* Collective. The statistics of batch norm that workers keep each for themselves are replaced by their mean (or the first's), for
   evaluation; or they come back, which has to be before the next step. */
pdl_status_t pdl_session_mean_statistics(pdl_session_t *session, bool mean);

/* Updates made so far; random numbers and learning rates follow from it. */
int64_t pdl_session_updates(const pdl_session_t *session);
void    pdl_session_set_updates(pdl_session_t *session, int64_t updates);
/* Executions so far whose operations the device replayed, with one launch for all of them. */
int64_t pdl_session_replayed(const pdl_session_t *session);

/* Weights and statistics by name ("layer1.0.conv1.weight"), row-major. */
typedef struct pdl_session_tensor {
    const char *name;
    int         rank;
    int64_t     dims[5];
    int64_t     elements; /* product of dims */
    bool        trainable;
} pdl_session_tensor_t;
typedef enum pdl_session_array {
    PDL_ARRAY_WEIGHT,
    PDL_ARRAY_GRADIENT,
    PDL_ARRAY_MOMENT1,
    PDL_ARRAY_MOMENT2,
    PDL_ARRAY_EMA,
    PDL_ARRAY_COUNT
} pdl_session_array_t;
int                         pdl_session_tensor_count(const pdl_session_t *session);
const pdl_session_tensor_t *pdl_session_tensor(const pdl_session_t *session, int i);
int                         pdl_session_find(const pdl_session_t *session, const char *name); /* -1 when absent */
bool                        pdl_session_has(const pdl_session_t *session, int i, pdl_session_array_t array);
/* Collective where values are in parts on several ranks: where the weight is split, and of arrays that are sharded.
   Setting is local, and takes this rank's part of `plain`. */
pdl_status_t pdl_session_get(const pdl_session_t *session, int i, pdl_session_array_t array, float *plain);
pdl_status_t pdl_session_set(pdl_session_t *session, int i, pdl_session_array_t array, const float *plain);

/* Bytes held by this rank. With sharding, room for whole buckets that come and go counts as weights and gradients. */
typedef struct pdl_session_memory {
    size_t weights, gradients, optimizer, activations, total; /* activations: the arena, workspace included */
    size_t live;                                              /* of the arena: most bytes alive at once */
    size_t host;     /* pinned, not in the total: swapped activations, and optimizer state on host or disk */
    size_t messages; /* buffers in which they leave and arrive */
    size_t cache;    /* generation: keys and values; of the session that has them */
} pdl_session_memory_t;
void pdl_session_memory(const pdl_session_t *session, pdl_session_memory_t *memory);

/* Bytes this rank sends in one update, or in one evaluation where it does not train. */
typedef struct pdl_session_traffic {
    double moves;      /* redistributions and halos */
    double routed;     /* tokens to experts on other ranks and back, if all experts are asked equally often */
    double routed_all; /* not in the total: a share of what all ranks give to experts, wherever these are */
    double stages;     /* to other stages of a pipeline */
    double gradients;  /* their exchange, that of tied weights included; and of weights where these are sharded */
    double statistics; /* of batch norm and of split losses, as pdl_ranks_sent() counts them */
    double results;    /* loss and gradient norm, in the same way */
    double total;
} pdl_session_traffic_t;
void pdl_session_traffic(const pdl_session_t *session, pdl_session_traffic_t *traffic);

/* How many tokens go where is up to the data: bytes since the beginning to other ranks, and to experts of this
   rank. */
void pdl_session_routed(const pdl_session_t *session, double *sent, double *stayed);

/* Seconds of all steps so far, class by class, on this rank; PDL_CLASS_INPUT is not the session's. */
void pdl_session_classes(const pdl_session_t *session, double seconds[PDL_OP_CLASS_COUNT]);

/* How memory of the backend goes between ranks: "mpi" where MPI itself sends it, "host", "ipc" or "nccl". */
const char *pdl_session_transport(const pdl_session_t *session);

/* How many ranks have the device of this one in turns; 0 where it has no turns, or one rank. */
int pdl_session_turns(const pdl_session_t *session);

/* Exchanges of gradients and of sharded weights, by what really runs them on this rank. */
typedef struct pdl_session_exchange {
    char             axes[64]; /* of the group, as in a plan file: "data" */
    pdl_collective_t collective;
    char             algorithm[PDL_COLL_NAME_SIZE]; /* a schedule or "library"; of buckets that differ "a, b" */
    int              ranks;
    int64_t          messages; /* sent so far; 0 of the library's */
    double           sent;     /* bytes so far ("library": those of a ring) */
    double           density;  /* of sparse sums; else 0 */
    double           ring;     /* of sparse sums: bytes that a dense ring would have sent */
} pdl_session_exchange_t;
#define PDL_MAX_EXCHANGES 16
/* Writes up to PDL_MAX_EXCHANGES of them, and returns how many. */
int pdl_session_exchanges(const pdl_session_t *session, pdl_session_exchange_t exchanges[PDL_MAX_EXCHANGES]);

/* Collective. The times of the latest steps of all ranks as one file of rank 0, for Perfetto; spec.timeline must have been set. */
pdl_status_t pdl_session_trace(const pdl_session_t *session, const char *path);

#ifdef __cplusplus
}
#endif
#endif
