/* The model format: expansion of parameters, blocks and extension, and a line for every mistake. */
#include <paradl/model/model.h>

#include "base/scratch.h"
#include "model/yaml/expression.h"

#define HEAD "paradl: model/1\nname: t\ninput: {channels: 3, size: [8, 8]}\n"

static pdl_model_t *read_text(const char *text)
{
    pdl_model_t *model = NULL;

    CHECK_OK(pdl_model_read_yaml_memory(text, strlen(text), "t.yaml", &model));
    if (model == NULL) exit(test_done());
    return model;
}

static const pdl_layer_t *layer_named(const pdl_model_t *model, const char *name)
{
    int index = pdl_model_find_layer(model, name);

    if (index < 0) {
        test_fail_at(__FILE__, __LINE__);
        printf("no layer %s\n", name);
        exit(test_done());
    }
    return pdl_model_layer(model, index);
}

static void evaluates_expressions(void)
{
    static const struct {
        const char *text;
        double      value;
        bool        whole;
    } cases[] = {
        {"4*hidden", 3072, true},
        {"(hidden + 2) / 2", 385, true},
        {"hidden/7", 768.0 / 7, false},
        {"2 - 3*4", -10, true},
        {"-(2-5)", 3, true},
        {"2*3/4*2", 3, false},
        {"8/2/2", 2, true},
        {"0.5*4", 2, false},
        {"1e-5", 1e-5, false},
        {"sqrt(2*hidden+64)", 40, false},
    };
    static const char *const wrong[] = {"",
                                        "4*",
                                        "hiden",
                                        "(2",
                                        "2)",
                                        "3 4",
                                        "1/0",
                                        "1/(3-3)",
                                        "2**3",
                                        "sqrt(0-1)",
                                        "9223372036854775807+1",
                                        "3000000000*4000000000",
                                        "12x",
                                        "1.2.3",
                                        "é"};

    pdl__scope_t scope = {.count = 1, .names = {"hidden"}, .values = {{768, 768, true}}};
    pdl__value_t value;
    char         message[128];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CHECK(pdl__evaluate(cases[i].text, &scope, &value, message, sizeof(message)));
        CHECK_NEAR(value.number, cases[i].value, 1e-15);
        CHECK_INT(value.whole, cases[i].whole);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        CHECK(!pdl__evaluate(wrong[i], &scope, &value, message, sizeof(message)));
}

/* Cells that read the two before them: the first has one input for both. */
static void a_block_reads_the_input_of_the_one_before(void)
{
    static const int inputs[][2] = {{1, 1}, {2, 1}, {3, 2}, {4, 3}, {5, 5}};
    pdl_model_t     *model = read_text(HEAD "blocks:\n"
                                                "  cell:\n"
                                                "    layers:\n"
                                                "      - add: {name: sum, from: [in, before]}\n"
                                                "layers:\n"
                                                "  - relu\n"
                                                "  - {block: cell, name: a, repeat: 3}\n"
                                                "  - {block: cell, name: b}\n"
                                                "  - relu: {name: before}\n"
                                                "  - {block: cell, name: c}\n");

    REQUIRE(model != NULL);
    for (int i = 0; i < 5; i++) {
        const pdl_layer_t *sum = pdl_model_layer(model, i < 4 ? 2 + i : 7);
        int                first = i < 4 ? inputs[i][0] : 6, second = i < 4 ? inputs[i][1] : 6;

        CHECK_INT(sum->inputs[0], first);
        CHECK_INT(sum->inputs[1], second);
    }
    pdl_model_destroy(model);
}

static void expands_blocks(void)
{
    pdl_model_t *model =
        read_text(HEAD "parameters: {width: 16, double: 2*width}\n"
                       "blocks:\n"
                       "  inner:\n"
                       "    parameters: {c, k: 2*1 + 1}\n"
                       "    layers:\n"
                       "      - conv: {name: conv, out: c, kernel: k, pad: same, bias: false}\n"
                       "      - relu\n"
                       "      - relu\n"
                       "  residual:\n"
                       "    parameters: {c}\n"
                       "    layers:\n"
                       "      - {block: inner, name: a, with: {c: 2*c}}\n"
                       "      - {block: inner, name: b, with: {c: c, k: 1}}\n"
                       "      - add: [in, b.relu_2]\n"
                       "layers:\n"
                       "  - conv: {name: stem, out: width, kernel: 1}\n"
                       "  - {block: residual, name: body, repeat: 2, with: {c: width}}\n"
                       "  - {block: residual, name: body, start: 2, with: {c: width}, from: stem}\n"
                       "  - add: {from: [body.1.add, body.2.add]}\n"
                       "  - global_avg_pool\n"
                       "  - linear: double\n");

    CHECK_INT(pdl_model_layer_count(model), 2 + 3 * 7 + 3);
    CHECK_INT(layer_named(model, "body.1.a.conv")->out.channels, 32);
    CHECK_INT(layer_named(model, "body.1.a.conv")->kernel[0], 3);
    CHECK_INT(layer_named(model, "body.1.b.conv")->kernel[1], 1);
    CHECK_INT(layer_named(model, "body.0.add")->inputs[0], 1);
    CHECK_INT(layer_named(model, "body.2.a.conv")->inputs[0], 1);
    CHECK_INT(layer_named(model, "body.1.add")->inputs[0], pdl_model_find_layer(model, "body.0.add"));
    CHECK_INT(layer_named(model, "linear")->out.channels, 32);
    CHECK_STR(pdl_model_name(model), "t");
    pdl_model_destroy(model);
}

