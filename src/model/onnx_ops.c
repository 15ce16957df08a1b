/*
 * The operators that are read: each works on activations, on constants, or both.
 */
#include "onnx_graph.h"

#include <string.h>

typedef pdl_status_t (*handler_t)(pdl__onnx_t *o);

/* `folds` runs when all operands are constants, `reads` when one is an activation; NULL: not supported. */
typedef struct operator_entry {
    const char *op;
    size_t      operands; /* that must be there */
    handler_t   reads, folds;
} operator_entry_t;

static const operator_entry_t operators[] = {
    {"Conv", 2, pdl__onnx_conv, NULL},
    {"ConvTranspose", 2, pdl__onnx_conv, NULL},
    {"MaxPool", 1, pdl__onnx_pool, NULL},
    {"AveragePool", 1, pdl__onnx_pool, NULL},
    {"GlobalAveragePool", 1, pdl__onnx_global_pool, NULL},
    {"Pad", 1, pdl__onnx_pad, NULL},
    {"Resize", 1, pdl__onnx_resize, NULL},
    {"Upsample", 1, pdl__onnx_resize, NULL},

    {"BatchNormalization", 5, pdl__onnx_batch_norm, NULL},
    {"LayerNormalization", 2, pdl__onnx_layer_norm, NULL},
    {"RMSNormalization", 2, pdl__onnx_layer_norm, NULL},
    {"SimplifiedLayerNormalization", 2, pdl__onnx_layer_norm, NULL},
    {"InstanceNormalization", 3, pdl__onnx_instance_norm, NULL},
    {"GroupNormalization", 3, pdl__onnx_group_norm, NULL},
    {"LRN", 1, pdl__onnx_lrn, NULL},
    {"Softmax", 1, pdl__onnx_softmax, NULL},
    {"LogSoftmax", 1, pdl__onnx_softmax, NULL},

    {"Gemm", 2, pdl__onnx_gemm, NULL},
    {"MatMul", 2, pdl__onnx_matmul, NULL},
    {"Gather", 2, pdl__onnx_gather, pdl__onnx_fold_gather},
    {"Concat", 1, pdl__onnx_concat, pdl__onnx_fold_concat},

    {"Relu", 1, pdl__onnx_unary_value, pdl__onnx_fold_unary},
    {"LeakyRelu", 1, pdl__onnx_unary_value, NULL},
    {"Clip", 1, pdl__onnx_clip, NULL},
    {"Sigmoid", 1, pdl__onnx_unary_value, pdl__onnx_fold_unary},
    {"Tanh", 1, pdl__onnx_unary_value, pdl__onnx_fold_unary},
    {"Erf", 1, pdl__onnx_unary_value, pdl__onnx_fold_unary},
    {"Gelu", 1, pdl__onnx_unary_value, pdl__onnx_fold_unary},
    {"HardSigmoid", 1, pdl__onnx_unary_value, NULL},
    {"HardSwish", 1, pdl__onnx_unary_value, NULL},
    {"Sqrt", 1, pdl__onnx_unary_value, pdl__onnx_fold_unary},
    {"Exp", 1, pdl__onnx_unary_value, pdl__onnx_fold_unary},
    {"Log", 1, pdl__onnx_unary_value, pdl__onnx_fold_unary},
    {"Neg", 1, pdl__onnx_unary_value, pdl__onnx_fold_unary},
    {"Abs", 1, pdl__onnx_unary_value, pdl__onnx_fold_unary},
    {"Reciprocal", 1, pdl__onnx_unary_value, pdl__onnx_fold_unary},
    {"Floor", 1, NULL, pdl__onnx_fold_unary},
    {"Ceil", 1, NULL, pdl__onnx_fold_unary},
    {"Round", 1, NULL, pdl__onnx_fold_unary},
    {"Sin", 1, NULL, pdl__onnx_fold_unary},
    {"Cos", 1, NULL, pdl__onnx_fold_unary},
    {"Not", 1, NULL, pdl__onnx_fold_unary},
    {"IsNaN", 1, pdl__onnx_is_nan, pdl__onnx_is_nan},

    {"Add", 2, pdl__onnx_binary_value, pdl__onnx_fold_binary},
    {"Sub", 2, pdl__onnx_binary_value, pdl__onnx_fold_binary},
    {"Mul", 2, pdl__onnx_binary_value, pdl__onnx_fold_binary},
    {"Div", 2, pdl__onnx_binary_value, pdl__onnx_fold_binary},
    {"Pow", 2, pdl__onnx_binary_value, pdl__onnx_fold_binary},
    {"Min", 2, pdl__onnx_binary_value, pdl__onnx_fold_binary},
    {"Max", 2, pdl__onnx_binary_value, pdl__onnx_fold_binary},
    {"Mod", 2, NULL, pdl__onnx_fold_binary},
    {"Equal", 2, NULL, pdl__onnx_fold_binary},
    {"Less", 2, NULL, pdl__onnx_fold_binary},
    {"LessOrEqual", 2, NULL, pdl__onnx_fold_binary},
    {"Greater", 2, NULL, pdl__onnx_fold_binary},
    {"GreaterOrEqual", 2, NULL, pdl__onnx_fold_binary},
    {"And", 2, NULL, pdl__onnx_fold_binary},
    {"Or", 2, NULL, pdl__onnx_fold_binary},
    {"Where", 3, pdl__onnx_where_value, pdl__onnx_fold_where},
    {"ReduceMean", 1, pdl__onnx_reduce_mean, NULL},
    {"ReduceProd", 1, NULL, pdl__onnx_fold_reduce},
    {"ReduceSum", 1, NULL, pdl__onnx_fold_reduce},
    {"ReduceMax", 1, NULL, pdl__onnx_fold_reduce},
    {"ReduceMin", 1, NULL, pdl__onnx_fold_reduce},
    {"Dropout", 1, pdl__onnx_dropout, pdl__onnx_pass},
    {"Identity", 1, pdl__onnx_pass, pdl__onnx_fold_identity},
    {"Cast", 1, pdl__onnx_pass, pdl__onnx_fold_unary},

    {"Reshape", 1, pdl__onnx_reshape, pdl__onnx_reshape},
    {"Flatten", 1, pdl__onnx_flatten, pdl__onnx_flatten},
    {"Transpose", 1, pdl__onnx_transpose, pdl__onnx_transpose},
    {"Squeeze", 1, pdl__onnx_squeeze, pdl__onnx_squeeze},
    {"Unsqueeze", 1, pdl__onnx_unsqueeze, pdl__onnx_unsqueeze},
    {"Expand", 2, pdl__onnx_expand, pdl__onnx_expand},
    {"Slice", 1, pdl__onnx_slice, pdl__onnx_slice},
    {"Split", 1, pdl__onnx_split, pdl__onnx_split},
    {"Shape", 1, pdl__onnx_shape_of, pdl__onnx_shape_of},
    {"Size", 1, pdl__onnx_shape_of, pdl__onnx_shape_of},
    {"Constant", 0, NULL, pdl__onnx_fold_constant},
    {"ConstantOfShape", 1, NULL, pdl__onnx_fold_fill},
    {"Range", 3, NULL, pdl__onnx_fold_range},
    {"Trilu", 1, NULL, pdl__onnx_fold_trilu},
};

