/*
 * Collectives inside a node:
 *
 *     fabric:
 *       startup: 19us
 *       step: 9us                                 # more for every further device
 *       link: 23GB/s                              # one way, as collectives reach it
 *       pass: 1TB/s                               # of the vector through a device; left out: no cost
 *       links: [[0, 1, 1], [0, 3, 2], ...]        # devices and how many join them; left out: a switch joins all
 */
#include "system/fabric.h"
#include <paradl/base/arena.h>

static const char *const keys[] = {"startup", "step", "link", "pass", "links", NULL};

/* A search for rings through all devices of a group. */
typedef struct search {
    int links[PDL_MESH_DEVICES][PDL_MESH_DEVICES]; /* that are left */
    int devices;
    int path[PDL_MESH_DEVICES];
    int most; /* rings that the links of a device allow */
} search_t;

static int pack(search_t *s);

/* Extends the path by every device that is left; the rings of the best packing that begins with it. */
static int extend(search_t *s, int length, unsigned visited)
{
    int best = 0, at = s->path[length - 1];

    if (length == s->devices) {
        /* A ring and its reverse are one; and each is found once. */
        if (s->links[at][0] == 0 || s->path[1] > at) return 0;
        s->links[at][0] = --s->links[0][at];
        best = 1 + pack(s);
        s->links[at][0] = ++s->links[0][at];
        return best;
    }
    for (int next = 1; next < s->devices && best < s->most; next++) {
        int found;

        if (visited >> next & 1 || s->links[at][next] == 0) continue;
        s->path[length] = next;
        s->links[next][at] = --s->links[at][next];
        found = extend(s, length + 1, visited | 1u << next);
        s->links[next][at] = ++s->links[at][next];
        if (found > best) best = found;
    }
    return best;
}

static int pack(search_t *s)
{
    int saved[PDL_MESH_DEVICES], best;

    for (int i = 0; i < s->devices; i++) saved[i] = s->path[i];
    s->path[0] = 0;
    best = extend(s, 1, 1);
    for (int i = 0; i < s->devices; i++) s->path[i] = saved[i];
    return best;
}

/* Every link carries one ring each way. Of two devices it is the two ways of one ring. */
static int rings_of(const pdl_fabric_t *fabric, const pdl_fabric_use_t *use, int first)
{
    search_t s = {.devices = use->devices, .most = PDL_MESH_DEVICES};

    for (int a = 0; a < use->devices; a++) {
        int links = 0;

        for (int b = 0; b < use->devices; b++) {
            s.links[a][b] = fabric->links[first + a * use->stride][first + b * use->stride];
            links += s.links[a][b];
        }
        if (links / 2 < s.most) s.most = links / 2;
    }
    return use->devices == 2 ? s.links[0][1] : 2 * pack(&s);
}

double pdl_fabric_rings(const pdl_fabric_t *fabric, const pdl_fabric_use_t *use)
{
    int span = use->devices * use->stride, fewest = 1 << 20;

    if (fabric->devices == 0) return 1;
    for (int g = 0; g < use->groups; g++) {
        int first = g / use->stride * span + g % use->stride, rings = 0;

        if (first + (use->devices - 1) * use->stride < fabric->devices) rings = rings_of(fabric, use, first);
        if (rings < fewest) fewest = rings;
    }
    return fewest > 0 ? fewest : fabric->detour;
}

void pdl_fabric_terms(const pdl_fabric_t *fabric, const pdl_fabric_use_t *use, double bytes,
                      double term[PDL_FABRIC_TERMS])
{
    double more = use->devices - 1, half = 0.5 * use->vectors;

    term[PDL_FABRIC_STARTUP] = 1;
    term[PDL_FABRIC_STEP] = half * more;
    term[PDL_FABRIC_LINK] = bytes * use->vectors * more / use->devices / pdl_fabric_rings(fabric, use);
    term[PDL_FABRIC_PASS] = bytes * half;
}

double pdl_fabric_seconds(const pdl_fabric_t *fabric, const pdl_fabric_use_t *use, double bytes)
{
    double term[PDL_FABRIC_TERMS], seconds = 0;

    if (use->devices < 2) return 0;
    pdl_fabric_terms(fabric, use, bytes, term);
    for (int i = 0; i < PDL_FABRIC_TERMS; i++) seconds += term[i] * fabric->value[i];
    return seconds;
}