static void reads_short_forms_and_padding(void)
{
    pdl_model_t *model =
        read_text(HEAD "layers:\n"
                       "  - max_pool: 2\n"
                       "  - max_pool: {name: ceiled, kernel: 3, stride: 2, ceil: true}\n"
                       "  - conv: {name: even, out: 4, kernel: 2, pad: same, from: in}\n"
                       "  - conv: {name: half, out: 4, kernel: 3, stride: 2, pad: [1, 0], pad_high: 1}\n"
                       "  - upsample: 2\n"
                       "  - dropout: 0.25\n"
                       "  - relu:\n"
                       "  - flatten\n"
                       "  - linear: 10\n");

    CHECK_INT(layer_named(model, "max_pool")->out.extent[0], 4);
    CHECK_INT(layer_named(model, "ceiled")->out.extent[0], 2);
    CHECK_INT(layer_named(model, "ceiled")->pad_high[0], 1);
    CHECK_INT(layer_named(model, "even")->pad_low[0], 0);
    CHECK_INT(layer_named(model, "even")->pad_high[0], 1);
    CHECK_INT(layer_named(model, "half")->pad_low[1], 0);
    CHECK_INT(layer_named(model, "half")->out.extent[0], 4);
    CHECK_INT(layer_named(model, "upsample")->out.extent[1], 8);
    CHECK_NEAR(layer_named(model, "dropout")->rate, 0.25, 0);
    CHECK_INT(layer_named(model, "linear")->weights, 4 * 64 * 10 + 10);
    pdl_model_destroy(model);
}

static void extends_built_in_models(void)
{
    pdl_model_t *model = read_text("paradl: model/1\nname: mine\nextends: gpt2-355m\n"
                                   "parameters: {hidden: 64, heads: 4, vocabulary: 2*hidden}\n");

    CHECK_STR(pdl_model_name(model), "mine");
    CHECK_STR(pdl_model_description(model), "");
    CHECK_INT(layer_named(model, "wte")->weights, 128 * 64);
    CHECK(pdl_model_find_layer(model, "h.23.attn") > 0); /* layers: 24 comes from gpt2-355m */
    CHECK_INT(layer_named(model, "h.0.mlp.c_fc")->out.channels, 256);
    pdl_model_destroy(model);
}

