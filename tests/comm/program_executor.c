/*
 * Under mpirun: runs every algorithm that supports the ranks of the job and compares with the MPI library's own
 * collectives, bit by bit. Values are small whole numbers, so that no order of additions changes a result.
 */
#include <paradl/comm/comm.h>

#include "test.h"

#include <stdlib.h>

static int rank, ranks;

enum fill { WHOLE, FLOAT, DOUBLE, LONG_DOUBLE, TRUTH, FLOAT_COMPLEX, INT_PAIR, DOUBLE_PAIR };

typedef struct type_case {
    const char  *name;
    MPI_Datatype type;
    enum fill    fill;
} type_case_t;

typedef struct element_double_int {
    double value;
    int    place;
} element_double_int_t;

#define PERIOD 2100 /* a multiple of 3 and 7, after which the values below come again */

/* A small value for an element of a rank; products of eight of them are exact everywhere. */
static int value_of(int64_t i, int of_rank)
{
    return 1 + (int)((i * 5 + of_rank * 3 + i % 7 * of_rank) % 3);
}

static void fill_one(char *at, enum fill fill, size_t size, int64_t i, int of_rank)
{
    int value = value_of(i, of_rank);

    memset(at, 0, size);
    switch (fill) {
    case WHOLE: *at = (char)value; break; /* little-endian; the others of its bytes are zero */
    case FLOAT: *(float *)at = (float)value; break;
    case DOUBLE: *(double *)at = value; break;
    case LONG_DOUBLE: *(long double *)at = value; break;
    case TRUTH: *(bool *)at = value > 1; break;
    case FLOAT_COMPLEX:
        ((float *)at)[0] = (float)value;
        ((float *)at)[1] = (float)(of_rank % 2);
        break;
    case INT_PAIR:
        ((int *)at)[0] = value;
        ((int *)at)[1] = of_rank;
        break;
    case DOUBLE_PAIR: *(element_double_int_t *)at = (element_double_int_t){value, of_rank}; break;
    }
}

static size_t extent_of(MPI_Datatype type)
{
    MPI_Aint low, extent;

    MPI_Type_get_extent(type, &low, &extent);
    return (size_t)extent;
}

