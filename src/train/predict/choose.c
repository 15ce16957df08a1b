/*
 * The next token of a text: the most probable one, or drawn among the most probable ones.
 */
#include <math.h>
#include <paradl/base/random.h>
#include <paradl/train/generate.h>
#include <string.h>

enum { LANES = 16 };

/* In lanes that a compiler makes vectors of. A NaN in front of all stays. */
static float largest(const float *values, int64_t n)
{
    float   high[LANES];
    int64_t at = 0;

    for (int i = 0; i < LANES; i++) high[i] = values[0];
    for (; at + LANES <= n; at += LANES)
        for (int i = 0; i < LANES; i++) high[i] = values[at + i] > high[i] ? values[at + i] : high[i];
    for (; at < n; at++) high[0] = values[at] > high[0] ? values[at] : high[0];
    for (int i = 1; i < LANES; i++) high[0] = high[i] > high[0] ? high[i] : high[0];
    return high[0];
}

/* The first of the largest. */
static int32_t most_probable(const float *logits, int64_t classes)
{
    float   high = largest(logits, classes);
    int64_t best = 0;

    while (best < classes - 1 && logits[best] != high) best++;
    return logits[best] == high ? (int32_t)best : 0;
}

/* The k-th largest of n values, which are moved around (Hoare's selection). */
static float kth_largest(float *values, int64_t n, int64_t k)
{
    int64_t low = 0, high = n - 1;

    while (low < high) {
        float   pivot = values[low + (high - low) / 2];
        int64_t i = low, j = high;

        while (i <= j) {
            while (values[i] > pivot) i++;
            while (values[j] < pivot) j--;
            if (i > j) break;
            float moved = values[i];
            values[i++] = values[j];
            values[j--] = moved;
        }
        if (k - 1 <= j)
            high = j;
        else if (k - 1 >= i)
            low = i;
        else
            break;
    }
    return values[k - 1];
}

int32_t pdl_generate_choose(const float *logits, int64_t classes, const pdl_generate_options_t *options,
                            int64_t prompt, int64_t at, float *scratch)
{
    uint64_t stream = pdl_random_stream("generate", (uint64_t)prompt, 0);
    int32_t  best = most_probable(logits, classes);
    int64_t  wanted = options->top_k > 0 && options->top_k < classes ? options->top_k : classes, equal = 0;
    float    least = -INFINITY;
    double   total = 0, drawn, sum = 0;

    if (options->temperature <= 0 || wanted == 1) return best;
    if (wanted < classes) {
        memcpy(scratch, logits, (size_t)classes * sizeof(*scratch));
        least = kth_largest(scratch, classes, wanted);
    }
    /* Of equal ones at the border the first count. */
    for (int64_t c = 0; c < classes; c++) equal += logits[c] > least;
    equal = wanted - equal;
    for (int64_t c = 0; c < classes; c++) {
        bool counts = logits[c] > least || (logits[c] == least && equal-- > 0);

        scratch[c] = counts ? (float)exp((double)(logits[c] - logits[best]) / options->temperature) : 0;
        total += (double)scratch[c];
    }
    drawn = pdl_random_uniform(options->seed, stream, (uint64_t)at) * total;
    for (int64_t c = 0; c < classes; c++) {
        sum += (double)scratch[c];
        if (scratch[c] > 0 && drawn < sum) return (int32_t)c;
    }
    return best;
}
