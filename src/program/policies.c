/*
 * Which tensors are made again in backward, or swapped: those of the plan's blocks that are. What another block reads is
 * kept, so that a block is made again from tensors that are there. A long block keeps a few of its own besides, as far
 * apart as the square root of their number in all blocks, and makes everything between two of them again when backward
 * reaches it (Chen et al., 2016). Where only cheap layers are made again, these are the ones whose inputs are kept anyway,
 * or made again too.
 */
#include "program/builder.h"
#include <math.h>
#include <stdlib.h>

typedef struct study {
    int *last;     /* per owner: its last reader */
    int *crossing; /* tensors made at or before a node, loaded ones aside, and read after it */
    int *block;    /* of a node */
    int *outside;  /* per owner: the first other block that reads it, or -1 */
    int *read;     /* per owner: whether backward reads it, were everything kept */
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
        s->outside[i] = -1;
        s->block[i] = pdl_plan_block_of(plan, layer_of(nodes, i));
        for (int j = 0; j < nodes[i].input_count; j++) {
            int owner = owner_of(nodes, nodes[i].input[j]);
            s->last[owner] = i;
            if (nodes[i].backward && nodes[i].keeps_inputs >> j & 1) s->read[owner] = 1;
            if (s->block[i] != s->block[owner] && s->outside[owner] < 0) s->outside[owner] = s->block[i];
        }
    }
    for (int i = 0; i < count; i++)
        if (nodes[i].backward && nodes[i].keeps_output) s->read[owner_of(nodes, i)] = 1;
    /* A tensor counts from where it is made until just before its last reader. */
    for (int i = 0; i < count; i++) {
        if (!owns_made_tensor(&nodes[i]) || s->last[i] == i) continue;
        s->crossing[i]++;
        s->crossing[s->last[i]]--;
    }
    for (int i = 1; i < count; i++) s->crossing[i] += s->crossing[i - 1];
}

/* Made again at the cost of a few passes over memory, from tensors that are there without it. */
static bool is_cheap(const pdl_program_node_t *nodes, int i, const pdl_plan_t *plan, const study_t *s)
{
    const pdl_program_node_t *node = &nodes[i];

    if (node->kind != PDL_NODE_CONVERT &&
        (node->kind != PDL_NODE_COMPUTE || !pdl_layer_is_cheap(pdl_model_layer(plan->model, node->layer))))
        return false;
    for (int j = 0; j < node->input_count; j++) {
        int owner = owner_of(nodes, node->input[j]);
        if (!s->read[owner] && !nodes[owner].recompute && nodes[owner].kind != PDL_NODE_SOURCE) return false;
    }
    return true;
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
        bool                border = s->crossing[i] == 1 && s->last[i] > i && ++seen % apart == 0;
        pdl_memory_policy_t policy = pdl_plan_memory_policy(plan, layer_of(nodes, i));
        bool                cheap = pdl_memory_recomputes_cheap(policy);
        bool                again = cheap ? is_cheap(nodes, i, plan, s) : pdl_memory_recomputes(policy) && !border;
        node->recompute = again && node->backward && owns_made_tensor(node) && !node->loss && s->outside[i] < 0;
        node->from_saved &= cheap && node->recompute;
    }
}

static void swap(pdl_program_node_t *nodes, int count, const pdl_plan_t *plan, const study_t *s)
{
    for (int i = 0; i < count; i++) {
        pdl_program_node_t *node = &nodes[i];
        node->block = s->block[i];
        /* Where recomputation would begin. */
        node->policy_block = s->outside[i] >= 0 ? s->outside[i] : s->block[i];
        node->wanted_by = node->keeps_output || node->saved_bytes > 0 ? node->block : -1;
        if (plan->block_count == 0 || node->kind == PDL_NODE_VIEW || node->loss || node->recompute) continue;
        const pdl_plan_block_t *block = &plan->block[node->policy_block];
        node->swap = block->policy == PDL_MEMORY_SWAP || block->policy == PDL_MEMORY_SWAP_CHEAP ||
                     (block->policy == PDL_MEMORY_SWAP_BOUNDARY && s->outside[i] >= 0);
        node->release_after = block->release_after > 0 ? block->release_after : 1;
        node->prefetch = block->prefetch > 0 ? block->prefetch : 1;
    }
    /* Backward begins with the last block, so the highest that reads a tensor wants it first. */
    for (int i = 0; i < count; i++)
        for (int j = 0; j < nodes[i].input_count; j++) {
            pdl_program_node_t *owner = &nodes[owner_of(nodes, nodes[i].input[j])];
            bool                reads = nodes[i].backward && (nodes[i].keeps_inputs >> j & 1 || nodes[i].recompute);
            if (reads && nodes[i].block > owner->wanted_by) owner->wanted_by = nodes[i].block;
        }
}

pdl_status_t pdl__program_choose_policies(pdl_program_node_t *nodes, int count, const pdl_plan_t *plan)
{
    size_t  n = (size_t)count;
    int    *numbers = calloc(n, 5 * sizeof(*numbers));
    study_t s = {numbers, numbers + n, numbers + 2 * n, numbers + 3 * n, numbers + 4 * n};

    if (numbers == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory while choosing what is recomputed");
    study_readers(nodes, count, plan, &s);
    mark(nodes, count, plan, &s);
    swap(nodes, count, plan, &s);
    free(numbers);
    return PDL_OK;
}
