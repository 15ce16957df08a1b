/*
 * Attention as exporters write it out: q and k from a linear layer, cut into heads by reshapes and
 * transposes, their product scaled and masked, a softmax, the product with v.
 */
#include "model/onnx/graph.h"

#include <math.h>
#include <string.h>

typedef struct head_view {
    int64_t heads, dim, tokens;
} head_view_t;

/* Reads [..., tokens, head] (or [..., head, tokens] of k): the leading dimensions hold the batch and the heads. */
static bool read_heads(const pdl__onnx_t *o, const pdl__onnx_value_t *x, bool transposed, head_view_t *view)
{
    const pdl__onnx_view_t *v = &x->view;
    const pdl_shape_t      *shape = pdl__onnx_shape(o, x);
    int                     token_dim = v->rank - (transposed ? 1 : 2), head_dim = v->rank - (transposed ? 2 : 1);

    if (v->rank < 3 || !shape->sequence) return false;
    view->tokens = v->dims[token_dim];
    view->dim = v->dims[head_dim];
    view->heads = 1;
    if (!pdl__onnx_dim_is_axis(v, token_dim, PDL__AXIS_SPACE, shape->extent[0]) ||
        !pdl__onnx_dim_is_axis(v, head_dim, PDL__AXIS_CHANNEL, view->dim))
        return false;
    for (int i = 0; i < v->start[v->rank - 2]; i++) {
        if (v->atoms[i].axis == PDL__AXIS_BATCH) continue;
        if (v->atoms[i].axis != PDL__AXIS_CHANNEL || view->heads != 1 || v->atoms[i].stride < view->dim)
            return false;
        view->heads = v->atoms[i].size;
    }
    return true;
}

/* q and k may carry a scale, nothing else. */
static bool at_most_scaled(const pdl__onnx_value_t *x, double *scale)
{
    pdl_layer_t      layer;
    pdl__onnx_form_t form = x->expression ? pdl__onnx_recognise(x, &layer) : PDL__FORM_IDENTITY;

    if (form == PDL__FORM_SCALE) *scale *= x->probe[PDL__ONNX_PROBES - 1] / pdl__onnx_probe[PDL__ONNX_PROBES - 1];
    return (form == PDL__FORM_IDENTITY || form == PDL__FORM_SCALE) && !x->reduced && !x->padded;
}

static pdl_status_t not_attention(pdl__onnx_t *o)
{
    return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                          "a product of two activations that is not the attention of a "
                          "sequence over its heads");
}

pdl_status_t pdl__onnx_scores_product(pdl__onnx_t *o, pdl__onnx_value_t *q, pdl__onnx_value_t *k)
{
    pdl__onnx_value_t *y = pdl__onnx_new(o, PDL__ONNX_SCORES);
    head_view_t        of_q, of_k;
    pdl_status_t       st = pdl__onnx_settle(o, q);

    if (y == NULL) return PDL_ERR_NOMEM;
    if (!st) st = pdl__onnx_settle(o, k);
    if (st) return st;
    y->scale = 1;
    if (!at_most_scaled(q, &y->scale) || !at_most_scaled(k, &y->scale) || !read_heads(o, q, false, &of_q) ||
        !read_heads(o, k, true, &of_k) || of_q.heads != of_k.heads || of_q.dim != of_k.dim)
        return not_attention(o);
    y->view.rank = q->view.rank;
    memcpy(y->view.dims, q->view.dims, sizeof y->view.dims);
    y->view.dims[y->view.rank - 1] = of_k.tokens;
    y->operand[0] = pdl__onnx_copy(o, q);
    y->operand[1] = pdl__onnx_copy(o, k);
    if (y->operand[0] == NULL || y->operand[1] == NULL) return PDL_ERR_NOMEM;
    return pdl__onnx_output(o, 0, y);
}

pdl_status_t pdl__onnx_scale_scores(pdl__onnx_t *o, pdl__onnx_value_t *scores, double number, bool first)
{
    const char        *op = o->node->op_type;
    pdl__onnx_value_t *y = pdl__onnx_copy(o, scores);

    if (y == NULL) return PDL_ERR_NOMEM;
    if (strcmp(op, "Mul") == 0)
        y->scale *= number;
    else if (strcmp(op, "Div") == 0 && !first)
        y->scale /= number;
    else if (!pdl__onnx_is_sum(op) && (strcmp(op, "Sub") != 0 || first)) /* a softmax does not see a sum */
        return pdl__onnx_settle(o, scores);
    return pdl__onnx_output(o, 0, y);
}

/* The layer divides scores by the root of the head's size. */
static pdl_status_t check_scale(const pdl__onnx_t *o, double scale, int64_t dim)
{
    if (fabs(scale * sqrt((double)dim) - 1) < 1e-3) return PDL_OK;
    return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                          "the scores of attention are multiplied by %g; only 1 / sqrt(%lld) is supported", scale,
                          (long long)dim);
}

