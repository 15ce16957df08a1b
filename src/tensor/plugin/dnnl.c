/*
 * Making and running oneDNN's primitives, in its versions 2 and 3.
 */
#include "tensor/plugin/dnnl.h"

#include "base/plugin.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>

struct pdl__dnnl_engine {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
};

/* Descriptors as oneDNN's functions take them. */
#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t desc_t;

static desc_t md(pdl__desc_t desc)
{
    return (desc_t)(uintptr_t)desc;
}

static pdl__desc_t keep_desc(dnnl_status_t code, dnnl_memory_desc_t desc)
{
    return code == dnnl_success ? (pdl__desc_t)desc : NULL;
}
#else
typedef const dnnl_memory_desc_t *desc_t;

static desc_t md(pdl__desc_t desc)
{
    return (desc_t)desc;
}

static pdl__desc_t keep_desc(dnnl_status_t code, dnnl_memory_desc_t desc)
{
    dnnl_memory_desc_t *kept = code == dnnl_success ? malloc(sizeof(*kept)) : NULL;

    if (kept != NULL) *kept = desc;
    return (pdl__desc_t)kept;
}

/* The constructors of version 3, in terms of version 2. */
static dnnl_status_t dnnl_memory_desc_create_with_tag(dnnl_memory_desc_t *desc, int rank, const dnnl_dims_t dims,
                                                      dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(desc, rank, dims, type, tag);
}

static dnnl_status_t dnnl_memory_desc_create_with_strides(dnnl_memory_desc_t *desc, int rank,
                                                          const dnnl_dims_t dims, dnnl_data_type_t type,
                                                          const dnnl_dims_t strides)
{
    return dnnl_memory_desc_init_by_strides(desc, rank, dims, type, strides);
}
#endif

static const char *code_name(dnnl_status_t code)
{
    switch (code) {
    case dnnl_out_of_memory: return "out of memory";
    case dnnl_invalid_arguments: return "invalid arguments";
    case dnnl_unimplemented: return "not implemented";
    case dnnl_runtime_error: return "runtime error";
    default: return "failed";
    }
}

/* Turns oneDNN's code into ours with its name and the layer's in the message; `layer` may be NULL. */
static pdl_status_t check(dnnl_status_t code, const char *what, const pdl_layer_t *layer)
{
    pdl_status_t status = PDL_ERR_LIMIT;

    if (code == dnnl_success) return PDL_OK;
    if (code == dnnl_out_of_memory) status = PDL_ERR_NOMEM;
    if (code == dnnl_unimplemented) status = PDL_ERR_UNSUPPORTED;
    return pdl_error(status, "%s%s%s: oneDNN says %s (code %d)", layer != NULL ? layer->name : "",
                     layer != NULL ? ": " : "", what, code_name(code), (int)code);
}

static void copy_dims(dnnl_dims_t to, const int64_t *from, int count)
{
    for (int i = 0; i < count; i++) to[i] = from[i];
}

static pdl__desc_t desc_of_type(int rank, const int64_t *dims, dnnl_data_type_t type, pdl__lie_t lie)
{
    static const dnnl_format_tag_t plain[] = {dnnl_ncw, dnnl_nchw, dnnl_ncdhw};
    static const dnnl_format_tag_t blocked[] = {dnnl_nCw16c, dnnl_nChw16c, dnnl_nCdhw16c};
    static const dnnl_format_tag_t last[] = {dnnl_nwc, dnnl_nhwc, dnnl_ndhwc};
    dnnl_format_tag_t              tag = dnnl_format_tag_any;
    dnnl_memory_desc_t             desc;
    dnnl_dims_t                    copy = {0};

    if (lie == PDL__LIE_VECTOR) tag = dnnl_a;
    if (lie == PDL__LIE_PLAIN) tag = plain[rank - 3];
    if (lie == PDL__LIE_BLOCKED) tag = blocked[rank - 3];
    if (lie == PDL__LIE_LAST) tag = last[rank - 3];
    copy_dims(copy, dims, rank);
    return keep_desc(dnnl_memory_desc_create_with_tag(&desc, rank, copy, type, tag), desc);
}

