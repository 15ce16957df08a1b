/*
 * Blocks in plan files.
 */
#include "plan/blocks.h"
#include <stdlib.h>

enum { MOST_BLOCKS = 1000000 };

/* Blocks between a copy and its use, where there is a copy. */
static pdl_status_t read_distance(const pdl_yaml_t *item, const char *key, int policy, int64_t *blocks)
{
    const pdl_yaml_t *node = pdl_yaml_find(item, key);
    pdl_status_t      status = pdl_yaml_get_int(item, key, 1, MOST_BLOCKS, PDL_OPTIONAL, blocks);

    if (status || node == NULL || pdl_memory_swaps((pdl_memory_policy_t)policy)) return status;
    return pdl_yaml_error(node, "%s is of blocks that are swapped, and policy is %s: leave it out", key,
                          pdl_memory_policy_names[policy]);
}

static pdl_status_t read_block(const pdl_yaml_t *item, const pdl_plan_t *plan, pdl_plan_block_t *block)
{
    static const char *const keys[] = {"to", "policy", "release_after", "prefetch", NULL};
    const char              *name;
    int                      policy = PDL_MEMORY_KEEP;
    int64_t                  distance[2] = {0, 0};
    pdl_status_t status = pdl_yaml_expect(item, PDL_YAML_MAPPING, "a block such as {to: fc, policy: keep}");

    if (!status) status = pdl_yaml_check_keys(item, keys);
    if (!status) status = pdl_yaml_get_string(item, "to", PDL_REQUIRED, &name);
    if (!status)
        status = pdl_yaml_get_enum(item, "policy", pdl_memory_policy_names, PDL_MEMORY_POLICY_COUNT, PDL_REQUIRED,
                                   &policy);
    for (int k = 0; k < 2 && !status; k++) status = read_distance(item, keys[2 + k], policy, &distance[k]);
    if (status) return status;
    *block = (pdl_plan_block_t){pdl_model_find_layer(plan->model, name), (pdl_memory_policy_t)policy,
                                (int)distance[0], (int)distance[1]};
    if (block->last >= 0) return PDL_OK;
    return pdl_yaml_error(
        pdl_yaml_find(item, "to"),
        "model %.100s has no layer \"%.100s\" for a block to end with: paradl model show lists them",
        pdl_model_name(plan->model), name);
}

static pdl_status_t check(const pdl_yaml_t *list, const pdl_plan_t *plan)
{
    int          wrong;
    pdl_status_t status = pdl__blocks_check(plan, &wrong);

    if (!status) return PDL_OK;
    return pdl_yaml_error(wrong >= 0 ? pdl_yaml_item(list, (size_t)wrong) : list, "%s", pdl_error_message());
}

pdl_status_t pdl__blocks_read(const pdl_yaml_t *memory, pdl_plan_t *plan)
{
    const pdl_yaml_t *list = memory != NULL ? pdl_yaml_find(memory, "blocks") : NULL;
    size_t            most = (size_t)pdl_model_layer_count(plan->model), count;
    pdl_status_t      status;

    if (list == NULL) return PDL_OK;
    status = pdl_yaml_expect(list, PDL_YAML_SEQUENCE, "a list of blocks such as {to: fc, policy: keep}");
    if (status) return status;
    count = pdl_yaml_size(list);
    if (pdl_yaml_find(memory, "recompute") != NULL)
        return pdl_yaml_error(list,
                              "memory has recompute, a rule for all layers, and blocks: leave one of them out");
    if (count == 0 || count > most)
        return pdl_yaml_error(list, "expected 1 to %zu blocks, found %zu: leave out the key where all is kept",
                              most, count);
    pdl_plan_block_t *blocks = calloc(count, sizeof(*blocks));
    if (blocks == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    for (size_t k = 0; k < count && !status; k++) status = read_block(pdl_yaml_item(list, k), plan, &blocks[k]);
    if (!status) status = pdl_plan_set_blocks(plan, blocks, (int)count);
    free(blocks);
    return status ? status : check(list, plan);
}

void pdl__blocks_write(const pdl_plan_t *plan, FILE *stream)
{
    if (plan->block_count > 0) fputs("  blocks:\n", stream);
    for (int k = 0; k < plan->block_count; k++) {
        fputs("    - {to: ", stream);
        pdl_yaml_write_quoted(pdl_model_layer(plan->model, plan->block[k].last)->name, stream);
        const pdl_plan_block_t *block = &plan->block[k];
        fprintf(stream, ", policy: %s", pdl_memory_policy_names[block->policy]);
        if (block->release_after > 0) fprintf(stream, ", release_after: %d", block->release_after);
        if (block->prefetch > 0) fprintf(stream, ", prefetch: %d", block->prefetch);
        fputs("}\n", stream);
    }
}
