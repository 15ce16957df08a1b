/*
 * Reads what copies between a device and pinned memory of its host reach, alone and in both directions at once:
 *
 *     host_link:
 *       d2h: 55GB/s
 *       h2d: 55GB/s
 *       both: 50GB/s       # each way
 *       by_size:
 *         - {bytes: 64KiB, d2h: 17GB/s, h2d: 22GB/s, both: 15GB/s}
 */
#include "system/host_link.h"
#include <math.h>
#include <paradl/base/arena.h>

static const char *const link_keys[] = {"d2h", "h2d", "both", "by_size", NULL};
static const char *const size_keys[] = {"bytes", "d2h", "h2d", "both", NULL};

static pdl_status_t get_rate(const pdl_yaml_t *mapping, const char *key, double *value)
{
    const pdl_yaml_t *node = pdl_yaml_find(mapping, key);
    pdl_status_t      status = pdl_yaml_get_number(mapping, key, PDL_UNIT_BYTE_RATE, PDL_OPTIONAL, value);

    if (status || node == NULL) return status;
    if (*value >= 1 && *value <= 1e18) return PDL_OK;
    return pdl_yaml_error(node, "%s must be between 1 B/s and 1e18 B/s", key);
}

/* What is not said is as the other direction, and both at once take the sum of what each takes alone. */
static pdl_status_t get_rates(const pdl_yaml_t *mapping, double rate[PDL_HOST_WAYS])
{
    pdl_status_t status = get_rate(mapping, "d2h", &rate[PDL_HOST_TO_HOST]);

    if (!status) status = get_rate(mapping, "h2d", &rate[PDL_HOST_TO_DEVICE]);
    if (!status) status = get_rate(mapping, "both", &rate[PDL_HOST_BOTH]);
    if (status) return status;
    if (rate[PDL_HOST_TO_HOST] <= 0 && rate[PDL_HOST_TO_DEVICE] <= 0)
        return pdl_yaml_error(mapping, "d2h or h2d is missing");
    if (rate[PDL_HOST_TO_HOST] <= 0) rate[PDL_HOST_TO_HOST] = rate[PDL_HOST_TO_DEVICE];
    if (rate[PDL_HOST_TO_DEVICE] <= 0) rate[PDL_HOST_TO_DEVICE] = rate[PDL_HOST_TO_HOST];
    if (rate[PDL_HOST_BOTH] <= 0)
        rate[PDL_HOST_BOTH] = 1 / (1 / rate[PDL_HOST_TO_HOST] + 1 / rate[PDL_HOST_TO_DEVICE]);
    return PDL_OK;
}

static pdl_status_t read_size(const pdl_yaml_t *node, pdl_host_size_t *size)
{
    pdl_status_t status = pdl_yaml_expect(node, PDL_YAML_MAPPING, "the rates of copies of one size");

    if (!status) status = pdl_yaml_check_keys(node, size_keys);
    if (!status) status = pdl_yaml_get_number(node, "bytes", PDL_UNIT_BYTES, PDL_REQUIRED, &size->bytes);
    if (!status && !(size->bytes >= 1)) status = pdl_yaml_error(node, "bytes must be at least 1");
    return status ? status : get_rates(node, size->bytes_per_s);
}

static pdl_status_t read_sizes(const pdl_yaml_t *list, pdl_system_t *system)
{
    pdl_host_link_t *link = &system->device.host_link;
    pdl_status_t     status = pdl_yaml_expect(list, PDL_YAML_SEQUENCE, "a list of sizes, smallest first");

    if (status || pdl_yaml_size(list) == 0) return status;
    pdl_host_size_t *sizes = pdl_arena_alloc(system->arena, pdl_yaml_size(list), sizeof(*sizes));
    if (sizes == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a system description");
    for (size_t i = 0; i < pdl_yaml_size(list); i++) {
        sizes[i] = (pdl_host_size_t){.bytes = 0};
        status = read_size(pdl_yaml_item(list, i), &sizes[i]);
        if (status) return status;
        if (i > 0 && sizes[i].bytes <= sizes[i - 1].bytes)
            return pdl_yaml_error(pdl_yaml_item(list, i), "sizes must grow from one to the next");
    }
    link->size = sizes;
    link->size_count = (int)pdl_yaml_size(list);
    return PDL_OK;
}

pdl_status_t pdl__system_read_host_link(const pdl_yaml_t *device, pdl_system_t *system)
{
    const pdl_yaml_t *node = pdl_yaml_find(device, "host_link"),
                     *short_form = pdl_yaml_find(device, "host_bandwidth");
    pdl_host_link_t *link = &system->device.host_link;
    pdl_status_t     status;

    if (node == NULL && short_form == NULL) return PDL_OK;
    if (node != NULL && short_form != NULL)
        return pdl_yaml_error(short_form, "host_bandwidth and host_link say the same: leave one out");
    if (short_form != NULL) {
        status = pdl_yaml_get_number(device, "host_bandwidth", PDL_UNIT_BYTE_RATE, PDL_OPTIONAL,
                                     &link->bytes_per_s[PDL_HOST_TO_HOST]);
        link->bytes_per_s[PDL_HOST_TO_DEVICE] = link->bytes_per_s[PDL_HOST_TO_HOST];
        link->bytes_per_s[PDL_HOST_BOTH] = link->bytes_per_s[PDL_HOST_TO_HOST] / 2;
        return status;
    }
    status = pdl_yaml_expect(node, PDL_YAML_MAPPING, "a description of the link to the host");
    if (!status) status = pdl_yaml_check_keys(node, link_keys);
    if (!status) status = get_rates(node, link->bytes_per_s);
    if (status || pdl_yaml_find(node, "by_size") == NULL) return status;
    return read_sizes(pdl_yaml_find(node, "by_size"), system);
}

double pdl_host_link_seconds(const pdl_host_link_t *link, pdl_host_way_t way, double bytes)
{
    const pdl_host_size_t *size = link->size;
    int                    last = link->size_count - 1;

    if (bytes <= 0 || link->bytes_per_s[way] <= 0) return 0;
    if (last < 0 || bytes >= size[last].bytes) return bytes / link->bytes_per_s[way];
    /* Between two sizes, times lie on a line; below the first, a copy takes as long as that one. */
    double before_s = size[0].bytes / size[0].bytes_per_s[way];
    if (bytes <= size[0].bytes) return before_s;
    for (int i = 1;; i++) {
        double after_s = size[i].bytes / size[i].bytes_per_s[way];

        if (bytes <= size[i].bytes)
            return before_s +
                   (after_s - before_s) * (bytes - size[i - 1].bytes) / (size[i].bytes - size[i - 1].bytes);
        before_s = after_s;
    }
}
