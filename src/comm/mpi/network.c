/*
 * Measures a network of known shape. Single messages give latencies and the rate of a host; one half of the hosts, each sending to one of
 * the other half, give the rate of the links that they share. What exchanges with one partner lose is what brings the simulation of
 * allreduces that are made of them to the measured times.
 */
#include <paradl/comm/network.h>

#include <paradl/comm/bench.h>
#include <paradl/sim/sim.h>

#include "comm/mpi/check.h"
#include "comm/mpi/host_order.h"
#include "comm/rounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS      7
#define PINGS       40 /* cheap, and the more there are the surer is one that nothing disturbs */
#define SMALL       64
#define LEAST_BYTES 4096
#define MOST_BYTES  (4 << 20)
#define LARGE_S     0.1  /* that a large message takes about */
#define SERIAL      1.25 /* times as long as one way: the two ways of an exchange wait for each other */
#define MOST_PIECES 64
/* Shares of the way back: below, nothing that shows; above, no acknowledgements but two ways that wait for each other. */
#define LEAST_REVERSE 0.003
#define MOST_REVERSE  0.15
#define CLEARLY_FULL  1.15 /* times as long as a host alone: links between switches hold messages up */

/* Messages below the limit from which on MPI libraries let sender and receiver agree first: pieces of this size do not wait for the
   other direction. */
#define EAGER (48 << 10)

enum { EXCHANGES = 2 };
static const char *const exchanges[EXCHANGES] = {"hd_near", "rdb"};

typedef struct measure {
    MPI_Comm              comm;
    int                   rank, ranks;
    const pdl_topology_t *shape;
    char                 *out, *in;
    FILE                 *talk;
} measure_t;

/* What a rank does: sends to one and receives from one; -1: not. `reply`: an empty message comes back. */
typedef struct pattern {
    int  to, from;
    bool reply;
} pattern_t;

static pdl_status_t pass(const measure_t *m, const pattern_t *p, int bytes)
{
    MPI_Request  request[2] = {pdl__mpi->request_null, pdl__mpi->request_null};
    pdl_status_t status = PDL_OK;

    if (p->from >= 0)
        status = PDL_MPI(pdl__mpi->Irecv(m->in, bytes, pdl__mpi->byte, p->from, 0, m->comm, &request[0]));
    if (!status && p->to >= 0)
        status = PDL_MPI(pdl__mpi->Isend(m->out, bytes, pdl__mpi->byte, p->to, 0, m->comm, &request[1]));
    for (int i = 0; i < 2 && !status; i++) status = PDL_MPI(pdl__mpi->Wait(&request[i], MPI_STATUS_IGNORE));
    if (status || !p->reply) return status;
    if (p->from >= 0)
        status = PDL_MPI(pdl__mpi->Isend(m->out, 0, pdl__mpi->byte, p->from, 1, m->comm, &request[0]));
    if (!status && p->to >= 0)
        status = PDL_MPI(pdl__mpi->Irecv(m->in, 0, pdl__mpi->byte, p->to, 1, m->comm, &request[1]));
    for (int i = 0; i < 2 && !status; i++) status = PDL_MPI(pdl__mpi->Wait(&request[i], MPI_STATUS_IGNORE));
    return status;
}

/* Rounds of a pattern, at most PINGS; in each the slowest rank counts. */
static pdl_status_t time_pattern(const measure_t *m, const pattern_t *p, int bytes, int count,
                                 pdl__rounds_t *rounds)
{
    double       round[PINGS];
    pdl_status_t status = PDL_OK;

    for (int i = -1; i < count && !status; i++) {
        double begin;

        pdl__mpi->Barrier(m->comm);
        begin = pdl__mpi->Wtime();
        status = pass(m, p, bytes);
        if (i >= 0) round[i] = pdl__mpi->Wtime() - begin;
    }
    if (!status)
        status = PDL_MPI(
            pdl__mpi->Allreduce(MPI_IN_PLACE, round, count, pdl__mpi->float64, pdl__mpi->op[PDL__OP_MAX], m->comm));
    if (!status) *rounds = pdl__rounds_sum_up(round, count);
    return status;
}

/* One message from host 0 to host 1, or both ways. */
static pattern_t between_two(const measure_t *m, bool both, bool reply)
{
    pattern_t p = {-1, -1, reply};

    if (m->rank == 0 || (both && m->rank == 1)) p.to = 1 - m->rank;
    if (m->rank == 1 || (both && m->rank == 0)) p.from = 1 - m->rank;
    return p;
}

