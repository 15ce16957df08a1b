/*
 * Times every algorithm at every size, beside the MPI library's own collective, and checks every result.
 *
 * Data are whole numbers in floats, few enough for exact sums, so a result is right or wrong. The time of an
 * iteration is that of its slowest rank, from a common start after a barrier.
 */
#include <paradl/comm/bench.h>

#include <paradl/comm/comm.h>

#include "comm/choose.h"
#include "comm/hosts.h"
#include "comm/mpi/check.h"
#include "comm/mpi/host_order.h"
#include "comm/rounds.h"

#include <paradl/sim/sim.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_FACTOR 4

/* What one rank works with. */
typedef struct bench_run {
    const pdl_bench_options_t *options;
    pdl_bench_t               *bench;
    int                        row_capacity;
    MPI_Comm                   comm;
    pdl_mailbox_t             *mailbox; /* where all ranks are on one machine */
    float                     *input, *data;
    double                    *seconds; /* of the iterations */
} bench_run_t;

/* One algorithm at one size: `executor` NULL is the library's own. */
typedef struct bench_case {
    const char     *algorithm;
    pdl_executor_t *executor;
    double          simulated_s;
    int64_t         elements; /* of the whole vector, a multiple of the ranks where each has a part */
} bench_case_t;

/* All ranks get the worst status of any, with the message of the first rank that has it. */
static pdl_status_t agree(MPI_Comm comm, pdl_status_t status)
{
    char message[512] = "";
    int  rank, mine[2], worst[2];

    pdl__mpi->Comm_rank(comm, &rank);
    mine[0] = status;
    mine[1] = rank;
    pdl__mpi->Allreduce(mine, worst, 1, pdl__mpi->two_ints, pdl__mpi->op[PDL__OP_MINLOC], comm);
    if (worst[0] == PDL_OK) return PDL_OK;
    if (rank == worst[1]) snprintf(message, sizeof(message), "%s", pdl_error_message());
    pdl__mpi->Bcast(message, (int)sizeof(message), pdl__mpi->character, worst[1], comm);
    return pdl_error((pdl_status_t)worst[0], "%s", message);
}

static float value_of(int rank, int64_t i)
{
    return (float)((rank * 3 + i * 5 + i / 7) % 16);
}

static float sum_of(int ranks, int64_t i)
{
    float sum = 0;

    for (int r = 0; r < ranks; r++) sum += value_of(r, i);
    return sum;
}

static int64_t part_of(const bench_run_t *run, const bench_case_t *one)
{
    return one->elements / run->bench->ranks;
}

static pdl_status_t call_library(const bench_run_t *run, const bench_case_t *one)
{
    int          count, part;
    pdl_status_t status = pdl__mpi_count(one->elements, &count);

    if (!status) status = pdl__mpi_count(part_of(run, one), &part);
    if (status) return status;
    switch (run->options->collective) {
    case PDL_COLL_ALLREDUCE:
        return PDL_MPI(pdl__mpi->Allreduce(run->input, run->data, count, pdl__mpi->float32,
                                           pdl__mpi->op[PDL__OP_SUM], run->comm));
    case PDL_COLL_REDUCE_SCATTER:
        return PDL_MPI(pdl__mpi->Reduce_scatter_block(run->input, run->data + run->bench->rank * part_of(run, one),
                                                      part, pdl__mpi->float32, pdl__mpi->op[PDL__OP_SUM],
                                                      run->comm));
    case PDL_COLL_ALLGATHER:
        return PDL_MPI(pdl__mpi->Allgather(run->input, part, pdl__mpi->float32, run->data, part, pdl__mpi->float32,
                                           run->comm));
    case PDL_COLL_BROADCAST: return PDL_MPI(pdl__mpi->Bcast(run->data, count, pdl__mpi->float32, 0, run->comm));
    default:
        return PDL_MPI(
            pdl__mpi->Alltoall(run->input, part, pdl__mpi->float32, run->data, part, pdl__mpi->float32, run->comm));
    }
}

/* A rank that fails in the middle of a collective leaves the others waiting: it ends them all. */
static void call_once(const bench_run_t *run, const bench_case_t *one)
{
    pdl_status_t status =
        one->executor != NULL ? pdl_executor_run(one->executor, run->input, run->data) : call_library(run, one);

    if (status == PDL_OK) return;
    fprintf(stderr, "paradl: rank %d: %s\n", run->bench->rank, pdl_error_message());
    pdl__mpi->Abort(run->comm, 1);
}

