/*
 * Top-k sparsification with error feedback: what a call does not send is added to the next gradient, so that no
 * contribution is ever lost.
 */
#include <paradl/coll/sparse.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct pdl_topk {
    int64_t   elements, keep, sample;
    double    density;
    float    *residual;
    float    *magnitude; /* [max(elements, sample)], scratch */
    uint32_t *index;     /* of what is kept */
    float    *value;
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
static size_t kept_room(int64_t elements, double density, int64_t sample)
{
    return (size_t)(sample > 0 && sample < elements ? elements : kept_of(elements, density)) + 1;
}

size_t pdl_topk_bytes(int64_t elements, double density, int64_t sample)
{
    return 2 * ((size_t)elements + 1) * sizeof(float) +
           kept_room(elements, density, sample) * (sizeof(uint32_t) + sizeof(float));
}

pdl_status_t pdl_topk_create(int64_t elements, double density, int64_t sample, pdl_topk_t **result)
{
    pdl_topk_t *topk;
    size_t      room = (size_t)elements + 1, kept;

    if (elements < 0 || elements > UINT32_MAX || !(density > 0 && density <= 1) || sample < 0) {
        return pdl_error(
            PDL_ERR_INPUT,
            "top-k of %lld elements at density %g; the elements are at most 2^32 - 1 and the density above 0 "
            "and at most 1",
            (long long)elements, density);
    }
    topk = calloc(1, sizeof(*topk));
    if (topk == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    topk->elements = elements;
    topk->density = density;
    topk->keep = kept_of(elements, density);
    kept = kept_room(elements, density, sample);
    topk->sample = sample < elements ? sample : 0;
    topk->residual = calloc(room, sizeof(float));
    topk->magnitude = malloc(room * sizeof(float));
    topk->index = malloc(kept * sizeof(uint32_t));
    topk->value = malloc(kept * sizeof(float));
    if (topk->residual == NULL || topk->magnitude == NULL || topk->index == NULL || topk->value == NULL) {
        pdl_topk_destroy(topk);
        return pdl_error(PDL_ERR_NOMEM, "out of memory for the residual of %lld elements", (long long)elements);
    }
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

float *pdl_topk_residual(const pdl_topk_t *topk)
{
    return topk->residual;
}

static float find_threshold(pdl_topk_t *topk)
{
    int64_t count = topk->sample > 0 ? topk->sample : topk->elements;
    int64_t keep = topk->sample > 0 ? (int64_t)ceil(topk->density * (double)count) : topk->keep;

    for (int64_t k = 0; k < count; k++) {
        int64_t at = topk->sample > 0 ? (int64_t)((double)k / (double)count * (double)topk->elements) : k;
        topk->magnitude[k] = magnitude_of(topk->residual[at]);
    }
    return kth_largest(topk->magnitude, count, keep);
}

/* Moves what leaves from the residual to the lists; returns how many that are. */
static int64_t pick(pdl_topk_t *topk, const float *gradient)
{
    int64_t kept = 0, equal;
    float   threshold;

    if (topk->elements == 0) return 0;
    for (int64_t k = 0; k < topk->elements; k++) topk->residual[k] += gradient[k];
    threshold = find_threshold(topk);
    /* Of those equal to the threshold only as many are kept as the larger ones leave places. */
    equal = topk->sample > 0 ? topk->elements : topk->keep;
    for (int64_t k = 0; topk->sample == 0 && k < topk->elements; k++) {
        equal -= magnitude_of(topk->residual[k]) > threshold;
    }
    for (int64_t k = 0; k < topk->elements; k++) {
        float magnitude = magnitude_of(topk->residual[k]);

        if (magnitude < threshold || topk->residual[k] == 0) continue;
        if (magnitude == threshold && equal-- <= 0) continue;
        topk->index[kept] = (uint32_t)k;
        topk->value[kept++] = topk->residual[k];
        topk->residual[k] = 0;
    }
    return kept;
}

pdl_status_t pdl_topk_select(pdl_topk_t *topk, const float *gradient, const pdl_sparse_format_t *format,
                             pdl_stream_t *stream)
{
    int64_t      kept = pick(topk, gradient);
    pdl_status_t status = pdl_stream_from_pairs(topk->index, topk->value, kept, topk->elements, format, stream);

    for (int64_t k = 0; status != PDL_OK && k < kept; k++) topk->residual[topk->index[k]] = topk->value[k];
    return status;
}

void pdl_topk_message(pdl_topk_t *topk, const float *gradient, uint32_t *message)
{
    int64_t kept = pick(topk, gradient);

    pdl_message_pairs(topk->index, topk->value, kept, topk->elements, message);
}
