/*
 * The key "devices" of a system description: nodes whose devices are alike, part after part.
 *
 *     devices:
 *       - {name: a100, nodes: 2, system: selene, cost_per_pe_hour: 2.1}   # the device of another description
 *       - {name: v100, nodes: 4, device: {name: ..., memory: ...}}
 */
#include "system/values.h"

#include <paradl/base/arena.h>
#include <paradl/base/share.h>

#include <stdio.h>
#include <string.h>

/* The device of another description, which has one kind only. */
static pdl_status_t take_device(const pdl_yaml_t *name, pdl_system_t *system)
{
    static const char *const extensions[] = {".yaml", NULL};
    char                     path[4096];
    pdl_yaml_doc_t          *doc;
    const char              *text = NULL;
    pdl_status_t             status = pdl_yaml_string(name, &text);

    if (status) return status;
    status = pdl_share_find("systems", text, extensions, path, sizeof(path));
    if (status) return pdl_yaml_error(name, "%.400s", pdl_error_message());
    status = pdl_yaml_read_file(path, &doc);
    if (status) return status;
    status = pdl_yaml_check_format(pdl_yaml_root(doc), "system");
    if (!status && pdl_yaml_find(pdl_yaml_root(doc), "devices") != NULL)
        status = pdl_yaml_error(name, "system %.100s has several kinds of devices itself: describe the device here",
                                text);
    if (!status) status = pdl__system_read_device(pdl_yaml_root(doc), system);
    pdl_yaml_destroy(doc);
    return status;
}

