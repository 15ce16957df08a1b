/*
 * A projection class by class, for the comparison with what a run took.
 */
#include "oracle/internal.h"
#include <math.h>

const char *const pdl_op_class_names[PDL_OP_CLASS_COUNT] = {"products, forward",  "products, backward",
                                                            "normalisation",      "element-wise",
                                                            "conversion",         "update",
                                                            "redistribution",     "gradient exchange",
                                                            "waiting for samples"};

pdl_op_class_t pdl_op_class(pdl_layer_type_t type, bool backward)
{
    const pdl_traits_t *traits = pdl_type_traits(type);

    if (traits->work != PDL_WORK_ELEMENTS) return backward ? PDL_CLASS_PRODUCT_BACKWARD : PDL_CLASS_PRODUCT_FORWARD;
    return traits->norm ? PDL_CLASS_NORM : PDL_CLASS_ELEMENT;
}

/* Forward, backward and update of all layers of one rank's micro-batches, stage after stage. */
static void add_layers(const pdl_case_t *c, const pdl_profile_t *profile, const pdl_plan_t *plan, double *seconds)
{
    double m = (double)c->micro_batches / (double)c->pipeline;

    for (int i = 0; i < profile->partition->layer_count; i++) {
        pdl_layer_type_t  type = pdl_model_layer(plan->model, i)->type;
        const pdl_sums_t *before = &profile->prefix[i], *after = &profile->prefix[i + 1];
        double            again = pdl_memory_recomputes(pdl_plan_memory_policy(plan, i)) ? 2 : 1;

        seconds[pdl_op_class(type, false)] += again * m * (after->forward - before->forward);
        seconds[pdl_op_class(type, true)] += m * (after->backward - before->backward);
    }
}

pdl_status_t pdl_oracle_classes(const pdl_oracle_t *oracle, const pdl_plan_t *plan,
                                const pdl_projection_t *projection, double seconds[PDL_OP_CLASS_COUNT])
{
    pdl_case_t     c;
    pdl_profile_t *profile;
    double         work = 0;

    for (int i = 0; i < PDL_OP_CLASS_COUNT; i++) seconds[i] = 0;
    pdl_status_t status = pdl__case_of_plan(oracle, plan, NULL, &c);
    if (!status) status = pdl__profile_create(oracle->system, &oracle->p, plan, c.micro_batch, &profile);
    if (status) return status;
    add_layers(&c, profile, plan, seconds);
    pdl__profile_destroy(profile);
    seconds[PDL_CLASS_UPDATE] = projection->update_s;
    seconds[PDL_CLASS_GRADIENT] = projection->comm[PDL_COMM_GRADIENT];
    seconds[PDL_CLASS_MOVE] = projection->comm_s - projection->comm[PDL_COMM_GRADIENT];
    seconds[PDL_CLASS_INPUT] = projection->io_s;
    for (int i = 0; i <= PDL_CLASS_UPDATE; i++) work += seconds[i];
    if (c.pipeline == 1) {
        /* Waiting for the host, and kernels that are slower beside an exchange. */
        seconds[PDL_CLASS_PRODUCT_BACKWARD] += projection->compute_s - work;
        return PDL_OK;
    }
    seconds[PDL_CLASS_MOVE] = fmax(0, projection->total_s - projection->io_s - seconds[PDL_CLASS_GRADIENT] - work);
    return PDL_OK;
}
