/*
 * Any graph from a YAML file.
 *
 *     paradl: topology/1
 *     name: two-leaves
 *     hosts: 4                  # h0..h3, or a list of names
 *     switches: [left, right]   # or a number: s0, s1..; none: hosts are joined directly
 *     relay: false              # true: hosts forward for others (the default without switches)
 *     link_bandwidth: 12.5GB/s  # of links that do not say
 *     link_latency: 1us
 *     duplex: full              # or half
 *     links:
 *       - {ends: [h0, left]}
 *       - {ends: [left, right], bandwidth: 25GB/s, latency: 500ns, cables: 2, duplex: half}
 *       - {ends: [h1, h2], duplex: one-way}
 *
 * Routes are shortest in links; of several the one whose next link has the lowest number. `bandwidth` is that of
 * all parallel cables together.
 */
#include "topo/family/graph.h"

#include <paradl/base/yaml.h>
#include <paradl/system/system.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_OF_A_KIND 65536

static const char *const root_keys[] = {"paradl", "name",           "description",  "hosts",  "switches",
                                        "relay",  "link_bandwidth", "link_latency", "duplex", "links",
                                        NULL};
static const char *const link_keys[] = {"ends",   "bandwidth",  "latency",    "cables",
                                        "duplex", "idle_power", "peak_power", NULL};
static const char *const duplex_names[] = {"full", "half", "one-way"};

/* Names of vertices; those of a number of hosts are not spelt out but parsed. */
typedef struct entry {
    const char       *name;
    const pdl_yaml_t *node;
    int               vertex;
} entry_t;

typedef struct names {
    entry_t *entries; /* sorted by name */
    int      count;
    int      numbered[2], first[2]; /* h0.. and s0..: how many, and the vertex of number 0 */
} names_t;

typedef struct defaults {
    double bytes_per_s, latency_s;
    int    duplex;
} defaults_t;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const entry_t *)a)->name, ((const entry_t *)b)->name);
}

/* How many hosts (kind 0) or switches (kind 1) there are. */
static pdl_status_t count_vertices(const pdl_yaml_t *root, int kind, int *count)
{
    const char       *key = kind == 0 ? "hosts" : "switches";
    const pdl_yaml_t *node = pdl_yaml_find(root, key);
    int64_t           number = 0;
    pdl_status_t      st;

    *count = 0;
    if (node == NULL)
        return kind == 0 ? pdl_yaml_error(root, "hosts is missing: a number or a list of names") : PDL_OK;
    if (pdl_yaml_kind(node) == PDL_YAML_SCALAR) {
        st = pdl_yaml_int(node, kind == 0 ? 1 : 0, MOST_OF_A_KIND, &number);
        if (st) return st;
        *count = (int)number;
        return PDL_OK;
    }
    st = pdl_yaml_expect(node, PDL_YAML_SEQUENCE, "a number or a list of names");
    if (st) return st;
    if (pdl_yaml_size(node) > MOST_OF_A_KIND)
        return pdl_yaml_error(node, "a graph has at most %d %s", MOST_OF_A_KIND, key);
    if (kind == 0 && pdl_yaml_size(node) == 0) return pdl_yaml_error(node, "a graph needs at least one host");
    *count = (int)pdl_yaml_size(node);
    return PDL_OK;
}

static pdl_status_t list_names(const pdl_yaml_t *root, const char *key, int kind, int first, int count,
                               names_t *names)
{
    const pdl_yaml_t *node = pdl_yaml_find(root, key);

    names->first[kind] = first;
    if (node == NULL || pdl_yaml_kind(node) == PDL_YAML_SCALAR) {
        names->numbered[kind] = count;
        return PDL_OK;
    }
    for (int i = 0; i < count; i++) {
        entry_t     *entry = &names->entries[names->count];
        pdl_status_t st;
        entry->node = pdl_yaml_item(node, (size_t)i);
        entry->vertex = first + i;
        st = pdl_yaml_string(entry->node, &entry->name);
        if (st) return st;
        names->count++;
    }
    return PDL_OK;
}

/* The number in "h12" when it is below `count` and written without leading zeros; else -1. */
static int parse_numbered(const char *text, char letter, int count)
{
    int number = 0;

    if (text[0] != letter || text[1] == '\0' || (text[1] == '0' && text[2] != '\0')) return -1;
    for (const char *digit = text + 1; *digit != '\0'; digit++) {
        if (*digit < '0' || *digit > '9' || number >= count) return -1;
        number = number * 10 + (*digit - '0');
    }
    return number < count ? number : -1;
}

/* The vertex of a name, or -1. */
static int find_vertex(const names_t *names, const char *name)
{
    entry_t        wanted = {.name = name};
    const entry_t *found =
        names->count > 0 ? bsearch(&wanted, names->entries, (size_t)names->count, sizeof(wanted), by_name) : NULL;

    if (found != NULL) return found->vertex;
    for (int kind = 0; kind < 2; kind++) {
        int number = parse_numbered(name, kind == 0 ? 'h' : 's', names->numbered[kind]);
        if (number >= 0) return names->first[kind] + number;
    }
    return -1;
}

