/*
 * ONNX files become the models they describe. The networks in onnx/ were exported from PyTorch (export.py) or
 * written by hand (generate.py), without their weights; parameter counts are those that PyTorch reports.
 */
#include "test.h"

#include <paradl/model/model.h>
#include <stdlib.h>

#define FOLDER PDL_TEST_SOURCE "/tests/model/onnx/"

static pdl_model_t *load(const char *name)
{
    pdl_model_t *model = NULL;
    char         path[1024];

    snprintf(path, sizeof path, FOLDER "%s.onnx", name);
    REQUIRE_OK(pdl_model_load(path, &model));
    return model;
}

static int64_t weights_of(const char *name)
{
    pdl_model_t       *model = load(name);
    pdl_model_totals_t totals = {0};

    if (model != NULL) pdl_model_totals(model, &totals);
    pdl_model_destroy(model);
    return totals.weights;
}

/* A layer that must exist, with its type. */
static const pdl_layer_t *layer_of(const pdl_model_t *model, const char *name, pdl_layer_type_t type)
{
    static const pdl_layer_t none;
    int                      i = model != NULL ? pdl_model_find_layer(model, name) : -1;

    if (i < 0) {
        test_fail_at(__FILE__, __LINE__);
        printf("there is no layer %s\n", name);
        return &none;
    }
    CHECK_STR(pdl_layer_type_name(pdl_model_layer(model, i)->type), pdl_layer_type_name(type));
    return pdl_model_layer(model, i);
}

static int count_of(const pdl_model_t *model, pdl_layer_type_t type)
{
    int count = 0;

    for (int i = 0; model != NULL && i < pdl_model_layer_count(model); i++)
        count += pdl_model_layer(model, i)->type == type;
    return count;
}

static void equals_built_in_models(void)
{
    static const char *const names[] = {"resnet18", "resnet50", "vgg16", "alexnet"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        pdl_model_t       *imported = load(names[i]), *own = NULL;
        pdl_model_totals_t a = {0}, b = {0};

        REQUIRE_OK(pdl_model_load(names[i], &own));
        if (imported != NULL && own != NULL) {
            pdl_model_totals(imported, &a);
            pdl_model_totals(own, &b);
            CHECK_INT(a.weights, b.weights);
            CHECK_INT(a.macs, b.macs);
            CHECK_INT(a.weight_tensors, b.weight_tensors);
        }
        pdl_model_destroy(imported);
        pdl_model_destroy(own);
    }
}

static void names_layers_after_weights(void)
{
    pdl_model_t       *model = load("resnet50");
    const pdl_layer_t *conv = layer_of(model, "layer1.0.conv2", PDL_LAYER_CONV);

    CHECK_INT(conv->kernel[0], 3);
    CHECK_INT(conv->weights, 64 * 64 * 9);
    layer_of(model, "layer1.0.bn2", PDL_LAYER_BATCH_NORM);
    layer_of(model, "layer1.0.relu", PDL_LAYER_RELU);
    layer_of(model, "layer4.2.add", PDL_LAYER_ADD);
    layer_of(model, "layer2.0.downsample.0", PDL_LAYER_CONV);
    layer_of(model, "fc", PDL_LAYER_LINEAR);
    layer_of(model, "loss", PDL_LAYER_CROSS_ENTROPY);
    pdl_model_destroy(model);

    /* With batch norms folded away, weights have no names of their own: the scope has. */
    model = load("resnet18_folded");
    CHECK(layer_of(model, "layer1.0.conv1", PDL_LAYER_CONV)->bias);
    pdl_model_destroy(model);
}

static void counts_parameters_as_pytorch(void)
{
    CHECK_INT(weights_of("mobilenet_v2"), 3504872);
    /* Exported for inference: each of 21008 normalized channels has a bias instead of scale and shift. */
    CHECK_INT(weights_of("efficientnet_b0"), 5288548 - 21008);
    CHECK_INT(weights_of("unet"), 29634);
    CHECK_INT(weights_of("unet_upsample"), 29930);
    CHECK_INT(weights_of("norms"), 292);
    CHECK_INT(weights_of("encoder"), 17088);
    CHECK_INT(weights_of("vit"), 193960);
    CHECK_INT(weights_of("vit_open_batch"), 193960);
    CHECK_INT(weights_of("vit_packed"), 56410);
    CHECK_INT(weights_of("gpt2_train"), 166144);
    CHECK_INT(weights_of("gpt2_open_batch"), 166144);
    CHECK_INT(weights_of("gpt2_gemm"), 166144 + 64000); /* the tie is in numbers that the file does not have */
    CHECK_INT(weights_of("gpt2_small"), 4240);
    /* The two token types are part of the learned positions. */
    CHECK_INT(weights_of("bert"), 83856 - 2 * 48);
}