/* Fills the buffers; the result buffer so that nothing of an earlier run looks right. */
static void fill(const bench_run_t *run, const bench_case_t *one)
{
    int64_t offset = run->options->collective == PDL_COLL_ALLTOALL ? run->bench->rank * one->elements : 0;

    for (int64_t i = 0; i < one->elements; i++) {
        run->input[i] = value_of(run->bench->rank, offset + i);
        run->data[i] =
            run->options->collective == PDL_COLL_BROADCAST && run->bench->rank == 0 ? value_of(0, i) : -1;
    }
}

static float expected_of(const bench_run_t *run, const bench_case_t *one, int64_t i)
{
    int64_t part = part_of(run, one);

    switch (run->options->collective) {
    case PDL_COLL_ALLGATHER: return value_of((int)(i / part), i % part);
    case PDL_COLL_BROADCAST: return value_of(0, i);
    case PDL_COLL_ALLTOALL:
        return value_of((int)(i / part), i / part * one->elements + run->bench->rank * part + i % part);
    default: return sum_of(run->bench->ranks, i);
    }
}

static int64_t count_wrong(const bench_run_t *run, const bench_case_t *one)
{
    int64_t first = 0, end = one->elements, wrong = 0;

    if (run->options->collective == PDL_COLL_REDUCE_SCATTER) {
        first = run->bench->rank * part_of(run, one);
        end = first + part_of(run, one);
    }
    for (int64_t i = first; i < end; i++) wrong += run->data[i] != expected_of(run, one, i);
    return wrong;
}

/* Share of the bytes that must pass the busiest rank's link, so that bandwidths of collectives compare with a
   link's. */
static double bus_share(pdl_collective_t collective, int ranks)
{
    double others = (double)(ranks - 1) / ranks;

    if (collective == PDL_COLL_BROADCAST) return ranks > 1 ? 1 : 0;
    return collective == PDL_COLL_ALLREDUCE ? 2 * others : others;
}

