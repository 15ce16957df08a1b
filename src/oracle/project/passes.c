/*
 * A plan pass by pass, for machines on which others train: every stage goes through the passes of its schedule, with one step
 * for all layers of a pass, or one for each segment where gradients go out or weights come in beside it. What it takes is
 * found by the replay of programs (replay.c).
 */
#include "oracle/project/passes.h"
#include "oracle/project/repeats.h"

#include <math.h>
#include <stdlib.h>

/* Passes of all stages together that still take no more than a few seconds. */
#define MOST_PASSES 50000000
/* Segments whose sharded weights are gathered before their turn, where that overlaps. */
#define AHEAD 2
/* Rounds of a pipeline from which on it is worth to look for those that are alike. */
#define MANY_ROUNDS 8

/* Prices lie in one table: of a chunk, of a segment, of a stage, of a tie; the first is 0. Weights of a segment are gathered for
   one pass and ahead for the next, hence twice. */
enum { CHUNK_PASS = 0, CHUNK_SEND = 2, CHUNK_QUEUE = 4, CHUNK_PRICES = 6 };
enum { SEGMENT_PASS = 0, SEGMENT_EXCHANGE = 2, SEGMENT_GATHER = 3, SEGMENT_PRICES = 5 };
enum { STAGE_TAIL, STAGE_UPDATE, STAGE_GATHER, STAGE_PRICES };

typedef struct walk walk_t;

/* A pass of all layers of a chunk at once: input and computation, the host's queue, output. Tensors are those of the first
   micro-batch. */
typedef struct pass_steps {
    pdl__replay_step_t step[3];
    int                count;
} pass_steps_t;

/* One stage on its way through its passes. */
typedef struct stage {
    pdl__lane_t          lane; /* first: the replay asks for more by it */
    walk_t              *walk;
    int                  number;
    pdl_pipeline_op_t   *passes;
    int64_t              next;
    int64_t             *left; /* per chunk: backward passes to come */
    bool                 ended;
    pdl__repeats_t       rounds;
    pass_steps_t        *whole; /* per chunk, forward and backward: a pass in one piece */
    pdl__replay_step_t  *steps; /* of one that is not */
    pdl__stage_replay_t *replay;
} stage_t;

struct walk {
    const pdl__pass_prices_t    *prices;
    const pdl__replay_options_t *options;
    stage_t                     *stages;
    int64_t                      count;             /* passes of a stage */
    double                      *seconds, *queue_s; /* the table */
    double                      *end_s;             /* of the latest step at each price */
    int                         *wait;              /* every price by itself */
    double                      *sent_s;
    /* State that is sharded for the update only is gathered ahead of the first forward pass, as it would be after the
       update before; weights that are sharded, for every pass. */
    bool gathers_first, gathers_always;
    bool skips; /* rounds that are alike, once */
};

static int chunk_price(const walk_t *w, int stage, int chunk)
{
    return 1 + CHUNK_PRICES * (stage * w->prices->pipeline.chunks + chunk);
}

static int segment_price(const walk_t *w, int segment)
{
    return chunk_price(w, w->prices->pipeline.stages, 0) + SEGMENT_PRICES * segment;
}

static int stage_price(const walk_t *w, int stage)
{
    return segment_price(w, w->prices->segment_count) + STAGE_PRICES * stage;
}

static int tie_price(const walk_t *w, int tie)
{
    return stage_price(w, w->prices->pipeline.stages) + tie;
}

/* The input of the pass of the first micro-batch; those of others follow. */
static int input_of(const pdl_pipeline_t *p, bool backward, int stage, int chunk)
{
    return (int)((((backward ? p->stages : 0) + stage) * (int64_t)p->chunks + chunk) * p->micro_batches);
}

static int input_count(const pdl_pipeline_t *p)
{
    return input_of(p, true, p->stages, 0);
}

