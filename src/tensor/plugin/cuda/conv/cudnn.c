/*
 * The library, descriptors, and running plans. (Choosing them is in cudnn_choose.c.)
 */
#include "tensor/plugin/cuda/conv/cudnn.h"

#include "tensor/plugin/cuda/conv/cudnn_plan.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define SONAME_OF(major) "libcudnn.so." #major
#define SONAME(major)    SONAME_OF(major)

/* ---- the library ---- */

static pdl_status_t load(pdl__cudnn_t *library)
{
    const char *name = SONAME(CUDNN_MAJOR), *missing = NULL;

    library->file = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library->file == NULL)
        return pdl_error(PDL_ERR_LIMIT, "%s is needed (%s); install cuDNN %d for CUDA %d, or use --device cpu",
                         name, dlerror(), CUDNN_MAJOR, CUDART_VERSION / 1000);
#define LOAD(function)                                                              \
    *(void **)(void *)&library->function = dlsym(library->file, "cudnn" #function); \
    if (library->function == NULL) missing = "cudnn" #function;
    PDL__CUDNN_MAP(LOAD)
#undef LOAD
    if (missing != NULL) return pdl_error(PDL_ERR_LIMIT, "%s has no %s", name, missing);
    return PDL_OK;
}

pdl_status_t pdl__cudnn_check(const pdl__cudnn_t *library, cudnnStatus_t error, const char *what)
{
    char why[512] = "";

    if (error == CUDNN_STATUS_SUCCESS) return PDL_OK;
    library->GetLastErrorString(why, sizeof(why));
    for (char *c = why; *c != '\0'; c++)
        if (*c == '\n') *c = ' ';
    return pdl_error(error / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000 ? PDL_ERR_UNSUPPORTED : PDL_ERR_IO,
                     "cuDNN: %s: %s%s%s", what, library->GetErrorString(error), why[0] != '\0' ? ": " : "", why);
}

void pdl__cudnn_close(pdl__cudnn_t *library)
{
    if (library->device != NULL) (void)library->BackendDestroyDescriptor(library->device);
    if (library->handle != NULL) (void)library->Destroy(library->handle);
    if (library->file != NULL) dlclose(library->file);
    free(library);
}

static void close_state(void *state)
{
    pdl__cudnn_close(state);
}

