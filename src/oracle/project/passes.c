/*
 * A plan pass by pass, for machines on which others train: every stage goes through the passes of its schedule. What this takes
 * is found by the replay of programs (replay.c).
 */
#include "oracle/project/kept_replays.h"
#include "oracle/project/pass_walk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Passes of all stages together that still take no more than a few seconds. */
#define MOST_PASSES 50000000
/* Rounds of a pipeline from which on it is worth to look for those that are alike. */
#define MANY_ROUNDS 8

/* What the device waits for the host that queues a pass: by the blend of both, or what the replay finds. */
static void price_queue(const pdl__pass_walk_t *w, const pdl__chunk_t *chunk, int price)
{
    const pdl_parameters_t *p = &w->prices->oracle->p;
    const double           *queue = chunk->time.queue;
    double                  passes = (double)w->prices->pipeline.micro_batches * w->prices->pipeline.chunks,
           all = queue[PDL__PASS_FORWARD] + queue[PDL__PASS_BACKWARD] + queue[PDL__PASS_WEIGHTS];

    for (int d = 0; d < PDL__PASS_COUNT && all > 0; d++) {
        double host = queue[d] * (1 + p->queue_step_s / (passes * all));
        if (p->queue_blend > 0)
            w->seconds[price + PDL__CHUNK_QUEUE + d] = pdl__host_wait(p, host, pdl__pass_seconds(&chunk->time, d));
        else
            w->queue_s[price + PDL__CHUNK_QUEUE + d] = host;
    }
}

static void fill_prices(const pdl__pass_walk_t *w)
{
    const pdl__pass_prices_t *prices = w->prices;
    const pdl_pipeline_t     *p = &prices->pipeline;

    for (int d = 0; d < PDL__PASS_COUNT; d++) {
        for (int i = 0; i < p->stages * p->chunks; i++) {
            double *at = w->seconds + pdl__chunk_price(w, 0, i);
            at[PDL__CHUNK_PASS + d] = pdl__pass_seconds(&prices->chunks[i].time, d);
            if (d < PDL_DIRECTIONS) at[PDL__CHUNK_SEND + d] = w->options->send ? prices->chunks[i].send_s[d] : 0;
        }
        for (int i = 0; i < prices->segment_count; i++)
            w->seconds[pdl__segment_price(w, i) + PDL__SEGMENT_PASS + d] =
                pdl__pass_seconds(&prices->segments[i].time, d);
    }
    for (int i = 0; i < p->stages * p->chunks && w->queue_s != NULL; i++)
        price_queue(w, &prices->chunks[i], pdl__chunk_price(w, 0, i));
    for (int i = 0; i < prices->segment_count; i++) {
        w->seconds[pdl__segment_price(w, i) + PDL__SEGMENT_EXCHANGE] = prices->segments[i].exchange_s;
        for (int k = 0; k < 2; k++)
            w->seconds[pdl__segment_price(w, i) + PDL__SEGMENT_GATHER + k] = prices->segments[i].gather_s;
    }
    for (int s = 0; s < p->stages; s++) {
        double *at = w->seconds + pdl__stage_price(w, s);
        at[PDL__STAGE_TAIL] = prices->tail_s[s];
        at[PDL__STAGE_UPDATE] = prices->update_s[s];
        at[PDL__STAGE_GATHER] = prices->gather_s[s];
    }
    for (int i = 0; i < prices->tie_count; i++) w->seconds[pdl__tie_price(w, i)] = prices->ties[i].seconds;
}

static bool queues(const pdl__pass_prices_t *prices)
{
    for (int i = 0; i < prices->pipeline.stages * prices->pipeline.chunks; i++)
        if (prices->chunks[i].time.queue[0] + prices->chunks[i].time.queue[1] > 0) return true;
    return false;
}

static bool make_table(pdl__pass_walk_t *w)
{
    int     count = pdl__tie_price(w, w->prices->tie_count);
    int     tensors = pdl__input_count(&w->prices->pipeline) + 2 * w->prices->tie_count;
    double *room = calloc(3 * (size_t)count, sizeof(*room));

    w->wait = malloc((size_t)count * sizeof(*w->wait));
    w->sent_s = malloc(((size_t)tensors + 1) * sizeof(*w->sent_s));
    w->seconds = room;
    if (room == NULL || w->wait == NULL || w->sent_s == NULL) return false;
    w->end_s = room + count;
    w->queue_s = queues(w->prices) ? room + 2 * (size_t)count : NULL;
    for (int i = 0; i < tensors; i++) w->sent_s[i] = PDL__TENSOR_PENDING;
    for (int i = 0; i < count; i++) w->wait[i] = i;
    fill_prices(w);
    return true;
}

