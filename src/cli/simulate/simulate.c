/*
 * paradl simulate: collectives on a topology; one algorithm, a ranking, or a sweep. A plan goes to plan.c, several
 * topologies to networks.c.
 */
#include "cli/simulate/simulate.h"
#include "cli/commands.h"
#include "cli/simulate/plan.h"

#include <paradl/report/table.h>

#include <stdlib.h>
#include <string.h>

typedef pdl__simulate_values_t values_t;

static const char *const placement_names[] = {"block", "stride"};

const pdl__option_t pdl__simulate_options[] = {
    {"topology", "T", NULL,
     "the network: a built-in name (paradl topo list) or a .yaml file; repeated, networks are compared, each with "
     "options of its own as in fat-tree:uplinks=11",
     PDL__LIST(values_t, networks), .required = true},
    {"collective", "C", "allreduce", "what is simulated",
     PDL__CHOICE(values_t, collective, pdl_collective_names, PDL_COLL_COUNT)},
    {"algorithm", "A|all", "all", "one, several with commas between them, or all that support the case, ranked",
     PDL__TEXT(values_t, algorithm)},
    {"bytes", "M", NULL, "that every rank holds, such as 64MiB; all-to-all: that a rank sends to all together",
     PDL__QUANTITY(values_t, bytes, PDL_UNIT_BYTES)},
    {"engine", "E", "flow", "how time passes", PDL__CHOICE(values_t, engine, pdl_engine_names, PDL_ENGINE_COUNT)},
    PDL__TOPOLOGY_OPTIONS(values_t, topology),
    {"jobs", "N", "1", "groups that run the collective at once, each on its share of the hosts",
     PDL__INT(values_t, jobs, 1)},
    {"placement", "HOW", "block", "hosts of a group: consecutive, or every N-th",
     PDL__CHOICE(values_t, placement, placement_names, 2)},
    {"segments", "S|auto", "auto",
     "of pipelined algorithms (chain, double_tree); auto: the best number for the size",
     PDL__TEXT(values_t, segments)},
    {"density", "X", NULL,
     "adds the sparse allreduces: share of the elements that every rank keeps, such as 0.0078",
     PDL__POSITIVE(values_t, density, PDL_UNIT_NONE)},
    {"common", "X", NULL, "sparse: share of these that all ranks have in common",
     PDL__QUANTITY(values_t, common, PDL_UNIT_NONE)},
    {"index-sets", "random|FILE", NULL,
     "sparse: elements that ranks keep, drawn (random:SEED) or of a run, instead of sizes to be expected",
     PDL__TEXT(values_t, index_sets)},
    {"stragglers", "HOST:TIME,..", NULL, "hosts that start later than the others", PDL__TEXT(values_t, stragglers)},
    {"fail-link", "A-B,..", NULL,
     "cables that are out, such as s0-s1, or random:N[:SEED]; says how much slower it gets",
     PDL__TEXT(values_t, fail_link)},
    {"fail-switch", "S,..", NULL,
     "switches that are out, such as s0, or random:N[:SEED] of those that have no hosts",
     PDL__TEXT(values_t, fail_switch)},
    {"gamma", "TIME", NULL, "to reduce one byte, such as 0.02ns", PDL__QUANTITY(values_t, gamma, PDL_UNIT_SECONDS)},
    {"eager", "SIZE", NULL, "messages up to this size do not wait for the receiver",
     PDL__QUANTITY(values_t, eager, PDL_UNIT_BYTES)},
    {"latency-factors", "SIZE:F,..", NULL, "latency of messages from a size on is multiplied",
     PDL__TEXT(values_t, latency_factors)},
    {"bandwidth-factors", "SIZE:F,..", NULL, "bandwidth of messages from a size on is multiplied",
     PDL__TEXT(values_t, bandwidth_factors)},
    {"reverse-share", "X", NULL, "share of a flow's rate that acknowledgements take the other way, such as 0.05",
     PDL__QUANTITY(values_t, reverse_share, PDL_UNIT_NONE)},
    {"latency-share", NULL, NULL, "flows share links in inverse proportion to their latency, as in SimGrid",
     PDL__FLAG(values_t, latency_share)},
    {"every-step", NULL, NULL, "simulates every step of long rings, without the shortcut",
     PDL__FLAG(values_t, every_step)},
    {"sweep-bytes", "A:B:F", NULL, "sizes from A to B by factor F", PDL__TEXT(values_t, sweep_bytes)},
    {"sweep-hosts", "A:B:F", NULL, "hosts from A to B by factor F", PDL__TEXT(values_t, sweep_hosts)},
    {"plot", "FILE.svg", NULL, "draws the sweep; -: with characters, on standard output", PDL__TEXT(values_t, plot),
     .writes = true},
    PDL__ROOM_OPTIONS(values_t, room),
    {"trace", "FILE", NULL, "writes a timeline for Perfetto or chrome://tracing", PDL__TEXT(values_t, trace),
     .writes = true},
    {"system", "S", NULL, "of a plan: the machine, in place of the one it names", PDL__TEXT(values_t, system)},
    {"set", "KEY=VALUE", NULL,
     "of a plan: its system with another value, such as device.memory=32GB; may be repeated",
     PDL__LIST(values_t, set)},
    {"framework", "NAME", NULL,
     "of a plan: what trains: pytorch, megatron, ... or a .yaml file; else an ideal framework",
     PDL__TEXT(values_t, framework)},
    {"parameters", "NAME", NULL, "of a plan: parameter set of the cost model; else that of the system",
     PDL__TEXT(values_t, parameters)},
    {"with", "NAME=VALUE", NULL,
     "of a plan: what trains with another value of a parameter or switch, such as overlap_gradients=false; may be "
     "repeated",
     PDL__LIST(values_t, with)},
    {"slow", "RANK:FACTOR", NULL, "of a plan: a rank whose computation takes FACTOR times as long",
     PDL__TEXT(values_t, slow)},
    {"trace-ranks", "N", "8", "of a plan: ranks in the timeline, one of each pipeline stage",
     PDL__INT(values_t, trace_ranks, 1)},
    {"ignore-memory", NULL, NULL, "of a plan: simulates it even if it needs more memory than the device has",
     PDL__FLAG(values_t, ignore_memory)},
    {"links", NULL, NULL, "prints what each link carried", PDL__FLAG(values_t, links)},
    {"json", NULL, NULL, "prints one JSON document instead of a table", PDL__FLAG(values_t, json)},
    {.name = NULL},
};

