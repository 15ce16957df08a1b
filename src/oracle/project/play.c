/*
 * The player: every stage goes through its list of passes, waits for its inputs, and hands its outputs on. Beside
 * its computation it has a stream for each direction of transfers between stages and one for gradient exchange and
 * the gathering of weights.
 */
#include "oracle/project/play.h"

#include <math.h>
#include <stdlib.h>

/* Passes of all stages together that still fit comfortably in memory. */
#define MOST_PASSES 50000000

typedef struct stage {
    pdl_pipeline_op_t   *ops;
    int64_t              next;
    int64_t             *left; /* per chunk: backward passes to come */
    double               clock, host_s, send_free[2], exchange_free;
    double               issue; /* when the last segment began: the gathers of the next pass may start then */
    pdl__played_stage_t *played;
} stage_t;

typedef struct player {
    const pdl__cut_t          *cut;
    const pdl__play_options_t *options;
    stage_t                   *stages;
    double                    *arrival;  /* of the input of a pass; negative: not yet */
    double                    *gathered; /* per segment: when its weights are there */
    int64_t                    count;    /* passes of a stage */
    double                     slowdown; /* of kernels while an exchange runs */
    /* State that is sharded for the update only is gathered ahead of the first forward pass, as it would be after the
       update before; weights that are sharded, for every pass. */
    bool gathers_ahead, gathers_always;
} player_t;

/* No argument is a NaN, which fmax() has to look for. */
static inline double later(double a, double b)
{
    return a > b ? a : b;
}

static size_t input_of(const player_t *player, bool backward, int stage, int chunk, int64_t micro_batch)
{
    const pdl_pipeline_t *p = &player->cut->pipeline;

    return ((size_t)((backward ? p->stages : 0) + stage) * (size_t)p->chunks + (size_t)chunk) *
               (size_t)p->micro_batches +
           (size_t)micro_batch;
}

static void gather_ahead(player_t *player, int stage)
{
    const pdl__cut_t *cut = player->cut;
    stage_t          *st = &player->stages[stage];

    for (int c = 0; c < cut->pipeline.chunks; c++) {
        const pdl__chunk_t *chunk = &cut->chunks[stage * cut->pipeline.chunks + c];

        for (int i = chunk->segment_first + chunk->segment_count - 1; i >= chunk->segment_first; i--) {
            st->exchange_free += cut->segments[i].gather_s;
            st->played->exchange_s += cut->segments[i].gather_s;
            player->gathered[i] = st->exchange_free;
        }
    }
}

/* When a pass of so many seconds ends that begins at `start`: kernels are slower while an exchange runs. */
static inline double advance(const player_t *player, stage_t *st, double start, double seconds)
{
    double slowdown = player->slowdown, window = st->exchange_free - start, end;

    if (window <= 0 || slowdown <= 1) return start + seconds;
    if (seconds * slowdown <= window)
        end = start + seconds * slowdown;
    else
        end = start + window + (seconds - window / slowdown);
    st->played->slowed_s += end - start - seconds;
    return end;
}

static inline double exchange(stage_t *st, double ready, double seconds)
{
    st->exchange_free = later(ready, st->exchange_free) + seconds;
    st->played->exchange_s += seconds;
    return st->exchange_free;
}

static inline int segment_at(const pdl__chunk_t *chunk, const pdl_pipeline_op_t *op, int k)
{
    return chunk->segment_first + (op->backward ? k : chunk->segment_count - 1 - k);
}

/* Queues the gathers of the segments of a pass up to the `until`-th; `queued` of them are already. */
static inline void gather(player_t *player, int stage, const pdl_pipeline_op_t *op, int until, double ready,
                          int *queued)
{
    const pdl__cut_t   *cut = player->cut;
    const pdl__chunk_t *chunk = &cut->chunks[stage * cut->pipeline.chunks + op->chunk];

    for (; *queued <= until && *queued < chunk->segment_count; ++*queued) {
        int i = segment_at(chunk, op, *queued);

        player->gathered[i] = exchange(&player->stages[stage], ready, cut->segments[i].gather_s);
    }
}

/* A pass segment by segment: weights are there first, two segments ahead where that overlaps; gradients go out
   behind the last backward pass. */
static double run_segments(player_t *player, int stage, const pdl_pipeline_op_t *op, bool last, double t)
{
    enum { AHEAD = 2 };
    const pdl__cut_t   *cut = player->cut;
    stage_t            *st = &player->stages[stage];
    const pdl__chunk_t *chunk = &cut->chunks[stage * cut->pipeline.chunks + op->chunk];
    bool                ahead = player->gathers_always && cut->overlap;
    int                 queued = 0;

    if (ahead) gather(player, stage, op, AHEAD - 1, st->issue, &queued);
    for (int k = 0; k < chunk->segment_count; k++) {
        int                   i = segment_at(chunk, op, k);
        const pdl__segment_t *segment = &cut->segments[i];

        if (player->gathers_always && !ahead) gather(player, stage, op, k, t, &queued);
        if (player->gathers_always || (player->gathers_ahead && !op->backward)) t = later(t, player->gathered[i]);
        st->issue = t;
        if (ahead) gather(player, stage, op, k + AHEAD, t, &queued);
        t = advance(player, st, t, pdl__pass_seconds(&segment->time, op->backward));
        if (!last || segment->exchange_s <= 0) continue;
        double done = exchange(st, t, segment->exchange_s);
        if (!cut->overlap) t = done;
    }
    return t;
}

