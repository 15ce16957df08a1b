/* The original oracle's .net and .lc files. */
#include <paradl/model/model.h>

#include "test.h"

#include <stdlib.h>

#define HEAD "Dataset|D\nInput|100x3x8x8\nModel|M\n"

static void reads_a_table(void)
{
    static const char text[] = "# comment\r\nDataset|D\nInput|100x3x8x8\n\nModel|M\n"
                               "CONV_1|3x8x8|3x4x3x3|4x6x6| 0.5\n"
                               "RELU|4x6x6|0x0x0x0|4x6x6\r\n"
                               "RELU|4x6x6|0x0x0x0|4x6x6\n"
                               "MPOOL|4x6x6|0x0x2x2|4x3x3\n"
                               "FC|4x3x3|4x10x3x3|10x1x1";

    const pdl_layer_t *layer;
    pdl_model_t       *model = NULL;

    CHECK_OK(pdl_model_read_net_memory(text, strlen(text), "t.net", &model));
    if (model == NULL) exit(test_done());
    CHECK_STR(pdl_model_name(model), "M");
    CHECK(!pdl_model_trainable(model));
    CHECK_INT(pdl_model_layer_count(model), 6);
    CHECK_INT(pdl_model_input(model).channels, 3);
    CHECK_NEAR(pdl_model_layer(model, 1)->measured_s, 0.5, 0);
    CHECK_STR(pdl_model_layer(model, 3)->name, "RELU#2");
    layer = pdl_model_layer(model, 5);
    CHECK_INT(layer->type, PDL_LAYER_LINEAR);
    CHECK_INT(layer->weights, 360);
    CHECK_INT(layer->flop_forward, 720);
    CHECK_INT(layer->kernel[1], 3);
    pdl_model_destroy(model);
}

static void reports_mistakes_with_their_line(void)
{
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"", "bad.net:0: expected a line Dataset|..."},
        {"Data|x\n", "bad.net:1: expected a line Dataset|..."},
        {"Dataset|D\nInput|3\n", "bad.net:2: expected samples x channels"},
        {"Dataset|D\nInput|1x3x\n", "bad.net:2: not a shape"},
        {"Dataset|D\nInput|1x3x8\n", "expected a line Model|..."},
        {HEAD, "bad.net:3: there are no layers"},
        {HEAD "CONV|3x8x8|3x4x3x3\n", "bad.net:4: expected NAME|input|weights|output"},
        {HEAD "CONW|3x8x8|3x4x3x3|4x6x6\n", "bad.net:4: the name holds none of CONV"},
        {HEAD "CONV|3x8x8|3x5x3x3|4x6x6\n", "bad.net:4: the weights do not fit the channels"},
        {HEAD "CONV|3x8x8|3x4x3|4x6x6\n", "bad.net:4: input, weights and output differ in dimensions"},
        {HEAD "CONV|3x8x8|3x4x3x0|4x6x6\n", "bad.net:4: the window has a zero"},
        {HEAD "CONV|3x8x-8|3x4x3x3|4x6x6\n", "bad.net:4: not a shape"},
        {HEAD "CONV|3x8x8|3x4x3x3|4x6x6|soon\n", "bad.net:4: not a time in seconds"},
        {HEAD "CONV|3x8x8|3x4x3x3|4x6x6|1|2\n", "bad.net:4: more than five fields"},
        {HEAD "RELU|3x8x8x8x8x8|0|3x8x8\n", "bad.net:4: too many dimensions"},
        {HEAD "FC|2000000000x2000000000|2000000000x2000000000x2000000000|2000000000x1\n", "exceed 64-bit counts"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pdl_model_t *model = NULL;

        CHECK_ERROR(pdl_model_read_net_memory(cases[i].text, strlen(cases[i].text), "bad.net", &model),
                    cases[i].message);
        CHECK(model == NULL);
    }
}

static const char *share_path(const char *file, char path[512])
{
    snprintf(path, 512, "%s/share/models/%s", PDL_TEST_SOURCE, file);
    return path;
}

/* Layers split by a strategy, -1 when the file is refused. */
static int count_flags(const pdl_model_t *model, const char *file)
{
    char  path[512];
    int   sum = 0, count = pdl_model_layer_count(model);
    bool *flags = calloc((size_t)count, sizeof(*flags));

    if (flags == NULL) exit(1);
    if (pdl_model_read_lc(share_path(file, path), model, flags) != PDL_OK) {
        free(flags);
        return -1;
    }
    for (int i = 0; i < count; i++) sum += flags[i];
    free(flags);
    return sum;
}

static void reads_split_flags(void)
{
    pdl_model_t *resnet = NULL, *vgg = NULL;

    REQUIRE_OK(pdl_model_load("resnet50-orig", &resnet));
    REQUIRE_OK(pdl_model_load("vgg16-orig", &vgg));
    if (resnet == NULL || vgg == NULL) exit(test_done());
    CHECK_NEAR(pdl_model_layer(resnet, 1)->measured_s, 0.003119502, 0);
    CHECK_INT(count_flags(resnet, "resnet50-orig.filter.lc"), 49);
    CHECK_INT(count_flags(resnet, "resnet50-orig.channel.lc"), 49);
    CHECK_INT(count_flags(vgg, "vgg16-orig.filter.lc"), 13);
    CHECK_INT(count_flags(vgg, "vgg16-orig.spatial.lc"), 18);
    CHECK_INT(count_flags(vgg, "resnet50-orig.filter.lc"), -1);
    CHECK(strstr(pdl_error_message(), "resnet50-orig.filter.lc:2: expected a line for layer CONV1_1") != NULL);
    pdl_model_destroy(resnet);
    pdl_model_destroy(vgg);
}

int main(void)
{
    RUN(reads_a_table);
    RUN(reports_mistakes_with_their_line);
    RUN(reads_split_flags);
    return test_done();
}
