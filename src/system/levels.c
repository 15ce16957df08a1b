/*
 * Questions about the tree of levels, and names of precisions.
 */
#include <paradl/system/system.h>

#include <stdio.h>
#include <string.h>

const char *const pdl_precision_names[PDL_PRECISION_COUNT] = {
    [PDL_FP64] = "fp64", [PDL_FP32] = "fp32", [PDL_TF32] = "tf32",   [PDL_FP16] = "fp16",
    [PDL_BF16] = "bf16", [PDL_FP8] = "fp8",   [PDL_NVFP4] = "nvfp4",
};

bool pdl_precision_narrow(pdl_precision_t precision)
{
    return precision == PDL_FP8 || precision == PDL_NVFP4;
}

int pdl_precision_bytes(pdl_precision_t precision)
{
    switch (precision) {
    case PDL_FP64: return 8;
    case PDL_FP16:
    case PDL_BF16:
    case PDL_FP8:
    case PDL_NVFP4: return 2;
    default: return 4;
    }
}

double pdl_precision_factor_bytes(pdl_precision_t precision)
{
    switch (precision) {
    case PDL_FP8: return 1;
    case PDL_NVFP4: return 0.5;
    default: return pdl_precision_bytes(precision);
    }
}

/* Eight bits for 16 values (arXiv 2509.25149, section 2); the 32 bits of a whole tensor are nothing beside them. */
double pdl_precision_scale_bytes(pdl_precision_t precision)
{
    return precision == PDL_NVFP4 ? 1.0 / 16 : 0;
}

int64_t pdl_system_group_size(const pdl_system_t *system, int level)
{
    int64_t size = 1;

    for (int l = 0; l <= level && l < system->level_count; l++) size *= system->level[l].fanout;
    return size;
}

bool pdl_device_in_turns(const pdl_device_t *device)
{
    return device->sharers > 1 && device->slice_s > 0;
}

double pdl_device_dilation(const pdl_device_t *device, double ranks)
{
    return ranks > 1 ? ranks / device->sharing : 1;
}

pdl_system_t pdl_system_widen(const pdl_system_t *system, int64_t ranks)
{
    pdl_system_t wide = *system;

    if (ranks <= system->pe_count) return wide;
    if (system->device.sharing > 0) {
        wide.device.sharers = (double)ranks / (double)system->pe_count;
        wide.device.memory_bytes /= wide.device.sharers;
        wide.device.host_bytes /= wide.device.sharers;
        /* A message waits until all of them have had their turn. */
        wide.level[0].latency_s += wide.device.slice_s * wide.device.sharers;
    }
    /* Of several kinds of devices, any. */
    wide.part_count = 0;
    wide.level[0].fanout = wide.host_level[0].fanout = ranks;
    wide.pe_count = ranks * (system->pe_count / system->level[0].fanout);
    return wide;
}

int pdl_system_threads(const pdl_system_t *system, int64_t ranks)
{
    int64_t fanout = system->level[0].fanout, here = ranks < fanout ? ranks : fanout;
    double  threads = (double)fanout * system->device.compute_units / (double)here;

    if (system->backend != NULL && strcmp(system->backend, "cuda") == 0) return 1;
    return threads > 1 ? (int)threads : 1;
}

int pdl_system_level_of_span(const pdl_system_t *system, int64_t span)
{
    int64_t size = 1;

    for (int l = 0; l < system->level_count; l++) {
        size *= system->level[l].fanout;
        if (span <= size) return l;
    }
    return system->level_count - 1;
}

int pdl_system_common_level(const pdl_system_t *system, int64_t a, int64_t b)
{
    int64_t size = 1;

    for (int l = 0; l < system->level_count; l++) {
        size *= system->level[l].fanout;
        if (a / size == b / size) return l;
    }
    return system->level_count - 1;
}

pdl_status_t pdl_system_check_devices(const pdl_system_t *system, int64_t devices)
{
    int     top = system->level_count - 1;
    int64_t below = system->pe_count / system->level[top].fanout;

    if (devices <= system->pe_count) return PDL_OK;
    if (system->part_count > 0)
        return pdl_error(PDL_ERR_INPUT,
                         "%lld devices, but %s has only %lld: ask for fewer, or give its parts more nodes",
                         (long long)devices, system->name, (long long)system->pe_count);
    return pdl_error(PDL_ERR_INPUT,
                     "%lld devices, but %s has only %lld: ask for fewer, or for a larger machine with --set "
                     "levels.%d.fanout=%lld",
                     (long long)devices, system->name, (long long)system->pe_count, top,
                     (long long)((devices + below - 1) / below));
}

static pdl_status_t check_device(const pdl_system_t *system, const pdl_device_t *device, pdl_precision_t precision)
{
    char   has[64] = "";
    size_t used = 0;

    if (device->peak_flop_per_s[precision] > 0) return PDL_OK;
    for (int i = 0; i < PDL_PRECISION_COUNT && used < sizeof(has); i++)
        if (device->peak_flop_per_s[i] > 0)
            used += (size_t)snprintf(has + used, sizeof(has) - used, "%s%s", used > 0 ? ", " : "",
                                     pdl_precision_names[i]);
    return pdl_error(PDL_ERR_INPUT, "%s, %s device of %s, does not compute in %s: it has %s", device->name,
                     system->part_count > 0 ? "a" : "the", system->name, pdl_precision_names[precision], has);
}

pdl_status_t pdl_system_check_precision(const pdl_system_t *system, pdl_precision_t precision)
{
    pdl_status_t status = PDL_OK;

    if (system->part_count == 0) return check_device(system, &system->device, precision);
    for (int i = 0; i < system->part_count && !status; i++)
        status = check_device(system, &system->part[i].device, precision);
    return status;
}
