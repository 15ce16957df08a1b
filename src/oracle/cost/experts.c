/*
 * Ways of tokens to experts on other devices, and back.
 */
#include "oracle/internal.h"
#include <math.h>

/* Share of the ports' speed that exchanges between experts on several nodes reach: 43 GB/s with 16 ranks, 50 to 58 with 32 and
   64, by ports of 50 GB/s, of which some stays inside a node (deepseek-ai/DeepEP, README). */
static const double EXPERT_NETWORK = 0.9;

double pdl_expert_route_seconds(const pdl_system_t *system, const pdl_parameters_t *p, const pdl_expert_route_t *r)
{
    const pdl_level_t *level = system->level;
    double together = floor((double)level[0].fanout / (double)r->stride), node = fmin(r->ranks, together);

    if (r->ranks <= 1) return 0;
    node = fmax(1, node);
    double nodes = r->ranks / node, reached = nodes * (1 - pow(1 - 1 / nodes, r->chosen));
    if (r->most_nodes > 0) reached = fmin(reached, r->most_nodes);
    double seconds =
        r->bytes * r->chosen * (node - 1) / node / (p->fabric_efficiency * level[0].bandwidth_bytes_per_s);
    if (r->ranks > node && system->level_count > 1)
        seconds += r->bytes * reached * (nodes - 1) / nodes /
                   (EXPERT_NETWORK * level[1].bandwidth_bytes_per_s * level[1].ports / (double)level[0].fanout);
    return (1 - p->expert_overlap) * seconds;
}

bool pdl__to_experts(const pdl_profile_t *profile, const pdl_transfer_t *t)
{
    return t->primitive == PDL_ALLTOALL && t->axis >= 0 &&
           pdl_plan_shares_experts(profile->plan, t->layer, t->axis);
}

double pdl__route_seconds(const pdl_pricing_t *pr, const pdl_transfer_t *t)
{
    const pdl_plan_t  *plan = pr->profile->plan;
    const pdl_layer_t *layer = pdl_model_layer(plan->model, t->layer);
    double             ranks = (double)plan->mesh.axis[t->axis].size, chosen = pdl_layer_expert_rows(layer);

    return pdl_expert_route_seconds(pr->system, pr->p,
                                    &(pdl_expert_route_t){.ranks = ranks,
                                                          .stride = pdl_mesh_stride(&plan->mesh, t->axis),
                                                          .bytes = t->elements * pr->profile->compute.item_bytes /
                                                                   (ranks * chosen),
                                                          .chosen = chosen});
}
