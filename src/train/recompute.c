/*
 * Which tensors are made again in backward. Full recompute keeps the tensors at a few borders, about the square
 * root of their number apart, and makes everything between two borders again when backward reaches it (Chen et al., 2016).
 */
#include "train/graph.h"
#include <math.h>
#include <stdlib.h>

static int owner_of(const pdl__graph_t *graph, int i)
{
    while (graph->node[i].view) i = graph->node[i].input[0];
    return i;
}

/* crossing[i]: tensors made at or before unit i, loaded ones aside, and read after it. */
static void count_crossings(const pdl__graph_t *graph, int *last, int *crossing)
{
    int count = graph->unit_count, alive = 0;

    for (int i = 0; i < count; i++) last[i] = i;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < graph->node[i].input_count; j++) last[owner_of(graph, graph->node[i].input[j])] = i;
    for (int i = 0; i < count; i++) {
        if (!graph->node[i].source && !graph->node[i].view && last[i] > i) alive++;
        for (int k = 0; k < i; k++)
            if (!graph->node[k].source && !graph->node[k].view && last[k] == i) alive--;
        crossing[i] = alive;
    }
}

pdl_status_t pdl__choose_recompute(const pdl_plan_t *plan, const pdl__graph_t *graph)
{
    int  count = graph->unit_count, cuts = 0, seen = 0;
    int *last = plan->recompute == PDL_RECOMPUTE_FULL ? calloc((size_t)count, 2 * sizeof(int)) : NULL;

    /* Selective recompute concerns the scores of attention, which are never stored here. */
    if (plan->recompute != PDL_RECOMPUTE_FULL) return PDL_OK;
    if (!last) return pdl_error(PDL_ERR_NOMEM, "out of memory while choosing what is recomputed");
    int *crossing = last + count;
    count_crossings(graph, last, crossing);
    for (int i = 0; i < count; i++) cuts += crossing[i] == 1 && last[i] > i;
    int apart = (int)fmax(1, floor(sqrt((double)cuts)));
    for (int i = 0; i < count; i++) {
        pdl_tape_node_t *node = &graph->node[i];
        bool             border = crossing[i] == 1 && last[i] > i && ++seen % apart == 0;
        node->recompute = node->backward && !node->view && !node->source && !node->loss && !border;
    }
    free(last);
    return PDL_OK;
}