static void reads_decoder(void)
{
    pdl_model_t       *model = load("gpt2_train");
    const pdl_layer_t *attention = layer_of(model, "h.1.attention", PDL_LAYER_ATTENTION);
    const pdl_layer_t *head = layer_of(model, "lm_head", PDL_LAYER_LINEAR);

    CHECK_INT(attention->heads, 4);
    CHECK_INT(attention->head_dim, 16);
    CHECK(attention->causal);
    CHECK_NEAR(attention->rate, 0.1, 1e-6);
    CHECK_INT(head->tied_to, pdl_model_find_layer(model, "wte"));
    CHECK_INT(head->weights, 0);
    CHECK_INT(layer_of(model, "wte", PDL_LAYER_EMBEDDING)->vocabulary, 1000);
    CHECK_INT(layer_of(model, "wpe", PDL_LAYER_POSITION)->weights, 32 * 64);
    CHECK_NEAR(layer_of(model, "h.0.ln_1", PDL_LAYER_LAYER_NORM)->epsilon, 1e-5, 1e-3);
    CHECK_INT(count_of(model, PDL_LAYER_GELU_TANH), 2);
    CHECK_INT(pdl_model_input(model).extent[0], 32);
    pdl_model_destroy(model);
}

static void reads_encoders(void)
{
    pdl_model_t       *model = load("bert");
    const pdl_layer_t *attention = layer_of(model, "layer.0.attention", PDL_LAYER_ATTENTION);

    CHECK(!attention->causal);
    CHECK_INT(count_of(model, PDL_LAYER_CONCAT), 2); /* q, k and v are three layers */
    CHECK_NEAR(layer_of(model, "LayerNorm", PDL_LAYER_LAYER_NORM)->epsilon, 1e-12, 0.05);
    CHECK_INT(count_of(model, PDL_LAYER_POSITION), 1);
    CHECK_INT(count_of(model, PDL_LAYER_SELECT), 1);
    CHECK_INT(count_of(model, PDL_LAYER_CROSS_ENTROPY), 0); /* hidden states are not class scores */
    pdl_model_destroy(model);

    model = load("vit");
    CHECK(layer_of(model, "encoder.pos_embedding", PDL_LAYER_POSITION)->class_token);
    layer_of(model, "encoder.layers.encoder_layer_1.ln_1", PDL_LAYER_LAYER_NORM);
    layer_of(model, "heads.head", PDL_LAYER_LINEAR);
    CHECK_INT(count_of(model, PDL_LAYER_TO_SEQUENCE), 1);
    CHECK_INT(count_of(model, PDL_LAYER_ATTENTION), 2);
    CHECK_INT(count_of(model, PDL_LAYER_GELU), 2);
    pdl_model_destroy(model);

    /* [tokens, batch, channels] */
    model = load("encoder");
    CHECK_INT(pdl_model_input(model).extent[0], 10);
    CHECK_INT(pdl_model_input(model).channels, 32);
    CHECK_INT(count_of(model, PDL_LAYER_DROPOUT), 6);
    pdl_model_destroy(model);
}

