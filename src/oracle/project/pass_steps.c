/*
 * The steps of a stage, pass after pass: one for all layers of a pass, or one for each segment where gradients go out or weights
 * come in beside it; then what follows the last pass.
 */
#include "oracle/project/pass_walk.h"

static pdl__replay_step_t *add(pdl__stage_walk_t *st, pdl__replay_step_t step)
{
    st->steps[st->lane.count] = step;
    return &st->steps[st->lane.count++];
}

static pdl__replay_step_t *compute(int price, pdl__replay_step_t *step)
{
    *step = (pdl__replay_step_t){.price = price, .track = PDL_STREAM_COMPUTE, .flags = PDL__STEP_COMPUTES};
    return step;
}

static pdl__replay_step_t *add_compute(pdl__stage_walk_t *st, int price)
{
    return compute(price, &st->steps[st->lane.count++]);
}

/* Of gradients or weights; `held`: computation waits for it. */
static void exchange(pdl__stage_walk_t *st, int price, bool held)
{
    add(st,
        (pdl__replay_step_t){.price = price, .track = PDL_STREAM_GRADIENT, .flags = held ? PDL__STEP_HOLDS : 0});
    st->replay->exchange_s += st->walk->seconds[price];
}

static const pdl__chunk_t *chunk_of(const pdl__stage_walk_t *st, const pdl_pipeline_op_t *pass)
{
    const pdl__pass_prices_t *prices = st->walk->prices;

    return &prices->chunks[st->number * prices->pipeline.chunks + pass->chunk];
}

/* The k-th segment that a pass goes through. */
static int segment_at(const pdl__chunk_t *chunk, const pdl_pipeline_op_t *pass, int k)
{
    return chunk->segment_first + (pass->backward ? k : chunk->segment_count - 1 - k);
}

/* The weights of the k-th segment of a pass with this number. */
static void gather(pdl__stage_walk_t *st, int64_t number, const pdl_pipeline_op_t *pass, int k)
{
    const pdl__chunk_t *chunk = chunk_of(st, pass);

    if (k < chunk->segment_count)
        exchange(st,
                 pdl__segment_price(st->walk, segment_at(chunk, pass, k)) + PDL__SEGMENT_GATHER + (int)(number & 1),
                 false);
}

/* Weights for the next pass begin to come in when the last segment of this one begins. */
static void gather_ahead(pdl__stage_walk_t *st)
{
    if (st->next >= st->walk->count) return;
    pdl_pipeline_op_t pass = pdl_pipeline_next(&st->passes);
    for (int k = 0; k < PDL__GATHERS_AHEAD; k++) gather(st, st->next, &pass, k);
}

/* Weights are there before a segment begins; gradients go out behind the last backward pass. */
static void add_segments(pdl__stage_walk_t *st, const pdl_pipeline_op_t *pass, bool last)
{
    const pdl__pass_walk_t *w = st->walk;
    const pdl__chunk_t     *chunk = chunk_of(st, pass);
    int64_t                 number = st->next - 1;
    bool                    overlap = w->prices->overlap, ahead = w->gathers_always && overlap;

    for (int k = 0; k < chunk->segment_count; k++) {
        int price = pdl__segment_price(w, segment_at(chunk, pass, k));

        if (w->gathers_always) gather(st, number, pass, ahead ? k + PDL__GATHERS_AHEAD : k);
        if (ahead && k == chunk->segment_count - 1) gather_ahead(st);
        pdl__replay_step_t *step = add_compute(st, price + PDL__SEGMENT_PASS + pass->backward);
        if (w->gathers_always || (w->gathers_first && !pass->backward)) {
            step->first_wait = price + PDL__SEGMENT_GATHER + (w->gathers_always ? (int)(number & 1) : 0);
            step->wait_count = 1;
        }
        if (last && w->seconds[price + PDL__SEGMENT_EXCHANGE] > 0)
            exchange(st, price + PDL__SEGMENT_EXCHANGE, !overlap);
    }
}

