/* Shapes, counts, gradients, ties and classes of layers as the builder derives them. */
#include <paradl/model/model.h>

#include "model/builder.h"
#include "test.h"

#include <stdlib.h>

static pdl_model_builder_t *builder;

static void start(int64_t channels, int rank, int64_t extent)
{
    pdl_layer_t input = pdl__layer_default(PDL_LAYER_INPUT);

    builder = pdl__builder_create("test", "");
    if (builder == NULL) exit(1);
    input.name = "input";
    input.out = (pdl_shape_t){.channels = channels, .rank = rank, .extent = {extent, extent, extent}};
    CHECK_OK(pdl__builder_add(builder, &input, "test", NULL));
}

static void start_tokens(int64_t tokens, int64_t channels, int64_t vocabulary)
{
    pdl_layer_t input = pdl__layer_default(PDL_LAYER_INPUT);

    builder = pdl__builder_create("test", "");
    if (builder == NULL) exit(1);
    input.name = "input";
    input.vocabulary = vocabulary;
    input.out = (pdl_shape_t){.channels = channels, .rank = 1, .extent = {tokens, 1, 1}, .sequence = true};
    CHECK_OK(pdl__builder_add(builder, &input, "test", NULL));
}

static pdl_layer_t layer_of(pdl_layer_type_t type, const char *name)
{
    pdl_layer_t layer = pdl__layer_default(type);

    layer.name = name;
    return layer;
}

static pdl_layer_t conv_of(const char *name, int64_t out, int64_t kernel, int64_t stride, int64_t pad)
{
    pdl_layer_t layer = layer_of(PDL_LAYER_CONV, name);

    layer.out.channels = out;
    for (int d = 0; d < PDL_MAX_SPACE; d++) {
        layer.kernel[d] = kernel;
        layer.stride[d] = stride;
        layer.pad_low[d] = layer.pad_high[d] = pad;
    }
    return layer;
}

/* Adds behind the last layer and returns what the builder made of it. */
static const pdl_layer_t *append(pdl_layer_t layer)
{
    int previous = pdl__builder_count(builder) - 1, index = 0;

    layer.inputs = &previous;
    layer.input_count = 1;
    CHECK_OK(pdl__builder_add(builder, &layer, "test", &index));
    return pdl__builder_layer(builder, index);
}

static void refuse(pdl_layer_t layer, const char *message)
{
    int previous = pdl__builder_count(builder) - 1;

    layer.inputs = &previous;
    layer.input_count = 1;
    CHECK_ERROR(pdl__builder_add(builder, &layer, "test:7", NULL), message);
}

static void counts_a_convolution(void)
{
    const pdl_layer_t *conv;

    start(3, 2, 226);
    conv = append(conv_of("conv1", 64, 7, 2, 3));
    CHECK_INT(conv->out.channels, 64);
    CHECK_INT(conv->out.extent[0], 113);
    CHECK_INT(conv->out.extent[2], 1);
    CHECK_INT(conv->weights, 9408 + 64);
    CHECK_INT(conv->bias_weights, 64);
    CHECK_INT(conv->flop_forward, 240261504);
    CHECK_INT(conv->flop_backward_data, 0); /* the first layer */
    CHECK_INT(conv->flop_backward_weight, 240261504);
    CHECK_INT(conv->x_elements, 153228);
    CHECK(!conv->needs_input_gradient);
    CHECK_INT(pdl_layer_macs(conv), 120130752);
    CHECK_INT(pdl_layer_weight_tensors(conv), 2);
    conv = append(conv_of("conv2", 8, 1, 1, 0));
    CHECK(conv->needs_input_gradient);
    CHECK_INT(conv->flop_backward_data, conv->flop_forward);
    pdl__builder_destroy(builder);
}

