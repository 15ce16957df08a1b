/*
 * A plan of cuDNN, inside cudnn.c and cudnn_choose.c.
 */
#ifndef PDL_TENSOR_CUDA_CUDNN_PLAN_H
#define PDL_TENSOR_CUDA_CUDNN_PLAN_H

#include "tensor/plugin/cuda/conv/cudnn.h"

struct pdl__cudnn_plan {
    pdl__cudnn_t           *library;
    pdl__cudnn_descriptor_t plan;
    char                    name[256]; /* engine and knobs */
    size_t                  bytes;     /* of workspace */
    pdl__cudnn_descriptor_t arguments; /* what it was run with last */
    void                   *address[PDL__CUDNN_TENSORS], *workspace;
};

pdl_status_t pdl__cudnn_check(const pdl__cudnn_t *library, cudnnStatus_t error, const char *what);

#endif
