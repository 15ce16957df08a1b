/*
 * One update of all weights. SGD and AdamW are element-wise, so tensors that are side by side and treated alike
 * are one range. LARS (You, Gitman, Ginsburg 2017, algorithm 1) and LAMB (You et al., ICLR 2020, algorithm 2) scale each
 * tensor's step by norms of that tensor, so every tensor is a range. Numbers stay on the device until the end.
 */
#include "train/optim/table.h"

#include <math.h>

const char *const pdl_method_names[PDL_METHOD_COUNT] = {"sgd", "adamw", "lars", "lamb"};
const char *const pdl_momentum_names[PDL_MOMENTUM_COUNT] = {"summed", "local", "masked"};

/* Of the update itself. */
static double momentum_of(const pdl_optimizer_options_t *options)
{
    return options->momentum_of == PDL_MOMENTUM_SUMMED ? options->momentum : 0;
}

int pdl_optimizer_moments(const pdl_optimizer_options_t *options)
{
    switch (options->method) {
    case PDL_METHOD_SGD:
    case PDL_METHOD_LARS: return momentum_of(options) > 0 ? 1 : 0;
    case PDL_METHOD_ADAMW:
    case PDL_METHOD_LAMB: return 2;
    case PDL_METHOD_COUNT: break;
    }
    return 0;
}

/* Numbers on the device: two sums of every parameter, whether something that was written is not finite, and the norm of the
   gradients with their scale. */
typedef struct step {
    const pdl_optimizer_options_t *options;
    const pdl_optimizer_run_t     *run;
    pdl_update_t                   update;
    int                            count; /* of parameters */
} step_t;

static int64_t not_finite_at(int count)
{
    return 2 * (int64_t)count;
}

static int64_t clip_at(int count)
{
    return 2 * (int64_t)count + 1;
}

/* Numbers to the host or back. */
static pdl_status_t copy_numbers(const pdl_optimizer_run_t *run, bool home, int64_t first, int64_t count)
{
    double *to = home ? run->home : run->scalars, *from = home ? run->scalars : run->home;

    return run->backend->device->ops->copy(run->backend->device, run->stream, to + first, from + first,
                                           (size_t)count * sizeof(double));
}

static pdl_status_t fetch(const pdl_optimizer_run_t *run, int64_t count)
{
    return pdl_device_fetch(run->backend->device, run->stream, run->home, run->scalars,
                            (size_t)count * sizeof(double));
}

static pdl_status_t sum_squares(const step_t *step, const void *values, const pdl_slice_t *slices, int count,
                                double *sums)
{
    return step->run->backend->ops->sum_squares(step->run->backend, step->run->stream, values, slices, count, sums);
}

static pdl_status_t apply(const step_t *step, pdl_update_kind_t kind, const pdl_update_range_t *ranges, int count)
{
    pdl_update_t update = step->update;

    update.kind = kind;
    return step->run->backend->ops->update(step->run->backend, step->run->stream, &update, ranges, count);
}

/* Where ranks have parts of tensors, the sums of parameters become those of their tensors. */
static pdl_status_t join_parts(const step_t *step)
{
    const pdl_optimizer_run_t *run = step->run;
    int                        n = step->count;

    if (run->tensor == NULL) return PDL_OK;
    pdl_status_t status = fetch(run, 2 * (int64_t)n);
    for (int t = 0; t < 2 * run->tensors; t++) run->sums[t] = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 2; k++)
            run->sums[2 * run->tensor[i] + k] += run->home[k * n + i] / run->table->copies[i];
    if (!status) status = run->reduce_tensors(run->tensors_context, run->sums, 2 * (int64_t)run->tensors);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 2; k++) run->home[k * n + i] = run->sums[2 * run->tensor[i] + k];
    return status ? status : copy_numbers(run, false, 0, 2 * (int64_t)n);
}

static pdl_status_t update_lars(const step_t *step)
{
    const pdl_optimizer_table_t *table = step->run->table;
    double                      *sums = step->run->scalars;
    pdl_status_t status = sum_squares(step, step->run->weights, table->scaled_weights, step->count, sums);

    if (!status)
        status = sum_squares(step, step->run->gradients, table->scaled_gradients, step->count, sums + step->count);
    if (!status) status = join_parts(step);
    return status ? status : apply(step, step->update.kind, table->each, step->count);
}

