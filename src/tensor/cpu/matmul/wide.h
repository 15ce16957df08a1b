/*
 * Layers that compute in fp32 only, in a backend whose activations are bf16: their tensors are widened into the
 * workspace before they run, and what they make is narrowed afterwards. Weights and what is saved are fp32 anyhow.
 */
#ifndef PDL_TENSOR_CPU_WIDE_H
#define PDL_TENSOR_CPU_WIDE_H

#include "tensor/cpu/cpu.h"

/* Workspace for the fp32 tensors of an op, on top of its own. */
size_t pdl__wide_bytes(const pdl_op_t *op);

/* Forward and backward of `kind` with the tensors that begin `at` bytes into the workspace. */
pdl_status_t pdl__wide_forward(const pdl__cpu_kind_t *kind, pdl_op_t *op, const pdl_op_run_t *run, size_t at);
pdl_status_t pdl__wide_backward(const pdl__cpu_kind_t *kind, pdl_op_t *op, const pdl_op_run_t *run, unsigned what,
                                size_t at);

#endif
