/*
 * Attention as graphs of cuDNN, which compiles one kernel of each: in bf16, without dropout. Plans take seconds to compile, so
 * layers of the same shape share them: the GPU keeps a list.
 *
 * Backward is the form whose bits repeat: the gradient of q comes from one product, for which cuDNN keeps the gradients of
 * all scores in its workspace. Where that would be too much, samples are done in several turns.
 */
#include "tensor/plugin/cuda/sequence/attention.h"

#include "tensor/plugin/cuda/conv/cudnn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef pdl__cuda_attention_t   attention_t;
typedef pdl__cudnn_descriptor_t tensor_t;

enum { Q = 1, K, V, LSE, OUT, D_OUT, DQ, DK, DV, DOTS, SCALE, HIDDEN, ONE, SLOPE_SCALE, VIRTUAL = 100 };

struct pdl__cuda_attention_plans {
    pdl__cuda_attention_plans_t *next;
    char                         key[256];
    int64_t                      samples; /* of a turn */
    float                        scale, hidden, one;
    pdl__cudnn_plan_t           *forward, *backward;
};

typedef pdl__cuda_attention_plans_t plans_t;

/* A graph under construction. */
typedef struct sketch {
    pdl__cudnn_graph_t graph;
    const attention_t *a;
    int64_t            samples, virtuals;
} sketch_t;

/* ---- tensors ---- */

static tensor_t tensor(sketch_t *s, int64_t id, cudnnDataType_t type, int64_t rows, int64_t columns,
                       const int64_t *strides)
{
    int64_t dims[4] = {s->samples, s->a->heads, rows, columns};
    bool    is_virtual = id == VIRTUAL;

    return pdl__cudnn_tensor(&s->graph, is_virtual ? VIRTUAL + s->virtuals++ : id, type, 4, dims, strides,
                             is_virtual);
}

/* Vectors of tokens, or [dim][tokens] of them. */
static tensor_t vectors(sketch_t *s, int64_t id, const pdl__cuda_heads_t *heads, bool turned)
{
    int64_t tokens = s->a->queries, dim = s->a->dim;
    int64_t strides[] = {heads->sample, dim, turned ? 1 : heads->token, turned ? heads->token : 1};

    return tensor(s, id, CUDNN_DATA_BFLOAT16, turned ? dim : tokens, turned ? tokens : dim, strides);
}

/* A number for every query and key; turned: the same memory seen key by key. */
static tensor_t pairs(sketch_t *s, cudnnDataType_t type, bool turned)
{
    int64_t tokens = s->a->queries;
    int64_t strides[] = {s->a->heads * tokens * tokens, tokens * tokens, turned ? 1 : tokens, turned ? tokens : 1};

    return tensor(s, VIRTUAL, type, tokens, tokens, strides);
}

/* A number for every query. */
static tensor_t rows(sketch_t *s, int64_t id)
{
    int64_t tokens = s->a->queries, strides[] = {s->a->heads * tokens, tokens, 1, 1};

    return tensor(s, id, CUDNN_DATA_FLOAT, tokens, 1, strides);
}

