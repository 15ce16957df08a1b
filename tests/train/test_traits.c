/* What the table of layer types says is what the backends and the initial weights do. */
#include "tensor/op_cases.h"
#include "test.h"

#include <paradl/train/init.h>

#define OP_CASE_COUNT ((int)(sizeof(op_cases) / sizeof(op_cases[0])))

static pdl_backend_t *reference, *cpu;

static const pdl_layer_t *last_layer(const pdl_model_t *model)
{
    return pdl_model_layer(model, pdl_model_layer_count(model) - 1);
}

/* The model of a case, whose last layer is meant; NULL, and a failed check, when it cannot be read. */
static pdl_model_t *read_case(int i)
{
    char         text[2048];
    int          length = snprintf(text, sizeof(text), "paradl: model/1\nname: case\n%s\n", op_cases[i].text);
    pdl_model_t *model = NULL;

    CHECK_OK(pdl_model_read_yaml_memory(text, (size_t)length, "case", &model));
    return model;
}

static void fail(const pdl_traits_t *row, const char *what)
{
    test_fail_at(__FILE__, __LINE__);
    printf("%s %s\n", row->name, what);
}

static bool has_weight(const op_result_t *result, const char *name)
{
    for (int k = 0; k < result->weights; k++)
        if (strcmp(result->weight_name[k], name) == 0) return true;
    return false;
}

static void check_initial(const pdl_layer_t *layer, const op_result_t *result, int k)
{
    const pdl_traits_t *row = pdl_layer_traits(layer);
    bool                scale = k == 0 && row->kernel == PDL_KERNEL_SCALE;
    int                 rank = 0;
    float              *plain = malloc((size_t)result->weight_count[k] * sizeof(float));
    int64_t             ones = 0;

    while (rank < 5 && result->weight_dims[k][rank] > 0) rank++;
    CHECK_OK(pdl_init_weight(layer, result->weight_name[k], rank, result->weight_dims[k], 1, plain));
    for (int64_t i = 0; i < result->weight_count[k]; i++) ones += plain[i] == 1;
    if (scale != (ones == result->weight_count[k]) && strcmp(result->weight_name[k], "running_var") != 0)
        fail(row, scale ? "does not begin with ones" : "begins with ones");
    free(plain);
}

/* The weights that the row speaks of, with initial values. */
static void ops_have_the_weights_of_their_rows(void)
{
    for (int i = 0; i < OP_CASE_COUNT; i++) {
        pdl_model_t        *model = read_case(i);
        const pdl_layer_t  *layer = last_layer(model);
        const pdl_traits_t *row = pdl_layer_traits(layer);
        op_result_t         result;

        CHECK_OK(op_case_run(reference, &op_cases[i], &result));
        if ((row->kernel != PDL_KERNEL_NONE) != (result.weights > 0)) fail(row, "has other weights than its row");
        if ((row->bias && layer->bias) != has_weight(&result, "bias")) fail(row, "differs in its bias");
        if (row->statistics != has_weight(&result, "running_mean")) fail(row, "differs in its statistics");
        for (int k = 0; k < result.weights; k++) check_initial(layer, &result, k);
        op_result_free(&result);
        pdl_model_destroy(model);
    }
}

/* The largest |f(x + 2d) - 2 f(x + d) + f(x)| where one input element moves by d. */
static double curvature(const op_case_t *c, double d)
{
    op_result_t result[3];
    double      largest = 0;

    for (int k = 0; k < 3; k++) {
        op_case_t moved = *c;
        moved.moved_tensor = OP_INPUT;
        moved.moved_by = k * d;
        CHECK_OK(op_case_run(reference, &moved, &result[k]));
    }
    for (int64_t i = 0; i < result[0].out_count; i++)
        largest = fmax(largest, fabs(result[2].output[i] - 2 * result[1].output[i] + result[0].output[i]));
    for (int k = 0; k < 3; k++) op_result_free(&result[k]);
    return largest;
}

/* Of a linear layer no case bends, of another one some does. Indices are not moved; a product of two tensors is
   linear in each. */
static void linear_layers_are(void)
{
    double bends[PDL_LAYER_TYPE_COUNT] = {0};

    for (int i = 0; i < OP_CASE_COUNT; i++) {
        pdl_model_t     *model = read_case(i);
        pdl_layer_type_t type = last_layer(model)->type;

        if (!pdl_type_traits(type)->tokens)
            bends[type] = fmax(bends[type], fmax(curvature(&op_cases[i], 3), curvature(&op_cases[i], -3)));
        pdl_model_destroy(model);
    }
    for (int t = PDL_LAYER_INPUT + 1; t < PDL_LAYER_TYPE_COUNT; t++) {
        const pdl_traits_t *row = pdl_type_traits((pdl_layer_type_t)t);

        if (row->tokens || row->combine == PDL_COMBINE_PRODUCT) continue;
        if (row->linear && bends[t] > 1e-9) fail(row, "is not linear");
        if (!row->linear && bends[t] < 1e-3) fail(row, "is linear");
    }
}

/* f(0), and the sign of what activations give. */
static void activations_are_as_their_rows_say(void)
{
    pdl_layer_t layer = {.slope = 0.01};

    for (int t = 0; t < PDL_LAYER_TYPE_COUNT; t++) {
        pdl_layer_type_t    type = (pdl_layer_type_t)t;
        const pdl_traits_t *row = pdl_type_traits(type);
        double              least = 0;

        if (!row->activation) continue;
        if ((pdl__reference_activate(&layer, type, 0) != 0) != row->moves_zero) fail(row, "differs in f(0)");
        for (double x = -8; x <= 8; x += 0.25) least = fmin(least, pdl__reference_activate(&layer, type, x));
        if ((least >= 0) != row->not_negative) fail(row, "differs in its sign");
    }
}

/* The backend may fuse less than the rows allow, not more. */
static void only_heads_and_tails_are_fused(void)
{
    int fused = 0;

    for (int i = 0; i < OP_CASE_COUNT; i++) {
        pdl_model_t       *model = read_case(i);
        const pdl_layer_t *layer = last_layer(model);

        for (int t = 0; t < PDL_LAYER_TYPE_COUNT; t++) {
            const pdl_traits_t *tail = pdl_type_traits((pdl_layer_type_t)t);
            pdl_fusion_t        fusion = {.activation = (pdl_layer_type_t)t};

            if (t == PDL_NO_ACTIVATION || !cpu->ops->fuses(cpu, layer, &fusion)) continue;
            if (!pdl_layer_traits(layer)->fuses_head) fail(pdl_layer_traits(layer), "is fused with others");
            if (!tail->fuses_tail || !tail->activation) fail(tail, "is computed along with others");
            fused++;
        }
        pdl_model_destroy(model);
    }
    CHECK(fused > 0);
}

int main(void)
{
    pdl_cpu_options_t options = {.threads = 1};

    CHECK_OK(pdl_backend_create_reference(&reference));
    CHECK_OK(pdl_backend_create_cpu(&options, &cpu));
    RUN(ops_have_the_weights_of_their_rows);
    RUN(linear_layers_are);
    RUN(activations_are_as_their_rows_say);
    RUN(only_heads_and_tails_are_fused);
    pdl_backend_destroy(reference);
    pdl_backend_destroy(cpu);
    return test_done();
}