static void reads_windows(void)
{
    pdl_model_t       *model = load("lenet");
    const pdl_layer_t *layer = layer_of(model, "conv1", PDL_LAYER_CONV);

    CHECK_INT(layer->pad_low[0], 2);
    CHECK_INT(layer->out.extent[1], 28);
    layer = layer_of(model, "max_pool", PDL_LAYER_MAX_POOL); /* 14 and the padding of a node; rounded up */
    CHECK_INT(layer->pad_low[0], 1);
    CHECK_INT(layer->pad_high[0], 2);
    CHECK_INT(layer->out.extent[0], 8);
    CHECK_NEAR(layer_of(model, "leaky_relu", PDL_LAYER_LEAKY_RELU)->slope, 0.1, 1e-6);
    CHECK_INT(layer_of(model, "local_response_norm", PDL_LAYER_LOCAL_RESPONSE_NORM)->lrn_size, 3);
    CHECK_INT(layer_of(model, "fc", PDL_LAYER_LINEAR)->weights, 10 * 384 + 10);
    CHECK_INT(count_of(model, PDL_LAYER_SOFTMAX), 0); /* part of the loss */
    pdl_model_destroy(model);

    model = load("squeeze_excite");
    CHECK_INT(count_of(model, PDL_LAYER_SILU), 1);
    CHECK_INT(count_of(model, PDL_LAYER_SIGMOID), 1);
    CHECK_INT(count_of(model, PDL_LAYER_MUL), 1);
    layer = layer_of(model, "up", PDL_LAYER_CONV_TRANSPOSE);
    CHECK_INT(layer->in.channels, 16);
    CHECK_INT(layer->out.extent[0], 24);
    pdl_model_destroy(model);

    model = load("resnet3d");
    CHECK_INT(pdl_model_input(model).rank, 3);
    pdl_model_destroy(model);
}

static void recognises_norms(void)
{
    pdl_model_t *model = load("norms");

    CHECK_INT(layer_of(model, "group", PDL_LAYER_GROUP_NORM)->groups, 2);
    CHECK_INT(layer_of(model, "instance", PDL_LAYER_GROUP_NORM)->groups, 8);
    CHECK_INT(count_of(model, PDL_LAYER_RELU), 1);
    CHECK_INT(count_of(model, PDL_LAYER_SILU), 1);
    CHECK_INT(count_of(model, PDL_LAYER_GLOBAL_AVG_POOL), 1);
    pdl_model_destroy(model);

    model = load("rms_norm");
    CHECK_NEAR(layer_of(model, "norm", PDL_LAYER_RMS_NORM)->epsilon, 1e-6, 0.02);
    CHECK(!layer_of(model, "head", PDL_LAYER_LINEAR)->bias);
    pdl_model_destroy(model);
}

static void folds_shape_arithmetic(void)
{
    pdl_model_t *model = load("shapes");

    CHECK_INT(count_of(model, PDL_LAYER_FLATTEN), 1);
    CHECK(layer_of(model, "fc", PDL_LAYER_LINEAR)->bias);
    CHECK_INT(pdl_model_layer_count(model), 4);
    pdl_model_destroy(model);
}

/* One line of cases.txt (generate.py): name|outcome|text|file. Returns whether it is as it should be. */
static bool check_case(char *line)
{
    static unsigned char data[1 << 14];
    char                *name = strtok(line, "|"), *outcome = strtok(NULL, "|"), *text = strtok(NULL, "|");
    char                *hex = strtok(NULL, "|\n"), *yaml = NULL;
    pdl_model_t         *model = NULL;
    size_t               size = 0, length;
    bool                 right = false;
    FILE                *stream;

    if (outcome != NULL && hex == NULL) { /* no text */
        hex = text;
        text = "";
    }
    if (hex == NULL) return false;
    hex[strcspn(hex, "\n")] = '\0';
    length = strlen(hex) / 2;
    for (size_t i = 0; i < length && i < sizeof data; i++) {
        char byte[3] = {hex[2 * i], hex[2 * i + 1], '\0'};

        data[i] = (unsigned char)strtoul(byte, NULL, 16);
    }
    if (pdl_model_read_onnx_memory(data, length, "case.onnx", &model)) {
        right = strcmp(outcome, "refused") == 0 && strstr(pdl_error_message(), text) != NULL;
        if (!right) printf("%s: %s, expected %s: %s\n", name, pdl_error_message(), outcome, text);
        return right;
    }
    stream = open_memstream(&yaml, &size);
    pdl_model_write_yaml(model, stream);
    fclose(stream);
    if (strcmp(outcome, "ok") == 0 || strcmp(outcome, "no") == 0)
        right = (strstr(yaml, text) != NULL) == (outcome[0] == 'o');
    else if (strcmp(outcome, "quiet") == 0)
        right = pdl_model_remarks(model)[0] == NULL;
    else if (strcmp(outcome, "warned") == 0)
        right = pdl_model_remarks(model)[0] != NULL && strstr(pdl_model_remarks(model)[0], text) != NULL;
    if (!right)
        printf("%s: expected %s: %s; read as %s%s\n", name, outcome, text, yaml,
               pdl_model_remarks(model)[0] != NULL ? pdl_model_remarks(model)[0] : "");
    free(yaml);
    pdl_model_destroy(model);
    return right;
}