/* A number of the host. */
static tensor_t scalar(sketch_t *s, int64_t id)
{
    pdl__cudnn_graph_t *graph = &s->graph;
    tensor_t            made = pdl__cudnn_make(graph, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    cudnnDataType_t     type = CUDNN_DATA_FLOAT;
    int64_t             ones[4] = {1, 1, 1, 1}, alignment = 16;
    bool                yes = true;

    pdl__cudnn_set(graph, made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    pdl__cudnn_set(graph, made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, ones);
    pdl__cudnn_set(graph, made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, ones);
    pdl__cudnn_set(graph, made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    pdl__cudnn_set(graph, made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    pdl__cudnn_set(graph, made, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
    return pdl__cudnn_finish(graph, made, "number");
}

/* ---- operations ---- */

/* y = f(x, b, t); b and t may be NULL, axis is -1 but for indices. */
static tensor_t pointwise(sketch_t *s, cudnnPointwiseMode_t mode, cudnnDataType_t precision, int64_t axis,
                          tensor_t x, tensor_t b, tensor_t t, tensor_t y)
{
    pdl__cudnn_graph_t *graph = &s->graph;
    tensor_t            function = pdl__cudnn_make(graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    tensor_t            operation = pdl__cudnn_make(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);

    pdl__cudnn_set(graph, function, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    pdl__cudnn_set(graph, function, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &precision);
    if (axis >= 0) pdl__cudnn_set(graph, function, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    pdl__cudnn_refer(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                     pdl__cudnn_finish(graph, function, "function"));
    pdl__cudnn_refer(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b != NULL) pdl__cudnn_refer(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    if (t != NULL) pdl__cudnn_refer(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
    pdl__cudnn_refer(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    pdl__cudnn_add(graph, pdl__cudnn_finish(graph, operation, "pointwise operation"));
    return y;
}

/* Of floats. */
static tensor_t apply(sketch_t *s, cudnnPointwiseMode_t mode, tensor_t x, tensor_t b, tensor_t y)
{
    return pointwise(s, mode, CUDNN_DATA_FLOAT, -1, x, b, NULL, y);
}

static tensor_t multiply(sketch_t *s, tensor_t a, tensor_t b, tensor_t c)
{
    pdl__cudnn_graph_t *graph = &s->graph;
    tensor_t            function = pdl__cudnn_make(graph, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    tensor_t            operation = pdl__cudnn_make(graph, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    cudnnDataType_t     precision = CUDNN_DATA_FLOAT;

    pdl__cudnn_set(graph, function, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &precision);
    pdl__cudnn_refer(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_DESC,
                     pdl__cudnn_finish(graph, function, "product"));
    pdl__cudnn_refer(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    pdl__cudnn_refer(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    pdl__cudnn_refer(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    pdl__cudnn_add(graph, pdl__cudnn_finish(graph, operation, "product operation"));
    return c;
}

static tensor_t reduce(sketch_t *s, cudnnReduceTensorOp_t mode, tensor_t x, tensor_t y)
{
    pdl__cudnn_graph_t *graph = &s->graph;
    tensor_t            function = pdl__cudnn_make(graph, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    tensor_t            operation = pdl__cudnn_make(graph, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    cudnnDataType_t     precision = CUDNN_DATA_FLOAT;

    pdl__cudnn_set(graph, function, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &precision);
    pdl__cudnn_set(graph, function, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode);
    pdl__cudnn_refer(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC,
                     pdl__cudnn_finish(graph, function, "reduction"));
    pdl__cudnn_refer(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    pdl__cudnn_refer(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    pdl__cudnn_add(graph, pdl__cudnn_finish(graph, operation, "reduction operation"));
    return y;
}

static tensor_t reshape(sketch_t *s, tensor_t x, tensor_t y)
{
    tensor_t operation = pdl__cudnn_make(&s->graph, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);

    pdl__cudnn_refer(&s->graph, operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    pdl__cudnn_refer(&s->graph, operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    pdl__cudnn_add(&s->graph, pdl__cudnn_finish(&s->graph, operation, "reshape operation"));
    return y;
}

/* ---- graphs ---- */

static tensor_t float_pairs(sketch_t *s)
{
    return pairs(s, CUDNN_DATA_FLOAT, false);
}

/* Scores of keys behind the query become minus infinity. */
static tensor_t hide_future(sketch_t *s, tensor_t scores)
{
    tensor_t query, key, seen;

    if (!s->a->causal) return scores;
    query = pointwise(s, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 2, scores, NULL, NULL,
                      pairs(s, CUDNN_DATA_INT32, false));
    key = pointwise(s, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 3, scores, NULL, NULL,
                    pairs(s, CUDNN_DATA_INT32, false));
    seen = pointwise(s, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, -1, query, key, NULL,
                     pairs(s, CUDNN_DATA_BOOLEAN, false));
    return pointwise(s, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1, scores, scalar(s, HIDDEN), seen,
                     float_pairs(s));
}

static tensor_t scores_of(sketch_t *s)
{
    tensor_t products = multiply(s, vectors(s, Q, &s->a->q, false), vectors(s, K, &s->a->k, true), float_pairs(s));

    return apply(s, CUDNN_POINTWISE_MUL, products, scalar(s, SCALE), float_pairs(s));
}

/* out = softmax(scores) v, and the log of each row's sum. */
static void sketch_forward(sketch_t *s)
{
    tensor_t scores = hide_future(s, scores_of(s));
    tensor_t largest = reduce(s, CUDNN_REDUCE_TENSOR_MAX, scores, rows(s, VIRTUAL));
    tensor_t weights = apply(s, CUDNN_POINTWISE_EXP, apply(s, CUDNN_POINTWISE_SUB, scores, largest, float_pairs(s)),
                             NULL, float_pairs(s));
    tensor_t sum = reduce(s, CUDNN_REDUCE_TENSOR_ADD, weights, rows(s, VIRTUAL));

    apply(s, CUDNN_POINTWISE_ADD, largest, apply(s, CUDNN_POINTWISE_LOG, sum, NULL, rows(s, VIRTUAL)),
          rows(s, LSE));
    multiply(s, apply(s, CUDNN_POINTWISE_DIV, weights, sum, pairs(s, CUDNN_DATA_BFLOAT16, false)),
             vectors(s, V, &s->a->v, false), vectors(s, OUT, &s->a->out, false));
}

/* dots = out times its gradient. */
static tensor_t sketch_dots(sketch_t *s, tensor_t d_out)
{
    int64_t  tokens = s->a->queries, dim = s->a->dim;
    int64_t  strides[] = {s->a->heads * tokens * dim, tokens * dim, s->a->heads * dim, 1};
    tensor_t product = apply(s, CUDNN_POINTWISE_MUL, d_out, vectors(s, OUT, &s->a->out, false),
                             tensor(s, VIRTUAL, CUDNN_DATA_FLOAT, tokens, dim, strides));

    return apply(s, CUDNN_POINTWISE_MUL, reduce(s, CUDNN_REDUCE_TENSOR_ADD, product, rows(s, VIRTUAL)),
                 scalar(s, ONE), rows(s, DOTS));
}

static void sketch_backward(sketch_t *s)
{
    const attention_t *a = s->a;
    int64_t            strides[] = {a->k.sample, a->dim, a->k.token, 1};
    tensor_t           d_out = vectors(s, D_OUT, &a->d_out, false), dots = sketch_dots(s, d_out);
    tensor_t           q = vectors(s, Q, &a->q, false), k = vectors(s, K, &a->k, true);
    tensor_t           scores, weights, slopes, keys;

    scores = apply(s, CUDNN_POINTWISE_MUL, multiply(s, q, k, float_pairs(s)), scalar(s, SCALE), float_pairs(s));
    scores = apply(s, CUDNN_POINTWISE_SUB, scores, rows(s, LSE), float_pairs(s));
    weights = apply(s, CUDNN_POINTWISE_EXP, hide_future(s, scores), NULL, float_pairs(s));
    multiply(s, reshape(s, weights, pairs(s, CUDNN_DATA_BFLOAT16, true)), d_out, vectors(s, DV, &a->dv, false));
    slopes = multiply(s, d_out, vectors(s, V, &a->v, true), float_pairs(s));
    slopes = apply(s, CUDNN_POINTWISE_SUB, slopes, dots, float_pairs(s));
    slopes = apply(s, CUDNN_POINTWISE_MUL, slopes, weights, float_pairs(s));
    slopes = apply(s, CUDNN_POINTWISE_MUL, slopes, scalar(s, SLOPE_SCALE), float_pairs(s));
    multiply(s, reshape(s, slopes, pairs(s, CUDNN_DATA_BFLOAT16, true)), q, vectors(s, DK, &a->dk, false));
    keys = reshape(s, k, tensor(s, VIRTUAL, CUDNN_DATA_FLOAT, a->queries, a->dim, strides));
    multiply(s, slopes, keys, vectors(s, DQ, &a->dq, false));
}

/* ---- plans ---- */

/* Tensors of a graph with their addresses for a turn that begins with sample `first`. */
typedef struct binding {
    int     count;
    int64_t id[PDL__CUDNN_TENSORS];
    void   *address[PDL__CUDNN_TENSORS];
    size_t  bytes[PDL__CUDNN_TENSORS];
} binding_t;

static void bind(binding_t *b, int64_t id, void *address, size_t bytes)
{
    b->id[b->count] = id;
    b->address[b->count] = address;
    b->bytes[b->count++] = bytes;
}

static void bind_heads(binding_t *b, int64_t id, const pdl__cuda_heads_t *heads, int64_t first, int64_t samples)
{
    char *at = heads->at;

    bind(b, id, at != NULL ? at + 2 * first * heads->sample : NULL, 2 * (size_t)(samples * heads->sample));
}

static binding_t bind_all(const plans_t *plans, const attention_t *a, bool backward, int64_t first)
{
    binding_t b = {0};
    int64_t   n = plans->samples, rows_of_sample = a->heads * a->queries;
    size_t    row_bytes = (size_t)(n * rows_of_sample) * sizeof(float);

    bind_heads(&b, Q, &a->q, first, n);
    bind_heads(&b, K, &a->k, first, n);
    bind_heads(&b, V, &a->v, first, n);
    bind_heads(&b, OUT, &a->out, first, n);
    bind(&b, LSE, a->lse != NULL ? a->lse + first * rows_of_sample : NULL, row_bytes);
    bind(&b, SCALE, (void *)&plans->scale, 0);
    if (a->causal) bind(&b, HIDDEN, (void *)&plans->hidden, 0);
    if (!backward) return b;
    bind_heads(&b, D_OUT, &a->d_out, first, n);
    bind_heads(&b, DQ, &a->dq, first, n);
    bind_heads(&b, DK, &a->dk, first, n);
    bind_heads(&b, DV, &a->dv, first, n);
    bind(&b, DOTS, a->dots != NULL ? a->dots + first * rows_of_sample : NULL, row_bytes);
    bind(&b, ONE, (void *)&plans->one, 0);
    bind(&b, SLOPE_SCALE, (void *)&plans->scale, 0);
    return b;
}

static pdl_status_t make_plan(pdl__cudnn_t *library, plans_t *plans, const attention_t *a, bool backward,
                              size_t workspace, pdl__cudnn_plan_t **plan)
{
    sketch_t         *s = calloc(1, sizeof(*s));
    binding_t         b = bind_all(plans, a, backward, 0);
    pdl__cudnn_wish_t wish = {.workspace = workspace,
                              .repeatable = true,
                              .most = 4, /* each takes seconds to compile */
                              .tensors = b.count,
                              .type = PDL_DTYPE_BF16};
    char              key[320];
    pdl_status_t      status;

    if (s == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    *s = (sketch_t){.graph = {.library = library}, .a = a, .samples = plans->samples};
    if (backward)
        sketch_backward(s);
    else
        sketch_forward(s);
    snprintf(key, sizeof(key), "cuDNN %zu: attention %s %s", library->GetVersion(),
             backward ? "backward" : "forward", plans->key);
    wish.key = key;
    for (int i = 0; i < b.count; i++) {
        wish.id[i] = b.id[i];
        wish.bytes[i] = b.bytes[i];
        wish.value[i] = b.bytes[i] == 0 ? b.address[i] : NULL;
    }
    status = s->graph.status != PDL_OK ? s->graph.status : pdl__cudnn_choose(&s->graph, &wish, plan);
    pdl__cudnn_clear(&s->graph);
    free(s);
    return status;
}

static void destroy_plans(plans_t *plans)
{
    if (plans == NULL) return;
    pdl__cudnn_destroy(plans->forward);
    pdl__cudnn_destroy(plans->backward);
    free(plans);
}

static void destroy_list(void *state)
{
    plans_t *plans = state;

    while (plans != NULL) {
        plans_t *next = plans->next;

        destroy_plans(plans);
        plans = next;
    }
}

static void name_plans(const attention_t *a, int64_t samples, bool backward, char *key, size_t size)
{
    snprintf(key, size, "%lld x %lld heads of %lld, %lld tokens%s%s, rows of %lld, %lld, %lld, %lld",
             (long long)samples, (long long)a->heads, (long long)a->dim, (long long)a->queries,
             a->causal ? ", causal" : "", backward ? ", both ways" : "", (long long)a->q.token,
             (long long)a->k.token, (long long)a->v.token, (long long)a->out.token);
}

pdl_status_t pdl__cuda_attention_plan(pdl__gpu_t *gpu, const attention_t *a, bool backward, int64_t samples,
                                      size_t workspace, pdl__cuda_attention_plans_t **plans)
{
    pdl__gpu_part_t *part = &gpu->part[PDL__GPU_ATTENTION];
    pdl__cudnn_t    *library;
    plans_t         *made = calloc(1, sizeof(*made));
    pdl_status_t     status;

    *plans = NULL;
    if (made == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    made->samples = samples;
    made->scale = a->scale;
    made->hidden = -INFINITY;
    made->one = 1;
    name_plans(a, samples, backward, made->key, sizeof(made->key));
    for (plans_t *known = part->state; known != NULL && *plans == NULL; known = known->next)
        if (strcmp(known->key, made->key) == 0) *plans = known;
    if (*plans != NULL) {
        free(made);
        return PDL_OK;
    }
    status = pdl__cudnn_open(gpu, &library);
    if (status == PDL_OK) status = make_plan(library, made, a, false, workspace, &made->forward);
    if (status == PDL_OK && backward) status = make_plan(library, made, a, true, workspace, &made->backward);
    if (status != PDL_OK) {
        destroy_plans(made);
        /* Own kernels do what cuDNN cannot. */
        return status == PDL_ERR_UNSUPPORTED ? PDL_OK : status;
    }
    made->next = part->state;
    *part = (pdl__gpu_part_t){made, destroy_list};
    *plans = made;
    return PDL_OK;
}

pdl_status_t pdl__cuda_attention_run(pdl_tensor_stream_t *stream, const attention_t *a, bool backward)
{
    pdl__cuda_attention_plans_t *plans = a->plans;
    pdl_status_t                 status = PDL_OK;

    for (int64_t first = 0; status == PDL_OK && first < a->samples; first += plans->samples) {
        binding_t b = bind_all(plans, a, backward, first);

        status = pdl__cudnn_run(backward ? plans->backward : plans->forward, stream, b.count, b.id, b.address,
                                a->workspace);
    }
    return status;
}
