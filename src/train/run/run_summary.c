/*
 * What the ranks of a run have to say together at its end: an update and its parts, the busiest of them, how exchanges
 * scatter. All of it is a mean over the same updates and over all ranks, so that the parts sum to the whole: over the
 * middle half of the updates by time, which neither a slow beginning nor other programs disturb.
 */
#include "train/run/run_summary.h"
#include <math.h>
#include <paradl/oracle/replay.h>
#include <stdlib.h>
#include <string.h>

/* Updates that are remembered: of longer runs the latest. */
#define MOST 10000

pdl_status_t pdl__times_create(int64_t updates, pdl__times_t *times)
{
    *times = (pdl__times_t){.capacity = updates < MOST ? updates + 1 : MOST};
    times->update = calloc((size_t)times->capacity, sizeof(*times->update));
    return times->update ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory for the times of updates");
}

void pdl__times_destroy(pdl__times_t *times)
{
    free(times->update);
}

void pdl__times_add(pdl__times_t *times, const pdl_session_t *s, const double before[PDL_OP_CLASS_COUNT],
                    double step_s, double io_s)
{
    pdl__update_times_t *update = &times->update[times->count++ % times->capacity];

    update->step_s = step_s;
    for (int i = 0; i < PDL_OP_CLASS_COUNT; i++) update->class_s[i] = s->observer.class_s[i] - before[i];
    update->class_s[PDL_CLASS_INPUT] = io_s;
}

/* Classes that keep the processor busy. */
static bool is_work(int class)
{
    return !pdl_op_class_waits((pdl_op_class_t) class) && class != PDL_CLASS_INPUT;
}

static double waits_of(const double class_s[PDL_OP_CLASS_COUNT])
{
    double waits_s = 0;

    for (int i = 0; i < PDL_OP_CLASS_COUNT; i++)
        if (pdl_op_class_waits((pdl_op_class_t)i)) waits_s += class_s[i];
    return waits_s;
}

/* The rank with most work; the lowest one where several have the same. */
static pdl_status_t find_busiest(pdl_ranks_t *ranks, double work_s, pdl_train_summary_t *summary)
{
    double       most[1] = {work_s}, lowest[1];
    pdl_status_t status = pdl_ranks_max(ranks, most, 1);

    lowest[0] = work_s >= most[0] ? -(double)pdl_ranks_rank(ranks) : -INFINITY;
    if (!status) status = pdl_ranks_max(ranks, lowest, 1);
    if (status) return status;
    summary->most_work_s = most[0];
    summary->busiest_rank = (int)-lowest[0];
    return PDL_OK;
}

static int compare_steps(const void *a, const void *b)
{
    double x = (*(const pdl__update_times_t *const *)a)->step_s,
           y = (*(const pdl__update_times_t *const *)b)->step_s;

    return (x > y) - (x < y);
}

/* Marks the middle half of the updates, without the first one where there are more than two: it warms caches and pages
   up. */
static pdl_status_t choose(const pdl__times_t *times, char *chosen)
{
    int64_t                     kept = times->count < times->capacity ? times->count : times->capacity, n = 0;
    const pdl__update_times_t **sorted = calloc((size_t)kept + 1, sizeof(*sorted));

    if (!sorted) return pdl_error(PDL_ERR_NOMEM, "out of memory for the times of updates");
    for (int64_t i = times->count > 2 && times->count == kept; i < kept; i++) sorted[n++] = &times->update[i];
    qsort(sorted, (size_t)n, sizeof(*sorted), compare_steps);
    for (int64_t i = n / 4; i < n - n / 4; i++) chosen[sorted[i] - times->update] = 1;
    free(sorted);
    return PDL_OK;
}

enum { STEP = PDL_OP_CLASS_COUNT, LEAST, OPERATIONS, COUNT };

