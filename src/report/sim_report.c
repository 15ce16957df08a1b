/*
 * Simulated collectives as tables: one algorithm, a ranking with the reasons, a sweep.
 */
#include "report/sim_report.h"
#include "report/vertex.h"

#include <paradl/base/units.h>
#include <paradl/report/table.h>

#include <stdlib.h>
#include <string.h>

#define LINKS_SHOWN 32

static const pdl_column_t pairs[] = {{"", PDL_LEFT}, {"", PDL_LEFT}};

static int ranks_of(const pdl_sim_case_t *asked)
{
    return pdl_topology_hosts(asked->topology) / (asked->groups > 1 ? asked->groups : 1);
}

double pdl__bus_bandwidth(const pdl_sim_case_t *asked, double time_s)
{
    double ranks = ranks_of(asked), bytes = (double)asked->bytes;

    if (!(time_s > 0)) return 0;
    if (asked->collective == PDL_COLL_BROADCAST) return bytes / time_s;
    return (asked->collective == PDL_COLL_ALLREDUCE ? 2 : 1) * (ranks - 1) / ranks * bytes / time_s;
}

const pdl_sim_verdict_t *pdl__find_verdict(const pdl_sim_report_t *report, const char *algorithm)
{
    for (int i = 0; i < report->count; i++)
        if (strcmp(report->verdicts[i].algorithm, algorithm) == 0) return &report->verdicts[i];
    return NULL;
}

static void print_heading(const pdl_sim_case_t *asked, const char *algorithm, FILE *stream)
{
    char hosts[PDL_FORMAT_SIZE], bytes[PDL_FORMAT_SIZE];

    fprintf(stream, "%s   %s hosts: %s\n", pdl_topology_name(asked->topology),
            pdl_format_count(pdl_topology_hosts(asked->topology), hosts),
            pdl_topology_description(asked->topology));
    fprintf(stream, "%s%s%s of %s", pdl_collective_names[asked->collective], algorithm != NULL ? " " : "",
            algorithm != NULL ? algorithm : "", pdl_format_bytes((double)asked->bytes, bytes));
    if (asked->groups > 1)
        fprintf(stream, ", %d groups of %d %s hosts at once", asked->groups, ranks_of(asked),
                asked->strided ? "distant" : "consecutive");
    fprintf(stream, ", engine %s\n\n", pdl_engine_names[asked->options.engine]);
}

static void add_pair(pdl_table_t *table, const char *name, const char *value)
{
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "%s", name);
    pdl_table_cell(table, "%s", value);
}

/* "latency 12.0 us, bandwidth 10.6 ms"; parts that take no time are left out. */
static void format_parts(const pdl_sim_verdict_t *verdict, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (int p = 0; p < PDL_PART_COUNT && used < size; p++) {
        char seconds[PDL_FORMAT_SIZE];

        if (verdict->part_s[p] <= 1e-9 * verdict->result.time_s) continue;
        used += (size_t)snprintf(text + used, size - used, "%s%s %s", used > 0 ? ", " : "", pdl_sim_part_names[p],
                                 pdl_format_seconds(verdict->part_s[p], seconds));
    }
}

static void add_busiest(pdl_table_t *table, const pdl_sim_case_t *asked, const pdl_sim_result_t *result)
{
    const pdl_link_t *link;
    char              from[PDL__VERTEX_SIZE], to[PDL__VERTEX_SIZE], bytes[PDL_FORMAT_SIZE];

    if (result->busiest_link < 0) return;
    link = &pdl_topology_links(asked->topology)[result->busiest_link];
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "busiest link");
    pdl_table_cell(table, "%s %s %s, %s, busy for %.0f %% of the time",
                   pdl__vertex_name(asked->topology, link->src, from), link->both_ways ? "<->" : "->",
                   pdl__vertex_name(asked->topology, link->dst, to), pdl_format_bytes(result->busiest_bytes, bytes),
                   100 * result->busiest_bytes / link->bytes_per_s / result->time_s);
}

static void add_times(pdl_table_t *table, const pdl_sim_report_t *report, const pdl_bound_t *bound)
{
    const pdl_sim_verdict_t *v = &report->verdicts[0];
    char                     text[256], time[PDL_FORMAT_SIZE];

    add_pair(table, "time", pdl_format_seconds(v->result.time_s, time));
    if (v->ratio > 0) {
        snprintf(text, sizeof(text), "%s by %s; the time is %.3f times that",
                 pdl_format_seconds(bound->total_s, time), bound->governing, v->ratio);
        add_pair(table, "lower bound", text);
    }
    format_parts(v, text, sizeof(text));
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "limited by");
    pdl_table_cell(table, "%s (%s)", pdl_sim_part_names[v->limit], text);
    if (report->intact_s > 0) {
        pdl_table_row(table, PDL_ROW_PLAIN);
        pdl_table_cell(table, "failures");
        pdl_table_cell(table, "%.3f times slower than the intact network (%s)", v->result.time_s / report->intact_s,
                       pdl_format_seconds(report->intact_s, time));
    }
    add_pair(table, "bus bandwidth",
             pdl_format_byte_rate(pdl__bus_bandwidth(report->asked, v->result.time_s), time));
}

