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

enum op {
    SUM,
    PROD,
    MIN,
    MAX,
    BAND,
    BOR,
    BXOR,
    LAND,
    LOR,
    LXOR,
    KERNEL_OPS,
    MINLOC = KERNEL_OPS,
    MAXLOC,
    OP_COUNT
};

enum kind { I8, U8, I16, U16, I32, U32, I64, U64, F32, F64, BOOLEAN, BYTES, KIND_COUNT, NO_KIND = KIND_COUNT };

#define INTEGER_ROW(suffix)                                                                                  \
    {                                                                                                        \
        sum_##suffix, prod_##suffix, min_##suffix, max_##suffix, band_##suffix, bor_##suffix, bxor_##suffix, \
            land_##suffix, lor_##suffix, lxor_##suffix                                                       \
    }

static const pdl__kernel_fn_t kernels[KIND_COUNT][KERNEL_OPS] = {
    [I8] = INTEGER_ROW(i8),
    [U8] = INTEGER_ROW(u8),
    [I16] = INTEGER_ROW(i16),
    [U16] = INTEGER_ROW(u16),
    [I32] = INTEGER_ROW(i32),
    [U32] = INTEGER_ROW(u32),
    [I64] = INTEGER_ROW(i64),
    [U64] = INTEGER_ROW(u64),
    [F32] = {[SUM] = sum_f32, [PROD] = prod_f32, [MIN] = min_f32, [MAX] = max_f32},
    [F64] = {[SUM] = sum_f64, [PROD] = prod_f64, [MIN] = min_f64, [MAX] = max_f64},
    [BOOLEAN] = {[LAND] = land_truth, [LOR] = lor_truth, [LXOR] = lxor_truth},
    [BYTES] = {[BAND] = band_u8, [BOR] = bor_u8, [BXOR] = bxor_u8},
};

/* The integer kind of a C type whose width depends on the machine. */
#define SIGNED(type)   (sizeof(type) == 8 ? I64 : sizeof(type) == 4 ? I32 : sizeof(type) == 2 ? I16 : I8)
#define UNSIGNED(type) (sizeof(type) == 8 ? U64 : sizeof(type) == 4 ? U32 : sizeof(type) == 2 ? U16 : U8)

/* The groups of types for which MPI defines operations. */
enum group { C_INTEGER, F_INTEGER, FLOATING, COMPLEX, TRUTH, RAW, PAIR, GROUP_COUNT };

#define ARITHMETIC_OPS (1 << SUM | 1 << PROD | 1 << MIN | 1 << MAX)
#define BIT_OPS        (1 << BAND | 1 << BOR | 1 << BXOR)
#define LOGICAL_OPS    (1 << LAND | 1 << LOR | 1 << LXOR)

static const int group_ops[GROUP_COUNT] = {
    [C_INTEGER] = ARITHMETIC_OPS | BIT_OPS | LOGICAL_OPS,
    [F_INTEGER] = ARITHMETIC_OPS | BIT_OPS,
    [FLOATING] = ARITHMETIC_OPS,
    [COMPLEX] = 1 << SUM | 1 << PROD,
    [TRUTH] = LOGICAL_OPS,
    [RAW] = BIT_OPS,
    [PAIR] = 1 << MINLOC | 1 << MAXLOC,
};

typedef struct known_type {
    MPI_Datatype type;
    int          group;
    int          kind; /* of the kernels; NO_KIND: none */
} known_type_t;

