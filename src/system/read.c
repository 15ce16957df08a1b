/*
 * Reads "paradl: system/1" files.
 *
 *     paradl: system/1
 *     name: abci-v
 *     description: ...
 *     source: where each number comes from
 *     device:
 *       {name, memory, memory_bandwidth, peak: {fp32: ..}, compute_units, launch, matrix_efficiency,
 *        memory_efficiency, fitted, power, idle_power, host_link, host_memory, host_update, reserved, copy_bandwidth, queue, issue, step, graphs, sharing, slice}
 *     devices:           # in place of device, where nodes have different ones: see read_parts.c
 *     levels:            # innermost first
 *       - {name, transport, fanout, bandwidth, latency, ports, oversubscription, shared, congestion}
 *     host_path:         # optional: the same levels, in order, for transfers staged through host memory
 *       - {name, transport, bandwidth, latency, ports, oversubscription, shared, congestion}
 *     storage:
 *       {node_bandwidth, total_bandwidth, decode_samples_per_s, local: {bandwidth, capacity},
 *        shared: {client_bandwidth, bandwidth, efficiency}}
 *     fabric:            # optional: see fabric.c
 *     network:           # optional: see network.c
 *     cost_per_pe_hour: 1.2
 *     parameters: abci-v
 *     backend: cpu       # or cuda: paradl train runs there
 *     measured:          # optional: see measured.c
 *     operations:        # optional: see operations.c
 *
 * Ports default to 1 up to the level that joins nodes and, above it, to as many links as lead into the group from
 * below. A host path may leave out outer levels: those are as without it.
 */
#include "system/fabric.h"
#include "system/measured.h"
#include "system/network.h"
#include "system/values.h"
#include <paradl/base/arena.h>
#include <paradl/base/share.h>
#include <paradl/base/yaml.h>
#include <paradl/system/system.h>

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A child with more links than this is a mistake, and would need tables of that size. */
#define MOST_LINKS 1e6
/* Bounds on the speed of a link keep every time computed from it finite and not zero. */
#define MOST_BANDWIDTH 1e18

static const char *const root_keys[] = {"paradl",  "name",      "description", "source",           "device",
                                        "levels",  "host_path", "storage",     "cost_per_pe_hour", "parameters",
                                        "backend", "measured",  "operations",  "fabric",           "ownership",
                                        "network", "devices",   NULL};
static const char *const backends[] = {"cpu", "cuda"};
static const char *const level_keys[] = {"name",  "transport",        "fanout", "bandwidth",  "latency",
                                         "ports", "oversubscription", "shared", "congestion", NULL};
static const char *const host_level_keys[] = {"name",    "transport",  "bandwidth",
                                              "latency", "ports",      "oversubscription",
                                              "shared",  "congestion", NULL};
static const char *const storage_keys[] = {"node_bandwidth", "total_bandwidth", "decode_samples_per_s",
                                           "local",          "shared",          NULL};
static const char *const local_keys[] = {"bandwidth", "capacity", NULL};
static const char *const shared_keys[] = {"client_bandwidth", "bandwidth", "efficiency", NULL};

/* What levels[] and host_path[] have in common; `level` holds the defaults. */
static pdl_status_t read_link(const pdl_yaml_t *node, pdl_system_t *system, pdl_level_t *level)
{
    pdl_status_t st = pdl__system_string(system, node, "transport", PDL_OPTIONAL, &level->transport);

    if (st) return st;
    st = pdl__system_within(node, "bandwidth", PDL_UNIT_BYTE_RATE, PDL_REQUIRED, 1, MOST_BANDWIDTH,
                            &level->bandwidth_bytes_per_s);
    if (st) return st;
    st = pdl_yaml_get_number(node, "latency", PDL_UNIT_SECONDS, PDL_REQUIRED, &level->latency_s);
    if (st) return st;
    st = pdl__system_within(node, "ports", PDL_UNIT_NONE, PDL_OPTIONAL, 1, MOST_LINKS, &level->ports);
    if (st) return st;
    st = pdl__system_within(node, "oversubscription", PDL_UNIT_NONE, PDL_OPTIONAL, 1, MOST_LINKS,
                            &level->oversubscription);
    if (st) return st;
    st = pdl_yaml_get_bool(node, "shared", PDL_OPTIONAL, &level->shared_medium);
    if (st) return st;
    st = pdl_system_check_units(node);
    if (st) return st;
    return pdl__system_within(node, "congestion", PDL_UNIT_NONE, PDL_OPTIONAL, 1, MOST_LINKS, &level->congestion);
}