static pdl__desc_t desc_image(int rank, const int64_t *dims, bool bf16, pdl__lie_t lie)
{
    return desc_of_type(rank, dims, bf16 ? dnnl_bf16 : dnnl_f32, lie);
}

static pdl__desc_t desc_strided(int rank, const int64_t *dims, const int64_t *strides)
{
    dnnl_memory_desc_t desc;
    dnnl_dims_t        copy = {0}, steps = {0};

    copy_dims(copy, dims, rank);
    copy_dims(steps, strides, rank);
    return keep_desc(dnnl_memory_desc_create_with_strides(&desc, rank, copy, dnnl_f32, steps), desc);
}

static size_t desc_bytes(pdl__desc_t desc)
{
    return dnnl_memory_desc_get_size(md(desc));
}

static bool desc_equal(pdl__desc_t a, pdl__desc_t b)
{
    return dnnl_memory_desc_equal(md(a), md(b)) != 0;
}

static void desc_free(pdl__desc_t desc)
{
#if DNNL_VERSION_MAJOR >= 3
    if (desc != NULL) dnnl_memory_desc_destroy((dnnl_memory_desc_t)(uintptr_t)desc);
#else
    free((void *)desc);
#endif
}

/* What all three directions of a convolution are made from. */
typedef struct pdl__conv_parts {
    pdl__desc_t           x, weight, bias, y;
    dnnl_alg_kind_t       algorithm;
    dnnl_dims_t           stride, dilation, low, high;
    dnnl_primitive_attr_t attributes;
} pdl__conv_parts_t;

static void free_parts(pdl__conv_parts_t *parts)
{
    desc_free(parts->x);
    desc_free(parts->weight);
    desc_free(parts->bias);
    desc_free(parts->y);
    if (parts->attributes != NULL) dnnl_primitive_attr_destroy(parts->attributes);
}

static dnnl_status_t append_relu(dnnl_primitive_attr_t attributes)
{
    dnnl_post_ops_t steps;
    dnnl_status_t   code = dnnl_post_ops_create(&steps);

    if (code != dnnl_success) return code;
#if DNNL_VERSION_MAJOR >= 3
    code = dnnl_post_ops_append_eltwise(steps, dnnl_eltwise_relu, 0, 0);
#else
    code = dnnl_post_ops_append_eltwise(steps, 1, dnnl_eltwise_relu, 0, 0);
#endif
    if (code == dnnl_success) code = dnnl_primitive_attr_set_post_ops(attributes, steps);
    dnnl_post_ops_destroy(steps);
    return code;
}

static dnnl_status_t make_attributes(bool relu, dnnl_primitive_attr_t *attributes)
{
    dnnl_status_t code = dnnl_primitive_attr_create(attributes);

    if (code == dnnl_success)
        code = dnnl_primitive_attr_set_scratchpad_mode(*attributes, dnnl_scratchpad_mode_user);
    if (code == dnnl_success && relu) code = append_relu(*attributes);
    return code;
}

static bool make_parts(const pdl__conv_form_t *form, pdl__direction_t direction, pdl__conv_parts_t *parts)
{
    int              rank = 2 + form->space;
    dnnl_data_type_t type = form->bf16 ? dnnl_bf16 : dnnl_f32;
    dnnl_data_type_t weights = direction == PDL__BACKWARD_WEIGHT ? dnnl_f32 : type;

    *parts = (pdl__conv_parts_t){0};
    parts->x = desc_of_type(rank, form->x, type, form->in);
    parts->y = desc_of_type(rank, form->y, type, form->out);
    parts->weight = desc_of_type(rank + form->grouped, form->weight, weights, PDL__LIE_ANY);
    if (form->bias) parts->bias = desc_of_type(1, &form->y[1], dnnl_f32, PDL__LIE_VECTOR);
    parts->algorithm = form->winograd     ? dnnl_convolution_winograd
                       : form->transposed ? dnnl_deconvolution_direct
                                          : dnnl_convolution_direct;
    for (int d = 0; d < form->space; d++) {
        parts->stride[d] = form->stride[d];
        parts->dilation[d] = form->dilation[d] - 1;
        parts->low[d] = form->pad_low[d];
        parts->high[d] = form->pad_high[d];
    }
    return parts->x != NULL && parts->y != NULL && parts->weight != NULL && (!form->bias || parts->bias != NULL) &&
           make_attributes(form->relu && direction == PDL__FORWARD, &parts->attributes) == dnnl_success;
}