/* Names stand in comments of plans and in lists. */
static const char of_names[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-+_";

static pdl_status_t read_name(const pdl_yaml_t *node, const pdl_system_t *system, pdl_system_part_t *part)
{
    const char  *name = NULL;
    pdl_status_t status = pdl_yaml_get_string(node, "name", PDL_REQUIRED, &name);

    if (status) return status;
    if (name[0] == '\0' || strlen(name) >= sizeof(part->name) || name[strspn(name, of_names)] != '\0')
        return pdl_yaml_error(pdl_yaml_find(node, "name"), "name: expected 1 to %zu letters, digits and .-+_",
                              sizeof(part->name) - 1);
    for (int i = 0; i < system->part_count; i++)
        if (strcmp(system->part[i].name, name) == 0)
            return pdl_yaml_error(pdl_yaml_find(node, "name"), "two parts are called %.31s: plans name them", name);
    snprintf(part->name, sizeof(part->name), "%s", name);
    return PDL_OK;
}

static bool same_link(const pdl_host_link_t *a, const pdl_host_link_t *b)
{
    return memcmp(a->bytes_per_s, b->bytes_per_s, sizeof(a->bytes_per_s)) == 0 && a->size_count == b->size_count &&
           (a->size_count == 0 || memcmp(a->size, b->size, (size_t)a->size_count * sizeof(*a->size)) == 0);
}

/* Whatever they are called. */
static bool same_device(const pdl_device_t *a, const pdl_device_t *b)
{
    return a->memory_bytes == b->memory_bytes &&
           a->memory_bandwidth_bytes_per_s == b->memory_bandwidth_bytes_per_s &&
           memcmp(a->peak_flop_per_s, b->peak_flop_per_s, sizeof(a->peak_flop_per_s)) == 0 &&
           a->compute_units == b->compute_units && a->launch_s == b->launch_s &&
           a->matrix_efficiency == b->matrix_efficiency && a->memory_efficiency == b->memory_efficiency &&
           a->fitted == b->fitted && a->power_w == b->power_w && a->idle_power_w == b->idle_power_w &&
           a->queue_s == b->queue_s && a->issue_s == b->issue_s && a->step_s == b->step_s &&
           a->graphs == b->graphs && a->slice_s == b->slice_s && a->sharing == b->sharing &&
           same_link(&a->host_link, &b->host_link) && a->host_bytes == b->host_bytes &&
           a->host_update_bytes_per_s == b->host_update_bytes_per_s && a->reserved_bytes == b->reserved_bytes &&
           a->copy_bytes_per_s == b->copy_bytes_per_s;
}

static pdl_status_t read_part(const pdl_yaml_t *node, pdl_system_t *system)
{
    static const char *const keys[] = {"name", "nodes", "system", "device", "cost_per_pe_hour", NULL};
    pdl_system_part_t       *part = &system->part[system->part_count];
    pdl_status_t             status =
        pdl_yaml_expect(node, PDL_YAML_MAPPING, "a part such as {name: a100, nodes: 2, system: selene}");

    if (!status) status = pdl_yaml_check_keys(node, keys);
    if (!status) status = read_name(node, system, part);
    if (!status) status = pdl_yaml_get_int(node, "nodes", 1, INT32_MAX, PDL_REQUIRED, &part->nodes);
    if (status) return status;
    const pdl_yaml_t *like = pdl_yaml_find(node, "system"), *own = pdl_yaml_find(node, "device");
    if ((like == NULL) == (own == NULL))
        return pdl_yaml_error(node, "part %s needs either device, or system: one that has this device", part->name);
    memset(&system->device, 0, sizeof(system->device));
    status = like != NULL ? take_device(like, system) : pdl__system_read_device(node, system);
    if (!status)
        status =
            pdl_yaml_get_number(node, "cost_per_pe_hour", PDL_UNIT_NONE, PDL_OPTIONAL, &part->cost_per_pe_hour);
    if (status) return status;
    part->device = system->device;
    part->kind = 0;
    while (!same_device(&system->part[part->kind].device, &part->device)) part->kind++;
    system->part_count++;
    return PDL_OK;
}

/* What programs are timed and compiled for is one device. */
static pdl_status_t check_beside(const pdl_yaml_t *root)
{
    static const char *const keys[] = {"device", "network", "backend", "measured", "operations"};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (pdl_yaml_find(root, keys[i]) != NULL)
            return pdl_yaml_error(
                pdl_yaml_find(root, keys[i]),
                "%s has no place beside devices, of which a machine has several kinds: leave out one "
                "of them",
                keys[i]);
    return PDL_OK;
}

/* "A100 + V100" */
static pdl_status_t join_names(pdl_system_t *system, pdl_device_t *weakest)
{
    char   names[512] = "";
    size_t used = 0;

    for (int i = 0; i < system->part_count; i++)
        if (system->part[i].kind == i && used < sizeof(names))
            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%.100s", used > 0 ? " + " : "",
                                     system->part[i].device.name);
    weakest->name = pdl_arena_strdup(system->arena, names);
    return weakest->name != NULL ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory for a system description");
}

pdl_status_t pdl__system_read_parts(const pdl_yaml_t *root, pdl_system_t *system)
{
    const pdl_yaml_t *list = pdl_yaml_find(root, "devices");
    int64_t           nodes = 0, joined = system->pe_count / system->level[0].fanout;
    pdl_status_t      status = PDL_OK;

    if (list == NULL) return PDL_OK;
    status = pdl_yaml_expect(list, PDL_YAML_SEQUENCE, "a list of parts, each with its nodes and their device");
    if (!status) status = check_beside(root);
    if (status) return status;
    if (pdl_yaml_size(list) == 0 || pdl_yaml_size(list) > PDL_MAX_PARTS)
        return pdl_yaml_error(list, "expected 1 to %d parts, found %zu", PDL_MAX_PARTS, pdl_yaml_size(list));
    for (size_t i = 0; i < pdl_yaml_size(list) && !status; i++) {
        status = read_part(pdl_yaml_item(list, i), system);
        nodes += system->part[i].nodes;
    }
    if (status) return status;
    if (nodes != joined)
        return pdl_yaml_error(list, "the parts have %lld nodes, but the levels join %lld", (long long)nodes,
                              (long long)joined);
    system->device = system->part[0].device;
    for (int i = 1; i < system->part_count; i++)
        system->device = pdl_device_weaker(&system->device, &system->part[i].device);
    return join_names(system, &system->device);
}