/* Steps of the longest pass: three for each segment, gathers of two more, input, host and output; and of gradients of weights, those
   of a pass in segments, and of as many more as there are stages. */
static size_t most_steps(const pdl__pass_walk_t *w)
{
    int most = 0;

    for (int i = 0; i < w->prices->pipeline.stages * w->prices->pipeline.chunks; i++)
        if (w->prices->chunks[i].segment_count > most) most = w->prices->chunks[i].segment_count;
    size_t steps = 3 * (size_t)most + (size_t)w->prices->segment_count + 2 * (size_t)w->prices->tie_count +
                   2 * PDL__GATHERS_AHEAD + 4;
    return steps + (w->prices->divided ? 2 * (size_t)most + 2 * (size_t)w->prices->pipeline.stages + 2 : 0);
}

static bool make_stage(pdl__pass_walk_t *w, int s, size_t steps, pdl__stage_replay_t *replay)
{
    const pdl_pipeline_t *p = &w->prices->pipeline;
    pdl__stage_walk_t    *st = &w->stages[s];
    int64_t               round = w->skips ? 2 * pdl__round_micro_batches(p) * p->chunks : 0;

    *replay = (pdl__stage_replay_t){.end_s = 0};
    *st = (pdl__stage_walk_t){.walk = w, .number = s, .replay = replay};
    st->room =
        malloc((size_t)round * sizeof(double) + (size_t)p->chunks * 2 * (sizeof(*st->plain) + sizeof(*st->whole)) +
               steps * sizeof(*st->steps));
    if (st->room == NULL) return false;
    st->rounds.ends = memset(st->room, 0, (size_t)round * sizeof(double)); /* no round ended before the first */
    st->plain = (pdl__plain_pass_t *)(st->rounds.ends + round);
    st->whole = (pdl__pass_steps_t *)(st->plain + 2 * (size_t)p->chunks);
    st->steps = (pdl__replay_step_t *)(st->whole + 2 * (size_t)p->chunks);
    st->lane = (pdl__lane_t){.steps = st->steps,
                             .more = pdl__next_pass,
                             .wait = w->wait,
                             .seconds = w->seconds,
                             .queue_s = w->queue_s,
                             .end_s = w->end_s,
                             .slowdown = w->prices->oracle->p.overlap_slowdown};
    st->passes = pdl_pipeline_begin(p, s);
    if (w->skips) pdl__find_rounds(st);
    for (int k = 0; k < 2 * p->chunks; k++) {
        st->whole[k] = pdl__whole_pass(st, k / 2, k % 2);
        st->plain[k] = pdl__plain_pass(st, k / 2, k % 2);
    }
    return true;
}

static pdl_status_t prepare(pdl__pass_walk_t *w, pdl__stage_replay_t *replays)
{
    const pdl_pipeline_t *p = &w->prices->pipeline;
    bool sharded = w->options->exchange && w->prices->c.sharding != PDL_SHARDING_NONE && p->training;

    w->count = p->micro_batches * p->chunks * (p->training ? 2 : 1);
    w->gathers_always = sharded && w->prices->c.sharding == PDL_SHARDING_ZERO3;
    w->gathers_first = sharded && w->prices->overlap && !w->gathers_always;
    if (w->count > MOST_PASSES / p->stages)
        return pdl_error(PDL_ERR_LIMIT,
                         "%lld passes on each of %d stages are too many to replay; at most %d together",
                         (long long)w->count, p->stages, MOST_PASSES);
    w->skips = (!p->training || p->schedule != PDL_SCHEDULE_GPIPE) &&
               p->micro_batches % pdl__round_micro_batches(p) == 0 &&
               p->micro_batches - p->stages >= MANY_ROUNDS * pdl__round_micro_batches(p);
    w->stages = calloc((size_t)p->stages, sizeof(*w->stages));
    bool   there = w->stages != NULL && make_table(w);
    size_t steps = most_steps(w);
    w->in_steps = w->gathers_always || w->queue_s != NULL || (p->chunks > 1 && p->micro_batches % p->stages != 0);
    w->with_segments[0] = w->gathers_first ? 0 : -1;
    w->with_segments[1] = !w->options->exchange ? -1 : p->schedule == PDL_SCHEDULE_GPIPE ? 0 : p->micro_batches - 1;
    for (int s = 0; s < p->stages && there; s++) there = make_stage(w, s, steps, &replays[s]);
    return there ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory for %lld passes", (long long)w->count);
}