/* Links into the group from below, that is, of all children together. */
static double links_from_below(const pdl_level_t *level)
{
    return (level->shared_medium ? 1 : (double)level->fanout) * level->ports / level->oversubscription;
}

static pdl_status_t read_level(const pdl_yaml_t *node, pdl_system_t *system)
{
    pdl_level_t *level = &system->level[system->level_count];
    pdl_status_t st = pdl_yaml_expect(node, PDL_YAML_MAPPING, "a level");

    if (st) return st;
    *level = (pdl_level_t){.ports = 1, .oversubscription = 1, .congestion = 1};
    if (system->level_count >= 2) level->ports = ceil(links_from_below(level - 1) - 1e-9);
    st = pdl__system_string(system, node, "name", PDL_REQUIRED, &level->name);
    if (st) return st;
    st = pdl_yaml_get_int(node, "fanout", 1, INT_MAX, PDL_REQUIRED, &level->fanout);
    if (st) return st;
    st = read_link(node, system, level);
    if (st) return st;
    st = pdl_yaml_check_keys(node, level_keys);
    if (st) return st;
    if (level->ports > MOST_LINKS)
        return pdl_yaml_error(node, "level %s would have %g ports by default; give ports", level->name,
                              level->ports);
    if (system->pe_count > INT64_MAX / 2 / level->fanout)
        return pdl_yaml_error(node, "the fanouts up to level %s multiply to more devices than can be counted",
                              level->name);
    system->pe_count *= level->fanout;
    system->level_count++;
    return PDL_OK;
}

static pdl_status_t read_levels(const pdl_yaml_t *root, pdl_system_t *system)
{
    const pdl_yaml_t *node = pdl_yaml_find(root, "levels");
    pdl_status_t      st;

    if (node == NULL) return pdl_yaml_error(root, "levels are missing");
    st = pdl_yaml_expect(node, PDL_YAML_SEQUENCE, "a list of levels, innermost first");
    if (st) return st;
    if (pdl_yaml_size(node) == 0) return pdl_yaml_error(node, "at least one level is needed");
    if (pdl_yaml_size(node) > PDL_MAX_LEVELS)
        return pdl_yaml_error(node, "at most %d levels are possible", PDL_MAX_LEVELS);
    system->pe_count = 1;
    for (size_t i = 0; i < pdl_yaml_size(node); i++) {
        st = read_level(pdl_yaml_item(node, i), system);
        if (st) return st;
    }
    return PDL_OK;
}

static pdl_status_t read_host_level(const pdl_yaml_t *node, pdl_system_t *system, int index)
{
    pdl_level_t *level = &system->host_level[index];
    const char  *name = NULL;
    pdl_status_t st = pdl_yaml_expect(node, PDL_YAML_MAPPING, "a level");

    if (st) return st;
    st = pdl_yaml_get_string(node, "name", PDL_REQUIRED, &name);
    if (st) return st;
    const char *const names[] = {level->name};
    int               found;
    st = pdl_yaml_enum(pdl_yaml_find(node, "name"), names, 1, &found);
    if (st) return st;
    /* devices that have several links between them may still share one way to the host. */
    if (index == 0) level->ports = 1;
    st = read_link(node, system, level);
    if (st) return st;
    return pdl_yaml_check_keys(node, host_level_keys);
}

static pdl_status_t read_host_path(const pdl_yaml_t *root, pdl_system_t *system)
{
    const pdl_yaml_t *node = pdl_yaml_find(root, "host_path");
    pdl_status_t      st;

    for (int l = 0; l < system->level_count; l++) system->host_level[l] = system->level[l];
    if (node == NULL) return PDL_OK;
    st = pdl_yaml_expect(node, PDL_YAML_SEQUENCE, "a list of levels, innermost first");
    if (st) return st;
    if (pdl_yaml_size(node) > (size_t)system->level_count)
        return pdl_yaml_error(node, "host_path has more entries than there are levels (%d)", system->level_count);
    for (size_t i = 0; i < pdl_yaml_size(node); i++) {
        st = read_host_level(pdl_yaml_item(node, i), system, (int)i);
        if (st) return st;
    }
    system->has_host_path = pdl_yaml_size(node) > 0;
    return PDL_OK;
}