static const operator_entry_t *find_operator(const char *op)
{
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++)
        if (strcmp(operators[i].op, op) == 0) return &operators[i];
    return NULL;
}

static bool known_domain(const char *domain)
{
    return domain == NULL || domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0;
}

/* Every operand that is named must have been defined by what came before. */
static pdl_status_t check_operands(pdl__onnx_t *o, const operator_entry_t *entry, bool *constant)
{
    *constant = true;
    for (size_t i = 0; i < o->node->n_input || i < entry->operands; i++) {
        pdl__onnx_value_t *value = pdl__onnx_input(o, i);

        if (value == NULL && i < o->node->n_input && o->node->input[i][0] != '\0')
            return pdl__onnx_fail(o, PDL_ERR_INPUT,
                                  "operand %s is unknown; it is no input, no initializer and no "
                                  "result of a node before this one",
                                  o->node->input[i]);
        if (value == NULL && i < entry->operands)
            return pdl__onnx_fail(o, PDL_ERR_INPUT, "operand %zu is missing", i + 1);
        if (value != NULL && value->kind != PDL__ONNX_CONSTANT) *constant = false;
    }
    return PDL_OK;
}

pdl_status_t pdl__onnx_run(pdl__onnx_t *o)
{
    const operator_entry_t *entry = o->node->op_type != NULL ? find_operator(o->node->op_type) : NULL;
    handler_t               handler;
    bool                    constant;
    pdl_status_t            st;

    if (!known_domain(o->node->domain))
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                              "operators of the domain %s are not supported; export without "
                              "functions and without optimizing for one runtime",
                              o->node->domain);
    if (entry == NULL)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                              "the operator is not supported; write this part of the network "
                              "with the usual layers, or describe the model in YAML");
    st = check_operands(o, entry, &constant);
    if (st) return st;
    handler = constant ? entry->folds : entry->reads;
    if (handler == NULL)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "the operator is not supported on %s",
                              constant ? "constants; export with constant folding" : "activations");
    return handler(o);
}
