/*
 * Flows per second of the simulator on one core, and SimGrid's for some of the cases in the same run. Processor
 * time is counted, of the child process too. SimGrid gets the sizes that it finishes in less than a minute; the
 * periodic shortcut is off but where it is named.
 */
#define _POSIX_C_SOURCE 200809L
#include <paradl/sim/sim.h>

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* The full DLN with 8 hosts per switch; a 1:3 tree with leaves of 32; a dragonfly of 33 groups of 8 routers. */
typedef enum network { LOOP, TREE, DRAGONFLY } network_t;

typedef struct bench {
    const char *algorithm;
    int         ranks;
    bool        periodic, simgrid;
    double      least_mflows, most_s, most_mb; /* what it must reach; 0: nothing asked */
    network_t   network;
    int64_t     bytes; /* of all ranks where it is an all-to-all; 0: 64 MiB */
} bench_t;

/* The last ones are asymmetric: nearly every flow begins and ends at an instant of its own. */
static const bench_t benches[] = {
    {"hd_near", 4096, false, true, 5, 0, 0, LOOP, 0},
    {"shd_near", 4096, false, false, 5, 0, 0, LOOP, 0},
    {"shd_far", 4096, false, false, 5, 0, 0, LOOP, 0},
    {"ring", 1024, false, true, 3, 0, 0, LOOP, 0},
    {"shd_near", 16384, false, false, 0, 0.2, 100, LOOP, 0},
    {"rshd", 65536, false, false, 0, 2, 0, LOOP, 0},
    {"ring", 16384, true, false, 0, 1, 0, LOOP, 0},
    {"ring", 256, false, true, 0, 0, 0, LOOP, 0},
    {"shd_near", 1024, false, true, 0, 0, 0, LOOP, 0},
    {"swing", 4096, false, false, 1, 0, 0, TREE, 0},
    {"pairwise", 1056, false, false, 1, 0, 0, DRAGONFLY, INT64_C(1056) * 1056 * 65536},
    {"pairwise", 1056, false, false, 1, 0, 0, DRAGONFLY, INT64_C(1056) << 26},
};

static pdl_topology_spec_t shape_of(const bench_t *bench)
{
    static const char *const names[] = {[LOOP] = "dln", [TREE] = "fat-tree", [DRAGONFLY] = "dragonfly"};
    pdl_topology_spec_t      shape = pdl_topology_spec(names[bench->network]);

    if (bench->network == LOOP) shape.hosts_per_switch = 8;
    if (bench->network == DRAGONFLY) {
        const int64_t sizes[4] = {4, 8, 4, 33};

        memcpy(shape.shape, sizes, sizeof(sizes));
    } else {
        shape.hosts = bench->ranks;
        shape.leaf_hosts = 32;
        shape.uplinks = bench->network == TREE ? 11 : 0;
    }
    return shape;
}

static double cpu_s(void)
{
    struct rusage self, children;

    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    return (double)(self.ru_utime.tv_sec + self.ru_stime.tv_sec + children.ru_utime.tv_sec +
                    children.ru_stime.tv_sec) +
           1e-6 * (double)(self.ru_utime.tv_usec + self.ru_stime.tv_usec + children.ru_utime.tv_usec +
                           children.ru_stime.tv_usec);
}

/* The shortest of `repeats` runs. */
static pdl_status_t measure(const pdl_topology_t *topology, const pdl_sim_job_t *job,
                            const pdl_sim_options_t *options, int repeats, pdl_sim_result_t *result,
                            double *seconds)
{
    *seconds = 0;
    for (int i = 0; i < repeats; i++) {
        double       begin = cpu_s();
        pdl_status_t status = pdl_sim_run(topology, job, 1, options, result);
        double       spent = cpu_s() - begin;

        if (status) return status;
        pdl_sim_result_free(&(pdl_sim_result_t){.job_s = result->job_s, .link_bytes = result->link_bytes});
        if (i == 0 || spent < *seconds) *seconds = spent;
    }
    return PDL_OK;
}

