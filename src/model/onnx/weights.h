/*
 * The weights of an ONNX file. Internal to the reader.
 */
#ifndef PDL_MODEL_ONNX_WEIGHTS_H
#define PDL_MODEL_ONNX_WEIGHTS_H

#include "model/onnx/graph.h"
#include <paradl/model/onnx_weights.h>

/* What the reader has bound to the layers of `model`; on success arena and proto are the weights'. */
pdl_status_t pdl__onnx_keep(pdl__onnx_t *o, Onnx__ModelProto *proto, const pdl_model_t *model,
                            pdl_onnx_weights_t **weights);

#endif
