/*
 * Inputs and initializers of an ONNX graph.
 */
#ifndef PDL_MODEL_ONNX_INPUT_H
#define PDL_MODEL_ONNX_INPUT_H

#include "model/onnx/graph.h"

/* Defines initializers and inputs; the network's own becomes layer 0. */
pdl_status_t pdl__onnx_add_inputs(pdl__onnx_t *o);

#endif
