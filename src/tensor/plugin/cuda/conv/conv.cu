/*
 * The table of convolutions: cuDNN where it is wanted and has a plan, else our own kernels.
 */
#include "tensor/plugin/cuda/conv/conv.h"

#include "tensor/plugin/cuda/conv/cudnn_conv.h"

#include <stdlib.h>

struct pdl__cuda_conv {
    pdl__gpu_t        *gpu;
    pdl__cuda_form_t   form;
    size_t             workspace;
    pdl__cudnn_plan_t *plan[PDL__CONV_PRODUCTS]; /* NULL: none */
    bool               tail;                     /* that of PDL__CONV_NARROW adds the bias and applies the ReLU */
};

static void destroy(pdl__cuda_conv_t *conv)
{
    if (conv == NULL) return;
    for (int i = 0; i < PDL__CONV_PRODUCTS; i++) pdl__cudnn_destroy(conv->plan[i]);
    free(conv);
}

static pdl_status_t create(pdl__gpu_t *gpu, const pdl__cuda_form_t *form, const bool wanted[PDL__CONV_PRODUCTS],
                           const pdl__conv_wish_t *wish, pdl__cuda_conv_t **conv)
{
    pdl__cuda_conv_t *made = (pdl__cuda_conv_t *)calloc(1, sizeof(*made));
    pdl_status_t      status = PDL_OK;

    if (made == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    made->gpu = gpu;
    made->form = *form;
    made->workspace = wish->workspace;
    for (int i = 0; i < PDL__CONV_PRODUCTS && status == PDL_OK; i++) {
        bool tail = i == PDL__CONV_NARROW && (form->bias || form->relu);

        if (!wanted[i] || form->own) continue;
        status = PDL_ERR_UNSUPPORTED;
        if (tail) status = pdl__cudnn_conv_create(gpu, form, (pdl__conv_product_t)i, wish, true, &made->plan[i]);
        if (tail) made->tail = status == PDL_OK;
        if (status != PDL_OK)
            status = pdl__cudnn_conv_create(gpu, form, (pdl__conv_product_t)i, wish, false, &made->plan[i]);
        if (status == PDL_ERR_UNSUPPORTED) status = PDL_OK;
    }
    if (status != PDL_OK) {
        destroy(made);
        return status;
    }
    *conv = made;
    return PDL_OK;
}

static pdl_status_t run(pdl__cuda_conv_t *conv, pdl_tensor_stream_t *stream, pdl__conv_product_t product,
                        void *wide, void *weight, void *narrow, const float *bias, void *workspace)
{
    pdl_status_t status;

    if (conv->plan[product] == NULL)
        return pdl__conv_direct(conv->gpu, stream, &conv->form, product, wide, weight, narrow, bias, workspace,
                                conv->workspace);
    if (product == PDL__CONV_NARROW && conv->tail)
        return pdl__cudnn_conv_run(conv->plan[product], stream, wide, weight, narrow, bias, workspace);
    status = pdl__cudnn_conv_run(conv->plan[product], stream, wide, weight, narrow, NULL, workspace);
    if (status != PDL_OK || product == PDL__CONV_WEIGHT) return status;
    return pdl__conv_finish(conv->gpu, stream, &conv->form, product, bias,
                            product == PDL__CONV_NARROW ? narrow : wide);
}

const pdl__cuda_convs_t pdl__cuda_convs = {
    create, destroy, run, pdl__conv_pack, pdl__conv_unpack, pdl__cudnn_conv_propose,
};