static pdl_status_t read_names(const pdl_yaml_t *root, int hosts, int switches, names_t *names)
{
    pdl_status_t st;

    names->entries = malloc((size_t)(hosts + switches) * sizeof(*names->entries));
    if (names->entries == NULL) return pdl_error(PDL_ERR_NOMEM, "no memory for %d names", hosts + switches);
    st = list_names(root, "hosts", 0, 0, hosts, names);
    if (st) return st;
    st = list_names(root, "switches", 1, hosts, switches, names);
    if (st) return st;
    if (names->count > 0) qsort(names->entries, (size_t)names->count, sizeof(*names->entries), by_name);
    for (int i = 0; i < names->count; i++) {
        const entry_t *entry = &names->entries[i];
        bool           taken = i > 0 && by_name(entry - 1, entry) == 0;
        for (int kind = 0; kind < 2; kind++)
            taken = taken || parse_numbered(entry->name, kind == 0 ? 'h' : 's', names->numbered[kind]) >= 0;
        if (taken) return pdl_yaml_error(entry->node, "two vertices are named '%s'", entry->name);
    }
    return PDL_OK;
}

static pdl_status_t read_ends(const pdl_yaml_t *node, const names_t *names, int ends[2])
{
    const pdl_yaml_t *list = pdl_yaml_find(node, "ends");
    pdl_status_t      st;

    if (list == NULL) return pdl_yaml_error(node, "ends is missing: the two vertices of the link");
    st = pdl_yaml_expect(list, PDL_YAML_SEQUENCE, "a list of two vertices");
    if (st) return st;
    if (pdl_yaml_size(list) != 2) return pdl_yaml_error(list, "a link has two ends, not %zu", pdl_yaml_size(list));
    for (size_t i = 0; i < 2; i++) {
        const char *name;
        st = pdl_yaml_string(pdl_yaml_item(list, i), &name);
        if (st) return st;
        ends[i] = find_vertex(names, name);
        if (ends[i] < 0) return pdl_yaml_error(pdl_yaml_item(list, i), "no host or switch is named '%s'", name);
    }
    if (ends[0] == ends[1]) return pdl_yaml_error(list, "the link joins a vertex with itself");
    return PDL_OK;
}

/* A bandwidth and a latency that simulations can work with. */
static pdl_status_t read_speed(const pdl_yaml_t *node, const char *bandwidth, const char *latency,
                               double *bytes_per_s, double *latency_s)
{
    pdl_status_t st = pdl_yaml_get_number(node, bandwidth, PDL_UNIT_BYTE_RATE, PDL_OPTIONAL, bytes_per_s);

    if (!st) st = pdl_system_check_units(node);
    if (st) return st;
    if (!(*bytes_per_s >= 1 && *bytes_per_s <= 1e18))
        return pdl_yaml_error(pdl_yaml_find(node, bandwidth), "%s must be between 1 B/s and 1e18 B/s", bandwidth);
    st = pdl_yaml_get_number(node, latency, PDL_UNIT_SECONDS, PDL_OPTIONAL, latency_s);
    if (st) return st;
    if (*latency_s > 1e6) return pdl_yaml_error(pdl_yaml_find(node, latency), "%s must be at most 1e6 s", latency);
    return PDL_OK;
}

static pdl_status_t read_link(const pdl_yaml_t *node, const names_t *names, const defaults_t *defaults,
                              pdl_topology_t *graph)
{
    pdl_link_t   link = {.bytes_per_s = defaults->bytes_per_s, .latency_s = defaults->latency_s};
    int          ends[2], duplex = defaults->duplex;
    int64_t      cables = 1;
    pdl_status_t st = pdl_yaml_expect(node, PDL_YAML_MAPPING, "a link");

    if (st) return st;
    st = pdl_yaml_check_keys(node, link_keys);
    if (st == PDL_OK) st = read_ends(node, names, ends);
    if (st == PDL_OK) st = read_speed(node, "bandwidth", "latency", &link.bytes_per_s, &link.latency_s);
    if (st == PDL_OK) st = pdl_yaml_get_int(node, "cables", 1, 1000000, PDL_OPTIONAL, &cables);
    if (st == PDL_OK) st = pdl_yaml_get_enum(node, "duplex", duplex_names, 3, PDL_OPTIONAL, &duplex);
    if (st == PDL_OK) st = pdl_yaml_get_number(node, "idle_power", PDL_UNIT_WATT, PDL_OPTIONAL, &link.idle_w);
    if (st == PDL_OK) st = pdl_yaml_get_number(node, "peak_power", PDL_UNIT_WATT, PDL_OPTIONAL, &link.peak_w);
    if (st) return st;
    link.src = ends[0];
    link.dst = ends[1];
    link.cables = (int)cables;
    link.both_ways = duplex == 1;
    /* A link of two hosts, or of two switches, is one of the network; the others are host links. */
    link.kind = (link.src < graph->hosts) != (link.dst < graph->hosts) ? PDL_LINK_HOST : PDL_LINK_SWITCH;
    if (duplex == 0) {
        link.idle_w /= 2;
        link.peak_w /= 2;
    }
    graph->links[graph->link_count++] = link;
    if (duplex == 0) {
        link.src = ends[1];
        link.dst = ends[0];
        link.way_back = true;
        graph->links[graph->link_count++] = link;
    }
    return PDL_OK;
}