/* The moments first, which gives the norms of the directions; then the step. */
static pdl_status_t update_lamb(const step_t *step)
{
    const pdl_optimizer_table_t *table = step->run->table;
    pdl_status_t                 status = apply(step, PDL_UPDATE_LAMB_STATE, table->each, step->count);

    if (!status)
        status = sum_squares(step, step->run->weights, table->scaled_weights, step->count, step->run->scalars);
    if (!status) status = join_parts(step);
    return status ? status : apply(step, PDL_UPDATE_LAMB_APPLY, table->each, step->count);
}

static pdl_status_t not_finite(const pdl_optimizer_run_t *run)
{
    return pdl_error(PDL_ERR_NOT_FINITE,
                     "the gradients of step %lld are not finite: lower the learning rate or clip them",
                     (long long)run->step);
}

/* The norm of gradients that ranks share, each tensor counted in parts. */
static pdl_status_t add_norms(const step_t *step, double *sum)
{
    const pdl_optimizer_run_t *run = step->run;
    pdl_status_t status = sum_squares(step, run->gradients, run->table->gradients, step->count, run->scalars);

    if (!status) status = fetch(run, step->count);
    *sum = 0;
    for (int i = 0; i < step->count && !status; i++) *sum += run->home[i] / run->table->copies[i];
    return status ? status : run->reduce(run->reduce_context, sum, 1);
}

/* What gradients are multiplied by, on the device: the scale that brings them down to the norm allowed, with PyTorch's guard
   against division by zero. */
static pdl_status_t scale_gradients(const step_t *step)
{
    const pdl_optimizer_run_t *run = step->run;
    double                    *clip = run->scalars + clip_at(step->count), allowed = step->options->clip_norm, sum;
    int                        count = 0;
    pdl_status_t               status = PDL_OK;

    if ((run->norm || allowed > 0) && run->reduce != NULL) {
        status = add_norms(step, &sum);
        if (!status && !isfinite(sqrt(sum))) return not_finite(run);
        run->home[0] = sum;
        if (!status) status = copy_numbers(run, false, 0, 1);
        count = 1;
    } else if (run->norm || allowed > 0) {
        count = run->table->joined_count;
        status = sum_squares(step, run->gradients, run->table->joined_gradients, count, run->scalars);
    }
    if (status) return status;
    return run->backend->ops->clip(run->backend, run->stream, run->scalars, count, allowed, run->flag, clip);
}

/* What is there of some ranges: all of them, or what a piece of the state has of them, from its beginning on. */
static int cut_ranges(const pdl_optimizer_run_t *run, const pdl_update_range_t **ranges, int count)
{
    int made = 0;

    if (run->state_high == 0) return count;
    for (int i = 0; i < count; i++) {
        pdl_update_range_t range = (*ranges)[i];
        int64_t            skip = range.state < run->state_low ? run->state_low - range.state : 0;
        int64_t            end = range.state + range.elements;
        if (end > run->state_high) end = run->state_high;
        if (range.state + skip >= end) continue;
        range.elements = end - range.state - skip;
        range.weights += skip;
        range.gradients += skip - run->gradients_low;
        range.state += skip - run->state_low;
        if (run->weights_pass) range.weights = range.state;
        if (run->gradients_pass) range.gradients = range.state;
        if (range.packed >= 0) range.packed += skip;
        run->table->cut[made++] = range;
    }
    *ranges = run->table->cut;
    return made;
}

static pdl_status_t update_ema(const step_t *step)
{
    const pdl_optimizer_run_t *run = step->run;
    const pdl_update_range_t  *joined = run->table->joined;
    size_t                     item = pdl_dtype_bytes(run->backend->weight_type);
    int                        count = cut_ranges(run, &joined, run->table->joined_count);
    pdl_status_t               status = PDL_OK;

    for (int i = 0; i < count && !status; i++) {
        const pdl_update_range_t *range = &joined[i];

        status = run->backend->ops->average(run->backend, run->stream, step->options->ema, range->elements,
                                            (char *)run->ema + (size_t)range->state * item,
                                            (const char *)run->weights + (size_t)range->weights * item);
    }
    return status;
}

void pdl_optimizer_numbers(const pdl_optimizer_options_t *options, int64_t step, double lr,
                           pdl_step_numbers_t *numbers)
{
    numbers->lr = lr;
    numbers->correction1 = 1 - pow(options->beta1, (double)step + 1);
    numbers->correction2 = 1 - pow(options->beta2, (double)step + 1);
}

