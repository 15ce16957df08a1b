/*
 * Reduction kernels for the C types that programs reduce, as loops that compilers turn into vector instructions.
 * Everything else that MPI predefines (pairs with their place, complex numbers, Fortran types) goes through
 * MPI_Reduce_local.
 *
 * Minimum and maximum keep the operand of MPI implementations when one of them is not a number: the accumulated
 * value is compared first, and lost if the comparison is false.
 */
#include "comm/mpi/reduce.h"

#include "comm/mpi/check.h"

#include <limits.h>
#include <stdbool.h>

#define KERNEL(suffix, type, name, expression)                              \
    static void name##_##suffix(const void *in, void *inout, int64_t count) \
    {                                                                       \
        const type *restrict a = in;                                        \
        type *restrict b = inout;                                           \
                                                                            \
        for (int64_t i = 0; i < count; i++) b[i] = (type)(expression);      \
    }

/* Signed sums and products wrap around as in every MPI library, hence the unsigned arithmetic. */
#define ARITHMETIC(suffix, type, wide)                   \
    KERNEL(suffix, type, sum, (wide)b[i] + (wide)a[i])   \
    KERNEL(suffix, type, prod, (wide)b[i] * (wide)a[i])  \
    KERNEL(suffix, type, min, b[i] < a[i] ? b[i] : a[i]) \
    KERNEL(suffix, type, max, b[i] > a[i] ? b[i] : a[i])

#define BITS(suffix, type)                  \
    KERNEL(suffix, type, band, b[i] & a[i]) \
    KERNEL(suffix, type, bor, b[i] | a[i])  \
    KERNEL(suffix, type, bxor, b[i] ^ a[i])

#define LOGICAL(suffix, type)                          \
    KERNEL(suffix, type, land, b[i] != 0 && a[i] != 0) \
    KERNEL(suffix, type, lor, b[i] != 0 || a[i] != 0)  \
    KERNEL(suffix, type, lxor, (b[i] != 0) != (a[i] != 0))

#define INTEGER(suffix, type, wide) \
    ARITHMETIC(suffix, type, wide)  \
    BITS(suffix, type)              \
    LOGICAL(suffix, type)

INTEGER(i8, int8_t, uint32_t)
INTEGER(u8, uint8_t, uint32_t)
INTEGER(i16, int16_t, uint32_t)
INTEGER(u16, uint16_t, uint32_t)
INTEGER(i32, int32_t, uint32_t)
INTEGER(u32, uint32_t, uint32_t)
INTEGER(i64, int64_t, uint64_t)
INTEGER(u64, uint64_t, uint64_t)
ARITHMETIC(f32, float, float)
ARITHMETIC(f64, double, double)
LOGICAL(truth, bool)

#define INTEGER_ROW(suffix)                                                                                  \
    {                                                                                                        \
        sum_##suffix, prod_##suffix, min_##suffix, max_##suffix, band_##suffix, bor_##suffix, bxor_##suffix, \
            land_##suffix, lor_##suffix, lxor_##suffix                                                       \
    }

static const pdl__kernel_fn_t kernels[PDL__KIND_COUNT][PDL__OP_KERNELS] = {
    [PDL__KIND_I8] = INTEGER_ROW(i8),
    [PDL__KIND_U8] = INTEGER_ROW(u8),
    [PDL__KIND_I16] = INTEGER_ROW(i16),
    [PDL__KIND_U16] = INTEGER_ROW(u16),
    [PDL__KIND_I32] = INTEGER_ROW(i32),
    [PDL__KIND_U32] = INTEGER_ROW(u32),
    [PDL__KIND_I64] = INTEGER_ROW(i64),
    [PDL__KIND_U64] = INTEGER_ROW(u64),
    [PDL__KIND_F32] =
        {[PDL__OP_SUM] = sum_f32, [PDL__OP_PROD] = prod_f32, [PDL__OP_MIN] = min_f32, [PDL__OP_MAX] = max_f32},
    [PDL__KIND_F64] =
        {[PDL__OP_SUM] = sum_f64, [PDL__OP_PROD] = prod_f64, [PDL__OP_MIN] = min_f64, [PDL__OP_MAX] = max_f64},
    [PDL__KIND_BOOL] = {[PDL__OP_LAND] = land_truth, [PDL__OP_LOR] = lor_truth, [PDL__OP_LXOR] = lxor_truth},
    [PDL__KIND_BYTES] = {[PDL__OP_BAND] = band_u8, [PDL__OP_BOR] = bor_u8, [PDL__OP_BXOR] = bxor_u8},
};

static bool find_type(MPI_Datatype type, pdl__mpi_type_t *found)
{
    for (int i = 0; i < pdl__mpi->type_count; i++) {
        *found = pdl__mpi->types[i];
        if (found->type == type) return true;
    }
    return false;
}

static int op_of(MPI_Op op)
{
    for (int i = 0; i < PDL__OP_COUNT; i++) {
        if (pdl__mpi->op[i] == op) return i;
    }
    return -1;
}

bool pdl__reducer_defined(MPI_Datatype type, MPI_Op op)
{
    pdl__mpi_type_t found;
    int             which = op_of(op);

    return which >= 0 && find_type(type, &found) && (found.ops >> which & 1) != 0;
}

pdl_status_t pdl__reducer_init(MPI_Datatype type, MPI_Op op, pdl__reducer_t *reducer)
{
    MPI_Aint        low, extent;
    pdl__mpi_type_t found;
    int             which = op_of(op);
    pdl_status_t    status = PDL_MPI(pdl__mpi->Type_get_extent(type, &low, &extent));

    if (status) return status;
    if (extent <= 0) return pdl_error(PDL_ERR_UNSUPPORTED, "the MPI library does not have the type");
    *reducer = (pdl__reducer_t){.type = type, .op = op, .extent = (int64_t)extent};
    if (which >= 0 && which < PDL__OP_KERNELS && find_type(type, &found) && found.kind != PDL__KIND_NONE)
        reducer->kernel = kernels[found.kind][which];
    return PDL_OK;
}

pdl_status_t pdl__reducer_apply(const pdl__reducer_t *reducer, const void *in, void *inout, int64_t count)
{
    pdl_status_t status = PDL_OK;
    int          part;

    if (reducer->kernel != NULL) {
        reducer->kernel(in, inout, count);
        return PDL_OK;
    }
    for (int64_t done = 0; !status && done < count; done += part) {
        status = pdl__mpi_count(count - done < INT_MAX ? count - done : INT_MAX, &part);
        if (status) return status;
        status = PDL_MPI(pdl__mpi->Reduce_local((const char *)in + done * reducer->extent,
                                                (char *)inout + done * reducer->extent, part, reducer->type,
                                                reducer->op));
    }
    return status;
}
