/*
 * Tells data sets apart by a few of their samples.
 */
#include "data/source/source.h"

#include <paradl/base/digest.h>

#include <stdlib.h>
#include <string.h>

#define MOST_SAMPLES 16
#define MOST_VALUES  ((int64_t)8 << 20) /* read altogether, unless one sample has more */

typedef struct buffers {
    int64_t      elements, targets;
    pdl_sample_t sample;
} buffers_t;

static void free_buffers(buffers_t *b)
{
    free(b->sample.values);
    free(b->sample.tokens);
    free(b->sample.labels);
    free(b->sample.numbers);
}

static pdl_status_t make_buffers(const pdl_source_info_t *info, buffers_t *b)
{
    bool numbers = info->target == PDL_TARGET_VALUES;

    *b = (buffers_t){.elements = pdl_shape_elements(&info->shape), .targets = info->target_count};
    if (info->tokens)
        b->sample.tokens = calloc((size_t)b->elements + 1, sizeof(*b->sample.tokens));
    else
        b->sample.values = calloc((size_t)b->elements + 1, sizeof(*b->sample.values));
    if (numbers)
        b->sample.numbers = calloc((size_t)b->targets + 1, sizeof(*b->sample.numbers));
    else
        b->sample.labels = calloc((size_t)b->targets + 1, sizeof(*b->sample.labels));
    if ((b->sample.tokens != NULL || b->sample.values != NULL) &&
        (b->sample.labels != NULL || b->sample.numbers != NULL))
        return PDL_OK;
    free_buffers(b);
    return pdl__out_of_memory(info->name);
}

/* Weights differ from value to value, so that values in other places count too. */
static double mean_of(const buffers_t *b)
{
    double sum = 0;

    for (int64_t i = 0; i < b->elements; i++) sum += b->sample.values[i] * (1 + (double)(i % 7));
    return b->elements > 0 ? sum / (double)b->elements : 0;
}

static void add_sample(const buffers_t *b, pdl_source_sketch_t *sketch)
{
    const void *targets = b->sample.labels != NULL ? (const void *)b->sample.labels : b->sample.numbers;
    uint64_t    parts[] = {sketch->targets, pdl_sum64(targets, (size_t)b->targets * sizeof(int32_t)), 0};

    if (b->sample.tokens != NULL) parts[2] = pdl_sum64(b->sample.tokens, (size_t)b->elements * sizeof(int32_t));
    sketch->targets = pdl_sum64(parts, sizeof(parts));
    if (b->sample.values != NULL) sketch->mean += mean_of(b);
}

pdl_status_t pdl_source_sketch(pdl_source_t *source, pdl_source_sketch_t *sketch)
{
    const pdl_source_info_t *info = pdl_source_info(source);
    buffers_t                b;
    int64_t                  count = info->samples < MOST_SAMPLES ? info->samples : MOST_SAMPLES;
    pdl_status_t             status = make_buffers(info, &b);

    *sketch = (pdl_source_sketch_t){0};
    if (status) return status;
    if (b.elements > 0 && count > MOST_VALUES / b.elements) count = MOST_VALUES / b.elements;
    if (count < 1) count = 1;
    for (int64_t i = 0; i < count && !status; i++) {
        status = pdl_source_read(source, count > 1 ? i * (info->samples - 1) / (count - 1) : 0, &b.sample);
        if (!status) add_sample(&b, sketch);
    }
    sketch->mean /= (double)count;
    free_buffers(&b);
    return status;
}