static pdl_update_t common_update(const pdl_optimizer_options_t *options, const pdl_optimizer_run_t *run)
{
    pdl_step_numbers_t numbers;
    int                count = run->table->count;

    pdl_optimizer_numbers(options, run->step,
                          run->lr != NULL ? *run->lr : pdl_learning_rate(options, (double)run->step), &numbers);
    pdl_update_t update = {
        .kind = momentum_of(options) > 0 ? (options->nesterov ? PDL_UPDATE_NESTEROV : PDL_UPDATE_MOMENTUM)
                                         : PDL_UPDATE_SGD,
        .lr = numbers.lr,
        .momentum = momentum_of(options),
        .beta1 = options->beta1,
        .beta2 = options->beta2,
        .epsilon = options->epsilon,
        .decay = options->momentum_of == PDL_MOMENTUM_SUMMED ? options->weight_decay
                                                             : options->weight_decay / (1 - options->momentum),
        .correction1 = numbers.correction1,
        .correction2 = numbers.correction2,
        .numbers = run->numbers,
        .trust = options->method == PDL_METHOD_LARS ? options->trust : 0,
        .scale = run->scalars + clip_at(count) + 1,
        .sums = run->scalars,
        .weights = run->weights,
        .gradients = run->gradients,
        .moment = {run->moment[0], run->moment[1]},
        .packed = run->packed,
        .not_finite = (int64_t *)(void *)(run->scalars + not_finite_at(count)),
    };

    if (options->method == PDL_METHOD_ADAMW) update.kind = PDL_UPDATE_ADAMW;
    return update;
}

static pdl_status_t clear_not_finite(const step_t *step)
{
    pdl_tensor_device_t *device = step->run->backend->device;

    return device->ops->fill(device, step->run->stream, step->update.not_finite, sizeof(int64_t));
}

pdl_status_t pdl_optimizer_begin(const pdl_optimizer_options_t *options, const pdl_optimizer_run_t *run)
{
    step_t       step = {options, run, common_update(options, run), run->table->count};
    pdl_status_t status = scale_gradients(&step);

    if (!status) status = clear_not_finite(&step);
    return status ? status : copy_numbers(run, true, not_finite_at(step.count), 3);
}

pdl_status_t pdl_optimizer_piece(const pdl_optimizer_options_t *options, const pdl_optimizer_run_t *run)
{
    step_t                    step = {options, run, common_update(options, run), run->table->count};
    const pdl_update_range_t *alike = run->table->alike;
    int                       count = cut_ranges(run, &alike, run->table->alike_count);
    pdl_status_t              status = apply(&step, step.update.kind, alike, count);

    return !status && options->ema > 0 && run->ema != NULL ? update_ema(&step) : status;
}

pdl_status_t pdl_optimizer_step(const pdl_optimizer_options_t *options, const pdl_optimizer_run_t *run)
{
    const pdl_optimizer_table_t *table = run->table;
    step_t                       step = {options, run, common_update(options, run), table->count};
    bool                         pieces = run->state_high > 0;
    const pdl_update_range_t    *alike = table->alike;
    int                          count = cut_ranges(run, &alike, table->alike_count);
    pdl_status_t                 status = pieces && !run->first_piece ? PDL_OK : scale_gradients(&step);

    if (!status && (!pieces || run->first_piece)) status = clear_not_finite(&step);
    if (status) return status;
    switch (options->method) {
    case PDL_METHOD_SGD:
    case PDL_METHOD_ADAMW: status = apply(&step, step.update.kind, alike, count); break;
    case PDL_METHOD_LARS: status = update_lars(&step); break;
    case PDL_METHOD_LAMB: status = update_lamb(&step); break;
    case PDL_METHOD_COUNT: break;
    }
    if (!status && options->ema > 0 && run->ema != NULL) status = update_ema(&step);
    if (status || (pieces && !run->last_piece)) return status;
    return copy_numbers(run, true, not_finite_at(table->count), 3);
}

pdl_status_t pdl_optimizer_outcome(const pdl_optimizer_run_t *run, double *gradient_norm)
{
    int count = run->table->count;

    *gradient_norm = run->home[clip_at(count)];
    if (!isfinite(*gradient_norm)) return not_finite(run);
    if (*(const int64_t *)(const void *)(run->home + not_finite_at(count)) == 0) return PDL_OK;
    return pdl_error(PDL_ERR_NOT_FINITE,
                     "the weights are not finite after step %lld: lower the learning rate or clip gradients",
                     (long long)run->step);
}
