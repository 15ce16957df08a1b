/*
 * ONNX files as models. Only shapes are read: the values of weights are neither needed nor, when they are in
 * external files, looked for.
 */
#ifndef PDL_MODEL_ONNX_H
#define PDL_MODEL_ONNX_H

#include <paradl/model/model.h>

/* pdl_model_load for "*.onnx": reads the file and names the model after it. */
pdl_status_t pdl__model_read_onnx_file(const char *path, pdl_model_t **model);

#endif