static double run_pass(player_t *player, int stage, const pdl_pipeline_op_t *op, double start)
{
    const pdl__cut_t   *cut = player->cut;
    stage_t            *st = &player->stages[stage];
    const pdl__chunk_t *chunk = &cut->chunks[stage * cut->pipeline.chunks + op->chunk];
    bool                last = op->backward && --st->left[op->chunk] == 0 && player->options->exchange;
    bool                ahead = player->gathers_ahead && !op->backward && op->micro_batch == 0;

    for (int i = 0; i < PDL__PART_COUNT; i++) st->played->part[i] += chunk->time.part[op->backward][i];
    if (last || ahead || player->gathers_always) return run_segments(player, stage, op, last, start);
    return advance(player, st, start, pdl__pass_seconds(&chunk->time, op->backward));
}

/* Hands the output of a pass on; transfers that do not overlap hold up the sender. */
static void send(player_t *player, int stage, const pdl_pipeline_op_t *op, double end)
{
    const pdl__cut_t *cut = player->cut;
    stage_t          *st = &player->stages[stage];
    int               to, chunk, direction = op->backward;
    double seconds = cut->chunks[stage * cut->pipeline.chunks + op->chunk].send_s[direction], start = end;

    if (!pdl_pipeline_target(&cut->pipeline, stage, op, &to, &chunk)) return;
    if (!player->options->send) seconds = 0;
    if (cut->oracle->p.overlap_stages) {
        start = later(end, st->send_free[direction]);
        st->send_free[direction] = start + seconds;
    } else {
        st->clock = end + seconds;
    }
    player->arrival[input_of(player, op->backward, to, chunk, op->micro_batch)] = start + seconds;
}

/* Plays the next pass of a stage; false when its input is not there or nothing is left. */
/* The device waits where the host has not queued the pass yet. */
static double wait_for_host(const player_t *player, stage_t *st, const pdl__pass_time_t *time, bool backward,
                            double start, double end)
{
    const pdl__cut_t       *cut = player->cut;
    const pdl_parameters_t *p = &cut->oracle->p;
    double                  host = time->queue[backward], both = time->queue[0] + time->queue[1], wait;

    if (both > 0) host *= 1 + p->queue_step_s / ((double)cut->c.micro_batches * cut->pipeline.chunks * both);
    st->host_s += host;
    wait = p->queue_blend > 0 ? pdl__host_wait(p, host, end - start) : fmax(0, st->host_s - end);
    st->played->part[PDL__PART_COMPUTE] += wait;
    return end + wait;
}

static bool step(player_t *player, int stage)
{
    const pdl__cut_t        *cut = player->cut;
    stage_t                 *st = &player->stages[stage];
    const pdl_pipeline_op_t *op = &st->ops[st->next];
    const pdl__chunk_t      *chunk;
    double                   arrival = 0, end;
    int                      from, from_chunk;

    if (st->next == player->count) return false;
    if (pdl_pipeline_source(&cut->pipeline, stage, op, &from, &from_chunk))
        arrival = player->arrival[input_of(player, op->backward, stage, op->chunk, op->micro_batch)];
    if (arrival < 0) return false;
    chunk = &cut->chunks[stage * cut->pipeline.chunks + op->chunk];
    double start = later(st->clock, arrival);
    end = run_pass(player, stage, op, start);
    st->clock = end = wait_for_host(player, st, &chunk->time, op->backward, start, end);
    st->next++;
    send(player, stage, op, end);
    return true;
}

/* After the last pass: what is left of the exchange, shared weights, update, gathering. */
static double finish(player_t *player)
{
    const pdl__cut_t *cut = player->cut;
    bool              exchanged = player->options->exchange;
    double            total = 0;

    for (int s = 0; s < cut->pipeline.stages && exchanged; s++) {
        stage_t *st = &player->stages[s];

        st->clock = later(st->clock, st->exchange_free) + cut->tail_s[s];
        st->played->exchange_s += cut->tail_s[s] + cut->gather_s[s];
    }
    for (int i = 0; i < cut->tie_count && exchanged; i++) {
        const pdl__stage_tie_t *tie = &cut->ties[i];
        stage_t                *a = &player->stages[tie->a], *b = &player->stages[tie->b];

        a->clock = b->clock = later(a->clock, b->clock) + tie->seconds;
        a->played->exchange_s += tie->seconds;
        b->played->exchange_s += tie->seconds;
    }
    for (int s = 0; s < cut->pipeline.stages; s++) {
        stage_t *st = &player->stages[s];

        st->played->part[PDL__PART_COMPUTE] += cut->update_s[s];
        st->played->end_s = st->clock + cut->update_s[s] + (exchanged ? cut->gather_s[s] : 0);
        total = later(total, st->played->end_s);
    }
    return total;
}

