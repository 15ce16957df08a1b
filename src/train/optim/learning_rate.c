/*
 * The learning rate of a step: a linear warm-up, then a schedule. The schedules are those of
 * Loshchilov and Hutter, ICLR 2017 (cosine, one period) and the usual steps and powers.
 */
#include <paradl/train/optimizer.h>

#include <math.h>

const char *const pdl_lr_names[PDL_LR_COUNT] = {"constant", "step", "cosine", "polynomial"};

double pdl_optimizer_rate(const pdl_optimizer_options_t *options)
{
    static const double usual[PDL_METHOD_COUNT] = {
        [PDL_METHOD_SGD] = 0.1, [PDL_METHOD_ADAMW] = 1e-3, [PDL_METHOD_LARS] = 1, [PDL_METHOD_LAMB] = 1e-3};

    return options->lr >= 0 ? options->lr : usual[options->method];
}

/* The share of the way from the end of the warm-up to the last step, in [0, 1]. */
static double progress(const pdl_optimizer_options_t *options, double step)
{
    double span = options->total_steps - options->warmup_steps;

    if (span <= 0 || step >= options->total_steps) return 1;
    return fmax(0, (step - options->warmup_steps) / span);
}

static double scheduled(const pdl_optimizer_options_t *options, double rate, double step)
{
    const double pi = 3.14159265358979323846;
    double       above = rate - options->min_lr;

    switch (options->schedule) {
    case PDL_LR_STEP:
        for (int i = 0; i < options->milestone_count; i++) {
            if (step >= options->milestone[i]) rate *= options->gamma;
        }
        return fmax(rate, options->min_lr);
    case PDL_LR_COSINE: return options->min_lr + above * 0.5 * (1 + cos(pi * progress(options, step)));
    case PDL_LR_POLYNOMIAL: return options->min_lr + above * pow(1 - progress(options, step), options->power);
    case PDL_LR_CONSTANT:
    case PDL_LR_COUNT: break;
    }
    return rate;
}

double pdl_learning_rate(const pdl_optimizer_options_t *options, double step)
{
    double rate = pdl_optimizer_rate(options);

    if (step < options->warmup_steps) return rate * fmin(1, (step + 1) / options->warmup_steps);
    return scheduled(options, rate, step);
}