/* Every attribute and operand is honoured, or refused by name. */
static void reads_or_refuses_every_case(void)
{
    FILE       *file = fopen(FOLDER "cases.txt", "r");
    static char line[1 << 15];
    int         cases = 0;

    CHECK(file != NULL);
    for (; file != NULL && fgets(line, sizeof line, file) != NULL; cases++) CHECK(check_case(line));
    if (file != NULL) fclose(file);
    CHECK(cases > 100);
}

/* A network whose norms were folded away is told from one that never had any. */
static void warns_of_inference(void)
{
    static const struct {
        const char *name, *remark; /* NULL: none */
    } files[] = {{"resnet18_folded", "batch norms are folded into 20 of 20 convolutions"},
                 {"efficientnet_b0", "batch norms are folded into 49 of 81 convolutions"},
                 {"resnet3d", "batch norms are folded into 20 of 20 convolutions"},
                 {"mobilenet_v2", "relu6 (35 times) is read as relu"},
                 {"resnet18", NULL},
                 {"resnet50", NULL},
                 {"vgg16", NULL},
                 {"alexnet", NULL},
                 {"unet", NULL},
                 {"unet_upsample", NULL},
                 {"vit", NULL},
                 {"lenet", NULL},
                 {"squeeze_excite", NULL},
                 {"encoder", NULL},
                 {"bert", NULL}};

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        pdl_model_t *model = load(files[i].name);
        const char  *remark = model != NULL ? pdl_model_remarks(model)[0] : NULL;

        if (files[i].remark != NULL)
            CHECK(remark != NULL && strstr(remark, files[i].remark) != NULL);
        else
            CHECK_STR(remark != NULL ? remark : "", "");
        pdl_model_destroy(model);
    }
}

