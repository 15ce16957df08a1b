/*
 * What all backends share.
 */
#include "tensor/describe.h"

#include <string.h>

size_t pdl_dtype_bytes(pdl_dtype_t type)
{
    switch (type) {
    case PDL_DTYPE_F32:
    case PDL_DTYPE_I32: return 4;
    case PDL_DTYPE_BF16: return 2;
    case PDL_DTYPE_F64: return 8;
    }
    return 0;
}

void pdl_backend_destroy(pdl_backend_t *backend)
{
    if (backend != NULL) backend->ops->destroy(backend);
}

pdl_status_t pdl_backend_create(const char *name, const pdl_cpu_options_t *options, pdl_backend_t **backend)
{
    if (strcmp(name, "cpu") == 0) return pdl_backend_create_cpu(options, backend);
    if (strcmp(name, "reference") == 0) return pdl_backend_create_reference(backend);
    return pdl_error(PDL_ERR_UNSUPPORTED, "there is no device %s: use cpu", name);
}

pdl_status_t pdl_backend_create_describing(const char *name, int threads, pdl_dtype_t precision,
                                           pdl_backend_t **backend)
{
    pdl_cpu_options_t     cpu = {.threads = threads, .precision = precision, .describes = true};
    pdl_cuda_options_t    cuda = {.precision = precision, .describes = true};
    pdl_generic_options_t generic = {.precision = precision};

    if (name != NULL && strcmp(name, "cpu") == 0) return pdl_backend_create_cpu(&cpu, backend);
    if (name != NULL && strcmp(name, "cuda") == 0) return pdl_backend_create_cuda(&cuda, backend);
    return pdl_backend_create_generic(&generic, backend);
}

int64_t pdl_backend_block(const pdl_backend_t *backend, int64_t channels)
{
    if (backend->block != PDL__BLOCK_ALL) return backend->block;
    return (channels + PDL__PADDED - 1) / PDL__PADDED * PDL__PADDED;
}

int pdl_op_meetings(const pdl_op_t *op, const pdl_op_run_t *run, bool backward)
{
    return (op->spec.shared && !run->training) || (run->from_saved && !backward)
               ? 0
               : op->description.meetings[backward];
}

pdl_status_t pdl_check_labels(const pdl_layer_t *layer, const int32_t *labels, int64_t samples, int64_t positions,
                              int64_t classes, int64_t first)
{
    for (int64_t i = 0; i < samples * positions; i++)
        if (labels[i] >= classes)
            return pdl_error(
                PDL_ERR_INPUT,
                "%s: sample %lld of the batch has label %d, but the network tells only %lld classes apart",
                layer->name, (long long)(first + i / positions), (int)labels[i], (long long)classes);
    return PDL_OK;
}