static void counts_grouped_and_transposed_convolutions(void)
{
    const pdl_layer_t *layer;
    pdl_layer_t        grouped = conv_of("depthwise", 32, 3, 1, 1), up = conv_of("up", 16, 2, 2, 0);

    start(32, 2, 8);
    grouped.groups = 32;
    layer = append(grouped);
    CHECK_INT(layer->weights, 32 * 9 + 32);
    CHECK_INT(layer->flop_forward, 2 * 32 * 9 * 64);
    up.type = PDL_LAYER_CONV_TRANSPOSE;
    layer = append(up);
    CHECK_INT(layer->out.extent[1], 16);
    CHECK_INT(layer->weights, 32 * 16 * 4 + 16);
    CHECK_INT(layer->flop_forward, 2 * 32 * 16 * 4 * 64);
    up.name = "odd";
    for (int d = 0; d < 2; d++) {
        up.kernel[d] = 3;
        up.pad_low[d] = 1;
        up.pad_high[d] = 0; /* one of output padding */
    }
    layer = append(up);
    CHECK_INT(layer->out.extent[0], 32);
    pdl__builder_destroy(builder);
}

static void counts_attention(void)
{
    const pdl_layer_t *layer;
    pdl_layer_t        attention = layer_of(PDL_LAYER_ATTENTION, "attention");

    start_tokens(128, 64 * (8 + 2 * 2), 0);
    attention.heads = 8;
    attention.kv_heads = 2;
    layer = append(attention);
    CHECK_INT(layer->head_dim, 64);
    CHECK_INT(layer->out.channels, 512);
    CHECK_INT(layer->flop_forward, 4LL * 128 * 128 * 512);
    CHECK_INT(layer->weights, 0);
    attention.name = "wrong";
    refuse(attention, "test:7: layer wrong: the input needs (heads + 2 kv_heads) head_dim");
    pdl__builder_destroy(builder);
}

static void counts_experts(void)
{
    const pdl_layer_t *layer;
    pdl_layer_t        moe = layer_of(PDL_LAYER_MOE, "moe");

    start_tokens(10, 16, 0);
    moe.experts = 4;
    moe.top_k = 2;
    moe.expert_hidden = 32;
    moe.gated = true;
    layer = append(moe);
    CHECK_INT(layer->weights, 16 * 4 + 4 * 3 * 16 * 32);
    CHECK_INT(layer->flop_forward, 2 * 10 * (16 * 4 + 2 * 3 * 16 * 32));
    CHECK_INT(pdl_layer_weight_tensors(layer), 13);
    pdl__builder_destroy(builder);
}

static void ties_weights(void)
{
    const pdl_layer_t *head;
    pdl_layer_t embedding = layer_of(PDL_LAYER_EMBEDDING, "wte"), linear = layer_of(PDL_LAYER_LINEAR, "head");

    start_tokens(10, 1, 100);
    embedding.out.channels = 16;
    CHECK_INT(append(embedding)->weights, 1600);
    linear.out.channels = 99;
    linear.tied_to = 1;
    refuse(linear, "its weights do not have the shape of those of wte");
    linear.out.channels = 100;
    head = append(linear);
    CHECK_INT(head->weights, 100); /* its bias */
    CHECK_INT(pdl_layer_weight_tensors(head), 1);
    CHECK_INT(head->flop_backward_weight, 2 * 10 * 16 * 100);
    pdl__builder_destroy(builder);
}

static void refuses_what_does_not_fit(void)
{
    pdl_layer_t linear = layer_of(PDL_LAYER_LINEAR, "fc"), add = layer_of(PDL_LAYER_ADD, "sum");
    pdl_layer_t group = layer_of(PDL_LAYER_GROUP_NORM, "gn"), conv = conv_of("conv1", 4, 3, 1, 0);

    start(3, 2, 8);
    refuse(conv_of("input", 4, 1, 1, 0), "test:7: layer input: another layer has this name already");
    refuse(conv_of("in", 4, 1, 1, 0), "kept for the input of a block");
    refuse(conv_of("conv", 4, 9, 1, 0), "the window covers 9 positions but the padded input has only 8");
    refuse(conv_of("conv", 0, 1, 1, 0), "conv needs out");
    refuse(conv_of("conv", 4, 0, 1, 0), "needs a kernel");
    linear.out.channels = 10;
    refuse(linear, "put flatten in front of it");
    refuse(add, "add needs two or more inputs");
    group.groups = 2;
    refuse(group, "2 groups do not divide 3 channels");
    conv.groups = 2;
    refuse(conv, "2 groups do not divide 3 channels");
    conv.groups = -1;
    refuse(conv, "groups must be between 1 and");
    refuse(layer_of(PDL_LAYER_SELECT, "cls"), "select needs a sequence, not 3x8x8");
    pdl__builder_destroy(builder);
}