pdl__pass_steps_t pdl__whole_pass(pdl__stage_walk_t *st, int chunk, bool backward)
{
    const pdl__pass_walk_t *w = st->walk;
    const pdl_pipeline_t   *p = &w->prices->pipeline;
    const pdl_pipeline_op_t pass = {.backward = backward, .chunk = chunk};
    int                     price = pdl__chunk_price(w, st->number, chunk) + backward, stage, to;
    pdl__pass_steps_t       steps = {.count = 0};
    pdl__replay_step_t     *step = compute(price + PDL__CHUNK_PASS, &steps.step[steps.count++]);

    if (pdl_pipeline_source(p, st->number, &pass, &stage, &to)) {
        step->flags |= PDL__STEP_NEEDS;
        step->tensor = pdl__input_of(p, backward, st->number, chunk);
    }
    if (w->queue_s != NULL) compute(price + PDL__CHUNK_QUEUE, &steps.step[steps.count++]);
    if (!pdl_pipeline_target(p, st->number, &pass, &stage, &to)) return steps;
    steps.step[steps.count++] =
        (pdl__replay_step_t){.price = price + PDL__CHUNK_SEND,
                             .tensor = pdl__input_of(p, backward, stage, to),
                             .track = (uint8_t)(PDL__TRACK_SEND + backward),
                             .flags =
                                 PDL__STEP_SENDS | (w->prices->oracle->p.overlap_stages ? 0 : PDL__STEP_HOLDS)};
    return steps;
}

pdl__plain_pass_t pdl__plain_pass(const pdl__stage_walk_t *st, int chunk, bool backward)
{
    const pdl__pass_walk_t   *w = st->walk;
    const pdl__pass_steps_t  *whole = &st->whole[2 * chunk + backward];
    const pdl__replay_step_t *step = whole->step, *send = &step[whole->count - 1];
    const double             *seconds = w->seconds + pdl__chunk_price(w, st->number, chunk) + PDL__CHUNK_PASS;
    bool                      needs = step->flags & PDL__STEP_NEEDS, sends = send->flags & PDL__STEP_SENDS;

    return (pdl__plain_pass_t){.seconds = w->seconds[step->price],
                               .send_s = sends ? w->seconds[send->price] : 0,
                               .later_s = backward && w->prices->divided ? seconds[PDL__PASS_WEIGHTS] : 0,
                               .input = needs ? step->tensor : -1,
                               .output = sends ? send->tensor : -1};
}

/* The pass that makes the gradients of weights of a micro-batch; those of the last one go out beside it. */
static void add_weights(pdl__stage_walk_t *st, int64_t micro_batch)
{
    const pdl__pass_walk_t *w = st->walk;
    const pdl__chunk_t     *chunk = &w->prices->chunks[st->number];
    int                     price = pdl__chunk_price(w, st->number, 0) + PDL__PASS_WEIGHTS;

    if (micro_batch != w->with_segments[1]) add_compute(st, price + PDL__CHUNK_PASS);
    for (int k = 0; k < chunk->segment_count && micro_batch == w->with_segments[1]; k++) {
        int segment = pdl__segment_price(w, chunk->segment_first + k);
        add_compute(st, segment + PDL__SEGMENT_PASS + PDL__PASS_WEIGHTS);
        if (w->seconds[segment + PDL__SEGMENT_EXCHANGE] > 0)
            exchange(st, segment + PDL__SEGMENT_EXCHANGE, !w->prices->overlap);
    }
    if (w->queue_s != NULL) add_compute(st, price + PDL__CHUNK_QUEUE);
}

/* A stage behind the first makes gradients of weights so many micro-batches later (pipeline_order.c). */
static bool weights_follow(const pdl__stage_walk_t *st, const pdl_pipeline_op_t *pass)
{
    return pass->backward && st->walk->prices->divided && pass->micro_batch >= st->number;
}

static void add_pass(pdl__stage_walk_t *st)
{
    const pdl__pass_walk_t  *w = st->walk;
    const pdl_pipeline_op_t  pass = pdl_pipeline_next(&st->passes);
    const pdl__pass_steps_t *whole = &st->whole[2 * pass.chunk + pass.backward];
    bool                     divided = pass.backward && w->prices->divided;
    bool                     turn = !divided && pass.micro_batch == w->with_segments[pass.backward];
    bool                     weights = weights_follow(st, &pass);

    st->started = true;
    st->next++;
    st->lane.tensor = (int)pass.micro_batch;
    pdl_pipeline_go(&st->passes, pass.backward);
    if (!turn && !w->gathers_always && !weights && st->lane.count == 0) {
        st->lane.steps = whole->step;
        st->lane.count = whole->count;
        return;
    }
    st->lane.steps = st->steps;
    pdl__replay_step_t *input = add(st, whole->step[0]);
    if (turn || w->gathers_always) {
        input->price = 0;
        add_segments(st, &pass, turn && pass.backward);
    }
    for (int i = 1; i < whole->count; i++) add(st, whole->step[i]);
    if (weights) add_weights(st, pass.micro_batch - st->number);
}

