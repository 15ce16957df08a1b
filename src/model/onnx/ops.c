/*
 * The operators that are read: each works on activations, on constants, or both.
 */
#include "model/onnx/graph.h"

#include <string.h>

typedef pdl_status_t (*handler_t)(pdl__onnx_t *o);

/* `folds` runs when all operands are constants, `reads` when one is an activation; NULL: not supported. Attributes
   are "name:types", as pdl__onnx_check_attributes() reads them: those that an operator may have and that its handler
   honours, or may ignore because they change neither shapes nor what is trained. */
typedef struct operator_entry {
    const char *op;
    size_t      least, most; /* operands; most 0: any number */
    const char *attributes;
    handler_t   reads, folds;
} operator_entry_t;

#define WINDOW "auto_pad:s dilations:I kernel_shape:I pads:I strides:I"
#define RESIZE                                                                                                     \
    "antialias:i axes:I coordinate_transformation_mode:s cubic_coeff_a:f exclude_outside:i extrapolation_value:f " \
    "keep_aspect_ratio_policy:s mode:s nearest_mode:s"
#define BROADCAST "axis:i broadcast:i" /* before operator set 7 */
#define REDUCE    "axes:I keepdims:i noop_with_empty_axes:i"

static const operator_entry_t operators[] = {
    {"Conv", 2, 3, WINDOW " group:i", pdl__onnx_conv, NULL},
    {"ConvTranspose", 2, 3, WINDOW " group:i output_padding:I output_shape:I", pdl__onnx_conv, NULL},
    {"MaxPool", 1, 1, WINDOW " ceil_mode:i storage_order:i", pdl__onnx_pool, NULL},
    {"AveragePool", 1, 1, WINDOW " ceil_mode:i count_include_pad:i", pdl__onnx_pool, NULL},
    {"GlobalAveragePool", 1, 1, "", pdl__onnx_global_pool, NULL},
    {"Pad", 1, 4, "mode:s pads:I paddings:I value:f", pdl__onnx_pad, NULL},
    {"Resize", 1, 4, RESIZE, pdl__onnx_resize, NULL},
    {"Upsample", 1, 2, "height_scale:f mode:s scales:F width_scale:f", pdl__onnx_resize, NULL},

    {"BatchNormalization", 5, 5, "epsilon:f is_test:i momentum:f spatial:i training_mode:i", pdl__onnx_batch_norm,
     NULL},
    {"LayerNormalization", 2, 3, "axis:i epsilon:f stash_type:i", pdl__onnx_layer_norm, NULL},
    {"RMSNormalization", 2, 2, "axis:i epsilon:f stash_type:i", pdl__onnx_layer_norm, NULL},
    {"SimplifiedLayerNormalization", 2, 2, "axis:i epsilon:f stash_type:i", pdl__onnx_layer_norm, NULL},
    {"InstanceNormalization", 3, 3, "epsilon:f", pdl__onnx_instance_norm, NULL},
    {"GroupNormalization", 3, 3, "epsilon:f num_groups:i stash_type:i", pdl__onnx_group_norm, NULL},
    {"LRN", 1, 1, "alpha:f beta:f bias:f size:i", pdl__onnx_lrn, NULL},
    {"Softmax", 1, 1, "axis:i", pdl__onnx_softmax, NULL},
    {"LogSoftmax", 1, 1, "axis:i", pdl__onnx_softmax, NULL},

    {"Gemm", 2, 3, "alpha:f beta:f broadcast:i transA:i transB:i", pdl__onnx_gemm, NULL},
    {"MatMul", 2, 2, "", pdl__onnx_matmul, NULL},
    {"Gather", 2, 2, "axis:i", pdl__onnx_gather, pdl__onnx_fold_gather},
    {"Concat", 1, 0, "axis:i", pdl__onnx_concat, pdl__onnx_fold_concat},

    {"Relu", 1, 1, "", pdl__onnx_unary_value, pdl__onnx_fold_unary},
    {"LeakyRelu", 1, 1, "alpha:f", pdl__onnx_unary_value, NULL},
    {"Clip", 1, 3, "max:f min:f", pdl__onnx_clip, NULL},
    {"Sigmoid", 1, 1, "", pdl__onnx_unary_value, pdl__onnx_fold_unary},
    {"Tanh", 1, 1, "", pdl__onnx_unary_value, pdl__onnx_fold_unary},
    {"Erf", 1, 1, "", pdl__onnx_unary_value, pdl__onnx_fold_unary},
    {"Gelu", 1, 1, "approximate:s", pdl__onnx_unary_value, pdl__onnx_fold_unary},
    {"HardSigmoid", 1, 1, "alpha:f beta:f", pdl__onnx_unary_value, NULL},
    {"HardSwish", 1, 1, "", pdl__onnx_unary_value, NULL},
    {"Sqrt", 1, 1, "", pdl__onnx_unary_value, pdl__onnx_fold_unary},
    {"Exp", 1, 1, "", pdl__onnx_unary_value, pdl__onnx_fold_unary},
    {"Log", 1, 1, "", pdl__onnx_unary_value, pdl__onnx_fold_unary},
    {"Neg", 1, 1, "", pdl__onnx_unary_value, pdl__onnx_fold_unary},
    {"Abs", 1, 1, "", pdl__onnx_unary_value, pdl__onnx_fold_unary},
    {"Reciprocal", 1, 1, "", pdl__onnx_unary_value, pdl__onnx_fold_unary},
    {"Floor", 1, 1, "", NULL, pdl__onnx_fold_unary},
    {"Ceil", 1, 1, "", NULL, pdl__onnx_fold_unary},
    {"Round", 1, 1, "", NULL, pdl__onnx_fold_unary},
    {"Sin", 1, 1, "", NULL, pdl__onnx_fold_unary},
    {"Cos", 1, 1, "", NULL, pdl__onnx_fold_unary},
    {"Not", 1, 1, "", NULL, pdl__onnx_fold_unary},
    {"IsNaN", 1, 1, "", pdl__onnx_is_nan, pdl__onnx_is_nan},

    {"Add", 2, 2, BROADCAST, pdl__onnx_binary_value, pdl__onnx_fold_binary},
    {"Sub", 2, 2, BROADCAST, pdl__onnx_binary_value, pdl__onnx_fold_binary},
    {"Mul", 2, 2, BROADCAST, pdl__onnx_binary_value, pdl__onnx_fold_binary},
    {"Div", 2, 2, BROADCAST, pdl__onnx_binary_value, pdl__onnx_fold_binary},
    {"Pow", 2, 2, BROADCAST, pdl__onnx_binary_value, pdl__onnx_fold_binary},
    {"Sum", 2, 2, "", pdl__onnx_binary_value, pdl__onnx_fold_binary},
    {"Min", 2, 2, "", pdl__onnx_binary_value, pdl__onnx_fold_binary},
    {"Max", 2, 2, "", pdl__onnx_binary_value, pdl__onnx_fold_binary},
    {"Mod", 2, 2, "fmod:i", NULL, pdl__onnx_fold_binary},
    {"Equal", 2, 2, BROADCAST, NULL, pdl__onnx_fold_binary},
    {"Less", 2, 2, BROADCAST, NULL, pdl__onnx_fold_binary},
    {"LessOrEqual", 2, 2, BROADCAST, NULL, pdl__onnx_fold_binary},
    {"Greater", 2, 2, BROADCAST, NULL, pdl__onnx_fold_binary},
    {"GreaterOrEqual", 2, 2, BROADCAST, NULL, pdl__onnx_fold_binary},
    {"And", 2, 2, BROADCAST, NULL, pdl__onnx_fold_binary},
    {"Or", 2, 2, BROADCAST, NULL, pdl__onnx_fold_binary},
    {"Where", 3, 3, "", pdl__onnx_where_value, pdl__onnx_fold_where},
    {"ReduceMean", 1, 2, REDUCE, pdl__onnx_reduce_mean, NULL},
    {"ReduceProd", 1, 2, REDUCE, NULL, pdl__onnx_fold_reduce},
    {"ReduceSum", 1, 2, REDUCE, NULL, pdl__onnx_fold_reduce},
    {"ReduceMax", 1, 2, REDUCE, NULL, pdl__onnx_fold_reduce},
    {"ReduceMin", 1, 2, REDUCE, NULL, pdl__onnx_fold_reduce},
    {"Dropout", 1, 3, "is_test:i ratio:f seed:i", pdl__onnx_dropout, pdl__onnx_pass},
    {"Identity", 1, 1, "", pdl__onnx_pass, pdl__onnx_fold_identity},
    {"Cast", 1, 1, "saturate:i to:is", pdl__onnx_cast, pdl__onnx_fold_unary},

    {"Reshape", 1, 2, "allowzero:i shape:I", pdl__onnx_reshape, pdl__onnx_reshape},
    {"Flatten", 1, 1, "axis:i", pdl__onnx_flatten, pdl__onnx_flatten},
    {"Transpose", 1, 1, "perm:I", pdl__onnx_transpose, pdl__onnx_transpose},
    {"Squeeze", 1, 2, "axes:I", pdl__onnx_squeeze, pdl__onnx_squeeze},
    {"Unsqueeze", 1, 2, "axes:I", pdl__onnx_unsqueeze, pdl__onnx_unsqueeze},
    {"Expand", 2, 2, "", pdl__onnx_expand, pdl__onnx_expand},
    {"Slice", 1, 5, "axes:I ends:I starts:I", pdl__onnx_slice, pdl__onnx_slice},
    {"Split", 1, 2, "axis:i num_outputs:i split:I", pdl__onnx_split, pdl__onnx_split},
    {"Shape", 1, 1, "end:i start:i", pdl__onnx_shape_of, pdl__onnx_shape_of},
    {"Size", 1, 1, "", pdl__onnx_shape_of, pdl__onnx_shape_of},
    {"Constant", 0, 0, "value:t value_float:f value_floats:F value_int:i value_ints:I", NULL,
     pdl__onnx_fold_constant},
    {"ConstantOfShape", 1, 1, "value:t", NULL, pdl__onnx_fold_fill},
    {"Range", 3, 3, "", NULL, pdl__onnx_fold_range},
    {"Trilu", 1, 2, "upper:i", NULL, pdl__onnx_fold_trilu},
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
    for (size_t i = 0; i < o->node->n_input || i < entry->least; i++) {
        pdl__onnx_value_t *value = pdl__onnx_input(o, i);

        if (value == NULL && i < o->node->n_input && o->node->input[i][0] != '\0')
            return pdl__onnx_fail(o, PDL_ERR_INPUT,
                                  "operand %s is unknown; it is no input, no initializer and no "
                                  "result of a node before this one",
                                  o->node->input[i]);
        if (value != NULL && entry->most > 0 && i >= entry->most)
            return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "operand %zu is one more than are supported", i + 1);
        if (value == NULL && i < entry->least)
            return pdl__onnx_fail(o, PDL_ERR_INPUT, "operand %zu is missing", i + 1);
        if (value != NULL && value->kind != PDL__ONNX_CONSTANT) *constant = false;
    }
    return PDL_OK;
}

/* A result that somebody reads must have been made: most operators make their first only. */
static pdl_status_t check_results(const pdl__onnx_t *o)
{
    for (size_t i = 1; i < o->node->n_output; i++) {
        const char *name = o->node->output[i];

        if (name[0] != '\0' && pdl__onnx_find(o, name) == NULL && pdl__onnx_uses(o, name) > 0)
            return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                                  "its result %zu (%s) is used; only the first is supported", i + 1, name);
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
    st = pdl__onnx_check_attributes(o, entry->attributes);
    if (!st) st = check_operands(o, entry, &constant);
    if (!st) st = pdl__onnx_align_second(o);
    if (st) return st;
    handler = constant ? entry->folds : entry->reads;
    if (handler == NULL)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "the operator is not supported on %s",
                              constant ? "constants; export with constant folding" : "activations");
    st = handler(o);
    return st ? st : check_results(o);
}
