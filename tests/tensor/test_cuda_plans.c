/*
 * cuDNN has plans for all convolutions of networks, which can be found out without a GPU: from the description of an H200, in bf16
 * and in fp32 with rounded factors. Every plan can be made again from its name, as it is kept in a file of choices. Skipped where CUDA or cuDNN
 * is missing.
 */
#include "base/plugin.h"
#include "tensor/plugin/cuda/api.h"
#include "test.h"

#include <paradl/model/model.h>
#include <paradl/model/traits.h>

#include <stdlib.h>
#include <string.h>

#define SKIPPED 77

static const pdl__cuda_api_t *api;
static char                   device[2048];

static void read_device(void)
{
    FILE  *file = fopen(PDL_TEST_SOURCE "/tests/tensor/h200.json", "r");
    size_t length = file != NULL ? fread(device, 1, sizeof(device) - 1, file) : 0;

    CHECK(length > 100);
    if (file != NULL) fclose(file);
}

static pdl__cuda_form_t form_of(const pdl_layer_t *layer, int samples, pdl_dtype_t type)
{
    pdl__cuda_form_t form = {.type = type,
                             .samples = samples,
                             .space = layer->in.rank,
                             .groups = (int)layer->groups,
                             .channels = (int)(layer->in.channels + 7) / 8 * 8,
                             .filters = (int)(layer->out.channels + 7) / 8 * 8};

    form.wide_stride = form.channels;
    form.narrow_stride = form.filters;
    for (int d = 0; d < PDL_MAX_SPACE; d++) {
        bool used = d < layer->in.rank;

        form.wide[d] = (int)layer->in.extent[d];
        form.narrow[d] = (int)layer->out.extent[d];
        form.kernel[d] = used ? (int)layer->kernel[d] : 1;
        form.step[d] = used ? (int)layer->stride[d] : 1;
        form.dilation[d] = used ? (int)layer->dilation[d] : 1;
        form.pad_low[d] = used ? (int)layer->pad_low[d] : 0;
    }
    return form;
}

static void check_form(const char *name, const pdl__cuda_form_t *form)
{
    pdl__conv_wish_t wish = {.workspace = (size_t)256 << 20};
    char             plan[PDL__CONV_PRODUCTS][PDL__CONV_NAME] = {"", "", ""};
    pdl_status_t     status = api->convs->propose(device, form, &wish, plan);

    if (status == PDL_ERR_LIMIT) {
        printf("skipped: %s\n", pdl_error_message());
        exit(SKIPPED);
    }
    if (status != PDL_OK) printf("%s: %s\n", name, pdl_error_message());
    CHECK_OK(status);
    for (int i = 0; i < PDL__CONV_PRODUCTS; i++) CHECK(strlen(plan[i]) > 0);
    /* Engine 0 is the slowest by far; for images it may come first in fp32. */
    for (int i = 0; i < PDL__CONV_PRODUCTS; i++) CHECK(strcmp(plan[i], "0") != 0 || form->channels == 8);
}

/* One of every class of layers. */
static void check_model(const char *name, int samples, pdl_dtype_t type)
{
    pdl_model_t *model;
    bool         seen[1024] = {false};

    REQUIRE_OK(pdl_model_load(name, &model));
    for (int i = 0; i < pdl_model_layer_count(model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);
        pdl__cuda_form_t   form;

        if (layer->type != PDL_LAYER_CONV || layer->class_id >= 1024 || seen[layer->class_id]) continue;
        seen[layer->class_id] = true;
        form = form_of(layer, samples, type);
        check_form(layer->name, &form);
    }
    pdl_model_destroy(model);
}

static void resnet50_has_plans(void)
{
    check_model("resnet50", 256, PDL_DTYPE_BF16);
}

static void resnet18_has_plans_in_fp32(void)
{
    check_model("resnet18", 32, PDL_DTYPE_F32);
}

/* The first layer of ResNet-50 with its image folded. */
static void a_folded_image_has_plans(void)
{
    pdl__cuda_form_t form = {.type = PDL_DTYPE_BF16,
                             .samples = 256,
                             .space = 2,
                             .groups = 1,
                             .channels = 16,
                             .wide_stride = 16,
                             .filters = 64,
                             .narrow_stride = 64,
                             .wide = {112, 112, 1},
                             .narrow = {112, 112, 1},
                             .kernel = {4, 4, 1},
                             .step = {1, 1, 1},
                             .dilation = {1, 1, 1},
                             .pad_low = {2, 2, 0}};

    check_form("folded", &form);
}

/* What a rank has at the border of space: padding behind its input alone, which is smaller than a window. With such a form the
   heuristics of cuDNN 9.19 end the process on a GPU. */
static void cudnn_is_not_asked_for_small_borders(void)
{
    pdl__cuda_form_t form = {.type = PDL_DTYPE_F32,
                             .samples = 5,
                             .space = 2,
                             .groups = 1,
                             .channels = 8,
                             .wide_stride = 8,
                             .filters = 8,
                             .narrow_stride = 8,
                             .wide = {6, 2, 1},
                             .narrow = {6, 1, 1},
                             .kernel = {3, 3, 1},
                             .step = {1, 1, 1},
                             .dilation = {1, 1, 1},
                             .pad_low = {1, 0, 0},
                             .bias = true};
    pdl__conv_wish_t wish = {.workspace = (size_t)256 << 20};
    char             plan[PDL__CONV_PRODUCTS][PDL__CONV_NAME] = {"", "", ""};

    CHECK_INT(api->convs->propose(device, &form, &wish, plan), PDL_ERR_UNSUPPORTED);
    form.wide[1] = 3; /* whole under a window */
    CHECK_OK(api->convs->propose(device, &form, &wish, plan));
}

int main(void)
{
    const void *table = NULL;

    if (!pdl__plugin_found(PDL__PLUGIN_CUDA) ||
        pdl__plugin_load(PDL__PLUGIN_CUDA, "plans", sizeof(pdl__cuda_api_t), &table) != PDL_OK) {
        printf("skipped: this build has no CUDA\n");
        return SKIPPED;
    }
    api = table;
    read_device();
    RUN(a_folded_image_has_plans);
    RUN(resnet50_has_plans);
    RUN(resnet18_has_plans_in_fp32);
    RUN(cudnn_is_not_asked_for_small_borders);
    return test_done();
}
