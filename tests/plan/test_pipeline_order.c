/*
 * The order of a pipeline's passes: every pass once, forward before backward, no circle of waiting, and as many
 * micro-batches in flight as the memory model counts.
 */
#include "test.h"

#include <paradl/plan/pipeline.h>

#include <stdlib.h>

static pdl_pipeline_op_t *order(const pdl_pipeline_t *p, int stage)
{
    pdl_pipeline_op_t *ops = malloc((size_t)pdl_pipeline_op_count(p) * sizeof(*ops));

    if (ops == NULL) abort();
    pdl_pipeline_order(p, stage, ops);
    return ops;
}

/* Index of a pass in a table of all passes of a pipeline. */
static size_t slot(const pdl_pipeline_t *p, int kind, int stage, int chunk, int64_t micro_batch)
{
    return ((size_t)(kind * p->stages + stage) * (size_t)p->chunks + (size_t)chunk) * (size_t)p->micro_batches +
           (size_t)micro_batch;
}

enum { FORWARD, BACKWARD, WEIGHTS, KINDS };

static int kind_of(const pdl_pipeline_op_t *op)
{
    return op->gradients == PDL_GRADIENTS_OF_WEIGHTS ? WEIGHTS : op->backward ? BACKWARD : FORWARD;
}

static bool ready(const pdl_pipeline_t *p, const char *done, int stage, const pdl_pipeline_op_t *op)
{
    int from, chunk;

    if (kind_of(op) == WEIGHTS) return done[slot(p, BACKWARD, stage, op->chunk, op->micro_batch)];
    if (op->backward && !done[slot(p, FORWARD, stage, op->chunk, op->micro_batch)]) return false;
    if (!pdl_pipeline_source(p, stage, op, &from, &chunk)) return true;
    return done[slot(p, kind_of(op), from, chunk, op->micro_batch)];
}

/* Lets all stages follow their lists; true when every pass is done once. */
static bool completes(const pdl_pipeline_t *p)
{
    int64_t             count = pdl_pipeline_op_count(p), left = count * p->stages;
    char               *done = calloc((size_t)(KINDS * p->stages * p->chunks) * (size_t)p->micro_batches, 1);
    int64_t            *at = calloc((size_t)p->stages, sizeof(*at));
    pdl_pipeline_op_t **ops = calloc((size_t)p->stages, sizeof(pdl_pipeline_op_t *));
    bool                moved = true, twice = false;

    if (done == NULL || at == NULL || ops == NULL) abort();
    for (int s = 0; s < p->stages; s++) ops[s] = order(p, s);
    while (moved && left > 0) {
        moved = false;
        for (int s = 0; s < p->stages; s++)
            for (; at[s] < count && ready(p, done, s, &ops[s][at[s]]); at[s]++, left--) {
                const pdl_pipeline_op_t *op = &ops[s][at[s]];
                char                    *mark = &done[slot(p, kind_of(op), s, op->chunk, op->micro_batch)];
                twice |= *mark != 0;
                *mark = 1;
                moved = true;
            }
    }
    for (int s = 0; s < p->stages; s++) free(ops[s]);
    free(ops);
    free(at);
    free(done);
    return left == 0 && !twice;
}

static void every_pass_once_and_no_circle(void)
{
    for (int schedule = 0; schedule < PDL_SCHEDULE_COUNT; schedule++)
        for (int stages = 1; stages <= 7; stages++)
            for (int chunks = 1; chunks <= (schedule == PDL_SCHEDULE_INTERLEAVED ? 4 : 1); chunks++)
                for (int64_t m = 1; m <= 17; m++)
                    for (int training = 0; training < 2; training++) {
                        pdl_pipeline_t p = {(pdl_pipeline_schedule_t)schedule, stages, chunks, m, training != 0};

                        if (completes(&p)) continue;
                        printf("%s, %d stages of %d chunks, %lld micro-batches\n", pdl_schedule_names[schedule],
                               stages, chunks, (long long)m);
                        CHECK(false);
                    }
}

static int64_t in_flight(pdl_pipeline_schedule_t schedule, int stages, int chunks, int64_t m, int stage)
{
    pdl_pipeline_t     p = {schedule, stages, chunks, m, true};
    pdl_pipeline_op_t *ops = order(&p, stage);
    int64_t            most = pdl_pipeline_in_flight(ops, pdl_pipeline_op_count(&p));

    free(ops);
    return most;
}

/* GPipe keeps all micro-batches, 1F1B as many as there are stages from here on; interleaved, the first stage keeps
   (stages - 1) / chunks more. Zero-bubble keeps in every stage what 1F1B keeps in the first. */
static void as_many_in_flight_as_memory_counts(void)
{
    for (int stages = 2; stages <= 6; stages++)
        for (int64_t m = 1; m <= 24; m++) {
            for (int s = 0; s < stages; s++) {
                int64_t depth = stages - s;

                CHECK_INT(in_flight(PDL_SCHEDULE_GPIPE, stages, 1, m, s), m);
                CHECK_INT(in_flight(PDL_SCHEDULE_1F1B, stages, 1, m, s), m < depth ? m : depth);
                CHECK_INT(in_flight(PDL_SCHEDULE_INTERLEAVED, stages, 1, m, s), m < depth ? m : depth);
                CHECK_INT(in_flight(PDL_SCHEDULE_ZERO_BUBBLE, stages, 1, m, s), m < stages ? m : stages);
            }
            for (int chunks = 2; chunks <= 4; chunks++) {
                int64_t most = (int64_t)stages * chunks + stages - 1, all = m * chunks;
                int64_t found = in_flight(PDL_SCHEDULE_INTERLEAVED, stages, chunks, m, 0);

                CHECK(found <= (all < most ? all : most));
                if (m % stages == 0) CHECK_INT(found, all < most ? all : most);
            }
        }
}

static void neighbours_go_round(void)
{
    pdl_pipeline_t    p = {PDL_SCHEDULE_INTERLEAVED, 4, 2, 8, true};
    pdl_pipeline_op_t first = {.chunk = 0}, second = {.chunk = 1}, back = {.backward = true};
    int               stage = -1, chunk = -1;

    CHECK(!pdl_pipeline_source(&p, 0, &first, &stage, &chunk));
    CHECK(pdl_pipeline_target(&p, 3, &first, &stage, &chunk) && stage == 0 && chunk == 1);
    CHECK(pdl_pipeline_source(&p, 0, &second, &stage, &chunk) && stage == 3 && chunk == 0);
    CHECK(!pdl_pipeline_target(&p, 3, &second, &stage, &chunk));
    CHECK(pdl_pipeline_source(&p, 3, &back, &stage, &chunk) && stage == 0 && chunk == 1);
    CHECK(!pdl_pipeline_target(&p, 0, &back, &stage, &chunk));
}

int main(void)
{
    RUN(every_pass_once_and_no_circle);
    RUN(as_many_in_flight_as_memory_counts);
    RUN(neighbours_go_round);
    return test_done();
}