/* Two stages that have the same weights wait for each other: one says that it is there, then both add up gradients. */
static void add_tie(pdl__stage_walk_t *st, int tie)
{
    const pdl__pass_walk_t *w = st->walk;
    const pdl__stage_tie_t *t = &w->prices->ties[tie];
    int                     ready = pdl__input_count(&w->prices->pipeline) + 2 * tie;
    pdl__replay_step_t     *step;

    if (st->number != t->a && st->number != t->b) return;
    step = add_compute(st, 0);
    step->flags |= PDL__STEP_SENDS;
    step->tensor = ready + (st->number == t->b);
    step = add_compute(st, pdl__tie_price(w, tie));
    step->flags |= PDL__STEP_NEEDS;
    step->tensor = ready + (st->number == t->a);
    st->replay->exchange_s += t->seconds;
}

/* After the last pass: gradients of weights, what is left of the exchange, shared weights, update, gathering. */
static void add_end(pdl__stage_walk_t *st)
{
    int     price = pdl__stage_price(st->walk, st->number);
    int64_t all = st->walk->prices->pipeline.micro_batches, made = all > st->number ? all - st->number : 0;

    st->lane.steps = st->steps;
    st->lane.tensor = 0;
    for (int64_t k = made; k < all && st->walk->prices->divided; k++) add_weights(st, k);
    if (st->walk->options->exchange) {
        exchange(st, price + PDL__STAGE_TAIL, true);
        for (int i = 0; i < st->walk->prices->tie_count; i++) add_tie(st, i);
    }
    add_compute(st, price + PDL__STAGE_UPDATE);
    if (st->walk->options->exchange) exchange(st, price + PDL__STAGE_GATHER, true);
}

/* What was sharded for the update before is gathered in the order of forward. */
static void add_begin(pdl__stage_walk_t *st)
{
    const pdl__pass_walk_t *w = st->walk;
    int                     chunks = w->prices->pipeline.chunks;

    if (w->gathers_always && w->prices->overlap) gather_ahead(st);
    for (int c = 0; c < chunks && w->gathers_first; c++) {
        const pdl__chunk_t *chunk = &w->prices->chunks[st->number * chunks + c];
        for (int k = chunk->segment_count - 1; k >= 0; k--)
            exchange(st, pdl__segment_price(w, chunk->segment_first + k) + PDL__SEGMENT_GATHER, false);
    }
}

/* Tensors in flight belong to later micro-batches then. */
static void skip_tensors(const pdl__pass_walk_t *w, int64_t micro_batches, double seconds)
{
    const pdl_pipeline_t *p = &w->prices->pipeline;
    int64_t               all = p->micro_batches;

    for (int row = 0; row < pdl__input_count(p); row += (int)pdl__input_row(p))
        for (int64_t i = all - 1; i >= micro_batches; i--) {
            double sent_s = w->sent_s[row + i - micro_batches];
            w->sent_s[row + i] = sent_s >= 0 ? sent_s + seconds : sent_s;
        }
}

/* When the rounds of all stages are alike, all are left out but a few at the end. */
static void skip_rounds(pdl__pass_walk_t *w)
{
    const pdl_pipeline_t *p = &w->prices->pipeline;
    double                seconds = w->stages[0].rounds.before;
    int64_t               count = INT64_MAX;

    for (int s = 0; s < p->stages; s++) {
        const pdl__stage_walk_t *st = &w->stages[s];
        int64_t                  more = (st->rounds.end - st->next) / st->rounds.length - 1;

        if (!pdl__repeats_seen(&st->rounds, seconds)) return;
        if (more < count) count = more;
    }
    w->skips = false;
    if (count <= 0) return;
    for (int s = 0; s < p->stages; s++) {
        pdl__stage_walk_t *st = &w->stages[s];

        pdl__repeats_skip(&st->rounds, count, seconds, &st->lane, &st->replay->exchange_s);
        st->next += count * st->rounds.length;
        pdl_pipeline_skip(&st->passes, count * pdl__round_micro_batches(p));
        st->lane.tensor += (int)(count * pdl__round_micro_batches(p));
    }
    for (int i = 0; i < pdl__tie_price(w, 0); i++) w->end_s[i] += (double)count * seconds;
    skip_tensors(w, count * pdl__round_micro_batches(p), (double)count * seconds);
}

