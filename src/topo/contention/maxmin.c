/*
 * Max-min fair rates by progressive filling: the rates of all flows rise together until a link is full, its
 * flows stay at that rate, the others rise on.
 *
 * The next link to fill is the one with the smallest share, remaining capacity over flows not yet fixed. Shares
 * only grow while others are fixed, so a heap may hold outdated ones: the smallest is brought up to date when it
 * comes to the top and goes back if it has grown. Every visit of a route entry causes at most one such return,
 * which bounds the whole by O(entries log links).
 */
#include <paradl/topo/contention.h>

#include <math.h>
#include <stdlib.h>

typedef struct heap_entry {
    double share;
    int    link;
} heap_entry_t;

typedef struct filling {
    int           links;
    double       *left;  /* capacity of each link that no fixed flow uses */
    const int    *times; /* that each flow is there; NULL: once */
    int          *open;  /* route entries of flows not yet fixed, by link */
    int          *begin; /* flows of link e: member[begin[e]] .. member[begin[e + 1] - 1] */
    int          *member;
    heap_entry_t *heap;
    int           heap_size;
    int           flows; /* not yet fixed: with the last of them all is done, whatever links are left */
} filling_t;

/* Entries of equal share come out in the order of their links, so that results do not depend on history. */
static bool before(heap_entry_t a, heap_entry_t b)
{
    return a.share < b.share || (a.share == b.share && a.link < b.link);
}

static void sift_down(filling_t *fill, int at)
{
    heap_entry_t moving = fill->heap[at];

    for (;;) {
        int child = 2 * at + 1;
        if (child >= fill->heap_size) break;
        if (child + 1 < fill->heap_size && before(fill->heap[child + 1], fill->heap[child])) child++;
        if (!before(fill->heap[child], moving)) break;
        fill->heap[at] = fill->heap[child];
        at = child;
    }
    fill->heap[at] = moving;
}

static void pop(filling_t *fill)
{
    fill->heap[0] = fill->heap[--fill->heap_size];
    if (fill->heap_size > 0) sift_down(fill, 0);
}

/* Rounding may leave a link slightly below the level already reached; the level never falls. */
static double share_of(const filling_t *fill, int link, double level)
{
    double share = fill->left[link] / fill->open[link];
    return share > level ? share : level;
}

static void list_members(filling_t *fill, int flows, const int *start, const int *route)
{
    for (int f = 0; f < flows; f++)
        for (int i = start[f]; i < start[f + 1]; i++) {
            fill->begin[route[i] + 1]++;
            fill->open[route[i]] += fill->times == NULL ? 1 : fill->times[f];
        }
    for (int e = 0; e < fill->links; e++) fill->begin[e + 1] += fill->begin[e];
    for (int f = flows - 1; f >= 0; f--) /* backwards: begin[e + 1] counts down to the start of link e */
        for (int i = start[f]; i < start[f + 1]; i++) fill->member[--fill->begin[route[i] + 1]] = f;
    for (int e = 0; e < fill->links; e++) fill->begin[e] = fill->begin[e + 1];
    fill->begin[fill->links] = start[flows] - start[0];
}

static void fill_links(filling_t *fill, const int *start, const int *route, double *rates)
{
    double level = 0;

    while (fill->flows > 0 && fill->heap_size > 0) {
        int link = fill->heap[0].link;
        if (fill->open[link] == 0) {
            pop(fill);
            continue;
        }
        double share = share_of(fill, link, level);
        if (share > fill->heap[0].share) {
            fill->heap[0].share = share;
            sift_down(fill, 0);
            continue;
        }
        level = share;
        for (int i = fill->begin[link]; i < fill->begin[link + 1]; i++) {
            int flow = fill->member[i];
            if (rates[flow] >= 0) continue;
            int times = fill->times == NULL ? 1 : fill->times[flow];
            rates[flow] = level;
            fill->flows--;
            for (int j = start[flow]; j < start[flow + 1]; j++) {
                fill->left[route[j]] -= times * level;
                fill->open[route[j]] -= times;
            }
        }
        pop(fill);
    }
}

static pdl_status_t check_input(int links, const double *capacity, int flows, const int *start, const int *route)
{
    if (links < 0 || flows < 0) return pdl_error(PDL_ERR_INPUT, "max-min rates: negative number of links or flows");
    for (int e = 0; e < links; e++)
        if (!(capacity[e] >= 0) || isinf(capacity[e]))
            return pdl_error(PDL_ERR_INPUT, "max-min rates: capacity of link %d must be finite, not negative", e);
    for (int f = 0; f < flows; f++) {
        if (start[f] < 0 || start[f + 1] < start[f])
            return pdl_error(PDL_ERR_INPUT, "max-min rates: route of flow %d ends before it starts", f);
        for (int i = start[f]; i < start[f + 1]; i++)
            if (route[i] < 0 || route[i] >= links)
                return pdl_error(PDL_ERR_INPUT, "max-min rates: flow %d crosses link %d of %d", f, route[i], links);
    }
    return PDL_OK;
}

pdl_status_t pdl_maxmin_rates(int links, const double *capacity, int flows, const int *start, const int *route,
                              const int *times, double *rates)
{
    pdl_status_t st = check_input(links, capacity, flows, start, route);
    if (st || flows == 0) return st;

    size_t    n = (size_t)links, entries = (size_t)(start[flows] - start[0]);
    filling_t fill = {
        .links = links,
        .times = times,
        .left = malloc((n + 1) * sizeof(double)),
        .open = calloc(n + 1, sizeof(int)),
        .begin = calloc(n + 2, sizeof(int)),
        .member = malloc((entries + 1) * sizeof(int)),
        .heap = malloc((n + 1) * sizeof(heap_entry_t)),
    };

    if (fill.left == NULL || fill.open == NULL || fill.begin == NULL || fill.member == NULL || fill.heap == NULL) {
        st = pdl_error(PDL_ERR_NOMEM, "out of memory for the rates of %d flows", flows);
        goto free_all;
    }
    list_members(&fill, flows, start, route);
    for (int f = 0; f < flows; f++) {
        rates[f] = start[f] == start[f + 1] ? INFINITY : -1;
        fill.flows += start[f] != start[f + 1];
    }
    for (int e = 0; e < links; e++) {
        fill.left[e] = capacity[e];
        if (fill.open[e] > 0) fill.heap[fill.heap_size++] = (heap_entry_t){capacity[e] / fill.open[e], e};
    }
    for (int i = fill.heap_size / 2 - 1; i >= 0; i--) sift_down(&fill, i);
    fill_links(&fill, start, route, rates);

free_all:
    free(fill.left);
    free(fill.open);
    free(fill.begin);
    free(fill.member);
    free(fill.heap);
    return st;
}