static pdl_status_t prepare(const values_t *v, pdl__setting_t *setting)
{
    pdl_sim_options_t *engine = &setting->options;
    pdl_status_t       status = pdl__parse_names("algorithm", v->algorithm, &setting->names);

    if (!status) status = pdl__parse_segments(v->segments, &setting->segments);
    setting->values = v;
    *engine = pdl_sim_options_default();
    engine->engine = (pdl_engine_t)v->engine;
    engine->gamma_s_per_byte = v->gamma;
    engine->eager_bytes = v->eager;
    engine->reverse_share = v->reverse_share;
    engine->periodic = !v->every_step;
    engine->latency_share = v->latency_share;
    engine->link_loads = v->links;
    engine->latency_factor = setting->latency;
    engine->bandwidth_factor = setting->bandwidth;
    if (pdl_terminal_width(stderr) > 0) engine->progress = stderr;
    if (!status && v->latency_factors)
        status =
            pdl__parse_factors("latency-factors", v->latency_factors, setting->latency, &engine->latency_factors);
    if (!status && v->bandwidth_factors)
        status = pdl__parse_factors("bandwidth-factors", v->bandwidth_factors, setting->bandwidth,
                                    &engine->bandwidth_factors);
    return status;
}

static bool ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text), wanted = strlen(ending);

    return length > wanted && strcmp(text + length - wanted, ending) == 0;
}

