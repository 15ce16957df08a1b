/*
 * Under mpirun: buckets of gradients are summed while other work goes on, step after step, and come out right, with
 * the same bits on all ranks and in every repetition.
 */
#include <paradl/coll/coll.h>
#include <paradl/coll/sparse.h>
#include <paradl/comm/exchange.h>

#include "ranks.h"

#include <stdlib.h>

#define BUCKETS 7

/* Uneven; one is empty, one has fewer elements than there are ranks. */
static const int64_t bounds[BUCKETS + 1] = {0, 2000, 2000, 2003, 36000, 36128, 60000, 60001};

#define ELEMENTS 60001

static float whole_value(int64_t i, int step, int of_rank)
{
    return (float)((i * 7 + step * 3 + of_rank * 5 + i % 11 * of_rank) % 64);
}

/* Of very different magnitudes, so that every order of additions gives other bits. */
static float rough_value(int64_t i, int step, int of_rank)
{
    uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)(of_rank * 97 + step) * 40503u;

    x ^= x >> 13;
    x *= 2246822519u;
    return ldexpf((float)(x >> 8), (int)(x % 24) - 24);
}

static pdl_exchange_t *make_exchange(float *data, const char *algorithm, bool overlap)
{
    pdl_exchange_spec_t spec = {.ranks = ranks,
                                .data = data,
                                .bound = bounds,
                                .buckets = BUCKETS,
                                .algorithm = algorithm,
                                .chunk_bytes = 8192,
                                .overlap = overlap};
    pdl_exchange_t     *exchange = NULL;

    REQUIRE_OK(pdl_exchange_create(&spec, &exchange));
    if (exchange == NULL) pdl_ranks_abort(ranks, PDL_ERR_IO);
    return exchange;
}

/* Some computation that the compiler must not drop. */
static double work(int amount)
{
    static volatile double sink;

    for (int i = 0; i < amount; i++) sink = sink * 0.5 + i;
    return sink;
}

/* From the last bucket to the first, as backward does it; ranks at different pace. */
static void exchange_step(pdl_exchange_t *exchange, int step, bool backwards)
{
    for (int k = 0; k < BUCKETS; k++) {
        work(((rank + step + k) % 4) * 2000);
        CHECK_OK(pdl_exchange_ready(exchange, backwards ? BUCKETS - 1 - k : k));
        for (int i = 0; i < 5; i++) {
            work(500);
            CHECK_OK(pdl_exchange_poll(exchange));
        }
    }
    for (int b = 0; b < BUCKETS; b++) CHECK_OK(pdl_exchange_wait(exchange, b));
}

static int64_t count_wrong(const float *data, int step)
{
    int64_t wrong = 0;

    for (int64_t i = 0; i < ELEMENTS; i++) {
        float sum = 0;

        for (int r = 0; r < size; r++) sum += whole_value(i, step, r);
        wrong += data[i] != sum;
    }
    return wrong;
}

static void sums_whole_numbers(const char *algorithm, bool overlap, int steps)
{
    float          *data = calloc(ELEMENTS, sizeof(*data));
    pdl_exchange_t *exchange = make_exchange(data, algorithm, overlap);
    double          bytes, waited, polled;

    for (int step = 0; step < steps; step++) {
        for (int64_t i = 0; i < ELEMENTS; i++) data[i] = whole_value(i, step, rank);
        exchange_step(exchange, step, step % 2 == 0);
        CHECK_INT(count_wrong(data, step), 0);
    }
    pdl_exchange_counters(exchange, &bytes, &waited, &polled);
    CHECK(size > 1 ? bytes > 0 : bytes == 0);
    CHECK(waited >= 0 && polled >= 0 && (overlap || polled == 0));
    CHECK_STR(pdl_exchange_algorithm(exchange, 1), "none");
    pdl_exchange_destroy(exchange);
    free(data);
}

static void sums_while_computing(void)
{
    sums_whole_numbers("ring", true, 6);
    sums_whole_numbers("library", true, 6);
    sums_whole_numbers("measure", true, 6);
}

static void sums_without_overlap(void)
{
    sums_whole_numbers("ring", false, 4);
    sums_whole_numbers("library", false, 4);
}

