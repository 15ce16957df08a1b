/*
 * The batch at which all strategies are compared. Times of different batches do not compare: a larger batch shares out
 * whatever is done once per update.
 */
#include "oracle/search/searcher.h"
#include <stdio.h>
#include <string.h>

enum { MOST_SAMPLES = 64, MOST_TOKENS = 8192, MOST_VALUES = 1 << 24 };

static int64_t power_of_two_within(int64_t limit)
{
    int64_t power = 1;

    while (2 * power <= limit) power *= 2;
    return power;
}

/* Samples per device where nobody says how many, from their size alone: the batch does not depend on machine, precision or
   memory, so that answers for several of them compare. */
static int64_t usual_samples(const pdl_shape_t *sample)
{
    int64_t values = sample->channels;

    if (sample->sequence) return power_of_two_within(MOST_TOKENS / sample->extent[0]);
    for (int i = 0; i < sample->rank; i++) values *= sample->extent[i];
    int64_t most = values > 0 ? MOST_VALUES / values : MOST_SAMPLES;
    return power_of_two_within(most < MOST_SAMPLES ? most : MOST_SAMPLES);
}

static int64_t largest_divisor(int64_t of, int64_t within)
{
    while (within > 1 && of % within != 0) within--;
    return within;
}

static pdl_status_t refuse_batch(int64_t samples, int64_t pe)
{
    return pdl_error(PDL_ERR_INPUT, "%lld samples per device on %lld devices: a batch has at most %d samples",
                     (long long)samples, (long long)pe, INT32_MAX);
}

static void say_usual(const pdl_oracle_t *oracle, int64_t samples, char *why, size_t size)
{
    const pdl_shape_t *sample = &pdl_model_layer(oracle->model, 0)->out;
    char               tokens[PDL_FORMAT_SIZE] = "", count[PDL_FORMAT_SIZE];

    if (sample->sequence)
        snprintf(tokens, sizeof(tokens), " of %s tokens", pdl_format_count(sample->extent[0], count));
    snprintf(why, size, "%lld sample%s%s per device by default; --batch or --samples-per-device sets another",
             (long long)samples, samples == 1 ? "" : "s", tokens);
}

pdl_status_t pdl__choose_batch(const pdl_oracle_t *oracle, const pdl_request_t *request, int64_t *batch, char *why,
                               size_t size)
{
    const pdl_dataset_t *data = request->dataset;
    int64_t              samples = request->samples_per_pe, pe = request->pe;

    why[0] = '\0';
    *batch = request->batch;
    if (*batch > 0) return PDL_OK;
    if (samples > INT32_MAX / pe) return refuse_batch(samples, pe);
    *batch = samples * pe;
    if (samples > 0) snprintf(why, size, "%lld per device", (long long)samples);
    if (samples > 0) return PDL_OK;
    samples = usual_samples(&pdl_model_layer(oracle->model, 0)->out);
    *batch = samples * pe;
    say_usual(oracle, samples, why, size);
    if (!data || data->samples <= 0 || *batch <= data->samples) return PDL_OK;
    /* An update on more samples than there are means nothing. */
    samples = data->samples / pe;
    *batch = samples > 0 ? power_of_two_within(samples) * pe : largest_divisor(pe, data->samples);
    snprintf(why, size, "as many as %s has, shared out evenly over devices; --batch sets another", data->name);
    return PDL_OK;
}
