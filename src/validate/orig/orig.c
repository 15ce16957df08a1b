/*
 * --formulas orig: makes a question ready, checks limits, and asks the formulas for memory and time.
 */
#include "validate/orig/case.h"

#include <paradl/base/units.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const pdl__orig_strategy_t strategies[] = {
    {"serial", PDL__ORIG_SAMPLES, PDL__ORIG_ONE_SAMPLE, pdl__orig_limit_serial, pdl__orig_memory_whole,
     pdl__orig_time_data},
    {"data", PDL__ORIG_SAMPLES, PDL__ORIG_ONE_SAMPLE, pdl__orig_limit_data, pdl__orig_memory_whole,
     pdl__orig_time_data},
    {"spatial", PDL__ORIG_MODEL, PDL__ORIG_ONE_SAMPLE, pdl__orig_limit_spatial, pdl__orig_memory_spatial,
     pdl__orig_time_spatial},
    {"filter", PDL__ORIG_MODEL, PDL__ORIG_BATCH, pdl__orig_limit_filter, pdl__orig_memory_filter,
     pdl__orig_time_filter},
    {"channel", PDL__ORIG_MODEL, PDL__ORIG_BATCH, pdl__orig_limit_channel, pdl__orig_memory_filter,
     pdl__orig_time_filter},
    {"pipeline", PDL__ORIG_MODEL, PDL__ORIG_BATCH, pdl__orig_limit_pipeline, pdl__orig_memory_pipeline,
     pdl__orig_time_pipeline},
    {"data+filter", PDL__ORIG_BOTH, PDL__ORIG_ONE_SAMPLE, pdl__orig_limit_data_filter, pdl__orig_memory_data_filter,
     pdl__orig_time_data_filter},
    {"data+spatial", PDL__ORIG_BOTH, PDL__ORIG_NEVER, pdl__orig_limit_data_spatial, pdl__orig_memory_data_spatial,
     pdl__orig_time_data_spatial},
};
#define STRATEGY_COUNT (sizeof(strategies) / sizeof(strategies[0]))

const char *pdl_orig_strategy_name(int i)
{
    return i >= 0 && (size_t)i < STRATEGY_COUNT ? strategies[i].name : NULL;
}

static pdl_status_t find_strategy(const char *name, const pdl__orig_strategy_t **strategy)
{
    for (size_t i = 0; i < STRATEGY_COUNT; i++) {
        if (strcmp(strategies[i].name, name) != 0) continue;
        *strategy = &strategies[i];
        return PDL_OK;
    }
    return pdl_error(PDL_ERR_INPUT,
                     "the original formulas have no strategy '%.40s'; they know serial, data, spatial, filter, "
                     "channel, pipeline, data+filter and data+spatial",
                     name);
}

static pdl_status_t check_question(const pdl_orig_case_t *question)
{
    if (question->pe < 1 || question->batch < 1 || question->dataset_samples < 1)
        return pdl_error(PDL_ERR_INPUT, "devices, batch and samples of the data set must be at least 1");
    if (question->groups < 0 || question->segments < 0 || !(question->divisor >= 0))
        return pdl_error(PDL_ERR_INPUT, "groups, segments and contention divisor must not be negative");
    if (pdl_model_layer_count(question->model) < 2)
        return pdl_error(PDL_ERR_INPUT, "model %s has no layers", pdl_model_name(question->model));
    return PDL_OK;
}

/* Sets p1 and p2; false when the devices do not form groups of equal size. */
static bool set_mesh(const pdl_orig_case_t *question, pdl__orig_mesh_t mesh, int64_t *p1, int64_t *p2)
{
    int64_t pe = question->pe;
    int64_t node = question->platform ? question->platform->pe_per_node : question->system->level[0].fanout;

    if (mesh == PDL__ORIG_BOTH) {
        *p1 = question->groups > 0 ? question->groups : pe / node;
        *p2 = *p1 > 0 ? pe / *p1 : 0;
    } else {
        *p1 = mesh == PDL__ORIG_SAMPLES ? pe : 1;
        *p2 = pe / *p1;
    }
    return *p1 * *p2 == pe && (mesh != PDL__ORIG_BOTH || question->groups > 0 || *p2 == node);
}

/* Stages are filled one after the other until the next layer would exceed a p-th of the time. */
static void cut_stages(pdl__orig_t *orig)
{
    double filled = 0, share = orig->seconds / (double)orig->p2;
    int    stage = 0;

    for (int i = 0; i < orig->count; i++) {
        pdl__orig_layer_t *layer = &orig->layers[i];

        if (i > 0 && filled + layer->seconds > share && stage + 1 < orig->p2) {
            stage++;
            filled = 0;
        }
        filled += layer->seconds;
        layer->stage = stage;
    }
    orig->stages = stage + 1;
}

