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

void pdl__describe_work(const pdl_op_spec_t *spec, pdl_op_description_t *description)
{
    double *flop = description->flop;
    double  fused = (spec->fusion.add ? 1 : 0) + (spec->fusion.activation != PDL_NO_ACTIVATION ? 1 : 0);

    pdl_layer_flop(spec->layer, flop);
    flop[0] += fused * (double)pdl_shape_elements(&spec->layer->out);
    flop[1] += fused * (double)pdl_shape_elements(&spec->layer->out);
    for (int i = 0; i < 3; i++) flop[i] *= (double)spec->samples;
    if (!spec->training || !spec->input_gradient) flop[1] = 0;
    if (!spec->training || !trains(description)) flop[2] = 0;
    /* Both gradients are products of matrices. */
    description->divides =
        pdl_layer_traits(spec->layer)->work == PDL_WORK_MATRIX && spec->training && trains(description);
}
