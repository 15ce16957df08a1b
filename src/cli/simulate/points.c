/*
 * One point of `paradl simulate`: a network, a size, and the algorithms on it.
 */
#include "cli/simulate/simulate.h"

#include <stdlib.h>

void pdl__free_point(pdl__point_t *point)
{
    for (int i = 0; i < point->report.count; i++) pdl_sim_verdict_free(&point->verdicts[i]);
    free(point->verdicts);
    free(point->start_s);
    pdl__free_index_sets(point->supports, point->ranks);
    if (point->owned) pdl_topology_destroy(point->topology);
}

pdl_status_t pdl__open_point(const pdl__setting_t *setting, int64_t hosts, pdl_topology_t *shared,
                             pdl__point_t *point)
{
    const pdl__simulate_values_t *v = setting->values;
    pdl_status_t                  status;

    *point = (pdl__point_t){.topology = shared};
    if (shared == NULL) {
        status = pdl__topology_from_options(v->name, &v->topology, hosts, &point->topology);
        if (status) return status;
        point->owned = true;
        if (v->fail_link != NULL) status = pdl__fail_links(v->fail_link, point->topology);
        if (!status && v->fail_switch != NULL) status = pdl__fail_switches(v->fail_switch, point->topology);
        if (status) return status;
    }
    if (v->stragglers == NULL) return PDL_OK;
    return pdl__parse_stragglers(v->stragglers, pdl_topology_hosts(point->topology), &point->start_s);
}

static void ask(const pdl__setting_t *setting, int64_t bytes, pdl__point_t *point)
{
    const pdl__simulate_values_t *v = setting->values;

    point->asked = (pdl_sim_case_t){.topology = point->topology,
                                    .collective = (pdl_collective_t)v->collective,
                                    .bytes = bytes,
                                    .groups = (int)v->jobs,
                                    .strided = v->placement == 1,
                                    .start_s = point->start_s,
                                    .segments = setting->segments,
                                    .density = v->density,
                                    .common = v->common,
                                    .options = setting->options};
}

static pdl_status_t find_supports(const pdl__setting_t *setting, pdl__point_t *point)
{
    pdl_status_t status;

    if (setting->values->index_sets == NULL) return PDL_OK;
    point->ranks = pdl_topology_hosts(point->topology) / (int)setting->values->jobs;
    status = pdl__read_index_sets(setting->values->index_sets, &point->asked, point->ranks, &point->supports);
    point->asked.supports = point->supports;
    return status;
}

/* How long the best algorithm takes when nothing has failed. */
static pdl_status_t run_intact(const pdl__setting_t *setting, pdl__point_t *point)
{
    pdl_sim_case_t    asked = point->asked;
    pdl_sim_verdict_t verdict;
    pdl_status_t      status;

    asked.options.trace = NULL;
    status = pdl__topology_from_options(setting->values->name, &setting->values->topology,
                                        pdl_topology_hosts(point->topology), &asked.topology);
    if (status) return status;
    status = pdl_sim_run_case(&asked, point->verdicts[0].algorithm, &verdict);
    if (!status) point->report.intact_s = verdict.result.time_s;
    if (!status) pdl_sim_verdict_free(&verdict);
    pdl_topology_destroy(asked.topology);
    return status;
}

pdl_status_t pdl__run_point(const pdl__setting_t *setting, int64_t bytes, bool ranking, pdl__point_t *point)
{
    const pdl__names_t *names = &setting->names;
    int                 count = 0;
    pdl_status_t        status;

    ask(setting, bytes, point);
    status = find_supports(setting, point);
    if (status) return status;
    if (names->count == 1 && !ranking) {
        point->verdicts = calloc(1, sizeof(*point->verdicts));
        if (point->verdicts == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
        status = pdl_sim_run_case(&point->asked, names->name[0], &point->verdicts[0]);
        count = 1;
    } else {
        status = pdl_sim_rank(&point->asked, names->count > 0 ? names->name : NULL, names->count, &point->verdicts,
                              &count);
    }
    if (status) return status;
    point->report = (pdl_sim_report_t){
        &point->asked, point->verdicts, count, names->count != 1 || ranking, 0, setting->values->algorithm};
    if ((setting->values->fail_link != NULL || setting->values->fail_switch != NULL) && point->verdicts[0].possible)
        status = run_intact(setting, point);
    return status;
}

pdl_status_t pdl__sweep_points(const pdl__simulate_values_t *v, int64_t points[PDL__MAX_POINTS], int *count)
{
    points[0] = 0;
    *count = 1;
    if (v->sweep_hosts != NULL)
        return pdl__parse_sweep("sweep-hosts", v->sweep_hosts, PDL_UNIT_NONE, points, count);
    if (v->sweep_bytes != NULL)
        return pdl__parse_sweep("sweep-bytes", v->sweep_bytes, PDL_UNIT_BYTES, points, count);
    return PDL_OK;
}
