/*
 * One update of all weights. SGD and AdamW are element-wise, so tensors that are side by side and treated alike
 * are one call of the backend. LARS (You, Gitman, Ginsburg 2017, algorithm 1) and LAMB (You et al., ICLR 2020,
 * algorithm 2) scale each tensor's step by norms of that tensor, so tensors that take part go one by one.
 */
#include <paradl/train/optimizer.h>

#include <math.h>

const char *const pdl_method_names[PDL_METHOD_COUNT] = {"sgd", "adamw", "lars", "lamb"};

int pdl_optimizer_moments(const pdl_optimizer_options_t *options)
{
    switch (options->method) {
    case PDL_METHOD_SGD:
    case PDL_METHOD_LARS: return options->momentum > 0 ? 1 : 0;
    case PDL_METHOD_ADAMW:
    case PDL_METHOD_LAMB: return 2;
    case PDL_METHOD_COUNT: break;
    }
    return 0;
}

/* Elements of the flat arrays: of the state, of weights and of gradients. */
typedef struct range {
    int64_t offset, weights, gradients, elements;
    bool    decays;
} range_t;

/* What one update is made of, the same for every tensor. */
typedef struct step {
    const pdl_optimizer_options_t *options;
    const pdl_optimizer_run_t     *run;
    pdl_update_t                   update; /* of a tensor that decays */
    size_t                         element_bytes;
} step_t;

/* Where the device notes that something is not finite, behind the sums. */
static int64_t *not_finite_at(double *scalars, const pdl_optimizer_run_t *run)
{
    return (int64_t *)(void *)(scalars + 2 * run->count);
}

/* The first `count` numbers of the device. */
static pdl_status_t fetch(const pdl_optimizer_run_t *run, int64_t count)
{
    return pdl_device_fetch(run->backend->device, run->stream, run->home, run->scalars,
                            (size_t)count * sizeof(double));
}

static pdl_status_t clear(const pdl_optimizer_run_t *run, void *numbers, int64_t count)
{
    return run->backend->device->ops->fill(run->backend->device, run->stream, numbers,
                                           (size_t)count * sizeof(double));
}

static void *at(const step_t *step, void *array, int64_t offset)
{
    return array != NULL ? (char *)array + (size_t)offset * step->element_bytes : NULL;
}

static range_t range_of(const pdl_optimizer_run_t *run, int i)
{
    const pdl_parameter_t *p = &run->parameters[i];

    return (range_t){.offset = p->offset,
                     .weights = run->weight_at != NULL ? run->weight_at[i] : p->offset,
                     .gradients = run->gradient_at != NULL ? run->gradient_at[i] : p->offset,
                     .elements = p->elements,
                     .decays = p->decays};
}

static bool follows(const range_t *range, const range_t *next)
{
    return next->offset == range->offset + range->elements && next->weights == range->weights + range->elements &&
           next->gradients == range->gradients + range->elements;
}

/* The longest range from parameter *next on that is contiguous and, if `alike`, equal in decay; *next moves past
   it. */
static range_t take_range(const pdl_optimizer_run_t *run, bool alike, int *next)
{
    range_t range = range_of(run, *next);

    while (++*next < run->count) {
        range_t more = range_of(run, *next);
        if (!follows(&range, &more) || (alike && more.decays != range.decays)) break;
        range.elements += more.elements;
    }
    return range;
}

static pdl_status_t sum_squares(const step_t *step, const void *values, int64_t count, double *sum)
{
    return step->run->backend->ops->sum_squares(step->run->backend, step->run->stream, values, count, sum);
}

static pdl_status_t apply(const step_t *step, const pdl_update_t *update, const range_t *range, double *norm)
{
    const pdl_optimizer_run_t *run = step->run;

    return run->backend->ops->update(run->backend, run->stream, update, range->elements,
                                     at(step, run->weights, range->weights),
                                     at(step, run->gradients, range->gradients),
                                     at(step, run->moment[0], range->offset),
                                     at(step, run->moment[1], range->offset), norm,
                                     not_finite_at(run->scalars, run));
}

/* SGD and AdamW. Without weight decay every tensor is treated alike. */
static pdl_status_t update_ranges(const step_t *step)
{
    bool         alike = step->update.decay != 0;
    pdl_status_t status = PDL_OK;

    for (int next = 0; next < step->run->count && !status;) {
        range_t      range = take_range(step->run, alike, &next);
        pdl_update_t update = step->update;

        if (!range.decays) update.decay = 0;
        status = apply(step, &update, &range, NULL);
    }
    return status;
}

