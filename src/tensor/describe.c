/*
 * The work of an op, which does not depend on who computes it.
 */
#include "tensor/describe.h"

static bool trains(const pdl_op_description_t *description)
{
    for (int k = 0; k < description->weight_count; k++)
        if (description->weight[k].trainable) return true;
    return false;
}

/* Whether both gradients are products of matrices. */
static bool is_product(pdl_layer_type_t type)
{
    return type == PDL_LAYER_CONV || type == PDL_LAYER_CONV_TRANSPOSE || type == PDL_LAYER_LINEAR;
}

void pdl__describe_work(const pdl_op_spec_t *spec, pdl_op_description_t *description)
{
    double *flop = description->flop;
    double  fused = (spec->fusion.add ? 1 : 0) + (spec->fusion.activation != PDL_LAYER_INPUT ? 1 : 0);

    pdl_layer_flop(spec->layer, flop);
    flop[0] += fused * (double)pdl_shape_elements(&spec->layer->out);
    flop[1] += fused * (double)pdl_shape_elements(&spec->layer->out);
    for (int i = 0; i < 3; i++) flop[i] *= (double)spec->samples;
    if (!spec->training || !spec->input_gradient) flop[1] = 0;
    if (!spec->training || !trains(description)) flop[2] = 0;
    description->divides = is_product(spec->layer->type) && spec->training && trains(description);
}