/* Hosts that hang on one switch each, the same number of consecutive hosts on every switch that has any: that
   number; otherwise 1. */
static int consecutive_hosts(const pdl_topology_t *graph, int *switch_of)
{
    int run = 1, group = 0;

    for (int host = 0; host < graph->hosts; host++) switch_of[host] = -1;
    for (int i = 0; i < graph->link_count; i++) {
        const pdl_link_t *link = &graph->links[i];
        int               host = link->src < graph->hosts ? link->src : link->dst,
            other = link->src < graph->hosts ? link->dst : link->src;
        if (host >= graph->hosts) continue;
        if (other < graph->hosts || (switch_of[host] >= 0 && switch_of[host] != other)) return 1;
        switch_of[host] = other;
    }
    for (int host = 1; host <= graph->hosts; host++, run++) {
        if (host < graph->hosts && switch_of[host] == switch_of[host - 1]) continue;
        if (group == 0) group = run;
        if (run != group) return 1;
        run = 0;
    }
    return group;
}

static pdl_status_t set_group(pdl_topology_t *graph)
{
    int *switch_of = malloc((size_t)graph->hosts * sizeof(*switch_of));

    if (switch_of == NULL) return pdl_error(PDL_ERR_NOMEM, "no memory for %d hosts", graph->hosts);
    graph->group = consecutive_hosts(graph, switch_of);
    free(switch_of);
    return PDL_OK;
}

static pdl_status_t read_links(const pdl_yaml_t *root, const names_t *names, pdl_topology_t *graph)
{
    const pdl_yaml_t *list = pdl_yaml_find(root, "links");
    defaults_t        defaults = {.bytes_per_s = 12.5e9, .latency_s = 1e-6};
    pdl_status_t      st =
        read_speed(root, "link_bandwidth", "link_latency", &defaults.bytes_per_s, &defaults.latency_s);

    if (st == PDL_OK) st = pdl_yaml_get_enum(root, "duplex", duplex_names, 3, PDL_OPTIONAL, &defaults.duplex);
    for (size_t i = 0; st == PDL_OK && list != NULL && i < pdl_yaml_size(list); i++)
        st = read_link(pdl_yaml_item(list, i), names, &defaults, graph);
    return st;
}

/* Fills in a graph that has its name only. */
static pdl_status_t read_graph(const pdl_yaml_t *root, names_t *names, pdl_topology_t *graph)
{
    const pdl_yaml_t *list = pdl_yaml_find(root, "links");
    const char       *description = NULL;
    int               hosts, switches;
    pdl_status_t      st = count_vertices(root, 0, &hosts);

    if (st == PDL_OK) st = count_vertices(root, 1, &switches);
    if (st == PDL_OK && list != NULL) st = pdl_yaml_expect(list, PDL_YAML_SEQUENCE, "a list of links");
    if (st == PDL_OK) st = pdl_yaml_get_string(root, "description", PDL_OPTIONAL, &description);
    if (st) return st;
    graph->relay = switches == 0;
    st = pdl_yaml_get_bool(root, "relay", PDL_OPTIONAL, &graph->relay);
    if (st == PDL_OK) st = read_names(root, hosts, switches, names);
    if (st == PDL_OK)
        st = pdl__topology_reserve(graph, hosts, switches, list != NULL ? 2 * (int64_t)pdl_yaml_size(list) : 0);
    if (st == PDL_OK) st = read_links(root, names, graph);
    if (st == PDL_OK) st = set_group(graph);
    if (st == PDL_OK) st = pdl__search_create(graph, NULL, &graph->search);
    if (st) return st;
    graph->spec.hosts = hosts;
    if (description != NULL)
        snprintf(graph->description, sizeof(graph->description), "%s", description);
    else
        snprintf(graph->description, sizeof(graph->description), "%d hosts, %d switches, %d links", hosts, switches,
                 graph->link_count);
    return PDL_OK;
}

pdl_status_t pdl__graph_read(const pdl_yaml_t *root, pdl_topology_t **topology)
{
    const char     *name = "graph";
    names_t         names = {0};
    pdl_topology_t *graph;
    pdl_status_t    st = pdl_yaml_check_keys(root, root_keys);

    if (st == PDL_OK) st = pdl_yaml_get_string(root, "name", PDL_OPTIONAL, &name);
    if (st) return st;
    graph = pdl__topology_new(&pdl__topology_graph, name);
    if (graph == NULL) return PDL_ERR_NOMEM;
    st = read_graph(root, &names, graph);
    free(names.entries);
    if (st != PDL_OK) {
        pdl_topology_destroy(graph);
        return st;
    }
    *topology = graph;
    return PDL_OK;
}

const pdl__topology_ops_t pdl__topology_graph = {
    .name = "graph",
    .summary = "any graph, from a YAML file",
    .route = pdl__search_route,
};