/* What is wrong, the line it is in, and a part of the message. */
static const struct {
    const char *text;
    int         line;
    const char *message;
} mistakes[] = {
    {"a: [", 2, ""},
    {"- 1\n", 1, ""},
    {"paradl: system/1\nname: t\n", 1, "model"},
    {"paradl: model/1\nlayers: []\n", 1, "name"},
    {"paradl: model/1\nname: t\nlayers: [relu]\n", 1, "a model needs input:"},
    {HEAD, 1, "a model needs layers: or extends:"},
    {HEAD "layer: []\n", 4, "layer"},
    {HEAD "layers: relu\n", 4, "a list of layers"},
    {HEAD "layers: []\n", 4, "no layers"},
    {"paradl: model/1\nname: t\ninput: {channels: 0}\nlayers: [relu]\n", 3, "0 is outside 1 .."},
    {"paradl: model/1\nname: t\ninput: {size: [8]}\nlayers: [relu]\n", 3, "an input needs channels"},
    {"paradl: model/1\nname: t\ninput: {channels: 1, size: [1,1,1,1]}\nlayers: [relu]\n", 3, "1 to 3 extents"},
    {"paradl: model/1\nname: t\ninput: {tokens: 8, size: [8]}\nlayers: [relu]\n", 3, "either a size or tokens"},
    {HEAD "layers:\n  - relu\n  - rellu\n", 6, "unknown layer type rellu"},
    {HEAD "layers:\n  - conv: {kernel: 3}\n", 5, "layer conv: conv needs out"},
    {HEAD "layers:\n  - conv: {out: 4}\n", 5, "needs a kernel"},
    {HEAD "layers:\n  - conv: {out: 4, kernal: 3}\n", 5,
     "conv has no attribute kernal; it has name, from, out, kernel"},
    {HEAD "layers:\n  - conv: {out: 4, kernel: [3, 3, 3]}\n", 5, "kernel needs one integer or 2"},
    {HEAD "layers:\n  - conv: {out: 4.5, kernel: 3}\n", 5, "\"4.5\" is not a whole number"},
    {HEAD "layers:\n  - conv: {out: width, kernel: 3}\n", 5, "unknown parameter width"},
    {HEAD "layers:\n  - conv: {out: -1, kernel: 3}\n", 5, "-1 is outside 0 .."},
    {HEAD "layers:\n  - conv: {out: 4, kernel: 3, bias: maybe}\n", 5, "unknown parameter maybe"},
    {HEAD "layers:\n  - conv: {out: 4, kernel: 3, init: lucky}\n", 5, "xavier"},
    {HEAD "layers:\n  - conv: 4\n", 5, "conv takes attributes in braces"},
    {HEAD "layers:\n  - dropout: 1\n", 5, "rate must be between 0 and"},
    {HEAD "layers:\n  - relu: {from: conv1}\n", 5, "no layer conv1 before this one"},
    {HEAD "layers:\n  - relu: {name: a}\n  - relu: {name: a}\n", 6, "another layer has this name already"},
    {HEAD "layers:\n  - relu: {tied: input}\n", 5, "its weights do not have the shape of those of input"},
    {HEAD "layers:\n  - add: [input]\n", 5, "add needs two or more inputs"},
    {HEAD "layers:\n  - relu: [input, input]\n", 5, "relu has one input"},
    {HEAD "layers:\n  - max_pool: 2\n  - add: [input, max_pool]\n", 6,
     "inputs do not fit: input is 3x8x8, max_pool is 3x4x4"},
    {HEAD "layers:\n  - {conv: {out: 4}, relu: {}}\n", 5, "a layer is one type with its attributes"},
    {HEAD "layers:\n  - [relu]\n", 5, "a layer is one type with its attributes"},
    {HEAD "layers:\n  - {block: b}\n", 5, "no block b under blocks:"},
    {HEAD "blocks: {b: {layers: [relu]}}\nlayers:\n  - {block: b, repeats: 2}\n", 6, "repeats"},
    {HEAD "blocks: {b: {layers: [relu]}}\nlayers:\n  - {block: b, with: {c: 1}}\n", 6,
     "the block has no parameter c"},
    {HEAD "blocks: {b: {parameters: {c}, layers: [relu]}}\nlayers:\n  - {block: b}\n", 6, "needs a value for c"},
    {HEAD "blocks: {b: {layers: [{block: b}]}}\nlayers: [{block: b}]\n", 4, "does b contain itself?"},
    {HEAD "blocks: {b: {layers: []}, c: {layers: [{block: b, repeat: 99999}]}}\n"
          "layers: [{block: c, repeat: 99999}]\n",
     4, "more than 400000 entries"},
    {HEAD "blocks: {b: {layers: [relu, relu]}}\nlayers: [{block: b, repeat: 60000}]\n", 4, "at most 100000 layers"},
    {HEAD "blocks: {b: {layers: [relu]}}\nlayers: [{block: b, repeat: 100001}]\n", 5,
     "100001 is outside 0 .. 100000"},
    {HEAD "blocks: {b: []}\nlayers: [relu]\n", 4, "parameters and layers of a block"},
    {HEAD "parameters: {a: b, b: 1}\nlayers: [relu]\n", 4, "unknown parameter b"},
    {"paradl: model/1\nname: t\nextends: no-such-model\n", 3, "no-such-model"},
    {"paradl: model/1\nname: t\nextends: vgg16\nlayers: [relu]\n", 4, "layers"},
    {"paradl: model/1\nname: t\nextends: vgg16\nparameters: {depth: 3}\n", 4, "has no parameter depth"},
    {"paradl: model/1\nname: t\ntable: true\ninput: {channels: 3}\nlayers:\n  - relu\n", 6,
     "x: [channels, extents...]"},
};

