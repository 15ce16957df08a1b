/*
 * Reads "paradl: topology/1" files: a graph (see graph.c), or a built-in topology with its options:
 *
 *     paradl: topology/1
 *     topology: dln
 *     hosts: 1024
 *     hosts_per_switch: 8
 *     link_bandwidth: 25GB/s
 *
 * Options have the names of the command line with '_' for '-'; lists stand for "4x4" and "1,16,1,17". Both may say what the layer
 * that moves messages adds, and what the MPI library's own allreduce takes:
 *
 *     messages: {exchange: 0.8, exchange_bytes: 64KiB, reverse: 0.02, chunk: 48KiB, buffered: true, library: [{bytes: 64KiB, seconds: 60ms}, ...]}
 */
#include "topo/family/graph.h"

#include <paradl/base/yaml.h>

#include <stdlib.h>
#include <string.h>

static const char *const option_keys[] = {"paradl",
                                          "name",
                                          "description",
                                          "topology",
                                          "hosts",
                                          "hosts_per_switch",
                                          "dims",
                                          "leaf_hosts",
                                          "uplinks",
                                          "children",
                                          "parents",
                                          "cables",
                                          "shape",
                                          "strides",
                                          "degree",
                                          "diameter",
                                          "optical_ports",
                                          "reconfigure",
                                          "optical_min_bytes",
                                          "optical_bandwidth",
                                          "routing",
                                          "valiant",
                                          "seed",
                                          "link_bandwidth",
                                          "link_latency",
                                          "host_link_bandwidth",
                                          "host_link_latency",
                                          "duplex",
                                          "messages",
                                          NULL};

static const char *const duplex_names[] = {"full", "half"};
static const char *const routing_names[] = {"row", "column", "halves"};

/* A list of at most `most` whole numbers from 1 on; *count is left alone when the key is absent. */
static pdl_status_t get_list(const pdl_yaml_t *root, const char *key, int most, int64_t *values, int *count)
{
    const pdl_yaml_t *list = pdl_yaml_find(root, key);
    pdl_status_t      st;

    if (list == NULL) return PDL_OK;
    st = pdl_yaml_expect(list, PDL_YAML_SEQUENCE, "a list of numbers");
    if (st) return st;
    if (pdl_yaml_size(list) > (size_t)most) return pdl_yaml_error(list, "%s has at most %d entries", key, most);
    for (size_t i = 0; i < pdl_yaml_size(list); i++) {
        st = pdl_yaml_int(pdl_yaml_item(list, i), 1, INT32_MAX, &values[i]);
        if (st) return st;
    }
    *count = (int)pdl_yaml_size(list);
    return PDL_OK;
}

static pdl_status_t read_counts(const pdl_yaml_t *root, pdl_topology_spec_t *spec)
{
    const struct {
        const char *key;
        int64_t    *value, least;
    } fields[] = {
        {"hosts", &spec->hosts, 1},
        {"hosts_per_switch", &spec->hosts_per_switch, 0},
        {"leaf_hosts", &spec->leaf_hosts, 1},
        {"uplinks", &spec->uplinks, 1},
        {"degree", &spec->degree, 1},
        {"diameter", &spec->diameter, 1},
        {"optical_ports", &spec->optical_ports, 1},
    };

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        pdl_status_t st =
            pdl_yaml_get_int(root, fields[i].key, fields[i].least, INT32_MAX, PDL_OPTIONAL, fields[i].value);
        if (st) return st;
    }
    return PDL_OK;
}

static pdl_status_t read_lists(const pdl_yaml_t *root, pdl_topology_spec_t *spec)
{
    int          parents = 0, cables = 0, shape = 0;
    pdl_status_t st = get_list(root, "dims", PDL_MAX_DIMS, spec->dims, &spec->dim_count);

    if (st == PDL_OK) st = get_list(root, "strides", 32, spec->strides, &spec->stride_count);
    if (st == PDL_OK) st = get_list(root, "shape", 4, spec->shape, &shape);
    if (st == PDL_OK) st = get_list(root, "children", PDL_MAX_DIMS, spec->xgft_m, &spec->xgft_levels);
    if (st == PDL_OK) st = get_list(root, "parents", PDL_MAX_DIMS, spec->xgft_w, &parents);
    if (st == PDL_OK) st = get_list(root, "cables", PDL_MAX_DIMS, spec->xgft_q, &cables);
    if (st) return st;
    if (parents != spec->xgft_levels || (cables != 0 && cables != parents))
        return pdl_yaml_error(root, "children, parents and cables need one entry per level");
    return PDL_OK;
}

