/*
 * The environment variables of libparadl-mpi.so.
 *
 *     PARADL_ALLREDUCE, PARADL_REDUCE_SCATTER, PARADL_ALLGATHER, PARADL_ALLTOALL
 *                           auto (default), mpi (the library's own), or an algorithm of `paradl coll list`
 *     PARADL_IALLREDUCE     the same; without it MPI_Iallreduce is left to the library
 *     PARADL_LATENCY, PARADL_BANDWIDTH   of the cost model behind auto: "2us", "10GB/s"
 *     PARADL_MEASURE=1      measures both when a communicator is first used; algorithms may then vary between runs
 *     PARADL_NETWORK        topology of the hosts as paradl calibrate --network has written it: auto then simulates the schedules on it
 *     PARADL_CHUNK          bytes of a message chunk
 *     PARADL_RANKS_PER_NODE for the hierarchical algorithms
 *     PARADL_VERBOSE=1      says what is chosen and what is left to the library
 */
#include "comm/interpose/interpose.h"

#include <paradl/base/units.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fixed, so that a program gives the same bits in every run. */
#define DEFAULT_BYTES_PER_S 10e9

static pdl__settings_t settings;
static pthread_once_t  once = PTHREAD_ONCE_INIT;

/* The first rank speaks. The settings are read before MPI runs, when only the launcher can tell which one it is. */
static bool speaks(void)
{
    static const char *const variables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
    int                      rank = 0, running = 0;

    PMPI_Initialized(&running);
    if (running) PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (size_t i = 0; !running && i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *text = getenv(variables[i]);

        if (text != NULL) return strcmp(text, "0") == 0;
    }
    return rank == 0;
}

void pdl__warn(const char *variable, const char *text)
{
    if (speaks()) fprintf(stderr, "paradl-mpi: %s: %s\n", variable, text);
}

static bool is_algorithm(pdl_collective_t collective, const char *name)
{
    return pdl_coll_describe(collective, name) != NULL || strcmp(name, "auto") == 0 || strcmp(name, "mpi") == 0;
}

static const char *read_algorithm(const char *variable, pdl_collective_t collective, const char *standard)
{
    const char *text = getenv(variable);

    if (text == NULL || *text == '\0') return standard;
    if (is_algorithm(collective, text)) return text;
    pdl__warn(variable,
              "expected auto, mpi or an algorithm of \"paradl coll list\"; the MPI library's own is used");
    return "mpi";
}

static double read_quantity(const char *variable, pdl_unit_t unit, double standard)
{
    const char *text = getenv(variable);
    double      value;

    if (text == NULL || *text == '\0') return standard;
    if (pdl_parse_quantity(text, unit, &value) == PDL_OK && value > 0) return value;
    pdl__warn(variable, "expected a positive number, such as 2us, 10GB/s or 256KiB; the default is used");
    return standard;
}

/* Rank r of the job is on host r. */
static pdl_topology_t *read_network(void)
{
    const char         *text = getenv("PARADL_NETWORK");
    pdl_topology_spec_t wanted;
    pdl_topology_t     *network = NULL;

    if (text == NULL || *text == '\0') return NULL;
    wanted = pdl_topology_spec(text);
    if (pdl_topology_create(&wanted, &network) == PDL_OK) return network;
    pdl__warn("PARADL_NETWORK", pdl_error_message());
    return NULL;
}

static bool read_flag(const char *variable)
{
    const char *text = getenv(variable);

    return text != NULL && *text != '\0' && strcmp(text, "0") != 0;
}

static void read_all(void)
{
    settings.algorithm[PDL_COLL_ALLREDUCE] = read_algorithm("PARADL_ALLREDUCE", PDL_COLL_ALLREDUCE, "auto");
    settings.algorithm[PDL_COLL_REDUCE_SCATTER] =
        read_algorithm("PARADL_REDUCE_SCATTER", PDL_COLL_REDUCE_SCATTER, "auto");
    settings.algorithm[PDL_COLL_ALLGATHER] = read_algorithm("PARADL_ALLGATHER", PDL_COLL_ALLGATHER, "auto");
    settings.algorithm[PDL_COLL_ALLTOALL] = read_algorithm("PARADL_ALLTOALL", PDL_COLL_ALLTOALL, "auto");
    settings.in_background = read_algorithm("PARADL_IALLREDUCE", PDL_COLL_ALLREDUCE, NULL);
    if (settings.in_background != NULL && strcmp(settings.in_background, "mpi") == 0) settings.in_background = NULL;
    settings.verbose = read_flag("PARADL_VERBOSE");
    settings.measure = read_flag("PARADL_MEASURE");
    settings.latency_s = read_quantity("PARADL_LATENCY", PDL_UNIT_SECONDS, 0);
    settings.bytes_per_s = read_quantity("PARADL_BANDWIDTH", PDL_UNIT_BYTE_RATE, DEFAULT_BYTES_PER_S);
    settings.network = read_network();
    settings.chunk_bytes = (int64_t)
        read_quantity("PARADL_CHUNK", PDL_UNIT_BYTES,
                      settings.network != NULL ? pdl_topology_get_spec(settings.network)->messages.chunk_bytes : 0);
    settings.ranks_per_node = (int64_t)read_quantity("PARADL_RANKS_PER_NODE", PDL_UNIT_NONE, 0);
}

const pdl__settings_t *pdl__settings(void)
{
    pthread_once(&once, read_all);
    return &settings;
}

void pdl__say_why(MPI_Comm comm, const char *call, pdl__reason_t reason)
{
    static const char *const texts[PDL__REASON_COUNT] = {
        [PDL__INTERCOMMUNICATOR] = "on an intercommunicator",
        [PDL__USER_OPERATION] = "with an operation that is not predefined",
        [PDL__DERIVED_TYPE] = "with a type that is not predefined, or for which the operation is not defined",
        [PDL__TOO_LARGE] = "of more than 2 GiB per rank",
        [PDL__NO_SCHEDULE] = "for which no algorithm fits these ranks or is faster",
        [PDL__NO_THREADS] = "without a helper thread: the library does not allow several threads",
        [PDL__NEW_COMMUNICATOR] = "on a communicator that has seen no blocking collective yet",
    };
    static atomic_bool said[PDL__REASON_COUNT];
    int                rank;

    if (!pdl__settings()->verbose || atomic_exchange(&said[reason], true)) return;
    if (PMPI_Comm_rank(comm, &rank) == MPI_SUCCESS && rank == 0)
        fprintf(stderr, "paradl-mpi: %s %s: left to the MPI library\n", call, texts[reason]);
}