static bool find_type(MPI_Datatype type, known_type_t *found)
{
    const known_type_t known[] = {
        {MPI_FLOAT, FLOATING, F32},
        {MPI_DOUBLE, FLOATING, F64},
        {MPI_INT, C_INTEGER, SIGNED(int)},
        {MPI_UNSIGNED, C_INTEGER, UNSIGNED(int)},
        {MPI_LONG, C_INTEGER, SIGNED(long)},
        {MPI_UNSIGNED_LONG, C_INTEGER, UNSIGNED(long)},
        {MPI_LONG_LONG, C_INTEGER, SIGNED(long long)},
        {MPI_UNSIGNED_LONG_LONG, C_INTEGER, UNSIGNED(long long)},
        {MPI_SHORT, C_INTEGER, SIGNED(short)},
        {MPI_UNSIGNED_SHORT, C_INTEGER, UNSIGNED(short)},
        {MPI_SIGNED_CHAR, C_INTEGER, I8},
        {MPI_UNSIGNED_CHAR, C_INTEGER, U8},
        {MPI_INT8_T, C_INTEGER, I8},
        {MPI_UINT8_T, C_INTEGER, U8},
        {MPI_INT16_T, C_INTEGER, I16},
        {MPI_UINT16_T, C_INTEGER, U16},
        {MPI_INT32_T, C_INTEGER, I32},
        {MPI_UINT32_T, C_INTEGER, U32},
        {MPI_INT64_T, C_INTEGER, I64},
        {MPI_UINT64_T, C_INTEGER, U64},
        {MPI_AINT, F_INTEGER, SIGNED(MPI_Aint)},
        {MPI_OFFSET, F_INTEGER, SIGNED(MPI_Offset)},
        {MPI_COUNT, F_INTEGER, SIGNED(MPI_Count)},
        {MPI_INTEGER, F_INTEGER, NO_KIND},
        {MPI_LONG_DOUBLE, FLOATING, NO_KIND},
        {MPI_REAL, FLOATING, NO_KIND},
        {MPI_DOUBLE_PRECISION, FLOATING, NO_KIND},
        {MPI_C_FLOAT_COMPLEX, COMPLEX, NO_KIND},
        {MPI_C_DOUBLE_COMPLEX, COMPLEX, NO_KIND},
        {MPI_C_LONG_DOUBLE_COMPLEX, COMPLEX, NO_KIND},
        {MPI_COMPLEX, COMPLEX, NO_KIND},
        {MPI_DOUBLE_COMPLEX, COMPLEX, NO_KIND},
        {MPI_C_BOOL, TRUTH, sizeof(bool) == 1 ? BOOLEAN : NO_KIND},
        {MPI_LOGICAL, TRUTH, NO_KIND},
        {MPI_BYTE, RAW, BYTES},
        {MPI_FLOAT_INT, PAIR, NO_KIND},
        {MPI_DOUBLE_INT, PAIR, NO_KIND},
        {MPI_LONG_INT, PAIR, NO_KIND},
        {MPI_2INT, PAIR, NO_KIND},
        {MPI_SHORT_INT, PAIR, NO_KIND},
        {MPI_LONG_DOUBLE_INT, PAIR, NO_KIND},
        {MPI_2REAL, PAIR, NO_KIND},
        {MPI_2DOUBLE_PRECISION, PAIR, NO_KIND},
        {MPI_2INTEGER, PAIR, NO_KIND},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        *found = known[i];
        if (known[i].type == type) return true;
    }
    return false;
}

static int op_of(MPI_Op op)
{
    const MPI_Op known[OP_COUNT] = {
        [SUM] = MPI_SUM,   [PROD] = MPI_PROD, [MIN] = MPI_MIN,       [MAX] = MPI_MAX,
        [BAND] = MPI_BAND, [BOR] = MPI_BOR,   [BXOR] = MPI_BXOR,     [LAND] = MPI_LAND,
        [LOR] = MPI_LOR,   [LXOR] = MPI_LXOR, [MINLOC] = MPI_MINLOC, [MAXLOC] = MPI_MAXLOC,
    };

    for (int i = 0; i < OP_COUNT; i++) {
        if (known[i] == op) return i;
    }
    return -1;
}

bool pdl__reducer_defined(MPI_Datatype type, MPI_Op op)
{
    known_type_t found;
    int          which = op_of(op);

    return which >= 0 && find_type(type, &found) && (group_ops[found.group] >> which & 1) != 0;
}

pdl_status_t pdl__reducer_init(MPI_Datatype type, MPI_Op op, pdl__reducer_t *reducer)
{
    MPI_Aint     low, extent;
    known_type_t found;
    int          which = op_of(op);
    pdl_status_t status = PDL_MPI(PMPI_Type_get_extent(type, &low, &extent));

    if (status) return status;
    if (extent <= 0) return pdl_error(PDL_ERR_UNSUPPORTED, "the MPI library does not have the type");
    *reducer = (pdl__reducer_t){.type = type, .op = op, .extent = (int64_t)extent};
    if (which >= 0 && which < KERNEL_OPS && find_type(type, &found) && found.kind != NO_KIND)
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
        status =
            PDL_MPI(PMPI_Reduce_local((const char *)in + done * reducer->extent,
                                      (char *)inout + done * reducer->extent, part, reducer->type, reducer->op));
    }
    return status;
}
