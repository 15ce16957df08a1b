/*
 * phi of the messages of a mesh axis, by counting the messages on the busiest link.
 *
 * Why counting is enough: all messages of a step are equally large. The link with the most messages per capacity
 * gives its messages the smallest fair share of all, and keeps doing so until they end, because completions
 * elsewhere only empty other links. So they end exactly at (messages / capacity), and nothing ends later.
 *
 * Why it is quick: devices are numbered along the tree, and a pattern is two shifts: rank k of a group on device x sends
 * to x + d for all k of a range. Groups of the machine in which no such range begins or ends all look alike, and so
 * do those at the same place in repeating blocks of size * stride devices. One of each kind is counted.
 */
#include "base/integer.h"
#include "topo/contention/network.h"

#include <paradl/topo/contention.h>

#include <math.h>
#include <stdlib.h>

/* devices base + first .. base + last - 1 of every block have messages with their peer `shift` devices further. */
typedef struct shift {
    int64_t first, last, shift;
} shift_t;

typedef struct pattern {
    int64_t block; /* devices of `stride` interleaved groups */
    int64_t stride;
    int64_t full_blocks; /* blocks in which all groups are active, and ... */
    int64_t partial;     /* ... how many groups are in the one after, in which not all are */
    int64_t extent;      /* devices from the first to the last active block */
    int     most_per_pe; /* messages a device sends or receives at most */
    shift_t shift[2];    /* of the senders; the receivers' is the mirror image */
} pattern_t;

typedef struct counter {
    const pdl__tree_t *tree;
    pattern_t          pattern; /* as senders or as receivers see it */
    int                level;
    int64_t           *count, *stamp; /* messages on link q of the span that was counted at that stamp */
    int64_t            now;
    int64_t            busiest;
    bool               all_cross; /* pretend that every message crosses every level, for an upper bound */
    bool               saturated; /* a span was seen in which every device has all its messages on this level */
} counter_t;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void add_message(counter_t *counter, int64_t link)
{
    if (counter->stamp[link] != counter->now) {
        counter->stamp[link] = counter->now;
        counter->count[link] = 0;
    }
    counter->count[link]++;
    counter->busiest = max64(counter->busiest, counter->count[link]);
}

/* Moves the walk over devices without active groups. */
static void skip(pdl__walk_t *walk, const pdl__tree_t *tree, int level, int64_t to, int64_t distance)
{
    if (distance > 16)
        pdl__walk_init(walk, tree, level, to);
    else
        while (distance-- > 0) pdl__walk_next(walk);
}

/* Counts devices [from, to) of one block; returns how many of them are active. */
static int64_t count_range(counter_t *counter, int64_t from, int64_t to, int64_t shift, int64_t block)
{
    const pattern_t   *pattern = &counter->pattern;
    const pdl__tree_t *tree = counter->tree;
    bool               own_links = counter->level == 0 && !tree->level[0].shared;
    int64_t            offset = (from - block * pattern->block) % pattern->stride, active = 0;
    int64_t            width = block < pattern->full_blocks ? pattern->stride : pattern->partial;
    pdl__walk_t        walk;

    pdl__walk_init(&walk, tree, counter->level, from);
    for (int64_t pe = from; pe < to;) {
        int64_t idle = offset < width ? 0 : pattern->stride - offset;
        if (idle > 0) {
            pe += idle;
            offset = 0;
            skip(&walk, tree, counter->level, pe, idle);
            continue;
        }
        add_message(counter, own_links ? pdl__tree_link(tree, 0, pe, pe + shift) : pdl__walk_link(&walk));
        active++;
        pe++;
        if (++offset == pattern->stride) offset = 0;
        pdl__walk_next(&walk);
    }
    return active;
}

