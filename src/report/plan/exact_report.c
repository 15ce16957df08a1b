/*
 * What an exact search has looked at and found, for people and for programs.
 */
#include "report/plan/plan_cells.h"

#include <paradl/oracle/exact.h>

#include <string.h>

static int64_t removed_in_all(const pdl_exact_t *exact)
{
    int64_t sum = 0;

    for (int k = 0; k < PDL_BOUND_COUNT; k++) sum += exact->removed[k];
    return sum;
}

static void print_counts(const pdl_exact_t *exact, FILE *stream)
{
    char count[PDL_FORMAT_SIZE];

    fprintf(stream, "search: %s configurations, ", pdl_format_count(exact->configurations, count));
    fprintf(stream, "%s evaluated", pdl_format_count(exact->evaluated, count));
    for (int k = 0; k < PDL_BOUND_COUNT; k++)
        if (exact->removed[k] > 0)
            fprintf(stream, ", %s removed by %s", pdl_format_count(exact->removed[k], count),
                    pdl_exact_bound_names[k]);
}

/* What was not looked at is said. */
static void print_certificate(const pdl_search_t *search, FILE *stream)
{
    const pdl_exact_t *exact = search->exact;
    char               seconds[PDL_FORMAT_SIZE], left[PDL_FORMAT_SIZE];

    pdl_format_seconds(exact->seconds, seconds);
    pdl_format_count(exact->configurations - exact->evaluated - removed_in_all(exact), left);
    if (exact->certified)
        fprintf(stream, ", in %s: the best by the closed form is certified.\n", seconds);
    else
        fprintf(stream, "; ended after %s with %s not looked at: not certified.\n", seconds, left);
}

/* The best by the closed form, with the precision where several were asked for and the devices of its stages where these differ. */
static void print_best(const pdl_plan_report_t *report, const pdl_exact_t *exact, FILE *stream)
{
    const pdl_config_t *config = &exact->best[0].config;
    bool                several = report->search->precision_count > 0;
    char                cell[PDL__CELL_SIZE], places[512], seconds[PDL_FORMAT_SIZE];
    pdl_mesh_t          mesh = pdl_config_mesh(config);

    pdl_oracle_places(report->system, config->part_order, &mesh, places, sizeof(places));
    fprintf(stream, "%s by the closed form, before it is replayed: %s, %s%s%s, %s%s%s.\n",
            exact->certified ? "best" : "best so far", config->strategy->name,
            several ? pdl_precision_names[config->precision] : "", several ? ", " : "",
            pdl__cell_mesh(config, cell), places, places[0] != '\0' ? ", " : "",
            pdl_format_seconds(exact->best[0].projection.total_s, seconds));
}

void pdl__exact_print(const pdl_plan_report_t *report, FILE *stream)
{
    const pdl_search_t *search = report->search;
    const pdl_exact_t  *exact = search->exact;
    char                seconds[PDL_FORMAT_SIZE];

    if (!search->certified && search->not_certified[0] != '\0')
        fprintf(stream, "not certified: %s.\n", search->not_certified);
    if (exact == NULL) return;
    print_counts(exact, stream);
    print_certificate(search, stream);
    if (exact->count > 0) print_best(report, exact, stream);
    if (exact->front_count > 1)
        fprintf(stream, "Pareto front of time, memory and energy: %d configurations, from %s and %.3g GiB ",
                exact->front_count, pdl_format_seconds(exact->front[0].projection.total_s, seconds),
                exact->front[0].projection.memory_bytes / (1 << 30));
    if (exact->front_count > 1)
        fprintf(stream, "to %s and %.3g GiB.\n",
                pdl_format_seconds(exact->front[exact->front_count - 1].projection.total_s, seconds),
                exact->front[exact->front_count - 1].projection.memory_bytes / (1 << 30));
}

static void write_points(pdl_json_t *json, const char *key, const pdl_plan_report_t *report,
                         const pdl_exact_point_t *point, int count)
{
    pdl_json_open(json, key, '[');
    for (int i = 0; i < count; i++) {
        const pdl_projection_t *p = &point[i].projection;

        pdl_json_open(json, NULL, '{');
        pdl_json_string(json, "strategy", point[i].config.strategy->name);
        pdl__config_json(json, &point[i].config);
        pdl_json_string(json, "order", pdl_order_names[point[i].config.order]);
        pdl__places_json(json, report->system, &point[i].config);
        pdl_json_number(json, "total_s", p->total_s);
        pdl_json_bytes(json, "memory_bytes", p->memory_bytes);
        pdl_json_number(json, "energy_j", p->energy_j);
        pdl_json_number(json, "device_seconds", p->total_s * (double)report->request->pe);
        pdl_json_close(json);
    }
    pdl_json_close(json);
}

void pdl__exact_json(pdl_json_t *json, const pdl_plan_report_t *report)
{
    const pdl_exact_t *exact = report->search->exact;
    bool               exhaustive;

    if (exact == NULL) return;
    pdl_json_open(json, "exact", '{');
    exhaustive = report->request->exact->exhaustive;
    pdl_json_bool(json, "exhaustive", exhaustive);
    pdl_json_bool(json, "certified", exact->certified);
    pdl_json_int(json, "configurations", exact->configurations);
    pdl_json_int(json, "evaluated", exact->evaluated);
    pdl_json_int(json, "too_large", exact->too_large);
    pdl_json_int(json, "impossible", exact->impossible);
    pdl_json_open(json, "removed", '{');
    for (int k = 0; k < PDL_BOUND_COUNT; k++) pdl_json_int(json, pdl_exact_bound_names[k], exact->removed[k]);
    pdl_json_close(json);
    pdl_json_number(json, "seconds", exact->seconds);
    write_points(json, "best", report, exact->best, exact->count);
    if (exhaustive) write_points(json, "pareto", report, exact->front, exact->front_count);
    pdl_json_close(json);
}