static bool reaches(const bench_t *bench, double mflows, double seconds, double megabytes)
{
    return mflows >= bench->least_mflows && (bench->most_s <= 0 || seconds < bench->most_s) &&
           (bench->most_mb <= 0 || megabytes < bench->most_mb);
}

/* SimGrid on the same case, and how many times faster the flow engine is. */
static pdl_status_t compare(const pdl_topology_t *topology, const pdl_sim_job_t *job, double ours_s, double time_s)
{
    pdl_sim_options_t options = pdl_sim_options_default();
    pdl_sim_result_t  result;
    double            seconds;
    pdl_status_t      status;

    options.engine = PDL_ENGINE_SIMGRID;
    status = measure(topology, job, &options, 1, &result, &seconds);
    if (status) return status;
    printf("          SimGrid   %9.3f Mflow/s  %8.4f s  ratio %.0f, simulated times differ by %.2g %%\n",
           (double)result.flows / seconds / 1e6, seconds, seconds / ours_s, 100 * (result.time_s / time_s - 1));
    return PDL_OK;
}

static pdl_status_t run_bench(const bench_t *bench, bool *reached)
{
    pdl_topology_spec_t shape = shape_of(bench);
    pdl_schedule_spec_t spec = {.collective = strcmp(bench->algorithm, "pairwise") == 0 ? PDL_COLL_ALLTOALL
                                                                                        : PDL_COLL_ALLREDUCE,
                                .algorithm = bench->algorithm,
                                .ranks = bench->ranks,
                                .hosts_per_switch = bench->network == LOOP ? 8 : 0};
    pdl_topology_t     *topology = NULL;
    pdl_schedule_t     *schedule = NULL;
    pdl_sim_options_t   options = pdl_sim_options_default();
    pdl_sim_result_t    result;
    double              seconds, mflows, megabytes;
    pdl_status_t        status;

    options.periodic = bench->periodic;
    status = pdl_topology_create(&shape, &topology);
    if (!status) status = pdl_schedule_create(&spec, &schedule);
    if (!status) {
        pdl_sim_job_t job = {.schedule = schedule, .bytes = bench->bytes > 0 ? bench->bytes : 64 << 20};

        status = measure(topology, &job, &options, bench->network == DRAGONFLY ? 1 : 5, &result, &seconds);
        if (!status) {
            mflows = (double)result.flows / seconds / 1e6;
            megabytes = (double)result.max_rss_bytes / 1e6;
            *reached = reaches(bench, mflows, seconds, megabytes);
            printf("%-9s %-9s P %5d  flow %9.3f Mflow/s  %8.4f s  %5.0f MB%s%s  %.9g s\n", bench->algorithm,
                   shape.name, bench->ranks, mflows, seconds, megabytes,
                   bench->periodic ? "  periodic shortcut" : "", *reached ? "" : "  TOO SLOW", result.time_s);
        }
        if (!status && bench->simgrid && pdl_sim_has_engine(PDL_ENGINE_SIMGRID))
            status = compare(topology, &job, seconds, result.time_s);
    }
    pdl_schedule_destroy(schedule);
    pdl_topology_destroy(topology);
    return status;
}

int main(void)
{
    int slow = 0;

    printf("allreduce, or pairwise all-to-all, of 64 MiB; the first on the dragonfly of 66 MiB, in equal blocks; "
           "one core, "
           "processor time\n");
    if (!pdl_sim_has_engine(PDL_ENGINE_SIMGRID)) printf("there is no SimGrid: no comparison\n");
    for (size_t i = 0; i < sizeof(benches) / sizeof(benches[0]); i++) {
        bool reached = true;

        if (run_bench(&benches[i], &reached)) {
            fprintf(stderr, "bench_sim: %s\n", pdl_error_message());
            return 1;
        }
        slow += !reached;
    }
    return slow > 0;
}
