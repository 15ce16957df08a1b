/* The validation models reproduce the layer tables of the original study, row by row: shapes, kernels, items and
   operations. The graph models, whose shapes are inferred, and the .net tables are held against the same rows. */
#include <paradl/base/csv.h>
#include <paradl/model/model.h>
#include <paradl/model/traits.h>

#include "test.h"

#include <inttypes.h>
#include <stdlib.h>

static const pdl_csv_t *table;
static size_t           row;

static const char *cell(const char *column)
{
    return pdl_csv_cell(table, row, pdl_csv_column(table, column));
}

static void check_count(const pdl_layer_t *layer, const char *column, int64_t value)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRId64, value);
    if (strcmp(text, cell(column)) == 0) return;
    test_fail_at(__FILE__, __LINE__);
    printf("row %zu (%s), %s of %s is %s, expected %s\n", row, cell("name"), column, layer->name, text,
           cell(column));
}

static void check_extents(const pdl_layer_t *layer, const char *column, const int64_t *extents, int rank)
{
    char   text[96] = "";
    size_t length = 0;

    for (int d = 0; d < rank; d++)
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%" PRId64, d ? "x" : "", extents[d]);
    if (strcmp(text, cell(column)) == 0) return;
    test_fail_at(__FILE__, __LINE__);
    printf("row %zu (%s), %s of %s is %s, expected %s\n", row, cell("name"), column, layer->name, text,
           cell(column));
}

/* A linear layer of a graph reads the flattened input: its items agree, its extents are gone. */
static void check_row(const pdl_layer_t *layer)
{
    bool fc = layer->type == PDL_LAYER_LINEAR, vector = layer->in.rank == 0;
    bool norm = layer->type == PDL_LAYER_BATCH_NORM;
    int  rank = layer->in.rank;

    CHECK_STR(pdl_layer_traits(layer)->original, cell("type"));
    check_count(layer, "F", layer->out.channels);
    if (!vector) {
        check_count(layer, "C", layer->in.channels);
        check_extents(layer, "X", layer->in.extent, rank);
        check_extents(layer, "Y", layer->out.extent, rank);
        if (cell("K")[0] != '\0') check_extents(layer, "K", layer->kernel, rank);
    }
    if (!fc && cell("K")[0] != '\0') check_count(layer, "stride_inferred", layer->stride[0]);
    check_count(layer, "x_items", pdl_shape_elements(&layer->in));
    check_count(layer, "y_items", layer->y_elements);
    check_count(layer, "w_items", norm ? 0 : layer->weights);
    check_count(layer, "fw_flop_per_sample", layer->flop_forward);
    check_count(layer, "bw_flop_per_sample", layer->flop_backward_data + layer->flop_backward_weight);
}

static void check_model(const char *name, const char *file, bool norms)
{
    char         path[512];
    pdl_csv_t   *read = NULL;
    pdl_model_t *model = NULL;

    snprintf(path, sizeof(path), "%s/tests/model/tables/%s.csv", PDL_TEST_SOURCE, file);
    CHECK_OK(pdl_csv_read_file(path, &read));
    REQUIRE_OK(pdl_model_load(name, &model));
    if (read == NULL || model == NULL) exit(test_done());
    table = read;
    row = 0;
    for (int i = 0; i < pdl_model_layer_count(model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);

        if (pdl_layer_traits(layer)->original == NULL) continue; /* input, flatten and loss are not in the tables */
        check_row(layer);
        if (norms) check_count(layer, "bn_param_items", layer->type == PDL_LAYER_BATCH_NORM ? layer->weights : 0);
        row++;
    }
    CHECK_INT(row, pdl_csv_rows(read));
    pdl_model_destroy(model);
    pdl_csv_destroy(read);
}

static void resnet50(void)
{
    check_model("resnet50-226", "resnet50_full", true);
    check_model("resnet50-orig", "resnet50_orig", false);
}

static void resnet152(void)
{
    check_model("resnet152-226", "resnet152_full", true);
}

static void vgg16(void)
{
    check_model("vgg16-226", "vgg16", true);
    check_model("vgg16-orig", "vgg16", true);
}

static void alexnet(void)
{
    check_model("alexnet-226", "alexnet", true);
    check_model("alexnet-orig", "alexnet", true);
}

static void cosmoflow(void)
{
    check_model("cosmoflow-256-orig", "cosmoflow256", true);
    check_model("cosmoflow-512-orig", "cosmoflow512", true);
    check_model("cosmoflow256-orig", "cosmoflow256", true);
    check_model("cosmoflow512-orig", "cosmoflow512", true);
}

int main(void)
{
    RUN(resnet50);
    RUN(resnet152);
    RUN(vgg16);
    RUN(alexnet);
    RUN(cosmoflow);
    return test_done();
}
