/*
 * Which tensors are made again in backward, by the plan's policy.
 */
#include "program/builder.h"
#include "program/lower/graph.h"

pdl_status_t pdl__choose_recompute(const pdl_plan_t *plan, const pdl__graph_t *graph)
{
    /* Selective recompute concerns the scores of attention, which are never stored here. */
    if (plan->recompute != PDL_RECOMPUTE_FULL) return PDL_OK;
    return pdl__program_choose_recompute(graph->node, graph->unit_count);
}