static char *make_vector(const type_case_t *type, int64_t count)
{
    size_t extent = extent_of(type->type);
    char  *vector = calloc((size_t)count + 1, extent);

    if (vector == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    for (int64_t i = 0; i < count && i < PERIOD; i++)
        fill_one(vector + (size_t)i * extent, type->fill, extent, i, rank);
    for (int64_t i = PERIOD; i < count; i += PERIOD)
        memcpy(vector + (size_t)i * extent, vector, (size_t)(count - i < PERIOD ? count - i : PERIOD) * extent);
    return vector;
}

/* `shape` 1 and 2 are two ranks per node, and two rows. NULL where the algorithm does not support that. */
static pdl_schedule_t *make_schedule(pdl_collective_t collective, const char *algorithm, int shape)
{
    pdl_schedule_spec_t spec = {.collective = collective,
                                .algorithm = algorithm,
                                .ranks = ranks,
                                .root = ranks / 2};
    pdl_schedule_t     *schedule;

    if (shape == 1) spec.hosts_per_switch = 2;
    if (shape == 2) spec.rows = 2;
    if (shape == 2) spec.columns = ranks / 2;
    if (shape > 0 && ranks % 2 != 0) return NULL;
    return strncmp(algorithm, "sparse", 6) != 0 && pdl_schedule_create(&spec, &schedule) == PDL_OK ? schedule
                                                                                                   : NULL;
}

/* Two of three executors send through memory that the ranks share. */
static pdl_mailbox_t *mailbox;

/* NULL when the schedule has no part for every rank. */
static pdl_executor_t *make_executor(const pdl_schedule_t *schedule, const type_case_t *type, MPI_Op op,
                                     int64_t elements, const int64_t *counts, int64_t chunk)
{
    static int          made;
    pdl_executor_spec_t spec = {.schedule = schedule,
                                .mailbox = made++ % 3 != 0 ? mailbox : NULL,
                                .comm = MPI_COMM_WORLD,
                                .type = type->type,
                                .op = op,
                                .elements = elements,
                                .counts = counts,
                                .chunk_bytes = chunk};
    pdl_executor_t     *executor = NULL;
    pdl_status_t        status = pdl_executor_create(&spec, &executor);

    if (status != PDL_ERR_LIMIT) CHECK_OK(status);
    return executor;
}

static void check_same(const char *what, const pdl_schedule_t *schedule, const type_case_t *type, int64_t elements,
                       const char *got, const char *expected, size_t bytes)
{
    size_t at = 0;

    while (at < bytes && got[at] == expected[at]) at++;
    if (at == bytes) return;
    test_fail_at(__FILE__, __LINE__);
    printf("rank %d of %d: %s %s, %s, %lld elements: byte %zu of %zu is wrong\n", rank, ranks, what,
           pdl_schedule_algorithm(schedule), type->name, (long long)elements, at, bytes);
}

static void try_allreduce(const pdl_schedule_t *schedule, const type_case_t *type, MPI_Op op, int64_t elements,
                          int64_t chunk)
{
    size_t          bytes = (size_t)elements * extent_of(type->type);
    char           *input = make_vector(type, elements), *data = make_vector(type, elements);
    char           *expected = make_vector(type, elements);
    pdl_executor_t *executor = make_executor(schedule, type, op, elements, NULL, chunk);

    PMPI_Allreduce(input, expected, (int)elements, type->type, op, MPI_COMM_WORLD);
    if (executor != NULL) {
        CHECK_OK(pdl_executor_run(executor, NULL, data));
        check_same("allreduce in place", schedule, type, elements, data, expected, bytes);
        memset(data, 0, bytes);
        CHECK_OK(pdl_executor_run(executor, input, data));
        check_same("allreduce", schedule, type, elements, data, expected, bytes);
    }
    pdl_executor_destroy(executor);
    free(input);
    free(data);
    free(expected);
}

/* Parts of very different size, none for every third rank. */
static void uneven(int64_t elements, int64_t *counts, int *narrow)
{
    int64_t left = elements;

    for (int r = 0; r < ranks; r++) {
        counts[r] = r == ranks - 1 ? left : r % 3 == 1 ? 0 : left / 3;
        narrow[r] = (int)counts[r];
        left -= counts[r];
    }
}

static void try_reduce_scatter(const pdl_schedule_t *schedule, const type_case_t *type, MPI_Op op, int64_t elements,
                               int64_t chunk)
{
    size_t          extent = extent_of(type->type);
    char           *input = make_vector(type, elements), *data = make_vector(type, elements);
    char           *expected = make_vector(type, elements);
    int64_t         counts[64], first, count;
    int             narrow[64];
    pdl_executor_t *executor;

    uneven(elements, counts, narrow);
    executor = make_executor(schedule, type, op, elements, counts, chunk);
    PMPI_Reduce_scatter(input, expected, narrow, type->type, op, MPI_COMM_WORLD);
    if (executor != NULL) {
        CHECK_OK(pdl_executor_run(executor, input, data));
        pdl_executor_part(executor, rank, &first, &count);
        CHECK_INT(count, counts[rank]);
        check_same("reduce-scatter", schedule, type, elements, data + (size_t)first * extent, expected,
                   (size_t)count * extent);
    }
    pdl_executor_destroy(executor);
    free(input);
    free(data);
    free(expected);
}

static void try_allgather(const pdl_schedule_t *schedule, const type_case_t *type, int64_t elements, int64_t chunk)
{
    size_t          extent = extent_of(type->type);
    char           *input = make_vector(type, elements), *data = make_vector(type, elements);
    char           *expected = make_vector(type, elements);
    int64_t         counts[64];
    int             narrow[64], first[64];
    pdl_executor_t *executor;

    uneven(elements, counts, narrow);
    first[0] = 0;
    for (int r = 1; r < ranks; r++) first[r] = first[r - 1] + narrow[r - 1];
    executor = make_executor(schedule, type, MPI_OP_NULL, elements, counts, chunk);
    PMPI_Allgatherv(input, narrow[rank], type->type, expected, narrow, first, type->type, MPI_COMM_WORLD);
    if (executor != NULL) {
        CHECK_OK(pdl_executor_run(executor, input, data));
        check_same("allgather", schedule, type, elements, data, expected, (size_t)elements * extent);
        memcpy(data + (size_t)first[rank] * extent, input, (size_t)narrow[rank] * extent);
        CHECK_OK(pdl_executor_run(executor, NULL, data));
        check_same("allgather in place", schedule, type, elements, data, expected, (size_t)elements * extent);
    }
    pdl_executor_destroy(executor);
    free(input);
    free(data);
    free(expected);
}

static void try_alltoall(const pdl_schedule_t *schedule, const type_case_t *type, int64_t part, int64_t chunk)
{
    int64_t         elements = part * ranks;
    char           *input = make_vector(type, elements), *data = make_vector(type, elements);
    char           *expected = make_vector(type, elements);
    pdl_executor_t *executor = make_executor(schedule, type, MPI_OP_NULL, elements, NULL, chunk);

    PMPI_Alltoall(input, (int)part, type->type, expected, (int)part, type->type, MPI_COMM_WORLD);
    if (executor != NULL) {
        CHECK_OK(pdl_executor_run(executor, input, data));
        check_same("all-to-all", schedule, type, elements, data, expected,
                   (size_t)elements * extent_of(type->type));
    }
    pdl_executor_destroy(executor);
    free(input);
    free(data);
    free(expected);
}

static void try_broadcast(const pdl_schedule_t *schedule, const type_case_t *type, int64_t elements, int64_t chunk)
{
    size_t          bytes = (size_t)elements * extent_of(type->type);
    char           *data = make_vector(type, elements), *expected = make_vector(type, elements);
    pdl_executor_t *executor = make_executor(schedule, type, MPI_OP_NULL, elements, NULL, chunk);

    PMPI_Bcast(expected, (int)elements, type->type, ranks / 2, MPI_COMM_WORLD);
    if (executor != NULL) {
        CHECK_OK(pdl_executor_run(executor, NULL, data));
        check_same("broadcast", schedule, type, elements, data, expected, bytes);
    }
    pdl_executor_destroy(executor);
    free(data);
    free(expected);
}

static void try_one(const pdl_schedule_t *schedule, const type_case_t *type, MPI_Op op, int64_t elements,
                    int64_t chunk)
{
    switch (pdl_schedule_collective(schedule)) {
    case PDL_COLL_ALLREDUCE: try_allreduce(schedule, type, op, elements, chunk); break;
    case PDL_COLL_REDUCE_SCATTER: try_reduce_scatter(schedule, type, op, elements, chunk); break;
    case PDL_COLL_ALLGATHER: try_allgather(schedule, type, elements, chunk); break;
    case PDL_COLL_ALLTOALL: try_alltoall(schedule, type, elements / ranks, chunk); break;
    case PDL_COLL_BROADCAST: try_broadcast(schedule, type, elements, chunk); break;
    default: break;
    }
}

typedef void (*schedule_fn_t)(const pdl_schedule_t *schedule);

static void for_each_schedule(pdl_collective_t collective, int shape, schedule_fn_t run)
{
    const char *const *names = pdl_coll_algorithms(collective);

    for (; *names != NULL; names++) {
        pdl_schedule_t *schedule = make_schedule(collective, *names, shape);

        if (schedule == NULL) continue;
        run(schedule);
        pdl_schedule_destroy(schedule);
    }
}

static const type_case_t int_case = {"int", MPI_INT, WHOLE}, float_case = {"float", MPI_FLOAT, FLOAT};

/* Sizes around the number of ranks, and chunks so small that messages have many. */
static void sizes_of(const pdl_schedule_t *schedule)
{
    const int64_t sizes[] = {0, 1, ranks - 1, ranks + 1, 2 * ranks, 1000};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        try_one(schedule, &int_case, MPI_SUM, sizes[i], 0);
        try_one(schedule, &float_case, MPI_SUM, sizes[i], 60);
    }
    try_one(schedule, &float_case, MPI_SUM, 1000003, 0);
}