static pdl__replay_step_t *add(stage_t *st, pdl__replay_step_t step)
{
    st->steps[st->lane.count] = step;
    return &st->steps[st->lane.count++];
}

static pdl__replay_step_t *compute(int price, pdl__replay_step_t *step)
{
    *step = (pdl__replay_step_t){.price = price, .track = PDL_STREAM_COMPUTE, .flags = PDL__STEP_COMPUTES};
    return step;
}

static pdl__replay_step_t *add_compute(stage_t *st, int price)
{
    return compute(price, &st->steps[st->lane.count++]);
}

/* Of gradients or weights; `held`: computation waits for it. */
static void exchange(stage_t *st, int price, bool held)
{
    add(st,
        (pdl__replay_step_t){.price = price, .track = PDL_STREAM_GRADIENT, .flags = held ? PDL__STEP_HOLDS : 0});
    st->replay->exchange_s += st->walk->seconds[price];
}

static const pdl__chunk_t *chunk_of(const stage_t *st, const pdl_pipeline_op_t *pass)
{
    const pdl__pass_prices_t *prices = st->walk->prices;

    return &prices->chunks[st->number * prices->pipeline.chunks + pass->chunk];
}

/* The k-th segment that a pass goes through. */
static int segment_at(const pdl__chunk_t *chunk, const pdl_pipeline_op_t *pass, int k)
{
    return chunk->segment_first + (pass->backward ? k : chunk->segment_count - 1 - k);
}

/* The weights of the k-th segment of a pass. */
static void gather(stage_t *st, int64_t pass, int k)
{
    const pdl__chunk_t *chunk = chunk_of(st, &st->passes[pass]);

    if (k < chunk->segment_count)
        exchange(st,
                 segment_price(st->walk, segment_at(chunk, &st->passes[pass], k)) + SEGMENT_GATHER +
                     (int)(pass & 1),
                 false);
}

/* Weights for the next pass begin to come in when the last segment of this one begins. */
static void gather_for(stage_t *st, int64_t pass)
{
    for (int k = 0; k < AHEAD && pass < st->walk->count; k++) gather(st, pass, k);
}

/* Weights are there before a segment begins; gradients go out behind the last backward pass. */
static void add_segments(stage_t *st, int64_t number, bool last)
{
    const walk_t            *w = st->walk;
    const pdl_pipeline_op_t *pass = &st->passes[number];
    const pdl__chunk_t      *chunk = chunk_of(st, pass);
    bool                     overlap = w->prices->overlap, ahead = w->gathers_always && overlap;

    for (int k = 0; k < chunk->segment_count; k++) {
        int price = segment_price(w, segment_at(chunk, pass, k));

        if (w->gathers_always) gather(st, number, ahead ? k + AHEAD : k);
        if (ahead && k == chunk->segment_count - 1) gather_for(st, number + 1);
        pdl__replay_step_t *step = add_compute(st, price + SEGMENT_PASS + pass->backward);
        if (w->gathers_always || (w->gathers_first && !pass->backward)) {
            step->first_wait = price + SEGMENT_GATHER + (w->gathers_always ? (int)(number & 1) : 0);
            step->wait_count = 1;
        }
        if (last && w->seconds[price + SEGMENT_EXCHANGE] > 0) exchange(st, price + SEGMENT_EXCHANGE, !overlap);
    }
}