/* One call has the same arguments for convolution and deconvolution. */
#if DNNL_VERSION_MAJOR >= 3
#define MAKE_CONV(kind, form, parts, weight, direction, engine, hint, made)                                        \
    switch (direction) {                                                                                           \
    case PDL__FORWARD:                                                                                             \
        return dnnl_##kind##_forward_primitive_desc_create(                                                        \
            made, engine, (form)->training ? dnnl_forward_training : dnnl_forward_inference, (parts)->algorithm,   \
            md((parts)->x), weight, md((parts)->bias), md((parts)->y), (parts)->stride, (parts)->dilation,         \
            (parts)->low, (parts)->high, (parts)->attributes);                                                     \
    case PDL__BACKWARD_DATA:                                                                                       \
        return dnnl_##kind##_backward_data_primitive_desc_create(made, engine, (parts)->algorithm, md((parts)->x), \
                                                                 weight, md((parts)->y), (parts)->stride,          \
                                                                 (parts)->dilation, (parts)->low, (parts)->high,   \
                                                                 hint, (parts)->attributes);                       \
    default:                                                                                                       \
        return dnnl_##kind##_backward_weights_primitive_desc_create(made, engine, (parts)->algorithm,              \
                                                                    md((parts)->x), weight, md((parts)->bias),     \
                                                                    md((parts)->y), (parts)->stride,               \
                                                                    (parts)->dilation, (parts)->low,               \
                                                                    (parts)->high, hint, (parts)->attributes);     \
    }
#else
#define MAKE_CONV(kind, form, parts, weight, direction, engine, hint, made)                                      \
    dnnl_##kind##_desc_t desc;                                                                                   \
    dnnl_status_t        code;                                                                                   \
                                                                                                                 \
    switch (direction) {                                                                                         \
    case PDL__FORWARD:                                                                                           \
        code = dnnl_dilated_##kind##_forward_desc_init(&desc,                                                    \
                                                       (form)->training ? dnnl_forward_training                  \
                                                                        : dnnl_forward_inference,                \
                                                       (parts)->algorithm, md((parts)->x), weight,               \
                                                       md((parts)->bias), md((parts)->y), (parts)->stride,       \
                                                       (parts)->dilation, (parts)->low, (parts)->high);          \
        break;                                                                                                   \
    case PDL__BACKWARD_DATA:                                                                                     \
        code = dnnl_dilated_##kind##_backward_data_desc_init(&desc, (parts)->algorithm, md((parts)->x), weight,  \
                                                             md((parts)->y), (parts)->stride, (parts)->dilation, \
                                                             (parts)->low, (parts)->high);                       \
        break;                                                                                                   \
    default:                                                                                                     \
        code =                                                                                                   \
            dnnl_dilated_##kind##_backward_weights_desc_init(&desc, (parts)->algorithm, md((parts)->x), weight,  \
                                                             md((parts)->bias), md((parts)->y), (parts)->stride, \
                                                             (parts)->dilation, (parts)->low, (parts)->high);    \
    }                                                                                                            \
    return code != dnnl_success ? code : dnnl_primitive_desc_create(made, &desc, (parts)->attributes, engine, hint);
#endif

static dnnl_status_t make_convolution(const pdl__conv_form_t *form, const pdl__conv_parts_t *parts, desc_t weight,
                                      pdl__direction_t direction, dnnl_engine_t engine,
                                      const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *made)
{
    MAKE_CONV(convolution, form, parts, weight, direction, engine, hint, made)
}

