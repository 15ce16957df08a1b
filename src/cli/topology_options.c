/*
 * From the options of a topology to the topology.
 */
#include "cli/topology_options.h"

#include <paradl/base/units.h>

#include <string.h>

const char *const pdl__duplex_names[3] = {"auto", "full", "half"};
const char *const pdl__routing_names[3] = {"row", "column", "halves"};

pdl_status_t pdl__parse_list(const char *option, const char *text, char separator, int64_t least, int most,
                             int64_t *values, int *count)
{
    const char stops[] = {separator, '\0'};
    char       word[32];
    int        found = 0;

    for (const char *at = text;; at++) {
        size_t length = strcspn(at, stops);

        if (found == most)
            return pdl_error(PDL_ERR_INPUT, "--%s: at most %d numbers, found \"%.60s\"", option, most, text);
        snprintf(word, sizeof(word), "%.*s", length < sizeof(word) ? (int)length : (int)sizeof(word) - 1, at);
        if (length >= sizeof(word) || pdl_parse_int(word, least, INT32_MAX, &values[found]))
            return pdl_error(PDL_ERR_INPUT,
                             "--%s: expected whole numbers from %lld on with '%c' between them, found \"%.60s\"",
                             option, (long long)least, separator, text);
        found++;
        at += length;
        if (*at == '\0') break;
    }
    *count = found;
    return PDL_OK;
}

/* Options of some topologies only. */
static const struct {
    const char *option, *topologies;
} uses[] = {
    {"hosts-per-switch", " ring torus hypercube fc2 dragonfly dln dln2d kautz "},
    {"dims", " torus fc2 dln2d "},
    {"leaf-hosts", " fat-tree hybrid "},
    {"uplinks", " fat-tree hybrid "},
    {"children", " xgft "},
    {"parents", " xgft "},
    {"cables", " xgft "},
    {"shape", " dragonfly "},
    {"valiant", " dragonfly "},
    {"seed", " dragonfly "},
    {"strides", " dln dln2d "},
    {"routing", " fc2 "},
    {"degree", " kautz "},
    {"diameter", " kautz "},
    {"optical-ports", " hybrid "},
    {"optical-bandwidth", " hybrid "},
    {"optical-min-bytes", " hybrid "},
    {"reconfigure", " hybrid "},
};
#define USES ((int)(sizeof(uses) / sizeof(*uses)))

static bool is_builtin(const char *name)
{
    for (int i = 0; pdl_topology_builtin_name(i) != NULL; i++)
        if (strcmp(pdl_topology_builtin_name(i), name) == 0) return true;
    return false;
}

/* `topology` may have options of its own behind a colon. */
static bool takes(const char *topology, int use)
{
    char word[64];

    snprintf(word, sizeof(word), " %.*s ", (int)strcspn(topology, ":"), topology);
    return strstr(uses[use].topologies, word) != NULL;
}

static pdl_status_t refuse(const char *topology, int use)
{
    char   own[512] = "--hosts";
    size_t used = strlen(own);

    if (!is_builtin(topology))
        return pdl_error(PDL_ERR_INPUT, "--%s: %.100s says that itself; leave the option out", uses[use].option,
                         topology);
    for (int u = 0; u < USES; u++)
        if (takes(topology, u)) used += (size_t)snprintf(own + used, sizeof(own) - used, ", --%s", uses[u].option);
    return pdl_error(PDL_ERR_INPUT, "--%s: a %s has no such option; it has %s and those of its links",
                     uses[use].option, topology, own);
}

pdl_status_t pdl__check_topology_options(const pdl__option_t *options, const void *values, const char *const *names,
                                         int count)
{
    for (int u = 0; u < USES; u++) {
        bool taken = false;

        for (int n = 0; n < count; n++) taken = taken || takes(names[n], u);
        if (taken || !pdl__option_changed(options, uses[u].option, values)) continue;
        if (count == 1) return refuse(names[0], u);
        return pdl_error(PDL_ERR_INPUT, "--%s: none of these networks has such an option", uses[u].option);
    }
    return PDL_OK;
}

/* Options that every built-in topology has. */
static bool is_common(const char *option)
{
    static const char *const common[] = {
        "hosts", "link-bandwidth", "link-latency", "host-link-bandwidth", "host-link-latency", "duplex"};

    for (size_t i = 0; i < sizeof(common) / sizeof(*common); i++)
        if (strcmp(common[i], option) == 0) return true;
    return false;
}

pdl_status_t pdl__take_own_options(const pdl__option_t *options, char *text, void *values)
{
    char *next = strchr(text, ':');

    if (next == NULL) return PDL_OK;
    *next = '\0';
    if (!is_builtin(text)) {
        *next = ':'; /* the name of a file */
        return PDL_OK;
    }
    while (next != NULL) {
        char        *option = next + 1, *value;
        int          use = 0;
        pdl_status_t status;

        next = strchr(option, ':');
        if (next != NULL) *next = '\0';
        value = strchr(option, '=');
        if (value != NULL) *value++ = '\0';
        while (use < USES && strcmp(uses[use].option, option) != 0) use++;
        if (use < USES && !takes(text, use)) return refuse(text, use);
        if ((use == USES && !is_common(option)) || (value == NULL && strcmp(option, "valiant") != 0))
            return pdl_error(PDL_ERR_INPUT, "--topology: %s: expected OPTION=VALUE of a network, found \"%.40s\"",
                             text, option);
        status = pdl__option_set(options, option, value, values);
        if (status) return status;
    }
    return PDL_OK;
}

