/*
 * Prices of communications by the closed form, for plans that are replayed. Transfers between stages are the messages of one
 * step (docs/oracle.md, "Contention"): all of them start together, and each pays the start-up of the level it crosses.
 */
#include "oracle/project/passes.h"
#include <math.h>
#include <stdlib.h>

static pdl_status_t price_comm(pdl_prices_t *prices, const pdl_comm_query_t *q, int stage, double times,
                               double *seconds)
{
    const pdl__closed_prices_t *closed = (const pdl__closed_prices_t *)prices;
    pdl_pattern_t               pattern = q->primitive == PDL_HALO       ? PDL_PATTERN_NEIGHBOURS
                                          : q->primitive == PDL_ALLTOALL ? PDL_PATTERN_PAIRWISE
                                                                         : PDL_PATTERN_RING;
    pdl_group_query_t           query = {closed->ranks, q->size, q->stride, false, pattern};
    pdl_group_t                 group;

    (void)stage;
    (void)times;
    *seconds = 0;
    if (q->size <= 1 || q->bytes <= 0 || q->primitive == PDL_LOCAL) return PDL_OK;
    pdl_status_t status = pdl_oracle_group(closed->oracle, &query, &group);
    if (!status)
        *seconds =
            pdl_collective_seconds(&group, q->primitive, q->algorithm, closed->oracle->p.ring_only, q->bytes);
    return status;
}

/* Start-up and speed, against what the links could do, of a message that crosses a level. */
static void level_speed(const pdl_oracle_t *oracle, int level, double *step_s, double *efficiency)
{
    const pdl_parameters_t *p = &oracle->p;
    double                  step = level == 0 ? p->fabric_step_s : p->network_step_s;

    *step_s = step > 0 ? step : oracle->system->level[level].latency_s;
    *efficiency = level == 0 ? p->fabric_efficiency : p->network_efficiency;
}

/* To 43 bits: however a price was summed up, it is the same number, and a replay at it is known again. */
static double rounded(double seconds)
{
    double part = seconds * 1025;

    return part - (part - seconds);
}

/* Messages of different sizes run by themselves. */
static pdl_status_t price_sizes(pdl_prices_t *prices, int stages, int64_t stride, const int *to,
                                const double *bytes, double *seconds)
{
    const pdl__closed_prices_t *closed = (const pdl__closed_prices_t *)prices;
    size_t                      ranks = (size_t)closed->ranks;
    pdl_message_t              *messages = malloc(ranks * sizeof(*messages));
    double                     *finish_s = malloc(ranks * sizeof(*finish_s)), last_s;
    int                        *stage_of = malloc(ranks * sizeof(*stage_of)), count = 0;
    pdl_status_t                status = PDL_OK;

    if (!messages || !finish_s || !stage_of) status = pdl_error(PDL_ERR_NOMEM, "out of memory for transfers");
    pdl__sends_share_t share = pdl__sends_share(closed->oracle->system, closed->ranks, stride, stages);
    for (int64_t r = 0; r < share.extent && !status; r++) {
        int stage = (int)(r / stride % stages);

        if (to[stage] < 0 || bytes[stage] <= 0 || r % stride >= share.width) continue;
        stage_of[count] = stage;
        messages[count++] = (pdl_message_t){r, r + (to[stage] - stage) * stride, bytes[stage]};
    }
    for (int s = 0; s < stages; s++) seconds[s] = 0;
    if (!status && count > 0)
        status = pdl_contention_run(closed->oracle->system, false, messages, count, finish_s, &last_s);
    for (int i = 0; i < count && !status; i++) {
        double step_s, way_s, efficiency;

        level_speed(closed->oracle, pdl__sends_level(closed->oracle->system, messages[i].from, messages[i].to),
                    &step_s, &efficiency);
        status = pdl_contention_latency(closed->oracle->system, messages[i].from, messages[i].to, &way_s);
        seconds[stage_of[i]] = fmax(seconds[stage_of[i]], rounded(step_s + way_s + finish_s[i] / efficiency));
    }
    free(messages);
    free(finish_s);
    free(stage_of);
    return status;
}

/* Backward goes the ways of forward in the other direction: true when `to` is that, and then `from` has the stages which
   send forward over the same ways. */
static bool turned(int stages, const int *to, int *from)
{
    for (int s = 0; s < stages; s++) from[s] = -1;
    for (int s = 0; s < stages; s++) {
        if (to[s] < 0) continue;
        if (to[s] != (s + stages - 1) % stages) return false;
        from[to[s]] = s;
    }
    return true;
}

static pdl_status_t price_alike(pdl_prices_t *prices, int stages, int64_t stride, const int *to,
                                const double *bytes, double times, double *seconds)
{
    const pdl__closed_prices_t *closed = (const pdl__closed_prices_t *)prices;
    int                        *from = malloc((size_t)stages * sizeof(*from));
    const double               *per_byte;

    (void)times;
    if (!from) return pdl_error(PDL_ERR_NOMEM, "out of memory for transfers");
    bool         back = stages > 2 && closed->oracle->system->network == NULL && turned(stages, to, from);
    pdl__sends_t sends = {closed->ranks, stride, stages, back ? from : to};
    pdl_status_t status = pdl__sends_find(&closed->oracle->sends, closed->oracle->system, &sends, &per_byte);
    for (int s = 0; s < stages && !status; s++) {
        int way = back ? to[s] : s;

        seconds[s] = 0;
        for (int l = 0; to[s] >= 0 && bytes[s] > 0 && l < closed->oracle->system->level_count; l++) {
            double step_s, efficiency, each = per_byte[way * PDL_MAX_LEVELS + l];

            level_speed(closed->oracle, l, &step_s, &efficiency);
            step_s += per_byte[stages * PDL_MAX_LEVELS + way];
            if (each >= 0) seconds[s] = fmax(seconds[s], rounded(step_s + bytes[s] * each / efficiency));
        }
    }
    free(from);
    return status;
}

/* Where all messages that meet are equally long, as between the blocks of a transformer, nothing has to be run again. */
static pdl_status_t price_stages(pdl_prices_t *prices, int stages, int64_t stride, const int *to,
                                 const double *bytes, double times, double *seconds)
{
    const pdl__closed_prices_t *closed = (const pdl__closed_prices_t *)prices;
    bool   apart = pdl__sends_share(closed->oracle->system, closed->ranks, stride, stages).apart;
    double size = -1;

    for (int s = 0; s < stages && !apart; s++) {
        if (to[s] < 0 || bytes[s] <= 0) continue;
        if (size >= 0 && bytes[s] != size) return price_sizes(prices, stages, stride, to, bytes, seconds);
        size = bytes[s];
    }
    return price_alike(prices, stages, stride, to, bytes, times, seconds);
}

pdl__closed_prices_t pdl__closed_prices(pdl_oracle_t *oracle, int64_t ranks, bool quick)
{
    return (pdl__closed_prices_t){.prices = {true, price_comm, quick ? price_alike : price_stages},
                                  .oracle = oracle,
                                  .ranks = ranks};
}
