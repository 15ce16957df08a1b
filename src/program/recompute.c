/*
 * Which tensors are made again in backward: those of the plan's blocks that are recomputed. What another block reads is
 * kept, so that a block is made again from tensors that are there. A long block keeps a few of its own besides, as far
 * apart as the square root of their number in all blocks, and makes everything between two of them again when backward
 * reaches it (Chen et al., 2016).
 */
#include "program/builder.h"
#include <math.h>
#include <stdlib.h>

typedef struct study {
    int  *last;     /* per owner: its last reader */
    int  *crossing; /* tensors made at or before a node, loaded ones aside, and read after it */
    int  *block;    /* of a node */
    bool *outside;  /* per owner: a node of another block reads it */
} study_t;

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

/* A redistribution belongs to its reader, what is converted to where it was made. */
static int layer_of(const pdl_program_node_t *nodes, int i)
{
    while (nodes[i].kind == PDL_NODE_CONVERT) i = nodes[i].input[0];
    return nodes[i].kind == PDL_NODE_REDISTRIBUTE ? nodes[i].reader : nodes[i].tail;
}

static void study_readers(const pdl_program_node_t *nodes, int count, const pdl_plan_t *plan, study_t *s)
{
    for (int i = 0; i < count; i++) {
        s->last[i] = i;
        s->block[i] = pdl_plan_block_of(plan, layer_of(nodes, i));
        for (int j = 0; j < nodes[i].input_count; j++) {
            int owner = owner_of(nodes, nodes[i].input[j]);
            s->last[owner] = i;
            s->outside[owner] |= s->block[i] != s->block[owner];
        }
    }
    /* A tensor counts from where it is made until just before its last reader. */
    for (int i = 0; i < count; i++) {
        if (!owns_made_tensor(&nodes[i]) || s->last[i] == i) continue;
        s->crossing[i]++;
        s->crossing[s->last[i]]--;
    }
    for (int i = 1; i < count; i++) s->crossing[i] += s->crossing[i - 1];
}

static void mark(pdl_program_node_t *nodes, int count, const pdl_plan_t *plan, const study_t *s)
{
    int cuts = 0, seen = 0, block = 0;

    for (int i = 0; i < count; i++) cuts += s->crossing[i] == 1 && s->last[i] > i;
    int apart = (int)fmax(1, floor(sqrt((double)cuts)));
    for (int i = 0; i < count; i++) {
        pdl_program_node_t *node = &nodes[i];
        if (s->block[i] > block) {
            block = s->block[i];
            seen = 0;
        }
        bool border = s->crossing[i] == 1 && s->last[i] > i && ++seen % apart == 0;
        node->recompute = pdl_plan_memory_policy(plan, layer_of(nodes, i)) == PDL_MEMORY_RECOMPUTE &&
                          node->backward && owns_made_tensor(node) && !node->loss && !border && !s->outside[i];
    }
}

pdl_status_t pdl__program_choose_recompute(pdl_program_node_t *nodes, int count, const pdl_plan_t *plan)
{
    int    *numbers = calloc((size_t)count, 3 * sizeof(*numbers));
    study_t s = {numbers, numbers + count, numbers + 2 * (size_t)count, calloc((size_t)count, sizeof(*s.outside))};

    if (numbers != NULL && s.outside != NULL) {
        study_readers(nodes, count, plan, &s);
        mark(nodes, count, plan, &s);
    }
    bool made = numbers != NULL && s.outside != NULL;
    free(s.outside);
    free(numbers);
    return made ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory while choosing what is recomputed");
}
