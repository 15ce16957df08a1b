/*
 * A topology: what it is made of, how far and how wide it is, and what its cables cost.
 */
#include <paradl/base/document.h>
#include <paradl/base/units.h>
#include <paradl/report/sim_report.h>
#include <paradl/report/table.h>

static const pdl_column_t pairs[] = {{"", PDL_LEFT}, {"", PDL_LEFT}};

pdl_status_t pdl_report_topology_list(FILE *stream)
{
    static const pdl_column_t columns[] = {{"topology", PDL_LEFT}, {"description", PDL_LEFT}};
    pdl_table_t              *table = pdl_table_create(columns, 2);
    pdl_status_t              status;

    for (int i = 0; pdl_topology_builtin_name(i) != NULL; i++) {
        pdl_table_row(table, PDL_ROW_PLAIN);
        pdl_table_cell(table, "%s", pdl_topology_builtin_name(i));
        pdl_table_cell(table, "%s", pdl_topology_builtin_summary(i));
    }
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status;
}

pdl_status_t pdl_report_topology_list_json(FILE *stream)
{
    pdl_json_t json;

    pdl_document_begin(&json, stream, "topology-list/1");
    pdl_json_open(&json, "topologies", '[');
    for (int i = 0; pdl_topology_builtin_name(i) != NULL; i++) {
        pdl_json_open(&json, NULL, '{');
        pdl_json_string(&json, "name", pdl_topology_builtin_name(i));
        pdl_json_string(&json, "description", pdl_topology_builtin_summary(i));
        pdl_json_close(&json);
    }
    pdl_json_close(&json);
    pdl_json_close(&json);
    return PDL_OK;
}

/* Links of one kind: how many, and the range of their speeds. */
typedef struct kind {
    int64_t links;
    double  least_rate, most_rate, least_latency_s, most_latency_s;
} kind_t;

static void sum_kinds(const pdl_topology_t *topology, kind_t kinds[PDL_LINK_KIND_COUNT])
{
    const pdl_link_t *links = pdl_topology_links(topology);

    for (int i = 0; i < pdl_topology_link_count(topology); i++) {
        kind_t *kind = &kinds[links[i].kind];

        if (kind->links == 0 || links[i].bytes_per_s < kind->least_rate) kind->least_rate = links[i].bytes_per_s;
        if (kind->links == 0 || links[i].latency_s < kind->least_latency_s)
            kind->least_latency_s = links[i].latency_s;
        if (links[i].bytes_per_s > kind->most_rate) kind->most_rate = links[i].bytes_per_s;
        if (links[i].latency_s > kind->most_latency_s) kind->most_latency_s = links[i].latency_s;
        kind->links++;
    }
}

static void add_kind(pdl_table_t *table, const char *name, const kind_t *kind)
{
    char count[PDL_FORMAT_SIZE], low[PDL_FORMAT_SIZE], high[PDL_FORMAT_SIZE];

    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "%s", name);
    pdl_table_cell(table, "%s", pdl_format_count(kind->links, count));
    if (kind->least_rate < kind->most_rate)
        pdl_table_cell(table, "%s..%s", pdl_format_byte_rate(kind->least_rate, low),
                       pdl_format_byte_rate(kind->most_rate, high));
    else
        pdl_table_cell(table, "%s", pdl_format_byte_rate(kind->most_rate, high));
    if (kind->least_latency_s < kind->most_latency_s)
        pdl_table_cell(table, "%s..%s", pdl_format_seconds(kind->least_latency_s, low),
                       pdl_format_seconds(kind->most_latency_s, high));
    else
        pdl_table_cell(table, "%s", pdl_format_seconds(kind->most_latency_s, high));
}

static pdl_status_t print_kinds(const kind_t *kinds, FILE *stream)
{
    static const pdl_column_t columns[] = {{"links", PDL_LEFT},
                                           {"number", PDL_RIGHT},
                                           {"bandwidth", PDL_RIGHT},
                                           {"latency", PDL_RIGHT}};
    pdl_table_t              *table = pdl_table_create(columns, 4);
    pdl_status_t              status;

    for (int k = 0; k < PDL_LINK_KIND_COUNT; k++)
        if (kinds[k].links > 0) add_kind(table, pdl_link_kind_names[k], &kinds[k]);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status;
}

static void add_count(pdl_table_t *table, const char *name, int64_t count)
{
    char text[PDL_FORMAT_SIZE];

    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "%s", name);
    pdl_table_cell(table, "%s", pdl_format_count(count, text));
}

