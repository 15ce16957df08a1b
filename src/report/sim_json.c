/*
 * Simulated collectives as JSON. The fields of one algorithm are the same alone, in a ranking and in a sweep.
 */
#include "report/sim_report.h"
#include "report/vertex.h"

#include <paradl/base/document.h>

#include <stdlib.h>

static void write_case(pdl_json_t *json, const pdl_sim_case_t *asked, const char *algorithm)
{
    pdl_json_string(json, "topology", pdl_topology_name(asked->topology));
    pdl_json_int(json, "hosts", pdl_topology_hosts(asked->topology));
    pdl_json_string(json, "collective", pdl_collective_names[asked->collective]);
    pdl_json_string(json, "algorithm", algorithm);
    pdl_json_int(json, "bytes", asked->bytes);
    pdl_json_string(json, "engine", pdl_engine_names[asked->options.engine]);
    pdl_json_int(json, "jobs", asked->groups > 1 ? asked->groups : 1);
}

static void write_busiest(pdl_json_t *json, const pdl_topology_t *topology, const pdl_sim_result_t *result)
{
    const pdl_link_t *link;
    char              name[PDL__VERTEX_SIZE];

    if (result->busiest_link < 0) {
        pdl_json_string(json, "busiest_link", NULL);
        return;
    }
    link = &pdl_topology_links(topology)[result->busiest_link];
    pdl_json_open(json, "busiest_link", '{');
    pdl_json_string(json, "from", pdl__vertex_name(topology, link->src, name));
    pdl_json_string(json, "to", pdl__vertex_name(topology, link->dst, name));
    pdl_json_bytes(json, "bytes", result->busiest_bytes);
    pdl_json_close(json);
}

/* Of a network whose power is not described nothing is known. */
static void write_energy(pdl_json_t *json, const pdl_sim_result_t *result)
{
    if (result->energy_all_j > 0) {
        pdl_json_number(json, "energy_used_j", result->energy_used_j);
        pdl_json_number(json, "energy_all_j", result->energy_all_j);
    } else {
        pdl_json_string(json, "energy_used_j", NULL);
        pdl_json_string(json, "energy_all_j", NULL);
    }
}

static void write_result(pdl_json_t *json, const pdl_sim_case_t *asked, const pdl_sim_verdict_t *v)
{
    const pdl_sim_result_t *result = &v->result;

    pdl_json_number(json, "time_s", result->time_s);
    pdl_json_int(json, "flows", result->flows);
    pdl_json_int(json, "steps", result->steps);
    pdl_json_int(json, "segments", v->segments);
    if (result->mean_blocks) pdl_json_bool(json, "mean_blocks", true);
    pdl_json_number(json, "bound_s", v->bound_s);
    pdl_json_number(json, "bound_ratio", v->ratio);
    pdl_json_number(json, "bus_bytes_per_s", pdl__bus_bandwidth(asked, result->time_s));
    write_busiest(json, asked->topology, result);
    pdl_json_string(json, "limited_by", pdl_sim_part_names[v->limit]);
    pdl_json_open(json, "parts", '{');
    for (int p = 0; p < PDL_PART_COUNT; p++) {
        char key[32];

        snprintf(key, sizeof(key), "%s_s", pdl_sim_part_names[p]);
        pdl_json_number(json, key, v->part_s[p]);
    }
    pdl_json_close(json);
    write_energy(json, result);
    pdl_json_int(json, "events", result->events);
    pdl_json_int(json, "circuits", v->circuits);
    pdl_json_number(json, "wall_s", result->wall_s);
    pdl_json_int(json, "max_rss_bytes", result->max_rss_bytes);
}

static void write_job_times(pdl_json_t *json, const pdl_sim_case_t *asked, const pdl_sim_result_t *result)
{
    if (asked->groups <= 1 || result->job_s == NULL) return;
    pdl_json_open(json, "job_s", '[');
    for (int g = 0; g < asked->groups; g++) pdl_json_number(json, NULL, result->job_s[g]);
    pdl_json_close(json);
}