/* Two sums of squares of every parameter: `part` has them written to the device. */
typedef pdl_status_t (*part_fn_t)(const step_t *step, int i, double sums[2]);

/* In run->home: those of parameters; and in run->sums, where ranks have parts, those of tensors. */
static pdl_status_t measure(const step_t *step, part_fn_t part)
{
    const pdl_optimizer_run_t *run = step->run;
    pdl_status_t               status = clear(run, run->scalars, 2 * run->count);

    for (int i = 0; i < run->count && !status; i++) status = part(step, i, run->scalars + 2 * i);
    if (!status) status = fetch(run, 2 * run->count);
    if (status || run->tensor == NULL) return status;
    for (int t = 0; t < 2 * run->tensors; t++) run->sums[t] = 0;
    for (int i = 0; i < run->count; i++) {
        double copies = run->parameters[i].copies > 1 ? (double)run->parameters[i].copies : 1;

        for (int k = 0; k < 2; k++) run->sums[2 * run->tensor[i] + k] += run->home[2 * i + k] / copies;
    }
    return run->reduce_tensors(run->tensors_context, run->sums, 2 * (int64_t)run->tensors);
}

/* The sums of parameter i: those of its tensor. */
static const double *sums_of(const step_t *step, int i)
{
    const pdl_optimizer_run_t *run = step->run;

    return run->tensor == NULL ? run->home + 2 * i : run->sums + 2 * run->tensor[i];
}

static pdl_status_t lars_part(const step_t *step, int i, double sums[2])
{
    range_t      range = range_of(step->run, i);
    pdl_status_t status;

    if (!range.decays) return PDL_OK;
    status = sum_squares(step, at(step, step->run->weights, range.weights), range.elements, &sums[0]);
    return status ? status
                  : sum_squares(step, at(step, step->run->gradients, range.gradients), range.elements, &sums[1]);
}

/* LARS: the local rate is trust |w| / (|g| + decay |w|), and 1 where a norm is zero or the tensor does not take
   part. As in the paper, the momentum gathers steps that are already scaled by both rates. */
static pdl_status_t update_lars(const step_t *step)
{
    const pdl_optimizer_run_t *run = step->run;
    pdl_status_t               status = measure(step, lars_part);

    for (int i = 0; i < run->count && !status; i++) {
        range_t      range = range_of(run, i);
        pdl_update_t update = step->update;
        double       rate = update.lr;

        if (range.decays) {
            const double *sums = sums_of(step, i);
            double        w = sqrt(sums[0]), g = sqrt(sums[1]) * fabs(update.gradient_scale);

            if (w > 0 && g > 0) rate *= step->options->trust * w / (g + update.decay * w);
        } else {
            update.decay = 0;
        }
        update.lr = 1;
        update.gradient_scale *= rate;
        update.decay *= rate;
        status = apply(step, &update, &range, NULL);
    }
    return status;
}

/* The moments of a part, and with them the norm of its direction. */
static pdl_status_t lamb_part(const step_t *step, int i, double sums[2])
{
    range_t      range = range_of(step->run, i);
    pdl_update_t update = step->update;

    if (!range.decays) update.decay = 0;
    update.kind = PDL_UPDATE_LAMB_STATE;
    pdl_status_t status = apply(step, &update, &range, &sums[1]);
    if (status || !range.decays) return status;
    return sum_squares(step, at(step, step->run->weights, range.weights), range.elements, &sums[0]);
}

/* LAMB: the moments first, which gives the norm of the direction; then the step, scaled by |w| / |direction|. */
static pdl_status_t update_lamb(const step_t *step)
{
    const pdl_optimizer_run_t *run = step->run;
    pdl_status_t               status = measure(step, lamb_part);

    for (int i = 0; i < run->count && !status; i++) {
        range_t       range = range_of(run, i);
        pdl_update_t  update = step->update;
        const double *sums = sums_of(step, i);

        if (!range.decays) update.decay = 0;
        update.kind = PDL_UPDATE_LAMB_APPLY;
        if (range.decays && sums[0] > 0 && sums[1] > 0) update.lr *= sqrt(sums[0]) / sqrt(sums[1]);
        status = apply(step, &update, &range, NULL);
    }
    return status;
}

