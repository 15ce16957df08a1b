/*
 * What a strategy shows in the end: its best plan, settled and timed, or why there is none.
 */
#include "oracle/search/searcher.h"
#include <stdio.h>
#include <string.h>

static void describe_memory(pdl__searcher_t *s)
{
    char                    need[PDL_FORMAT_SIZE], have[PDL_FORMAT_SIZE], count[PDL_FORMAT_SIZE];
    const pdl_projection_t *p = &s->leanest.projection;
    char                   *reason = s->best->reason;
    size_t                  size = sizeof(s->best->reason), used;
    int64_t                 batch = 0;

    pdl_format_bytes(p->memory_bytes, need);
    pdl_format_bytes(p->memory_room, have);
    if (p->memory_device != NULL)
        snprintf(reason, size, "stage %lld needs %s per device at the least, of %s (%.60s)",
                 (long long)p->memory_stage, need, have, p->memory_device);
    else
        snprintf(reason, size, "needs %s per device at the least, of %s", need, have);
    used = strlen(reason);
    if (!pdl_oracle_largest_batch(s->oracle, &s->leanest.config, &batch) && batch > 0)
        snprintf(reason + used, size - used, "; a batch of %s fits", pdl_format_count(batch, count));
    s->best->config = s->leanest.config;
    s->best->projection = s->leanest.projection;
    s->best->epoch_s = s->leanest.epoch_s;
    s->best->sample_s = s->leanest.sample_s;
}

pdl_status_t pdl__time_candidate(const pdl__searcher_t *s, pdl_candidate_t *c)
{
    pdl_status_t status = pdl_oracle_settle(s->oracle, c->plan);

    if (!status) status = pdl_oracle_replay(s->oracle, c->plan, s->request->dataset, &c->projection);
    if (!status) pdl__score_candidate(s, c);
    return status;
}

pdl_status_t pdl__finish_candidate(pdl__searcher_t *s)
{
    pdl_candidate_t *best = s->best;

    if (!best->possible && s->any) describe_memory(s);
    if (!best->possible && !s->any) pdl__describe_refusal(s);
    if (!best->possible) return PDL_OK;
    pdl_status_t status = PDL_OK;
    if (!best->plan) {
        status = pdl_oracle_plan(s->oracle, &best->config, &best->plan);
        if (!status) status = pdl_oracle_largest_batch(s->oracle, &best->config, &best->largest_batch);
    }
    if (!status) status = pdl__time_candidate(s, best);
    if (!status) status = pdl__relax_recompute(s, best);
    /* Of single layers no policies were tried. */
    if (!status && !best->config.strategy->per_layer) status = pdl__advise(s);
    return status;
}
