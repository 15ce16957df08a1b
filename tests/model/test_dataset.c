/* Data set descriptions: the built-in ones, and a line for every mistake. */
#include <paradl/base/share.h>
#include <paradl/model/dataset.h>

#include "test.h"

#define HEAD "paradl: data/1\nname: d\n"

static void reads_built_in_descriptions(void)
{
    static const struct {
        const char *name;
        int64_t     samples, elements;
        double      bytes;
    } expected[] = {
        {"mnist", 60000, 784, 785},
        {"fashion-mnist", 60000, 784, 785},
        {"cifar10", 50000, 3072, 3073},
        {"cifar100", 50000, 3072, 3074},
        {"tinyshakespeare", 3921, 256, 512},
        {"imagenet", 1281167, 150528, 110e3},
        {"cosmoflow", 1584, 536870912, 2147483648.0},
        {"deepcam", 121266, 14155776, 60162048},
        {"openwebtext", 7200000, 1024, 4096},
        {"synthetic", 0, 0, 0},
    };

    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        pdl_dataset_t data = {.samples = -1};

        REQUIRE_OK(pdl_dataset_load(expected[i].name, &data));
        CHECK_STR(data.name, expected[i].name);
        CHECK_INT(data.samples, expected[i].samples);
        CHECK_INT(pdl_shape_elements(&data.shape), expected[i].elements);
        CHECK_NEAR(data.bytes_per_sample, expected[i].bytes, 0);
    }
}

static void reads_every_field(void)
{
    static const char text[] =
        HEAD "samples: 10\nshape: {tokens: 8, channels: 2}\nbytes_per_sample: 2KiB\ndecode: 3ms\n";
    static const char mask[] =
        HEAD "samples: 10\nshape: {channels: 3, size: [4, 5]}\ntargets: {classes: 6, per: position}\n";

    pdl_dataset_t data = {.samples = -1};

    CHECK_OK(pdl_dataset_read_memory(text, strlen(text), "d.yaml", &data));
    CHECK(data.shape.sequence && data.shape.rank == 1);
    CHECK_INT(data.shape.channels, 2);
    CHECK_NEAR(data.bytes_per_sample, 2048, 0);
    CHECK_NEAR(data.decode_s_per_sample, 0.003, 1e-15);
    CHECK_INT(data.target_count, 0);
    CHECK_OK(pdl_dataset_read_memory(mask, strlen(mask), "d.yaml", &data));
    CHECK(data.target == PDL_TARGET_MASK && !data.tokens);
    CHECK_INT(data.target_count, 20);
    CHECK_INT(data.classes, 6);
}

static void reports_mistakes_with_their_line(void)
{
    static const char *const cases[][2] = {
        {"paradl: model/1\n", "d.yaml:1:"},
        {"paradl: data/1\nsamples: 3\n", "name"},
        {HEAD, "samples"},
        {HEAD "samples: 0\n", "d.yaml:3:"},
        {HEAD "samples: many\n", "d.yaml:3:"},
        {HEAD "samples: 1\nsize: 3\n", "d.yaml:4:"},
        {HEAD "samples: 1\nshape: 3\n", "d.yaml:4:"},
        {HEAD "samples: 1\nshape: {size: [3]}\n", "channels"},
        {HEAD "samples: 1\nshape: {channels: 1, size: [1, 1, 1, 1]}\n",
         "d.yaml:4: expected a list of 1 to 3 extents"},
        {HEAD "samples: 1\nshape: {tokens: 1, size: [1]}\n", "d.yaml:4: a sample has either a size or tokens"},
        {HEAD "samples: 1\nbytes_per_sample: 3s\n", "d.yaml:4:"},
        {HEAD "samples: 1\nshape: {channels: 1, size: [2], vocabulary: 3}\n", "d.yaml:4: a vocabulary is for"},
        {HEAD "samples: 1\nshape: {tokens: 2}\ntargets: {classes: 2}\n", "d.yaml:5: the target of a token"},
        {HEAD "samples: 1\ntargets: {classes: 2, values: 2}\n", "d.yaml:4: expected either classes or values"},
        {HEAD "samples: 1\ntargets: {per: position}\n", "d.yaml:4: expected either classes or values"},
        {HEAD "samples: 1\ntargets: {classes: 2, per: day}\n", "d.yaml:4:"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pdl_dataset_t data = {.samples = -1};

        CHECK_ERROR(pdl_dataset_read_memory(cases[i][0], strlen(cases[i][0]), "d.yaml", &data), cases[i][1]);
        CHECK_INT(data.samples, -1);
    }
}

/* Described sets against models: what is recut, scaled and refused. */
static void fits_sets_to_models(void)
{
    static const struct {
        const char *model, *data, *refusal;
        int64_t     samples;
    } cases[] = {
        {"resnet50", "imagenet", NULL, 1281167},
        {"resnet50", "mnist", NULL, 60000}, /* pictures are scaled and coloured */
        {"gpt-char", "tinyshakespeare", NULL, 3921},
        {"gpt2-124m", "tinyshakespeare", NULL, 980}, /* windows of 1,024 instead of 256 */
        {"cosmoflow-512", "cosmoflow", NULL, 1584},
        {"deepcam", "deepcam", NULL, 121266},
        {"llama2-7b", "synthetic", NULL, 0},
        {"unet", "synthetic", NULL, 0},
        {"cosmoflow-256", "cosmoflow", "reads samples of 4x256x256x256, those of cosmoflow are", 0},
        {"unet", "imagenet", "262144 targets", 0},
        {"lenet", "cifar100", "parameters: {classes: 100}", 0},
        {"bert-large", "mnist", "reads tokens", 0},
        {"lenet", "openwebtext", "reads numbers", 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pdl_dataset_t data;
        pdl_model_t  *model;

        REQUIRE_OK(pdl_model_load(cases[i].model, &model));
        REQUIRE_OK(pdl_dataset_load(cases[i].data, &data));
        pdl_dataset_deliver(model, &data);
        if (cases[i].refusal) {
            CHECK_ERROR(pdl_dataset_check(model, &data, true), cases[i].refusal);
        } else {
            CHECK_OK(pdl_dataset_check(model, &data, true));
            CHECK_INT(data.samples, cases[i].samples);
        }
        pdl_model_destroy(model);
    }
    CHECK_OK(pdl_dataset_check_batch("d", 0, 100));
    CHECK_OK(pdl_dataset_check_batch("d", 100, 100));
    CHECK_ERROR(pdl_dataset_check_batch("d", 99, 100), "fewer than a batch of 100");
}

int main(void)
{
    RUN(fits_sets_to_models);
    RUN(reads_built_in_descriptions);
    RUN(reads_every_field);
    RUN(reports_mistakes_with_their_line);
    return test_done();
}