static pdl_status_t prepare(player_t *player, pdl__played_stage_t *played)
{
    const pdl_pipeline_t *p = &player->cut->pipeline;
    size_t                stages = (size_t)p->stages, inputs = 2 * stages * (size_t)p->chunks;

    bool sharded = player->options->exchange && player->cut->c.sharding != PDL_SHARDING_NONE && p->training;

    player->count = pdl_pipeline_op_count(p);
    player->slowdown = player->cut->oracle->p.overlap_slowdown;
    player->gathers_always = sharded && player->cut->c.sharding == PDL_SHARDING_ZERO3;
    player->gathers_ahead = sharded && player->cut->overlap && !player->gathers_always;
    if (player->count > MOST_PASSES / p->stages)
        return pdl_error(PDL_ERR_LIMIT,
                         "%lld passes on each of %d stages are too many to play; at most %d together",
                         (long long)player->count, p->stages, MOST_PASSES);
    inputs *= (size_t)p->micro_batches;
    player->stages = calloc(stages, sizeof(*player->stages));
    player->arrival = malloc(inputs * sizeof(double));
    player->gathered = calloc((size_t)player->cut->segment_count + 1, sizeof(double));
    bool there = player->stages != NULL && player->arrival != NULL && player->gathered != NULL;
    for (int s = 0; s < p->stages && there; s++) {
        stage_t *st = &player->stages[s];

        played[s] = (pdl__played_stage_t){.end_s = 0};
        st->played = &played[s];
        st->ops = malloc((size_t)player->count * sizeof(*st->ops));
        st->left = malloc((size_t)p->chunks * sizeof(*st->left));
        there = st->ops != NULL && st->left != NULL;
        if (!there) break;
        pdl_pipeline_order(p, s, st->ops);
        for (int c = 0; c < p->chunks; c++) st->left[c] = p->micro_batches;
        if (player->gathers_ahead) gather_ahead(player, s);
    }
    if (!there) return pdl_error(PDL_ERR_NOMEM, "out of memory for %lld passes", (long long)player->count);
    for (size_t i = 0; i < inputs; i++) player->arrival[i] = -1;
    return PDL_OK;
}

static void clear(player_t *player)
{
    for (int s = 0; s < player->cut->pipeline.stages && player->stages != NULL; s++) {
        free(player->stages[s].ops);
        free(player->stages[s].left);
    }
    free(player->stages);
    free(player->arrival);
    free(player->gathered);
}

pdl_status_t pdl__play(const pdl__cut_t *cut, const pdl__play_options_t *options, pdl__played_stage_t *stages,
                       double *total_s)
{
    player_t     player = {.cut = cut, .options = options};
    pdl_status_t status = prepare(&player, stages);

    for (bool moved = !status; moved;) {
        moved = false;
        for (int s = 0; s < cut->pipeline.stages; s++)
            while (step(&player, s)) moved = true;
    }
    if (!status) *total_s = finish(&player);
    clear(&player);
    return status;
}

static double busy_s(const pdl__played_stage_t *stage)
{
    return stage->part[PDL__PART_COMPUTE] + stage->part[PDL__PART_LAYER] + stage->part[PDL__PART_HALO];
}

/* The stage whose work is longest; it has the fewest gaps. */
static int busiest_stage(const pdl__played_stage_t *stages, int count)
{
    int best = 0;

    for (int s = 1; s < count; s++)
        if (busy_s(&stages[s]) > busy_s(&stages[best])) best = s;
    return best;
}

pdl_status_t pdl__play_parts(const pdl__cut_t *cut, pdl__played_stage_t *played, pdl_plan_parts_t *parts)
{
    pdl__play_options_t options = {false, false};
    double              bare_s, sent_s;
    pdl_status_t        status = pdl__play(cut, &options, played, &bare_s);

    if (status) return status;
    int                 busiest = busiest_stage(played, cut->pipeline.stages);
    pdl__played_stage_t work = played[busiest];
    options.send = true;
    status = pdl__play(cut, &options, played, &sent_s);
    options.exchange = true;
    if (!status) status = pdl__play(cut, &options, played, &parts->total_s);
    if (status) return status;
    double slowed = fmin(played[busiest].slowed_s, parts->total_s - sent_s);
    parts->compute_s = work.part[PDL__PART_COMPUTE] + slowed;
    parts->comm[PDL_COMM_LAYER] = work.part[PDL__PART_LAYER];
    parts->comm[PDL_COMM_HALO] = work.part[PDL__PART_HALO];
    parts->comm[PDL_COMM_STAGE] = sent_s - bare_s;
    parts->comm[PDL_COMM_GRADIENT] = parts->total_s - sent_s - slowed;
    parts->bubble_s = later(0, bare_s - busy_s(&work));
    return PDL_OK;
}
