/*
 * From bytes to protobuf messages, for files that may be damaged or hostile.
 */
#ifndef PDL_MODEL_ONNX_WIRE_H
#define PDL_MODEL_ONNX_WIRE_H

#include "onnx.pb-c.h"
#include <paradl/base/status.h>
#include <stddef.h>

/* Checks the encoding first, so that the message can name the first byte that is wrong, then unpacks within a
   memory budget that grows with `length`. Free with pdl__onnx_free(). */
pdl_status_t pdl__onnx_unpack(const void *data, size_t length, const char *file, Onnx__ModelProto **model);
void         pdl__onnx_free(Onnx__ModelProto *model);

#endif