/* Where ranks share tensors, each of these is counted in parts; otherwise neighbours are one range. */
static pdl_status_t gradient_norm_of(const step_t *step, double *norm)
{
    const pdl_optimizer_run_t *run = step->run;
    bool                       shared = run->reduce != NULL;
    double                     sum = 0;
    int                        count = 0;
    pdl_status_t               status = PDL_OK;

    for (int next = 0; next < run->count && !status;) {
        range_t range = shared ? range_of(run, next++) : take_range(run, false, &next);

        status =
            sum_squares(step, at(step, run->gradients, range.gradients), range.elements, run->scalars + count++);
    }
    if (!status) status = fetch(run, count);
    for (int i = 0; i < count && !status; i++)
        sum += run->home[i] / (double)(shared && run->parameters[i].copies > 1 ? run->parameters[i].copies : 1);
    if (!status && shared) status = run->reduce(run->reduce_context, &sum, 1);
    *norm = sqrt(sum);
    return status;
}

/* The scale that brings the gradients down to the norm allowed, with PyTorch's guard against division by zero. */
static pdl_status_t clip(step_t *step, double *norm)
{
    double       allowed = step->options->clip_norm, found = 0;
    pdl_status_t status;

    if (norm == NULL && allowed <= 0) return PDL_OK;
    status = gradient_norm_of(step, &found);
    if (status) return status;
    if (norm != NULL) *norm = found;
    if (!isfinite(found))
        return pdl_error(PDL_ERR_NOT_FINITE,
                         "the gradients of step %lld are not finite: lower the learning rate or clip them",
                         (long long)step->run->step);
    if (allowed > 0) step->update.gradient_scale = fmin(1, allowed / (found + 1e-6));
    return PDL_OK;
}

static pdl_status_t update_ema(const step_t *step)
{
    const pdl_optimizer_run_t *run = step->run;
    pdl_status_t               status = PDL_OK;

    for (int next = 0; next < run->count && !status;) {
        range_t range = take_range(run, false, &next);

        status =
            run->backend->ops->average(run->backend, run->stream, step->options->ema, range.elements,
                                       at(step, run->ema, range.offset), at(step, run->weights, range.weights));
    }
    return status;
}

static pdl_update_t common_update(const pdl_optimizer_options_t *options, const pdl_optimizer_run_t *run)
{
    double       step = (double)run->step;
    pdl_update_t update = {
        .kind = options->momentum > 0 ? (options->nesterov ? PDL_UPDATE_NESTEROV : PDL_UPDATE_MOMENTUM)
                                      : PDL_UPDATE_SGD,
        .lr = run->lr != NULL ? *run->lr : pdl_learning_rate(options, step),
        .momentum = options->momentum,
        .beta1 = options->beta1,
        .beta2 = options->beta2,
        .epsilon = options->epsilon,
        .decay = options->weight_decay,
        .correction1 = 1 - pow(options->beta1, step + 1),
        .correction2 = 1 - pow(options->beta2, step + 1),
        .gradient_scale = 1,
    };

    if (options->method == PDL_METHOD_ADAMW) update.kind = PDL_UPDATE_ADAMW;
    return update;
}

pdl_status_t pdl_optimizer_step(const pdl_optimizer_options_t *options, const pdl_optimizer_run_t *run,
                                double *gradient_norm)
{
    step_t       step = {.options = options, .run = run, .update = common_update(options, run)};
    pdl_status_t status;

    step.element_bytes = run->backend->weight_type == PDL_DTYPE_F64 ? sizeof(double) : sizeof(float);
    status = clip(&step, gradient_norm);
    if (!status) status = clear(run, not_finite_at(run->scalars, run), 1);
    if (status) return status;
    switch (options->method) {
    case PDL_METHOD_SGD:
    case PDL_METHOD_ADAMW: status = update_ranges(&step); break;
    case PDL_METHOD_LARS: status = update_lars(&step); break;
    case PDL_METHOD_LAMB: status = update_lamb(&step); break;
    case PDL_METHOD_COUNT: break;
    }
    if (!status && options->ema > 0 && run->ema != NULL) status = update_ema(&step);
    if (!status) status = fetch(run, 2 * run->count + 1);
    if (!status && *not_finite_at(run->home, run) != 0)
        status = pdl_error(PDL_ERR_NOT_FINITE,
                           "the weights are not finite after step %lld: lower the learning rate or clip gradients",
                           (long long)run->step);
    return status;
}
