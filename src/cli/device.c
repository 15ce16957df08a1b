/*
 * The value of --device, and the backend that it stands for.
 */
#include "cli/device.h"

#include <paradl/base/share.h>
#include <paradl/system/system.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool pdl__device_emulated(void)
{
    const char *value = getenv("PARADL_CUDA_EMULATED");

    return value != NULL && strcmp(value, "1") == 0;
}

static bool read_number(const char *text, int *number)
{
    char *end;
    long  value = strtol(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || value > 9999) return false;
    *number = (int)value;
    return true;
}

pdl_status_t pdl__device_read(const char *text, bool dry, pdl__device_t *device)
{
    *device = (pdl__device_t){.kind = PDL__DEVICE_CPU, .number = -1};
    if (strcmp(text, "cpu") == 0) return PDL_OK;
    device->dry = dry && (strcmp(text, "dry") == 0 || strcmp(text, "dry:cuda") == 0);
    if (strcmp(text, "dry") == 0 && dry) return PDL_OK;
    device->kind = PDL__DEVICE_CUDA;
    if (device->dry || strcmp(text, "cuda") == 0) return PDL_OK;
    if (strncmp(text, "cuda:", 5) == 0 && read_number(text + 5, &device->number)) return PDL_OK;
    device->kind = PDL__DEVICE_AUTO;
    if (strcmp(text, "auto") == 0) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "--device %s: use cpu, cuda, cuda:N%s", text,
                     dry ? ", auto, dry or dry:cuda" : " or auto");
}

pdl_status_t pdl__device_settle(pdl__device_t *device, const pdl_ranks_t *ranks)
{
    pdl_gpu_info_t info;
    int            count;

    if (device->kind != PDL__DEVICE_AUTO) return PDL_OK;
    device->kind = PDL__DEVICE_CPU;
    if (pdl_gpu_count(pdl__device_emulated(), &count) != PDL_OK) return PDL_OK;
    device->kind = PDL__DEVICE_CUDA;
    if (pdl_ranks_rank(ranks) != 0) return PDL_OK;
    if (pdl_gpu_info(pdl__device_emulated(), 0, &info) == PDL_OK)
        fprintf(stderr, "paradl: note: computing on %s, %d here; use --device cpu for processor cores\n", info.name,
                count);
    return PDL_OK;
}

const char *const     pdl__precision_names[PDL__PRECISIONS_HERE] = {"fp32", "bf16", "tf32"};
const pdl_precision_t pdl__precisions[PDL__PRECISIONS_HERE] = {PDL_FP32, PDL_BF16, PDL_TF32};

/* Kernels one by one, for comparison: PARADL_GRAPHS=0. */
static bool launches_kernels(void)
{
    const char *graphs = getenv("PARADL_GRAPHS");

    return graphs != NULL && strcmp(graphs, "0") == 0;
}

/* Where it is kept which kernels were found fastest, so that runs repeat their bits: $PARADL_KERNELS or ~/.cache/paradl/kernels.txt.
   NULL: nowhere, they are found anew. */
static const char *kernels_file(char *buffer, size_t size)
{
    const char *chosen = getenv("PARADL_KERNELS"), *home = getenv("HOME");
    int         length;

    if (chosen != NULL) return chosen[0] != '\0' ? chosen : NULL;
    if (home == NULL) return NULL;
    for (int depth = 0; depth < 2; depth++) {
        length = snprintf(buffer, size, "%s/.cache%s", home, depth > 0 ? "/paradl" : "");
        if (length >= (int)size || (mkdir(buffer, 0777) != 0 && errno != EEXIST)) return NULL;
    }
    if (access(buffer, W_OK) != 0) return NULL;
    length = snprintf(buffer, size, "%s/.cache/paradl/kernels.txt", home);
    return length < (int)size ? buffer : NULL;
}

pdl_status_t pdl__device_create(const pdl__device_t *device, const pdl_ranks_t *ranks,
                                const pdl_cpu_options_t *options, pdl_backend_t **backend)
{
    pdl_cuda_options_t cuda = {.device = device->number,
                               .precision = options->precision,
                               .tf32 = device->tf32,
                               .describes = device->dry,
                               .launches = launches_kernels(),
                               .emulated = pdl__device_emulated()};
    pdl_status_t       status = PDL_OK;
    int                count = 1;
    char               path[1024];

    if (device->kind != PDL__DEVICE_CUDA && device->tf32)
        return pdl_error(PDL_ERR_INPUT, "precision tf32 is for GPUs: use --device cuda, or fp32");
    if (device->kind != PDL__DEVICE_CUDA) return pdl_backend_create("cpu", options, backend);
    if (!device->dry) status = pdl_gpu_count(cuda.emulated, &count);
    if (status) return status;
    if (device->number < 0) cuda.device = device->dry ? 0 : pdl_ranks_node_rank(ranks) % count;
    if (!device->dry && !cuda.emulated) cuda.choices = kernels_file(path, sizeof(path));
    return pdl_backend_create_cuda(&cuda, backend);
}

/* A system whose plans are executed by this backend on a device of that name. */
static bool describes(const char *system_name, const pdl_backend_t *backend, const char *gpu)
{
    const pdl_system_t *system;

    if (pdl_system_load(system_name, &system) != PDL_OK) return false;
    bool found = system->backend != NULL && strcmp(system->backend, backend->ops->name) == 0 &&
                 system->device.name != NULL && strcmp(system->device.name, gpu) == 0;
    pdl_system_destroy(system);
    return found;
}

static void find_system(const pdl_backend_t *backend, const char *gpu, char *name, size_t size)
{
    static const char *const extensions[] = {".yaml", NULL};
    char                   **names;
    size_t                   count;

    if (pdl_share_list("systems", extensions, &names, &count) != PDL_OK) return;
    for (size_t i = 0; i < count && *name == '\0'; i++)
        if (describes(names[i], backend, gpu)) snprintf(name, size, "%s", names[i]);
    pdl_share_free_list(names, count);
}

const char *pdl__device_system(const pdl_backend_t *backend, char *name, size_t size, bool *described)
{
    pdl_gpu_info_t info;
    bool           gpu = strcmp(backend->ops->name, "cuda") == 0 && !pdl__device_emulated();

    *name = '\0';
    if (gpu && pdl_gpu_info(false, 0, &info) == PDL_OK) find_system(backend, info.name, name, size);
    *described = !gpu || *name != '\0';
    if (*name == '\0') snprintf(name, size, "local");
    return name;
}
