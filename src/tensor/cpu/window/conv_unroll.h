/*
 * Convolutions and their transposes on PLAIN tensors without oneDNN: windows unrolled into a matrix, and products of
 * gemm.h. Every shape in single precision; slower than oneDNN, which is preferred where it is there.
 */
#ifndef PDL_TENSOR_CPU_CONV_UNROLL_H
#define PDL_TENSOR_CPU_CONV_UNROLL_H

#include "tensor/cpu/cpu.h"

/* Fills in op->description.workspace_bytes; weights are stored plain, input and output are PLAIN. */
pdl_status_t pdl__unroll_describe(const pdl__cpu_t *cpu, pdl_op_t *op);

void pdl__unroll_forward(const pdl_op_t *op, const pdl_op_run_t *run);
void pdl__unroll_backward(const pdl_op_t *op, const pdl_op_run_t *run, unsigned what);

#endif
