/*
 * What the ranks of a run have to say together at its end: work by class, the busiest of them, how exchanges scatter.
 */
#include "train/session.h"
#include <math.h>

/* Classes that keep the processor busy. */
static bool is_work(int class)
{
    return class != PDL_CLASS_MOVE && class != PDL_CLASS_GRADIENT && class != PDL_CLASS_INPUT;
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

pdl_status_t pdl__summarise_ranks(const pdl_session_t *s, const double before[PDL_OP_CLASS_COUNT],
                                  const double *comm_s, int64_t updates, pdl_train_summary_t *summary)
{
    enum { WORK = PDL_OP_CLASS_COUNT, MEAN, LEAST, OPERATIONS, COUNT };
    double       sums[COUNT] = {0};
    pdl_ranks_t *ranks = s->spec.ranks;
    double       count = fmax(1, (double)updates);

    for (int i = 0; i < PDL_OP_CLASS_COUNT; i++) {
        sums[i] = (s->class_s[i] - before[i]) / count;
        if (is_work(i)) sums[WORK] += sums[i];
    }
    sums[LEAST] = updates > 0 ? comm_s[0] : 0;
    for (int64_t i = 0; i < updates; i++) {
        sums[MEAN] += comm_s[i] / count;
        sums[LEAST] = fmin(sums[LEAST], comm_s[i]);
    }
    sums[OPERATIONS] = s->tape ? s->tape->op_count : 0;
    double       work_s = sums[WORK];
    pdl_status_t status = pdl_ranks_sum(ranks, sums, COUNT);
    if (!status) status = find_busiest(ranks, work_s, summary);
    if (status) return status;
    for (int i = 0; i < COUNT; i++) sums[i] /= (double)pdl_ranks_size(ranks);
    for (int i = 0; i < PDL_OP_CLASS_COUNT; i++) summary->class_s[i] = sums[i];
    summary->work_s = sums[WORK];
    summary->mean_comm_s = sums[MEAN];
    summary->least_comm_s = sums[LEAST];
    summary->operations = sums[OPERATIONS];
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

/* Ranks may hold different parts. */
pdl_status_t pdl__summarise_memory(const pdl_session_t *s, pdl_ranks_t *ranks, pdl_train_summary_t *summary)
{
    pdl_session_memory(s, &summary->memory);
    summary->most_memory_bytes = (double)summary->memory.total;
    return pdl_ranks_max(ranks, &summary->most_memory_bytes, 1);
}
