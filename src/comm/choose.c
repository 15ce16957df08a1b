/*
 * Chooses by simulating the schedules on a network that was measured, beside what the MPI library's own took there; on one machine by
 * limits that were measured beside Open MPI 4.1.4 (docs/mpi.md). They stand here and nowhere else.
 */
#include "comm/choose.h"

#include <paradl/base/units.h>
#include <paradl/sim/sim.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a vector. */
enum {
    SHARED_BYTES = 256 << 10, /* through shared memory; above, MPI's single copies are as fast */
    SMALL_BYTES = 2048,       /* left to the library, ... */
    SMALL_BYTES_OF_TWO = 512, /* ... of two ranks that share memory */
    /* Of two ranks what lies between the first limit and this is left to the library too. Above, the caches hold nothing, and slots
       that stay in them are faster than single copies, which go through memory. */
    LARGE_BYTES_OF_TWO = 8 << 20,
};

int64_t pdl__shared_limit(void)
{
    const char *text = getenv("PARADL_SHARED");
    double      bytes;

    return text != NULL && pdl_parse_quantity(text, PDL_UNIT_BYTES, &bytes) == PDL_OK ? (int64_t)bytes
                                                                                      : SHARED_BYTES;
}

bool pdl__goes_shared(int ranks, int64_t shared_limit, double bytes)
{
    if (shared_limit <= 0) return false;
    return bytes <= (double)shared_limit || (ranks == 2 && bytes >= LARGE_BYTES_OF_TWO);
}

bool pdl__ways_differ(int ranks, int64_t shared_limit, double bytes)
{
    return ranks == 2 && shared_limit > 0 && bytes > SMALL_BYTES_OF_TWO;
}

pdl__way_t pdl__choose_way(int ranks, int64_t shared_limit, double bytes)
{
    bool two = ranks == 2 && shared_limit > 0;

    if (bytes <= (two ? SMALL_BYTES_OF_TWO : SMALL_BYTES)) return PDL__WAY_LIBRARY;
    if (pdl__goes_shared(ranks, shared_limit, bytes)) return PDL__WAY_SHARED;
    return two ? PDL__WAY_LIBRARY : PDL__WAY_MESSAGES;
}

double pdl__library_seconds(const pdl_message_layer_t *messages, double bytes)
{
    const double *at = messages->library_bytes, *seconds = messages->library_s;
    int           last = messages->library_sizes - 1, i = 1;

    if (last < 1 || bytes < at[0] / 2 || bytes > 2 * at[last]) return INFINITY;
    while (i < last && at[i] < bytes) i++;
    /* On a line through the logarithms of two sizes. */
    return seconds[i - 1] * pow(seconds[i] / seconds[i - 1], log(bytes / at[i - 1]) / log(at[i] / at[i - 1]));
}

/* Algorithms for several ports count on links that MPI's messages do not drive at once; they are used where asked for. */
static bool is_for_any_network(const char *const *names, int i)
{
    static const char *const special[] = {"kautz", "fc2", "levels", "multiport"};

    for (size_t s = 0; s < sizeof(special) / sizeof(special[0]); s++)
        if (strncmp(names[i], special[s], strlen(special[s])) == 0) return false;
    return true;
}

pdl_status_t pdl__choose_on_network(pdl_topology_t *network, pdl_collective_t collective, int64_t bytes,
                                    pdl__choice_t *choice)
{
    const pdl_message_layer_t *messages = &pdl_topology_get_spec(network)->messages;
    const char *const         *names = pdl_coll_algorithms(collective);
    pdl_sim_case_t             asked = {.topology = network,
                                        .collective = collective,
                                        .bytes = bytes,
                                        .options = pdl_sim_options_default()};
    pdl_status_t               status = PDL_OK;

    *choice = (pdl__choice_t){.seconds = INFINITY};
    for (int i = 0; names[i] != NULL && !status; i++) {
        pdl_sim_verdict_t verdict;

        if (!is_for_any_network(names, i)) continue;
        status = pdl_sim_run_case(&asked, names[i], &verdict);
        if (status == PDL_ERR_LIMIT || status == PDL_ERR_INPUT || status == PDL_ERR_UNSUPPORTED) {
            status = PDL_OK; /* not for this case */
            continue;
        }
        if (status) break;
        if (verdict.result.time_s < choice->seconds) {
            choice->algorithm = names[i];
            choice->segments = verdict.segments;
            choice->seconds = verdict.result.time_s;
        }
        pdl_sim_verdict_free(&verdict);
    }
    if (!status && collective == PDL_COLL_ALLREDUCE)
        choice->library = pdl__library_seconds(messages, (double)bytes) <= choice->seconds;
    return status;
}

pdl_status_t pdl__network_schedule(pdl_topology_t *network, pdl_collective_t collective, const char *algorithm,
                                   int64_t bytes, int64_t segments, pdl_schedule_t **schedule)
{
    pdl_sim_case_t asked = {.topology = network,
                            .collective = collective,
                            .bytes = bytes,
                            .segments = segments,
                            .options = pdl_sim_options_default()};

    return pdl_sim_schedule(&asked, algorithm, schedule);
}
