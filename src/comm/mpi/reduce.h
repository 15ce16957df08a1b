/*
 * The local part of a reduction: inout[i] = inout[i] op in[i].
 */
#ifndef PDL_COMM_REDUCE_H
#define PDL_COMM_REDUCE_H

#include <mpi.h>
#include <paradl/base/status.h>
#include <stdbool.h>
#include <stdint.h>

typedef void (*pdl__kernel_fn_t)(const void *in, void *inout, int64_t count);

typedef struct pdl__reducer {
    pdl__kernel_fn_t kernel; /* NULL: MPI_Reduce_local with the two below */
    MPI_Datatype     type;
    MPI_Op           op;
    int64_t          extent; /* bytes from one element to the next */
} pdl__reducer_t;

/* Whether both are predefined and MPI defines the operation for the type. */
bool pdl__reducer_defined(MPI_Datatype type, MPI_Op op);

pdl_status_t pdl__reducer_init(MPI_Datatype type, MPI_Op op, pdl__reducer_t *reducer);
pdl_status_t pdl__reducer_apply(const pdl__reducer_t *reducer, const void *in, void *inout, int64_t count);

#endif
