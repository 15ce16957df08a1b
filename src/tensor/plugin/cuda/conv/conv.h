/*
 * Convolutions, on tensors with channels innermost and weights [filters][window][channels of a group].
 *
 * `wide` is what windows are on, `narrow` has one position for every window: the input and output of a convolution, the output
 * and input of its transpose. Each of the three products makes one of the three tensors from the other two.
 */
#ifndef PDL_TENSOR_CUDA_CONV_H
#define PDL_TENSOR_CUDA_CONV_H

#include "tensor/plugin/cuda/runtime.h"

#include <paradl/tensor/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pdl__conv_product {
    PDL__CONV_NARROW,
    PDL__CONV_WIDE,
    PDL__CONV_WEIGHT,
    PDL__CONV_PRODUCTS
} pdl__conv_product_t;

typedef struct pdl__cuda_form {
    pdl_dtype_t type;
    int         samples, space, groups;                     /* space: 1 to 3 dimensions */
    int         channels, wide_stride;                      /* of wide: used, and in memory */
    int         filters, narrow_stride;                     /* of narrow */
    int         wide[PDL_MAX_SPACE], narrow[PDL_MAX_SPACE]; /* extents; 1 beyond `space` */
    int         kernel[PDL_MAX_SPACE], step[PDL_MAX_SPACE], dilation[PDL_MAX_SPACE];
    int         pad_low[PDL_MAX_SPACE];
    bool        bias, relu; /* narrow = relu(product + bias) */
    bool        own;        /* by our own kernels, whatever a library has */
} pdl__cuda_form_t;

/* How weights in PyTorch's order, float [filters][channels][window], come from and go to those that products read,
   [packed_filters][packed window][packed_channels]. Folded: windows with stride 2 over images become windows with stride 1 over
   2 x 2 positions, whose channels are side by side, 4 each; `first` is the first tap of the packed window. */
typedef struct pdl__conv_packing {
    int  filters, channels, packed_filters, packed_channels;
    int  window[PDL_MAX_SPACE], packed_window[PDL_MAX_SPACE];
    bool folded;
    int  pad[2], first[2];
} pdl__conv_packing_t;

/* What is asked of products. */
typedef struct pdl__conv_wish {
    size_t workspace; /* bytes, at most */
    bool   any_order; /* sums need not have the same order in every run */
} pdl__conv_wish_t;

typedef struct pdl__cuda_conv pdl__cuda_conv_t;

/* Our own kernels make a weight gradient as sums over at most so many parts of the positions, each of which the workspace has room for. */
#define PDL__CONV_PARTS 256

#define PDL__CONV_NAME 256

typedef struct pdl__cuda_convs {
    /* Chooses how each of the wanted products is computed, by trying; takes memory and time. */
    pdl_status_t (*create)(pdl__gpu_t *gpu, const pdl__cuda_form_t *form, const bool wanted[PDL__CONV_PRODUCTS],
                           const pdl__conv_wish_t *wish, pdl__cuda_conv_t **conv);
    void (*destroy)(pdl__cuda_conv_t *conv); /* NULL is allowed */
    /* `bias`: floats that are added to the channels of the tensor made, filled up as it is; NULL: none. */
    pdl_status_t (*run)(pdl__cuda_conv_t *conv, pdl_tensor_stream_t *stream, pdl__conv_product_t product,
                        void *wide, void *weight, void *narrow, const float *bias, void *workspace);
    pdl_status_t (*pack)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                         const pdl__conv_packing_t *packing, const float *plain, void *packed);
    /* plain = packed, or plain += packed */
    pdl_status_t (*unpack)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                           const pdl__conv_packing_t *packing, const void *packed, float *plain, bool add);
    /* For tests on machines without a GPU: the plan that the library's heuristics put first for each product, on the GPU of this
       description (JSON of cuDNN), as its engine and knobs. It is made twice, the second time from that name. */
    pdl_status_t (*propose)(const char *device, const pdl__cuda_form_t *form, const pdl__conv_wish_t *wish,
                            char name[PDL__CONV_PRODUCTS][PDL__CONV_NAME]);
} pdl__cuda_convs_t;

extern const pdl__cuda_convs_t pdl__cuda_convs;

/* Without a library: what is to be so, and what a library does not have (conv_direct.cu). Bytes of workspace: as many as there are, the more the
   faster. */
pdl_status_t pdl__conv_direct(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_form_t *form,
                              pdl__conv_product_t product, void *wide, void *weight, void *narrow,
                              const float *bias, void *workspace, size_t workspace_bytes);
/* What a library has not done: bias and ReLU of the tensor made. */
pdl_status_t pdl__conv_finish(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_form_t *form,
                              pdl__conv_product_t product, const float *bias, void *made);
/* Parts of the table (conv_kernels.cu). */
pdl_status_t pdl__conv_pack(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                            const pdl__conv_packing_t *packing, const float *plain, void *packed);
pdl_status_t pdl__conv_unpack(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                              const pdl__conv_packing_t *packing, const void *packed, float *plain, bool add);

#ifdef __cplusplus
}
#endif
#endif
