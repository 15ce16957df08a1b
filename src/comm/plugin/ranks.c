/*
 * The table of MPI, for runs on several ranks. (libparadl-mpi.so is another library: that for programs of others.)
 */
#include "comm/plugin/mpi.h"

#include "base/plugin.h"

#include <stdbool.h>

/* The integer kind of a C type whose width depends on the machine. */
#define SIGNED(type)                     \
    (sizeof(type) == 8   ? PDL__KIND_I64 \
     : sizeof(type) == 4 ? PDL__KIND_I32 \
     : sizeof(type) == 2 ? PDL__KIND_I16 \
                         : PDL__KIND_I8)
#define UNSIGNED(type)                   \
    (sizeof(type) == 8   ? PDL__KIND_U64 \
     : sizeof(type) == 4 ? PDL__KIND_U32 \
     : sizeof(type) == 2 ? PDL__KIND_U16 \
                         : PDL__KIND_U8)

/* The groups of types for which MPI defines operations. */
#define FLOATING  (1u << PDL__OP_SUM | 1u << PDL__OP_PROD | 1u << PDL__OP_MIN | 1u << PDL__OP_MAX)
#define RAW       (1u << PDL__OP_BAND | 1u << PDL__OP_BOR | 1u << PDL__OP_BXOR)
#define TRUTH     (1u << PDL__OP_LAND | 1u << PDL__OP_LOR | 1u << PDL__OP_LXOR)
#define COMPLEX   (1u << PDL__OP_SUM | 1u << PDL__OP_PROD)
#define PAIR      (1u << PDL__OP_MINLOC | 1u << PDL__OP_MAXLOC)
#define C_INTEGER (FLOATING | RAW | TRUTH)
#define F_INTEGER (FLOATING | RAW)

static const pdl__mpi_type_t types[] = {
    {MPI_FLOAT, FLOATING, PDL__KIND_F32},
    {MPI_DOUBLE, FLOATING, PDL__KIND_F64},
    {MPI_INT, C_INTEGER, SIGNED(int)},
    {MPI_UNSIGNED, C_INTEGER, UNSIGNED(int)},
    {MPI_LONG, C_INTEGER, SIGNED(long)},
    {MPI_UNSIGNED_LONG, C_INTEGER, UNSIGNED(long)},
    {MPI_LONG_LONG, C_INTEGER, SIGNED(long long)},
    {MPI_UNSIGNED_LONG_LONG, C_INTEGER, UNSIGNED(long long)},
    {MPI_SHORT, C_INTEGER, SIGNED(short)},
    {MPI_UNSIGNED_SHORT, C_INTEGER, UNSIGNED(short)},
    {MPI_SIGNED_CHAR, C_INTEGER, PDL__KIND_I8},
    {MPI_UNSIGNED_CHAR, C_INTEGER, PDL__KIND_U8},
    {MPI_INT8_T, C_INTEGER, PDL__KIND_I8},
    {MPI_UINT8_T, C_INTEGER, PDL__KIND_U8},
    {MPI_INT16_T, C_INTEGER, PDL__KIND_I16},
    {MPI_UINT16_T, C_INTEGER, PDL__KIND_U16},
    {MPI_INT32_T, C_INTEGER, PDL__KIND_I32},
    {MPI_UINT32_T, C_INTEGER, PDL__KIND_U32},
    {MPI_INT64_T, C_INTEGER, PDL__KIND_I64},
    {MPI_UINT64_T, C_INTEGER, PDL__KIND_U64},
    {MPI_AINT, F_INTEGER, SIGNED(MPI_Aint)},
    {MPI_OFFSET, F_INTEGER, SIGNED(MPI_Offset)},
    {MPI_COUNT, F_INTEGER, SIGNED(MPI_Count)},
    {MPI_INTEGER, F_INTEGER, PDL__KIND_NONE},
    {MPI_LONG_DOUBLE, FLOATING, PDL__KIND_NONE},
    {MPI_REAL, FLOATING, PDL__KIND_NONE},
    {MPI_DOUBLE_PRECISION, FLOATING, PDL__KIND_NONE},
    {MPI_C_FLOAT_COMPLEX, COMPLEX, PDL__KIND_NONE},
    {MPI_C_DOUBLE_COMPLEX, COMPLEX, PDL__KIND_NONE},
    {MPI_C_LONG_DOUBLE_COMPLEX, COMPLEX, PDL__KIND_NONE},
    {MPI_COMPLEX, COMPLEX, PDL__KIND_NONE},
    {MPI_DOUBLE_COMPLEX, COMPLEX, PDL__KIND_NONE},
    {MPI_C_BOOL, TRUTH, sizeof(bool) == 1 ? PDL__KIND_BOOL : PDL__KIND_NONE},
    {MPI_LOGICAL, TRUTH, PDL__KIND_NONE},
    {MPI_BYTE, RAW, PDL__KIND_BYTES},
    {MPI_FLOAT_INT, PAIR, PDL__KIND_NONE},
    {MPI_DOUBLE_INT, PAIR, PDL__KIND_NONE},
    {MPI_LONG_INT, PAIR, PDL__KIND_NONE},
    {MPI_2INT, PAIR, PDL__KIND_NONE},
    {MPI_SHORT_INT, PAIR, PDL__KIND_NONE},
    {MPI_LONG_DOUBLE_INT, PAIR, PDL__KIND_NONE},
    {MPI_2REAL, PAIR, PDL__KIND_NONE},
    {MPI_2DOUBLE_PRECISION, PAIR, PDL__KIND_NONE},
    {MPI_2INTEGER, PAIR, PDL__KIND_NONE},
};

const pdl__mpi_t pdl__mpi_functions = {
#define FUNCTION(name) .name = PMPI_##name,
    PDL__MPI_MAP(FUNCTION)
#undef FUNCTION
        .comm_world = MPI_COMM_WORLD,
    .comm_null = MPI_COMM_NULL,
    .byte = MPI_BYTE,
    .character = MPI_CHAR,
    .float32 = MPI_FLOAT,
    .float64 = MPI_DOUBLE,
    .int64 = MPI_INT64_T,
    .two_ints = MPI_2INT,
    .type_null = MPI_DATATYPE_NULL,
    .op = {[PDL__OP_SUM] = MPI_SUM,
           [PDL__OP_PROD] = MPI_PROD,
           [PDL__OP_MIN] = MPI_MIN,
           [PDL__OP_MAX] = MPI_MAX,
           [PDL__OP_BAND] = MPI_BAND,
           [PDL__OP_BOR] = MPI_BOR,
           [PDL__OP_BXOR] = MPI_BXOR,
           [PDL__OP_LAND] = MPI_LAND,
           [PDL__OP_LOR] = MPI_LOR,
           [PDL__OP_LXOR] = MPI_LXOR,
           [PDL__OP_MINLOC] = MPI_MINLOC,
           [PDL__OP_MAXLOC] = MPI_MAXLOC},
    .op_null = MPI_OP_NULL,
    .request_null = MPI_REQUEST_NULL,
    .info_null = MPI_INFO_NULL,
    .errors_return = MPI_ERRORS_RETURN,
    .types = types,
    .type_count = (int)(sizeof(types) / sizeof(types[0])),
};
PDL__PLUGIN(ranks, pdl__mpi_functions)
