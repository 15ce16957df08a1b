/*
 * The critical path of a pipeline, as far as it can be had without playing it.
 */
#include "oracle/pipeline_time.h"
#include <math.h>

/* Forward and backward of one run, with what the sender has to wait for. */
typedef struct pass {
    double forward, backward;
} pass_t;

static double both(pass_t pass)
{
    return pass.forward + pass.backward;
}

/* Of what crosses the border in front of run k. */
static double send_s(const pdl__runs_t *r, int64_t k)
{
    if (r->step_s <= 0 || k <= 0 || k >= r->cut->count) return 0;
    return r->step_s + r->profile->borders[r->cut->first[k]] * r->profile->compute.item_bytes * r->byte_s;
}

static pass_t pass_of(const pdl__runs_t *r, int64_t k)
{
    const pdl_sums_t *a = &r->profile->prefix[r->cut->first[k]], *b = &r->profile->prefix[r->cut->first[k + 1]];
    pass_t            pass = {.forward = b->forward + b->layer_forward + b->halo_forward -
                                         (a->forward + a->layer_forward + a->halo_forward)};

    pass.backward = pdl__run_seconds(r->c, a, b) - pass.forward;
    if (r->held) pass.forward += send_s(r, k + 1);
    if (r->c->run_mode == PDL_INFERENCE) return pass;
    if (r->held) pass.backward += send_s(r, k);
    pass.backward += r->wait_s / (double)r->c->virtual_stages;
    return pass;
}

/* There and back over the border in front of run k, beside computation. */
static double way_s(const pdl__runs_t *r, int64_t k)
{
    return r->held ? 0 : (r->c->run_mode == PDL_INFERENCE ? 1 : 2) * send_s(r, k);
}

/* All forward passes, then all backward passes: each way as in a row of workshops, which the slowest keeps busy. */
static double one_way_after_the_other(const pdl__runs_t *r)
{
    double sum = 0, m = (double)r->c->micro_batches;
    bool   back = r->c->run_mode == PDL_TRAINING;
    pass_t most = {0, 0};

    for (int64_t k = 0; k < r->cut->count; k++) {
        pass_t pass = pass_of(r, k);
        double send = r->held ? 0 : send_s(r, k);

        sum += pass.forward + pass.backward + way_s(r, k);
        most.forward = fmax(most.forward, fmax(pass.forward, send));
        most.backward = fmax(most.backward, fmax(pass.backward, back ? send : 0));
    }
    return sum + (m - 1) * (most.forward + most.backward);
}

/* A stage that is busy but while the pipeline in front of it fills and drains, and while the first and the last micro-batch
   are on their way to its end and back, beside which it does the passes that it runs ahead. */
static double busy_stage(const pdl__runs_t *r, int64_t s, double front, double behind)
{
    double m = (double)r->c->micro_batches, ahead = fmin(m, (double)(r->c->pipeline - s)) - 1, work = 0;
    pass_t pass = pass_of(r, s);

    for (int64_t k = s; k < r->cut->count; k += r->c->pipeline) work += both(pass_of(r, k));
    if (r->c->virtual_stages > 1) return front + m * work;
    double first = fmax(0, behind - ahead * pass.forward), last = fmax(0, behind - ahead * pass.backward);
    return front + m * work + (m > ahead + 1 ? first + last : fmax(first, last));
}

/* With one pass forward, one backward, n neighbours hand n micro-batches down and up together before the first of them begins
   the next: a chain of such rounds, behind which the rest of the micro-batches takes at least the fastest stage. */
static double rounds(const pdl__runs_t *r, int64_t n, double once, double fastest)
{
    int64_t stages = r->c->pipeline, more = r->c->micro_batches - 1;
    double  window = 0, longest = 0;

    for (int64_t s = 0; s < stages; s++) {
        window += both(pass_of(r, s)) + (s > 0 ? way_s(r, s) : 0);
        if (s >= n) window -= both(pass_of(r, s - n)) + way_s(r, s - n + 1);
        if (s >= n - 1) longest = fmax(longest, window);
    }
    return once + (double)(more / n) * longest + (double)(more % n) * fastest;
}

double pdl__pipeline_seconds(const pdl__runs_t *r)
{
    int64_t stages = r->c->pipeline;
    double  once = 0, front = 0, longest = 0, fastest = INFINITY;
    bool    one_way = r->c->run_mode == PDL_INFERENCE || r->c->schedule == PDL_SCHEDULE_GPIPE;

    if (one_way && r->c->virtual_stages == 1) return one_way_after_the_other(r);
    for (int64_t s = 0; s < stages; s++) {
        double own = both(pass_of(r, s));

        once += own + way_s(r, s);
        fastest = fmin(fastest, own);
    }
    for (int64_t s = 0; s < stages; s++) {
        double own = both(pass_of(r, s));

        longest = fmax(longest, busy_stage(r, s, front, fmax(0, once - front - own)));
        front += own + way_s(r, s + 1);
    }
    for (int64_t n = 2; r->c->virtual_stages == 1; n *= 2) {
        longest = fmax(longest, rounds(r, n < stages ? n : stages, once, fastest));
        if (n >= stages) break;
    }
    return longest;
}

double pdl__pipeline_drain(const pdl__runs_t *r, int64_t stage)
{
    double seconds = 0;

    for (int64_t s = 0; s < stage; s++) seconds += pass_of(r, s).backward + (r->held ? 0 : send_s(r, s + 1));
    return seconds;
}
