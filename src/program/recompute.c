/*
 * Which tensors are made again in backward. Full recompute keeps the tensors at a few borders, about the square root
 * of their number apart, and makes everything between two borders again when backward reaches it (Chen et al.,
 * 2016).
 */
#include "program/builder.h"
#include <math.h>
#include <stdlib.h>

static int owner_of(const pdl_program_node_t *nodes, int i)
{
    while (nodes[i].kind == PDL_NODE_VIEW) i = nodes[i].input[0];
    return i;
}

/* What comes from elsewhere, without inputs, cannot be made again. */
static bool owns_made_tensor(const pdl_program_node_t *node)
{
    return node->kind != PDL_NODE_SOURCE && node->kind != PDL_NODE_VIEW && node->input_count > 0;
}

/* crossing[i]: tensors made at or before node i, loaded ones aside, and read after it. */
static void count_crossings(const pdl_program_node_t *nodes, int count, int *last, int *crossing)
{
    for (int i = 0; i < count; i++) last[i] = i;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < nodes[i].input_count; j++) last[owner_of(nodes, nodes[i].input[j])] = i;
    /* A tensor counts from where it is made until just before its last reader. */
    for (int i = 0; i < count; i++) {
        if (!owns_made_tensor(&nodes[i]) || last[i] == i) continue;
        crossing[i]++;
        crossing[last[i]]--;
    }
    for (int i = 1; i < count; i++) crossing[i] += crossing[i - 1];
}

pdl_status_t pdl__program_choose_recompute(pdl_program_node_t *nodes, int count)
{
    int *last = calloc((size_t)count, 2 * sizeof(int)), *crossing = last + count, cuts = 0, seen = 0;

    if (!last) return pdl_error(PDL_ERR_NOMEM, "out of memory while choosing what is recomputed");
    count_crossings(nodes, count, last, crossing);
    for (int i = 0; i < count; i++) cuts += crossing[i] == 1 && last[i] > i;
    int apart = (int)fmax(1, floor(sqrt((double)cuts)));
    for (int i = 0; i < count; i++) {
        pdl_program_node_t *node = &nodes[i];
        bool                border = crossing[i] == 1 && last[i] > i && ++seen % apart == 0;
        node->recompute = node->backward && owns_made_tensor(node) && !node->loss && !border;
    }
    free(last);
    return PDL_OK;
}