/* Seconds that a further byte takes, from two sizes of which the larger takes about LARGE_S. */
static pdl_status_t time_byte(const measure_t *m, const pattern_t *p, double *seconds_per_byte)
{
    pdl__rounds_t small = {0}, large;
    int           bytes = LEAST_BYTES;
    pdl_status_t  status = time_pattern(m, p, bytes, ROUNDS, &small);

    for (large = small; !status && large.median_s < LARGE_S && bytes < MOST_BYTES;) {
        bytes *= 4;
        status = time_pattern(m, p, bytes, ROUNDS, &large);
    }
    if (!status) status = time_pattern(m, p, bytes / 4, ROUNDS, &small);
    *seconds_per_byte = fmax(large.median_s - small.median_s, 1e-12) / (0.75 * bytes);
    return status;
}

/* Messages on the busiest link between switches when each host of the first half sends to one of the second. */
static int shared_by(const measure_t *m)
{
    int *load = calloc((size_t)pdl_topology_link_count(m->shape) + 1, sizeof(*load)), most = 1;
    int  links[PDL_MAX_ROUTE];

    if (load == NULL) return 1;
    for (int r = 0; r < m->ranks / 2; r++) {
        int hops = pdl_topology_route(m->shape, r, r + m->ranks / 2, links);

        for (int h = 0; h < hops; h++)
            if (pdl_topology_links(m->shape)[links[h]].kind == PDL_LINK_SWITCH && ++load[links[h]] > most)
                most = load[links[h]];
    }
    free(load);
    return most;
}

static pdl_status_t measure_links(const measure_t *m, pdl_topology_spec_t *spec)
{
    pattern_t ping = between_two(m, false, true), one = between_two(m, false, false);
    int       half = m->ranks / 2; /* nobody both sends and receives, which would be an exchange */
    pattern_t all = {m->rank < half ? m->rank + half : -1, m->rank >= half ? m->rank - half : -1, false};
    int       links[PDL_MAX_ROUTE], hops = pdl_topology_route(m->shape, 0, 1, links), shared = shared_by(m);
    double    ratio = spec->host_link_bytes_per_s > 0 ? spec->link_bytes_per_s / spec->host_link_bytes_per_s : 1;
    double    host_s = 0, all_s = 0;
    pdl__rounds_t pings = {0};
    pdl_status_t  status = time_pattern(m, &ping, SMALL, PINGS, &pings);

    if (!status) status = time_byte(m, &one, &host_s);
    if (!status) status = time_byte(m, &all, &all_s);
    if (status) return status;
    /* The least: a small message takes microseconds, and any other process that runs on a host in a round takes more. */
    spec->link_latency_s = spec->host_link_latency_s = pings.least_s / 2 / fmax(hops, 1);
    spec->host_link_bytes_per_s = 1 / host_s;
    /* Where links between switches held nobody up, their rate is not known: it is as much faster as the shape says. */
    spec->link_bytes_per_s = all_s > CLEARLY_FULL * host_s ? shared / all_s : ratio / host_s;
    return PDL_OK;
}

/* From which size on the two ways of an exchange wait for each other; 0: they do not. */
static pdl_status_t measure_exchange(const measure_t *m, double *from)
{
    pattern_t    one = between_two(m, false, false), both = between_two(m, true, false);
    pdl_status_t status = PDL_OK;

    *from = 0;
    for (int bytes = LEAST_BYTES; bytes <= 256 << 10 && !status; bytes *= 2) {
        pdl__rounds_t one_way = {0}, both_ways = {0};

        status = time_pattern(m, &one, bytes, ROUNDS, &one_way);
        if (!status) status = time_pattern(m, &both, bytes, ROUNDS, &both_ways);
        /* Sometimes they do not meet: the mean has both. */
        if (both_ways.mean_s < SERIAL * one_way.median_s)
            *from = 0;
        else if (*from == 0)
            *from = bytes;
    }
    return status;
}

/* Several pieces from host 0 to host 1, or both ways, that all are in flight at once. */
static pdl_status_t pass_pieces(const measure_t *m, bool both, int bytes, int pieces)
{
    pattern_t    p = between_two(m, both, false);
    MPI_Request  request[2 * MOST_PIECES];
    pdl_status_t status = PDL_OK;
    int          count = 0;

    for (int i = 0; i < pieces && p.from >= 0 && !status; i++)
        status = PDL_MPI(pdl__mpi->Irecv(m->in, bytes, pdl__mpi->byte, p.from, 3, m->comm, &request[count++]));
    for (int i = 0; i < pieces && p.to >= 0 && !status; i++)
        status = PDL_MPI(pdl__mpi->Isend(m->out, bytes, pdl__mpi->byte, p.to, 3, m->comm, &request[count++]));
    for (int i = 0; i < count && !status; i++) status = PDL_MPI(pdl__mpi->Wait(&request[i], MPI_STATUS_IGNORE));
    return status;
}

