/* Backends that compute layers. */
#ifndef PARADL_TENSOR_MODULE_H
#define PARADL_TENSOR_MODULE_H

#include <paradl/tensor/backend.h>
#include <paradl/tensor/device.h>
#include <paradl/tensor/image.h>
#include <paradl/tensor/threads.h>

#endif