static void reports_mistakes_with_their_line(void)
{
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        pdl_model_t *model = NULL;
        char         place[32];
        pdl_status_t status =
            pdl_model_read_yaml_memory(mistakes[i].text, strlen(mistakes[i].text), "bad.yaml", &model);

        snprintf(place, sizeof(place), "bad.yaml:%d:", mistakes[i].line);
        if (status == PDL_OK || strncmp(pdl_error_message(), place, strlen(place)) != 0 ||
            strstr(pdl_error_message(), mistakes[i].message) == NULL || strchr(pdl_error_message(), '\n') != NULL) {
            test_fail_at(__FILE__, __LINE__);
            printf("case %zu: \"%s\", expected %s ... %s\n", i, status ? pdl_error_message() : "no error", place,
                   mistakes[i].message);
        }
        CHECK(model == NULL);
    }
}

/* A path is relative to the file that names it. */
static void extends_files_beside_it(void)
{
    static const char base[] =
        "paradl: model/1\nname: b\nparameters: {c: 3}\ninput: {channels: c}\nlayers: [relu]\n";
    static const char child[] = "paradl: model/1\nname: c\nextends: base.yaml\nparameters: {c: 7}\n";

    pdl_model_t *model = NULL;

    scratch_file("base.yaml", base, strlen(base));
    REQUIRE_OK(pdl_model_load(scratch_file("child.yaml", child, strlen(child)), &model));
    if (model != NULL) CHECK_INT(pdl_model_input(model).channels, 7);
    pdl_model_destroy(model);
}

static void refuses_cycles_of_extension(void)
{
    static const char a[] = "paradl: model/1\nname: a\nextends: ./b.yaml\n";
    static const char b[] = "paradl: model/1\nname: b\nextends: ./a.yaml\n";

    pdl_model_t *model = NULL;

    scratch_file("a.yaml", a, strlen(a));
    CHECK_ERROR(pdl_model_load(scratch_file("b.yaml", b, strlen(b)), &model), "is there a cycle?");
    CHECK(model == NULL);
}

static void writes_what_it_reads(void)
{
    static const char text[] =
        "paradl: model/1\nname: \"odd \\\"name\\\"\"\ndescription: \"two\\nlines\"\ninput: {name: x, channels: 4, "
        "size: [8, 8, 8]}\n"
        "layers:\n"
        "  - conv: {name: \"a:b, {c}\", out: 6, kernel: [3, 2, 1], pad: [1, 0, 0], pad_high: [0, 1, 0], groups: "
        "2}\n"
        "  - conv_transpose: {out: 4, kernel: 3, stride: 2, pad: 1, output_pad: 1, dilation: 2}\n"
        "  - avg_pool: {kernel: 3, pad: 1, stride: 2, count_padding: true}\n"
        "  - input: {name: other, tokens: 7, channels: 5}\n"
        "  - linear: {name: y, out: 12, init: normal, std: 0.1/3, bias: false}\n"
        "  - linear: {name: z, out: 5}\n"
        "  - linear: {name: w, out: 12, tied: y}\n"
        "  - attention: {heads: 2, rotary: true, rate: 0.1}\n"
        "  - upsample: {size: [5, 6, 7], from: avg_pool, seconds: 0.25}\n"
        "  - upsample: {factor: [1, 2, 3], bilinear: true}\n";

    pdl_model_t *model = read_text(text), *again = NULL;
    char        *written = NULL;
    size_t       length = 0;
    FILE        *stream = open_memstream(&written, &length);

    if (stream == NULL) exit(1);
    CHECK_OK(pdl_model_write_yaml(model, stream));
    fclose(stream);
    CHECK_OK(pdl_model_read_yaml_memory(written, length, "written", &again));
    if (again != NULL) {
        CHECK(pdl_model_hash(model) == pdl_model_hash(again));
        CHECK_STR(pdl_model_name(again), "odd \"name\"");
        CHECK_STR(pdl_model_description(again), "two\nlines");
        CHECK_STR(pdl_model_layer(again, 1)->name, "a:b, {c}");
    }
    free(written);
    pdl_model_destroy(model);
    pdl_model_destroy(again);
}

int main(void)
{
    if (!scratch_begin()) return 1;
    RUN(evaluates_expressions);
    RUN(expands_blocks);
    RUN(a_block_reads_the_input_of_the_one_before);
    RUN(reads_short_forms_and_padding);
    RUN(extends_built_in_models);
    RUN(reports_mistakes_with_their_line);
    RUN(extends_files_beside_it);
    RUN(refuses_cycles_of_extension);
    RUN(writes_what_it_reads);
    scratch_end();
    return test_done();
}
