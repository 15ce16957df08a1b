/*
 * The first partition, and where the parts are.
 */
#include "data/shuffle/shuffle.h"

#include <paradl/base/random.h>
#include <paradl/plan/mesh.h>

#include <stdlib.h>
#include <string.h>

void pdl__partition_range(const pdl_shuffle_t *shuffle, int64_t worker, int64_t *low, int64_t *high)
{
    pdl_block_range(shuffle->spec.samples, shuffle->spec.workers, worker, low, high);
}

/* The last rank whose first worker, floor(rank M / ranks), is not after this one. */
int pdl__partition_rank(const pdl_shuffle_t *shuffle, int64_t worker)
{
    const int64_t size = pdl_ranks_size(shuffle->ranks);

    return (int)(((worker + 1) * size - 1) / shuffle->spec.workers);
}

static int compare_ids(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

void pdl__partition_sort(int64_t *list, int64_t count)
{
    if (count > 1) qsort(list, (size_t)count, sizeof(*list), compare_ids);
}

bool pdl__partition_has(const int64_t *sorted, int64_t count, int64_t id)
{
    return bsearch(&id, sorted, (size_t)count, sizeof(*sorted), compare_ids) != NULL;
}

static pdl_status_t no_memory(const pdl_shuffle_spec_t *spec)
{
    return pdl_error(PDL_ERR_NOMEM, "out of memory for the partition of %lld samples", (long long)spec->samples);
}

/* Counting sort by class: what is random within a class stays so. */
static pdl_status_t sort_by_class(const pdl_shuffle_spec_t *spec, int64_t *partition)
{
    int64_t     *random = malloc((size_t)spec->samples * sizeof(*random));
    int64_t     *next = calloc((size_t)spec->classes + 1, sizeof(*next));
    pdl_status_t status = PDL_OK;

    if (random == NULL || next == NULL) {
        status = no_memory(spec);
    } else {
        for (int64_t i = 0; i < spec->samples; i++) {
            random[i] = partition[i];
            next[spec->labels[i] + 1]++;
        }
        for (int64_t c = 0; c < spec->classes; c++) next[c + 1] += next[c];
        for (int64_t i = 0; i < spec->samples; i++) partition[next[spec->labels[random[i]]]++] = random[i];
    }
    free(random);
    free(next);
    return status;
}

/* Two shards of the sorted samples for every worker; where they do not divide evenly, one sample more or less. */
static pdl_status_t draw_shards(const pdl_shuffle_spec_t *spec, int64_t *partition)
{
    const int64_t shards = 2 * spec->workers;
    int64_t      *sorted = malloc((size_t)spec->samples * sizeof(*sorted));
    int64_t      *drawn = malloc((size_t)shards * sizeof(*drawn));
    int64_t       at = 0, low, high;

    if (sorted == NULL || drawn == NULL) {
        free(sorted);
        free(drawn);
        return no_memory(spec);
    }
    memcpy(sorted, partition, (size_t)spec->samples * sizeof(*sorted));
    pdl_random_permutation(spec->options.seed, pdl_random_stream("shards", 0, 0), shards, drawn);
    for (int64_t s = 0; s < shards; s++) {
        pdl_block_range(spec->samples, shards, drawn[s], &low, &high);
        memcpy(partition + at, sorted + low, (size_t)(high - low) * sizeof(*partition));
        at += high - low;
    }
    free(sorted);
    free(drawn);
    return PDL_OK;
}

pdl_status_t pdl__partition_make(const pdl_shuffle_spec_t *spec, int64_t *partition)
{
    pdl_random_permutation(spec->options.seed, pdl_random_stream("first partition", 0, 0), spec->samples,
                           partition);
    if (spec->options.partition == PDL_PARTITION_RANDOM) return PDL_OK;
    pdl_status_t status = sort_by_class(spec, partition);
    return status || spec->options.partition == PDL_PARTITION_SORTED ? status : draw_shards(spec, partition);
}
