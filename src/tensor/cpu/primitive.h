/*
 * oneDNN behind a few functions: everything that differs between its versions 2 and 3 is in primitive.c.
 *
 * A primitive is made once together with its memory objects; a run only points these to other buffers. Scratch
 * space is the caller's.
 */
#ifndef PDL_TENSOR_CPU_PRIMITIVE_H
#define PDL_TENSOR_CPU_PRIMITIVE_H

#include "tensor/cpu/cpu.h"

/* A memory descriptor; both versions pass it by this type. */
#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t pdl__desc_t;
#else
typedef const dnnl_memory_desc_t *pdl__desc_t;
#endif

/* How the dimensions of an array lie. */
typedef enum pdl__lie {
    PDL__LIE_ANY,
    PDL__LIE_PLAIN,
    PDL__LIE_BLOCKED,
    PDL__LIE_LAST, /* channels innermost */
    PDL__LIE_VECTOR
} pdl__lie_t;

/* NULL when out of memory or when oneDNN refuses. Images: dims = n, c, space... */
pdl__desc_t pdl__desc_image(int rank, const int64_t *dims, dnnl_data_type_t type, pdl__lie_t lie);
pdl__desc_t pdl__desc_strided(int rank, const int64_t *dims, const int64_t *strides, dnnl_data_type_t type);
void        pdl__desc_free(pdl__desc_t desc); /* NULL is allowed */

enum { PDL__SLOT_SRC, PDL__SLOT_WEIGHT, PDL__SLOT_BIAS, PDL__SLOT_DST, PDL__SLOT_SCRATCH, PDL__SLOTS };

typedef struct pdl__primitive {
    dnnl_primitive_desc_t descriptor;
    dnnl_primitive_t      primitive; /* NULL: there is none */
    dnnl_memory_t         memory[PDL__SLOTS];
    int                   argument[PDL__SLOTS];
} pdl__primitive_t;

typedef enum pdl__direction { PDL__FORWARD, PDL__BACKWARD_DATA, PDL__BACKWARD_WEIGHT } pdl__direction_t;

/* A convolution or its transpose. Arrays of dimensions as oneDNN has them: x, y = n, c, space...; weight =
   [groups], out, in, kernel... */
typedef struct pdl__conv_form {
    bool             transposed, training, bias, relu;
    int              space; /* dimensions of it */
    bool             grouped;
    int64_t          x[5], y[5], weight[6];
    int64_t          stride[3], dilation[3], pad_low[3], pad_high[3];
    pdl__lie_t       in, out;
    dnnl_data_type_t type;        /* of activations and of the weights that are multiplied */
    pdl__desc_t      weight_desc; /* NULL: whatever the primitive likes best */
    dnnl_alg_kind_t  algorithm;
} pdl__conv_form_t;

/* Makes the descriptor only; `forward` is the hint for backward. PDL_ERR_UNSUPPORTED without a message when oneDNN
   has nothing, or only its slow reference, for this form. */
pdl_status_t pdl__primitive_conv(pdl__cpu_t *cpu, const pdl__conv_form_t *form, pdl__direction_t direction,
                                 const pdl__primitive_t *forward, bool allow_reference, pdl__primitive_t *made);
/* Makes the primitive and its memory objects from the descriptor. */
pdl_status_t pdl__primitive_finish(pdl__cpu_t *cpu, pdl__primitive_t *made, const pdl_layer_t *layer);

/* Copies from one arrangement and type to another: slots SRC and DST. The descriptor only. */
pdl_status_t pdl__primitive_reorder(pdl__cpu_t *cpu, pdl__desc_t from, pdl__desc_t to, const pdl_layer_t *layer,
                                    pdl__primitive_t *made);

/* The descriptor of a slot; valid as long as the primitive. */
pdl__desc_t pdl__primitive_desc(const pdl__primitive_t *primitive, int slot);
size_t      pdl__primitive_bytes(const pdl__primitive_t *primitive, int slot); /* 0 without a descriptor */
const char *pdl__primitive_name(const pdl__primitive_t *primitive);

pdl_status_t pdl__primitive_run(pdl__cpu_t *cpu, const pdl__primitive_t *primitive, void *const buffers[PDL__SLOTS],
                                const pdl_layer_t *layer);
void         pdl__primitive_free(pdl__primitive_t *primitive);

#endif