/* What the acknowledgements of a stream take on its way back: a stream each way takes so much longer than one. Pieces are so small that
   nobody waits for the other to agree. */
static pdl_status_t measure_reverse(const measure_t *m, pdl_topology_spec_t *spec)
{
    int          bytes = (int)spec->messages.chunk_bytes;
    int          pieces = (int)fmin(fmax(2 * LARGE_S * spec->host_link_bytes_per_s / bytes, 4), MOST_PIECES);
    double       seconds[2][ROUNDS];
    pdl_status_t status = PDL_OK;

    for (int i = -2; i < 2 * ROUNDS && !status; i++) {
        bool   both = i % 2 != 0;
        double begin;

        pdl__mpi->Barrier(m->comm);
        begin = pdl__mpi->Wtime();
        status = pass_pieces(m, both, bytes, pieces);
        if (i >= 0) seconds[both][i / 2] = pdl__mpi->Wtime() - begin;
    }
    if (!status)
        status = PDL_MPI(pdl__mpi->Allreduce(MPI_IN_PLACE, seconds[0], 2 * ROUNDS, pdl__mpi->float64,
                                             pdl__mpi->op[PDL__OP_MAX], m->comm));
    if (!status) {
        double share =
            pdl__rounds_sum_up(seconds[1], ROUNDS).median_s / pdl__rounds_sum_up(seconds[0], ROUNDS).median_s - 1;

        spec->messages.reverse = share > LEAST_REVERSE ? fmin(share, MOST_REVERSE) : 0;
    }
    return status;
}

/* Whether a sender goes on while its messages are in flight: several pieces to one receiver, handed over in much less time than they
   take. */
static pdl_status_t measure_buffering(const measure_t *m, const pdl_topology_spec_t *spec, bool *buffered)
{
    enum { PIECES = 8 };
    MPI_Request  request[PIECES];
    int          bytes = (int)spec->messages.chunk_bytes;
    double       seconds = 0;
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < PIECES; i++) request[i] = pdl__mpi->request_null;
    pdl__mpi->Barrier(m->comm);
    for (int i = 0; i < PIECES && !status && m->rank < 2; i++)
        status = m->rank == 0 ? PDL_MPI(pdl__mpi->Isend(m->out, bytes, pdl__mpi->byte, 1, 2, m->comm, &request[i]))
                              : PDL_MPI(pdl__mpi->Irecv(m->in, bytes, pdl__mpi->byte, 0, 2, m->comm, &request[i]));
    seconds = pdl__mpi->Wtime();
    for (int i = 0; i < PIECES && !status; i++) status = PDL_MPI(pdl__mpi->Wait(&request[i], MPI_STATUS_IGNORE));
    seconds = m->rank == 0 ? pdl__mpi->Wtime() - seconds : 0;
    if (!status) status = PDL_MPI(pdl__mpi->Bcast(&seconds, 1, pdl__mpi->float64, 0, m->comm));
    *buffered = seconds < 0.5 * PIECES * bytes / spec->host_link_bytes_per_s;
    return status;
}

static pdl_status_t simulate(const pdl_topology_spec_t *spec, const char *algorithm, int64_t bytes, double *seconds)
{
    pdl_sim_case_t asked = {.collective = PDL_COLL_ALLREDUCE, .bytes = bytes, .options = pdl_sim_options_default()};
    pdl_sim_verdict_t verdict;
    pdl_status_t      status = pdl_topology_create(spec, &asked.topology);

    if (status) return status;
    status = pdl_sim_run_case(&asked, algorithm, &verdict);
    if (!status) {
        *seconds = verdict.result.time_s;
        pdl_sim_verdict_free(&verdict);
    }
    pdl_topology_destroy(asked.topology);
    return status;
}

/* What an allreduce takes; with `library`, also what the library's own takes from LEAST_BYTES to these bytes. */
static pdl_status_t time_allreduce(const char *algorithm, int64_t bytes, pdl_message_layer_t *messages,
                                   bool library, double *seconds)
{
    pdl_bench_options_t bench = {.collective = PDL_COLL_ALLREDUCE,
                                 .algorithm = algorithm,
                                 .min_bytes = library ? LEAST_BYTES : bytes,
                                 .max_bytes = bytes,
                                 .iterations = ROUNDS,
                                 .chunk_bytes = (int64_t)messages->chunk_bytes};
    pdl_bench_t        *rows;
    pdl_status_t        status = pdl_bench_run(&bench, &rows);

    for (int i = 0; !status && i < rows->row_count; i++) {
        const pdl_bench_row_t *row = &rows->row[i];

        if (strcmp(row->algorithm, "mpi") != 0) {
            *seconds = row->median_s; /* the last one is the largest */
        } else if (library && messages->library_sizes < PDL_LIBRARY_SIZES) {
            messages->library_bytes[messages->library_sizes] = (double)row->bytes;
            messages->library_s[messages->library_sizes++] = row->median_s;
        }
    }
    if (!status) pdl_bench_destroy(rows);
    return status;
}

