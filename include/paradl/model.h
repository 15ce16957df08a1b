/* Networks and data sets. */
#ifndef PARADL_MODEL_MODULE_H
#define PARADL_MODEL_MODULE_H

#include <paradl/model/dataset.h>
#include <paradl/model/model.h>
#include <paradl/model/onnx_weights.h>
#include <paradl/model/traits.h>

#endif
