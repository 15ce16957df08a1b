/*
 * The critical path of a pipeline, as far as it can be had without replaying it.
 */
#include "oracle/project/pipeline_time.h"
#include <math.h>
#include <stdlib.h>

/* Runs that need no memory of their own. */
#define FEW_RUNS 256

/* Forward and backward of one run, with what the sender has to wait for, but for what a later pass does where passes are divided;
   and the way there and back over the border in front of it, where that is beside computation. */
typedef struct pass {
    double forward, backward, both, later, way;
} pass_t;

/* No argument is a NaN, which fmax() has to look for. */
static inline double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Of what crosses the border in front of run k. */
static double send_s(const pdl__runs_t *r, int64_t k)
{
    if (r->step_s <= 0 || k <= 0 || k >= r->cut->count) return 0;
    return r->step_s +
           pdl__sent_elements(r->profile, r->cut->first[k]) * r->profile->compute.item_bytes * r->byte_s;
}

/* As if transfers took no time. */
static pass_t bare_pass(const pdl__runs_t *r, int64_t k)
{
    const pdl_profile_t *on = pdl__profile_on(r->profile, r->cut, k);
    const double        *pass = on->pass[r->c->recompute], *forward = on->forward;
    int                  a = r->cut->first[k], b = r->cut->first[k + 1];
    pass_t               bare = {.forward = forward[b] - forward[a], .both = pass[b] - pass[a]};

    if (r->oracle) bare.both += pdl__run_wait(r->oracle, r->c, &on->prefix[a], &on->prefix[b]);
    if (pdl__divides_passes(r->c)) {
        bare.later = on->later[b] - on->later[a];
        bare.both -= bare.later;
    }
    bare.backward = bare.both - bare.forward;
    return bare;
}

static void add_sends(const pdl__runs_t *r, pass_t *pass)
{
    bool   training = r->c->run_mode == PDL_TRAINING;
    double send = 0, next;

    for (int64_t k = 0; k < r->cut->count; k++, send = next) {
        next = send_s(r, k + 1);
        if (!r->held) {
            pass[k].way = (training ? 2 : 1) * send;
            continue;
        }
        pass[k].forward += next;
        if (training) pass[k].backward += send;
        pass[k].both = pass[k].forward + pass[k].backward;
    }
}

/* All forward passes, then all backward passes: each way as in a row of workshops, which the slowest keeps busy. */
static double one_way_after_the_other(const pdl__runs_t *r, const pass_t *pass)
{
    double sum = 0, m = (double)r->c->micro_batches, forward = 0, backward = 0;
    bool   back = r->c->run_mode == PDL_TRAINING;

    for (int64_t k = 0; k < r->cut->count; k++) {
        double send = pass[k].way / (back ? 2 : 1);

        sum += pass[k].both + pass[k].way;
        forward = larger(forward, larger(pass[k].forward, send));
        backward = larger(backward, larger(pass[k].backward, back ? send : 0));
    }
    return sum + (m - 1) * (forward + backward);
}

/* A stage that is busy but while the pipeline in front of it fills and drains, and while the first and the last micro-batch
   are in flight to its end and back, beside which it does the passes that it runs ahead. */
static double busy_stage(const pdl__runs_t *r, const pass_t *pass, int64_t s, double front, double behind)
{
    double m = (double)r->c->micro_batches, stages = (double)(r->c->pipeline - s), work = 0;
    double ahead = (m < stages ? m : stages) - 1;

    for (int64_t k = s; k < r->cut->count; k += r->c->pipeline) work += pass[k].both;
    if (r->c->virtual_stages > 1) return front + m * work;
    double first = larger(0, behind - ahead * pass[s].forward), last = larger(0, behind - ahead * pass[s].backward);
    return front + m * work + (m > ahead + 1 ? first + last : larger(first, last));
}

/* Gradients of weights that a stage makes after its last backward pass. */
static int64_t left_at_end(const pdl__runs_t *r, int64_t s)
{
    return s + 1 < r->c->micro_batches ? s + 1 : r->c->micro_batches;
}

/* The stages of a pipeline whose passes are divided. Up to a stage micro-batches pass those in front, forward only, and these go
   on with its last one, then with what they have left; while the first and the last are behind it, it does what it may. */
