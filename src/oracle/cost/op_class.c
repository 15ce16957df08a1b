/*
 * A projection class by class, for the comparison with what a run took.
 */
#include "oracle/internal.h"
#include <math.h>
#include <paradl/oracle/replay.h>
#include <paradl/program/copies.h>

const char *const pdl_op_class_names[PDL_OP_CLASS_COUNT] = {"products, forward",  "products, backward",
                                                            "normalisation",      "element-wise",
                                                            "conversion",         "update",
                                                            "redistribution",     "gradient exchange",
                                                            "copies to the host", "waiting for samples"};

pdl_op_class_t pdl_op_class(pdl_layer_type_t type, bool backward)
{
    const pdl_traits_t *traits = pdl_type_traits(type);

    if (traits->work != PDL_WORK_ELEMENTS) return backward ? PDL_CLASS_PRODUCT_BACKWARD : PDL_CLASS_PRODUCT_FORWARD;
    return traits->norm ? PDL_CLASS_NORM : PDL_CLASS_ELEMENT;
}

bool pdl_op_class_waits(pdl_op_class_t class)
{
    return class == PDL_CLASS_MOVE || class == PDL_CLASS_GRADIENT || class == PDL_CLASS_COPY;
}

pdl_op_class_t pdl_program_op_class(const pdl_program_t *program, const pdl_program_op_t *op)
{
    switch (op->kind) {
    case PDL_OP_LOAD: return PDL_CLASS_INPUT;
    case PDL_OP_REDISTRIBUTE:
    case PDL_OP_SEND:
    case PDL_OP_RECV: return PDL_CLASS_MOVE;
    case PDL_OP_COPY_OUT:
    case PDL_OP_COPY_IN: return PDL_CLASS_COPY;
    case PDL_OP_COLLECTIVE:
    case PDL_OP_RESULT: return PDL_CLASS_GRADIENT;
    case PDL_OP_UPDATE: return PDL_CLASS_UPDATE;
    case PDL_OP_CONVERT: return op->node < 0 ? PDL_CLASS_UPDATE : PDL_CLASS_CONVERT;
    case PDL_OP_SUM:
    case PDL_OP_COPY: return op->bucket >= 0 ? PDL_CLASS_GRADIENT : PDL_CLASS_ELEMENT;
    default:
        return pdl_op_class(pdl_model_layer(program->model, program->node[op->node].layer)->type, op->backward);
    }
}

/* What the operations of programs take, on the mean over ranks; false where they cannot be made. */
static bool add_operations(pdl_oracle_t *oracle, const pdl_plan_t *plan, double *seconds)
{
    pdl_timeline_t *t = NULL;
    double          stall_s = 0;

    if (pdl_oracle_timeline(oracle, plan, &t)) return false;
    for (int k = 0; k < t->count; k++) {
        const pdl_replay_rank_t *rank = &t->ranks[k];
        pdl_program_copies_t     copies = {0};
        for (int i = 0; i < rank->program->op_count; i++)
            seconds[pdl_program_op_class(rank->program, &rank->program->op[i])] += rank->seconds[i] / t->count;
        /* Of copies, what is waited for. */
        if (!pdl_program_count_copies(rank->program, rank->end_s, &copies)) stall_s += copies.stall_s / t->count;
    }
    seconds[PDL_CLASS_COPY] = stall_s;
    pdl_timeline_destroy(t);
    return true;
}

/* Forward, backward and update of all layers of one rank's micro-batches, stage after stage. */
static void add_layers(const pdl_case_t *c, const pdl_profile_t *profile, const pdl_stages_t *stages,
                       const pdl_plan_t *plan, double *seconds)
{
    double  m = (double)c->micro_batches / (double)c->pipeline;
    int64_t k = 0;

    for (int i = 0; i < profile->partition->layer_count; i++) {
        if (i >= stages->first[k + 1]) k++;
        pdl_layer_type_t  type = pdl_model_layer(plan->model, i)->type;
        const pdl_sums_t *prefix = pdl__profile_on(profile, stages, k)->prefix;
        const pdl_sums_t *before = &prefix[i], *after = &prefix[i + 1];
        double            again = pdl_plan_recomputes(plan, i) ? 2 : 1;

        seconds[pdl_op_class(type, false)] += again * m * (after->forward - before->forward);
        seconds[pdl_op_class(type, true)] += m * (after->backward - before->backward);
    }
}

pdl_status_t pdl_oracle_classes(pdl_oracle_t *oracle, const pdl_plan_t *plan, const pdl_projection_t *projection,
                                double seconds[PDL_OP_CLASS_COUNT])
{
    pdl_case_t          c;
    pdl_profile_t      *profile;
    const pdl_stages_t *stages;
    double              work = 0;

    for (int i = 0; i < PDL_OP_CLASS_COUNT; i++) seconds[i] = 0;
    pdl_status_t status = pdl__case_of_plan(oracle, plan, NULL, &c);
    if (!status) status = pdl__profile_create(oracle, plan, c.micro_batch, &profile);
    if (status) return status;
    bool whole = projection->replayed && add_operations(oracle, plan, seconds);
    if (!whole) status = pdl__profile_runs(&c, profile, pdl_plan_stage_count(plan), plan->stage_first, &stages);
    if (!whole && !status) add_layers(&c, profile, stages, plan, seconds);
    pdl__profile_destroy(profile);
    if (status) return status;
    if (!whole) seconds[PDL_CLASS_UPDATE] = projection->update_s;
    seconds[PDL_CLASS_GRADIENT] = projection->comm[PDL_COMM_GRADIENT];
    seconds[PDL_CLASS_MOVE] = projection->comm_s - projection->comm[PDL_COMM_GRADIENT];
    seconds[PDL_CLASS_INPUT] = projection->io_s;
    if (whole && c.pipeline == 1) return PDL_OK;
    for (int i = 0; i <= PDL_CLASS_UPDATE; i++) work += seconds[i];
    if (c.pipeline == 1) {
        /* Waiting for the host, and kernels that are slower beside an exchange. */
        seconds[PDL_CLASS_PRODUCT_BACKWARD] += projection->compute_s - work;
        return PDL_OK;
    }
    seconds[PDL_CLASS_MOVE] = fmax(0, projection->total_s - projection->io_s - seconds[PDL_CLASS_GRADIENT] - work);
    return PDL_OK;
}
