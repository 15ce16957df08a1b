/*
 * Making topologies: the table of families, room for links, and what everybody may ask.
 */
#include "topo/network.h"

#include "base/closest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const pdl_link_kind_names[PDL_LINK_KIND_COUNT] = {"host", "switch",   "nvlink",
                                                              "pcie", "internal", "optical"};

static const pdl__topology_ops_t *const families[] = {
    &pdl__topology_ring,      &pdl__topology_torus, &pdl__topology_hypercube, &pdl__topology_fc2,
    &pdl__topology_fat_tree,  &pdl__topology_xgft,  &pdl__topology_abci,      &pdl__topology_tsubame3,
    &pdl__topology_dragonfly, &pdl__topology_dln,   &pdl__topology_dln2d,     &pdl__topology_kautz,
    &pdl__topology_hybrid,
};
#define FAMILIES ((int)(sizeof(families) / sizeof(families[0])))

/* Bounds on the speed of a link keep every time computed from it finite and not zero. */
#define MOST_BANDWIDTH 1e18
#define MOST_LATENCY   1e6

const char *pdl_topology_builtin_name(int i)
{
    return i >= 0 && i < FAMILIES ? families[i]->name : NULL;
}

const char *pdl_topology_builtin_summary(int i)
{
    return i >= 0 && i < FAMILIES ? families[i]->summary : NULL;
}

pdl_topology_spec_t pdl_topology_spec(const char *name)
{
    pdl_topology_spec_t spec = {
        .name = name,
        .leaf_hosts = 32,
        .optical_ports = 1,
        .reconfigure_s = 10e-3,
        .optical_min_bytes = 1e6,
        .seed = 1,
        .link_bytes_per_s = 12.5e9,
        .link_latency_s = 1e-6,
        .host_link_latency_s = -1,
    };

    /* The historic platform has shared cables. */
    if (name != NULL && strcmp(name, "tsubame3") == 0) spec.duplex = PDL_HALF_DUPLEX;
    return spec;
}

static const pdl__topology_ops_t *find_family(const char *name)
{
    for (int i = 0; i < FAMILIES; i++)
        if (strcmp(families[i]->name, name) == 0) return families[i];
    return NULL;
}

static pdl_status_t unknown_name(const char *name)
{
    const char *names[FAMILIES];
    char        list[256];

    for (int i = 0; i < FAMILIES; i++) names[i] = families[i]->name;
    if (pdl__closest_names(name, names, FAMILIES, list, sizeof(list)))
        return pdl_error(PDL_ERR_INPUT, "no topology is named '%s'; did you mean %s?", name, list);
    pdl__join_names(names, FAMILIES, list, sizeof(list));
    return pdl_error(PDL_ERR_INPUT, "no topology is named '%s'; there are %s, or the path of a .yaml file", name,
                     list);
}

static bool is_path(const char *name)
{
    size_t length = strlen(name);

    return strchr(name, '/') != NULL || (length > 5 && strcmp(name + length - 5, ".yaml") == 0) ||
           (length > 4 && strcmp(name + length - 4, ".yml") == 0);
}

pdl_topology_t *pdl__topology_new(const pdl__topology_ops_t *ops, const char *name)
{
    pdl_topology_t *topology = calloc(1, sizeof(*topology));
    size_t          length = strlen(name) + 1;

    if (topology != NULL) topology->name = malloc(length);
    if (topology == NULL || topology->name == NULL) {
        free(topology);
        pdl_error(PDL_ERR_NOMEM, "no memory for topology %s", name);
        return NULL;
    }
    memcpy(topology->name, name, length);
    topology->ops = ops;
    topology->full = 1;
    topology->group = 1;
    topology->spec.name = topology->name;
    return topology;
}

static pdl_status_t check_rate(const char *what, double bytes_per_s)
{
    if (bytes_per_s >= 1 && bytes_per_s <= MOST_BANDWIDTH) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "the bandwidth of %s must be between 1 B/s and %g B/s", what, MOST_BANDWIDTH);
}

static pdl_status_t check_latency(const char *what, double latency_s)
{
    if (latency_s >= 0 && latency_s <= MOST_LATENCY) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "the latency of %s must be between 0 and %g s", what, MOST_LATENCY);
}

/* Fills in what follows from other fields, and checks what every family uses. */
static pdl_status_t complete_spec(pdl_topology_spec_t *spec)
{
    pdl_status_t st;

    if (!(spec->host_link_bytes_per_s != 0)) spec->host_link_bytes_per_s = spec->link_bytes_per_s;
    if (spec->host_link_latency_s < 0) spec->host_link_latency_s = spec->link_latency_s;
    if (!(spec->optical_bytes_per_s != 0)) spec->optical_bytes_per_s = spec->link_bytes_per_s;
    st = check_rate("links", spec->link_bytes_per_s);
    if (st) return st;
    st = check_rate("host links", spec->host_link_bytes_per_s);
    if (st) return st;
    st = check_rate("optical ports", spec->optical_bytes_per_s);
    if (st) return st;
    st = check_latency("links", spec->link_latency_s);
    if (st) return st;
    st = check_latency("host links", spec->host_link_latency_s);
    if (st) return st;
    if (spec->hosts < 0)
        return pdl_error(PDL_ERR_INPUT, "a topology cannot have %lld hosts", (long long)spec->hosts);
    if (spec->hosts_per_switch < 0)
        return pdl_error(PDL_ERR_INPUT, "a switch cannot have %lld hosts", (long long)spec->hosts_per_switch);
    if (spec->dim_count < 0 || spec->dim_count > PDL_MAX_DIMS)
        return pdl_error(PDL_ERR_INPUT, "a topology has at most %d dimensions, not %d", PDL_MAX_DIMS,
                         spec->dim_count);
    if (spec->stride_count < 0 || spec->stride_count > 32)
        return pdl_error(PDL_ERR_INPUT, "a topology has at most 32 strides, not %d", spec->stride_count);
    return PDL_OK;
}