/* Said below what it is true of. */
static void print_mean_blocks(const pdl_sim_report_t *report, FILE *stream)
{
    for (int i = 0; i < report->count; i++) {
        if (!report->verdicts[i].possible || !report->verdicts[i].result.mean_blocks) continue;
        fprintf(stream,
                "Blocks of %s differ by an element; all had their mean size. --every-step follows each, and takes "
                "long.\n",
                report->verdicts[i].algorithm);
    }
}

static pdl_status_t print_one(const pdl_sim_report_t *report, FILE *stream)
{
    const pdl_sim_verdict_t *v = &report->verdicts[0];
    pdl_table_t             *table;
    pdl_bound_t              bound;
    char                     text[PDL_FORMAT_SIZE];
    pdl_status_t             status = pdl_sim_case_bound(report->asked, &bound);

    if (status) return status;
    print_heading(report->asked, v->algorithm, stream);
    table = pdl_table_create(pairs, 2);
    add_times(table, report, &bound);
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "flows");
    pdl_table_cell(table, "%s in %d steps", pdl_format_count(v->result.flows, text), v->result.steps);
    if (v->segments > 1) add_pair(table, "segments", pdl_format_count(v->segments, text));
    add_busiest(table, report->asked, &v->result);
    if (v->circuits > 0) add_pair(table, "circuits", pdl_format_count(v->circuits, text));
    if (v->result.energy_all_j > 0) {
        pdl_table_row(table, PDL_ROW_PLAIN);
        pdl_table_cell(table, "energy");
        pdl_table_cell(table, "%.4g J of the links used, %.4g J of all links", v->result.energy_used_j,
                       v->result.energy_all_j);
    }
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status;
}

static void add_ranked(pdl_table_t *table, const pdl_sim_verdict_t *v, int rank)
{
    char text[PDL_FORMAT_SIZE];

    pdl_table_row(table, !v->possible ? PDL_ROW_FAINT : rank == 1 ? PDL_ROW_STRONG : PDL_ROW_PLAIN);
    if (!v->possible) {
        pdl_table_cell(table, "-");
        pdl_table_cell(table, "%s", v->algorithm);
        pdl_table_span(table, "not possible: %s", v->problem);
        return;
    }
    pdl_table_cell(table, "%d", rank);
    pdl_table_cell(table, "%s", v->algorithm);
    pdl_table_cell(table, "%s", pdl_format_seconds(v->result.time_s, text));
    if (v->ratio > 0)
        pdl_table_cell(table, "%.3f", v->ratio);
    else
        pdl_table_cell(table, "-");
    pdl_table_cell(table, "%s %.0f %%", pdl_sim_part_names[v->limit],
                   v->result.time_s > 0 ? 100 * v->part_s[v->limit] / v->result.time_s : 0.0);
    pdl_table_cell(table, "%s", pdl_format_seconds(v->part_s[PDL_PART_LATENCY], text));
    pdl_table_cell(table, "%s", pdl_format_seconds(v->part_s[PDL_PART_BANDWIDTH], text));
    pdl_table_cell(table, "%s", pdl_format_seconds(v->part_s[PDL_PART_CONTENTION], text));
    if (v->segments > 1)
        pdl_table_cell(table, "%s", pdl_format_count(v->segments, text));
    else
        pdl_table_cell(table, "-");
    pdl_table_cell(table, "%d", v->result.steps);
    pdl_table_cell(table, "%s", pdl_format_count(v->result.flows, text));
}

/* Times that differ by less are the same for people. */
#define TIE 1e-9

static bool ties(const pdl_sim_report_t *report, int i)
{
    return report->verdicts[i].possible &&
           report->verdicts[i].result.time_s <= report->verdicts[0].result.time_s * (1 + TIE);
}

static void print_ties(const pdl_sim_report_t *report, FILE *stream)
{
    for (int i = 1; i < report->count && ties(report, i); i++)
        fprintf(stream, "%s%s", i == 1 ? " As fast: " : ", ", report->verdicts[i].algorithm);
    if (report->count > 1 && ties(report, 1)) fputs(".", stream);
}

/* Why the best beats the next: the part in which they differ most. */
static void print_reason(const pdl_sim_report_t *report, FILE *stream)
{
    const pdl_sim_verdict_t *best = &report->verdicts[0], *next = &report->verdicts[1];
    char                     first[PDL_FORMAT_SIZE], second[PDL_FORMAT_SIZE];
    int                      part = 0;

    if (!best->possible) return;
    fprintf(stream, "\nbest: %s", best->algorithm);
    if (best->ratio > 0)
        fprintf(stream, ", %.3f times the lower bound of %s", best->ratio,
                pdl_format_seconds(best->bound_s, first));
    fputs(".", stream);
    print_ties(report, stream);
    if (report->count > 1 && next->possible && next->result.time_s > best->result.time_s * (1 + 1e-6)) {
        for (int p = 1; p < PDL_PART_COUNT; p++)
            if (next->part_s[p] - best->part_s[p] > next->part_s[part] - best->part_s[part]) part = p;
        fprintf(stream, " It beats %s by %.1f %%, chiefly in %s: %s against %s.", next->algorithm,
                100 * (1 - best->result.time_s / next->result.time_s), pdl_sim_part_names[part],
                pdl_format_seconds(best->part_s[part], first), pdl_format_seconds(next->part_s[part], second));
    }
    fputs("\n", stream);
    if (report->intact_s > 0)
        fprintf(stream, "With these failures it is %.3f times slower than on the intact network (%s).\n",
                best->result.time_s / report->intact_s, pdl_format_seconds(report->intact_s, first));
}