static double busiest_divided_stage(const pdl__runs_t *r, const pass_t *pass, double once)
{
    int64_t m = r->c->micro_batches, stages = r->c->pipeline;
    double  fill = 0, drain = 0, longest = 0, behind = once;

    for (int64_t s = 0; s < stages; s++) {
        const pass_t *p = &pass[s];
        int64_t       left = left_at_end(r, s), ahead = (m < stages - s ? m : stages - s) - 1;
        int64_t       later = m - 1 > s ? m - 1 - s : 0, before = m - 1 - ahead > s ? m - 1 - ahead - s : 0;
        double        work = (double)m * p->both + (double)(m - left) * p->later;

        behind -= p->both + p->way;
        double first = larger(0, behind - (double)ahead * p->forward);
        double last = larger(0, behind - (double)ahead * p->backward - (double)(later - before) * p->later);
        double wait = m > ahead + 1 ? first + last : larger(first, last), own = (double)left * p->later;
        longest = larger(longest, fill + work + wait + larger(own, drain));
        double way = s + 1 < stages ? pass[s + 1].way / 2 : 0;
        fill += p->forward + way;
        drain = larger(own, drain) + p->backward + way;
    }
    return longest;
}

/* With one pass forward, one backward, stage s goes back with micro-batch k and then forward with k plus the stages from itself on.
   So n neighbours hand n micro-batches up and down again before the last of them goes on: a chain of such rounds, as long as there
   are micro-batches to go forward with. What the last of them has left then it does itself. */
static double chain_of_rounds(const pdl__runs_t *r, const pass_t *last, int64_t behind, int64_t n, double window)
{
    int64_t m = r->c->micro_batches, rounds = (m - 1 - behind) / n;

    if (rounds <= 0) return 0;
    int64_t back = m - 1 - rounds * n, forward = back - behind;
    return (double)rounds * window + (double)back * last->backward +
           (forward > 0 ? (double)forward * last->forward : 0);
}

/* Of rounds that begin at stage s, those before whose next micro-batch it makes gradients of weights. */
static int64_t rounds_with_weights(const pdl__runs_t *r, int64_t s, int64_t n)
{
    int64_t all = (s + n - 1 + r->c->micro_batches - r->c->pipeline) / n, without = (s + n - 1) / n;

    return all > without ? all - without : 0;
}

static double rounds(const pdl__runs_t *r, const pass_t *pass, int64_t n, double once)
{
    double window = 0, longest = 0;

    for (int64_t s = 0; s < r->c->pipeline; s++) {
        window += pass[s].both + (s > 0 ? pass[s].way : 0);
        if (s >= n) window -= pass[s - n].both + pass[s - n + 1].way;
        if (s < n - 1) continue;
        const pass_t *head = &pass[s - n + 1];
        double        chain = chain_of_rounds(r, &pass[s], r->c->pipeline - 1 - s, n, window);
        if (head->later > 0) chain += (double)rounds_with_weights(r, s - n + 1, n) * head->later;
        longest = larger(longest, chain);
    }
    return once + longest;
}

/* A stage of an interleaved pipeline: micro-batches go through its virtual stages in groups as large as the pipeline. */
typedef struct interleaved {
    const pdl__runs_t *r;
    const pass_t      *pass;  /* of its first virtual stage; the next are a pipeline further */
    int64_t            all;   /* passes each way */
    int64_t            ahead; /* forward passes before the first backward pass */
} interleaved_t;

/* The first n forward or backward passes of the stage. */
static double first_passes(const interleaved_t *line, int64_t n, bool backward)
{
    int64_t group = line->r->c->pipeline, chunks = line->r->c->virtual_stages, turns = n / (group * chunks);
    double  seconds = 0;

    if (n <= 0) return 0;
    n -= turns * group * chunks;
    for (int64_t i = 0; i < chunks; i++, n -= group) {
        const pass_t *pass = &line->pass[(backward ? chunks - 1 - i : i) * group];
        int64_t       times = turns * group + (n > group ? group : n > 0 ? n : 0);
        seconds += (double)times * (backward ? pass->backward : pass->forward);
    }
    return seconds;
}

/* The first micro-batch comes to a virtual stage; the stage does what it has to until the last one has gone through that; this goes
   on to the end and back. Backward pass number j is followed by forward pass j + ahead. */
static double through_forward(const interleaved_t *line, int64_t chunk, double once)
{
    int64_t group = line->r->c->pipeline, first = chunk * group;
    int64_t last = line->all - line->r->c->virtual_stages * group + first + group - 1;
    double  work = first_passes(line, last + 1, false) - first_passes(line, first, false) +
                  first_passes(line, last + 1 - line->ahead, true) -
                  first_passes(line, first + 1 - line->ahead, true);

    return once - line->pass[first].forward + work;
}

static double through_backward(const interleaved_t *line, int64_t chunk, double once)
{
    int64_t group = line->r->c->pipeline, chunks = line->r->c->virtual_stages;
    int64_t first = (chunks - 1 - chunk) * group, last = line->all - chunks * group + first + group - 1;
    int64_t from = first + line->ahead, to = last + line->ahead;
    double  work = first_passes(line, last + 1, true) - first_passes(line, first, true) +
                  first_passes(line, to < line->all ? to : line->all, false) -
                  first_passes(line, from < line->all ? from : line->all, false);

    return once - line->pass[chunk * group].backward + work;
}