static void add_distances(pdl_table_t *table, const pdl_topology_metrics_t *m)
{
    char text[PDL_FORMAT_SIZE];

    add_count(table, "degree", m->degree);
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "diameter");
    pdl_table_cell(table, "%d hops%s", m->diameter, m->sampled ? " (of a sample)" : "");
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "average distance");
    pdl_table_cell(table, "%.3f hops%s", m->average_hops, m->sampled ? " (of a sample)" : "");
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "bisection");
    pdl_table_cell(table, "%s each way", pdl_format_byte_rate(m->bisection_bytes_per_s, text));
}

static void add_cables(pdl_table_t *table, const pdl_topology_metrics_t *m)
{
    char text[PDL_FORMAT_SIZE];

    add_count(table, "cables", m->cables);
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "cable length");
    pdl_table_cell(table, "%s m, longest %.1f m", pdl_format_count((int64_t)(m->cable_m + 0.5), text),
                   m->longest_cable_m);
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "cost");
    pdl_table_cell(table, "%s USD for switches, cables and ports, at the prices of the machine room",
                   pdl_format_count((int64_t)(m->cost + 0.5), text));
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "power");
    pdl_table_cell(table, "%s W", pdl_format_count((int64_t)(m->power_w + 0.5), text));
}

pdl_status_t pdl_report_topology(const pdl_topology_t *topology, const pdl_room_t *room, FILE *stream)
{
    pdl_room_t             standard = pdl_room_default();
    kind_t                 kinds[PDL_LINK_KIND_COUNT] = {{0}};
    pdl_topology_metrics_t metrics;
    pdl_table_t           *table;
    pdl_status_t           status = pdl_topology_metrics(topology, room != NULL ? room : &standard, &metrics);

    if (status) return status;
    fprintf(stream, "%s   %s\n\n", pdl_topology_name(topology), pdl_topology_description(topology));
    table = pdl_table_create(pairs, 2);
    add_count(table, "hosts", pdl_topology_hosts(topology));
    add_count(table, "switches", metrics.switches);
    add_count(table, "links", metrics.links);
    add_distances(table, &metrics);
    add_cables(table, &metrics);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    if (status) return status;
    fputs("\n", stream);
    sum_kinds(topology, kinds);
    return print_kinds(kinds, stream);
}

static void write_kinds(pdl_json_t *json, const kind_t *kinds)
{
    pdl_json_open(json, "link_kinds", '[');
    for (int k = 0; k < PDL_LINK_KIND_COUNT; k++) {
        if (kinds[k].links == 0) continue;
        pdl_json_open(json, NULL, '{');
        pdl_json_string(json, "kind", pdl_link_kind_names[k]);
        pdl_json_int(json, "links", kinds[k].links);
        pdl_json_number(json, "least_bytes_per_s", kinds[k].least_rate);
        pdl_json_number(json, "most_bytes_per_s", kinds[k].most_rate);
        pdl_json_number(json, "least_latency_s", kinds[k].least_latency_s);
        pdl_json_number(json, "most_latency_s", kinds[k].most_latency_s);
        pdl_json_close(json);
    }
    pdl_json_close(json);
}

pdl_status_t pdl_report_topology_json(const pdl_topology_t *topology, const pdl_room_t *room, FILE *stream)
{
    pdl_room_t             standard = pdl_room_default();
    kind_t                 kinds[PDL_LINK_KIND_COUNT] = {{0}};
    pdl_topology_metrics_t m;
    pdl_json_t             json;
    pdl_status_t           status = pdl_topology_metrics(topology, room != NULL ? room : &standard, &m);

    if (status) return status;
    sum_kinds(topology, kinds);
    pdl_document_begin(&json, stream, "topology/1");
    pdl_json_string(&json, "topology", pdl_topology_name(topology));
    pdl_json_string(&json, "description", pdl_topology_description(topology));
    pdl_json_int(&json, "hosts", pdl_topology_hosts(topology));
    pdl_json_int(&json, "vertices", m.vertices);
    pdl_json_int(&json, "switches", m.switches);
    pdl_json_int(&json, "links", m.links);
    pdl_json_int(&json, "cables", m.cables);
    pdl_json_int(&json, "degree", m.degree);
    pdl_json_int(&json, "diameter", m.diameter);
    pdl_json_number(&json, "average_hops", m.average_hops);
    pdl_json_bool(&json, "sampled", m.sampled);
    pdl_json_number(&json, "bisection_bytes_per_s", m.bisection_bytes_per_s);
    pdl_json_number(&json, "cable_m", m.cable_m);
    pdl_json_number(&json, "longest_cable_m", m.longest_cable_m);
    pdl_json_number(&json, "cost", m.cost);
    pdl_json_string(&json, "cost_unit", "USD");
    pdl_json_number(&json, "power_w", m.power_w);
    write_kinds(&json, kinds);
    pdl_json_close(&json);
    return PDL_OK;
}
