/*
 * Top-k sparsification with error feedback: what a call does not send is added to the next gradient, so that no
 * contribution is ever lost, unless momentum is masked.
 */
#include <paradl/coll/sparse.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct pdl_topk {
    pdl_topk_spec_t spec;
    int64_t         keep;
    double          density;             /* at the moment */
    float          *residual, *velocity; /* one after the other; the latter is NULL without momentum */
    float          *magnitude;           /* [max(elements, sample)], scratch */
    uint32_t       *index;               /* of what is kept */
    float          *value;
};

/* Not-a-number counts as the largest magnitude: it leaves at once and is seen, instead of hiding in the
   residual. */
static float magnitude_of(float value)
{
    return isnan(value) ? INFINITY : fabsf(value);
}

/* The k-th largest of n values (k from 1), which are reordered: three-way partition around a middle element. */
static float kth_largest(float *values, int64_t n, int64_t k)
{
    int64_t low = 0, high = n - 1, want = k - 1;

    while (low < high) {
        float   pivot = values[low + (high - low) / 2];
        int64_t above = low, at = low, below = high;

        while (at <= below) {
            float value = values[at];
            if (value > pivot) {
                values[at++] = values[above];
                values[above++] = value;
            } else if (value < pivot) {
                values[at] = values[below];
                values[below--] = value;
            } else {
                at++;
            }
        }
        if (want < above) {
            high = above - 1;
        } else if (want > below) {
            low = below + 1;
        } else {
            return pivot;
        }
    }
    return values[low];
}

static int64_t kept_of(int64_t elements, double density)
{
    return (int64_t)ceil(density * (double)elements);
}

/* Where a threshold is estimated, all elements may be above it. */
static size_t kept_room(const pdl_topk_spec_t *spec)
{
    bool estimated = spec->sample > 0 && spec->sample < spec->elements;

    return (size_t)(estimated ? spec->elements : kept_of(spec->elements, spec->density)) + 1;
}

/* Elements of residual and momentum. */
static int64_t state_count(const pdl_topk_spec_t *spec)
{
    return (spec->momentum.factor > 0 ? 2 : 1) * spec->elements;
}

size_t pdl_topk_bytes(const pdl_topk_spec_t *spec)
{
    return (size_t)(state_count(spec) + spec->elements + 2) * sizeof(float) +
           kept_room(spec) * (sizeof(uint32_t) + sizeof(float));
}

void pdl_topk_thin(pdl_topk_t *topk, double density)
{
    topk->density = density;
    topk->keep = kept_of(topk->spec.elements, density);
}

pdl_status_t pdl_topk_create(const pdl_topk_spec_t *spec, pdl_topk_t **result)
{
    pdl_topk_t *topk;
    int64_t     elements = spec->elements;
    double      density = spec->density;
    size_t      kept;

    if (elements < 0 || elements > UINT32_MAX || !(density > 0 && density <= 1) || spec->sample < 0) {
        return pdl_error(
            PDL_ERR_INPUT,
            "top-k of %lld elements at density %g; the elements are at most 2^32 - 1 and the density above 0 "
            "and at most 1",
            (long long)elements, density);
    }
    topk = calloc(1, sizeof(*topk));
    if (topk == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    topk->spec = *spec;
    if (spec->sample >= elements) topk->spec.sample = 0;
    pdl_topk_thin(topk, density);
    kept = kept_room(spec);
    topk->residual = calloc((size_t)state_count(spec) + 1, sizeof(float));
    topk->magnitude = malloc(((size_t)elements + 1) * sizeof(float));
    topk->index = malloc(kept * sizeof(uint32_t));
    topk->value = malloc(kept * sizeof(float));
    if (topk->residual == NULL || topk->magnitude == NULL || topk->index == NULL || topk->value == NULL) {
        pdl_topk_destroy(topk);
        return pdl_error(PDL_ERR_NOMEM, "out of memory for the residual of %lld elements", (long long)elements);
    }
    if (spec->momentum.factor > 0) topk->velocity = topk->residual + elements;
    *result = topk;
    return PDL_OK;
}

void pdl_topk_destroy(pdl_topk_t *topk)
{
    if (topk == NULL) return;
    free(topk->residual);
    free(topk->magnitude);
    free(topk->index);
    free(topk->value);
    free(topk);
}

float *pdl_topk_residual(const pdl_topk_t *topk, int64_t *count)
{
    *count = state_count(&topk->spec);
    return topk->residual;
}

static float find_threshold(pdl_topk_t *topk)
{
    int64_t sample = topk->spec.sample, elements = topk->spec.elements;
    int64_t count = sample > 0 ? sample : elements;
    int64_t keep = sample > 0 ? kept_of(count, topk->density) : topk->keep;

    for (int64_t k = 0; k < count; k++) {
        int64_t at = sample > 0 ? (int64_t)((double)k / (double)count * (double)elements) : k;
        topk->magnitude[k] = magnitude_of(topk->residual[at]);
    }
    return kth_largest(topk->magnitude, count, keep);
}

/* A gradient, or the step that its momentum makes of it, to the residual. */
static void add_gradient(pdl_topk_t *topk, const float *gradient)
{
    float factor = (float)topk->spec.momentum.factor;

    for (int64_t k = 0; topk->velocity == NULL && k < topk->spec.elements; k++) topk->residual[k] += gradient[k];
    for (int64_t k = 0; topk->velocity != NULL && k < topk->spec.elements; k++) {
        topk->velocity[k] = factor * topk->velocity[k] + gradient[k];
        topk->residual[k] +=
            topk->spec.momentum.nesterov ? gradient[k] + factor * topk->velocity[k] : topk->velocity[k];
    }
}

/* Moves what leaves from the residual to the lists; returns how many that are. */
static int64_t pick(pdl_topk_t *topk, const float *gradient)
{
    bool    estimated = topk->spec.sample > 0, masked = topk->velocity != NULL && topk->spec.momentum.masked;
    int64_t kept = 0, elements = topk->spec.elements, equal;
    float   threshold;

    if (elements == 0) return 0;
    add_gradient(topk, gradient);
    threshold = find_threshold(topk);
    /* Of those equal to the threshold only as many are kept as the larger ones leave places. */
    equal = estimated ? elements : topk->keep;
    for (int64_t k = 0; !estimated && k < elements; k++) equal -= magnitude_of(topk->residual[k]) > threshold;
    for (int64_t k = 0; k < elements; k++) {
        float magnitude = magnitude_of(topk->residual[k]);

        if (magnitude < threshold || topk->residual[k] == 0) continue;
        if (magnitude == threshold && equal-- <= 0) continue;
        topk->index[kept] = (uint32_t)k;
        topk->value[kept++] = topk->residual[k];
        topk->residual[k] = 0;
        if (masked) topk->velocity[k] = 0;
    }
    return kept;
}

pdl_status_t pdl_topk_select(pdl_topk_t *topk, const float *gradient, const pdl_sparse_format_t *format,
                             pdl_stream_t *stream)
{
    int64_t      kept = pick(topk, gradient);
    pdl_status_t status =
        pdl_stream_from_pairs(topk->index, topk->value, kept, topk->spec.elements, format, stream);

    for (int64_t k = 0; status != PDL_OK && k < kept; k++) topk->residual[topk->index[k]] = topk->value[k];
    return status;
}

void pdl_topk_message(pdl_topk_t *topk, const float *gradient, uint32_t *message)
{
    int64_t kept = pick(topk, gradient);

    pdl_message_pairs(topk->index, topk->value, kept, topk->spec.elements, message);
}