pdl_status_t pdl__cudnn_open(pdl__gpu_t *gpu, pdl__cudnn_t **library)
{
    pdl__cudnn_t *made = gpu->part[PDL__GPU_CONVOLUTION].state;
    pdl_status_t  status = PDL_OK;

    if (made == NULL) {
        made = calloc(1, sizeof(*made));
        if (made == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
        made->gpu = gpu;
        status = load(made);
        if (status == PDL_OK) status = pdl__cudnn_check(made, made->Create(&made->handle), "start");
        if (status != PDL_OK) {
            pdl__cudnn_close(made);
            return status;
        }
        gpu->part[PDL__GPU_CONVOLUTION] = (pdl__gpu_part_t){made, close_state};
    }
    *library = made;
    return PDL_OK;
}

pdl_status_t pdl__cudnn_open_described(const char *device, pdl__cudnn_t **library)
{
    pdl__cudnn_t *made = calloc(1, sizeof(*made));
    pdl_status_t  status;

    if (made == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    status = load(made);
    if (status == PDL_OK)
        status = pdl__cudnn_check(made,
                                  made->BackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &made->device),
                                  "device");
    if (status == PDL_OK)
        status = pdl__cudnn_check(made,
                                  made->BackendSetAttribute(made->device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                                            CUDNN_TYPE_CHAR, (int64_t)strlen(device) + 1, device),
                                  "device");
    if (status == PDL_OK) status = pdl__cudnn_check(made, made->BackendFinalize(made->device), "device");
    if (status != PDL_OK) {
        pdl__cudnn_close(made);
        return status;
    }
    *library = made;
    return PDL_OK;
}

/* ---- descriptors ---- */

pdl__cudnn_descriptor_t pdl__cudnn_make(pdl__cudnn_graph_t *graph, cudnnBackendDescriptorType_t type)
{
    pdl__cudnn_descriptor_t made = NULL;

    if (graph->status == PDL_OK && graph->made_count == PDL__CUDNN_DESCRIPTORS)
        graph->status = pdl_error(PDL_ERR_LIMIT, "cuDNN: a graph of more than %d parts", PDL__CUDNN_DESCRIPTORS);
    if (graph->status == PDL_OK)
        graph->status =
            pdl__cudnn_check(graph->library, graph->library->BackendCreateDescriptor(type, &made), "descriptor");
    if (graph->status != PDL_OK) return NULL;
    graph->made[graph->made_count++] = made;
    return made;
}

void pdl__cudnn_set(pdl__cudnn_graph_t *graph, pdl__cudnn_descriptor_t descriptor, cudnnBackendAttributeName_t name,
                    cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    if (graph->status == PDL_OK)
        graph->status = pdl__cudnn_check(graph->library,
                                         graph->library->BackendSetAttribute(descriptor, name, type, count, values),
                                         "attribute");
}

void pdl__cudnn_refer(pdl__cudnn_graph_t *graph, pdl__cudnn_descriptor_t descriptor,
                      cudnnBackendAttributeName_t name, pdl__cudnn_descriptor_t value)
{
    pdl__cudnn_set(graph, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

pdl__cudnn_descriptor_t pdl__cudnn_finish(pdl__cudnn_graph_t *graph, pdl__cudnn_descriptor_t descriptor,
                                          const char *what)
{
    if (graph->status == PDL_OK)
        graph->status = pdl__cudnn_check(graph->library, graph->library->BackendFinalize(descriptor), what);
    return descriptor;
}

pdl__cudnn_descriptor_t pdl__cudnn_tensor(pdl__cudnn_graph_t *graph, int64_t id, cudnnDataType_t type, int rank,
                                          const int64_t *dims, const int64_t *strides, bool is_virtual)
{
    pdl__cudnn_descriptor_t tensor = pdl__cudnn_make(graph, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    int64_t                 alignment = 16;

    pdl__cudnn_set(graph, tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    pdl__cudnn_set(graph, tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, dims);
    pdl__cudnn_set(graph, tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, strides);
    pdl__cudnn_set(graph, tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    pdl__cudnn_set(graph, tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    pdl__cudnn_set(graph, tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    return pdl__cudnn_finish(graph, tensor, "tensor");
}

void pdl__cudnn_add(pdl__cudnn_graph_t *graph, pdl__cudnn_descriptor_t operation)
{
    if (graph->status == PDL_OK) graph->operation[graph->operation_count++] = operation;
}

void pdl__cudnn_clear(pdl__cudnn_graph_t *graph)
{
    for (int i = graph->made_count - 1; i >= 0; i--) (void)graph->library->BackendDestroyDescriptor(graph->made[i]);
    graph->made_count = graph->operation_count = 0;
}

/* ---- plans ---- */

const char *pdl__cudnn_name(const pdl__cudnn_plan_t *plan)
{
    return plan->name;
}

void pdl__cudnn_destroy(pdl__cudnn_plan_t *plan)
{
    if (plan == NULL) return;
    if (plan->arguments != NULL) (void)plan->library->BackendDestroyDescriptor(plan->arguments);
    if (plan->plan != NULL) (void)plan->library->BackendDestroyDescriptor(plan->plan);
    free(plan);
}

/* Addresses rarely change from step to step: their descriptor is kept. */
static pdl_status_t bind(pdl__cudnn_plan_t *plan, int tensors, const int64_t *id, void *const *address,
                         void *workspace)
{
    pdl__cudnn_t *library = plan->library;
    cudnnStatus_t error;

    if (plan->arguments != NULL && plan->workspace == workspace &&
        memcmp(plan->address, address, (size_t)tensors * sizeof(*address)) == 0)
        return PDL_OK;
    if (plan->arguments != NULL) (void)library->BackendDestroyDescriptor(plan->arguments);
    plan->arguments = NULL;
    error = library->BackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &plan->arguments);
    if (error == CUDNN_STATUS_SUCCESS)
        error = library->BackendSetAttribute(plan->arguments, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
                                             tensors, id);
    if (error == CUDNN_STATUS_SUCCESS)
        error = library->BackendSetAttribute(plan->arguments, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                             CUDNN_TYPE_VOID_PTR, tensors, address);
    if (error == CUDNN_STATUS_SUCCESS)
        error = library->BackendSetAttribute(plan->arguments, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                             CUDNN_TYPE_VOID_PTR, 1, &workspace);
    if (error == CUDNN_STATUS_SUCCESS) error = library->BackendFinalize(plan->arguments);
    memcpy(plan->address, address, (size_t)tensors * sizeof(*address));
    plan->workspace = error == CUDNN_STATUS_SUCCESS ? workspace : NULL;
    return pdl__cudnn_check(library, error, "addresses");
}

pdl_status_t pdl__cudnn_run(pdl__cudnn_plan_t *plan, pdl_tensor_stream_t *stream, int tensors, const int64_t *id,
                            void *const *address, void *workspace)
{
    pdl__cudnn_t *library = plan->library;
    void         *handle = PDL__CUDA_STREAM(stream);
    pdl_status_t  status = PDL_OK;

    if (library->stream != handle) {
        status = pdl__cudnn_check(library, library->SetStream(library->handle, handle), "stream");
        library->stream = handle;
    }
    if (status == PDL_OK) status = bind(plan, tensors, id, address, workspace);
    if (status != PDL_OK) return status;
    return pdl__cudnn_check(library, library->BackendExecute(library->handle, plan->plan, plan->arguments), "run");
}
