/*
 * Streams keep their values through splits, sums and joins and have the right representation and size; the sparse
 * allreduce gives the dense sum with messages of the sizes that the model expects; top-k loses nothing.
 */
#include "test.h"

#include <paradl/coll/sparse.h>
#include <stdlib.h>

static uint64_t seed = 1;

static uint32_t draw(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

/* Small integers, so that sums of floats are exact in any order. */
static void fill(float *values, int64_t count, double density)
{
    for (int64_t k = 0; k < count; k++) {
        values[k] = draw() < density * 2147483648.0 ? (float)(1 + draw() % 100) : 0;
    }
}

static pdl_stream_t stream_of(const float *values, int64_t count)
{
    pdl_stream_t stream = {0};

    CHECK_OK(pdl_stream_from_values(values, count, NULL, &stream));
    return stream;
}

static void check_values(const pdl_stream_t *stream, const float *expected)
{
    float *values = calloc((size_t)stream->length + 1, sizeof(float));
    int    wrong = 0;

    pdl_stream_values(stream, values);
    for (int64_t k = 0; k < stream->length; k++) wrong += values[k] != expected[k];
    CHECK_INT(wrong, 0);
    free(values);
}

static void dense_from_half_density_on(void)
{
    float        values[10] = {1, 2, 3, 4, 0, 0, 0, 0, 0, 0};
    pdl_stream_t stream = stream_of(values, 10);

    CHECK(!stream.dense);
    CHECK_INT(stream.count, 4);
    CHECK_INT(pdl_stream_bytes(&stream, NULL), 4 + 4 * 8);
    pdl_stream_free(&stream);
    values[9] = 5;
    stream = stream_of(values, 10);
    CHECK(stream.dense);
    CHECK_INT(stream.count, 10);
    CHECK_INT(pdl_stream_bytes(&stream, NULL), 4 + 10 * 4);
    check_values(&stream, values);
    pdl_stream_free(&stream);
    /* Values of two bytes with indices of four: dense from a third on. */
    CHECK_OK(pdl_stream_from_values(values, 10, &(pdl_sparse_format_t){4, 2}, &stream));
    CHECK(stream.dense);
    CHECK_INT(pdl_stream_bytes(&stream, &(pdl_sparse_format_t){4, 2}), 4 + 10 * 2);
    pdl_stream_free(&stream);
}

static void splits_and_joins(void)
{
    static float values[101];

    for (int parts = 1; parts <= 120; parts += parts < 12 ? 1 : 27) {
        for (int density = 0; density <= 10; density++) {
            pdl_stream_t        part[128] = {{0}}, whole, joined;
            const pdl_stream_t *pointer[128];
            int64_t             offset = 0;

            fill(values, 101, density / 10.0);
            whole = stream_of(values, 101);
            CHECK_OK(pdl_stream_split(&whole, parts, NULL, part));
            for (int k = 0; k < parts; k++) {
                int64_t nonzero = 0;

                CHECK_INT(part[k].length, k + 1 < parts ? 101 / parts : 101 - 101 / parts * (parts - 1));
                check_values(&part[k], values + offset);
                for (int64_t j = 0; j < part[k].length; j++) nonzero += values[offset + j] != 0;
                CHECK_INT(part[k].dense, nonzero * 8 >= part[k].length * 4);
                offset += part[k].length;
                pointer[k] = &part[k];
            }
            CHECK_OK(pdl_stream_join(pointer, parts, NULL, &joined));
            CHECK_INT(joined.length, 101);
            check_values(&joined, values);
            for (int k = 0; k < parts; k++) pdl_stream_free(&part[k]);
            pdl_stream_free(&whole);
            pdl_stream_free(&joined);
        }
    }
}

static void sums_every_pair_of_representations(void)
{
    static float a[200], b[200], expected[200];

    for (int i = 0; i <= 10; i++) {
        for (int j = 0; j <= 10; j++) {
            pdl_stream_t first, second, sum;

            fill(a, 200, i / 10.0);
            fill(b, 200, j / 10.0);
            for (int k = 0; k < 200; k++) expected[k] = a[k] + b[k];
            first = stream_of(a, 200);
            second = stream_of(b, 200);
            CHECK_OK(pdl_stream_sum(&first, &second, NULL, &sum));
            check_values(&sum, expected);
            CHECK_INT(sum.dense, first.dense || second.dense || (first.count + second.count) * 8 >= 200 * 4);
            for (int64_t k = 1; !sum.dense && k < sum.count; k++) CHECK(sum.index[k] > sum.index[k - 1]);
            pdl_stream_free(&first);
            pdl_stream_free(&second);
            pdl_stream_free(&sum);
        }
    }
}

static void refuses_bad_streams(void)
{
    uint32_t     index[3] = {1, 1, 2};
    float        value[3] = {1, 2, 3};
    pdl_stream_t a, b, sum;

    CHECK_ERROR(pdl_stream_from_pairs(index, value, 3, 10, NULL, &a), "increase");
    index[0] = 0;
    CHECK_ERROR(pdl_stream_from_pairs(index, value, 3, 2, NULL, &a), "3 pairs in 2 elements");
    index[2] = 7;
    CHECK_ERROR(pdl_stream_from_pairs(index, value, 3, 7, NULL, &a), "below 7");
    CHECK_OK(pdl_stream_from_pairs(index, value, 3, 10, NULL, &a));
    CHECK_OK(pdl_stream_from_pairs(index, value, 3, 11, NULL, &b));
    CHECK_ERROR(pdl_stream_sum(&a, &b, NULL, &sum), "10 and 11");
    pdl_stream_free(&a);
    pdl_stream_free(&b);
}

/* Of the busiest message of every step, and of the mean one, summed over the steps. */
typedef struct totals {
    double  busiest, mean;
    int64_t messages;
    int     steps;
} totals_t;

static totals_t totals_of(const pdl_sparse_run_t *run)
{
    totals_t totals = {0, 0, run->message_count, run->steps};
    double  *most = calloc((size_t)run->steps + 1, sizeof(double));

    for (int64_t k = 0; k < run->message_count; k++) {
        const pdl_sparse_message_t *message = &run->message[k];

        CHECK(message->step >= 0 && message->step < run->steps && message->from != message->to);
        CHECK(k == 0 || message->step >= run->message[k - 1].step);
        if (message->bytes > most[message->step]) most[message->step] = message->bytes;
    }
    for (int s = 0; s < run->steps; s++) totals.busiest += most[s];
    /* Every step has the same number of messages. */
    for (int64_t k = 0; k < run->message_count; k++) {
        totals.mean += run->message[k].bytes * run->steps / (double)run->message_count;
    }
    free(most);
    return totals;
}

/* Runs an algorithm on random streams and compares with the direct sum at every rank. */
static totals_t allreduce(const char *algorithm, int ranks, int inside, int64_t elements, double density)
{
    pdl_sparse_spec_t spec = {.algorithm = algorithm, .ranks = ranks, .ranks_per_node = inside};
    pdl_stream_t     *input = calloc((size_t)ranks, sizeof(*input));
    float            *values = calloc((size_t)elements + 1, sizeof(float));
    float            *sum = calloc((size_t)elements + 1, sizeof(float));
    float            *result = calloc((size_t)ranks * (size_t)elements + 1, sizeof(float));
    pdl_sparse_run_t  run = {0};
    totals_t          totals;
    int64_t           wrong = 0;

    for (int r = 0; r < ranks; r++) {
        fill(values, elements, density);
        for (int64_t k = 0; k < elements; k++) sum[k] += values[k];
        input[r] = stream_of(values, elements);
    }
    CHECK_OK(pdl_sparse_allreduce(&spec, input, result, &run));
    for (int64_t k = 0; k < ranks * elements; k++) wrong += result[k] != sum[k % elements];
    CHECK_INT(wrong, 0);
    totals = totals_of(&run);
    for (int r = 0; r < ranks; r++) pdl_stream_free(&input[r]);
    pdl_sparse_run_free(&run);
    free(input);
    free(values);
    free(sum);
    free(result);
    return totals;
}

static void every_rank_gets_the_sum(void)
{
    for (int ranks = 1; ranks <= 24; ranks++) {
        for (int inside = 1; inside <= ranks; inside++) {
            totals_t totals;

            if (ranks % inside != 0) continue;
            totals = allreduce("sparse_ring_ring", ranks, inside, 67, 0.05);
            CHECK_INT(totals.steps, 2 * (inside - 1) + 2 * (ranks / inside - 1));
            CHECK_INT(totals.messages, totals.steps * ranks);
        }
        CHECK_INT(allreduce("sparse_ring", ranks, 0, 67, 0.05).steps, 2 * (ranks - 1));
        CHECK_INT(allreduce("sparse_pairwise", ranks, 0, 67, 0.05).steps, 2 * (ranks - 1));
        allreduce("sparse_ring_ring", ranks, 1, 5, 0.5);
        allreduce("sparse_ring", ranks, 1, 300, 0.9);
        allreduce("sparse_pairwise", ranks, 1, 300, 0);
    }
}

/* A schedule of the steps has the messages of the list. */
static void check_generated(const pdl_sparse_spec_t *spec, const pdl_sparse_run_t *run, double elements,
                            double density)
{
    static pdl_moves_t moves[2];
    pdl_schedule_t    *listed = NULL, *generated = NULL;
    int                wrong = 0;

    REQUIRE_OK(pdl_sparse_schedule(run, spec->algorithm, spec->ranks, &listed));
    REQUIRE_OK(pdl_sparse_expected(spec, elements, density, 0, &generated));
    CHECK(pdl_schedule_listed(generated));
    CHECK_INT(pdl_schedule_steps(generated), pdl_schedule_steps(listed));
    for (int k = 0; k < 2 * run->steps * (int)spec->ranks; k++) {
        int step = k / 2 / (int)spec->ranks, rank = k / 2 % (int)spec->ranks;

        (k % 2 ? pdl_schedule_sends : pdl_schedule_receives)(listed, step, rank, &moves[0]);
        (k % 2 ? pdl_schedule_sends : pdl_schedule_receives)(generated, step, rank, &moves[1]);
        wrong += moves[0].move_count != 1 || moves[1].move_count != 1 ||
                 moves[0].move[0].peer != moves[1].move[0].peer || moves[0].move[0].op != moves[1].move[0].op ||
                 pdl_range_bytes(listed, moves[0].range, 0, 4) != pdl_range_bytes(generated, moves[1].range, 0, 4);
    }
    CHECK_INT(wrong, 0);
    pdl_schedule_destroy(listed);
    pdl_schedule_destroy(generated);
}

static totals_t expected(const char *algorithm, int ranks, int inside, double elements, double density)
{
    pdl_sparse_spec_t spec = {.algorithm = algorithm, .ranks = ranks, .ranks_per_node = inside};
    pdl_sparse_run_t  run = {0};
    totals_t          totals;

    CHECK_OK(pdl_sparse_expect(&spec, elements, density, 0, &run));
    check_generated(&spec, &run, elements, density);
    totals = totals_of(&run);
    pdl_sparse_run_free(&run);
    return totals;
}

/* The model gives means, so means are compared (the busiest of a few random messages is above, by 7 % at the
   lowest density here). The pairs drawn are binomial: their number has a relative deviation of one over its
   root. */
static void sizes_are_as_expected(void)
{
    static const char *const names[] = {"sparse_ring", "sparse_ring_ring", "sparse_pairwise"};

    for (int k = 0; k < 3; k++) {
        for (int divisor = 512; divisor >= 16; divisor /= 2) {
            totals_t run = allreduce(names[k], 16, 4, 1 << 19, 1.0 / divisor);
            totals_t model = expected(names[k], 16, 4, 1 << 19, 1.0 / divisor);

            CHECK_INT(run.steps, model.steps);
            CHECK_INT(run.messages, model.messages);
            CHECK_NEAR(run.mean, model.mean, 4 / sqrt(16.0 * (1 << 19) / divisor));
            CHECK(run.busiest >= run.mean);
        }
    }
}

static void model_has_its_closed_form(void)
{
    double n = 1 << 20, density = 1.0 / 128, sum = 0;
    int    g = 4, nodes = 4, p = g * nodes;

#define B(s, d) (4 + fmin((d)*4, (d) * (1 - pow(1 - density, (s))) * 8))
    for (int s = 1; s < g; s++) sum += B(s, n / g);
    for (int s = 1; s < nodes; s++) sum += B(g * s, n / p);
    sum += (nodes - 1) * B(p, n / p) + (g - 1) * B(p, n / g);
#undef B
    CHECK_NEAR(expected("sparse_ring_ring", p, g, n, density).busiest, sum, 1e-12);
    /* Dense becomes smaller after ln(1/2)/ln(1-density) contributions. */
    CHECK(pdl_sparse_density(1.0 / 128, 0, 88) < 0.5 && pdl_sparse_density(1.0 / 128, 0, 89) > 0.5);
    CHECK(pdl_sparse_density(1.0 / 512, 0, 354) < 0.5 && pdl_sparse_density(1.0 / 512, 0, 355) > 0.5);
    CHECK_NEAR(pdl_sparse_density(0.01, 1, 1000), 0.01, 1e-12);
    CHECK_NEAR(pdl_sparse_density(0.01, 0.5, 1), 0.01, 1e-12);
    CHECK_NEAR(pdl_sparse_density(1, 1, 3), 1, 0);
}

static void refuses_bad_runs(void)
{
    pdl_stream_t      input[2] = {{.length = 3}, {.length = 4}};
    pdl_sparse_spec_t spec = {.algorithm = "sparse", .ranks = 2};
    pdl_sparse_run_t  run;

    CHECK_ERROR(pdl_sparse_allreduce(&spec, input, NULL, &run), "unknown sparse algorithm sparse;");
    spec.algorithm = "sparse_ring";
    CHECK_ERROR(pdl_sparse_allreduce(&spec, input, NULL, &run), "rank 1 has 4 elements");
    CHECK_ERROR(pdl_sparse_expect(&spec, 10, 2, 0, &run), "between 0 and 1");
    spec.ranks = 0;
    CHECK_ERROR(pdl_sparse_expect(&spec, 10, 0.5, 0, &run), "1 to");
    spec = (pdl_sparse_spec_t){.algorithm = "sparse_ring_ring", .ranks = 10, .ranks_per_node = 4};
    CHECK_ERROR(pdl_sparse_expect(&spec, 10, 0.5, 0, &run), "do not divide");
}

static void topk_keeps_the_largest(void)
{
    float        gradient[8] = {1, -9, 3, 3, 0, -3, 8, 2}, expect[8] = {0, -9, 3, 0, 0, 0, 8, 0};
    float        next[8] = {0}, second[8] = {0, 0, 0, 3, 0, -3, 0, 2};
    int64_t      count;
    pdl_topk_t  *topk = NULL;
    pdl_stream_t stream;

    REQUIRE_OK(pdl_topk_create(&(pdl_topk_spec_t){.elements = 8, .density = 0.3}, &topk));
    CHECK_OK(pdl_topk_select(topk, gradient, NULL, &stream));
    CHECK_INT(stream.count, 3);
    check_values(&stream, expect);
    pdl_stream_free(&stream);
    CHECK_OK(pdl_topk_select(topk, next, NULL, &stream));
    check_values(&stream, second);
    CHECK_NEAR(pdl_topk_residual(topk, &count)[0], 1, 0);
    CHECK_INT(count, 8);
    pdl_stream_free(&stream);
    pdl_topk_destroy(topk);
    CHECK_ERROR(pdl_topk_create(&(pdl_topk_spec_t){.elements = 8}, &topk), "density");
    CHECK_ERROR(pdl_topk_create(&(pdl_topk_spec_t){.elements = 8, .density = NAN}, &topk), "density");
}

/* After any number of calls, what left and what waits make up the gradients; integers make it exact. */
static void topk_loses_nothing(void)
{
    enum { ELEMENTS = 5000 };
    static float gradient[ELEMENTS], sum[ELEMENTS], sent[ELEMENTS], values[ELEMENTS];

    for (int64_t sample = 0; sample <= 500; sample += 500) {
        pdl_topk_spec_t spec = {.elements = ELEMENTS, .density = 0.01, .sample = sample};
        pdl_topk_t     *topk = NULL;
        int64_t         count;
        int             wrong = 0;

        memset(sum, 0, sizeof(sum));
        memset(sent, 0, sizeof(sent));
        REQUIRE_OK(pdl_topk_create(&spec, &topk));
        for (int call = 0; call < 20; call++) {
            pdl_stream_t stream;

            for (int k = 0; k < ELEMENTS; k++) {
                gradient[k] = (float)((int)(draw() % 2001) - 1000);
                sum[k] += gradient[k];
            }
            CHECK_OK(pdl_topk_select(topk, gradient, NULL, &stream));
            if (sample == 0) CHECK_INT(stream.count, 50);
            CHECK(stream.count >= 10 && stream.count <= 250);
            pdl_stream_values(&stream, values);
            for (int k = 0; k < ELEMENTS; k++) sent[k] += values[k];
            pdl_stream_free(&stream);
        }
        for (int k = 0; k < ELEMENTS; k++) wrong += sent[k] + pdl_topk_residual(topk, &count)[k] != sum[k];
        CHECK_INT(wrong, 0);
        pdl_topk_destroy(topk);
    }
}

/* The first of two elements leaves twice. Where momentum is masked, it begins anew after the first time. */
static void topk_has_momentum(void)
{
    static const struct {
        pdl_topk_momentum_t momentum;
        float               sent, left[4]; /* of the second call: residual and momentum */
    } cases[] = {{{.factor = 0.5}, 12, {0, 4, 12, 2}},
                 {{.factor = 0.5, .masked = true}, 8, {0, 4, 0, 2}},
                 {{.factor = 0.5, .nesterov = true}, 14, {0, 5, 12, 2}}};

    for (int c = 0; c < 3; c++) {
        pdl_topk_spec_t spec = {.elements = 2, .density = 1, .momentum = cases[c].momentum};
        float           first[2] = {8, 2}, second[2] = {8, 1};
        pdl_topk_t     *topk = NULL;
        pdl_stream_t    stream;
        int64_t         count;

        REQUIRE_OK(pdl_topk_create(&spec, &topk));
        pdl_topk_thin(topk, 0.5);
        CHECK_OK(pdl_topk_select(topk, first, NULL, &stream));
        pdl_stream_free(&stream);
        CHECK_OK(pdl_topk_select(topk, second, NULL, &stream));
        check_values(&stream, (float[]){cases[c].sent, 0});
        for (int k = 0; k < 4; k++) CHECK_NEAR(pdl_topk_residual(topk, &count)[k], cases[c].left[k], 0);
        CHECK_INT(count, 4);
        pdl_stream_free(&stream);
        pdl_topk_destroy(topk);
    }
}

static void topk_lets_nan_out(void)
{
    float        gradient[4] = {1, NAN, 5, 2};
    int64_t      count;
    pdl_topk_t  *topk = NULL;
    pdl_stream_t stream;

    REQUIRE_OK(pdl_topk_create(&(pdl_topk_spec_t){.elements = 4, .density = 0.25}, &topk));
    CHECK_OK(pdl_topk_select(topk, gradient, NULL, &stream));
    CHECK_INT(stream.count, 1);
    CHECK(!stream.dense && stream.index[0] == 1 && isnan(stream.value[0]));
    CHECK_NEAR(pdl_topk_residual(topk, &count)[1], 0, 0);
    pdl_stream_free(&stream);
    pdl_topk_destroy(topk);
}

int main(void)
{
    RUN(dense_from_half_density_on);
    RUN(splits_and_joins);
    RUN(sums_every_pair_of_representations);
    RUN(refuses_bad_streams);
    RUN(every_rank_gets_the_sum);
    RUN(sizes_are_as_expected);
    RUN(model_has_its_closed_form);
    RUN(refuses_bad_runs);
    RUN(topk_keeps_the_largest);
    RUN(topk_loses_nothing);
    RUN(topk_has_momentum);
    RUN(topk_lets_nan_out);
    return test_done();
}