static void sums_by_every_algorithm(void)
{
    const char *const *names = pdl_coll_algorithms(PDL_COLL_ALLREDUCE);

    for (; *names != NULL; names++) {
        pdl_schedule_spec_t spec = {.collective = PDL_COLL_ALLREDUCE, .algorithm = *names, .ranks = size};
        pdl_schedule_t     *schedule;

        if (pdl_schedule_create(&spec, &schedule) != PDL_OK) continue;
        pdl_schedule_destroy(schedule);
        sums_whole_numbers(*names, true, 2);
    }
}

/* How many of the elements differ from those of rank 0. */
static int64_t count_unlike_first(const float *data)
{
    float  *first = malloc(ELEMENTS * sizeof(*first));
    int64_t unlike = 0;

    memcpy(first, data, ELEMENTS * sizeof(*first));
    CHECK_OK(pdl_ranks_broadcast(ranks, first, ELEMENTS * (int64_t)sizeof(*first), 0));
    for (int64_t i = 0; i < ELEMENTS; i++) unlike += memcmp(&first[i], &data[i], sizeof(*data)) != 0;
    free(first);
    return unlike;
}

static void repeats_bit_by_bit(const char *algorithm)
{
    float          *data = calloc(ELEMENTS, sizeof(*data)), *before = calloc(ELEMENTS, sizeof(*before));
    pdl_exchange_t *exchange = make_exchange(data, algorithm, true);

    for (int round = 0; round < 4; round++) {
        for (int64_t i = 0; i < ELEMENTS; i++) data[i] = rough_value(i, 1, rank);
        if (round == 2) {
            pdl_exchange_destroy(exchange);
            exchange = make_exchange(data, algorithm, false);
        }
        exchange_step(exchange, round, round % 2 == 1);
        CHECK_INT(count_unlike_first(data), 0);
        if (round > 0) CHECK(memcmp(data, before, ELEMENTS * sizeof(*data)) == 0);
        memcpy(before, data, ELEMENTS * sizeof(*data));
    }
    pdl_exchange_destroy(exchange);
    free(data);
    free(before);
}

static void same_bits_everywhere(void)
{
    repeats_bit_by_bit("ring");
    repeats_bit_by_bit("rdb");
    repeats_bit_by_bit("circulant");
}

/* What a measurement has chosen can be asked for. */
static void choice_can_be_repeated(void)
{
    float              *data = calloc(ELEMENTS, sizeof(*data));
    pdl_exchange_t     *exchange = make_exchange(data, "measure", true), *again = NULL;
    const char         *names[BUCKETS];
    pdl_exchange_spec_t spec = {.ranks = ranks, .data = data, .bound = bounds, .buckets = BUCKETS, .overlap = true};

    for (int b = 0; b < BUCKETS; b++) names[b] = pdl_exchange_algorithm(exchange, b);
    spec.algorithms = names;
    REQUIRE_OK(pdl_exchange_create(&spec, &again));
    for (int b = 0; b < BUCKETS; b++) CHECK_STR(pdl_exchange_algorithm(again, b), names[b]);
    pdl_exchange_destroy(again);
    pdl_exchange_destroy(exchange);
    free(data);
}

/* Uneven parts, the last one of every bucket empty. */
static void make_parts(int64_t *part)
{
    for (int b = 0; b < BUCKETS; b++) {
        int64_t count = bounds[b + 1] - bounds[b], givers = size > 1 ? size - 1 : 1, given = 0;

        for (int r = 0; r < size; r++) {
            part[b * size + r] = r + 1 == givers ? count - given : r < givers ? count / givers / 2 : 0;
            given += part[b * size + r];
        }
    }
}

static int64_t count_wrong_of_parts(const float *data, const int64_t *part, int step)
{
    int64_t wrong = 0;

    for (int b = 0; b < BUCKETS; b++) {
        int64_t first = bounds[b];

        for (int r = 0; r < rank; r++) first += part[b * size + r];
        for (int64_t i = first; i < first + part[b * size + rank]; i++) {
            float sum = 0;

            for (int r = 0; r < size; r++) sum += whole_value(i, step, r);
            wrong += data[i] != sum;
        }
    }
    return wrong;
}

