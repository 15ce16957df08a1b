/*
 * The choice of hidden samples among 1.3 million on one core:
 *
 *     bench_select [SAMPLES [REPETITIONS]]
 *
 * For losses of several kinds: pdl_select_smallest() and the whole pdl_hide_begin(), beside a full sort (qsort of losses
 * with their indices) and a plain quickselect of the same run. Shortest of the repetitions, in milliseconds of processor
 * time. Fails when another set is chosen than by sorting, or when a begin of 1.3 million samples takes more than 20 ms.
 */
#define _POSIX_C_SOURCE 200809L
#include <paradl/base/random.h>
#include <paradl/data/hide.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TARGET_SAMPLES 1300000
#define TARGET_MS      20

typedef struct pair {
    float   loss;
    int32_t index;
} pair_t;

static double milliseconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void check(pdl_status_t status)
{
    if (status == PDL_OK) return;
    fprintf(stderr, "bench_select: %s\n", pdl_error_message());
    exit(1);
}

static void *take(size_t bytes)
{
    void *memory = malloc(bytes);

    if (memory == NULL) {
        fprintf(stderr, "bench_select: out of memory\n");
        exit(1);
    }
    return memory;
}

static int compare(const void *a, const void *b)
{
    const pair_t *x = a, *y = b;

    if (x->loss != y->loss) return x->loss < y->loss ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* Hoare's, with the middle element as pivot: the `count` smallest come first. */
static void quickselect(pair_t *pairs, int64_t total, int64_t count)
{
    int64_t low = 0, high = total - 1;

    while (low < high) {
        pair_t  pivot = pairs[low + (high - low) / 2];
        int64_t i = low, j = high;

        while (i <= j) {
            while (compare(&pairs[i], &pivot) < 0) i++;
            while (compare(&pairs[j], &pivot) > 0) j--;
            if (i <= j) {
                pair_t other = pairs[i];

                pairs[i++] = pairs[j];
                pairs[j--] = other;
            }
        }
        if (count - 1 <= j)
            high = j;
        else if (count - 1 >= i)
            low = i;
        else
            return;
    }
}

static const char *const kinds[] = {"training", "uniform", "constant", "sorted"};

/* "training": most samples are learnt, some are not, as losses are late in a run. */
static void make_losses(int kind, int64_t samples, float *loss)
{
    for (int64_t i = 0; i < samples; i++) {
        double u = pdl_random_uniform(1, 2, (uint64_t)i);

        switch (kind) {
        case 0: loss[i] = (float)exp(2 * pdl_random_normal(1, 3, (uint64_t)i) - 3); break;
        case 1: loss[i] = (float)u; break;
        case 2: loss[i] = 0.25F; break;
        default: loss[i] = (float)i; break;
        }
    }
}

typedef struct bench {
    int64_t      samples, count;
    float       *loss;
    pair_t      *pairs;
    pdl_hide_t  *hide;
    pdl_ranks_t *ranks;
    double       ours, begin, sort, quick; /* the shortest */
} bench_t;

static void fill_pairs(bench_t *b)
{
    for (int64_t i = 0; i < b->samples; i++) b->pairs[i] = (pair_t){b->loss[i], (int32_t)i};
}

static void shorter(double *shortest, double start)
{
    double spent = milliseconds() - start;

    if (spent < *shortest) *shortest = spent;
}

/* One after the other, so that whatever else the machine does meets all alike. */
static void measure(bench_t *b)
{
    pdl_hide_workers_t workers = {.batch = 1024, .ranks = b->ranks};
    pdl_boundary_t     boundary;
    int64_t            wrong = 0;
    double             start = milliseconds();

    check(pdl_select_smallest(b->loss, b->samples, 0, b->count, NULL, &boundary));
    shorter(&b->ours, start);
    start = milliseconds();
    check(pdl_hide_begin(b->hide, 1, 100, &workers));
    shorter(&b->begin, start);
    fill_pairs(b);
    start = milliseconds();
    quickselect(b->pairs, b->samples, b->count);
    shorter(&b->quick, start);
    fill_pairs(b);
    start = milliseconds();
    qsort(b->pairs, (size_t)b->samples, sizeof(*b->pairs), compare);
    shorter(&b->sort, start);
    for (int64_t k = 0; k < b->samples; k++)
        wrong += pdl_below(&boundary, b->pairs[k].loss, b->pairs[k].index) != (k < b->count);
    if (wrong > 0) {
        fprintf(stderr, "bench_select: %lld samples are chosen otherwise than by sorting\n", (long long)wrong);
        exit(1);
    }
}

static bool run(int kind, int64_t samples, int repetitions, pdl_ranks_t *ranks)
{
    bench_t b = {.samples = samples,
                 .count = (int64_t)(0.3 * (double)samples),
                 .loss = take((size_t)samples * sizeof(*b.loss)),
                 .pairs = take((size_t)samples * sizeof(*b.pairs)),
                 .ranks = ranks,
                 .ours = INFINITY,
                 .begin = INFINITY,
                 .sort = INFINITY,
                 .quick = INFINITY};
    float  *ones = take((size_t)samples * sizeof(*ones));
    int64_t first = 0;
    bool    reached;

    pdl_hide_options_t options;

    pdl_hide_defaults(&options);
    options.method = PDL_HIDE_LOSS;
    check(pdl_hide_create(&options, samples, &b.hide));
    make_losses(kind, samples, b.loss);
    for (int64_t i = 0; i < samples; i++) ones[i] = 1;
    for (; first < samples; first++) pdl_hide_note(b.hide, first, &first, &b.loss[first], ones, ones, 1);
    check(pdl_hide_combine(b.hide, ranks));
    for (int i = 0; i < repetitions; i++) measure(&b);
    reached = samples > TARGET_SAMPLES || b.begin <= TARGET_MS;
    printf("%-9s %10lld %11.2f %10.2f %12.2f %8.2f%s\n", kinds[kind], (long long)samples, b.ours, b.begin, b.quick,
           b.sort, reached ? "" : "  too slow");
    pdl_hide_destroy(b.hide);
    free(b.loss);
    free(b.pairs);
    free(ones);
    return reached;
}

int main(int argc, char **argv)
{
    int64_t      samples = argc > 1 ? atoll(argv[1]) : TARGET_SAMPLES;
    int          repetitions = argc > 2 ? atoi(argv[2]) : 5;
    pdl_ranks_t *ranks = NULL;
    bool         reached = true;

    if (samples < 1024 || samples > INT32_MAX || repetitions < 1) {
        fprintf(stderr, "usage: bench_select [SAMPLES [REPETITIONS]], with 1024 samples at least\n");
        return 2;
    }
    check(pdl_ranks_create(&ranks));
    printf("%-9s %10s %11s %10s %12s %8s\n", "losses", "samples", "select ms", "begin ms", "quickselect", "qsort");
    for (int kind = 0; kind < (int)(sizeof(kinds) / sizeof(kinds[0])); kind++)
        reached &= run(kind, samples, repetitions, ranks);
    pdl_ranks_destroy(ranks);
    return reached ? 0 : 1;
}
