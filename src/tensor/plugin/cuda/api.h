/*
 * What the plugin of CUDA gives the library: a table of tables, one for each family of kernels. There are two plugins with
 * this table: libparadl-cuda.so, for NVIDIA GPUs, and libparadl-cuda-emulated.so, which runs the same kernels on the
 * processor, slowly, for the tests.
 *
 * All functions but those of the runtime enqueue work and return. A stream is one of pdl__cuda_runtime_t.stream_create, never
 * NULL, and memory is the device's unless said otherwise. No function synchronises, takes memory or makes a plan unless it says
 * so: that is done once, when ops are made.
 */
#ifndef PDL_TENSOR_CUDA_API_H
#define PDL_TENSOR_CUDA_API_H

#include "tensor/plugin/cuda/conv/conv.h"
#include "tensor/plugin/cuda/loss/loss.h"
#include "tensor/plugin/cuda/matmul/matmul.h"
#include "tensor/plugin/cuda/norm/layer_norm.h"
#include "tensor/plugin/cuda/norm/norm.h"
#include "tensor/plugin/cuda/pointwise/pointwise.h"
#include "tensor/plugin/cuda/runtime.h"
#include "tensor/plugin/cuda/sequence/attention.h"
#include "tensor/plugin/cuda/sequence/moe.h"
#include "tensor/plugin/cuda/sequence/sequence.h"
#include "tensor/plugin/cuda/transport.h"
#include "tensor/plugin/cuda/vectors.h"
#include "tensor/plugin/cuda/window/window.h"

typedef struct pdl__cuda_api {
    const pdl__cuda_runtime_t     *runtime;
    const pdl__cuda_ipc_t         *ipc;
    const pdl__cuda_nccl_t        *nccl;
    const pdl__cuda_vectors_t     *vectors;
    const pdl__cuda_pointwise_t   *pointwise;
    const pdl__cuda_windows_t     *windows;
    const pdl__cuda_norms_t       *norms;
    const pdl__cuda_products_t    *products;
    const pdl__cuda_layer_norms_t *layer_norms;
    const pdl__cuda_sequences_t   *sequences;
    const pdl__cuda_attentions_t  *attentions;
    const pdl__cuda_moes_t        *moes;
    const pdl__cuda_losses_t      *losses;
    const pdl__cuda_convs_t       *convs;
} pdl__cuda_api_t;

#endif
