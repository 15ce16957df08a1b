/*
 * How much of a vector a rank sends. Steps are gone through once: how often every block is sent does not depend on its size.
 * Most blocks are sent equally often, so that only the others are looked at for a vector.
 */
#include "base/memory.h"
#include "coll/internal.h"

#include <stdlib.h>

/* Blocks one after the other that are sent `more` times than most are. */
typedef struct run {
    int64_t first, count, more;
} run_t;

struct pdl_sends {
    int      ranks;
    int64_t  blocks, share, common; /* blocks of a rank; times that most blocks are sent */
    run_t   *run;
    int64_t  run_count;
    int64_t *place; /* in parts: of every block, owner * share + its number among those of the owner; else NULL */
};

static pdl_status_t no_memory(void)
{
    return pdl__no_memory("for the plan of a collective");
}

/* Differences from block to block of how often they are sent. */
static pdl_status_t count_times(const pdl_schedule_t *schedule, int rank, int64_t *change)
{
    int64_t      blocks = pdl_schedule_blocks(schedule);
    pdl_moves_t *moves = malloc(sizeof(*moves));

    if (moves == NULL) return no_memory();
    for (int s = 0; s < pdl_schedule_steps(schedule); s++) {
        pdl_schedule_sends(schedule, s, rank, moves);
        for (int i = 0; i < moves->range_count; i++) {
            int64_t first = moves->range[i].first % blocks, end = first + moves->range[i].count;
            for (; end > blocks; end -= blocks) {
                change[first]++;
                change[blocks]--;
                first = 0;
            }
            change[first]++;
            change[end]--;
        }
    }
    free(moves);
    return PDL_OK;
}

/* Runs of equal times, less those of the longest one, which are left out. */
static pdl_status_t find_runs(pdl_sends_t *s, const int64_t *change)
{
    int64_t times = 0, longest = 0;

    s->run = malloc((size_t)s->blocks * sizeof(*s->run));
    if (s->run == NULL) return no_memory();
    for (int64_t b = 0; b < s->blocks; b++) {
        times += change[b];
        if (b == 0 || change[b] != 0) s->run[s->run_count++] = (run_t){b, 0, times};
        run_t *run = &s->run[s->run_count - 1];
        if (++run->count > longest) {
            longest = run->count;
            s->common = run->more;
        }
    }
    int64_t kept = 0;
    for (int64_t k = 0; k < s->run_count; k++) {
        s->run[kept] = s->run[k];
        s->run[kept].more -= s->common;
        kept += s->run[kept].more != 0;
    }
    s->run_count = kept;
    return PDL_OK;
}

/* Where the blocks of all ranks are; false if ranks do not have equally many. */
static bool place_blocks(const pdl_schedule_t *schedule, pdl_sends_t *s, pdl_moves_t *owned)
{
    for (int64_t b = 0; b < s->blocks; b++) s->place[b] = -1;
    for (int r = 0; r < s->ranks; r++) {
        int64_t j = 0;
        pdl_schedule_owned(schedule, r, owned);
        for (int i = 0; i < owned->range_count; i++)
            for (int64_t k = 0; k < owned->range[i].count; k++, j++) {
                int64_t *place = &s->place[(owned->range[i].first + k) % s->blocks];
                if (j >= s->share || *place >= 0) return false;
                *place = r * s->share + j;
            }
        if (j != s->share) return false;
    }
    return true;
}

static pdl_status_t find_places(const pdl_schedule_t *schedule, pdl_sends_t *s)
{
    pdl_moves_t *owned = malloc(sizeof(*owned));
    pdl_status_t status = PDL_OK;

    s->share = s->blocks / s->ranks;
    s->place = malloc((size_t)s->blocks * sizeof(*s->place));
    if (owned == NULL || s->place == NULL)
        status = no_memory();
    else if (s->blocks % s->ranks != 0 || !place_blocks(schedule, s, owned))
        status = pdl__unequal_parts(schedule);
    free(owned);
    return status;
}

pdl_status_t pdl_sends_create(const pdl_schedule_t *schedule, int rank, pdl_sends_t **out)
{
    pdl_collective_t collective = pdl_schedule_collective(schedule);
    int64_t          blocks = pdl_schedule_blocks(schedule);
    pdl_sends_t     *s = calloc(1, sizeof(*s));
    int64_t         *change = calloc((size_t)blocks + 1, sizeof(*change));
    pdl_status_t     status = s != NULL && change != NULL ? PDL_OK : no_memory();

    if (!status) {
        s->ranks = pdl_schedule_ranks(schedule);
        s->blocks = blocks;
        status = count_times(schedule, rank, change);
    }
    if (!status) status = find_runs(s, change);
    if (!status && (collective == PDL_COLL_REDUCE_SCATTER || collective == PDL_COLL_ALLGATHER))
        status = find_places(schedule, s);
    free(change);
    if (status) {
        pdl_sends_destroy(s);
        return status;
    }
    *out = s;
    return PDL_OK;
}

void pdl_sends_destroy(pdl_sends_t *s)
{
    if (s == NULL) return;
    free(s->run);
    free(s->place);
    free(s);
}

static int64_t block_elements(int64_t block, int64_t blocks, int64_t elements)
{
    return pdl__first_element(block + 1, blocks, elements) - pdl__first_element(block, blocks, elements);
}

int64_t pdl_sends_elements(const pdl_sends_t *s, int64_t elements, pdl_part_fn_t part, const void *context)
{
    int64_t sent = s->common * elements;

    for (int64_t k = 0; k < s->run_count; k++) {
        const run_t *run = &s->run[k];
        int64_t      end = run->first + run->count, held = 0;
        if (s->place == NULL)
            held =
                pdl__first_element(end, s->blocks, elements) - pdl__first_element(run->first, s->blocks, elements);
        for (int64_t b = run->first; b < end && s->place != NULL; b++) {
            int     owner = (int)(s->place[b] / s->share);
            int64_t all = part != NULL ? part(context, owner) : block_elements(owner, s->ranks, elements);
            held += block_elements(s->place[b] % s->share, s->share, all);
        }
        sent += run->more * held;
    }
    return sent;
}