static pdl_status_t read_link(const pdl_yaml_t *node, const pdl_system_t *system, pdl_fabric_t *fabric)
{
    int64_t      number[3] = {0}, last = system->level[0].fanout - 1;
    pdl_status_t status = pdl_yaml_expect(node, PDL_YAML_SEQUENCE, "two devices and how many links join them");

    if (!status && pdl_yaml_size(node) != 3)
        status = pdl_yaml_error(node, "expected two devices and how many links join them, such as [0, 1, 2]");
    for (size_t i = 0; i < 3 && !status; i++)
        status = pdl_yaml_int(pdl_yaml_item(node, i), i < 2 ? 0 : 1, i < 2 ? last : 64, &number[i]);
    if (status) return status;
    if (number[0] == number[1]) return pdl_yaml_error(node, "a link joins two different devices");
    if (fabric->links[number[0]][number[1]] > 0)
        return pdl_yaml_error(node, "the links of devices %d and %d are given twice", (int)number[0],
                              (int)number[1]);
    fabric->links[number[0]][number[1]] = fabric->links[number[1]][number[0]] = (int)number[2];
    return PDL_OK;
}

static pdl_status_t read_links(const pdl_yaml_t *list, const pdl_system_t *system, pdl_fabric_t *fabric)
{
    double       host = system->device.host_link.bytes_per_s[PDL_HOST_TO_HOST];
    pdl_status_t status = pdl_yaml_expect(list, PDL_YAML_SEQUENCE, "a list of links between devices");

    if (status) return status;
    if (system->level[0].fanout > PDL_MESH_DEVICES)
        return pdl_yaml_error(list, "links are given for nodes of at most %d devices", PDL_MESH_DEVICES);
    for (size_t i = 0; i < pdl_yaml_size(list) && !status; i++)
        status = read_link(pdl_yaml_item(list, i), system, fabric);
    fabric->devices = (int)system->level[0].fanout;
    /* Without a ring of links, the vector goes through the host at the rate of its link. */
    fabric->detour = host > 0 ? host * fabric->value[PDL_FABRIC_LINK] : 1;
    return status;
}

/* The time of a byte at a rate. */
static pdl_status_t read_rate(const pdl_yaml_t *node, const char *key, pdl_need_t need, double *seconds)
{
    double       rate = 0;
    pdl_status_t status = pdl_yaml_get_number(node, key, PDL_UNIT_BYTE_RATE, need, &rate);

    if (status || pdl_yaml_find(node, key) == NULL) return status;
    if (!(rate >= 1 && rate <= 1e18))
        return pdl_yaml_error(pdl_yaml_find(node, key), "%s must be between 1 B/s and 1e18 B/s", key);
    *seconds = 1 / rate;
    return PDL_OK;
}

pdl_status_t pdl__system_read_fabric(const pdl_yaml_t *root, pdl_system_t *system)
{
    const pdl_yaml_t *node = pdl_yaml_find(root, "fabric"), *links;
    pdl_fabric_t     *fabric;
    pdl_status_t      status;

    if (node == NULL) return PDL_OK;
    status = pdl_yaml_expect(node, PDL_YAML_MAPPING, "what collectives inside a node take");
    if (!status) status = pdl_yaml_check_keys(node, keys);
    if (status) return status;
    fabric = pdl_arena_alloc(system->arena, 1, sizeof(*fabric));
    if (fabric == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a system description");
    *fabric = (pdl_fabric_t){.detour = 1};
    status =
        pdl_yaml_get_number(node, "startup", PDL_UNIT_SECONDS, PDL_REQUIRED, &fabric->value[PDL_FABRIC_STARTUP]);
    if (!status)
        status = pdl_yaml_get_number(node, "step", PDL_UNIT_SECONDS, PDL_OPTIONAL, &fabric->value[PDL_FABRIC_STEP]);
    if (!status) status = read_rate(node, "link", PDL_REQUIRED, &fabric->value[PDL_FABRIC_LINK]);
    if (!status) status = read_rate(node, "pass", PDL_OPTIONAL, &fabric->value[PDL_FABRIC_PASS]);
    links = pdl_yaml_find(node, "links");
    if (!status && links != NULL) status = read_links(links, system, fabric);
    system->fabric = fabric;
    return status;
}