static pass_steps_t whole_pass(stage_t *st, int chunk, bool backward)
{
    const walk_t           *w = st->walk;
    const pdl_pipeline_t   *p = &w->prices->pipeline;
    const pdl_pipeline_op_t pass = {.backward = backward, .chunk = chunk};
    int                     price = chunk_price(w, st->number, chunk) + backward, stage, to;
    pass_steps_t            steps = {.count = 0};
    pdl__replay_step_t     *step = compute(price + CHUNK_PASS, &steps.step[steps.count++]);

    if (pdl_pipeline_source(p, st->number, &pass, &stage, &to)) {
        step->flags |= PDL__STEP_NEEDS;
        step->tensor = input_of(p, backward, st->number, chunk);
    }
    if (w->queue_s != NULL) compute(price + CHUNK_QUEUE, &steps.step[steps.count++]);
    if (!pdl_pipeline_target(p, st->number, &pass, &stage, &to)) return steps;
    steps.step[steps.count++] =
        (pdl__replay_step_t){.price = price + CHUNK_SEND,
                             .tensor = input_of(p, backward, stage, to),
                             .track = (uint8_t)(PDL__TRACK_SEND + backward),
                             .flags =
                                 PDL__STEP_SENDS | (w->prices->oracle->p.overlap_stages ? 0 : PDL__STEP_HOLDS)};
    return steps;
}

static void add_pass(stage_t *st, int64_t number)
{
    const walk_t            *w = st->walk;
    const pdl_pipeline_op_t *pass = &st->passes[number];
    const pass_steps_t      *whole = &st->whole[2 * pass->chunk + pass->backward];
    bool                     last = pass->backward && --st->left[pass->chunk] == 0 && w->options->exchange;
    bool                     first = w->gathers_first && !pass->backward && pass->micro_batch == 0;

    st->lane.tensor = (int)pass->micro_batch;
    if (!last && !first && !w->gathers_always && st->lane.count == 0) {
        st->lane.steps = whole->step;
        st->lane.count = whole->count;
        return;
    }
    st->lane.steps = st->steps;
    pdl__replay_step_t *input = add(st, whole->step[0]);
    if (last || first || w->gathers_always) {
        input->price = 0;
        add_segments(st, number, last);
    }
    for (int i = 1; i < whole->count; i++) add(st, whole->step[i]);
}

/* Two stages that have the same weights wait for each other: one says that it is there, then both add up gradients. */
static void add_tie(stage_t *st, int tie)
{
    const walk_t           *w = st->walk;
    const pdl__stage_tie_t *t = &w->prices->ties[tie];
    int                     ready = input_count(&w->prices->pipeline) + 2 * tie;
    pdl__replay_step_t     *step;

    if (st->number != t->a && st->number != t->b) return;
    step = add_compute(st, 0);
    step->flags |= PDL__STEP_SENDS;
    step->tensor = ready + (st->number == t->b);
    step = add_compute(st, tie_price(w, tie));
    step->flags |= PDL__STEP_NEEDS;
    step->tensor = ready + (st->number == t->a);
    st->replay->exchange_s += t->seconds;
}

/* After the last pass: what is left of the exchange, shared weights, update, gathering. */
static void add_end(stage_t *st)
{
    int price = stage_price(st->walk, st->number);

    st->lane.steps = st->steps;
    st->lane.tensor = 0;
    if (st->walk->options->exchange) {
        exchange(st, price + STAGE_TAIL, true);
        for (int i = 0; i < st->walk->prices->tie_count; i++) add_tie(st, i);
    }
    add_compute(st, price + STAGE_UPDATE);
    if (st->walk->options->exchange) exchange(st, price + STAGE_GATHER, true);
}

/* What was sharded for the update before is gathered in the order of forward. */
static void add_begin(stage_t *st)
{
    const walk_t *w = st->walk;
    int           chunks = w->prices->pipeline.chunks;

    if (w->gathers_always && w->prices->overlap) gather_for(st, 0);
    for (int c = 0; c < chunks && w->gathers_first; c++) {
        const pdl__chunk_t *chunk = &w->prices->chunks[st->number * chunks + c];
        for (int k = chunk->segment_count - 1; k >= 0; k--)
            exchange(st, segment_price(w, chunk->segment_first + k) + SEGMENT_GATHER, false);
    }
}

/* Micro-batches that a stage takes up in a round of its steady phase, one backward pass after one forward pass: one, or with
   several chunks as many as there are stages. */
static int64_t round_micro_batches(const pdl_pipeline_t *p)
{
    return p->chunks > 1 ? p->stages : 1;
}

