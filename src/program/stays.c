/*
 * During which operations whole buckets of weights and gradients are on the device.
 */
#include "program/walk.h"

bool pdl__update_uses_weights(const pdl_program_op_t *op)
{
    return op->kind == PDL_OP_FORWARD || op->kind == PDL_OP_RECOMPUTE || op->kind == PDL_OP_BACKWARD ||
           op->kind == PDL_OP_DGRAD || op->kind == PDL_OP_WGRAD;
}

bool pdl__update_makes_gradients(const pdl_program_op_t *op)
{
    return op->kind == PDL_OP_BACKWARD || op->kind == PDL_OP_WGRAD;
}

int pdl__update_uses(const pdl__update_walk_t *w, const pdl_program_op_t *op, const int **use)
{
    if (op->node < 0 || w->update == NULL) return 0;
    *use = w->update->use + w->update->first_use[op->node];
    return w->update->first_use[op->node + 1] - w->update->first_use[op->node];
}

int pdl__update_passing(const pdl__update_walk_t *w, int weight, bool of_weights)
{
    int bucket = w->bucket_of[weight];

    if (of_weights ? w->update->weights_pass : w->update->gradients_pass) return bucket;
    if (w->update->sharding < (of_weights ? PDL_SHARDING_ZERO3 : PDL_SHARDING_ZERO2)) return -1;
    return bucket >= 0 && w->update->bucket[bucket].sharded != 0 ? bucket : -1;
}

static pdl_status_t add_stay(pdl__update_walk_t *w, pdl__stays_t *stays, int bucket, int op)
{
    pdl_status_t status =
        pdl__program_grow((void **)&stays->stay, stays->count, &stays->capacity, sizeof(*stays->stay));

    if (status) return status;
    stays->latest[bucket] = stays->count;
    stays->stay[stays->count++] =
        (pdl__stay_t){.bucket = bucket, .buffer = -1, .begin = op, .first = op, .last = op, .end = w->op_count};
    return PDL_OK;
}

/* Sets of axes take turns, so the latest bucket of each is still there. What is on the host is far: one more is. */
static int count_sets(const pdl_program_update_t *update)
{
    int sets = 0;

    for (int b = 0; b < update->bucket_count; b++) {
        bool first = b == 0 || update->bucket[b].set != update->bucket[b - 1].set;
        sets += first && (update->weights_pass || update->bucket[b].sharded != 0);
    }
    return sets + update->weights_pass;
}

/* Weights: a bucket comes when it is needed and is not there any more, while the one before it is in use. */
pdl_status_t pdl__update_find_weights(pdl__update_walk_t *w)
{
    pdl__stays_t *stays = &w->weights;
    int           recent = count_sets(w->update);
    pdl_status_t  status = PDL_OK;

    for (int i = 0; i < w->op_count && !status; i++) {
        const int *use;
        int        uses = pdl__update_uses_weights(&w->op[i]) ? pdl__update_uses(w, &w->op[i], &use) : 0;
        for (int k = 0; k < uses && !status; k++) {
            int bucket = pdl__update_passing(w, use[k], true), latest = bucket < 0 ? -1 : stays->latest[bucket];
            if (bucket < 0) continue;
            if (latest < 0 || latest + recent < stays->count)
                status = add_stay(w, stays, bucket, i);
            else
                stays->stay[latest].last = i;
        }
    }
    for (int j = 0; j < stays->count; j++) stays->stay[j].begin = j > 0 ? stays->stay[j - 1].first : 0;
    return status;
}

/* Every weight of a bucket has its gradient, of as many micro-batches as the others. */
static bool is_complete(const pdl__update_walk_t *w, int bucket)
{
    int rounds = -1;

    for (int i = w->update->bucket[bucket].first; i < w->update->bucket[bucket].last; i++) {
        int each = w->users[i] / w->builder->options->micro_batches;
        if (each == 0) continue;
        if (rounds < 0) rounds = w->made[i] / each;
        if (w->made[i] != rounds * each) return false;
    }
    return true;
}

/* Gradients that come and go: a bucket opens with the first that is written, and is exchanged when it is complete. */
static pdl_status_t see_backward(pdl__update_walk_t *w, int i)
{
    pdl__stays_t *stays = &w->gradients;
    const int    *use;
    int           uses = pdl__update_uses(w, &w->op[i], &use);
    pdl_status_t  status = PDL_OK;

    for (int k = 0; k < uses && !status; k++) {
        int bucket = pdl__update_passing(w, use[k], false);
        w->made[use[k]]++;
        if (bucket < 0) continue;
        if (stays->latest[bucket] < 0) status = add_stay(w, stays, bucket, i);
        if (!status) stays->stay[stays->latest[bucket]].last = i;
    }
    for (int k = 0; k < uses && !status; k++) {
        int bucket = pdl__update_passing(w, use[k], false);
        if (bucket >= 0 && is_complete(w, bucket)) stays->latest[bucket] = -1;
    }
    return status;
}

/* The sum of a bucket has arrived before the second one after it opens, and before it opens again itself. */
static void end_stays(pdl__stays_t *stays)
{
    for (int j = 0; j < stays->count; j++) {
        pdl__stay_t *stay = &stays->stay[j];
        int          later = 0;
        for (int m = j + 1; m < stays->count && later < 2; m++) {
            const pdl__stay_t *next = &stays->stay[m];
            if (next->begin <= stay->last) continue;
            later = next->bucket == stay->bucket ? 2 : later + 1;
            if (later == 2) stay->end = next->begin;
        }
    }
}

pdl_status_t pdl__update_find_gradients(pdl__update_walk_t *w)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < w->op_count; i++) {
        const int *use;
        int        uses = pdl__update_makes_gradients(&w->op[i]) ? pdl__update_uses(w, &w->op[i], &use) : 0;
        for (int k = 0; k < uses; k++) {
            w->users[use[k]]++;
            if (w->bucket_of[use[k]] >= 0) w->last[w->bucket_of[use[k]]] = i;
        }
    }
    for (int i = 0; i < w->op_count && !status; i++)
        if (pdl__update_makes_gradients(&w->op[i])) status = see_backward(w, i);
    end_stays(&w->gradients);
    return status;
}
