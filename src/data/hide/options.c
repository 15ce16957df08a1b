/*
 * Options of hiding: their names, defaults and ranges, and what follows from them for an epoch.
 */
#include "data/hide/state.h"

#include <math.h>
#include <stddef.h>

const char *const pdl_hide_method_names[PDL_HIDE_METHOD_COUNT] = {"none",       "loss",      "random",
                                                                  "importance", "selective", "unbiased"};
const char *const pdl_hide_scope_names[PDL_HIDE_SCOPE_COUNT] = {"global", "local"};

void pdl_hide_defaults(pdl_hide_options_t *options)
{
    *options = (pdl_hide_options_t){
        .method = PDL_HIDE_NONE,
        .fraction = 0.3,
        .threshold = 0.7,
        .lowest = true,
        .move_back = true,
        .reduce = true,
        .rate = true,
        .scope = PDL_HIDE_GLOBAL,
        .factor = {1, 0.8, 0.6, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4},
        .refresh_every = -1,
        .beta = 1,
        .until = 0.875,
        .seed = 1,
    };
}

/* Also false for what is not a number. */
static bool is_share(double value)
{
    return value >= 0 && value <= 1;
}

static pdl_status_t check_milestones(const pdl_hide_options_t *options)
{
    if (options->milestone_count < 0 || options->milestone_count > PDL_HIDE_MILESTONES) {
        return pdl_error(PDL_ERR_INPUT, "--hide-milestones has %d epochs: expected up to %d",
                         options->milestone_count, PDL_HIDE_MILESTONES);
    }
    for (int i = 0; i < options->milestone_count; i++) {
        int64_t epoch = options->milestone[i], before = i > 0 ? options->milestone[i - 1] : -1;

        if (epoch <= before) {
            return pdl_error(PDL_ERR_INPUT,
                             "--hide-milestones: epoch %lld after %lld: expected them to rise from 0",
                             (long long)epoch, (long long)before);
        }
    }
    for (int i = 0; i <= (options->milestone_count > 0 ? options->milestone_count : 3); i++) {
        if (is_share(options->factor[i])) continue;
        return pdl_error(PDL_ERR_INPUT, "--hide-factors: %g: expected 0 .. 1", options->factor[i]);
    }
    return PDL_OK;
}

pdl_status_t pdl_hide_check(const pdl_hide_options_t *options)
{
    const struct {
        const char *name;
        double      value;
    } shares[] = {{"--hide", options->fraction},
                  {"--hide-threshold", options->threshold},
                  {"--hide-trim", options->trim},
                  {"--hide-until", options->until}};

    if ((int)options->method < 0 || options->method >= PDL_HIDE_METHOD_COUNT)
        return pdl_error(PDL_ERR_INPUT, "--hide-method %d: there is no such method", (int)options->method);
    if ((int)options->scope < 0 || options->scope >= PDL_HIDE_SCOPE_COUNT)
        return pdl_error(PDL_ERR_INPUT, "--hide-scope %d: there is no such scope", (int)options->scope);
    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
        if (!is_share(shares[i].value))
            return pdl_error(PDL_ERR_INPUT, "%s %g: expected 0 .. 1", shares[i].name, shares[i].value);
    }
    if (options->method == PDL_HIDE_UNBIASED && options->fraction >= 1) {
        return pdl_error(PDL_ERR_INPUT,
                         "--hide 1 with --hide-method unbiased: expected less than 1, for samples that "
                         "stay weigh 1 / (1 - F)");
    }
    if (options->fraction + options->trim > 1) {
        return pdl_error(PDL_ERR_INPUT, "--hide %g and --hide-trim %g: expected no more than 1 together",
                         options->fraction, options->trim);
    }
    if (!(options->beta >= 0 && options->beta <= 1000))
        return pdl_error(PDL_ERR_INPUT, "--hide-beta %g: expected 0 .. 1000", options->beta);
    if (options->refresh_every < -1 || options->refresh_every > PDL__HIDE_REFRESH) {
        return pdl_error(PDL_ERR_INPUT, "--refresh-every %lld: expected 0 .. %d epochs",
                         (long long)options->refresh_every, PDL__HIDE_REFRESH);
    }
    if (options->method == PDL_HIDE_IMPORTANCE && options->scope == PDL_HIDE_LOCAL) {
        return pdl_error(PDL_ERR_INPUT, "--hide-method importance draws from all samples: expected --hide-scope "
                                        "global");
    }
    return check_milestones(options);
}

int64_t pdl__hide_refresh_every(const pdl_hide_options_t *options)
{
    if (options->refresh_every >= 0) return options->refresh_every;
    return options->method != PDL_HIDE_UNBIASED;
}

double pdl__hide_fraction(const pdl_hide_options_t *options, int64_t epoch, int64_t epochs)
{
    static const double parts[] = {0.3, 0.6, 0.8};
    const int           given = options->milestone_count, count = given > 0 ? given : 3;
    int                 passed = 0;

    if (!options->reduce) return options->fraction;
    for (int i = 0; i < count; i++) {
        int64_t milestone = given > 0 ? options->milestone[i] : llround(parts[i] * (double)epochs);

        passed += epoch >= milestone;
    }
    return options->fraction * options->factor[passed];
}
