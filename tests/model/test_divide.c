/*
 * Networks divided into narrower ones: together they have about the weights and the operations of the whole, every
 * shape fits, and classes stay.
 */
#include "test.h"
#include <paradl/model/model.h>

static void divide(const char *name, int64_t nets, double tolerance, const char *cut)
{
    pdl_model_t       *model = NULL, *narrow = NULL;
    pdl_model_totals_t whole, part;
    char               text[200];

    REQUIRE_OK(pdl_model_load(name, &model));
    CHECK_OK(pdl_model_divide(model, nets, &narrow));
    pdl_model_totals(model, &whole);
    pdl_model_totals(narrow, &part);
    int count = pdl_model_layer_count(model);
    CHECK_INT(pdl_model_layer_count(narrow), count);
    CHECK_INT(pdl_model_layer(narrow, count - 1)->in.channels, pdl_model_layer(model, count - 1)->in.channels);
    double weights = (double)nets * (double)part.weights / (double)whole.weights;
    double macs = (double)nets * (double)part.macs / (double)whole.macs;
    snprintf(text, sizeof(text), "%s in %lld: weights x %.3f, operations x %.3f, cut after %s", name,
             (long long)nets, weights, macs, pdl_model_layer(narrow, pdl_model_cut(narrow))->name);
    printf("     %s\n", text);
    CHECK_NEAR(weights, 1, tolerance);
    CHECK_STR(pdl_model_layer(narrow, pdl_model_cut(narrow))->name, cut);
    pdl_model_destroy(narrow);
    pdl_model_destroy(model);
}

static void networks_are_divided(void)
{
    divide("lenet", 4, 0.1, "pool1");
    divide("resnet18-cifar", 4, 0.1, "relu");
    divide("resnet18-cifar", 2, 0.1, "relu");
    divide("wrn-28-10", 4, 0.1, "block1.0.relu1");
    divide("wrn-28-10", 2, 0.1, "block1.0.relu1");
    divide("vgg16", 4, 0.1, "features.4");
    divide("lenet", 1, 0, "pool1");
}

static pdl_status_t divided(const char *layers, int64_t nets, pdl_model_t **narrow)
{
    char         text[2000];
    pdl_model_t *model;

    snprintf(text, sizeof(text), "paradl: model/1\nname: x\ninput: {channels: 8, size: [8, 8]}\nlayers:\n%s",
             layers);
    CHECK_OK(pdl_model_read_yaml_memory(text, strlen(text), "x", &model));
    pdl_status_t status = pdl_model_divide(model, nets, narrow);
    pdl_model_destroy(model);
    return status;
}

static int64_t width_of(const pdl_model_t *model, const char *name)
{
    return pdl_model_layer(model, pdl_model_find_layer(model, name))->out.channels;
}

static void groups_and_concatenations_fit(void)
{
    pdl_model_t *m = NULL;

    CHECK_OK(divided("  - conv: {name: a, out: 24, kernel: 1}\n"
                     "  - conv: {name: g, out: 24, kernel: 3, pad: 1, groups: 12}\n"
                     "  - conv: {name: d, out: 24, kernel: 3, pad: 1, groups: 24}\n"
                     "  - concat: {name: both, from: [a, d]}\n"
                     "  - conv: {name: b, out: 40, kernel: 1}\n"
                     "  - dropout: {name: drop, rate: 0.4}\n"
                     "  - global_avg_pool: {name: p}\n  - flatten: {name: f}\n"
                     "  - linear: {name: fc, out: 7}\n  - cross_entropy: {name: loss}\n",
                     4, &m));
    CHECK_INT(width_of(m, "a"), 12);
    CHECK_INT(width_of(m, "both"), 24);
    CHECK_INT(width_of(m, "fc"), 7);
    CHECK_INT(pdl_model_layer(m, pdl_model_find_layer(m, "g"))->groups, 3);
    CHECK_INT(pdl_model_layer(m, pdl_model_find_layer(m, "d"))->groups, 12);
    CHECK_NEAR(pdl_model_layer(m, pdl_model_find_layer(m, "drop"))->rate, 0.1, 1e-12);
    pdl_model_destroy(m);
}

static void others_are_refused(void)
{
    pdl_model_t *model = NULL, *narrow = NULL;

    REQUIRE_OK(pdl_model_load("gpt-char-small", &model));
    CHECK_ERROR(pdl_model_divide(model, 4, &narrow), "only networks of convolutions");
    CHECK_ERROR(pdl_model_divide(model, 0, &narrow), "1 to 64");
    pdl_model_destroy(model);
    /* A sum of a convolution and a concatenation whose rounded widths differ. */
    CHECK_ERROR(divided("  - conv: {name: a, out: 3, kernel: 1}\n  - conv: {name: b, out: 3, kernel: 1}\n"
                        "  - concat: {name: ab, from: [a, b]}\n  - conv: {name: c, from: a, out: 6, kernel: 1}\n"
                        "  - add: {name: sum, from: [ab, c]}\n  - flatten: {name: f}\n"
                        "  - linear: {name: fc, out: 7}\n  - cross_entropy: {name: loss}\n",
                        4, &narrow),
                "layer sum");
}

int main(void)
{
    RUN(networks_are_divided);
    RUN(groups_and_concatenations_fit);
    RUN(others_are_refused);
    return test_done();
}