static dnnl_status_t make_deconvolution(const pdl__conv_form_t *form, const pdl__conv_parts_t *parts, desc_t weight,
                                        pdl__direction_t direction, dnnl_engine_t engine,
                                        const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *made)
{
    MAKE_CONV(deconvolution, form, parts, weight, direction, engine, hint, made)
}

static void set_arguments(pdl__primitive_t *made, pdl__direction_t direction, bool bias)
{
    static const int arguments[][4] = {
        {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST},
        {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, 0, DNNL_ARG_DIFF_DST},
        {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS, DNNL_ARG_DIFF_DST},
    };

    memcpy(made->argument, arguments[direction], sizeof(arguments[0]));
    if (!bias) made->argument[PDL__SLOT_BIAS] = 0;
    made->argument[PDL__SLOT_SCRATCH] = DNNL_ARG_SCRATCHPAD;
}

static const char *name_of(const pdl__primitive_t *primitive)
{
    const char *name = NULL;

    (void)dnnl_primitive_desc_query(primitive->descriptor, dnnl_query_impl_info_str, 0, (void *)&name);
    return name != NULL ? name : "";
}

static void free_primitive(pdl__primitive_t *primitive)
{
    for (int i = 0; i < PDL__SLOTS; i++)
        if (primitive->memory[i] != NULL) dnnl_memory_destroy(primitive->memory[i]);
    if (primitive->primitive != NULL) dnnl_primitive_destroy(primitive->primitive);
    if (primitive->descriptor != NULL) dnnl_primitive_desc_destroy(primitive->descriptor);
    *primitive = (pdl__primitive_t){0};
}

static pdl_status_t make_conv(pdl__dnnl_engine_t *engine, const pdl__conv_form_t *form, pdl__direction_t direction,
                              const pdl__primitive_t *forward, bool allow_reference, pdl__primitive_t *made)
{
    pdl__conv_parts_t           parts;
    desc_t                      weight;
    const_dnnl_primitive_desc_t hint = forward != NULL ? forward->descriptor : NULL;
    dnnl_status_t               code = dnnl_out_of_memory;

    *made = (pdl__primitive_t){0};
    if (make_parts(form, direction, &parts)) {
        weight = md(form->weight_desc != NULL ? form->weight_desc : parts.weight);
        code = form->transposed
                   ? make_deconvolution(form, &parts, weight, direction, engine->engine, hint, &made->descriptor)
                   : make_convolution(form, &parts, weight, direction, engine->engine, hint, &made->descriptor);
    }
    free_parts(&parts);
    if (code == dnnl_out_of_memory) return PDL_ERR_NOMEM;
    if (code != dnnl_success) return PDL_ERR_UNSUPPORTED;
    if (!allow_reference && strstr(name_of(made), "ref") != NULL) {
        free_primitive(made);
        return PDL_ERR_UNSUPPORTED;
    }
    set_arguments(made, direction, form->bias);
    return PDL_OK;
}

static pdl__desc_t slot_desc(const pdl__primitive_t *primitive, int slot)
{
    return (pdl__desc_t)dnnl_primitive_desc_query_md(primitive->descriptor, dnnl_query_exec_arg_md,
                                                     primitive->argument[slot]);
}

static size_t slot_bytes(const pdl__primitive_t *primitive, int slot)
{
    if (primitive->descriptor == NULL) return 0;
    return desc_bytes(slot_desc(primitive, slot));
}

static pdl_status_t finish(pdl__dnnl_engine_t *engine, pdl__primitive_t *made, const pdl_layer_t *layer)
{
    pdl_status_t status = check(dnnl_primitive_create(&made->primitive, made->descriptor), "primitive", layer);

    if (status != PDL_OK) made->primitive = NULL;
    for (int i = 0; status == PDL_OK && i < PDL__SLOTS; i++) {
        pdl__desc_t desc;

        if (made->argument[i] == 0) continue;
        desc = slot_desc(made, i);
        status = check(dnnl_memory_create(&made->memory[i], md(desc), engine->engine, DNNL_MEMORY_NONE), "memory",
                       layer);
    }
    return status;
}