static pdl_status_t set_lists(const pdl__topology_values_t *v, pdl_topology_spec_t *spec)
{
    int          numbers = 4, parents = 0, cables = 0;
    pdl_status_t status = PDL_OK;

    if (v->dims) status = pdl__parse_list("dims", v->dims, 'x', 1, PDL_MAX_DIMS, spec->dims, &spec->dim_count);
    if (!status && v->strides)
        status = pdl__parse_list("strides", v->strides, ',', 1, 32, spec->strides, &spec->stride_count);
    if (!status && v->shape) status = pdl__parse_list("shape", v->shape, ',', 0, 4, spec->shape, &numbers);
    if (!status && v->children)
        status = pdl__parse_list("children", v->children, ',', 1, PDL_MAX_DIMS, spec->xgft_m, &spec->xgft_levels);
    if (!status && v->parents)
        status = pdl__parse_list("parents", v->parents, ',', 1, PDL_MAX_DIMS, spec->xgft_w, &parents);
    if (!status && v->cables)
        status = pdl__parse_list("cables", v->cables, ',', 1, PDL_MAX_DIMS, spec->xgft_q, &cables);
    if (status) return status;
    if (numbers != 4) return pdl_error(PDL_ERR_INPUT, "--shape: expected four numbers, as in 4,8,4,33");
    if (parents != spec->xgft_levels || (cables != 0 && cables != parents))
        return pdl_error(PDL_ERR_INPUT, "--children, --parents and --cables need one number per level each");
    for (int l = 0; cables == 0 && l < spec->xgft_levels; l++) spec->xgft_q[l] = 1;
    return PDL_OK;
}

static pdl_status_t set_rates(const pdl__topology_values_t *v, pdl_topology_spec_t *spec)
{
    spec->link_bytes_per_s = v->link_bandwidth;
    spec->link_latency_s = v->link_latency;
    spec->host_link_bytes_per_s = v->host_link_bandwidth;
    spec->optical_bytes_per_s = v->optical_bandwidth;
    spec->optical_min_bytes = v->optical_min_bytes;
    spec->reconfigure_s = v->reconfigure;
    if (v->host_link_latency != NULL &&
        pdl_parse_quantity(v->host_link_latency, PDL_UNIT_SECONDS, &spec->host_link_latency_s))
        return pdl_error(PDL_ERR_INPUT, "--host-link-latency: %s", pdl_error_message());
    return PDL_OK;
}

pdl_status_t pdl__topology_from_options(const char *name, const pdl__topology_values_t *v, int64_t hosts,
                                        pdl_topology_t **topology)
{
    pdl_topology_spec_t spec = pdl_topology_spec(name);
    pdl_status_t        status;

    spec.hosts = hosts != 0 ? hosts : v->hosts;
    spec.hosts_per_switch = v->hosts_per_switch;
    spec.leaf_hosts = v->leaf_hosts;
    spec.uplinks = v->uplinks;
    spec.degree = v->degree;
    spec.diameter = v->diameter;
    spec.optical_ports = v->optical_ports;
    spec.fc2_routing = v->routing;
    spec.valiant = v->valiant;
    spec.seed = (uint64_t)v->seed;
    if (v->duplex != 0) spec.duplex = v->duplex == 2 ? PDL_HALF_DUPLEX : PDL_FULL_DUPLEX;
    status = set_lists(v, &spec);
    if (!status) status = set_rates(v, &spec);
    if (!status) status = pdl_topology_create(&spec, topology);
    if (status || spec.hosts == 0 || spec.hosts == pdl_topology_hosts(*topology)) return status;
    status = pdl_error(PDL_ERR_INPUT, "%s has %d hosts, not %lld; leave --hosts out", name,
                       pdl_topology_hosts(*topology), (long long)spec.hosts);
    pdl_topology_destroy(*topology);
    return status;
}

pdl_status_t pdl__room_from_options(const pdl__room_values_t *values, pdl_room_t *room)
{
    *room = pdl_room_default();
    if (values->switches_per_cabinet > 0) room->switches_per_cabinet = values->switches_per_cabinet;
    for (int i = 0; i < values->set.count; i++) {
        pdl_status_t status = pdl_room_set(room, values->set.text[i]);

        if (status) return pdl_error(status, "--room: %s", pdl_error_message());
    }
    return PDL_OK;
}

pdl_status_t pdl__parse_vertex(const pdl_topology_t *topology, const char *text, int *vertex)
{
    int64_t hosts = pdl_topology_hosts(topology), vertices = pdl_topology_vertices(topology), number;
    int64_t first = text[0] == 's' ? hosts : 0, end = text[0] == 'h' ? hosts : vertices;

    if (pdl_parse_int(text[0] == 's' || text[0] == 'h' ? text + 1 : text, 0, end - first - 1, &number))
        return pdl_error(PDL_ERR_INPUT, "%s has no vertex \"%.20s\": hosts are h0 to h%lld, switches s0 to s%lld",
                         pdl_topology_name(topology), text, (long long)hosts - 1,
                         (long long)(vertices - hosts) - 1);
    *vertex = (int)(first + number);
    return PDL_OK;
}
