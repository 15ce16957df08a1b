/*
 * Activations over a run of elements, for the layer of its own and for what other layers compute along.
 */
#ifndef PDL_TENSOR_CPU_POINTWISE_ACTIVATION_H
#define PDL_TENSOR_CPU_POINTWISE_ACTIVATION_H

#include <paradl/model/model.h>

/* `slope` is the layer's, where it has one. Input and output may be the same. */
typedef struct pdl__activation {
    void (*forward)(float slope, int64_t count, const float *x, float *y);
    /* dx = dy times the derivative; `kept` is x or y, whichever the traits of the type say. */
    void (*backward)(float slope, int64_t count, const float *kept, const float *dy, float *dx);
} pdl__activation_t;

/* Of an activation; others have none. */
const pdl__activation_t *pdl__cpu_activation_of(pdl_layer_type_t type);

#endif
