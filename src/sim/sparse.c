/*
 * Sparse allreduces on a topology. The sizes of their messages depend on how the supports of the ranks overlap: they are
 * those of the supports that are given, or those to be expected. The messages run through an engine as a schedule
 * that lists them.
 */
#include "sim/case.h"
#include "sim/flow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ELEMENT_BYTES 4

bool pdl__is_sparse(const char *algorithm)
{
    return strncmp(algorithm, "sparse_", 7) == 0;
}

pdl_status_t pdl__check_sparse(const pdl_sim_case_t *asked, const char *algorithm)
{
    int64_t elements = asked->bytes / ELEMENT_BYTES;

    if (asked->collective != PDL_COLL_ALLREDUCE) return pdl_error(PDL_ERR_LIMIT, "%s is an allreduce", algorithm);
    for (int r = 0; asked->supports != NULL && r < pdl__case_ranks(asked); r++)
        if (asked->supports[r].length != elements)
            return pdl_error(PDL_ERR_LIMIT, "%s: rank %d has a support of %lld elements, not of %lld", algorithm, r,
                             (long long)asked->supports[r].length, (long long)elements);
    if (asked->supports != NULL) return PDL_OK;
    if (!(asked->density > 0 && asked->density <= 1))
        return pdl_error(PDL_ERR_LIMIT, "%s needs a density above 0 and up to 1", algorithm);
    if (!(asked->common >= 0 && asked->common <= 1))
        return pdl_error(PDL_ERR_LIMIT, "%s: the common share of the elements must be between 0 and 1", algorithm);
    return PDL_OK;
}

pdl_status_t pdl__sparse_messages(const pdl_sim_case_t *asked, const char *algorithm, pdl_sparse_run_t *run)
{
    pdl_schedule_spec_t shape = pdl__case_spec(asked, algorithm);
    pdl_sparse_spec_t   spec = {.algorithm = algorithm,
                                .ranks = shape.ranks,
                                .ranks_per_node = shape.hosts_per_switch};
    pdl_status_t        status = pdl__check_sparse(asked, algorithm);

    if (status) return status;
    if (asked->supports != NULL) return pdl_sparse_allreduce(&spec, asked->supports, NULL, run);
    return pdl_sparse_expect(&spec, (double)asked->bytes / ELEMENT_BYTES, asked->density, asked->common, run);
}

/* Of one step: the longest way, the largest message at the speed of the slowest link of its way or all of a host on its own
   link, most bytes added by a rank. */
typedef struct parts {
    const pdl_sim_case_t *asked;
    const pdl_link_t     *links;
    double               *end_load; /* of messages that start or end at a link */
    double               *reduced;  /* by each rank */
    double                latency_s, alone_s, most_reduced;
    int                   way[PDL_MAX_ROUTE];
} parts_t;

static int find_way(parts_t *parts, const pdl_sparse_message_t *message)
{
    return pdl_topology_route(parts->asked->topology, pdl__case_host(parts->asked, 0, message->from),
                              pdl__case_host(parts->asked, 0, message->to), parts->way);
}

static void add_message(parts_t *parts, const pdl_sparse_message_t *message)
{
    const pdl_sim_options_t *options = &parts->asked->options;
    int                      hops = find_way(parts, message);
    double                   latency_s = 0, slowest = INFINITY;
    double                   bytes =
        message->bytes / pdl__flow_factor(options->bandwidth_factor, options->bandwidth_factors, message->bytes);

    for (int h = 0; h < hops; h++) {
        const pdl_link_t *link = &parts->links[parts->way[h]];

        latency_s += link->latency_s;
        slowest = fmin(slowest, link->bytes_per_s);
        if (h > 0 && h < hops - 1) continue;
        parts->end_load[parts->way[h]] += bytes;
        parts->alone_s = fmax(parts->alone_s, parts->end_load[parts->way[h]] / link->bytes_per_s);
    }
    if (hops > 0) parts->alone_s = fmax(parts->alone_s, bytes / slowest);
    latency_s *= pdl__flow_factor(options->latency_factor, options->latency_factors, message->bytes);
    parts->latency_s = fmax(parts->latency_s, latency_s);
    if (message->reduced) parts->reduced[message->to] += message->bytes;
    parts->most_reduced = fmax(parts->most_reduced, parts->reduced[message->to]);
}

/* Takes back what the message of a step has left behind. */
static void clear_message(parts_t *parts, const pdl_sparse_message_t *message)
{
    int hops = find_way(parts, message);

    for (int h = 0; h < hops; h++) parts->end_load[parts->way[h]] = 0;
    parts->reduced[message->to] = 0;
}

pdl_status_t pdl__sparse_parts(const pdl_sim_case_t *asked, const pdl_sparse_run_t *run,
                               double part_s[PDL_PART_COUNT])
{
    size_t   links = (size_t)pdl_topology_link_count(asked->topology) + 1;
    parts_t *parts = calloc(1, sizeof(*parts));

    if (parts != NULL) {
        parts->asked = asked;
        parts->links = pdl_topology_links(asked->topology);
        parts->end_load = calloc(links, sizeof(double));
        parts->reduced = calloc((size_t)pdl__case_ranks(asked) + 1, sizeof(double));
    }
    bool enough = parts != NULL && parts->end_load != NULL && parts->reduced != NULL;
    for (int64_t first = 0, next; enough && first < run->message_count; first = next) {
        parts->latency_s = parts->alone_s = parts->most_reduced = 0;
        for (next = first; next < run->message_count && run->message[next].step == run->message[first].step; next++)
            add_message(parts, &run->message[next]);
        for (int64_t m = first; m < next; m++) clear_message(parts, &run->message[m]);
        part_s[PDL_PART_LATENCY] += parts->latency_s;
        part_s[PDL_PART_BANDWIDTH] += parts->alone_s;
        part_s[PDL_PART_REDUCTION] += asked->options.gamma_s_per_byte * parts->most_reduced;
    }
    if (parts != NULL) {
        free(parts->end_load);
        free(parts->reduced);
    }
    free(parts);
    return enough ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory for a sparse allreduce");
}