static pdl_status_t check_values(const values_t *v, const pdl__names_t *names)
{
    bool sweep = v->sweep_bytes != NULL || v->sweep_hosts != NULL;

    if (v->sweep_bytes != NULL && v->sweep_hosts != NULL)
        return pdl_error(PDL_ERR_INPUT, "--sweep-bytes and --sweep-hosts exclude each other");
    if (v->sweep_bytes == NULL && (v->bytes < 1 || v->bytes > 9e18))
        return pdl_error(PDL_ERR_INPUT, "--bytes: expected a size of at least one byte, for example --bytes 64MiB");
    if (v->plot != NULL && !pdl_output_is_stdout(v->plot) && !ends_with(v->plot, ".svg"))
        return pdl_error(PDL_ERR_INPUT, "--plot writes SVG: give a name that ends in .svg, not %.200s", v->plot);
    if (v->plot != NULL && !sweep) return pdl_error(PDL_ERR_INPUT, "--plot needs --sweep-bytes or --sweep-hosts");
    if (v->networks.count > 1 && (v->links || v->trace != NULL || v->index_sets != NULL))
        return pdl_error(PDL_ERR_INPUT, "--links, --trace and --index-sets are for one network");
    if (v->networks.count <= 1 && (v->room.switches_per_cabinet > 0 || v->room.set.count > 0))
        return pdl_error(PDL_ERR_INPUT, "--room and --switches-per-cabinet are for several networks side by side; "
                                        "paradl topo show prices one");
    if (v->index_sets != NULL && sweep)
        return pdl_error(PDL_ERR_INPUT, "--index-sets is for one size and one number of hosts");
    if (v->links && sweep) return pdl_error(PDL_ERR_INPUT, "--links is for one size and one number of hosts");
    if (v->trace != NULL && (sweep || names->count != 1 || v->engine != PDL_ENGINE_FLOW))
        return pdl_error(PDL_ERR_INPUT, "--trace is for one algorithm, one size and the engine flow");
    if (v->density > 1 || v->common > 1)
        return pdl_error(PDL_ERR_INPUT, "--density and --common are shares of 1, not %g and %g", v->density,
                         v->common);
    if (v->jobs > INT32_MAX) return pdl_error(PDL_ERR_INPUT, "--jobs: %lld are too many", (long long)v->jobs);
    return PDL_OK;
}

static pdl_status_t run_traced(pdl__setting_t *setting, pdl__point_t *point)
{
    pdl_output_t *output;
    pdl_status_t  status = pdl_output_open(setting->values->trace, &output);

    if (status) return status;
    setting->options.trace = pdl_output_stream(output);
    status = pdl__run_point(setting, (int64_t)setting->values->bytes, false, point);
    return pdl__finish_output(output, status);
}

static pdl_status_t run_one(pdl__setting_t *setting)
{
    const values_t *v = setting->values;
    pdl__point_t    point;
    pdl_status_t    status = pdl__open_point(setting, 0, NULL, &point);

    if (!status)
        status = v->trace != NULL ? run_traced(setting, &point)
                                  : pdl__run_point(setting, (int64_t)v->bytes, false, &point);
    if (!status)
        status = v->json ? pdl_report_simulation_json(&point.report, stdout)
                         : pdl_report_simulation(&point.report, stdout);
    if (!status && !point.verdicts[0].possible)
        status = pdl_error(PDL_ERR_LIMIT, "no algorithm supports this case");
    pdl__free_point(&point);
    return status;
}

static pdl_status_t write_plot(const pdl_sim_sweep_t *sweep, const char *path)
{
    pdl_output_t *output;
    pdl_status_t  status = pdl_output_open(path, &output);

    if (status) return status;
    status = pdl_output_is_stdout(path) ? pdl_report_sweep_text(sweep, pdl_output_stream(output))
                                        : pdl_report_sweep_svg(sweep, pdl_output_stream(output));
    return pdl__finish_output(output, status);
}

/* The algorithms of the sweep are those of its points: all points have the same, in other orders. */
static pdl_status_t report_sweep(const pdl__setting_t *setting, const pdl__point_t *points, int count)
{
    const values_t     *v = setting->values;
    pdl_sim_report_t    reports[PDL__MAX_POINTS];
    const char         *names[PDL__MAX_CHOSEN * 2];
    pdl_sim_sweep_t     sweep = {reports, count, names, points[0].report.count, v->sweep_hosts != NULL, false};
    const pdl__point_t *last = &points[count - 1];
    pdl_status_t        status = PDL_OK;

    for (int p = 0; p < count; p++) reports[p] = points[p].report;
    if (sweep.algorithm_count > PDL__MAX_CHOSEN * 2) sweep.algorithm_count = PDL__MAX_CHOSEN * 2;
    for (int a = 0; a < sweep.algorithm_count; a++) names[a] = last->verdicts[a].algorithm;
    if (v->plot != NULL) status = write_plot(&sweep, v->plot);
    if (status) return status;
    return v->json ? pdl_report_sweep_json(&sweep, stdout) : pdl_report_sweep(&sweep, stdout);
}