/* Layer i here is layer i + 1 of the model, whose first one is the input. */
static pdl_status_t set_layers(const pdl_orig_case_t *question, pdl__orig_t *orig)
{
    double speed =
        question->platform ? question->platform->flop_per_s : question->system->device.peak_flop_per_s[PDL_FP64];
    double      *seconds = malloc(((size_t)orig->count + 1) * sizeof(*seconds));
    pdl_status_t status;

    if (seconds == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for %d layers", orig->count);
    status = pdl_orig_layer_seconds(question->model, speed, seconds);
    for (int i = 0; !status && i < orig->count; i++) {
        const pdl_layer_t *layer = pdl_model_layer(question->model, i + 1);

        orig->layers[i] = (pdl__orig_layer_t){
            .layer = layer,
            .x = (double)layer->x_elements,
            .y = (double)layer->y_elements,
            .w = pdl__orig_weights(layer),
            .seconds = seconds[i + 1],
            .split = question->split == NULL || question->split[i + 1],
        };
        orig->w += orig->layers[i].w;
        orig->seconds += orig->layers[i].seconds;
        if (orig->layers[i].split) orig->last_split = i;
    }
    free(seconds);
    return status;
}

static void set_sizes(const pdl_orig_case_t *question, pdl__orig_t *orig)
{
    const pdl_orig_platform_t *platform = question->platform;

    orig->system = question->system;
    orig->pe = question->pe;
    orig->batch = question->batch;
    orig->D = (double)question->dataset_samples;
    orig->b = (double)question->batch / (double)orig->p1;
    orig->I = ceil(orig->D / (double)question->batch);
    orig->segments = question->segments > 0 ? question->segments : question->pe;
    orig->divisor = question->divisor > 0 ? question->divisor : 2 * (double)orig->p2;
    orig->memory_bytes = platform ? platform->memory_bytes : question->system->device.memory_bytes;
    orig->max_pe = platform ? platform->max_pe : question->system->pe_count;
    orig->last_split = -1;
}

static void check_limits(const pdl__orig_t *orig, const pdl__orig_strategy_t *strategy, pdl_orig_result_t *result)
{
    if (orig->pe > orig->max_pe) {
        pdl__orig_refuse(result, "%lld devices are more than the %lld of the machine", (long long)orig->pe,
                         (long long)orig->max_pe);
    } else {
        strategy->limit(orig, result);
    }
}

static void check_memory(const pdl__orig_t *orig, pdl__orig_memory_check_t check, pdl_orig_result_t *result)
{
    char need[PDL_FORMAT_SIZE], have[PDL_FORMAT_SIZE];

    pdl_format_bytes(result->memory_bytes, need);
    pdl_format_bytes(orig->memory_bytes, have);
    if (check != PDL__ORIG_NEVER && result->samples_fit < 1) {
        pdl__orig_refuse(result, "the model and one sample need more than the %s of a device", have);
    } else if (check == PDL__ORIG_BATCH && !result->fits) {
        pdl__orig_refuse(result, "a device needs %s and has %s", need, have);
    }
}

static void project(const pdl__orig_t *orig, const pdl__orig_strategy_t *strategy, pdl_orig_result_t *result)
{
    pdl__orig_footprint_t footprint;

    check_limits(orig, strategy, result);
    if (!result->feasible) return;
    footprint = strategy->memory(orig);
    result->memory_bytes = 2 * PDL__ORIG_ITEM_BYTES * (orig->b * footprint.per_sample + footprint.fixed);
    result->samples_fit =
        fmax(0, orig->memory_bytes / (2 * PDL__ORIG_ITEM_BYTES) - footprint.fixed) / footprint.per_sample;
    result->fits = result->memory_bytes <= orig->memory_bytes;
    check_memory(orig, strategy->memory_check, result);
    strategy->time(orig, result);
    result->comm_s =
        result->gradient_s + result->collective_s + result->halo_s + result->gather_s + result->transfer_s;
}

pdl_status_t pdl_orig_project(const pdl_orig_case_t *question, const char *name, pdl_orig_result_t *result)
{
    const pdl__orig_strategy_t *strategy = NULL;
    pdl__orig_t                 orig = {.count = pdl_model_layer_count(question->model) - 1};
    pdl_orig_result_t           answer = {.feasible = true};
    pdl_status_t                status = find_strategy(name, &strategy);

    if (!status) status = check_question(question);
    if (status) return status;
    if (!set_mesh(question, strategy->mesh, &orig.p1, &orig.p2)) {
        pdl__orig_refuse(&answer, "%lld devices do not form groups of equal size", (long long)question->pe);
        *result = answer;
        return PDL_OK;
    }
    set_sizes(question, &orig);
    orig.layers = calloc((size_t)orig.count, sizeof(*orig.layers));
    if (orig.layers == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for %d layers", orig.count);
    status = set_layers(question, &orig);
    if (!status) {
        cut_stages(&orig);
        answer.iterations = (int64_t)orig.I;
        project(&orig, strategy, &answer);
        *result = answer;
    }
    free(orig.layers);
    return status;
}

pdl_status_t pdl_orig_batch(const pdl_orig_case_t *question, const char *name, int64_t samples, int64_t *batch)
{
    const pdl__orig_strategy_t *strategy = NULL;
    int64_t                     p1, p2, product;
    pdl_status_t                status = find_strategy(name, &strategy);

    if (status) return status;
    if (samples < 1 || question->pe < 1) return pdl_error(PDL_ERR_INPUT, "devices and samples must be at least 1");
    if (!set_mesh(question, strategy->mesh, &p1, &p2))
        return pdl_error(PDL_ERR_INPUT, "%lld devices do not form groups of equal size", (long long)question->pe);
    if (__builtin_mul_overflow(samples, p1, &product))
        return pdl_error(PDL_ERR_INPUT, "%lld samples on each of %lld devices are too many", (long long)samples,
                         (long long)p1);
    *batch = product;
    return PDL_OK;
}