/* q, k and v are either the three parts of one layer, or three layers. */
static pdl_status_t join_qkv(pdl__onnx_t *o, const pdl__onnx_value_t *const part[3], int64_t channels, int *input)
{
    pdl_layer_t layer = pdl__layer_default(PDL_LAYER_CONCAT);
    int         inputs[3] = {part[0]->layer, part[1]->layer, part[2]->layer};

    if (inputs[0] == inputs[1] && inputs[1] == inputs[2]) {
        bool apart = part[0]->view.channel_begin != part[1]->view.channel_begin &&
                     part[1]->view.channel_begin != part[2]->view.channel_begin;

        *input = inputs[0];
        if (apart && pdl__onnx_shape(o, part[0])->channels == 3 * channels) return PDL_OK;
    }
    for (int i = 0; i < 3; i++)
        if (pdl__onnx_shape(o, part[i])->channels != channels || part[i]->view.channel_begin != 0)
            return not_attention(o);
    return pdl__onnx_add(o, &layer, o->node, NULL, inputs, 3, input);
}

pdl_status_t pdl__onnx_attention_product(pdl__onnx_t *o, pdl__onnx_value_t *p, pdl__onnx_value_t *v)
{
    const pdl__onnx_value_t *parts[3] = {p->operand[0], p->operand[1], v};
    pdl_layer_t              layer = pdl__layer_default(PDL_LAYER_ATTENTION);
    pdl__onnx_view_t         view;
    head_view_t              of_q, of_v;
    int                      input, added;
    pdl_status_t             st = pdl__onnx_settle(o, v);

    if (st) return st;
    if (v->expression) st = pdl__onnx_materialise(o, v);
    if (st) return st;
    if (!read_heads(o, parts[0], false, &of_q) || !read_heads(o, v, false, &of_v) || of_q.heads != of_v.heads ||
        of_q.dim != of_v.dim)
        return not_attention(o);
    st = check_scale(o, p->scale, of_q.dim);
    if (!st) st = join_qkv(o, parts, of_q.heads * of_q.dim, &input);
    if (st) return st;
    layer.heads = of_q.heads;
    layer.kv_heads = of_q.heads;
    layer.head_dim = of_q.dim;
    layer.causal = p->causal;
    layer.rate = p->parameter[0];
    st = pdl__onnx_add(o, &layer, o->node, NULL, &input, 1, &added);
    if (st) return st;
    view = v->view;
    view.channel_begin = 0;
    for (int i = 0; i < view.start[view.rank - 2]; i++)
        if (view.atoms[i].axis == PDL__AXIS_CHANNEL) view.atoms[i].stride = of_q.dim;
    return pdl__onnx_output_view(o, added, &view);
}

/* What a mask does to one score: -1 where it hides it, 0 where it leaves it, 1 for anything else. */
static int effect(const char *op, bool keeps, double x)
{
    if (strcmp(op, "Where") == 0) return (x != 0) == keeps ? 0 : -1;
    if (strcmp(op, "Mul") == 0) return x == 1 ? 0 : x == 0 ? -1 : 1;
    if (strcmp(op, "Sub") == 0) x = -x;
    return fabs(x) < 1e-6 ? 0 : x < -1e3 ? -1 : 1;
}

typedef enum mask { MASK_NOTHING, MASK_CAUSAL, MASK_OTHER } mask_t;

/* A mask of [..., rows, columns] that hides exactly the tokens behind each one is causal. One with two such
   dimensions whose numbers are not in the file is taken to be causal: masks of padding have one row, and samples are
   taken to fill their sequence. */
static mask_t read_mask(pdl__onnx_t *o, pdl__onnx_value_t *mask, bool keeps)
{
    const double *numbers = pdl__onnx_numbers(o, mask);
    const char   *op = o->node->op_type;
    int64_t       rows = mask->view.rank > 1 ? mask->view.dims[mask->view.rank - 2] : 1;
    int64_t       columns = mask->view.rank > 0 ? mask->view.dims[mask->view.rank - 1] : 1;
    int64_t       all = pdl__onnx_elements(&mask->view);
    bool          square = rows > 1 && rows == columns && all >= rows * columns, nothing = true, causal = square;

    if (numbers == NULL) return square ? MASK_CAUSAL : MASK_NOTHING;
    for (int64_t i = 0; i < all; i++) {
        int does = effect(op, keeps, numbers[i]);

        nothing = nothing && does == 0;
        causal = causal && does == (i % columns <= i / columns % rows ? 0 : -1);
    }
    return nothing ? MASK_NOTHING : causal ? MASK_CAUSAL : MASK_OTHER;
}

pdl_status_t pdl__onnx_mask(pdl__onnx_t *o, pdl__onnx_value_t *scores, pdl__onnx_value_t *mask, bool keeps)
{
    const char        *op = o->node->op_type;
    pdl__onnx_value_t *y;
    mask_t             kind;

    if (!pdl__onnx_is_sum(op) && strcmp(op, "Sub") != 0 && strcmp(op, "Mul") != 0 && strcmp(op, "Where") != 0)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                              "attention scores and a tensor can only be added, or chosen from");
    kind = read_mask(o, mask, keeps);
    if (kind == MASK_OTHER)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                              "the mask of attention is neither causal nor without effect; no layer has it");
    y = pdl__onnx_copy(o, scores);
    if (y == NULL) return PDL_ERR_NOMEM;
    y->causal = y->causal || kind == MASK_CAUSAL;
    return pdl__onnx_output(o, 0, y);
}