static pdl_status_t run_sweep(pdl__setting_t *setting)
{
    const values_t *v = setting->values;
    int64_t         values[PDL__MAX_POINTS];
    int             count, done = 0;
    pdl__point_t   *points;
    pdl_status_t    status = pdl__sweep_points(v, values, &count);

    if (status) return status;
    points = calloc((size_t)count, sizeof(*points));
    if (points == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a sweep");
    for (; !status && done < count; done++) {
        pdl_topology_t *shared = v->sweep_hosts == NULL && done > 0 ? points[0].topology : NULL;

        status = pdl__open_point(setting, v->sweep_hosts != NULL ? values[done] : 0, shared, &points[done]);
        if (!status)
            status = pdl__run_point(setting, v->sweep_hosts != NULL ? (int64_t)v->bytes : values[done], false,
                                    &points[done]);
    }
    if (!status) status = report_sweep(setting, points, count);
    for (int p = done - 1; p >= 0; p--) pdl__free_point(&points[p]);
    free(points);
    return status;
}

static pdl_status_t run_plan(const values_t *v, const char *path)
{
    pdl__plan_values_t values = {.path = path,
                                 .system = v->system,
                                 .set = &v->set,
                                 .with = &v->with,
                                 .framework = v->framework,
                                 .parameters = v->parameters,
                                 .slow = v->slow,
                                 .trace = v->trace,
                                 .engine = (pdl_engine_t)v->engine,
                                 .trace_ranks = v->trace_ranks,
                                 .ignore_memory = v->ignore_memory,
                                 .json = v->json};

    if (v->networks.count > 0)
        return pdl_error(PDL_ERR_INPUT, "%.100s: a plan runs on the network of its system; leave out --topology",
                         path);
    return pdl__simulate_plan(&values);
}

static pdl_status_t run(const void *given, const pdl__operands_t *operands)
{
    const values_t *v = given;
    values_t        one = *v;
    char            name[4096];
    pdl__setting_t  setting;
    pdl_status_t    status;

    if (operands->count > 0) return run_plan(v, operands->text[0]);
    if (v->system != NULL || v->set.count > 0 || v->framework != NULL || v->parameters != NULL ||
        v->with.count > 0 || v->slow != NULL || v->ignore_memory)
        return pdl_error(PDL_ERR_INPUT,
                         "--system, --set, --framework, --parameters, --with, --slow and --ignore-memory "
                         "are for a plan: give PLAN.yaml");
    memset(&setting, 0, sizeof(setting));
    snprintf(name, sizeof(name), "%s", v->networks.text[0]);
    one.name = name;
    status = prepare(&one, &setting);
    if (!status && v->networks.count == 1) status = pdl__take_own_options(pdl__simulate_options, name, &one);
    if (!status) status = check_values(v, &setting.names);
    if (!status)
        status = pdl__check_topology_options(pdl__simulate_options, v, v->networks.text, v->networks.count);
    if (status) return status;
    if (v->networks.count > 1) return pdl__simulate_networks(&setting);
    return v->sweep_bytes != NULL || v->sweep_hosts != NULL ? run_sweep(&setting) : run_one(&setting);
}

const pdl__command_t pdl__simulate_commands[] = {
    {.name = "simulate",
     .usage =
         "PLAN.yaml [options] | --topology T --hosts P [--collective C] [--algorithm A|all] --bytes M [options]",
     .summary = "simulates a plan on its system, or collectives on a network, and ranks the algorithms",
     .notes = "An option that the topology does not have is refused; a plan ignores those of collectives.",
     .options = pdl__simulate_options,
     .values = sizeof(values_t),
     .optional = 1,
     .run = run},
    {.name = NULL},
};
