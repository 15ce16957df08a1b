/*
 * No network of the zoo is projected to compute faster than its device can, on any machine and in any precision that
 * the device has. Winograd's algorithm needs 2.25 times fewer multiplications than the operations that are counted, so
 * networks of 3x3 convolutions may be faster than these over the peak (docs/accuracy.md).
 */
#include <paradl/base/share.h>
#include <paradl/oracle/oracle.h>

#include "test.h"

static const char *const extensions[] = {".yaml", NULL};

static bool winograd(const pdl_layer_t *layer)
{
    return layer->type == PDL_LAYER_CONV && layer->out.rank == 2 && layer->kernel[0] == 3 &&
           layer->kernel[1] == 3 && layer->stride[0] == 1 && layer->stride[1] == 1;
}

/* Of one sample; attention may skip half of what is masked. */
static double least_flop(const pdl_model_t *model, pdl_precision_t precision)
{
    double sum = 0;

    for (int i = 0; i < pdl_model_layer_count(model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);
        double flop = (double)(layer->flop_forward + layer->flop_backward_data + layer->flop_backward_weight);

        if (layer->type == PDL_LAYER_CONV || layer->type == PDL_LAYER_LINEAR)
            sum += precision == PDL_FP32 && winograd(layer) ? flop / 2.25 : flop;
    }
    return sum;
}

static void check_model(const char *name, const pdl_model_t *model, const pdl_system_t *system)
{
    static const pdl_precision_t precisions[] = {PDL_FP32, PDL_TF32, PDL_FP16, PDL_FP8, PDL_NVFP4};
    pdl_parameters_t             parameters;
    pdl_oracle_t                *oracle;

    CHECK_OK(pdl_parameters_choose(NULL, system, &parameters));
    REQUIRE_OK(pdl_oracle_create(model, system, &parameters, &oracle));
    for (size_t i = 0; i < sizeof(precisions) / sizeof(precisions[0]); i++) {
        double           peak = pdl_system_peak(system, 0, 1, precisions[i]); /* of the device that computes */
        pdl_config_t     config = pdl_config_default("data");
        pdl_projection_t p;

        if (system->device.peak_flop_per_s[precisions[i]] <= 0) continue;
        config.batch = 64;
        config.precision = precisions[i];
        CHECK_OK(pdl_oracle_evaluate(oracle, &config, NULL, &p));
        double share = 64 * least_flop(model, precisions[i]) / (p.forward_s + p.backward_s) / peak;
        if (share > 1)
            printf("%s on %s in %s: %.2f of the peak\n", name, system->name, pdl_precision_names[precisions[i]],
                   share);
        CHECK(share <= 1);
    }
    pdl_oracle_destroy(oracle);
}

static void stays_below_the_peak(void)
{
    char **models, **systems;
    size_t model_count, system_count;

    CHECK_OK(pdl_share_list("models", extensions, &models, &model_count));
    CHECK_OK(pdl_share_list("systems", extensions, &systems, &system_count));
    for (size_t m = 0; m < model_count; m++) {
        pdl_model_t *model;

        REQUIRE_OK(pdl_model_load(models[m], &model));
        for (size_t s = 0; s < system_count; s++) {
            const pdl_system_t *system;

            REQUIRE_OK(pdl_system_load(systems[s], &system));
            check_model(models[m], model, system);
            pdl_system_destroy(system);
        }
        pdl_model_destroy(model);
    }
    pdl_share_free_list(models, model_count);
    pdl_share_free_list(systems, system_count);
}

int main(void)
{
    RUN(stays_below_the_peak);
    return test_done();
}