static void explains_mistakes(void)
{
    static const char *const cases[][2] = {
        {"bad_operator", "node nonmaxsuppression_y (NonMaxSuppression): the operator is not supported"},
        {"bad_dynamic", "input x: dimension 2 is dynamic, only the batch may be; export with a fixed input size"},
        {"bad_operand", "node conv_y (Conv): operand lost is unknown"},
        {"bad_channels", "node conv_y (Conv): the kernel is for 5 channels, the operand has 3"},
        {"bad_window", "node conv_y (Conv): layer w: the window covers 9 positions"},
        {"bad_input", "input z is a second input"},
        {"bad_activation", "node erf_a (Erf): this arithmetic is none of the activations known"},
        {"bad_padding", "padding is only supported directly in front of"},
        {"bad_output", "no node computes output y"},
        {"bad_twice", "tensor y is defined twice"},
        {"bad_scale", "node mul_b (Mul): multiplication by a constant"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pdl_model_t *model = NULL;
        char         path[1024];

        snprintf(path, sizeof path, FOLDER "%s.onnx", cases[i][0]);
        CHECK_ERROR(pdl_model_load(path, &model), cases[i][1]);
        CHECK(strncmp(pdl_error_message(), path, strlen(path)) == 0);
        CHECK(model == NULL);
    }
}

static unsigned char *read_bytes(const char *name, size_t *length)
{
    unsigned char *data = malloc(1 << 20);
    char           path[1024];
    FILE          *file;

    snprintf(path, sizeof path, FOLDER "%s.onnx", name);
    file = fopen(path, "rb");
    *length = file != NULL && data != NULL ? fread(data, 1, 1 << 20, file) : 0;
    if (file != NULL) fclose(file);
    return data;
}

static void refuses_truncated_files(void)
{
    static const char *const names[] = {"lenet", "gpt2_small", "resnet18"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t         length, failed = 0, tried = 0;
        unsigned char *data = read_bytes(names[i], &length);

        /* The last field says which operators are meant: without any byte of it the file is not complete. */
        for (size_t n = 0; n < length; n += i == 0 ? 1 : 97) {
            pdl_model_t *model = NULL;

            tried++;
            failed += pdl_model_read_onnx_memory(data, n, "cut.onnx", &model) != PDL_OK &&
                      strncmp(pdl_error_message(), "cut.onnx: not a", 15) == 0;
            pdl_model_destroy(model);
        }
        CHECK(tried > 50);
        CHECK_INT(failed, tried);
        free(data);
    }
}

static void survives_changed_bytes(void)
{
    size_t         length;
    unsigned char *data = read_bytes("squeeze_excite", &length);

    for (size_t i = 0; i < length; i++) {
        for (int bit = 0; bit < 8; bit++) {
            pdl_model_t *model = NULL;

            data[i] ^= (unsigned char)(1 << bit);
            if (pdl_model_read_onnx_memory(data, length, "changed.onnx", &model) != PDL_OK) CHECK(model == NULL);
            pdl_model_destroy(model);
            data[i] ^= (unsigned char)(1 << bit);
        }
    }
    free(data);
}

static void refuses_garbage(void)
{
    unsigned char bytes[4096];
    unsigned      state = 1;
    pdl_model_t  *model = NULL;

    CHECK_ERROR(pdl_model_read_onnx_memory("", 0, "f.onnx", &model),
                "f.onnx: not a readable ONNX model (the file is empty)");
    CHECK_ERROR(pdl_model_read_onnx_memory("paradl: model/1\n", 16, "f.onnx", &model),
                "f.onnx: not a readable ONNX model (damaged or truncated at byte 0 of 16");
    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (unsigned char)((state = state * 1664525u + 1013904223u) >> 24);
        CHECK_ERROR(pdl_model_read_onnx_memory(bytes, sizeof bytes, "f.onnx", &model), "f.onnx: not a");
    }
    /* graph { node { attribute { g { node ... deeper than any network */
    for (size_t i = 0; i + 2 < sizeof bytes; i += 3) {
        static const unsigned char tags[] = {0x0a, 0x2a, 0x32};
        size_t                     left = sizeof bytes - i - 3;

        bytes[i] = i == 0 ? 0x3a : tags[i / 3 % 3 == 1 ? 0 : i / 3 % 3 == 2 ? 1 : 2];
        bytes[i + 1] = (unsigned char)(0x80 | (left & 0x7f));
        bytes[i + 2] = (unsigned char)(left >> 7);
    }
    CHECK_ERROR(pdl_model_read_onnx_memory(bytes, sizeof bytes - 1, "f.onnx", &model), "f.onnx: not a");
    CHECK(model == NULL);
}

static void writes_what_was_imported(void)
{
    pdl_model_t       *model = load("gpt2_train"), *again = NULL;
    pdl_model_totals_t a = {0}, b = {0};
    char              *text = NULL;
    size_t             length = 0;
    FILE              *stream = open_memstream(&text, &length);

    CHECK_OK(pdl_model_write_yaml(model, stream));
    fclose(stream);
    CHECK_OK(pdl_model_read_yaml_memory(text, length, "again.yaml", &again));
    if (again != NULL) {
        pdl_model_totals(model, &a);
        pdl_model_totals(again, &b);
        CHECK_INT(a.weights, b.weights);
        CHECK_INT(a.macs, b.macs);
        CHECK(pdl_model_hash(model) == pdl_model_hash(again));
    }
    free(text);
    pdl_model_destroy(model);
    pdl_model_destroy(again);
}

int main(void)
{
    RUN(equals_built_in_models);
    RUN(names_layers_after_weights);
    RUN(counts_parameters_as_pytorch);
    RUN(reads_decoder);
    RUN(reads_encoders);
    RUN(reads_windows);
    RUN(recognises_norms);
    RUN(folds_shape_arithmetic);
    RUN(reads_or_refuses_every_case);
    RUN(warns_of_inference);
    RUN(explains_mistakes);
    RUN(refuses_truncated_files);
    RUN(survives_changed_bytes);
    RUN(refuses_garbage);
    RUN(writes_what_was_imported);
    return test_done();
}
