/*
 * Options of training in rounds.
 */
#include <paradl/base/units.h>
#include <paradl/train/aggregate.h>
#include <stdlib.h>
#include <string.h>

const char *const pdl_aggregation_names[PDL_AGGREGATE_COUNT] = {"step", "local", "sem", "cadis", "feddct"};

void pdl_aggregate_defaults(pdl_aggregate_options_t *options)
{
    *options = (pdl_aggregate_options_t){.kind = PDL_AGGREGATE_STEP,
                                         .epochs = {1, 1},
                                         .hops = 2,
                                         .distill = 1,
                                         .temperature = 1,
                                         .nets = 4,
                                         .agreement = 0.5,
                                         .agreement_warmup = 40,
                                         .seed = 1};
}

pdl_status_t pdl_aggregate_parse(const char *text, pdl_aggregate_options_t *options)
{
    const char *colon = strchr(text, ':');
    size_t      length = colon ? (size_t)(colon - text) : strlen(text);
    int64_t     steps = 0;

    for (int k = 0; k < PDL_AGGREGATE_COUNT; k++) {
        if (strlen(pdl_aggregation_names[k]) != length || strncmp(text, pdl_aggregation_names[k], length) != 0)
            continue;
        if (colon) {
            char *end;
            steps = strtoll(colon + 1, &end, 10);
            if (k != PDL_AGGREGATE_LOCAL || end == colon + 1 || *end || steps < 1 || steps > INT32_MAX)
                return pdl_error(PDL_ERR_INPUT,
                                 "--aggregate %s: only local takes a number, of updates in a round, as local:8",
                                 text);
        }
        options->kind = (pdl_aggregation_t)k;
        options->steps = steps;
        return PDL_OK;
    }
    return pdl_error(PDL_ERR_INPUT, "--aggregate %s is unknown: step, local, local:K, sem, cadis or feddct", text);
}

pdl_status_t pdl_aggregate_parse_threshold(const char *text, pdl_aggregate_options_t *options)
{
    bool negative = *text == '-';

    options->fixed_threshold = strcmp(text, "auto") != 0;
    if (!options->fixed_threshold) return PDL_OK;
    if (!pdl_parse_quantity(text + negative, PDL_UNIT_NONE, &options->threshold)) {
        if (negative) options->threshold = -options->threshold;
        return PDL_OK;
    }
    return pdl_error(PDL_ERR_INPUT, "--cluster-threshold %.40s: use auto, or a number from -1 to 1", text);
}

/* `value` of an option within its range. */
static pdl_status_t within(const char *name, double value, double low, double high)
{
    if (value >= low && value <= high) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "--%s %g is out of range: %g to %g", name, value, low, high);
}

pdl_status_t pdl_aggregate_check(const pdl_aggregate_options_t *o)
{
    pdl_status_t status = within("local-epochs", (double)o->epochs[0], 1, 1e6);

    if (!status) status = within("second-epochs", (double)o->epochs[1], o->kind == PDL_AGGREGATE_SEM ? 1 : 0, 1e6);
    if (!status) status = within("hops", (double)o->hops, 2, 1e6);
    if (!status && o->fixed_threshold) status = within("cluster-threshold", o->threshold, -1, 1);
    if (!status) status = within("distill", o->distill, 0, 1e6);
    if (!status) status = within("temperature", o->temperature, 1e-3, 1e6);
    if (!status) status = within("nets", (double)o->nets, 1, 64);
    if (!status) status = within("agreement", o->agreement, 0, 1e6);
    if (!status) status = within("mixup", o->mixup, 0, 100);
    if (!status) status = within("agreement-warmup", (double)o->agreement_warmup, 0, 1e9);
    return status;
}