/* Tensors that are on their way belong to later micro-batches then. */
static void skip_tensors(const walk_t *w, int64_t micro_batches, double seconds)
{
    int64_t all = w->prices->pipeline.micro_batches;

    for (int row = 0; row < input_count(&w->prices->pipeline); row += (int)all)
        for (int64_t i = all - 1; i >= micro_batches; i--) {
            double sent_s = w->sent_s[row + i - micro_batches];
            w->sent_s[row + i] = sent_s >= 0 ? sent_s + seconds : sent_s;
        }
}

/* When the rounds of all stages are alike, all are left out but a few at the end. */
static void skip_rounds(walk_t *w)
{
    const pdl_pipeline_t *p = &w->prices->pipeline;
    double                seconds = w->stages[0].rounds.before;
    int64_t               count = INT64_MAX;

    for (int s = 0; s < p->stages; s++) {
        const stage_t *st = &w->stages[s];
        int64_t        more = (st->rounds.end - st->next) / st->rounds.length - 1;

        if (!pdl__repeats_seen(&st->rounds, seconds)) return;
        if (more < count) count = more;
    }
    w->skips = false;
    if (count <= 0) return;
    for (int s = 0; s < p->stages; s++) {
        stage_t *st = &w->stages[s];

        pdl__repeats_skip(&st->rounds, count, seconds, &st->lane, &st->replay->exchange_s);
        st->next += count * st->rounds.length;
        st->lane.tensor += (int)(count * round_micro_batches(p));
        for (int c = 0; c < p->chunks; c++) st->left[c] -= count * round_micro_batches(p);
    }
    for (int i = 0; i < tie_price(w, 0); i++) w->end_s[i] += (double)count * seconds;
    skip_tensors(w, count * round_micro_batches(p), (double)count * seconds);
}

/* The steady phase of a stage. */
static void find_rounds(stage_t *st)
{
    const pdl_pipeline_t *p = &st->walk->prices->pipeline;
    pdl__repeats_t       *r = &st->rounds;

    r->end = st->walk->count;
    if (p->training) {
        while (r->first < r->end && !st->passes[r->first].backward) r->first++;
        while (r->end > r->first && st->passes[r->end - 1].backward) r->end--;
    }
    r->length = (int)(round_micro_batches(p) * p->chunks) * (p->training ? 2 : 1);
}

static void follow_rounds(stage_t *st)
{
    pdl__repeats_t *r = &st->rounds;

    if (st->next <= r->first || st->next > r->end) return;
    pdl__repeats_follow(r, &st->lane, st->replay->exchange_s);
    if (r->at == 0 && r->alike >= 2) skip_rounds(st->walk);
}

static bool next_pass(pdl__lane_t *lane)
{
    stage_t *st = (stage_t *)lane;

    lane->count = 0;
    if (st->next == 0) add_begin(st);
    if (st->walk->skips) follow_rounds(st);
    if (st->next < st->walk->count) {
        add_pass(st, st->next++);
        return true;
    }
    if (!st->ended) add_end(st);
    st->ended = true;
    return lane->count > 0;
}

/* What the device waits for the host that queues a pass: by the blend of both, or what the replay finds. */
static void price_queue(const walk_t *w, const pdl__chunk_t *chunk, int price)
{
    const pdl_parameters_t *p = &w->prices->oracle->p;
    const double           *queue = chunk->time.queue;
    double                  passes = (double)w->prices->pipeline.micro_batches * w->prices->pipeline.chunks,
           both = queue[0] + queue[1];

    for (int d = 0; d < 2 && both > 0; d++) {
        double host = queue[d] * (1 + p->queue_step_s / (passes * both));
        if (p->queue_blend > 0)
            w->seconds[price + CHUNK_QUEUE + d] = pdl__host_wait(p, host, pdl__pass_seconds(&chunk->time, d));
        else
            w->queue_s[price + CHUNK_QUEUE + d] = host;
    }
}