/* Sums of parts, after which all parts go to everyone, from another place. */
static void exchange_parts(const char *algorithm, bool overlap)
{
    float              *data = calloc(ELEMENTS, sizeof(*data)), *other = calloc(ELEMENTS, sizeof(*other));
    int64_t            *part = calloc((size_t)size * BUCKETS, sizeof(*part));
    pdl_exchange_t     *scatter = NULL, *gather = NULL;
    pdl_exchange_spec_t spec = {.ranks = ranks,
                                .data = data,
                                .bound = bounds,
                                .buckets = BUCKETS,
                                .collective = PDL_COLL_REDUCE_SCATTER,
                                .part = part,
                                .algorithm = algorithm,
                                .chunk_bytes = 8192,
                                .overlap = overlap};

    make_parts(part);
    REQUIRE_OK(pdl_exchange_create(&spec, &scatter));
    spec.collective = PDL_COLL_ALLGATHER;
    spec.data = NULL;
    REQUIRE_OK(pdl_exchange_create(&spec, &gather));
    for (int step = 0; step < 3 && scatter && gather; step++) {
        for (int64_t i = 0; i < ELEMENTS; i++) data[i] = whole_value(i, step, rank);
        exchange_step(scatter, step, step % 2 == 0);
        CHECK_INT(count_wrong_of_parts(data, part, step), 0);
        for (int b = 0; b < BUCKETS; b++) {
            memcpy(other + bounds[b], data + bounds[b], (size_t)(bounds[b + 1] - bounds[b]) * sizeof(*data));
            CHECK_OK(pdl_exchange_place(gather, b, other + bounds[b]));
        }
        exchange_step(gather, step, step % 2 == 1);
        CHECK_INT(count_wrong(other, step), 0);
    }
    pdl_exchange_destroy(scatter);
    pdl_exchange_destroy(gather);
    free(part);
    free(other);
    free(data);
}

static void parts_are_summed_and_gathered(void)
{
    static const char *const algorithms[] = {NULL, "ring", "circulant", "library", "measure"};

    for (int i = 0; i < 5; i++) exchange_parts(algorithms[i], i != 1);
}

static pdl_exchange_t *make_sparse(float *data, const int64_t *bound, int buckets, const char *algorithm,
                                   double density)
{
    pdl_exchange_spec_t spec = {.ranks = ranks,
                                .data = data,
                                .bound = bound,
                                .buckets = buckets,
                                .algorithm = algorithm,
                                .density = density,
                                .ranks_per_node = size % 2 == 0 ? 2 : 1,
                                .overlap = true};
    pdl_exchange_t     *exchange = NULL;

    REQUIRE_OK(pdl_exchange_create(&spec, &exchange));
    if (exchange == NULL) pdl_ranks_abort(ranks, PDL_ERR_IO);
    return exchange;
}

/* A sparse ring that sends all elements gives the bits of the ring, and every sparse schedule the sum. */
static void sparse_sums_of_all_elements_are_dense(void)
{
    float          *data = calloc(ELEMENTS, sizeof(*data)), *dense = calloc(ELEMENTS, sizeof(*dense));
    pdl_exchange_t *sparse = make_sparse(data, bounds, BUCKETS, "sparse_ring", 1);
    pdl_exchange_t *ring = make_exchange(dense, "ring", true);

    for (int64_t i = 0; i < ELEMENTS; i++) data[i] = dense[i] = rough_value(i, 3, rank);
    exchange_step(sparse, 0, true);
    exchange_step(ring, 0, true);
    CHECK(memcmp(data, dense, ELEMENTS * sizeof(*data)) == 0);
    pdl_exchange_destroy(sparse);
    pdl_exchange_destroy(ring);
    for (const char *const *name = pdl_sparse_algorithms; *name != NULL; name++) {
        sparse = make_sparse(data, bounds, BUCKETS, *name, 1);
        for (int step = 0; step < 2; step++) {
            for (int64_t i = 0; i < ELEMENTS; i++) data[i] = whole_value(i, step, rank);
            exchange_step(sparse, step, step == 1);
            CHECK_INT(count_wrong(data, step), 0);
            CHECK_INT(count_unlike_first(data), 0);
        }
        pdl_exchange_destroy(sparse);
    }
    free(data);
    free(dense);
}

