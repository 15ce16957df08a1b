/*
 * cuDNN, loaded when it is first needed: graphs of its operations, and the fastest plan for one.
 *
 *     pdl__cudnn_graph_t graph = {.library = library};
 *     x = pdl__cudnn_tensor(&graph, 'x', CUDNN_DATA_BFLOAT16, 4, dims, strides, false);
 *     ...
 *     pdl__cudnn_add(&graph, operation);
 *     status = pdl__cudnn_choose(&graph, &wish, &plan);       // graph.status where something was refused
 *     pdl__cudnn_clear(&graph);
 *     status = pdl__cudnn_run(plan, stream, 3, ids, addresses, workspace);
 *
 * After an error the functions of a graph do nothing, so that only the last status need be looked at.
 */
#ifndef PDL_TENSOR_CUDA_CUDNN_H
#define PDL_TENSOR_CUDA_CUDNN_H

#include "tensor/plugin/cuda/gpu.h"

#include <cudnn.h>

typedef cudnnBackendDescriptor_t pdl__cudnn_descriptor_t;

/* clang-format off */
#define PDL__CUDNN_MAP(X)                                                                                          \
    X(Create) X(Destroy) X(SetStream) X(GetVersion) X(GetErrorString) X(GetLastErrorString)                        \
    X(BackendCreateDescriptor) X(BackendDestroyDescriptor) X(BackendSetAttribute) X(BackendGetAttribute)           \
    X(BackendFinalize) X(BackendExecute)
/* clang-format on */

typedef struct pdl__cudnn {
    void                   *file;
    pdl__gpu_t             *gpu;    /* NULL: plans are only made, for a GPU that is described */
    cudnnHandle_t           handle; /* NULL likewise */
    pdl__cudnn_descriptor_t device; /* NULL: that of the handle */
    void                   *stream; /* of the handle */
#define PDL__CUDNN_FIELD(name) __typeof__(&cudnn##name) name;
    PDL__CUDNN_MAP(PDL__CUDNN_FIELD)
#undef PDL__CUDNN_FIELD
} pdl__cudnn_t;

#define PDL__CUDNN_DESCRIPTORS 512
typedef struct pdl__cudnn_graph {
    pdl__cudnn_t           *library;
    pdl_status_t            status;
    pdl__cudnn_descriptor_t made[PDL__CUDNN_DESCRIPTORS], operation[64];
    int                     made_count, operation_count;
} pdl__cudnn_graph_t;

#define PDL__CUDNN_TENSORS 16

/* What is asked of a plan, and what a trial needs to know: the bytes of every tensor. */
typedef struct pdl__cudnn_wish {
    const char *key;        /* under which a choice is kept; begins with what is computed */
    const char *name;       /* of the plan that is to be taken; NULL: what was chosen before, or a new choice */
    size_t      workspace;  /* at most */
    bool        repeatable; /* the same bits every time */
    int         refused;    /* engine that is not taken; 0: any is */
    int         most;       /* plans that are made and tried; 0: as many as are proposed */
    int         tensors;    /* 0: no trial */
    int64_t     id[PDL__CUDNN_TENSORS];
    size_t      bytes[PDL__CUDNN_TENSORS];
    void       *value[PDL__CUDNN_TENSORS]; /* of one that is a number of the host; else NULL */
    pdl_dtype_t type;                      /* of the numbers that a trial fills them with */
} pdl__cudnn_wish_t;

typedef struct pdl__cudnn_plan pdl__cudnn_plan_t;

/* The library of a GPU, which keeps it. */
pdl_status_t pdl__cudnn_open(pdl__gpu_t *gpu, pdl__cudnn_t **library);
/* For the tests: makes plans for the GPU of this description, a JSON text, where there is none. */
pdl_status_t pdl__cudnn_open_described(const char *device, pdl__cudnn_t **library);
void         pdl__cudnn_close(pdl__cudnn_t *library); /* of one that was opened by description */

pdl__cudnn_descriptor_t pdl__cudnn_make(pdl__cudnn_graph_t *graph, cudnnBackendDescriptorType_t type);
void pdl__cudnn_set(pdl__cudnn_graph_t *graph, pdl__cudnn_descriptor_t descriptor, cudnnBackendAttributeName_t name,
                    cudnnBackendAttributeType_t type, int64_t count, const void *values);
/* An attribute that is another descriptor. */
void pdl__cudnn_refer(pdl__cudnn_graph_t *graph, pdl__cudnn_descriptor_t descriptor,
                      cudnnBackendAttributeName_t name, pdl__cudnn_descriptor_t value);
/* When all attributes are set. `what` is for the message. */
pdl__cudnn_descriptor_t pdl__cudnn_finish(pdl__cudnn_graph_t *graph, pdl__cudnn_descriptor_t descriptor,
                                          const char *what);
pdl__cudnn_descriptor_t pdl__cudnn_tensor(pdl__cudnn_graph_t *graph, int64_t id, cudnnDataType_t type, int rank,
                                          const int64_t *dims, const int64_t *strides, bool is_virtual);
void                    pdl__cudnn_add(pdl__cudnn_graph_t *graph, pdl__cudnn_descriptor_t operation);
void                    pdl__cudnn_clear(pdl__cudnn_graph_t *graph);

/* PDL_ERR_UNSUPPORTED where no plan does what is wished. */
pdl_status_t pdl__cudnn_choose(pdl__cudnn_graph_t *graph, const pdl__cudnn_wish_t *wish, pdl__cudnn_plan_t **plan);
const char  *pdl__cudnn_name(const pdl__cudnn_plan_t *plan); /* engine and knobs */
void         pdl__cudnn_destroy(pdl__cudnn_plan_t *plan);    /* NULL is allowed */
pdl_status_t pdl__cudnn_run(pdl__cudnn_plan_t *plan, pdl_tensor_stream_t *stream, int tensors, const int64_t *id,
                            void *const *address, void *workspace);

#endif