/* Means of this rank over the updates that were chosen. */
static void average(const pdl__times_t *times, const char *chosen, double means[COUNT])
{
    int64_t count = 0;

    means[LEAST] = INFINITY;
    for (int64_t u = 0; u < times->capacity; u++) {
        const pdl__update_times_t *update = &times->update[u];
        if (!chosen[u]) continue;
        count++;
        for (int i = 0; i < PDL_OP_CLASS_COUNT; i++) means[i] += update->class_s[i];
        means[STEP] += update->step_s;
        means[LEAST] = fmin(means[LEAST], waits_of(update->class_s));
    }
    for (int i = 0; i <= STEP && count > 0; i++) means[i] /= (double)count;
    if (count == 0) means[LEAST] = 0;
}

double pdl__work_of(const double class_s[PDL_OP_CLASS_COUNT])
{
    double work_s = 0;

    for (int i = 0; i < PDL_OP_CLASS_COUNT; i++)
        if (is_work(i)) work_s += class_s[i];
    return work_s;
}

pdl_status_t pdl__summarise_times(const pdl__times_t *times, const pdl_session_t *s, pdl_train_summary_t *summary)
{
    pdl_ranks_t *ranks = s->spec.ranks;
    double       means[COUNT] = {0};
    char        *chosen = calloc((size_t)times->capacity, 1);
    pdl_status_t status = chosen ? choose(times, chosen) : pdl_error(PDL_ERR_NOMEM, "out of memory");

    status = pdl_ranks_agree(ranks, status);
    if (!status) status = pdl_ranks_broadcast(ranks, chosen, times->capacity, 0);
    if (!status) average(times, chosen, means);
    free(chosen);
    double work_s = pdl__work_of(means);
    means[OPERATIONS] = s->program ? s->program->op_count : 0;
    if (!status) status = pdl_ranks_sum(ranks, means, COUNT);
    if (!status) status = find_busiest(ranks, work_s, summary);
    if (status) return status;
    for (int i = 0; i < COUNT; i++) means[i] /= (double)pdl_ranks_size(ranks);
    for (int i = 0; i < PDL_OP_CLASS_COUNT; i++) summary->class_s[i] = means[i];
    summary->step_s = means[STEP];
    summary->work_s = pdl__work_of(means);
    summary->comm_s = waits_of(means);
    summary->copies = s->observer.copies;
    summary->io_s = means[PDL_CLASS_INPUT];
    summary->least_comm_s = means[LEAST];
    summary->operations = means[OPERATIONS];
    return PDL_OK;
}

void pdl__summarise_epoch(const double sums[3], const pdl_score_t *score, pdl_train_epoch_t *epoch)
{
    if (sums[2] > 0) {
        epoch->train_loss = sums[0] / sums[2];
        epoch->train_accuracy = sums[1] / sums[2];
    }
    if (!score) return;
    epoch->validated = true;
    epoch->valid_loss = score->loss;
    epoch->valid_accuracy = score->accuracy;
    epoch->valid_s = score->seconds;
}

void pdl__report_epoch(const pdl_train_observer_t *observer, double sums[3], const pdl_score_t *score,
                       pdl_train_epoch_t *epoch, pdl_train_summary_t *summary)
{
    bool stopped = score && score->stopped;

    pdl__summarise_epoch(sums, stopped ? NULL : score, epoch);
    memset(sums, 0, 3 * sizeof(*sums));
    summary->stopped |= stopped;
    summary->last = *epoch;
    if (observer->on_epoch) observer->on_epoch(observer->context, epoch);
}

/* Ranks may hold different parts. */
pdl_status_t pdl__summarise_memory(const pdl_session_t *s, pdl_ranks_t *ranks, pdl_train_summary_t *summary)
{
    summary->exchange_count = pdl_session_exchanges(s, summary->exchange);
    summary->transport = pdl_session_transport(s);
    summary->turns = pdl_session_turns(s);
    summary->replayed = pdl_session_replayed(s);
    pdl_session_memory(s, &summary->memory);
    summary->most_memory_bytes = (double)summary->memory.total;
    return pdl_ranks_max(ranks, &summary->most_memory_bytes, 1);
}