static pdl_status_t read_rates(const pdl_yaml_t *root, pdl_topology_spec_t *spec)
{
    const struct {
        const char *key;
        pdl_unit_t  unit;
        double     *value;
    } fields[] = {
        {"link_bandwidth", PDL_UNIT_BYTE_RATE, &spec->link_bytes_per_s},
        {"link_latency", PDL_UNIT_SECONDS, &spec->link_latency_s},
        {"host_link_bandwidth", PDL_UNIT_BYTE_RATE, &spec->host_link_bytes_per_s},
        {"host_link_latency", PDL_UNIT_SECONDS, &spec->host_link_latency_s},
        {"optical_bandwidth", PDL_UNIT_BYTE_RATE, &spec->optical_bytes_per_s},
        {"optical_min_bytes", PDL_UNIT_BYTES, &spec->optical_min_bytes},
        {"reconfigure", PDL_UNIT_SECONDS, &spec->reconfigure_s},
    };

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        pdl_status_t st = pdl_yaml_get_number(root, fields[i].key, fields[i].unit, PDL_OPTIONAL, fields[i].value);
        if (st) return st;
    }
    return PDL_OK;
}

static pdl_status_t read_library(const pdl_yaml_t *list, pdl_message_layer_t *messages)
{
    static const char *const keys[] = {"bytes", "seconds", NULL};
    pdl_status_t             st = pdl_yaml_expect(list, PDL_YAML_SEQUENCE, "a list of sizes and times");

    if (st) return st;
    if (pdl_yaml_size(list) > PDL_LIBRARY_SIZES)
        return pdl_yaml_error(list, "library has at most %d sizes", PDL_LIBRARY_SIZES);
    for (size_t i = 0; i < pdl_yaml_size(list); i++) {
        const pdl_yaml_t *item = pdl_yaml_item(list, i);

        st = pdl_yaml_expect(item, PDL_YAML_MAPPING, "bytes and seconds");
        if (!st) st = pdl_yaml_check_keys(item, keys);
        if (!st) st = pdl_yaml_get_number(item, "bytes", PDL_UNIT_BYTES, PDL_REQUIRED, &messages->library_bytes[i]);
        if (!st) st = pdl_yaml_get_number(item, "seconds", PDL_UNIT_SECONDS, PDL_REQUIRED, &messages->library_s[i]);
        if (st) return st;
        if (!(messages->library_s[i] > 0) ||
            !(messages->library_bytes[i] > (i > 0 ? messages->library_bytes[i - 1] : 0)))
            return pdl_yaml_error(item, "sizes must grow from one to the next, and times be above 0");
        messages->library_sizes++;
    }
    return PDL_OK;
}

/* 16 digits of a number that calibrate has made of the names of the hosts. */
static pdl_status_t read_host_order(const pdl_yaml_t *messages, uint64_t *order)
{
    const char  *text = NULL;
    pdl_status_t st = pdl_yaml_get_string(messages, "host_order", PDL_OPTIONAL, &text);

    if (st || text == NULL) return st;
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return pdl_yaml_error(pdl_yaml_find(messages, "host_order"),
                              "host_order has 16 hexadecimal digits, as paradl calibrate --network writes it");
    *order = strtoull(text, NULL, 16);
    return PDL_OK;
}

