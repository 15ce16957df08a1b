/*
 * Convolutions of few channels (LeNet) on PLAIN tensors, by the matrix products of gemm.h.
 */
#ifndef PDL_TENSOR_CPU_CONV_SMALL_H
#define PDL_TENSOR_CPU_CONV_SMALL_H

#include "tensor/cpu/cpu.h"

typedef struct pdl__small pdl__small_t;

/* Whether this is the faster way to compute the op. */
bool pdl__small_suits(const pdl__cpu_t *cpu, const pdl_op_t *op);

/* Fills in op->description.workspace_bytes; weights are stored plain, input and output are PLAIN. */
pdl_status_t pdl__small_describe(pdl_op_t *op, pdl__small_t **small);
/* Makes the tables that kernels read. */
pdl_status_t pdl__small_prepare(pdl__small_t *small);
void         pdl__small_destroy(pdl__small_t *small); /* NULL is allowed */

void pdl__small_forward(const pdl__small_t *small, const pdl_op_run_t *run);
void pdl__small_backward(const pdl__small_t *small, const pdl_op_run_t *run, unsigned what);

#endif
