/*
 * oneDNN behind a few functions: everything that differs between its versions 2 and 3 is in dnnl.c. Internal to the module.
 *
 * A primitive is made once together with its memory objects; a run only points these to other buffers. Scratch
 * space is the caller's.
 */
#ifndef PDL_TENSOR_PLUGIN_DNNL_H
#define PDL_TENSOR_PLUGIN_DNNL_H

#include <paradl/model/model.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pdl__dnnl_engine pdl__dnnl_engine_t;

/* A memory descriptor of oneDNN. */
typedef const struct pdl__desc *pdl__desc_t;

/* How the dimensions of an array lie. */
typedef enum pdl__lie {
    PDL__LIE_ANY,
    PDL__LIE_PLAIN,
    PDL__LIE_BLOCKED,
    PDL__LIE_LAST, /* channels innermost */
    PDL__LIE_VECTOR
} pdl__lie_t;

enum { PDL__SLOT_SRC, PDL__SLOT_WEIGHT, PDL__SLOT_BIAS, PDL__SLOT_DST, PDL__SLOT_SCRATCH, PDL__SLOTS };

/* The structures are oneDNN's. */
typedef struct pdl__primitive {
    struct dnnl_primitive_desc *descriptor;
    struct dnnl_primitive      *primitive; /* NULL: there is none */
    struct dnnl_memory         *memory[PDL__SLOTS];
    int                         argument[PDL__SLOTS];
} pdl__primitive_t;

typedef enum pdl__direction { PDL__FORWARD, PDL__BACKWARD_DATA, PDL__BACKWARD_WEIGHT } pdl__direction_t;

/* A convolution or its transpose. Arrays of dimensions as oneDNN has them: x, y = n, c, space...; weight =
   [groups], out, in, kernel... */
typedef struct pdl__conv_form {
    bool        transposed, training, bias, relu, winograd;
    bool        bf16;  /* activations, and the weights that are multiplied */
    int         space; /* dimensions of it */
    bool        grouped;
    int64_t     x[5], y[5], weight[6];
    int64_t     stride[3], dilation[3], pad_low[3], pad_high[3];
    pdl__lie_t  in, out;
    pdl__desc_t weight_desc; /* NULL: whatever the primitive likes best */
} pdl__conv_form_t;

typedef struct pdl__dnnl {
    /* What the processor has: vectors of 512 bits, products of bf16. */
    void (*instructions)(bool *wide, bool *bf16);
    pdl_status_t (*open)(pdl__dnnl_engine_t **engine);
    void (*close)(pdl__dnnl_engine_t *engine); /* NULL is allowed */

    /* NULL when out of memory or when oneDNN refuses. Images: dims = n, c, space... */
    pdl__desc_t (*desc_image)(int rank, const int64_t *dims, bool bf16, pdl__lie_t lie);
    pdl__desc_t (*desc_strided)(int rank, const int64_t *dims, const int64_t *strides);
    size_t (*desc_bytes)(pdl__desc_t desc);
    bool (*desc_equal)(pdl__desc_t a, pdl__desc_t b);
    void (*desc_free)(pdl__desc_t desc); /* NULL is allowed */

    /* Makes the descriptor only; `forward` is the hint for backward. PDL_ERR_UNSUPPORTED without a message when oneDNN
       has nothing, or only its slow reference, for this form. */
    pdl_status_t (*conv)(pdl__dnnl_engine_t *engine, const pdl__conv_form_t *form, pdl__direction_t direction,
                         const pdl__primitive_t *forward, bool allow_reference, pdl__primitive_t *made);
    /* Copies from one arrangement and type to another: slots SRC and DST. The descriptor only. */
    pdl_status_t (*reorder)(pdl__dnnl_engine_t *engine, pdl__desc_t from, pdl__desc_t to, const pdl_layer_t *layer,
                            pdl__primitive_t *made);
    /* Makes the primitive and its memory objects from the descriptor. */
    pdl_status_t (*finish)(pdl__dnnl_engine_t *engine, pdl__primitive_t *made, const pdl_layer_t *layer);
    /* The descriptor of a slot; valid as long as the primitive. */
    pdl__desc_t (*slot)(const pdl__primitive_t *primitive, int slot);
    size_t (*slot_bytes)(const pdl__primitive_t *primitive, int slot); /* 0 without a descriptor */
    pdl_status_t (*run)(pdl__dnnl_engine_t *engine, const pdl__primitive_t *primitive,
                        void *const buffers[PDL__SLOTS], const pdl_layer_t *layer);
    void (*free)(pdl__primitive_t *primitive);
} pdl__dnnl_t;

#endif
