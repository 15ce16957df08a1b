/*
 * Time is stretched where more ranks compute than their prices assume, and shortened where fewer do. The order of operations stays.
 */
#include "oracle/project/turns.h"
#include <stdlib.h>

/* Where so many ranks begin to compute, or end (-1). */
typedef struct moment {
    double at_s;
    int    change;
} moment_t;

/* From `from_s` on, which becomes `to_s`, until the next one. */
typedef struct span {
    double from_s, to_s, rate;
} span_t;

static int compare_moments(const void *a, const void *b)
{
    const moment_t *x = a, *y = b;

    return (x->at_s > y->at_s) - (x->at_s < y->at_s);
}

static int list_moments(const pdl_replay_rank_t *ranks, int count, moment_t *moments)
{
    int n = 0;

    for (int k = 0; k < count; k++)
        for (int i = 0; i < ranks[k].program->op_count; i++) {
            if (ranks[k].program->op[i].stream != PDL_STREAM_COMPUTE || ranks[k].end_s[i] <= ranks[k].start_s[i])
                continue;
            moments[n++] = (moment_t){ranks[k].start_s[i], 1};
            moments[n++] = (moment_t){ranks[k].end_s[i], -1};
        }
    qsort(moments, (size_t)n, sizeof(*moments), compare_moments);
    return n;
}

/* One from the beginning on, and one behind every moment. */
static void list_spans(const double *rate, const moment_t *moments, int n, span_t *spans)
{
    int active = 0;

    spans[0] = (span_t){0, 0, rate[0]};
    for (int i = 0; i < n; i++) {
        const span_t *before = &spans[i];
        double        at_s = moments[i].at_s;

        active += moments[i].change;
        spans[i + 1] = (span_t){at_s, before->to_s + before->rate * (at_s - before->from_s), rate[active]};
    }
}

static double moved(const span_t *spans, int n, double at_s)
{
    int low = 0, high = n;

    while (low < high) {
        int middle = (low + high + 1) / 2;

        if (spans[middle].from_s <= at_s)
            low = middle;
        else
            high = middle - 1;
    }
    return spans[low].to_s + spans[low].rate * (at_s - spans[low].from_s);
}

pdl_status_t pdl__have_turns(const double *rate, pdl_replay_rank_t *ranks, int count, double *total_s)
{
    size_t ops = 0;

    for (int k = 0; k < count; k++) ops += (size_t)ranks[k].program->op_count;
    moment_t *moments = malloc((2 * ops + 1) * sizeof(*moments));
    span_t   *spans = malloc((2 * ops + 1) * sizeof(*spans));
    bool      there = moments != NULL && spans != NULL;

    if (there) {
        int n = list_moments(ranks, count, moments);

        list_spans(rate, moments, n, spans);
        for (int k = 0; k < count; k++)
            for (int i = 0; i < ranks[k].program->op_count; i++) {
                ranks[k].start_s[i] = moved(spans, n, ranks[k].start_s[i]);
                ranks[k].end_s[i] = moved(spans, n, ranks[k].end_s[i]);
            }
        *total_s = moved(spans, n, *total_s);
    }
    free(moments);
    free(spans);
    return there ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory for a timeline");
}