static pdl_status_t write_links(pdl_json_t *json, const pdl_topology_t *topology, const pdl_sim_result_t *result)
{
    const pdl_link_t *links = pdl_topology_links(topology);
    pdl__loaded_t    *loaded;
    char              name[PDL__VERTEX_SIZE];
    int               count;
    pdl_status_t      status;

    if (result->link_bytes == NULL) return PDL_OK;
    status = pdl__loaded_links(topology, result, &loaded, &count);
    if (status) return status;
    pdl_json_open(json, "links", '[');
    for (int i = 0; i < count; i++) {
        const pdl_link_t *link = &links[loaded[i].link];

        pdl_json_open(json, NULL, '{');
        pdl_json_int(json, "link", loaded[i].link);
        pdl_json_string(json, "from", pdl__vertex_name(topology, link->src, name));
        pdl_json_string(json, "to", pdl__vertex_name(topology, link->dst, name));
        pdl_json_string(json, "kind", pdl_link_kind_names[link->kind]);
        pdl_json_bytes(json, "bytes", loaded[i].bytes);
        pdl_json_number(json, "busy", loaded[i].bytes / link->bytes_per_s / result->time_s);
        pdl_json_close(json);
    }
    pdl_json_close(json);
    free(loaded);
    return PDL_OK;
}

static void write_candidate(pdl_json_t *json, const pdl_sim_case_t *asked, const pdl_sim_verdict_t *v, int rank)
{
    pdl_json_open(json, NULL, '{');
    if (v->possible)
        pdl_json_int(json, "rank", rank);
    else
        pdl_json_string(json, "rank", NULL);
    pdl_json_string(json, "algorithm", v->algorithm);
    pdl_json_bool(json, "possible", v->possible);
    if (v->possible)
        write_result(json, asked, v);
    else
        pdl_json_string(json, "reason", v->problem);
    pdl_json_close(json);
}

/* What a ranking and a point of a sweep have in common. */
static void write_candidates(pdl_json_t *json, const pdl_sim_report_t *report)
{
    pdl_json_open(json, "candidates", '[');
    for (int i = 0; i < report->count; i++) write_candidate(json, report->asked, &report->verdicts[i], i + 1);
    pdl_json_close(json);
}

pdl_status_t pdl_report_simulation_json(const pdl_sim_report_t *report, FILE *stream)
{
    const pdl_sim_verdict_t *best = &report->verdicts[0];
    pdl_json_t               json;
    pdl_status_t             status = PDL_OK;

    pdl_document_begin(&json, stream, "collective/1");
    write_case(&json, report->asked, report->algorithms);
    if (report->several) {
        pdl_json_string(&json, "best", best->possible ? best->algorithm : NULL);
        write_candidates(&json, report);
    } else {
        write_result(&json, report->asked, best);
    }
    if (best->possible) write_job_times(&json, report->asked, &best->result);
    if (report->intact_s > 0) {
        pdl_json_number(&json, "intact_s", report->intact_s);
        pdl_json_number(&json, "slow_down", best->result.time_s / report->intact_s);
    }
    if (best->possible) status = write_links(&json, report->asked->topology, &best->result);
    pdl_json_close(&json);
    return status;
}

pdl_status_t pdl_report_sweep_json(const pdl_sim_sweep_t *sweep, FILE *stream)
{
    pdl_json_t json;

    pdl_document_begin(&json, stream, "sweep/1");
    pdl_json_string(&json, "sweep", sweep->over_hosts ? "hosts" : "bytes");
    pdl_json_open(&json, "points", '[');
    for (int p = 0; p < sweep->point_count; p++) {
        const pdl_sim_report_t *report = &sweep->points[p];

        pdl_json_open(&json, NULL, '{');
        write_case(&json, report->asked, report->algorithms);
        write_candidates(&json, report);
        pdl_json_close(&json);
    }
    pdl_json_close(&json);
    pdl_json_close(&json);
    return PDL_OK;
}