static pdl_status_t print_ranking(const pdl_sim_report_t *report, FILE *stream)
{
    static const pdl_column_t columns[] = {{"#", PDL_RIGHT},         {"algorithm", PDL_LEFT},
                                           {"time", PDL_RIGHT},      {"x bound", PDL_RIGHT},
                                           {"limited by", PDL_LEFT}, {"latency", PDL_RIGHT},
                                           {"bandwidth", PDL_RIGHT}, {"contention", PDL_RIGHT},
                                           {"segments", PDL_RIGHT},  {"steps", PDL_RIGHT},
                                           {"flows", PDL_RIGHT}};
    pdl_table_t              *table = pdl_table_create(columns, sizeof(columns) / sizeof(columns[0]));
    pdl_status_t              status;

    print_heading(report->asked, NULL, stream);
    for (int i = 0; i < report->count; i++) add_ranked(table, &report->verdicts[i], i + 1);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    if (!status) print_reason(report, stream);
    if (!status && (report->asked->density > 0 || report->asked->supports != NULL))
        fprintf(stream, "Sparse algorithms have no lower bound here: their messages have sizes %s.\n",
                report->asked->supports != NULL ? "of the index sets" : "to be expected");
    return status;
}

static int busier_first(const void *left, const void *right)
{
    const pdl__loaded_t *a = left, *b = right;

    if (a->bytes > b->bytes) return -1;
    if (a->bytes < b->bytes) return 1;
    return a->link - b->link;
}

pdl_status_t pdl__loaded_links(const pdl_topology_t *topology, const pdl_sim_result_t *result,
                               pdl__loaded_t **loaded, int *count)
{
    pdl__loaded_t *list = calloc((size_t)pdl_topology_link_count(topology) + 1, sizeof(*list));

    *count = 0;
    if (list == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for the loads of the links");
    for (int i = 0; i < pdl_topology_link_count(topology); i++)
        if (result->link_bytes[i] > 0) list[(*count)++] = (pdl__loaded_t){i, result->link_bytes[i]};
    qsort(list, (size_t)*count, sizeof(*list), busier_first);
    *loaded = list;
    return PDL_OK;
}

static void add_link(pdl_table_t *table, const pdl_topology_t *topology, const pdl__loaded_t *loaded, double time_s)
{
    const pdl_link_t *link = &pdl_topology_links(topology)[loaded->link];
    char              from[PDL__VERTEX_SIZE], to[PDL__VERTEX_SIZE], text[PDL_FORMAT_SIZE];

    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "%d", loaded->link);
    pdl_table_cell(table, "%s", pdl__vertex_name(topology, link->src, from));
    pdl_table_cell(table, "%s", pdl__vertex_name(topology, link->dst, to));
    pdl_table_cell(table, "%s", pdl_link_kind_names[link->kind]);
    pdl_table_cell(table, "%s", pdl_format_bytes(loaded->bytes, text));
    pdl_table_cell(table, "%.1f %%", 100 * loaded->bytes / link->bytes_per_s / time_s);
}

static pdl_status_t print_links(const pdl_sim_report_t *report, FILE *stream)
{
    static const pdl_column_t columns[] = {{"link", PDL_RIGHT}, {"from", PDL_LEFT},   {"to", PDL_LEFT},
                                           {"kind", PDL_LEFT},  {"bytes", PDL_RIGHT}, {"busy", PDL_RIGHT}};
    const pdl_sim_result_t   *result = &report->verdicts[0].result;
    pdl__loaded_t            *loaded;
    pdl_table_t              *table;
    char                      text[PDL_FORMAT_SIZE];
    int                       count;
    pdl_status_t              status = pdl__loaded_links(report->asked->topology, result, &loaded, &count);

    if (status) return status;
    fprintf(stream, "\n%s links carried something%s\n", pdl_format_count(count, text),
            count > LINKS_SHOWN ? "; the busiest:" : ":");
    table = pdl_table_create(columns, 6);
    for (int i = 0; i < count && i < LINKS_SHOWN; i++)
        add_link(table, report->asked->topology, &loaded[i], result->time_s);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    free(loaded);
    return status;
}

pdl_status_t pdl_report_simulation(const pdl_sim_report_t *report, FILE *stream)
{
    pdl_status_t status = report->several ? print_ranking(report, stream) : print_one(report, stream);

    if (!status) print_mean_blocks(report, stream);
    if (status || report->count == 0 || !report->verdicts[0].possible ||
        report->verdicts[0].result.link_bytes == NULL)
        return status;
    return print_links(report, stream);
}