static pdl_status_t read_local(const pdl_yaml_t *node, pdl_storage_t *storage)
{
    pdl_status_t st;

    if (node == NULL) return PDL_OK;
    st = pdl_yaml_expect(node, PDL_YAML_MAPPING, "a description of the storage of a node");
    if (st) return st;
    st = pdl__system_positive(node, "bandwidth", PDL_UNIT_BYTE_RATE, PDL_OPTIONAL,
                              &storage->local_bandwidth_bytes_per_s);
    if (st) return st;
    st = pdl__system_positive(node, "capacity", PDL_UNIT_BYTES, PDL_OPTIONAL, &storage->local_bytes);
    if (st) return st;
    return pdl_yaml_check_keys(node, local_keys);
}

static pdl_status_t read_shared(const pdl_yaml_t *node, pdl_storage_t *storage)
{
    pdl_status_t st;

    if (node == NULL) return PDL_OK;
    st = pdl_yaml_expect(node, PDL_YAML_MAPPING, "a description of the parallel file system");
    if (st) return st;
    st = pdl__system_positive(node, "client_bandwidth", PDL_UNIT_BYTE_RATE, PDL_OPTIONAL,
                              &storage->client_bandwidth_bytes_per_s);
    if (st) return st;
    st = pdl__system_positive(node, "bandwidth", PDL_UNIT_BYTE_RATE, PDL_OPTIONAL,
                              &storage->shared_bandwidth_bytes_per_s);
    if (st) return st;
    st = pdl__system_share(node, "efficiency", &storage->shared_efficiency);
    if (st) return st;
    return pdl_yaml_check_keys(node, shared_keys);
}

static pdl_status_t read_storage(const pdl_yaml_t *root, pdl_storage_t *storage)
{
    const pdl_yaml_t *node = pdl_yaml_find(root, "storage");
    pdl_status_t      st;

    storage->shared_efficiency = 1;
    if (node == NULL) return PDL_OK;
    st = pdl_yaml_expect(node, PDL_YAML_MAPPING, "a description of the storage");
    if (st) return st;
    st = pdl_yaml_get_number(node, "node_bandwidth", PDL_UNIT_BYTE_RATE, PDL_OPTIONAL,
                             &storage->node_bandwidth_bytes_per_s);
    if (st) return st;
    st = pdl_yaml_get_number(node, "total_bandwidth", PDL_UNIT_BYTE_RATE, PDL_OPTIONAL,
                             &storage->total_bandwidth_bytes_per_s);
    if (st) return st;
    st = pdl_yaml_get_number(node, "decode_samples_per_s", PDL_UNIT_NONE, PDL_OPTIONAL,
                             &storage->decode_samples_per_s);
    if (st) return st;
    storage->local_bandwidth_bytes_per_s = storage->client_bandwidth_bytes_per_s =
        storage->node_bandwidth_bytes_per_s;
    storage->shared_bandwidth_bytes_per_s = storage->total_bandwidth_bytes_per_s;
    st = read_local(pdl_yaml_find(node, "local"), storage);
    if (!st) st = read_shared(pdl_yaml_find(node, "shared"), storage);
    if (st) return st;
    return pdl_yaml_check_keys(node, storage_keys);
}

/* Descriptions that an earlier version measured, on processor cores, name no backend. */
static pdl_status_t read_backend(const pdl_yaml_t *root, pdl_system_t *system)
{
    int          which = -1;
    pdl_status_t st = pdl_yaml_get_enum(root, "backend", backends, 2, PDL_OPTIONAL, &which);

    if (st) return st;
    if (which < 0 && system->measured_count > 0) which = 0;
    if (which >= 0) system->backend = backends[which];
    return PDL_OK;
}