pdl_status_t pdl_topology_create(const pdl_topology_spec_t *spec, pdl_topology_t **topology)
{
    const pdl__topology_ops_t *ops;
    pdl_topology_t            *made;
    pdl_status_t               st;

    if (spec->name == NULL) return pdl_error(PDL_ERR_INPUT, "the topology has no name");
    ops = find_family(spec->name);
    if (ops == NULL)
        return is_path(spec->name) ? pdl__topology_read_file(spec->name, topology) : unknown_name(spec->name);
    made = pdl__topology_new(ops, spec->name);
    if (made == NULL) return PDL_ERR_NOMEM;
    made->spec = *spec;
    made->spec.name = made->name;
    made->full = spec->duplex == PDL_FULL_DUPLEX;
    st = complete_spec(&made->spec);
    if (st == PDL_OK) st = ops->create(made, &made->spec);
    if (st != PDL_OK) {
        pdl_topology_destroy(made);
        return st;
    }
    made->spec.hosts = made->hosts;
    *topology = made;
    return PDL_OK;
}

void pdl_topology_destroy(pdl_topology_t *topology)
{
    if (topology == NULL) return;
    if (topology->ops->destroy != NULL && topology->data != NULL) topology->ops->destroy(topology);
    free(topology->data);
    pdl__search_destroy(topology->search);
    free(topology->failed);
    free(topology->internal);
    free(topology->links);
    free(topology->name);
    free(topology);
}

int64_t pdl__product(int64_t a, int64_t b, int64_t most)
{
    if (a < 0 || b < 0) return -1;
    if (a != 0 && b > most / a) return -1;
    return a * b;
}

pdl_status_t pdl__topology_reserve(pdl_topology_t *topology, int64_t hosts, int64_t switches, int64_t links)
{
    if (hosts < 1) return pdl_error(PDL_ERR_INPUT, "a %s needs at least one host", topology->name);
    if (hosts > PDL__MOST_VERTICES || switches < 0 || switches > PDL__MOST_VERTICES - hosts)
        return pdl_error(PDL_ERR_LIMIT, "a %s of this size has more than %lld hosts and switches", topology->name,
                         (long long)PDL__MOST_VERTICES);
    if (links < 0 || links > PDL__MOST_LINKS)
        return pdl_error(PDL_ERR_LIMIT, "a %s of this size has more than %lld links", topology->name,
                         (long long)PDL__MOST_LINKS);
    topology->links = malloc((size_t)(links > 0 ? links : 1) * sizeof(*topology->links));
    if (topology->links == NULL)
        return pdl_error(PDL_ERR_NOMEM, "no memory for the %lld links of a %s", (long long)links, topology->name);
    topology->link_capacity = (int)links;
    topology->hosts = (int)hosts;
    topology->vertices = (int)(hosts + switches);
    return PDL_OK;
}

void pdl__add_link(pdl_topology_t *topology, int src, int dst, pdl_link_kind_t kind, double bytes_per_s,
                   double latency_s)
{
    topology->links[topology->link_count++] = (pdl_link_t){
        .src = src, .dst = dst, .kind = kind, .bytes_per_s = bytes_per_s, .latency_s = latency_s, .cables = 1};
}

void pdl__add_cable(pdl_topology_t *topology, int a, int b, pdl_link_kind_t kind, double bytes_per_s,
                    double latency_s)
{
    pdl__add_link(topology, a, b, kind, bytes_per_s, latency_s);
    if (topology->full) pdl__add_link(topology, b, a, kind, bytes_per_s, latency_s);
    topology->links[topology->link_count - 1].way_back = topology->full;
    topology->links[topology->link_count - 1].both_ways = !topology->full;
}

void pdl__set_power(pdl_topology_t *topology, double idle_w, double peak_w)
{
    for (int i = topology->link_count - 1 - topology->full; i < topology->link_count; i++) {
        /* The power of a cable is that of both its directions. */
        topology->links[i].idle_w = idle_w / (1 + topology->full);
        topology->links[i].peak_w = peak_w / (1 + topology->full);
    }
}

void pdl__set_trunk(pdl_topology_t *topology, int cables)
{
    for (int i = topology->link_count - 1 - topology->full; i < topology->link_count; i++)
        topology->links[i].cables = cables;
}

const char *pdl_topology_name(const pdl_topology_t *topology)
{
    return topology->name;
}

const char *pdl_topology_description(const pdl_topology_t *topology)
{
    return topology->description;
}

const pdl_topology_spec_t *pdl_topology_get_spec(const pdl_topology_t *topology)
{
    return &topology->spec;
}

int pdl_topology_hosts(const pdl_topology_t *topology)
{
    return topology->hosts;
}

int pdl_topology_vertices(const pdl_topology_t *topology)
{
    return topology->vertices;
}

int pdl_topology_link_count(const pdl_topology_t *topology)
{
    return topology->link_count;
}

const pdl_link_t *pdl_topology_links(const pdl_topology_t *topology)
{
    return topology->links;
}

int64_t pdl_topology_hosts_per_switch(const pdl_topology_t *topology)
{
    return topology->group;
}