static pdl_status_t read_messages(const pdl_yaml_t *root, pdl_message_layer_t *messages)
{
    static const char *const keys[] = {"exchange", "exchange_bytes", "reverse", "chunk",
                                       "buffered", "host_order",     "library", NULL};
    const pdl_yaml_t        *node = pdl_yaml_find(root, "messages"), *library;
    pdl_status_t             st;

    if (node == NULL) return PDL_OK;
    st = pdl_yaml_expect(node, PDL_YAML_MAPPING, "what moving messages adds");
    if (!st) st = pdl_yaml_check_keys(node, keys);
    if (!st) st = pdl_yaml_get_number(node, "exchange", PDL_UNIT_NONE, PDL_OPTIONAL, &messages->exchange);
    if (!st)
        st = pdl_yaml_get_number(node, "exchange_bytes", PDL_UNIT_BYTES, PDL_OPTIONAL, &messages->exchange_bytes);
    if (!st) st = pdl_yaml_get_number(node, "reverse", PDL_UNIT_NONE, PDL_OPTIONAL, &messages->reverse);
    if (!st) st = pdl_yaml_get_bool(node, "buffered", PDL_OPTIONAL, &messages->buffered);
    if (!st) st = pdl_yaml_get_number(node, "chunk", PDL_UNIT_BYTES, PDL_OPTIONAL, &messages->chunk_bytes);
    if (!st) st = read_host_order(node, &messages->host_order);
    if (st) return st;
    if (pdl_yaml_find(node, "exchange") != NULL && !(messages->exchange > 0 && messages->exchange <= 1))
        return pdl_yaml_error(pdl_yaml_find(node, "exchange"), "exchange is a share, above 0 and at most 1");
    if (!(messages->reverse >= 0 && messages->reverse <= 1))
        return pdl_yaml_error(pdl_yaml_find(node, "reverse"), "reverse is a share, from 0 to 1");
    library = pdl_yaml_find(node, "library");
    return library != NULL ? read_library(library, messages) : PDL_OK;
}

static pdl_status_t read_builtin(const pdl_yaml_t *root, const char *name, pdl_topology_t **topology)
{
    pdl_topology_spec_t spec = pdl_topology_spec(name);
    int                 duplex = spec.duplex;
    int64_t             seed = 1;
    pdl_status_t        st = pdl_yaml_check_keys(root, option_keys);

    if (st == PDL_OK) st = read_counts(root, &spec);
    if (st == PDL_OK) st = read_lists(root, &spec);
    if (st == PDL_OK) st = read_rates(root, &spec);
    if (st == PDL_OK) st = read_messages(root, &spec.messages);
    if (st == PDL_OK) st = pdl_yaml_get_bool(root, "valiant", PDL_OPTIONAL, &spec.valiant);
    if (st == PDL_OK) st = pdl_yaml_get_int(root, "seed", 0, INT64_MAX, PDL_OPTIONAL, &seed);
    if (st == PDL_OK) st = pdl_yaml_get_enum(root, "duplex", duplex_names, 2, PDL_OPTIONAL, &duplex);
    if (st == PDL_OK) st = pdl_yaml_get_enum(root, "routing", routing_names, 3, PDL_OPTIONAL, &spec.fc2_routing);
    if (st) return st;
    spec.duplex = (pdl_duplex_t)duplex;
    spec.seed = (uint64_t)seed;
    for (int i = 0; pdl_topology_builtin_name(i) != NULL; i++)
        if (strcmp(name, pdl_topology_builtin_name(i)) == 0) return pdl_topology_create(&spec, topology);
    /* A file that names a file could name itself. */
    return pdl_yaml_error(pdl_yaml_find(root, "topology"), "no built-in topology is named '%s'", name);
}

static pdl_status_t read_document(const pdl_yaml_doc_t *doc, pdl_topology_t **topology)
{
    const pdl_yaml_t *root = pdl_yaml_root(doc);
    const char       *name = NULL;
    pdl_status_t      st = pdl_yaml_check_format(root, "topology");

    if (st) return st;
    st = pdl_yaml_get_string(root, "topology", PDL_OPTIONAL, &name);
    if (st) return st;
    if (name != NULL) return read_builtin(root, name, topology);
    pdl_message_layer_t messages = {0};
    st = read_messages(root, &messages);
    if (!st) st = pdl__graph_read(root, topology);
    if (!st) (*topology)->spec.messages = messages;
    return st;
}

pdl_status_t pdl_topology_read_memory(const char *text, size_t length, const char *name, pdl_topology_t **topology)
{
    pdl_yaml_doc_t *doc;
    pdl_status_t    st = pdl_yaml_read_memory(text, length, name, &doc);

    if (st) return st;
    st = read_document(doc, topology);
    pdl_yaml_destroy(doc);
    return st;
}

pdl_status_t pdl__topology_read_file(const char *path, pdl_topology_t **topology)
{
    pdl_yaml_doc_t *doc;
    pdl_status_t    st = pdl_yaml_read_file(path, &doc);

    if (st) return st;
    st = read_document(doc, topology);
    pdl_yaml_destroy(doc);
    return st;
}