static pdl_status_t make_reorder(pdl__dnnl_engine_t *engine, pdl__desc_t from, pdl__desc_t to,
                                 const pdl_layer_t *layer, pdl__primitive_t *made)
{
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_status_t         code = make_attributes(false, &attributes);
    pdl_status_t          status;

    *made = (pdl__primitive_t){0};
    if (code == dnnl_success)
        code = dnnl_reorder_primitive_desc_create(&made->descriptor, md(from), engine->engine, md(to),
                                                  engine->engine, attributes);
    if (attributes != NULL) dnnl_primitive_attr_destroy(attributes);
    status = check(code, "reorder", layer);
    if (status != PDL_OK) return status;
    made->argument[PDL__SLOT_SRC] = DNNL_ARG_FROM;
    made->argument[PDL__SLOT_DST] = DNNL_ARG_TO;
    made->argument[PDL__SLOT_SCRATCH] = DNNL_ARG_SCRATCHPAD;
    return PDL_OK;
}

static pdl_status_t run(pdl__dnnl_engine_t *engine, const pdl__primitive_t *primitive,
                        void *const buffers[PDL__SLOTS], const pdl_layer_t *layer)
{
    dnnl_exec_arg_t arguments[PDL__SLOTS];
    int             count = 0;

    for (int i = 0; i < PDL__SLOTS; i++) {
        if (primitive->memory[i] == NULL) continue;
        (void)dnnl_memory_set_data_handle(primitive->memory[i], buffers[i]);
        arguments[count++] = (dnnl_exec_arg_t){primitive->argument[i], primitive->memory[i]};
    }
    return check(dnnl_primitive_execute(primitive->primitive, engine->stream, count, arguments), "execution",
                 layer);
}

/* Version 2.6 crashes with bf16 on processors with AMX, so it must not find out about them, unless the user's environment
   says what to use. The call fails harmlessly when oneDNN has been used before in this process. */
static void instructions(bool *wide, bool *bf16)
{
    dnnl_cpu_isa_t isa;

    if (getenv("ONEDNN_MAX_CPU_ISA") == NULL && getenv("DNNL_MAX_CPU_ISA") == NULL)
        (void)dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
    isa = dnnl_get_effective_cpu_isa();
    *wide = (isa & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
    *bf16 = isa >= dnnl_cpu_isa_avx512_core_bf16;
}

static void close_engine(pdl__dnnl_engine_t *engine)
{
    if (engine == NULL) return;
    if (engine->stream != NULL) dnnl_stream_destroy(engine->stream);
    if (engine->engine != NULL) dnnl_engine_destroy(engine->engine);
    free(engine);
}

static pdl_status_t open_engine(pdl__dnnl_engine_t **result)
{
    pdl__dnnl_engine_t *engine = calloc(1, sizeof(*engine));
    pdl_status_t        status;

    if (engine == NULL) return pdl_error(PDL_ERR_NOMEM, "CPU backend: out of memory");
    status = check(dnnl_engine_create(&engine->engine, dnnl_cpu, 0), "engine", NULL);
    if (status == PDL_OK)
        status =
            check(dnnl_stream_create(&engine->stream, engine->engine, dnnl_stream_default_flags), "stream", NULL);
    if (status != PDL_OK) {
        close_engine(engine);
        return status;
    }
    *result = engine;
    return PDL_OK;
}

static const pdl__dnnl_t functions = {
    .instructions = instructions,
    .open = open_engine,
    .close = close_engine,
    .desc_image = desc_image,
    .desc_strided = desc_strided,
    .desc_bytes = desc_bytes,
    .desc_equal = desc_equal,
    .desc_free = desc_free,
    .conv = make_conv,
    .reorder = make_reorder,
    .finish = finish,
    .slot = slot_desc,
    .slot_bytes = slot_bytes,
    .run = run,
    .free = free_primitive,
};
PDL__PLUGIN(dnnl, functions)
