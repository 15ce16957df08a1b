/*
 * Blocks of layers with a memory policy each.
 */
#include "plan/blocks.h"
#include <paradl/model/traits.h>
#include <stdlib.h>
#include <string.h>

const char *const pdl_memory_policy_names[PDL_MEMORY_POLICY_COUNT] = {
    "keep", "recompute", "swap", "swap_boundary", "recompute_cheap", "swap_cheap"};

pdl_status_t pdl_plan_set_blocks(pdl_plan_t *plan, const pdl_plan_block_t *blocks, int count)
{
    pdl_plan_block_t *copy = NULL;

    if (count > 0) {
        copy = malloc((size_t)count * sizeof(*copy));
        if (copy == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
        memcpy(copy, blocks, (size_t)count * sizeof(*copy));
    }
    free(plan->block);
    plan->block = copy;
    plan->block_count = count;
    return PDL_OK;
}

int pdl_plan_block_of(const pdl_plan_t *plan, int layer)
{
    bool given = plan->block_count > 0;
    int  low = 0, high = given ? plan->block_count - 1 : (int)pdl_plan_stage_count(plan) - 1;

    /* The first that does not end in front of the layer. */
    while (low < high) {
        int middle = low + (high - low) / 2;
        int last = given ? plan->block[middle].last : plan->stage_first[middle + 1] - 1;
        if (last < layer)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool pdl_memory_swaps(pdl_memory_policy_t policy)
{
    return policy == PDL_MEMORY_SWAP || policy == PDL_MEMORY_SWAP_BOUNDARY || policy == PDL_MEMORY_SWAP_CHEAP;
}

bool pdl_memory_recomputes(pdl_memory_policy_t policy)
{
    return policy == PDL_MEMORY_RECOMPUTE || policy == PDL_MEMORY_SWAP_BOUNDARY;
}

bool pdl_memory_recomputes_cheap(pdl_memory_policy_t policy)
{
    return policy == PDL_MEMORY_RECOMPUTE_CHEAP || policy == PDL_MEMORY_SWAP_CHEAP;
}

bool pdl_layer_is_cheap(const pdl_layer_t *layer)
{
    const pdl_traits_t *traits = pdl_layer_traits(layer);

    return traits->norm || traits->activation || traits->drops || traits->combine != PDL_COMBINE_NONE;
}

pdl_memory_policy_t pdl_plan_memory_policy(const pdl_plan_t *plan, int layer)
{
    if (plan->block_count > 0) return plan->block[pdl_plan_block_of(plan, layer)].policy;
    /* Selective recompute concerns the scores inside attention only. */
    return plan->recompute == PDL_RECOMPUTE_FULL ? PDL_MEMORY_RECOMPUTE : PDL_MEMORY_KEEP;
}

bool pdl_plan_recomputes(const pdl_plan_t *plan, int layer)
{
    pdl_memory_policy_t policy = pdl_plan_memory_policy(plan, layer);

    return pdl_memory_recomputes(policy) ||
           (pdl_memory_recomputes_cheap(policy) && pdl_layer_is_cheap(pdl_model_layer(plan->model, layer)));
}

static const char *name_of(const pdl_plan_t *plan, int layer)
{
    return pdl_model_layer(plan->model, layer)->name;
}

static pdl_status_t check_borders(const pdl_plan_t *plan, int first, int last)
{
    for (int64_t s = 1; s < pdl_plan_stage_count(plan); s++)
        if (plan->stage_first[s] > first && plan->stage_first[s] <= last)
            return pdl_error(PDL_ERR_INPUT,
                             "the block from \"%.100s\" to \"%.100s\" crosses into the stage that begins with "
                             "\"%.100s\": end a block with \"%.100s\", the layer before it",
                             name_of(plan, first), name_of(plan, last), name_of(plan, plan->stage_first[s]),
                             name_of(plan, plan->stage_first[s] - 1));
    return PDL_OK;
}

static pdl_status_t check_block(const pdl_plan_t *plan, int k)
{
    const pdl_plan_block_t *block = &plan->block[k];
    int                     first = k > 0 ? plan->block[k - 1].last + 1 : 0;

    if (block->last < 0 || block->last >= pdl_model_layer_count(plan->model))
        return pdl_error(PDL_ERR_INPUT, "a block ends with layer %d, but model %.100s has only %d", block->last,
                         pdl_model_name(plan->model), pdl_model_layer_count(plan->model));
    if (block->last < first)
        return pdl_error(PDL_ERR_INPUT,
                         "the block to \"%.100s\" overlaps the one before it, which goes to \"%.100s\": give the "
                         "blocks in the order of the layers",
                         name_of(plan, block->last), name_of(plan, first - 1));
    return check_borders(plan, first, block->last);
}

pdl_status_t pdl__blocks_check(const pdl_plan_t *plan, int *wrong)
{
    int layers = pdl_model_layer_count(plan->model), count = plan->block_count;

    *wrong = -1;
    if (count == 0) return PDL_OK;
    if (plan->recompute != PDL_RECOMPUTE_NONE)
        return pdl_error(PDL_ERR_INPUT,
                         "recompute: %s is a rule for all layers, but there are blocks: use one of them",
                         pdl_recompute_names[plan->recompute]);
    if (pdl_plan_stage_count(plan) > 1 && !plan->stages_given)
        return pdl_error(PDL_ERR_INPUT, "blocks end where stages do: name the first layers of the stages in "
                                        "pipeline.stages instead of auto");
    for (*wrong = 0; *wrong < count; ++*wrong) {
        pdl_status_t status = check_block(plan, *wrong);
        if (status) return status;
    }
    *wrong = count - 1;
    if (plan->block[count - 1].last == layers - 1) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT,
                     "the last block ends with \"%.100s\" and leaves out the layers behind it: add a block to "
                     "\"%.100s\", the last layer",
                     name_of(plan, plan->block[count - 1].last), name_of(plan, layers - 1));
}
