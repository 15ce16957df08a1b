/*
 * Optimizers and schedules of the learning rate. The state is in flat arrays beside the weights: tensor i of
 * the list owns [offset, offset + elements) in each of them.
 */
#ifndef PARADL_OPTIMIZER_H
#define PARADL_OPTIMIZER_H

#include <paradl/base/status.h>
#include <paradl/tensor/backend.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pdl_method {
    PDL_METHOD_SGD,
    PDL_METHOD_ADAMW,
    PDL_METHOD_LARS,
    PDL_METHOD_LAMB,
    PDL_METHOD_COUNT
} pdl_method_t;
extern const char *const pdl_method_names[PDL_METHOD_COUNT]; /* sgd adamw lars lamb */

typedef enum pdl_lr_schedule {
    PDL_LR_CONSTANT,
    PDL_LR_STEP,
    PDL_LR_COSINE,
    PDL_LR_POLYNOMIAL,
    PDL_LR_COUNT
} pdl_lr_schedule_t;
extern const char *const pdl_lr_names[PDL_LR_COUNT]; /* constant step cosine polynomial */

/* Where sgd has its momentum when sums of gradients are sparse (paradl/coll/sparse.h). */
typedef enum pdl_momentum {
    PDL_MOMENTUM_SUMMED, /* in the update, of the sum */
    PDL_MOMENTUM_LOCAL, /* every rank of its own gradients, before it chooses from them; the update has none, and its weight decay
                            takes the place of one with momentum */
    PDL_MOMENTUM_MASKED, /* the same, forgotten where an element is sent */
    PDL_MOMENTUM_COUNT
} pdl_momentum_t;
extern const char *const pdl_momentum_names[PDL_MOMENTUM_COUNT]; /* summed local masked */

#define PDL_MAX_MILESTONES 16
#define PDL_LR_USUAL       (-1.0)

typedef struct pdl_optimizer_options {
    pdl_method_t      method;
    double            lr;       /* PDL_LR_USUAL: the method's (sgd 0.1, adamw 1e-3, lars 1, lamb 1e-3) */
    double            momentum; /* sgd, lars */
    bool              nesterov;
    pdl_momentum_t    momentum_of; /* sgd; other than summed only where sums are sparse */
    double            beta1, beta2, epsilon;
    double            weight_decay;
    bool              decay_all; /* also biases and norms (tensors of rank 1); normally left out */
    double            trust;     /* lars: its coefficient, 0.001 */
    double            clip_norm; /* 0: none */
    double            ema;       /* 0: none; else the share kept each step */
    pdl_lr_schedule_t schedule;
    double            warmup_steps; /* linear from lr / warmup_steps */
    double            total_steps;  /* cosine and polynomial end here */
    double            min_lr;
    double            power; /* polynomial */
    double            gamma; /* step: factor at each milestone */
    int               milestone_count;
    double            milestone[PDL_MAX_MILESTONES]; /* in steps */
} pdl_optimizer_options_t;
/* SGD with momentum 0.9, constant rate, weight decay 0, adam 0.9 0.999 1e-8, trust 0.001, power 1, gamma 0.1. */
void pdl_optimizer_defaults(pdl_optimizer_options_t *options);
/* PDL_ERR_INPUT names the option that is wrong and its range. */
pdl_status_t pdl_optimizer_check(const pdl_optimizer_options_t *options);

/* The rate that a schedule starts from: lr, or the method's usual one. */
double pdl_optimizer_rate(const pdl_optimizer_options_t *options);
/* The rate of step 0, 1, 2, ...; positions between them are those of runs whose epochs differ in length. */
double pdl_learning_rate(const pdl_optimizer_options_t *options, double step);

typedef struct pdl_parameter {
    pdl_update_range_t range;  /* weights and statistics that are not trained are not in the list */
    int64_t            copies; /* ranks that hold the same weights, of use with `reduce` below; 0 means 1 */
} pdl_parameter_t;

/* Parameters as updates take them, made once. */
typedef struct pdl_optimizer_table pdl_optimizer_table_t;
pdl_status_t pdl_optimizer_table_create(const pdl_optimizer_options_t *options, const pdl_parameter_t *parameters,
                                        int count, pdl_optimizer_table_t **table);