/* What was not sent is sent later or still there: over some steps nothing is lost. */
static void sparse_sums_lose_nothing(void)
{
    float          *data = calloc(ELEMENTS, sizeof(*data));
    double         *left = calloc(ELEMENTS, sizeof(*left));
    pdl_exchange_t *exchange = make_sparse(data, bounds, BUCKETS, "sparse_ring_ring", 0.02);
    int64_t         wrong = 0, count;

    for (int step = 0; step < 3; step++) {
        for (int64_t i = 0; i < ELEMENTS; i++) data[i] = whole_value(i, step, rank);
        exchange_step(exchange, step, true);
        CHECK_INT(count_unlike_first(data), 0);
        for (int64_t i = 0; i < ELEMENTS; i++) left[i] += rank == 0 ? data[i] : 0;
    }
    for (int b = 0; b < BUCKETS; b++) {
        const float *residual = pdl_exchange_residual(exchange, b, &count);

        CHECK((residual == NULL) == (size == 1 || bounds[b + 1] == bounds[b]));
        for (int64_t i = 0; residual != NULL && i < count; i++) left[bounds[b] + i] += residual[i];
    }
    CHECK_OK(pdl_ranks_sum(ranks, left, ELEMENTS));
    for (int64_t i = 0; i < ELEMENTS; i++) {
        double all = 0;

        for (int step = 0; step < 3; step++)
            for (int r = 0; r < size; r++) all += whole_value(i, step, r);
        wrong += left[i] != all;
    }
    CHECK_INT(wrong, 0);
    pdl_exchange_destroy(exchange);
    free(data);
    free(left);
}

/* Messages have the values and the bytes of the same sum in memory. */
static void sparse_messages_are_those_of_the_model(void)
{
    enum { COUNT = 4800 }; /* parts of equal length on 1 to 6 ranks */
    static const int64_t bound[] = {0, COUNT};
    float               *data = calloc(COUNT, sizeof(*data)), *sum = calloc((size_t)size * COUNT, sizeof(*sum));
    pdl_stream_t        *stream = calloc((size_t)size, sizeof(*stream));

    for (const char *const *name = pdl_sparse_algorithms; size > 1 && *name != NULL; name++) {
        pdl_sparse_spec_t spec = {.algorithm = *name, .ranks = size, .ranks_per_node = size % 2 == 0 ? 2 : 1};
        pdl_exchange_t   *exchange = make_sparse(data, bound, 1, *name, 0.15);
        pdl_sparse_run_t  run = {0};
        double            expected = 0, bytes, waited, polled;

        for (int r = 0; r < size; r++) {
            pdl_topk_t *topk = NULL;

            for (int64_t i = 0; i < COUNT; i++) data[i] = rough_value(i, 4, r);
            REQUIRE_OK(pdl_topk_create(&(pdl_topk_spec_t){.elements = COUNT, .density = 0.15}, &topk));
            CHECK_OK(pdl_topk_select(topk, data, NULL, &stream[r]));
            pdl_topk_destroy(topk);
        }
        REQUIRE_OK(pdl_sparse_allreduce(&spec, stream, sum, &run));
        for (int64_t i = 0; i < COUNT; i++) data[i] = rough_value(i, 4, rank);
        CHECK_OK(pdl_exchange_ready(exchange, 0));
        CHECK_OK(pdl_exchange_wait(exchange, 0));
        pdl_exchange_counters(exchange, &bytes, &waited, &polled);
        for (int64_t m = 0; m < run.message_count; m++)
            expected += run.message[m].from == rank ? run.message[m].bytes : 0;
        /* The others encode sums of more than two anew, so that more of them are pairs. */
        CHECK(bytes <= expected && (bytes == expected || strcmp(*name, "sparse_ring") != 0));
        CHECK(memcmp(data, sum + (size_t)rank * COUNT, COUNT * sizeof(*data)) == 0);
        for (int r = 0; r < size; r++) pdl_stream_free(&stream[r]);
        pdl_sparse_run_free(&run);
        pdl_exchange_destroy(exchange);
    }
    free(stream);
    free(data);
    free(sum);
}