static void refuses_counts_beyond_64_bits(void)
{
    start(INT32_MAX, 2, 1);
    refuse(conv_of("huge", INT32_MAX, 100, 1, 200), "layer huge: with it, weights, elements or operations exceed");
    pdl__builder_destroy(builder);
}

static void keeps_only_attributes_of_the_type(void)
{
    pdl_layer_t  relu = layer_of(PDL_LAYER_RELU, "relu");
    pdl_model_t *plain = NULL, *decorated = NULL;

    start(3, 2, 8);
    append(relu);
    CHECK_OK(pdl__builder_finish(builder, &plain));
    start(3, 2, 8);
    relu.heads = 4;
    relu.kernel[0] = 9;
    append(relu);
    CHECK_OK(pdl__builder_finish(builder, &decorated));
    CHECK(plain != NULL && decorated != NULL && pdl_model_hash(plain) == pdl_model_hash(decorated));
    pdl_model_destroy(plain);
    pdl_model_destroy(decorated);
}

static void groups_equal_layers_of_repeated_blocks(void)
{
    pdl_model_t *model = NULL;

    start(4, 1, 16);
    append(conv_of("h.0.conv", 4, 3, 1, 1));
    append(conv_of("h.1.conv", 4, 3, 1, 1));
    append(conv_of("h.10.conv", 4, 3, 1, 1));
    append(conv_of("h.11.other", 4, 3, 1, 1));
    append(conv_of("h.12.conv", 4, 1, 1, 0));
    append(layer_of(PDL_LAYER_RELU, "h.1"));
    CHECK_OK(pdl__builder_finish(builder, &model));
    if (model == NULL) return;
    CHECK_INT(pdl_model_layer(model, 2)->class_id, pdl_model_layer(model, 3)->class_id);
    CHECK(pdl_model_layer(model, 1)->class_id != pdl_model_layer(model, 2)->class_id); /* needs no gradient */
    CHECK(pdl_model_layer(model, 4)->class_id != pdl_model_layer(model, 3)->class_id); /* another place */
    CHECK(pdl_model_layer(model, 5)->class_id != pdl_model_layer(model, 3)->class_id); /* another kernel */
    CHECK_INT(pdl_model_class_count(model), 6);
    CHECK_INT(pdl_model_layer(model, 3)->consumer_count, 1);
    CHECK_INT(pdl_model_find_layer(model, "h.10.conv"), 3);
    CHECK_INT(pdl_model_find_layer(model, "h.10"), -1);
    pdl_model_destroy(model);
}

static void formats_shapes(void)
{
    char        text[40];
    pdl_shape_t image = {.channels = 64, .rank = 2, .extent = {56, 56, 1}};
    pdl_shape_t tokens = {.channels = 768, .rank = 1, .extent = {1024, 1, 1}, .sequence = true};

    CHECK_STR(pdl_shape_format(&image, text, sizeof(text)), "64x56x56");
    CHECK_STR(pdl_shape_format(&tokens, text, sizeof(text)), "1024 tokens x 768");
    CHECK_STR(pdl_shape_format(&image, text, 4), "64x");
}

int main(void)
{
    RUN(counts_a_convolution);
    RUN(counts_grouped_and_transposed_convolutions);
    RUN(counts_attention);
    RUN(counts_experts);
    RUN(ties_weights);
    RUN(refuses_what_does_not_fit);
    RUN(refuses_counts_beyond_64_bits);
    RUN(keeps_only_attributes_of_the_type);
    RUN(groups_equal_layers_of_repeated_blocks);
    RUN(formats_shapes);
    return test_done();
}