/* Counts the messages of one shift that cross the boundary of one child of the level. */
static int64_t count_child(counter_t *counter, int64_t child_first, const shift_t *shift)
{
    const pattern_t *pattern = &counter->pattern;
    int64_t          size = counter->tree->level[counter->level].child, active = 0;
    int64_t          from = child_first, to = child_first + size;

    /* Only devices closer to the boundary than the shift have their peer on the other side. */
    if (!counter->all_cross) {
        if (shift->shift > 0)
            from = max64(from, to - min64(size, shift->shift));
        else
            to = min64(to, from + min64(size, -shift->shift));
    }
    to = min64(to, pattern->extent);
    if (from >= to) return 0;
    for (int64_t block = from / pattern->block; block <= (to - 1) / pattern->block; block++) {
        int64_t base = block * pattern->block;
        int64_t first = max64(from, base + shift->first), last = min64(to, base + shift->last);
        if (first < last) active += count_range(counter, first, last, shift->shift, block);
    }
    return active;
}

static void count_span(counter_t *counter, int64_t index)
{
    const pdl__tree_level_t *level = &counter->tree->level[counter->level];
    int64_t                  first = index * level->span, active = 0;

    counter->now++;
    for (int64_t child = first; child < min64(first + level->span, counter->pattern.extent); child += level->child)
        for (int s = 0; s < 2; s++) active += count_child(counter, child, &counter->pattern.shift[s]);
    if (active == level->span * counter->pattern.most_per_pe) counter->saturated = true;
}

/* The places of a block where a range begins or ends, in order. */
static int list_events(const pattern_t *pattern, int64_t events[6])
{
    int count = 0;

    events[count++] = 0;
    events[count++] = pattern->block;
    for (int s = 0; s < 2; s++) {
        events[count++] = pattern->shift[s].first;
        events[count++] = pattern->shift[s].last;
    }
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && events[j] < events[j - 1]; j--) {
            int64_t swap = events[j];
            events[j] = events[j - 1];
            events[j - 1] = swap;
        }
    return count;
}

static void count_spans(counter_t *counter, int64_t first, int64_t last)
{
    for (int64_t index = first; index <= last && !counter->saturated; index++) count_span(counter, index);
}

/* Where few of many interleaved groups are active, the active devices are in runs of `partial` every `stride`. Counts
   the first two spans of runs at different places in their spans; if there are more, the second is full. */
static void count_runs(counter_t *counter, int64_t base, int64_t from, int64_t to)
{
    const pattern_t *pattern = &counter->pattern;
    int64_t          span = counter->tree->level[counter->level].span,
            kinds = span / pdl__common_divisor(pattern->stride, span);
    int64_t rank = (from - base + pattern->stride - 1) / pattern->stride;

    for (int64_t i = 0; i < kinds; i++) {
        int64_t run = base + (rank + i) * pattern->stride, end = min64(run + pattern->partial, to);
        if (run >= to) break;
        int64_t first = run / span, last = (end - 1) / span;
        count_spans(counter, first, min64(first + 1, last));
    }
}

/* In blocks larger than a span: the spans at the events of the block and one of each kind between them. The span at
   the end of an interval is the first of the next one, or has fewer messages than one inside. */
static void count_block(counter_t *counter, int64_t block)
{
    const pattern_t *pattern = &counter->pattern;
    int64_t          span = counter->tree->level[counter->level].span, base = block * pattern->block;
    bool             partial = block >= pattern->full_blocks;
    int64_t          kinds = 1, events[6];
    int              count = list_events(pattern, events);

    /* Where only some of the interleaved groups are active, spans differ by their place in the interleaving. */
    if (partial) kinds = pattern->stride < span ? pattern->stride / pdl__common_divisor(pattern->stride, span) : 0;
    for (int i = 0; i + 1 < count && !counter->saturated; i++) {
        if (events[i] == events[i + 1]) continue;
        int64_t from = base + events[i], to = base + events[i + 1];
        int64_t first = from / span, last = (to - 1) / span;
        count_spans(counter, first, min64(first + kinds, last));
        if (partial && pattern->stride >= span) count_runs(counter, base, from, to);
    }
}

/* The messages on the busiest link of a level. Blocks at the same place in their spans load them alike, except the
   last block, which may have fewer groups active: an earlier one at the same place shows at least its load. */
