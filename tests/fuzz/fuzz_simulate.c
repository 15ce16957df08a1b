/*
 * Any small collective on any small network: every engine gives a finite time, the same bytes to every link, and the
 * shortcut for rings the same time as all of their steps.
 */
#include <paradl/sim/sim.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Holds in every build, unlike assert(). */
static void require(bool condition)
{
    if (!condition) abort();
}

/* The bytes of the input, one after the other; zeros when they are used up. */
typedef struct bytes {
    const uint8_t *data;
    size_t         size;
} bytes_t;

static int next(bytes_t *bytes, int below)
{
    int value = bytes->size > 0 ? bytes->data[0] : 0;

    if (bytes->size > 0) bytes->data++, bytes->size--;
    return value % below;
}

static void choose_topology(bytes_t *bytes, pdl_topology_spec_t *spec)
{
    static const char *const names[] = {"ring",     "torus", "hypercube", "fc2",   "fat-tree", "abci-v",
                                        "tsubame3", "dln",   "dln2d",     "kautz", "hybrid",   "dragonfly"};

    *spec = pdl_topology_spec(names[next(bytes, 12)]);
    spec->hosts = next(bytes, 80);
    spec->hosts_per_switch = next(bytes, 5);
    spec->leaf_hosts = next(bytes, 17);
    spec->uplinks = next(bytes, 9);
    spec->dim_count = next(bytes, 4);
    for (int d = 0; d < spec->dim_count; d++) spec->dims[d] = 1 + next(bytes, 8);
    for (int i = 0; i < 4; i++) spec->shape[i] = next(bytes, 5);
    spec->degree = next(bytes, 5);
    spec->diameter = next(bytes, 4);
    spec->duplex = next(bytes, 4) == 0 ? PDL_HALF_DUPLEX : PDL_FULL_DUPLEX;
    spec->link_latency_s = 1e-7 * next(bytes, 20);
}

static void choose_case(bytes_t *bytes, pdl_topology_t *topology, pdl_sim_case_t *asked, const char **algorithm)
{
    const char *const *names;
    int                count = 0, groups = 1 + next(bytes, 3);

    *asked = (pdl_sim_case_t){.topology = topology,
                              .collective = (pdl_collective_t)next(bytes, PDL_COLL_COUNT),
                              .groups = pdl_topology_hosts(topology) % groups == 0 ? groups : 1,
                              .strided = next(bytes, 2) == 1,
                              .segments = next(bytes, 9),
                              .options = pdl_sim_options_default()};
    names = pdl_coll_algorithms(asked->collective);
    while (names[count] != NULL) count++;
    *algorithm = names[next(bytes, count)];
    asked->bytes = 1 + next(bytes, 256) + 256 * (int64_t)next(bytes, 16);
    asked->options.link_loads = true;
    asked->options.gamma_s_per_byte = next(bytes, 3) == 0 ? 1e-11 : 0;
    asked->options.eager_bytes = next(bytes, 4) == 0 ? 64 : 0;
    asked->options.reverse_share = next(bytes, 4) == 0 ? 0.05 : 0;
    asked->options.latency_share = next(bytes, 4) == 0;
}

static bool same(double a, double b, double within)
{
    return fabs(a - b) <= within * fmax(fabs(a), fabs(b));
}

static void compare_loads(const pdl_sim_case_t *asked, const pdl_sim_verdict_t *a, const pdl_sim_verdict_t *b)
{
    for (int l = 0; l < pdl_topology_link_count(asked->topology); l++)
        require(same(a->result.link_bytes[l], b->result.link_bytes[l], 1e-9));
    require(a->result.flows == b->result.flows && a->result.steps == b->result.steps);
}

static void simulate(pdl_sim_case_t *asked, const char *algorithm)
{
    pdl_sim_verdict_t flow, every, loads;

    if (pdl_sim_run_case(asked, algorithm, &flow) != PDL_OK) return;
    require(isfinite(flow.result.time_s) && flow.result.time_s >= 0);
    if (flow.segments > 1) asked->segments = flow.segments; /* engines may choose others */
    asked->options.periodic = false;
    require(pdl_sim_run_case(asked, algorithm, &every) == PDL_OK);
    require(every.result.time_s == flow.result.time_s);
    compare_loads(asked, &flow, &every);
    asked->options.engine = PDL_ENGINE_LOADS;
    require(pdl_sim_run_case(asked, algorithm, &loads) == PDL_OK);
    require(isfinite(loads.result.time_s) && loads.result.time_s >= 0);
    compare_loads(asked, &flow, &loads);
    pdl_sim_verdict_free(&flow);
    pdl_sim_verdict_free(&every);
    pdl_sim_verdict_free(&loads);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bytes_t             bytes = {data, size};
    pdl_topology_spec_t spec;
    pdl_topology_t     *topology;
    pdl_sim_case_t      asked;
    const char         *algorithm;

    choose_topology(&bytes, &spec);
    if (pdl_topology_create(&spec, &topology) != PDL_OK) return 0;
    if (pdl_topology_hosts(topology) <= 128) {
        choose_case(&bytes, topology, &asked, &algorithm);
        simulate(&asked, algorithm);
    }
    pdl_topology_destroy(topology);
    return 0;
}
