/*
 * Errors of CUDA's runtime as ours.
 */
#ifndef PDL_TENSOR_CUDA_CHECK_H
#define PDL_TENSOR_CUDA_CHECK_H

#include <cuda_runtime_api.h>
#include <paradl/base/status.h>

pdl_status_t pdl__cuda_check(cudaError_t error, const char *what);
#define PDL__CUDA_CHECK(call) pdl__cuda_check(call, #call)

#endif