static void count_level(counter_t *counter, int level)
{
    const pattern_t *pattern = &counter->pattern;
    int64_t          span = counter->tree->level[level].span;
    int64_t          common = pdl__common_divisor(pattern->block, span);

    counter->level = level;
    counter->busiest = 0;
    counter->saturated = false;
    if (pattern->block >= span) {
        int64_t blocks = pattern->full_blocks + (pattern->partial > 0), kinds = min64(blocks, span / common);
        for (int64_t b = 0; b < kinds && !counter->saturated; b++) count_block(counter, b);
    } else {
        int64_t spans = (pattern->extent + span - 1) / span, kinds = min64(spans, pattern->block / common);
        for (int64_t i = 0; i < kinds && !counter->saturated; i++) count_span(counter, i);
    }
}

static void mirror(pattern_t *pattern)
{
    for (int s = 0; s < 2; s++) {
        shift_t *shift = &pattern->shift[s];
        *shift = (shift_t){shift->first + shift->shift, shift->last + shift->shift, -shift->shift};
    }
}

/* Raises `busiest` to the loads of all levels, save those that have reached their bound (NULL: unknown) already. */
static void count_pattern(counter_t *counter, const int64_t *bound, int64_t busiest[PDL_MAX_LEVELS])
{
    for (int direction = 0; direction < 2; direction++) {
        for (int l = 0; l < counter->tree->level_count; l++) {
            if (bound != NULL && busiest[l] >= bound[l]) continue;
            count_level(counter, l);
            busiest[l] = max64(busiest[l], counter->busiest);
        }
        mirror(&counter->pattern);
    }
}

/* Rank i sends to i + step around the group: up to the end with one shift, around it with the other. */
static void set_rotation(pattern_t *pattern, int64_t step)
{
    int64_t turn = pattern->block - step * pattern->stride;

    pattern->most_per_pe = 1;
    pattern->shift[0] = (shift_t){0, turn, step * pattern->stride};
    pattern->shift[1] = (shift_t){turn, pattern->block, -turn};
}

static void count_step(counter_t *counter, int64_t step, const int64_t *bound, int64_t busiest[PDL_MAX_LEVELS])
{
    set_rotation(&counter->pattern, step);
    count_pattern(counter, bound, busiest);
}

/* The middle step makes messages cross as many levels as any, and most often loads them as far as is possible;
   further steps matter only where groups of ranks and of the machine overlap in part. */
static void count_pairwise(counter_t *counter, int64_t size, int64_t busiest[PDL_MAX_LEVELS])
{
    int64_t bound[PDL_MAX_LEVELS] = {0};
    bool    open = false;

    count_step(counter, size / 2, NULL, busiest);
    counter->all_cross = true;
    count_step(counter, size / 2, NULL, bound);
    counter->all_cross = false;
    for (int l = 0; l < counter->tree->level_count; l++) {
        if (busiest[l] == 0) bound[l] = 0;
        open |= busiest[l] < bound[l];
    }
    if (open && size <= 128) {
        for (int64_t step = 1; step < size; step++) count_step(counter, step, bound, busiest);
        return;
    }
    for (int l = 0; open && l < counter->tree->level_count; l++) {
        int64_t step = (counter->tree->level[l].span + counter->pattern.stride - 1) / counter->pattern.stride;
        if (step >= size) break;
        count_step(counter, step, bound, busiest);
        count_step(counter, size - step, bound, busiest);
    }
}

