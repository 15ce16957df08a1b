/*
 * A device in a system description.
 */
#include "system/host_link.h"
#include "system/values.h"

#include <limits.h>

static const char *const device_keys[] = {"name",
                                          "memory",
                                          "memory_bandwidth",
                                          "peak",
                                          "compute_units",
                                          "launch",
                                          "matrix_efficiency",
                                          "memory_efficiency",
                                          "fitted",
                                          "power",
                                          "idle_power",
                                          "host_bandwidth",
                                          "reserved",
                                          "copy_bandwidth",
                                          "host_link",
                                          "host_memory",
                                          "host_update",
                                          "queue",
                                          "issue",
                                          "step",
                                          "graphs",
                                          "sharing",
                                          "slice",
                                          NULL};

static pdl_status_t read_peaks(const pdl_yaml_t *node, pdl_device_t *device)
{
    const char  *keys[PDL_PRECISION_COUNT + 1] = {NULL};
    pdl_status_t st = pdl_yaml_expect(node, PDL_YAML_MAPPING, "a mapping from precisions to FLOP/s");

    if (st) return st;
    for (int i = 0; i < PDL_PRECISION_COUNT; i++) {
        keys[i] = pdl_precision_names[i];
        st = pdl__system_positive(node, keys[i], PDL_UNIT_FLOP_RATE, PDL_OPTIONAL, &device->peak_flop_per_s[i]);
        if (st) return st;
    }
    st = pdl_yaml_check_keys(node, keys);
    if (st) return st;
    if (!(device->peak_flop_per_s[PDL_FP32] > 0)) return pdl_yaml_error(node, "the peak for fp32 is missing");
    return PDL_OK;
}

static pdl_status_t read_device_numbers(const pdl_yaml_t *node, pdl_device_t *device)
{
    int64_t      units = 1;
    pdl_status_t st;

    device->matrix_efficiency = device->memory_efficiency = device->sharers = 1;
    st = pdl__system_positive(node, "memory", PDL_UNIT_BYTES, PDL_REQUIRED, &device->memory_bytes);
    if (st) return st;
    st = pdl__system_positive(node, "memory_bandwidth", PDL_UNIT_BYTE_RATE, PDL_REQUIRED,
                              &device->memory_bandwidth_bytes_per_s);
    if (st) return st;
    st = pdl_yaml_get_int(node, "compute_units", 1, INT_MAX, PDL_OPTIONAL, &units);
    if (st) return st;
    device->compute_units = (int)units;
    st = pdl_yaml_get_number(node, "launch", PDL_UNIT_SECONDS, PDL_OPTIONAL, &device->launch_s);
    if (st) return st;
    st = pdl__system_share(node, "matrix_efficiency", &device->matrix_efficiency);
    if (st) return st;
    st = pdl__system_share(node, "memory_efficiency", &device->memory_efficiency);
    if (!st) st = pdl_yaml_get_bool(node, "fitted", PDL_OPTIONAL, &device->fitted);
    if (st) return st;
    st = pdl_yaml_get_number(node, "power", PDL_UNIT_WATT, PDL_OPTIONAL, &device->power_w);
    if (st) return st;
    st = pdl_yaml_get_number(node, "idle_power", PDL_UNIT_WATT, PDL_OPTIONAL, &device->idle_power_w);
    if (st) return st;
    st = pdl_yaml_get_number(node, "queue", PDL_UNIT_SECONDS, PDL_OPTIONAL, &device->queue_s);
    if (!st) st = pdl_yaml_get_number(node, "issue", PDL_UNIT_SECONDS, PDL_OPTIONAL, &device->issue_s);
    if (st) return st;
    st = pdl_yaml_get_number(node, "step", PDL_UNIT_SECONDS, PDL_OPTIONAL, &device->step_s);
    if (st) return st;
    st = pdl_yaml_get_bool(node, "graphs", PDL_OPTIONAL, &device->graphs);
    if (!st) st = pdl__system_share(node, "sharing", &device->sharing);
    if (!st) st = pdl_yaml_get_number(node, "slice", PDL_UNIT_SECONDS, PDL_OPTIONAL, &device->slice_s);
    if (st) return st;
    st = pdl_yaml_get_number(node, "copy_bandwidth", PDL_UNIT_BYTE_RATE, PDL_OPTIONAL, &device->copy_bytes_per_s);
    if (st) return st;
    st = pdl__system_positive(node, "host_memory", PDL_UNIT_BYTES, PDL_OPTIONAL, &device->host_bytes);
    if (!st)
        st = pdl__system_positive(node, "host_update", PDL_UNIT_BYTE_RATE, PDL_OPTIONAL,
                                  &device->host_update_bytes_per_s);
    if (st) return st;
    return pdl_yaml_get_number(node, "reserved", PDL_UNIT_BYTES, PDL_OPTIONAL, &device->reserved_bytes);
}

pdl_status_t pdl__system_read_device(const pdl_yaml_t *root, pdl_system_t *system)
{
    const pdl_yaml_t *node = pdl_yaml_find(root, "device"), *peak;
    pdl_device_t     *device = &system->device;
    pdl_status_t      st;

    if (node == NULL) return pdl_yaml_error(root, "device is missing");
    st = pdl_yaml_expect(node, PDL_YAML_MAPPING, "a description of the device");
    if (st) return st;
    st = pdl__system_string(system, node, "name", PDL_REQUIRED, &device->name);
    if (st) return st;
    st = read_device_numbers(node, device);
    if (!st) st = pdl__system_read_host_link(node, system);
    if (!st) st = pdl_system_check_units(node);
    if (st) return st;
    peak = pdl_yaml_find(node, "peak");
    if (peak == NULL) return pdl_yaml_error(node, "peak is missing");
    st = read_peaks(peak, device);
    if (st) return st;
    st = pdl_yaml_check_keys(node, device_keys);
    if (st) return st;
    if (device->reserved_bytes >= device->memory_bytes)
        return pdl_yaml_error(pdl_yaml_find(node, "reserved"), "reserved leaves no memory to work with");
    return PDL_OK;
}