static void every_size(void)
{
    for (int c = 0; c < PDL_COLL_COUNT; c++) for_each_schedule((pdl_collective_t)c, 0, sizes_of);
}

/* What is off the straight path: packed messages, several ports, rows and columns. */
static void shapes_of(const pdl_schedule_t *schedule)
{
    try_one(schedule, &float_case, MPI_SUM, 6 * ranks + 1, 0);
    try_one(schedule, &int_case, MPI_SUM, 3001, 200);
}

static void every_shape(void)
{
    for (int c = 0; c < PDL_COLL_COUNT; c++) {
        for_each_schedule((pdl_collective_t)c, 1, shapes_of);
        for_each_schedule((pdl_collective_t)c, 2, shapes_of);
    }
}

static void types_of(const pdl_schedule_t *schedule)
{
    const type_case_t whole[] = {{"signed char", MPI_SIGNED_CHAR, WHOLE},
                                 {"uint8", MPI_UINT8_T, WHOLE},
                                 {"short", MPI_SHORT, WHOLE},
                                 {"uint16", MPI_UINT16_T, WHOLE},
                                 {"int", MPI_INT, WHOLE},
                                 {"unsigned", MPI_UNSIGNED, WHOLE},
                                 {"long", MPI_LONG, WHOLE},
                                 {"uint64", MPI_UINT64_T, WHOLE}};
    const type_case_t real[] = {{"float", MPI_FLOAT, FLOAT},
                                {"double", MPI_DOUBLE, DOUBLE},
                                {"long double", MPI_LONG_DOUBLE, LONG_DOUBLE}};
    const type_case_t pairs[] = {{"2int", MPI_2INT, INT_PAIR}, {"double int", MPI_DOUBLE_INT, DOUBLE_PAIR}};
    const type_case_t truth = {"bool", MPI_C_BOOL, TRUTH}, byte = {"byte", MPI_BYTE, WHOLE};
    const type_case_t complex_float = {"complex", MPI_C_FLOAT_COMPLEX, FLOAT_COMPLEX};
    const MPI_Op      ops[] = {MPI_SUM, MPI_PROD, MPI_MIN,  MPI_MAX, MPI_BAND,
                               MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR};

    for (size_t o = 0; o < sizeof(ops) / sizeof(ops[0]); o++) {
        for (size_t t = 0; t < sizeof(whole) / sizeof(whole[0]); t++) try_one(schedule, &whole[t], ops[o], 37, 0);
        for (size_t t = 0; t < sizeof(real) / sizeof(real[0]) && o < 4; t++)
            try_one(schedule, &real[t], ops[o], 37, 0);
        if (o >= 4 && o < 7) try_one(schedule, &byte, ops[o], 37, 0);
        if (o >= 7) try_one(schedule, &truth, ops[o], 37, 0);
        if (o < 2) try_one(schedule, &complex_float, ops[o], 37, 0);
    }
    for (size_t t = 0; t < sizeof(pairs) / sizeof(pairs[0]); t++) {
        try_one(schedule, &pairs[t], MPI_MINLOC, 37, 0);
        try_one(schedule, &pairs[t], MPI_MAXLOC, 37, 40);
    }
}