static pdl_status_t add_row(bench_run_t *run, pdl_bench_row_t row)
{
    pdl_bench_t *bench = run->bench;

    if (bench->row_count == run->row_capacity) {
        int              more = run->row_capacity > 0 ? 2 * run->row_capacity : 64;
        pdl_bench_row_t *grown = realloc(bench->row, (size_t)more * sizeof(*grown));

        if (grown == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
        bench->row = grown;
        run->row_capacity = more;
    }
    bench->row[bench->row_count++] = row;
    return PDL_OK;
}

/* One checked call, a quarter of the iterations to warm up, then those that count. */
static pdl_status_t time_case(const bench_run_t *run, const bench_case_t *one, int64_t *wrong)
{
    int64_t      iterations = run->options->iterations, mine;
    pdl_status_t status;

    fill(run, one);
    call_once(run, one);
    mine = count_wrong(run, one);
    for (int64_t i = -iterations / 4; i < iterations; i++) {
        double begin, seconds;

        pdl__mpi->Barrier(run->comm);
        begin = pdl__mpi->Wtime();
        call_once(run, one);
        seconds = pdl__mpi->Wtime() - begin;
        if (i >= 0) run->seconds[i] = seconds;
    }
    status = PDL_MPI(pdl__mpi->Allreduce(MPI_IN_PLACE, run->seconds, (int)iterations, pdl__mpi->float64,
                                         pdl__mpi->op[PDL__OP_MAX], run->comm));
    return status ? status
                  : PDL_MPI(pdl__mpi->Allreduce(&mine, wrong, 1, pdl__mpi->int64, pdl__mpi->op[PDL__OP_SUM],
                                                run->comm));
}

static pdl_status_t measure(bench_run_t *run, const bench_case_t *one)
{
    int64_t         bytes = one->elements * (int64_t)sizeof(float);
    pdl__rounds_t   rounds;
    pdl_bench_row_t row = {.algorithm = one->algorithm, .bytes = bytes, .simulated_s = one->simulated_s};
    pdl_status_t    status = time_case(run, one, &row.wrong);

    if (status) return status;
    rounds = pdl__rounds_sum_up(run->seconds, (int)run->options->iterations);
    row.min_s = rounds.least_s;
    row.median_s = rounds.median_s;
    row.algorithm_bytes_per_s = row.median_s > 0 ? (double)bytes / row.median_s : 0;
    row.bus_bytes_per_s = row.algorithm_bytes_per_s * bus_share(run->options->collective, run->bench->ranks);
    return agree(run->comm, add_row(run, row));
}

static int64_t chunk_bytes(const bench_run_t *run)
{
    if (run->options->chunk_bytes > 0 || run->options->network == NULL) return run->options->chunk_bytes;
    return (int64_t)pdl_topology_get_spec(run->options->network)->messages.chunk_bytes;
}

/* One schedule at one size. One that cannot give every rank its part is passed over unless it was asked for. */
static pdl_status_t measure_schedule(bench_run_t *run, const pdl_schedule_t *schedule, const char *algorithm,
                                     int64_t elements, double simulated_s)
{
    pdl_executor_spec_t spec = {.schedule = schedule,
                                .comm = run->comm,
                                .type = pdl__mpi->float32,
                                .op = pdl__mpi->op[PDL__OP_SUM],
                                .elements = elements,
                                .chunk_bytes = chunk_bytes(run),
                                .mailbox = run->mailbox};
    bench_case_t        one = {.algorithm = algorithm, .elements = elements, .simulated_s = simulated_s};
    pdl_status_t        status = agree(run->comm, pdl_executor_create(&spec, &one.executor));

    if (status == PDL_ERR_LIMIT && run->options->algorithm == NULL) return PDL_OK;
    if (!status) status = measure(run, &one);
    pdl_executor_destroy(one.executor);
    return status;
}

/* A schedule for the network that is known, with its simulated time, or for any. */
static pdl_status_t make_schedule(const bench_run_t *run, const char *algorithm, int64_t bytes, double *simulated_s,
                                  pdl_schedule_t **schedule)
{
    pdl_schedule_spec_t spec = {.collective = run->options->collective,
                                .algorithm = algorithm,
                                .ranks = run->bench->ranks,
                                .hosts_per_switch = run->options->ranks_per_node};
    pdl_sim_case_t      asked = {.topology = run->options->network,
                                 .collective = spec.collective,
                                 .bytes = bytes,
                                 .options = pdl_sim_options_default()};
    pdl_sim_verdict_t   verdict;
    pdl_status_t        status;

    *simulated_s = 0;
    if (run->options->network == NULL) return pdl_schedule_create_sized(&spec, (double)bytes, schedule);
    status = pdl_sim_run_case(&asked, algorithm, &verdict);
    if (status) return status;
    *simulated_s = verdict.result.time_s;
    asked.segments = verdict.segments;
    pdl_sim_verdict_free(&verdict);
    return pdl_sim_schedule(&asked, algorithm, schedule);
}

static pdl_status_t measure_algorithm(bench_run_t *run, const char *algorithm, int64_t elements)
{
    pdl_schedule_t *schedule = NULL;
    double          simulated_s;
    int64_t         bytes = elements * (int64_t)sizeof(float);
    pdl_status_t    status = agree(run->comm, make_schedule(run, algorithm, bytes, &simulated_s, &schedule));

    if ((status == PDL_ERR_LIMIT || status == PDL_ERR_INPUT || status == PDL_ERR_UNSUPPORTED) &&
        run->options->algorithm == NULL)
        return PDL_OK;
    if (status) return status;
    status = measure_schedule(run, schedule, algorithm, elements, simulated_s);
    pdl_schedule_destroy(schedule);
    return status;
}

/* Marks what auto takes for the rows of a size, from `first` on. */
static pdl_status_t mark_choice(bench_run_t *run, int first, int64_t elements)
{
    pdl__choice_t choice;
    pdl_status_t  status;

    if (run->options->network == NULL) return PDL_OK;
    status = pdl__choose_on_network(run->options->network, run->options->collective,
                                    elements * (int64_t)sizeof(float), &choice);
    for (int i = first; i < run->bench->row_count && !status; i++) {
        pdl_bench_row_t *row = &run->bench->row[i];
        const char      *name = choice.library ? "mpi" : choice.algorithm;

        row->chosen = name != NULL && strcmp(row->algorithm, name) == 0;
    }
    return status;
}

static pdl_status_t measure_size(bench_run_t *run, int64_t elements)
{
    const char *const *names = pdl_coll_algorithms(run->options->collective);
    int                first = run->bench->row_count;
    pdl_status_t       status = measure(run, &(bench_case_t){.algorithm = "mpi", .elements = elements});

    if (run->options->algorithm != NULL)
        return status ? status : measure_algorithm(run, run->options->algorithm, elements);
    for (; !status && *names != NULL; names++) {
        /* Sparse algorithms are for vectors that are mostly zero. */
        if (strncmp(*names, "sparse", 6) != 0) status = measure_algorithm(run, *names, elements);
    }
    return status ? status : mark_choice(run, first, elements);
}

/* Elements for a size in bytes: at least one for each rank, and equal parts where ranks have parts. */
static int64_t elements_of(const bench_run_t *run, int64_t bytes)
{
    int64_t elements = bytes / (int64_t)sizeof(float), ranks = run->bench->ranks;

    if (run->options->collective == PDL_COLL_ALLREDUCE || run->options->collective == PDL_COLL_BROADCAST)
        return elements > 0 ? elements : 1;
    return elements < ranks ? ranks : elements / ranks * ranks;
}

static pdl_status_t reserve(bench_run_t *run)
{
    int64_t elements = elements_of(run, run->options->max_bytes);

    run->input = malloc((size_t)elements * sizeof(*run->input));
    run->data = malloc((size_t)elements * sizeof(*run->data));
    run->seconds = malloc((size_t)run->options->iterations * sizeof(*run->seconds));
    if (run->input == NULL || run->data == NULL || run->seconds == NULL)
        return pdl_error(PDL_ERR_NOMEM,
                         "out of memory for two vectors of %" PRId64 " elements: choose a smaller --max-bytes",
                         elements);
    return PDL_OK;
}

static pdl_status_t measure_sizes(bench_run_t *run)
{
    pdl_status_t status = agree(run->comm, reserve(run));
    int64_t      last = 0;

    for (int64_t bytes = run->options->min_bytes; !status && bytes <= run->options->max_bytes;
         bytes *= SIZE_FACTOR) {
        int64_t elements = elements_of(run, bytes);

        if (elements > last) status = measure_size(run, elements);
        last = elements;
    }
    free(run->input);
    free(run->data);
    free(run->seconds);
    return status;
}

static pdl_status_t check_options(const pdl_bench_options_t *options)
{
    int narrow;

    if (options->min_bytes < 1 || options->max_bytes < options->min_bytes)
        return pdl_error(PDL_ERR_INPUT, "sizes from %" PRId64 " to %" PRId64 " bytes: expected 1 <= least <= most",
                         options->min_bytes, options->max_bytes);
    if (options->iterations < 1 || pdl__mpi_count(options->iterations, &narrow))
        return pdl_error(PDL_ERR_INPUT, "%" PRId64 " iterations: expected 1 or more", options->iterations);
    return pdl__mpi_count(options->max_bytes / (int64_t)sizeof(float), &narrow);
}

static pdl_status_t name_library(pdl_bench_t *bench)
{
    char  text[MPI_MAX_LIBRARY_VERSION_STRING];
    char *name;
    int   length;

    pdl__mpi->Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = '\0';
    name = malloc(strlen(text) + 1);
    if (name == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    memcpy(name, text, strlen(text) + 1);
    bench->library = name;
    return PDL_OK;
}

static pdl_status_t check_hosts(MPI_Comm comm, const pdl_topology_t *network)
{
    uint64_t     order;
    pdl_status_t status = pdl__host_order_find(comm, &order);

    return status ? status : pdl__host_order_check(network, order);
}

static pdl_status_t run_all(const pdl_bench_options_t *options, pdl_bench_t *bench)
{
    bench_run_t  run = {.options = options, .bench = bench, .comm = pdl__mpi->comm_null};
    pdl_status_t status = PDL_MPI(pdl__mpi->Comm_dup(pdl__mpi->comm_world, &run.comm));

    if (status) return status;
    bench->collective = options->collective;
    status = PDL_MPI(pdl__mpi->Comm_set_errhandler(run.comm, pdl__mpi->errors_return));
    if (!status) status = PDL_MPI(pdl__mpi->Comm_rank(run.comm, &bench->rank));
    if (!status) status = PDL_MPI(pdl__mpi->Comm_size(run.comm, &bench->ranks));
    if (!status && options->network != NULL && bench->ranks != pdl_topology_hosts(options->network))
        status = pdl_error(PDL_ERR_INPUT, "the job has %d ranks and the network %d hosts: start one rank on each",
                           bench->ranks, pdl_topology_hosts(options->network));
    if (!status && options->network != NULL) status = check_hosts(run.comm, options->network);
    if (!status) status = agree(run.comm, name_library(bench));
    if (!status && options->network == NULL) status = pdl_mailbox_create(run.comm, &run.mailbox);
    if (!status) status = measure_sizes(&run);
    pdl_mailbox_destroy(run.mailbox);
    pdl__mpi->Comm_free(&run.comm);
    return status;
}

pdl_status_t pdl_bench_run(const pdl_bench_options_t *options, pdl_bench_t **result)
{
    pdl_bench_t *bench;
    int          running = 1;
    bool         started = false;
    pdl_status_t status = check_options(options);

    if (!status) status = pdl__mpi_load();
    if (status) return status;
    bench = calloc(1, sizeof(*bench));
    if (bench == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    status = PDL_MPI(pdl__mpi->Initialized(&running));
    if (!status && !running) {
        status = PDL_MPI(pdl__mpi->Init(NULL, NULL));
        started = status == PDL_OK;
    }
    if (!status) status = run_all(options, bench);
    if (started) pdl__mpi->Finalize();
    if (status) {
        pdl_bench_destroy(bench);
        return status;
    }
    *result = bench;
    return PDL_OK;
}

void pdl_bench_destroy(pdl_bench_t *bench)
{
    if (bench == NULL) return;
    free((void *)(uintptr_t)bench->library);
    free(bench->row);
    free(bench);
}