static void mistakes_are_named(void)
{
    float              *data = calloc(ELEMENTS, sizeof(*data));
    pdl_exchange_t     *exchange = make_exchange(data, "ring", true), *none = NULL;
    int64_t             wrong[] = {0, 10, 5};
    pdl_exchange_spec_t spec = {.ranks = ranks, .data = data, .bound = wrong, .buckets = 2, .algorithm = "ring"};

    CHECK_ERROR(pdl_exchange_ready(exchange, BUCKETS), "bucket 7: there are 7");
    CHECK_ERROR(pdl_exchange_wait(exchange, 0), "before it is ready");
    CHECK_OK(pdl_exchange_ready(exchange, 1));
    CHECK_ERROR(pdl_exchange_ready(exchange, 1), "ready again");
    CHECK_OK(pdl_exchange_wait(exchange, 1));
    pdl_exchange_destroy(exchange);
    CHECK_ERROR(pdl_exchange_create(&spec, &none), "increasing bounds");
    spec.bound = bounds;
    spec.algorithm = "rnig";
    if (size > 1) CHECK_ERROR(pdl_exchange_create(&spec, &none), "rnig");
    spec.collective = PDL_COLL_ALLGATHER;
    CHECK_ERROR(pdl_exchange_create(&spec, &none), "whose they are");
    spec.density = 0.5;
    CHECK_ERROR(pdl_exchange_create(&spec, &none), "sparse sums are made of whole gradients");
    spec.density = 0;
    spec.collective = PDL_COLL_ALLTOALL;
    CHECK_ERROR(pdl_exchange_create(&spec, &none), "alltoall cannot be exchanged");
    free(data);
}

static void sums_in_the_order_of_ranks(void)
{
    enum { COUNT = 40000 };
    double *values = malloc(COUNT * sizeof(*values));

    for (int i = 0; i < COUNT; i++) values[i] = (double)rough_value(i, 2, rank);
    CHECK_OK(pdl_ranks_sum(ranks, values, COUNT));
    for (int i = 0; i < COUNT; i++) {
        double sum = (double)rough_value(i, 2, 0);

        for (int r = 1; r < size; r++) sum += (double)rough_value(i, 2, r);
        if (memcmp(&sum, &values[i], sizeof(sum)) != 0) CHECK_NEAR(values[i], sum, 0);
    }
    values[0] = rank == size / 2 ? 5 : -1;
    values[1] = rank == size / 2 ? NAN : 1;
    CHECK_OK(pdl_ranks_max(ranks, values, 2));
    CHECK_NEAR(values[0], 5, 0);
    CHECK(isnan(values[1]));
    CHECK_OK(pdl_ranks_sum(ranks, values, 0));
    free(values);
}

static void ranks_agree(void)
{
    char text[64];
    int  last = size - 1;

    CHECK_OK(pdl_ranks_agree(ranks, PDL_OK));
    CHECK_INT(pdl_ranks_agree(ranks, pdl_error(PDL_ERR_IO, "the same")), PDL_ERR_IO);
    CHECK_STR(pdl_error_message(), "the same");
    if (size == 1) return;
    CHECK_INT(pdl_ranks_agree(ranks, rank == last ? pdl_error(PDL_ERR_INPUT, "no %d", rank) : PDL_OK),
              PDL_ERR_INPUT);
    snprintf(text, sizeof(text), "rank %d: no %d", last, last);
    CHECK_STR(pdl_error_message(), text);
    CHECK_OK(pdl_ranks_barrier(ranks));
    CHECK_INT(pdl_ranks_node_size(ranks), size);
    CHECK_INT(pdl_ranks_node_rank(ranks), rank);
}

int main(void)
{
    if (!begin_ranks()) return 1;
    RUN(sums_while_computing);
    RUN(sums_without_overlap);
    RUN(sums_by_every_algorithm);
    RUN(same_bits_everywhere);
    RUN(choice_can_be_repeated);
    RUN(parts_are_summed_and_gathered);
    RUN(sparse_sums_of_all_elements_are_dense);
    RUN(sparse_sums_lose_nothing);
    RUN(sparse_messages_are_those_of_the_model);
    RUN(mistakes_are_named);
    RUN(sums_in_the_order_of_ranks);
    RUN(ranks_agree);
    return end_ranks();
}