/* Chains through the longest passes of every stage, of whole groups of micro-batches. */
static double through_groups(const pdl__runs_t *r, const pass_t *pass)
{
    int64_t stages = r->c->pipeline, chunks = r->c->virtual_stages, whole = r->c->micro_batches / stages * stages;
    double  once = 0, longest = 0;

    for (int64_t k = 0; k < r->cut->count; k++) once += pass[k].both + pass[k].way;
    for (int64_t s = 0; s < stages && whole > 0; s++) {
        interleaved_t line = {.r = r, .pass = &pass[s], .all = whole * chunks};
        int64_t       forward = 0, backward = 0;

        line.ahead = 2 * (stages - s - 1) + (chunks - 1) * stages + 1;
        if (line.ahead > line.all || r->c->run_mode == PDL_INFERENCE) line.ahead = line.all;
        for (int64_t c = 1; c < chunks; c++) {
            if (pass[s + c * stages].forward > pass[s + forward * stages].forward) forward = c;
            if (pass[s + c * stages].backward > pass[s + backward * stages].backward) backward = c;
        }
        longest = larger(longest, through_forward(&line, forward, once));
        longest = larger(longest, through_backward(&line, backward, once));
    }
    return larger(once, longest);
}

static double longest_chain(const pdl__runs_t *r, const pass_t *pass)
{
    int64_t stages = r->c->pipeline;
    double  once = 0, front = 0, longest = 0, slowest = 0;

    for (int64_t s = 0; s < stages; s++) {
        once += pass[s].both + pass[s].way;
        slowest = larger(slowest, pass[s].both + pass[s].later + pass[s].way);
    }
    if (pdl__divides_passes(r->c)) longest = busiest_divided_stage(r, pass, once);
    for (int64_t s = 0; s < stages && !pdl__divides_passes(r->c); s++) {
        longest = larger(longest, busy_stage(r, pass, s, front, larger(0, once - front - pass[s].both)));
        front += pass[s].both + (s + 1 < r->cut->count ? pass[s + 1].way : 0);
    }
    if (r->enough_s > 0 && longest > r->enough_s) return longest;
    if (r->c->virtual_stages > 1) return larger(longest, through_groups(r, pass));
    /* No round is longer than as many turns of the slowest stage. */
    double most = once + (double)(r->c->micro_batches - 1) * slowest;
    for (int64_t n = 2; longest < most * (1 - 1e-12); n *= 2) {
        longest = larger(longest, rounds(r, pass, n < stages ? n : stages, once));
        if (n >= stages) break;
    }
    return longest;
}

static double seconds_of(const pdl__runs_t *r, const pass_t *pass)
{
    bool one_way = r->c->run_mode == PDL_INFERENCE || r->c->schedule == PDL_SCHEDULE_GPIPE;

    return one_way && r->c->virtual_stages == 1 ? one_way_after_the_other(r, pass) : longest_chain(r, pass);
}

pdl_status_t pdl__pipeline_seconds(const pdl__runs_t *r, double *bare_s, double *sent_s)
{
    pass_t  few[FEW_RUNS], *pass = few;
    int64_t count = r->cut->count;

    if (count > FEW_RUNS) pass = malloc((size_t)count * sizeof(*pass));
    if (!pass) return pdl_error(PDL_ERR_NOMEM, "out of memory for %lld stages", (long long)count);
    /* To clear all of them would take as long as the rest. */
    pass[0] = (pass_t){0};
    for (int64_t k = 0; k < count; k++) pass[k] = bare_pass(r, k);
    *bare_s = seconds_of(r, pass);
    if (sent_s) {
        add_sends(r, pass);
        /* With transfers other chains may be looked at, which are shorter than those that were without. */
        *sent_s = larger(*bare_s, seconds_of(r, pass));
    }
    if (pass != few) free(pass);
    return PDL_OK;
}

double pdl__pipeline_drain(const pdl__runs_t *r, int64_t stage)
{
    double seconds = 0;

    for (int64_t s = 0; s < stage; s++) {
        pass_t pass = bare_pass(r, s);
        seconds = larger(seconds, (double)left_at_end(r, s) * pass.later) + pass.backward;
    }
    /* Its own last gradients of weights are made meanwhile. */
    return larger(0, seconds - (double)left_at_end(r, stage) * bare_pass(r, stage).later);
}

double pdl__least_passes(double pass_s, double m, double stages, bool interleaved)
{
    if (interleaved) return pass_s * fmax(1, m / stages);
    return pass_s * (1 + fmax((m - 1) / 2, m > stages ? m - (stages + 2) / 3 : 0) / stages);
}