static void clear(pdl__pass_walk_t *w)
{
    for (int s = 0; s < w->prices->pipeline.stages && w->stages != NULL; s++) free(w->stages[s].room);
    free(w->stages);
    free(w->seconds);
    free(w->wait);
    free(w->sent_s);
}

/* What a stage was busy with. */
static void take_replay(const pdl__pass_walk_t *w, const pdl__stage_walk_t *st)
{
    const pdl_pipeline_t *p = &w->prices->pipeline;
    pdl__stage_replay_t  *replay = st->replay;
    double                m = (double)p->micro_batches;

    for (int c = 0; c < p->chunks; c++) {
        const pdl__chunk_t *chunk = &w->prices->chunks[st->number * p->chunks + c];
        const double       *queue_s = w->seconds + pdl__chunk_price(w, st->number, c) + PDL__CHUNK_QUEUE;

        for (int d = 0; d < (p->training ? PDL__PASS_COUNT : 1); d++) {
            for (int i = 0; i < PDL__PART_COUNT; i++) replay->part[i] += m * chunk->time.part[d][i];
            replay->part[PDL__PART_COMPUTE] += m * queue_s[d];
        }
    }
    replay->part[PDL__PART_COMPUTE] += w->prices->update_s[st->number] + st->lane.host_wait_s;
    replay->slowed_s = st->lane.slowed_s;
    replay->end_s = fmax(st->lane.free_s[PDL_STREAM_COMPUTE], st->lane.free_s[PDL_STREAM_GRADIENT]);
}

static pdl_status_t replay(const pdl__pass_prices_t *prices, const pdl__replay_options_t *options,
                           pdl__stage_replay_t *stages, double *total_s)
{
    pdl__pass_walk_t w = {.prices = prices, .options = options};
    pdl_status_t     status = prepare(&w, stages);

    if (!status)
        status = pdl__replay(&w.stages[0].lane, sizeof(*w.stages), prices->pipeline.stages, w.sent_s, total_s);
    for (int s = 0; s < prices->pipeline.stages && !status; s++) take_replay(&w, &w.stages[s]);
    clear(&w);
    return status;
}

pdl_status_t pdl__replay_passes(const pdl__pass_prices_t *prices, const pdl__replay_options_t *options,
                                pdl__stage_replay_t *stages, double *total_s)
{
    pdl__kept_replays_t **kept = &prices->oracle->replays;
    uint64_t              key = pdl__replay_key(prices, options);
    int                   count = prices->pipeline.stages;

    if (pdl__replay_find(*kept, key, count, stages, total_s)) return PDL_OK;
    pdl_status_t status = replay(prices, options, stages, total_s);
    if (!status) pdl__replay_keep(kept, key, count, stages, *total_s);
    return status;
}

static double busy_s(const pdl__stage_replay_t *stage)
{
    return stage->part[PDL__PART_COMPUTE] + stage->part[PDL__PART_LAYER] + stage->part[PDL__PART_HALO];
}

/* The stage whose work is longest; it has the fewest gaps. */
static int busiest_stage(const pdl__stage_replay_t *stages, int count)
{
    int best = 0;

    for (int s = 1; s < count; s++)
        if (busy_s(&stages[s]) > busy_s(&stages[best])) best = s;
    return best;
}

pdl_status_t pdl__replay_parts(const pdl__pass_prices_t *prices, pdl__stage_replay_t *stages,
                               pdl_plan_parts_t *parts)
{
    pdl__replay_options_t options = {false, false};
    double                bare_s, sent_s;
    pdl_status_t          status = pdl__replay_passes(prices, &options, stages, &bare_s);

    if (status) return status;
    int                 busiest = busiest_stage(stages, prices->pipeline.stages);
    pdl__stage_replay_t work = stages[busiest];
    options.send = true;
    sent_s = bare_s;
    if (prices->pipeline.stages > 1) status = pdl__replay_passes(prices, &options, stages, &sent_s);
    options.exchange = true;
    if (!status) status = pdl__replay_passes(prices, &options, stages, &parts->total_s);
    if (status) return status;
    double slowed = fmin(stages[busiest].slowed_s, parts->total_s - sent_s);
    parts->compute_s = work.part[PDL__PART_COMPUTE] + slowed;
    parts->comm[PDL_COMM_LAYER] = work.part[PDL__PART_LAYER];
    parts->comm[PDL_COMM_HALO] = work.part[PDL__PART_HALO];
    parts->comm[PDL_COMM_STAGE] = sent_s - bare_s;
    parts->comm[PDL_COMM_GRADIENT] = parts->total_s - sent_s - slowed;
    parts->bubble_s = fmax(0, bare_s - busy_s(&work));
    return PDL_OK;
}