/* The exchange share, between a fifth and all, with which two allreduces by exchanges take the measured times on the mean. */
static pdl_status_t fit_exchange(pdl_topology_spec_t *spec, int64_t bytes, const double measured_s[EXCHANGES])
{
    double       low = 0.2, high = 1;
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < 24 && !status; i++) {
        double excess = 0;

        spec->messages.exchange = (low + high) / 2;
        for (int e = 0; e < EXCHANGES && !status; e++) {
            double seconds = 0;

            status = simulate(spec, exchanges[e], bytes, &seconds);
            if (!status) excess += log(seconds / measured_s[e]);
        }
        *(excess > 0 ? &low : &high) = spec->messages.exchange;
    }
    return status;
}

/* Vectors whose pieces are large in a ring, and which take about half a second there: one of the sizes of a benchmark. */
static int64_t vector_bytes(const measure_t *m, const pdl_topology_spec_t *spec)
{
    double  least = m->ranks * fmax(spec->messages.exchange_bytes, 16384);
    int64_t bytes = LEAST_BYTES;

    while ((double)bytes < least || ((double)bytes < 0.2 * spec->host_link_bytes_per_s && bytes < MOST_BYTES))
        bytes *= 4;
    return bytes;
}

static pdl_status_t measure_collectives(const measure_t *m, pdl_topology_spec_t *spec)
{
    int64_t      bytes = vector_bytes(m, spec);
    double       seconds[EXCHANGES] = {0};
    pdl_status_t status = PDL_OK;

    for (int e = 0; e < EXCHANGES && !status; e++)
        status = time_allreduce(exchanges[e], bytes, &spec->messages, e == 0, &seconds[e]);
    return status ? status : fit_exchange(spec, bytes, seconds);
}

static pdl_status_t measure_all(measure_t *m, const pdl_network_options_t *options, pdl_topology_spec_t *spec)
{
    int          hosts = pdl_topology_hosts(m->shape);
    pdl_status_t status = PDL_MPI(pdl__mpi->Comm_rank(m->comm, &m->rank));

    if (!status) status = PDL_MPI(pdl__mpi->Comm_size(m->comm, &m->ranks));
    if (status) return status;
    if (m->ranks != hosts || hosts < 4 || (hosts & (hosts - 1)) != 0)
        return pdl_error(
            PDL_ERR_INPUT,
            "the job has %d ranks and the topology %d hosts: start one rank on each, on 4, 8, 16, .. hosts",
            m->ranks, hosts);
    m->out = calloc(1, MOST_BYTES);
    m->in = calloc(1, MOST_BYTES);
    if (m->out == NULL || m->in == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for messages");
    spec->messages =
        (pdl_message_layer_t){.chunk_bytes = (double)(options->chunk_bytes > 0 ? options->chunk_bytes : EAGER)};
    status = pdl__host_order_find(m->comm, &spec->messages.host_order);
    if (m->talk != NULL && m->rank == 0) fputs("calibrate: rates and latencies of links\n", m->talk);
    if (!status) status = measure_links(m, spec);
    if (!status) status = measure_exchange(m, &spec->messages.exchange_bytes);
    if (!status) status = measure_reverse(m, spec);
    if (!status) status = measure_buffering(m, spec, &spec->messages.buffered);
    if (m->talk != NULL && m->rank == 0) fputs("calibrate: collectives\n", m->talk);
    return status ? status : measure_collectives(m, spec);
}

pdl_status_t pdl_network_measure(const pdl_topology_t *shape, const pdl_network_options_t *options,
                                 pdl_topology_spec_t *spec, int *rank)
{
    measure_t    m = {.shape = shape, .talk = options->talk};
    int          running = 1;
    pdl_status_t status = pdl__mpi_load();

    if (status) return status;
    m.comm = pdl__mpi->comm_null;
    status = PDL_MPI(pdl__mpi->Initialized(&running));
    if (!status && !running) status = PDL_MPI(pdl__mpi->Init(NULL, NULL));
    if (!status) status = PDL_MPI(pdl__mpi->Comm_dup(pdl__mpi->comm_world, &m.comm));
    if (status) return status;
    status = measure_all(&m, options, spec);
    *rank = m.rank;
    pdl__mpi->Comm_free(&m.comm);
    if (!running) pdl__mpi->Finalize();
    free(m.out);
    free(m.in);
    return status;
}