static void count_query(counter_t *counter, const pdl_contention_query_t *query, int64_t busiest[PDL_MAX_LEVELS])
{
    pattern_t *pattern = &counter->pattern;
    int64_t    groups = query->pe_count / query->size, active = groups;

    if (query->concurrent > 0) active = min64(groups, query->concurrent);
    pattern->stride = query->stride;
    pattern->block = query->size * query->stride;
    pattern->full_blocks = active / query->stride;
    pattern->partial = active % query->stride;
    pattern->extent = (pattern->full_blocks + (pattern->partial > 0)) * pattern->block;
    switch (query->pattern) {
    case PDL_PATTERN_PAIRWISE: count_pairwise(counter, query->size, busiest); break;
    case PDL_PATTERN_RING:
        set_rotation(pattern, 1);
        count_pattern(counter, NULL, busiest);
        break;
    case PDL_PATTERN_NEIGHBOURS:
        pattern->most_per_pe = query->size > 2 ? 2 : 1;
        pattern->shift[0] = (shift_t){0, pattern->block - pattern->stride, pattern->stride};
        pattern->shift[1] = (shift_t){pattern->stride, pattern->block, -pattern->stride};
        count_pattern(counter, NULL, busiest);
        break;
    }
}

static pdl_status_t check_query(const pdl_system_t *system, const pdl_contention_query_t *query)
{
    if (query->pe_count < 1 || query->size < 1 || query->stride < 1 || query->concurrent < 0)
        return pdl_error(PDL_ERR_INPUT, "contention: devices, size and stride of an axis must be at least 1");
    if (query->pe_count > system->pe_count)
        return pdl_error(PDL_ERR_LIMIT, "%lld devices asked for, but %s has %lld", (long long)query->pe_count,
                         system->name, (long long)system->pe_count);
    if (query->size > query->pe_count / query->stride || query->pe_count % (query->size * query->stride) != 0)
        return pdl_error(PDL_ERR_INPUT, "contention: %lld devices are not a multiple of %lld ranks %lld apart",
                         (long long)query->pe_count, (long long)query->size, (long long)query->stride);
    return PDL_OK;
}

/* A message alone runs at the capacity of the narrowest level it crosses. */
static void fill_answer(const pdl__tree_t *tree, const int64_t busiest[PDL_MAX_LEVELS],
                        pdl_contention_answer_t *answer)
{
    double alone_bytes_per_s = tree->level[0].capacity;

    *answer = (pdl_contention_answer_t){.phi = 1};
    for (int l = 0; l < tree->level_count; l++) {
        if (busiest[l] == 0) continue;
        answer->level = l;
        alone_bytes_per_s = fmin(alone_bytes_per_s, tree->level[l].capacity);
    }
    for (int l = 0; l < tree->level_count; l++) {
        double phi = (double)busiest[l] * (alone_bytes_per_s / tree->level[l].capacity);
        if (busiest[l] == 0 || phi < answer->phi) continue;
        answer->phi = phi;
        answer->bottleneck_level = l;
        answer->bottleneck_messages = busiest[l];
    }
    answer->seconds_per_byte = answer->phi / alone_bytes_per_s;
}

pdl_status_t pdl_contention_explain(const pdl_system_t *system, const pdl_contention_query_t *query,
                                    pdl_contention_answer_t *answer)
{
    pdl__tree_t  tree;
    int64_t      busiest[PDL_MAX_LEVELS] = {0}, links = 1;
    pdl_status_t st = check_query(system, query);

    if (st) return st;
    st = pdl__tree_init(&tree, system, query->host_path);
    if (st) return st;
    if (tree.network != NULL && query->size > 1) return pdl__network_explain(&tree, query, answer);
    if (query->size > 1) {
        for (int l = 0; l < tree.level_count; l++) links = max64(links, tree.level[l].links);
        counter_t counter = {.tree = &tree};
        counter.count = calloc((size_t)links, 2 * sizeof(*counter.count));
        if (counter.count == NULL)
            return pdl_error(PDL_ERR_NOMEM, "out of memory for %lld links", (long long)links);
        counter.stamp = counter.count + links;
        count_query(&counter, query, busiest);
        free(counter.count);
    }
    fill_answer(&tree, busiest, answer);
    return PDL_OK;
}

pdl_status_t pdl_contention_phi(const pdl_system_t *system, const pdl_contention_query_t *query, double *phi,
                                int *level)
{
    pdl_contention_answer_t answer;
    pdl_status_t            st = pdl_contention_explain(system, query, &answer);

    if (st) return st;
    *phi = answer.phi;
    if (level) *level = answer.level;
    return PDL_OK;
}
