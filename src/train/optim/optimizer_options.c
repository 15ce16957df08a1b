/*
 * Defaults of the optimizers and the ranges of their options.
 */
#include <paradl/train/optimizer.h>

#include <math.h>
#include <stddef.h>

void pdl_optimizer_defaults(pdl_optimizer_options_t *options)
{
    *options = (pdl_optimizer_options_t){
        .method = PDL_METHOD_SGD,
        .lr = PDL_LR_USUAL,
        .momentum = 0.9,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .epsilon = 1e-8,
        .trust = 0.001,
        .schedule = PDL_LR_CONSTANT,
        .power = 1,
        .gamma = 0.1,
    };
}

/* A half-open or unbounded range: `below` is false where the upper limit itself is allowed. */
static const struct limit {
    const char *name;
    size_t      offset;
    double      min, max;
    bool        below;
    const char *range;
} limits[] = {
#define AT(field) #field, offsetof(pdl_optimizer_options_t, field)
    {AT(lr), 0, INFINITY, true, "-1 (the method's usual one), 0 or more"},
    {AT(momentum), 0, 1, true, "0 to below 1"},
    {AT(beta1), 0, 1, true, "0 to below 1"},
    {AT(beta2), 0, 1, true, "0 to below 1"},
    {AT(epsilon), 0, INFINITY, true, "0 or more"},
    {AT(weight_decay), 0, INFINITY, true, "0 or more"},
    {AT(trust), 0, INFINITY, true, "0 or more"},
    {AT(clip_norm), 0, INFINITY, true, "0 (none) or more"},
    {AT(ema), 0, 1, true, "0 (none) to below 1"},
    {AT(warmup_steps), 0, INFINITY, true, "0 or more"},
    {AT(total_steps), 0, INFINITY, true, "0 or more"},
    {AT(min_lr), 0, INFINITY, true, "0 or more"},
    {AT(power), 0, INFINITY, true, "0 or more"},
    {AT(gamma), 0, 1, false, "0 to 1"},
#undef AT
};

static pdl_status_t check_ranges(const pdl_optimizer_options_t *options)
{
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        const struct limit *l = &limits[i];
        double              value = *(const double *)((const char *)options + l->offset);

        if (l->offset == offsetof(pdl_optimizer_options_t, lr) && value == PDL_LR_USUAL) continue;
        /* Written such that NaN is outside. */
        if (value >= l->min && (l->below ? value < l->max : value <= l->max)) continue;
        return pdl_error(PDL_ERR_INPUT, "optimizer: %s is %g, expected %s", l->name, value, l->range);
    }
    return PDL_OK;
}

static pdl_status_t check_milestones(const pdl_optimizer_options_t *options)
{
    if (options->milestone_count < 0 || options->milestone_count > PDL_MAX_MILESTONES)
        return pdl_error(PDL_ERR_INPUT, "optimizer: %d milestones, at most %d are possible",
                         options->milestone_count, PDL_MAX_MILESTONES);
    for (int i = 0; i < options->milestone_count; i++) {
        double least = i > 0 ? options->milestone[i - 1] : 0;

        if (!(options->milestone[i] >= least) || isinf(options->milestone[i]))
            return pdl_error(PDL_ERR_INPUT, "optimizer: milestone %g comes after %g, expected them in order",
                             options->milestone[i], least);
    }
    if (options->schedule == PDL_LR_STEP && options->milestone_count == 0)
        return pdl_error(PDL_ERR_INPUT, "optimizer: the step schedule needs milestones");
    return PDL_OK;
}

static pdl_status_t check_schedule(const pdl_optimizer_options_t *options)
{
    bool ends = options->schedule == PDL_LR_COSINE || options->schedule == PDL_LR_POLYNOMIAL;

    if (ends && options->total_steps <= options->warmup_steps)
        return pdl_error(PDL_ERR_INPUT,
                         "optimizer: the %s schedule has %g steps, expected more than the %g of the warm-up",
                         pdl_lr_names[options->schedule], options->total_steps, options->warmup_steps);
    if (options->lr >= 0 && options->min_lr > options->lr)
        return pdl_error(PDL_ERR_INPUT, "optimizer: min_lr is %g, expected at most lr, %g", options->min_lr,
                         options->lr);
    return check_milestones(options);
}

pdl_status_t pdl_optimizer_check(const pdl_optimizer_options_t *options)
{
    pdl_status_t status;

    if ((unsigned)options->method >= PDL_METHOD_COUNT || (unsigned)options->schedule >= PDL_LR_COUNT)
        return pdl_error(PDL_ERR_INPUT, "optimizer: unknown method or schedule");
    status = check_ranges(options);
    if (status) return status;
    if (options->nesterov && options->momentum <= 0)
        return pdl_error(PDL_ERR_INPUT, "optimizer: nesterov needs a momentum above 0");
    if (options->nesterov && options->method != PDL_METHOD_SGD && options->method != PDL_METHOD_LARS)
        return pdl_error(PDL_ERR_INPUT, "optimizer: nesterov is for sgd and lars, not for %s",
                         pdl_method_names[options->method]);
    if ((unsigned)options->momentum_of >= PDL_MOMENTUM_COUNT)
        return pdl_error(PDL_ERR_INPUT, "optimizer: unknown place of the momentum");
    if (options->momentum_of != PDL_MOMENTUM_SUMMED &&
        (options->method != PDL_METHOD_SGD || options->momentum <= 0))
        return pdl_error(PDL_ERR_INPUT, "optimizer: %s momentum is for sgd with a momentum above 0",
                         pdl_momentum_names[options->momentum_of]);
    return check_schedule(options);
}
