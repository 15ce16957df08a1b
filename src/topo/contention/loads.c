/*
 * Loads of links in one step of a collective, counted in the first group of every level.
 */
#include "topo/contention/network.h"

#include <math.h>
#include <stdlib.h>

#define FIRST  128 /* devices that are looked at one by one */
#define SPREAD 64  /* and of each level whose groups are larger */

struct pdl_step_loads {
    pdl__tree_t    tree;
    int            first;               /* places of the first devices; then SPREAD of each larger level */
    int            places, larger;      /* all, and the first level that is larger */
    int            top;                 /* the highest level that was crossed, -1: no message */
    pdl__carried_t all;                 /* in place of what follows, where a network joins the outermost groups */
    double *carried[2][PDL_MAX_LEVELS]; /* out and in, per link of the first span; larger levels: of all links */
    double  storage[];
};

/* Levels are of interest up to that one whose children do not hold all devices. */
static void set_places(pdl_step_loads_t *loads, int64_t pe_count)
{
    int64_t extent = 1;

    loads->larger = loads->tree.level_count;
    for (int l = 0; l < loads->tree.level_count && loads->tree.level[l].child < pe_count; l++) {
        if (loads->tree.level[l].span > FIRST) {
            if (loads->larger > l) loads->larger = l;
            loads->places += SPREAD;
        } else if (loads->tree.level[l].span > extent) {
            extent = loads->tree.level[l].span;
        }
    }
    loads->first = (int)(extent < pe_count ? extent : pe_count);
    loads->places += loads->first;
}

pdl_status_t pdl_step_loads_create(const pdl_system_t *system, int64_t pe_count, pdl_step_loads_t **out)
{
    pdl__tree_t       tree;
    int64_t           links = 0, at = 0;
    pdl_step_loads_t *loads;
    pdl_status_t      status = pdl__tree_init(&tree, system, false);

    if (status) return status;
    for (int l = 0; l < tree.level_count; l++) links += 2 * tree.level[l].links;
    loads = calloc(1, sizeof(*loads) + (size_t)links * sizeof(double));
    if (loads == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for %lld links", (long long)links);
    loads->tree = tree;
    loads->top = -1;
    if (tree.network != NULL) {
        status = pdl__carried_create(&loads->tree, pe_count, &loads->all);
        if (status) {
            free(loads);
            return status;
        }
        loads->first = loads->places = (int)pe_count;
        *out = loads;
        return PDL_OK;
    }
    for (int l = 0; l < tree.level_count; l++)
        for (int d = 0; d < 2; d++, at += tree.level[l].links) loads->carried[d][l] = loads->storage + at;
    set_places(loads, pe_count);
    *out = loads;
    return PDL_OK;
}

void pdl_step_loads_destroy(pdl_step_loads_t *loads)
{
    if (loads != NULL) pdl__carried_free(&loads->all);
    free(loads);
}

int pdl_step_loads_places(const pdl_step_loads_t *loads)
{
    return loads->places;
}

int64_t pdl_step_loads_pe(const pdl_step_loads_t *loads, int place)
{
    int further = place - loads->first;

    if (further < 0) return place;
    return loads->tree.level[loads->larger + further / SPREAD].span * (further % SPREAD) / SPREAD;
}

void pdl_step_loads_add(pdl_step_loads_t *loads, int place, int64_t peer, bool in, double amount)
{
    const pdl__tree_level_t *level = loads->tree.level;
    int64_t                  pe = pdl_step_loads_pe(loads, place);
    int                      top = pdl__tree_common_level(&loads->tree, pe, peer);

    /* Every message is seen once, as its sender has it. */
    if (loads->tree.network != NULL) {
        if (!in) pdl__carried_add(&loads->all, pe, peer, amount);
        return;
    }
    if (top >= loads->tree.level_count) top = loads->tree.level_count - 1;
    if (top > loads->top) loads->top = top;
    if (place >= loads->first) {
        int l = loads->larger + (place - loads->first) / SPREAD;

        if (l <= top) loads->carried[in][l][0] += amount * (double)level[l].span / SPREAD / (double)level[l].links;
        return;
    }
    for (int l = 0; l <= top && l < loads->larger; l++)
        if (pe < level[l].span) loads->carried[in][l][pdl__tree_link(&loads->tree, l, pe, peer)] += amount;
}

static double end_network(pdl__carried_t *all, const double efficiency[PDL_MAX_LEVELS], int *level,
                          double *latency_s)
{
    int    busiest;
    double amount, seconds = pdl__carried_end(all, efficiency, &busiest, &amount);

    *level = all->top > 0 ? all->top : 0;
    *latency_s = all->latency_s;
    all->top = -1;
    all->latency_s = 0;
    return seconds;
}

double pdl_step_loads_end(pdl_step_loads_t *loads, const double efficiency[PDL_MAX_LEVELS], int *level,
                          double *latency_s)
{
    double seconds = 0;

    if (loads->tree.network != NULL) return end_network(&loads->all, efficiency, level, latency_s);
    *latency_s = 0;
    *level = loads->top > 0 ? loads->top : 0;
    for (int l = 0; l <= loads->top; l++) {
        const pdl__tree_level_t *at = &loads->tree.level[l];

        for (int d = 0; d < 2; d++)
            for (int64_t q = 0; q < at->links; q++) {
                seconds = fmax(seconds, loads->carried[d][l][q] / (efficiency[l] * at->capacity));
                loads->carried[d][l][q] = 0;
            }
    }
    loads->top = -1;
    return seconds;
}
