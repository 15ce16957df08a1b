/*
 * A projection whose passes are replayed: start = max(previous pass of the stage, input + transfer) for every pass, and
 * the exchange of every bucket of gradients begins when it is ready and the one before is through.
 */
#include "oracle/project/passes.h"
#include <math.h>
#include <stdlib.h>

/* Passes beyond which the formulas have to do. */
#define MOST_PASSES 300000
/* Layers times micro-batches beyond which programs take too long to compile while plans are searched. */
#define MOST_LAYERS 25000

/* Forward and backward share what the replay leaves beside the update. */
static void take_parts(const pdl_plan_parts_t *parts, pdl_projection_t *out)
{
    double passes = out->forward_s + out->backward_s,
           scale = passes > 0 ? (parts->compute_s - out->update_s) / passes : 0;

    if (scale > 0) {
        out->forward_s *= scale;
        out->backward_s *= scale;
    }
    out->compute_s = parts->compute_s;
    out->bubble_s = parts->bubble_s;
    for (int i = 0; i < PDL_COMM_CLASS_COUNT; i++) out->comm[i] = parts->comm[i];
}

static pdl_status_t price_case(pdl_oracle_t *oracle, const pdl__pass_spec_t *spec, pdl__pass_prices_t *pp,
                               pdl__stage_replay_t **replays)
{
    *replays = calloc((size_t)spec->c.pipeline, sizeof(**replays));
    if (!*replays) return pdl_error(PDL_ERR_NOMEM, "out of memory for %lld stages", (long long)spec->c.pipeline);
    return pdl__price_passes(oracle, spec, pp);
}

static void take_stages(const pdl__pass_prices_t *pp, const pdl__stage_replay_t *replays, pdl_stage_time_t *stages)
{
    for (int s = 0; s < pp->pipeline.stages; s++) {
        const pdl__chunk_t *chunk = &pp->chunks[s * pp->pipeline.chunks];

        stages[s] = (pdl_stage_time_t){.first_layer = chunk->first,
                                       .last_layer = chunk->last,
                                       .compute_s = replays[s].part[PDL__PART_COMPUTE] + replays[s].slowed_s,
                                       .comm_s = replays[s].part[PDL__PART_LAYER] + replays[s].part[PDL__PART_HALO],
                                       .end_s = replays[s].end_s,
                                       .exchange_s = replays[s].exchange_s};
    }
}

pdl_status_t pdl_oracle_time_stages(pdl_oracle_t *oracle, const pdl_plan_t *plan, pdl_prices_t *prices,
                                    pdl_slow_t slow, pdl_stage_time_t *stages, pdl_plan_parts_t *parts)
{
    pdl__pass_spec_t     spec = {.stage_first = plan->stage_first, .slow = slow, .prices = prices};
    pdl__pass_prices_t   pp = {0};
    pdl__stage_replay_t *replays = NULL;
    pdl_status_t         status = pdl__case_of_plan(oracle, plan, NULL, &spec.c);

    if (!status) status = pdl__profile_create(oracle, plan, spec.c.micro_batch, &spec.profile);
    if (!status) status = price_case(oracle, &spec, &pp, &replays);
    if (!status) status = pdl__replay_parts(&pp, replays, parts);
    if (!status && stages != NULL) take_stages(&pp, replays, stages);
    pdl__pass_prices_free(&pp);
    free(replays);
    pdl__profile_destroy(spec.profile);
    return status;
}

static bool too_long(const pdl_case_t *c)
{
    return (double)c->pipeline * (double)c->virtual_stages * (double)c->micro_batches > MOST_PASSES;
}

pdl_status_t pdl__replay_case(pdl_oracle_t *oracle, const pdl_case_t *c, pdl_profile_t *profile,
                              pdl_projection_t *out)
{
    pdl__replay_options_t everything = {.send = true, .exchange = true};
    pdl__closed_prices_t  prices = pdl__closed_prices(oracle, c->pe, true);
    pdl__pass_spec_t      spec = {.c = *c, .profile = profile, .prices = &prices.prices};
    pdl__pass_prices_t    pp = {0};
    pdl__stage_replay_t  *replays = NULL;
    double                total_s;

    if (too_long(c)) return PDL_OK;
    pdl_status_t status = price_case(oracle, &spec, &pp, &replays);
    if (!status) status = pdl__replay_passes(&pp, &everything, replays, &total_s);
    pdl__pass_prices_free(&pp);
    free(replays);
    if (status) return status;
    out->bubble_s += total_s - (out->compute_s + out->comm_s + out->bubble_s);
    pdl__project_sums(oracle, c, 1, out);
    return PDL_OK;
}

/* Layers of all micro-batches. */
static double plan_passes(const pdl_plan_t *plan)
{
    return (double)plan->micro_batches * (double)pdl_model_layer_count(plan->model);
}

/* Where this library trains, an update is what the programs of its ranks take; false where they cannot be made. */
static bool replay_programs(pdl_oracle_t *oracle, const pdl_plan_t *plan, pdl_plan_parts_t *parts)
{
    pdl_timeline_t *timeline = NULL;

    if (oracle->system->backend == NULL || plan_passes(plan) > MOST_LAYERS ||
        pdl__timeline_times(oracle, plan, &timeline))
        return false;
    pdl_status_t status = pdl_timeline_parts(timeline, parts);
    pdl_timeline_destroy(timeline);
    return status == PDL_OK;
}

/* A batch is copied to a device while the one before is computed, unless it came too late for that. */
static double upload_seconds(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_projection_t *p)
{
    double busy = p->compute_s + p->bubble_s;

    for (int i = 0; i < PDL_COMM_CLASS_COUNT; i++) busy += p->comm[i];
    if (c->dataset == NULL || p->input_s <= busy) return 0;
    return pdl_host_link_seconds(&oracle->system->device.host_link, PDL_HOST_TO_DEVICE,
                                 (double)c->batch / (double)c->data * c->dataset->bytes_per_sample);
}

pdl_status_t pdl_oracle_replay(pdl_oracle_t *oracle, pdl_plan_t *plan, const pdl_dataset_t *dataset,
                               pdl_projection_t *out)
{
    pdl_plan_parts_t parts;
    pdl_case_t       c;
    pdl_status_t     status = pdl_oracle_project(oracle, plan, dataset, out);

    if (status) return status;
    status = pdl__case_of_plan(oracle, plan, dataset, &c);
    if (status) return status;
    if (too_long(&c)) return PDL_OK;
    pdl_group_query_t query = {c.pe, c.data, c.data_stride, false, PDL_PATTERN_RING};
    pdl_group_t       replicas;
    status = pdl_oracle_group(oracle, &query, &replicas);
    if (!status) out->replayed = replay_programs(oracle, plan, &parts);
    if (!status && !out->replayed) {
        pdl__closed_prices_t prices = pdl__closed_prices(oracle, c.pe, false);
        status = pdl_oracle_time_stages(oracle, plan, &prices.prices, (pdl_slow_t){0, 0}, NULL, &parts);
    }
    if (status) return status;
    take_parts(&parts, out);
    if (out->replayed) out->input_s += upload_seconds(oracle, &c, out);
    pdl__project_sums(oracle, &c, replicas.kappa, out);
    pdl__find_limits(oracle, &c, out);
    return PDL_OK;
}