static pdl_status_t read_root(const pdl_yaml_t *root, pdl_system_t *system)
{
    pdl_status_t st = pdl_yaml_check_format(root, "system");

    if (st) return st;
    st = pdl_yaml_check_keys(root, root_keys);
    if (st) return st;
    st = pdl__system_string(system, root, "name", PDL_REQUIRED, &system->name);
    if (st) return st;
    st = pdl__system_string(system, root, "description", PDL_OPTIONAL, &system->description);
    if (st) return st;
    st = pdl__system_string(system, root, "source", PDL_OPTIONAL, &system->source);
    if (st) return st;
    st = pdl__system_string(system, root, "parameters", PDL_OPTIONAL, &system->parameters);
    if (st) return st;
    if (pdl_yaml_find(root, "devices") == NULL) st = pdl__system_read_device(root, system);
    if (!st) st = read_levels(root, system);
    if (!st) st = pdl__system_read_parts(root, system);
    if (st) return st;
    st = read_host_path(root, system);
    if (!st) st = pdl__system_read_network(root, system);
    if (st) return st;
    st = read_storage(root, &system->storage);
    if (st) return st;
    st = pdl__system_read_fabric(root, system);
    if (!st) st = pdl__system_read_measured(root, system);
    if (!st) st = pdl__system_read_operations(root, system);
    if (!st) st = pdl__system_read_ownership(root, system);
    if (!st) st = read_backend(root, system);
    if (st) return st;
    return pdl_yaml_get_number(root, "cost_per_pe_hour", PDL_UNIT_NONE, PDL_OPTIONAL, &system->cost_per_pe_hour);
}

static pdl_status_t from_document(const pdl_yaml_doc_t *doc, const pdl_system_t **out)
{
    pdl_arena_t  *arena = pdl_arena_create();
    pdl_system_t *system = arena ? pdl_arena_alloc(arena, 1, sizeof(*system)) : NULL;
    pdl_status_t  st;

    if (system == NULL) {
        pdl_arena_destroy(arena);
        return pdl_error(PDL_ERR_NOMEM, "out of memory for a system description");
    }
    system->arena = arena;
    system->description = system->source = "";
    st = read_root(pdl_yaml_root(doc), system);
    if (st) {
        pdl_arena_destroy(arena);
        return st;
    }
    *out = system;
    return PDL_OK;
}

pdl_status_t pdl_system_read_memory(const char *text, size_t length, const char *name, const pdl_system_t **system)
{
    pdl_yaml_doc_t *doc;
    pdl_status_t    st = pdl_yaml_read_memory(text, length, name, &doc);

    if (st) return st;
    st = from_document(doc, system);
    pdl_yaml_destroy(doc);
    return st;
}

static pdl_status_t change(pdl_yaml_doc_t *doc, const char *text)
{
    const char  *equals = strchr(text, '=');
    char         key[256];
    pdl_status_t status = PDL_ERR_INPUT;

    if (equals != NULL && equals > text && equals[1] != '\0' && (size_t)(equals - text) < sizeof(key)) {
        snprintf(key, sizeof(key), "%.*s", (int)(equals - text), text);
        status = pdl_yaml_set(doc, key, equals + 1);
    } else {
        pdl_error(status, "expected KEY=VALUE such as device.memory=32GB");
    }
    return status ? pdl_error(status, "--set %.100s: %s", text, pdl_error_message()) : PDL_OK;
}

pdl_status_t pdl_system_load(const char *name_or_path, const pdl_system_t **system)
{
    return pdl_system_load_changed(name_or_path, NULL, 0, system);
}

pdl_status_t pdl_system_load_changed(const char *name_or_path, const char *const *changes, int count,
                                     const pdl_system_t **system)
{
    static const char *const extensions[] = {".yaml", NULL};
    char                     path[4096];
    pdl_yaml_doc_t          *doc;
    pdl_status_t             st = pdl_share_find("systems", name_or_path, extensions, path, sizeof path);

    if (st) return st;
    st = pdl_yaml_read_file(path, &doc);
    if (st) return st;
    for (int i = 0; !st && i < count; i++) st = change(doc, changes[i]);
    if (!st) st = from_document(doc, system);
    pdl_yaml_destroy(doc);
    return st;
}

void pdl_system_destroy(const pdl_system_t *system)
{
    if (system == NULL) return;
    if (system->network != NULL && system->network->made != NULL) system->network->destroy(system->network->made);
    pdl_arena_destroy(system->arena);
}