void pdl__find_rounds(pdl__stage_walk_t *st)
{
    const pdl_pipeline_t *p = &st->walk->prices->pipeline;
    pdl__repeats_t       *r = &st->rounds;

    if (p->training) r->first = st->passes.ahead;
    /* From then on gradients of weights follow. */
    if (st->walk->prices->divided) r->first += 2 * st->number;
    r->end = p->training ? 2 * st->passes.all - st->passes.ahead : st->walk->count;
    r->length = (int)(pdl__round_micro_batches(p) * p->chunks) * (p->training ? 2 : 1);
}

/* A pass that is over may end a round. */
static inline bool ends_round(pdl__stage_walk_t *st, double now)
{
    return st->walk->skips && st->next > st->rounds.first && st->next <= st->rounds.end &&
           pdl__repeats_follow(&st->rounds, now);
}

static void end_round(pdl__stage_walk_t *st)
{
    pdl__repeats_end(&st->rounds, &st->lane, st->replay->exchange_s);
    if (st->rounds.alike >= 2) skip_rounds(st->walk);
}

/* Most passes are one step and its transfer, with nothing else in flight: they need no list. Goes on to the first one that does,
   or, and then the answer is true, whose input is not there. */
static bool do_plain_passes(pdl__stage_walk_t *st)
{
    const pdl__pass_walk_t *w = st->walk;
    double                 *free_s = st->lane.free_s, *tensors = w->sent_s, now = free_s[PDL_STREAM_COMPUTE];
    bool                    holds = !w->prices->oracle->p.overlap_stages, waits = false;

    while (st->next < w->count) {
        bool                     backward = pdl_pipeline_backward(&st->passes);
        pdl_pipeline_turn_t     *turn = &st->passes.turn[backward];
        const pdl__plain_pass_t *plain = &st->plain[2 * turn->chunk + backward];
        int64_t                  micro_batch = turn->micro_batch;

        if (micro_batch == w->with_segments[backward]) break;
        if (plain->input >= 0) {
            double arrival = tensors[plain->input + micro_batch];
            waits = arrival == PDL__TENSOR_PENDING;
            if (waits) break;
            now = arrival > now ? arrival : now;
        }
        now += plain->seconds;
        if (plain->output >= 0) {
            double *track_s = &free_s[PDL__TRACK_SEND + backward];
            double  sent_s = (*track_s > now ? *track_s : now) + plain->send_s;
            tensors[plain->output + micro_batch] = *track_s = sent_s;
            if (holds) now = sent_s;
        }
        if (plain->later_s > 0 && micro_batch >= st->number) now += plain->later_s;
        pdl_pipeline_go(&st->passes, backward);
        st->next++;
        if (!ends_round(st, now)) continue;
        free_s[PDL_STREAM_COMPUTE] = now;
        end_round(st);
        now = free_s[PDL_STREAM_COMPUTE];
    }
    free_s[PDL_STREAM_COMPUTE] = now;
    return waits;
}

pdl__more_t pdl__next_pass(pdl__lane_t *lane, bool *moved)
{
    pdl__stage_walk_t *st = (pdl__stage_walk_t *)lane;

    if (st->next == 0) add_begin(st);
    if (st->started && ends_round(st, lane->free_s[PDL_STREAM_COMPUTE])) end_round(st);
    st->started = false;
    if (lane->count == 0 && !st->walk->in_steps &&
        lane->free_s[PDL_STREAM_GRADIENT] <= lane->free_s[PDL_STREAM_COMPUTE]) {
        int64_t before = st->next;
        bool    waits = do_plain_passes(st);
        *moved |= st->next > before;
        if (waits) return PDL__MORE_LATER;
    }
    if (st->next < st->walk->count) {
        add_pass(st);
        return PDL__MORE_STEPS;
    }
    if (!st->ended) add_end(st);
    st->ended = true;
    return lane->count > 0 ? PDL__MORE_STEPS : PDL__MORE_NEVER;
}
