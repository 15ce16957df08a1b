/*
 * The functions and constants of MPI that the library uses, in a table, so that MPI may be missing where it is not used.
 * Its types are those of the MPI that the library was built with.
 *
 * Functions are called by their PMPI names: tools that watch a program see the collectives that the program asked for, and
 * libparadl-mpi.so can interpose them without meeting itself.
 */
#ifndef PDL_COMM_PLUGIN_MPI_H
#define PDL_COMM_PLUGIN_MPI_H

#include <mpi.h>

/* clang-format off */
#define PDL__MPI_MAP(X)                                                                                  \
    X(Abort) X(Allgather) X(Allreduce) X(Alltoall) X(Barrier) X(Bcast) X(Comm_dup) X(Comm_free)          \
    X(Comm_rank) X(Comm_set_errhandler) X(Comm_size) X(Comm_split) X(Comm_split_type) X(Error_string)    \
    X(Finalize) X(Get_count) X(Get_library_version) X(Iallgather) X(Iallgatherv) X(Iallreduce)           \
    X(Ibarrier) X(Ibcast) X(Init) X(Init_thread) X(Initialized) X(Iprobe) X(Irecv) X(Ireduce_scatter) X(Isend)     \
    X(Reduce_local) X(Reduce_scatter_block) X(Request_get_status) X(Test) X(Type_get_extent) X(Wait)     \
    X(Wtime)
/* clang-format on */

/* Operations that MPI predefines: those that kernels of ours can do, then the others. */
typedef enum pdl__mpi_op {
    PDL__OP_SUM,
    PDL__OP_PROD,
    PDL__OP_MIN,
    PDL__OP_MAX,
    PDL__OP_BAND,
    PDL__OP_BOR,
    PDL__OP_BXOR,
    PDL__OP_LAND,
    PDL__OP_LOR,
    PDL__OP_LXOR,
    PDL__OP_KERNELS,
    PDL__OP_MINLOC = PDL__OP_KERNELS,
    PDL__OP_MAXLOC,
    PDL__OP_COUNT
} pdl__mpi_op_t;

/* Types that kernels of ours can reduce. */
typedef enum pdl__mpi_kind {
    PDL__KIND_I8,
    PDL__KIND_U8,
    PDL__KIND_I16,
    PDL__KIND_U16,
    PDL__KIND_I32,
    PDL__KIND_U32,
    PDL__KIND_I64,
    PDL__KIND_U64,
    PDL__KIND_F32,
    PDL__KIND_F64,
    PDL__KIND_BOOL,
    PDL__KIND_BYTES,
    PDL__KIND_COUNT,
    PDL__KIND_NONE = PDL__KIND_COUNT
} pdl__mpi_kind_t;

typedef struct pdl__mpi_type {
    MPI_Datatype    type;
    unsigned        ops;  /* for which MPI defines them: bits of pdl__mpi_op_t */
    pdl__mpi_kind_t kind; /* PDL__KIND_NONE: no kernels of ours */
} pdl__mpi_type_t;

typedef struct pdl__mpi {
#define PDL__MPI_FIELD(name) __typeof__(&PMPI_##name) name;
    PDL__MPI_MAP(PDL__MPI_FIELD)
#undef PDL__MPI_FIELD
    MPI_Comm               comm_world, comm_null;
    MPI_Datatype           byte, character, float32, float64, int64, two_ints, type_null;
    MPI_Op                 op[PDL__OP_COUNT], op_null;
    MPI_Request            request_null;
    MPI_Info               info_null;
    MPI_Errhandler         errors_return;
    const pdl__mpi_type_t *types; /* that MPI predefines, as far as it defines operations for them */
    int                    type_count;
} pdl__mpi_t;

extern const pdl__mpi_t pdl__mpi_functions; /* inside the plugin and libparadl-mpi.so */

#endif