static void fill_prices(const walk_t *w)
{
    const pdl__pass_prices_t *prices = w->prices;
    const pdl_pipeline_t     *p = &prices->pipeline;

    for (int d = 0; d < 2; d++) {
        for (int i = 0; i < p->stages * p->chunks; i++) {
            double *at = w->seconds + chunk_price(w, 0, i);
            at[CHUNK_PASS + d] = pdl__pass_seconds(&prices->chunks[i].time, d);
            at[CHUNK_SEND + d] = w->options->send ? prices->chunks[i].send_s[d] : 0;
        }
        for (int i = 0; i < prices->segment_count; i++)
            w->seconds[segment_price(w, i) + SEGMENT_PASS + d] = pdl__pass_seconds(&prices->segments[i].time, d);
    }
    for (int i = 0; i < p->stages * p->chunks && w->queue_s != NULL; i++)
        price_queue(w, &prices->chunks[i], chunk_price(w, 0, i));
    for (int i = 0; i < prices->segment_count; i++) {
        w->seconds[segment_price(w, i) + SEGMENT_EXCHANGE] = prices->segments[i].exchange_s;
        for (int k = 0; k < 2; k++)
            w->seconds[segment_price(w, i) + SEGMENT_GATHER + k] = prices->segments[i].gather_s;
    }
    for (int s = 0; s < p->stages; s++) {
        double *at = w->seconds + stage_price(w, s);
        at[STAGE_TAIL] = prices->tail_s[s];
        at[STAGE_UPDATE] = prices->update_s[s];
        at[STAGE_GATHER] = prices->gather_s[s];
    }
    for (int i = 0; i < prices->tie_count; i++) w->seconds[tie_price(w, i)] = prices->ties[i].seconds;
}

static bool queues(const pdl__pass_prices_t *prices)
{
    for (int i = 0; i < prices->pipeline.stages * prices->pipeline.chunks; i++)
        if (prices->chunks[i].time.queue[0] + prices->chunks[i].time.queue[1] > 0) return true;
    return false;
}