static void every_type_and_operation(void)
{
    for_each_schedule(PDL_COLL_ALLREDUCE, 0, types_of);
    for_each_schedule(PDL_COLL_REDUCE_SCATTER, 0, types_of);
}

/* Sums that depend on their order come out alike on all ranks, and alike when they are run again. */
static void same_bits_of(const pdl_schedule_t *schedule)
{
    enum { COUNT = 1001 };
    static double   input[COUNT], first[COUNT], again[COUNT], root[COUNT];
    pdl_executor_t *executor =
        make_executor(schedule, &(type_case_t){"double", MPI_DOUBLE, DOUBLE}, MPI_SUM, COUNT, NULL, 400);

    for (int i = 0; i < COUNT; i++) input[i] = sin(i * 1.7 + rank) * exp2((i * 31 + rank * 17) % 40);
    CHECK_OK(pdl_executor_run(executor, input, first));
    CHECK_OK(pdl_executor_run(executor, input, again));
    CHECK(memcmp(first, again, sizeof(first)) == 0);
    memcpy(root, first, sizeof(first));
    MPI_Bcast(root, COUNT, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (memcmp(root, first, sizeof(first)) != 0) {
        test_fail_at(__FILE__, __LINE__);
        printf("%s on %d ranks: ranks 0 and %d differ\n", pdl_schedule_algorithm(schedule), ranks, rank);
    }
    pdl_executor_destroy(executor);
}

static void same_bits_on_every_rank(void)
{
    for_each_schedule(PDL_COLL_ALLREDUCE, 0, same_bits_of);
}

static void refuses_what_does_not_fit(void)
{
    pdl_schedule_spec_t other = {.collective = PDL_COLL_ALLREDUCE, .algorithm = "ring", .ranks = ranks + 1};
    pdl_schedule_t     *schedule;
    pdl_executor_spec_t spec = {.comm = MPI_COMM_WORLD, .type = MPI_INT, .op = MPI_SUM, .elements = 8};
    pdl_executor_t     *executor;

    REQUIRE_OK(pdl_schedule_create(&other, &schedule));
    spec.schedule = schedule;
    CHECK_ERROR(pdl_executor_create(&spec, &executor), "ranks, the communicator has");
    pdl_schedule_destroy(schedule);
}

int main(int argc, char **argv)
{
    int failed, all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank > 0) setvbuf(stdout, NULL, _IOLBF, 0);
    REQUIRE_OK(pdl_mailbox_create(MPI_COMM_WORLD, &mailbox));
    CHECK(ranks == 1 ? mailbox == NULL : mailbox != NULL);
    RUN(every_size);
    RUN(every_shape);
    RUN(every_type_and_operation);
    RUN(same_bits_on_every_rank);
    RUN(refuses_what_does_not_fit);
    pdl_mailbox_destroy(mailbox);
    failed = test_failures != 0;
    MPI_Allreduce(&failed, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return all != 0 || test_count == 0;
}