void         pdl_optimizer_table_destroy(pdl_optimizer_table_t *table); /* NULL is allowed */

/* Arrays of the optimizer's state per weight element: 0, 1 or 2 (and one more for EMA). */
int pdl_optimizer_moments(const pdl_optimizer_options_t *options);

/* Adds values over ranks. */
typedef pdl_status_t (*pdl_reduce_fn_t)(void *context, double *values, int64_t count);

/* Numbers of an update, on the device and on the host. */
#define PDL_OPTIMIZER_NUMBERS(parameters) (2 * (int64_t)(parameters) + 3)

typedef struct pdl_optimizer_run {
    pdl_backend_t               *backend;
    const pdl_optimizer_table_t *table;
    void                        *weights, *gradients, *moment[2], *ema; /* backend->weight_type */
    void                        *packed; /* copies of weights in the activation type, or NULL */
    int64_t                      step;   /* 0 for the first update */
    /* The state [state_low, state_high) alone is there, in `moment` and `ema`, and updated: all of it comes in pieces, of which
       the first prepares and the last ends the update. 0, 0: all of it is there. Not for lars and lamb. */
    int64_t              state_low, state_high;
    bool                 first_piece, last_piece;
    bool                 weights_pass;   /* `weights` has those of the piece alone, */
    int64_t              gradients_low;  /* and `gradients` begins with this element; */
    bool                 gradients_pass; /* or with those of the piece */
    const double        *lr;             /* of this update; NULL: that of the schedule at `step` */
    bool                 norm;           /* the norm of the gradients is wanted */
    pdl_tensor_stream_t *stream;
    double              *scalars, *home; /* room for the numbers, of the device and of the host (pinned) */
    const int64_t       *flag;           /* of the device: nothing is written unless it is 0; NULL: it is */
    const pdl_step_numbers_t
        *numbers; /* of the device, by pdl_optimizer_numbers(); NULL: they come with the call */
    /* Adds over all ranks: the squared norm of all gradients, each tensor counted in parts by its `copies`; NULL: this
       rank holds them all. */
    pdl_reduce_fn_t reduce;
    void           *reduce_context;
    /* Parameters that are parts of larger tensors, whose norms lars and lamb want: parameter i is a part of
       tensor[i], which is less than `tensors`. reduce_tensors adds over the ranks that have parts of the same
       tensors: two values a tensor in `sums`, each part over its `copies`. NULL: all are whole. */
    const int      *tensor;
    int             tensors;
    double         *sums; /* [2 * tensors] */
    pdl_reduce_fn_t reduce_tensors;
    void           *tensors_context;
} pdl_optimizer_run_t;

/* What the update at `step` has of its own; numbers->step stays. */
void pdl_optimizer_numbers(const pdl_optimizer_options_t *options, int64_t step, double lr,
                           pdl_step_numbers_t *numbers);
/* One update is given to the stream, and its numbers start home. The host waits for the stream only where ranks have
   to add norms. PDL_ERR_NOT_FINITE: the norm of the gradients is not finite on any rank, and nothing is written. */
pdl_status_t pdl_optimizer_step(const pdl_optimizer_options_t *options, const pdl_optimizer_run_t *run);
/* The same in two parts, where processors of the host update pieces. begin() is work of the stream, before all of them. piece() updates
   one at once when that is done: its backend is the CPU, and its scalars are `home` of begin(). */
pdl_status_t pdl_optimizer_begin(const pdl_optimizer_options_t *options, const pdl_optimizer_run_t *run);
pdl_status_t pdl_optimizer_piece(const pdl_optimizer_options_t *options, const pdl_optimizer_run_t *run);
/* Once the stream has been waited for: the norm before clipping, or 0 where it was neither wanted nor needed.
   PDL_ERR_NOT_FINITE: that norm is not finite and nothing was written; or it is, and weights or state that this rank has
   written are not finite. */
pdl_status_t pdl_optimizer_outcome(const pdl_optimizer_run_t *run, double *gradient_norm);

#ifdef __cplusplus
}
#endif
#endif