static bool make_table(walk_t *w)
{
    int     count = tie_price(w, w->prices->tie_count);
    int     tensors = input_count(&w->prices->pipeline) + 2 * w->prices->tie_count;
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

/* Steps of the longest pass: three for each segment, gathers of two more, input, host and output. */
static size_t most_steps(const walk_t *w)
{
    int most = 0;

    for (int i = 0; i < w->prices->pipeline.stages * w->prices->pipeline.chunks; i++)
        if (w->prices->chunks[i].segment_count > most) most = w->prices->chunks[i].segment_count;
    return 3 * (size_t)most + (size_t)w->prices->segment_count + 2 * (size_t)w->prices->tie_count + 2 * AHEAD + 4;
}

static bool make_stage(walk_t *w, int s, size_t steps, pdl__stage_replay_t *replay)
{
    const pdl_pipeline_t *p = &w->prices->pipeline;
    stage_t              *st = &w->stages[s];
    int64_t               round = w->skips ? 2 * round_micro_batches(p) * p->chunks : 0;

    *replay = (pdl__stage_replay_t){.end_s = 0};
    *st = (stage_t){.walk = w, .number = s, .replay = replay};
    st->passes =
        malloc((size_t)w->count * sizeof(*st->passes) +
               (size_t)p->chunks * (sizeof(*st->left) + 2 * sizeof(*st->whole)) + steps * sizeof(*st->steps));
    if (st->passes == NULL) return false;
    st->left = (int64_t *)(st->passes + w->count);
    st->whole = (pass_steps_t *)(st->left + p->chunks);
    st->rounds.ends = (double *)(st->whole + 2 * (size_t)p->chunks);
    st->steps = (pdl__replay_step_t *)(st->rounds.ends + round);
    st->lane = (pdl__lane_t){.steps = st->steps,
                             .more = next_pass,
                             .wait = w->wait,
                             .seconds = w->seconds,
                             .queue_s = w->queue_s,
                             .end_s = w->end_s,
                             .slowdown = w->prices->oracle->p.overlap_slowdown};
    pdl_pipeline_order(p, s, st->passes);
    if (w->skips) find_rounds(st);
    for (int c = 0; c < p->chunks; c++) {
        st->left[c] = p->micro_batches;
        for (int d = 0; d < 2; d++) st->whole[2 * c + d] = whole_pass(st, c, d);
    }
    return true;
}

static pdl_status_t prepare(walk_t *w, pdl__stage_replay_t *replays)
{
    const pdl_pipeline_t *p = &w->prices->pipeline;
    bool sharded = w->options->exchange && w->prices->c.sharding != PDL_SHARDING_NONE && p->training;

    w->count = pdl_pipeline_op_count(p);
    w->gathers_always = sharded && w->prices->c.sharding == PDL_SHARDING_ZERO3;
    w->gathers_first = sharded && w->prices->overlap && !w->gathers_always;
    if (w->count > MOST_PASSES / p->stages)
        return pdl_error(PDL_ERR_LIMIT,
                         "%lld passes on each of %d stages are too many to replay; at most %d together",
                         (long long)w->count, p->stages, MOST_PASSES);
    w->skips = (!p->training || p->schedule != PDL_SCHEDULE_GPIPE) &&
               p->micro_batches % round_micro_batches(p) == 0 &&
               p->micro_batches - p->stages >= MANY_ROUNDS * round_micro_batches(p);
    w->stages = calloc((size_t)p->stages, sizeof(*w->stages));
    bool   there = w->stages != NULL && make_table(w);
    size_t steps = most_steps(w);
    for (int s = 0; s < p->stages && there; s++) there = make_stage(w, s, steps, &replays[s]);
    return there ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory for %lld passes", (long long)w->count);
}

static void clear(walk_t *w)
{
    for (int s = 0; s < w->prices->pipeline.stages && w->stages != NULL; s++) free(w->stages[s].passes);
    free(w->stages);
    free(w->seconds);
    free(w->wait);
    free(w->sent_s);
}

/* What a stage was busy with. */
static void take_replay(const walk_t *w, const stage_t *st)
{
    const pdl_pipeline_t *p = &w->prices->pipeline;
    pdl__stage_replay_t  *replay = st->replay;
    double                m = (double)p->micro_batches;

    for (int c = 0; c < p->chunks; c++) {
        const pdl__chunk_t *chunk = &w->prices->chunks[st->number * p->chunks + c];
        const double       *queue_s = w->seconds + chunk_price(w, st->number, c) + CHUNK_QUEUE;

        for (int d = 0; d < (p->training ? 2 : 1); d++) {
            for (int i = 0; i < PDL__PART_COUNT; i++) replay->part[i] += m * chunk->time.part[d][i];
            replay->part[PDL__PART_COMPUTE] += m * queue_s[d];
        }
    }
    replay->part[PDL__PART_COMPUTE] += w->prices->update_s[st->number] + st->lane.host_wait_s;
    replay->slowed_s = st->lane.slowed_s;
    replay->end_s = fmax(st->lane.free_s[PDL_STREAM_COMPUTE], st->lane.free_s[PDL_STREAM_GRADIENT]);
}

pdl_status_t pdl__replay_passes(const pdl__pass_prices_t *prices, const pdl__replay_options_t *options,
                                pdl__stage_replay_t *stages, double *total_s)
{
    walk_t       w = {.prices = prices, .options = options};
    pdl_status_t status = prepare(&w, stages);

    if (!status)
        status = pdl__replay(&w.stages[0].lane, sizeof(*w.stages), prices->pipeline.stages, w.sent_s, total_s);
    for (int s = 0; s < prices->pipeline.stages && !status; s++) take_replay(&w, &w.stages[s]);
    clear(&w);
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
