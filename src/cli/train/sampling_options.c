/*
 * paradl train: the options that say which samples are trained on, by whom, and when workers come together.
 */
#include "cli/train/sampling_options.h"

#include <paradl/base/units.h>

#include <string.h>

static const char *const component_names[] = {"lowest", "move-back", "reduce", "rate"};

const char *const pdl__confidence_names[] = {"class", "batch"};
const char *const pdl__hide_rate_names[] = {"hidden", "most"};
const char *const pdl__refresh_names[] = {"evaluation", "training"};
const char *const pdl__statistics_names[] = {"mean", "first"};

/* One entry of --hide-without. */
static pdl_status_t remove_component(const char *text, void *context)
{
    pdl_hide_options_t *o = context;
    bool               *parts[] = {&o->lowest, &o->move_back, &o->reduce, &o->rate};

    for (int i = 0; i < 4; i++)
        if (strcmp(text, component_names[i]) == 0) {
            *parts[i] = false;
            return PDL_OK;
        }
    return pdl_error(PDL_ERR_INPUT, "--hide-without: \"%.40s\" is none of lowest, move-back, reduce, rate", text);
}

static pdl_status_t add_milestone(const char *text, void *context)
{
    pdl_hide_options_t *o = context;

    if (o->milestone_count == PDL_HIDE_MILESTONES)
        return pdl_error(PDL_ERR_INPUT, "--hide-milestones: at most %d", PDL_HIDE_MILESTONES);
    if (pdl_parse_int(text, 1, INT32_MAX, &o->milestone[o->milestone_count]))
        return pdl_error(PDL_ERR_INPUT, "--hide-milestones: \"%.40s\" is not an epoch", text);
    o->milestone_count++;
    return PDL_OK;
}

typedef struct factors {
    pdl_hide_options_t *options;
    int                 count;
} factors_t;

static pdl_status_t add_factor(const char *text, void *context)
{
    factors_t *factors = context;

    if (factors->count > PDL_HIDE_MILESTONES)
        return pdl_error(PDL_ERR_INPUT, "--hide-factors: at most %d", PDL_HIDE_MILESTONES + 1);
    if (pdl_parse_quantity(text, PDL_UNIT_NONE, &factors->options->factor[factors->count]))
        return pdl_error(PDL_ERR_INPUT, "--hide-factors: \"%.40s\" is not a number", text);
    factors->count++;
    return PDL_OK;
}

static pdl_status_t schedule_from(const pdl__sampling_values_t *v, pdl_hide_options_t *o)
{
    factors_t    factors = {.options = o};
    pdl_status_t status = PDL_OK;

    if (v->hide_without) status = pdl__split_list(v->hide_without, remove_component, o);
    if (!status && v->hide_milestones) status = pdl__split_list(v->hide_milestones, add_milestone, o);
    if (!status && v->hide_factors) status = pdl__split_list(v->hide_factors, add_factor, &factors);
    if (status || !v->hide_factors) return status;
    int milestones = o->milestone_count > 0 ? o->milestone_count : 3;
    if (factors.count != milestones + 1)
        return pdl_error(PDL_ERR_INPUT, "--hide-factors: %d milestones need %d factors", milestones,
                         milestones + 1);
    return PDL_OK;
}

static pdl_status_t hide_from(const pdl__sampling_values_t *v, pdl_hide_options_t *o)
{
    bool wanted = v->hide != 0 || v->hide_method != PDL_HIDE_NONE;

    o->method = (pdl_hide_method_t)v->hide_method;
    if (wanted && o->method == PDL_HIDE_NONE) o->method = PDL_HIDE_LOSS;
    if (v->hide != 0) o->fraction = v->hide;
    o->threshold = v->hide_threshold;
    o->rate_from_most = v->hide_rate;
    o->scope = (pdl_hide_scope_t)v->hide_scope;
    /* The unbiased method works with what it last saw. */
    o->refresh_every = v->refresh_every >= 0 ? v->refresh_every : o->method != PDL_HIDE_UNBIASED;
    o->trim = v->hide_trim;
    o->beta = v->hide_beta;
    o->until = v->hide_until;
    pdl_status_t status = schedule_from(v, o);
    return status || !wanted ? status : pdl_hide_check(o);
}

static pdl_status_t aggregate_from(const pdl__sampling_values_t *v, pdl_aggregate_options_t *o)
{
    pdl_status_t status = pdl_aggregate_parse(v->aggregate, o);

    o->epochs[0] = v->local_epochs;
    o->epochs[1] = v->second_epochs;
    o->hops = v->hops;
    o->keep_moments = v->keep_moments;
    o->distill = v->distill;
    o->temperature = v->temperature;
    o->nets = v->nets;
    o->agreement = v->agreement;
    o->agreement_warmup = v->agreement_warmup;
    o->mixup = v->mixup;
    o->published_warmup = v->published_warmup;
    return status ? status : pdl_aggregate_parse_threshold(v->cluster_threshold, o);
}

pdl_status_t pdl__sampling_options_from(const pdl__sampling_values_t *v, uint64_t seed, pdl_train_options_t *o)
{
    pdl_sampling_options_t *sampling = &o->sampling;
    pdl_shuffle_options_t  *shuffle = &sampling->shuffle;
    pdl_status_t            status = pdl_shuffle_parse(v->shuffle, shuffle);

    shuffle->destination = (pdl_destination_t)v->destination;
    shuffle->partition = (pdl_sample_partition_t)v->partition;
    shuffle->score = (pdl_pair_score_t)v->pair_score;
    shuffle->pair_samples = (pdl_pair_samples_t)v->pair_samples;
    shuffle->random_every = (int)v->random_match_every;
    shuffle->seed = sampling->hide.seed = o->aggregate.seed = seed;
    sampling->workers = v->workers;
    sampling->store = v->store;
    sampling->check = v->check_samples;
    sampling->batch_confidence = v->hide_confidence;
    sampling->refresh_training = v->refresh_mode;
    o->session.first_statistics = v->statistics;
    if (status) status = pdl_error(status, "--shuffle: %s", pdl_error_message());
    if (!status) status = hide_from(v, &sampling->hide);
    if (!status) status = aggregate_from(v, &o->aggregate);
    return status;
}
