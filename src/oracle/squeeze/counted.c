/*
 * Memory that is counted, not modelled: where the request says how, the plans that are shown are counted. One that turns out
 * not to fit has to do with less (squeeze.c); so has one that the model, but perhaps not the count, finds too large. What does not
 * fit then is not possible, and the next takes its place.
 */
#include "oracle/squeeze/counted.h"
#include <math.h>
#include <stdio.h>

void pdl__refuse_candidate(pdl_candidate_t *c, const char *reason)
{
    c->possible = false;
    snprintf(c->reason, sizeof(c->reason), "%s", reason);
}

/* What plans may use. Where memory is counted, what a process needs besides is not part of it. */
double pdl__counted_capacity(const pdl__searcher_t *s)
{
    const pdl_device_t *device = &s->oracle->system->device;

    return s->request->max_memory > 0 ? s->request->max_memory : device->memory_bytes - device->reserved_bytes;
}

/* Nearly all of the host's memory can be pinned, and a system has some for itself. */
double pdl__host_capacity(const pdl__searcher_t *s)
{
    return 0.94 * s->oracle->system->device.host_bytes;
}

static bool fits_host(const pdl__searcher_t *s, const pdl_candidate_t *c)
{
    return pdl__host_capacity(s) <= 0 || c->projection.host_bytes <= pdl__host_capacity(s);
}

/* Counts the memory of a candidate's plan. One that is refused is not possible; one of which nothing is known
   (!compiled) keeps the model's figures. */
pdl_status_t pdl__count_candidate(const pdl__searcher_t *s, pdl_candidate_t *c)
{
    pdl_status_t status = pdl_oracle_settle(s->oracle, c->plan);

    if (!status) status = s->request->memory(s->request->memory_context, c->plan, &c->projection);

    if (status == PDL_ERR_UNSUPPORTED || status == PDL_ERR_LIMIT || status == PDL_ERR_INPUT) {
        pdl__refuse_candidate(c, pdl_error_message());
        return PDL_OK;
    }
    if (status || !c->projection.compiled) return status;
    c->projection.fits = c->projection.memory_bytes <= pdl__counted_capacity(s) && fits_host(s, c);
    pdl__score_candidate(s, c);
    return PDL_OK;
}

void pdl__note_need(const pdl__searcher_t *s, const pdl_candidate_t *trial, pdl__need_t *least)
{
    const pdl_projection_t *p = &trial->projection;

    if (!trial->possible) return;
    least->device = fmin(least->device, p->memory_bytes);
    if (p->memory_bytes <= pdl__counted_capacity(s)) least->host = fmin(least->host, p->host_bytes);
}

void pdl__refuse_memory(const pdl__searcher_t *s, const pdl__need_t *least, pdl_candidate_t *c)
{
    char need[PDL_FORMAT_SIZE], have[PDL_FORMAT_SIZE], host[PDL_FORMAT_SIZE], reason[sizeof(c->reason)];

    snprintf(reason, sizeof(reason), "needs %s per device at the least (compiled), of %s",
             pdl_format_bytes(least->device, need), pdl_format_bytes(pdl__counted_capacity(s), have));
    if (least->device <= pdl__counted_capacity(s))
        snprintf(reason, sizeof(reason), "needs %s of host memory for what a device of %s does not hold, of %s",
                 pdl_format_bytes(least->host, need), pdl_format_bytes(pdl__counted_capacity(s), have),
                 pdl_format_bytes(pdl__host_capacity(s), host));
    pdl__refuse_candidate(c, reason);
}

/* Whether policies were chosen that a model which errs on the large side may not have had to choose. */
static bool is_plain(const pdl_plan_t *plan)
{
    return plan->recompute == PDL_RECOMPUTE_NONE &&
           (plan->micro_batches == 1 || pdl_mesh_extent(&plan->mesh, PDL_AXIS_PIPELINE) > 1);
}

static pdl_status_t settle(const pdl__searcher_t *s, pdl_candidate_t *c)
{
    pdl_status_t status = pdl__count_candidate(s, c);

    if (status || !c->possible || (c->projection.fits && (!(s->request->max_memory > 0) || is_plain(c->plan))))
        return status;
    if (s->request->run_mode == PDL_TRAINING) return pdl__squeeze_candidate(s, c);
    if (!c->projection.fits)
        pdl__refuse_memory(s, &(pdl__need_t){c->projection.memory_bytes, c->projection.host_bytes}, c);
    return PDL_OK;
}

/* A strategy that the model finds too large, though the count may not. */
static pdl_status_t rescue(const pdl__searcher_t *s, pdl_candidate_t *c)
{
    if (c->projection.memory_bytes <= 0 || c->config.batch <= 0 || c->config.strategy->per_layer) return PDL_OK;
    pdl_status_t status = pdl_oracle_plan(s->oracle, &c->config, &c->plan);
    if (status == PDL_ERR_LIMIT || status == PDL_ERR_INPUT) return PDL_OK;
    if (!status) status = pdl__time_candidate(s, c);
    if (status) return status;
    c->possible = true;
    status = settle(s, c);
    if (!c->projection.compiled) c->possible = false;
    return status;
}

/* The first of those shown that has not been counted, or NULL. */
static pdl_candidate_t *next_of(const pdl__searcher_t *s, const pdl_search_t *search)
{
    for (int i = 0; i < search->possible && (s->request->top == 0 || i < s->request->top); i++)
        if (!search->candidates[i].projection.compiled) return &search->candidates[i];
    return NULL;
}

pdl_status_t pdl__count_memory(const pdl__searcher_t *s, pdl_search_t *search)
{
    pdl_status_t     status = PDL_OK;
    pdl_candidate_t *next;
    bool             rescues = s->request->max_memory > 0 || search->possible == 0;

    for (int i = search->possible; i < search->count && rescues && !status && !pdl__search_stopped(s); i++)
        status = rescue(s, &search->candidates[i]);
    if (!status) pdl_search_rank(search);
    while (!status && !pdl__search_stopped(s) && (next = next_of(s, search)) != NULL) {
        status = settle(s, next);
        if (next->possible && !next->projection.compiled) break;
        if (!status) pdl_search_rank(search);
    }
    return status;
}
