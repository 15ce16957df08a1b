/*
 * SGD, Nesterov and AdamW give PyTorch's weights, step by step; LARS and LAMB those of plain loops over their
 * formulas; learning rates are PyTorch's where it has the schedule. On the reference backend and on the CPU.
 */
#include "test.h"

#include <paradl/base/random.h>
#include <paradl/train/optimizer.h>

#include <stdlib.h>

#define WEIGHTS 11
#define MOST    64

/* A backend and the arrays that its optimizers work on, filled and read as doubles. */
typedef struct bench {
    pdl_backend_t *backend;
    double         tolerance; /* relative to the largest weight */
    double         storage[5][MOST];
} bench_t;

enum { W, G, M, V, E };

static bench_t benches[2];
static int     bench_count;

static void put(const bench_t *bench, void *array, int i, double value)
{
    if (bench->backend->weight_type == PDL_DTYPE_F64)
        ((double *)array)[i] = value;
    else
        ((float *)array)[i] = (float)value;
}

static double get(const bench_t *bench, const void *array, int i)
{
    return bench->backend->weight_type == PDL_DTYPE_F64 ? ((const double *)array)[i]
                                                        : (double)((const float *)array)[i];
}

static void put_all(bench_t *bench, int array, const double *values, int count)
{
    for (int i = 0; i < count; i++) put(bench, bench->storage[array], i, values[i]);
}

static void check_all(const bench_t *bench, int array, const double *values, int count, const char *name)
{
    double largest = 0;

    for (int i = 0; i < count; i++) largest = fmax(largest, fabs(values[i]));
    for (int i = 0; i < count; i++) {
        double found = get(bench, bench->storage[array], i);

        if (fabs(found - values[i]) <= bench->tolerance * largest) continue;
        CHECK_NEAR(found, values[i], bench->tolerance);
        printf("  in %s on %s, element %d\n", name, bench->backend->ops->name, i);
    }
}

/* Of the parameters at hand. */
static pdl_optimizer_table_t *table;

static pdl_optimizer_run_t begin(bench_t *bench, const pdl_optimizer_options_t *options,
                                 const pdl_parameter_t *parameters, int count)
{
    static double numbers[2][32];

    memset(bench->storage, 0, sizeof(bench->storage));
    pdl_optimizer_table_destroy(table);
    REQUIRE_OK(pdl_optimizer_table_create(options, parameters, count, &table));
    return (pdl_optimizer_run_t){.backend = bench->backend,
                                 .table = table,
                                 .scalars = numbers[0],
                                 .home = numbers[1],
                                 .weights = bench->storage[W],
                                 .gradients = bench->storage[G],
                                 .moment = {bench->storage[M], bench->storage[V]},
                                 .ema = bench->storage[E]};
}

/* A step, the wait, and what came of it. */
static pdl_status_t step(const pdl_optimizer_options_t *options, const pdl_optimizer_run_t *run, double *norm)
{
    double       found;
    pdl_status_t status = pdl_optimizer_step(options, run);

    return status ? status : pdl_optimizer_outcome(run, norm != NULL ? norm : &found);
}

/* A tensor at the same place in all arrays. */
#define AT(offset, count, decay) \
    {                            \
        {.elements = count,      \
         .weights = offset,      \
         .gradients = offset,    \
         .state = offset,        \
         .packed = -1,           \
         .decays = decay},       \
            1                    \
    }

/* Five tensors: the first three decay and are side by side, then two that do not. */
static const pdl_parameter_t five[] = {
    AT(0, 2, true), AT(2, 4, true), AT(6, 1, true), AT(7, 3, false), AT(10, 1, false),
};

static int read_row(FILE *file, const char *letter, double *values, int count)
{
    char word[8];

    if (fscanf(file, "%7s", word) != 1 || strcmp(word, letter) != 0) return 0;
    for (int i = 0; i < count; i++) {
        if (fscanf(file, "%lf", &values[i]) != 1) return 0;
    }
    return 1;
}

static void run_case(FILE *file)
{
    pdl_optimizer_options_t o;
    char                    name[32], method[16];
    int                     nesterov, steps, i;
    double                  values[WEIGHTS], gradient[8][WEIGHTS], after[8][WEIGHTS];

    pdl_optimizer_defaults(&o);
    CHECK_INT(fscanf(file, "%31s %15s %lf %lf %d %lf %lf %lf %lf %lf %d", name, method, &o.lr, &o.momentum,
                     &nesterov, &o.beta1, &o.beta2, &o.epsilon, &o.weight_decay, &o.clip_norm, &steps),
              11);
    CHECK(steps <= 8);
    o.nesterov = nesterov != 0;
    o.method = strcmp(method, "sgd") == 0 ? PDL_METHOD_SGD : PDL_METHOD_ADAMW;
    CHECK_OK(pdl_optimizer_check(&o));
    CHECK(read_row(file, "w", values, WEIGHTS));
    for (i = 0; i < steps; i++) {
        CHECK(read_row(file, "g", gradient[i], WEIGHTS) && read_row(file, "w", after[i], WEIGHTS));
    }
    for (int b = 0; b < bench_count; b++) {
        pdl_optimizer_run_t run = begin(&benches[b], &o, five, 5);

        put_all(&benches[b], W, values, WEIGHTS);
        for (i = 0; i < steps; i++, run.step++) {
            put_all(&benches[b], G, gradient[i], WEIGHTS);
            CHECK_OK(step(&o, &run, NULL));
            check_all(&benches[b], W, after[i], WEIGHTS, name);
        }
    }
}

static void run_rate(FILE *file)
{
    pdl_optimizer_options_t o;
    char                    name[32], schedule[16];
    int                     count;
    double                  rates[16];

    pdl_optimizer_defaults(&o);
    CHECK_INT(fscanf(file, "%31s %15s %lf %lf %lf %lf %lf %d", name, schedule, &o.lr, &o.min_lr, &o.total_steps,
                     &o.power, &o.gamma, &count),
              8);
    CHECK(count <= 16 && read_row(file, "r", rates, count));
    for (int s = 0; s < PDL_LR_COUNT; s++) {
        if (strcmp(schedule, pdl_lr_names[s]) == 0) o.schedule = (pdl_lr_schedule_t)s;
    }
    o.milestone_count = o.schedule == PDL_LR_STEP ? 3 : 0;
    o.milestone[0] = 3;
    o.milestone[1] = 6;
    o.milestone[2] = 8;
    CHECK_OK(pdl_optimizer_check(&o));
    /* PyTorch chains its cosine from step to step, which rounds a little at each. */
    for (int i = 0; i < count; i++) CHECK(fabs(pdl_learning_rate(&o, i) - rates[i]) <= 1e-14);
}

static void agrees_with_pytorch(void)
{
    FILE *file = fopen(PDL_TEST_SOURCE "/tests/reference/optimizers.txt", "r");
    char  word[8];
    int   cases = 0, rates = 0;

    CHECK(file != NULL);
    while (file != NULL && fscanf(file, "%7s", word) == 1) {
        if (strcmp(word, "case") == 0) {
            run_case(file);
            cases++;
        } else {
            CHECK_STR(word, "rate");
            run_rate(file);
            rates++;
        }
    }
    CHECK_INT(cases, 8);
    CHECK_INT(rates, 4);
    if (file != NULL) fclose(file);
}

static double drawn(int what, int step, int i)
{
    return pdl_random_normal(3, pdl_random_stream("test", (uint64_t)what, (uint64_t)step), (uint64_t)i);
}

static double norm(const double *values, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++) sum += values[i] * values[i];
    return sqrt(sum);
}

/* Algorithm 1 of You et al. 2017, with the momentum it names m. */
static void lars_loop(const pdl_optimizer_options_t *o, double rate, double *w, const double *g, double *v)
{
    for (int t = 0; t < 5; t++) {
        int64_t first = five[t].range.state, count = five[t].range.elements;
        double  local = 1, decay = five[t].range.decays ? o->weight_decay : 0;

        if (five[t].range.decays && norm(w + first, count) > 0 && norm(g + first, count) > 0)
            local = o->trust * norm(w + first, count) / (norm(g + first, count) + decay * norm(w + first, count));
        for (int64_t i = first; i < first + count; i++) {
            v[i] = o->momentum * v[i] + rate * local * (g[i] + decay * w[i]);
            w[i] -= v[i];
        }
    }
}

/* Algorithm 2 of You et al. 2020, with the identity for its function phi. */
static void lamb_loop(const pdl_optimizer_options_t *o, int step, double rate, double *w, const double *g,
                      double *m, double *v)
{
    for (int t = 0; t < 5; t++) {
        int64_t first = five[t].range.state, count = five[t].range.elements;
        double  r[WEIGHTS], ratio = 1, decay = five[t].range.decays ? o->weight_decay : 0;

        for (int64_t i = first; i < first + count; i++) {
            m[i] = o->beta1 * m[i] + (1 - o->beta1) * g[i];
            v[i] = o->beta2 * v[i] + (1 - o->beta2) * g[i] * g[i];
            r[i] =
                m[i] / (1 - pow(o->beta1, step + 1)) / (sqrt(v[i] / (1 - pow(o->beta2, step + 1))) + o->epsilon) +
                decay * w[i];
        }
        if (five[t].range.decays && norm(w + first, count) > 0)
            ratio = norm(w + first, count) / norm(r + first, count);
        for (int64_t i = first; i < first + count; i++) w[i] -= rate * ratio * r[i];
    }
}

static void scale_layers(pdl_method_t method)
{
    pdl_optimizer_options_t o;

    pdl_optimizer_defaults(&o);
    o.method = method;
    o.weight_decay = 0.02;
    o.trust = 0.1;
    o.lr = 0.5;
    o.warmup_steps = 3;
    for (int b = 0; b < bench_count; b++) {
        pdl_optimizer_run_t run = begin(&benches[b], &o, five, 5);
        double              w[WEIGHTS], g[WEIGHTS], m[WEIGHTS] = {0}, v[WEIGHTS] = {0};

        /* The one-element tensor starts at zero: its norm is none to divide by. */
        for (int i = 0; i < WEIGHTS; i++) w[i] = i == 6 ? 0 : drawn(0, 0, i);
        put_all(&benches[b], W, w, WEIGHTS);
        for (int s = 0; s < 6; s++, run.step++) {
            double rate = 0.5 * (s < 3 ? (s + 1) / 3.0 : 1);

            for (int i = 0; i < WEIGHTS; i++) g[i] = drawn(1, s, i);
            put_all(&benches[b], G, g, WEIGHTS);
            if (method == PDL_METHOD_LARS)
                lars_loop(&o, rate, w, g, m);
            else
                lamb_loop(&o, s, rate, w, g, m, v);
            CHECK_OK(step(&o, &run, NULL));
            check_all(&benches[b], W, w, WEIGHTS, pdl_method_names[method]);
        }
    }
}

static void lars_follows_its_paper(void)
{
    scale_layers(PDL_METHOD_LARS);
}

static void lamb_follows_its_paper(void)
{
    scale_layers(PDL_METHOD_LAMB);
}

/* Another rank holds as much again, and one of its gradients. */
static pdl_status_t other_rank(void *context, double *values, int64_t count)
{
    CHECK_INT(count, 1);
    *values += *(const double *)context;
    return PDL_OK;
}

static pdl_status_t failing_rank(void *context, double *values, int64_t count)
{
    (void)context, (void)values, (void)count;
    return pdl_error(PDL_ERR_IO, "rank 1 is gone");
}

static void clips_by_the_global_norm(void)
{
    pdl_optimizer_options_t o;
    double                  w[2] = {0, 0}, g[2] = {3, 0}, elsewhere = 16, found;
    const pdl_parameter_t   one = AT(0, 2, true);

    pdl_optimizer_defaults(&o);
    o.momentum = 0;
    o.lr = 1;
    for (int b = 0; b < bench_count; b++) {
        pdl_optimizer_run_t run = begin(&benches[b], &o, &one, 1);

        run.reduce = other_rank;
        run.reduce_context = &elsewhere;
        put_all(&benches[b], G, g, 2);
        put_all(&benches[b], W, w, 2);
        run.norm = true;
        o.clip_norm = 0;
        CHECK_OK(step(&o, &run, &found));
        CHECK_NEAR(found, 5, 1e-12);
        CHECK_NEAR(get(&benches[b], run.weights, 0), -3, 1e-7);
        put_all(&benches[b], W, w, 2);
        o.clip_norm = 0.5;
        CHECK_OK(step(&o, &run, &found));
        CHECK_NEAR(found, 5, 1e-12);
        CHECK_NEAR(get(&benches[b], run.weights, 0), -0.3, 1e-6);
        run.reduce = failing_rank;
        CHECK_ERROR(step(&o, &run, NULL), "rank 1 is gone");
        run.reduce = NULL;
        put(&benches[b], run.gradients, 1, NAN);
        CHECK_ERROR(step(&o, &run, NULL), "step 0 are not finite");
        CHECK_NEAR(get(&benches[b], run.weights, 0), -0.3, 1e-6);
    }
}

/* Weights that overflow are noticed by every method and backend, wherever in a vector they are. */
static void weights_that_overflow_are_noticed(void)
{
    const pdl_parameter_t one = AT(0, 2, true);

    for (int b = 0; b < bench_count; b++)
        for (int method = 0; method < PDL_METHOD_COUNT; method++)
            for (int k = 0; k < 4; k++) {
                pdl_optimizer_options_t o;
                double                  w[2] = {1, 2}, g[2] = {0.5, 0.25}, bad = k < 2 ? NAN : INFINITY;

                pdl_optimizer_defaults(&o);
                o.method = (pdl_method_t)method;
                o.momentum = k % 2 ? 0.9 : 0;
                o.lr = 0.1;
                pdl_optimizer_run_t run = begin(&benches[b], &o, &one, 1);
                put_all(&benches[b], W, w, 2);
                put_all(&benches[b], G, g, 2);
                CHECK_OK(step(&o, &run, NULL));
                put(&benches[b], run.gradients, 1, bad);
                run.step = 1;
                CHECK(step(&o, &run, NULL) == PDL_ERR_NOT_FINITE);
                CHECK_ERROR(PDL_ERR_NOT_FINITE, "not finite after step 1");
            }
}

static void averages_follow_the_weights(void)
{
    pdl_optimizer_options_t o;
    const pdl_parameter_t   two[] = {AT(0, 1, true), AT(2, 1, false)}; /* a gap at 1 that nobody owns */
    double                  ones[3] = {1, 1, 1};

    pdl_optimizer_defaults(&o);
    o.momentum = 0;
    o.lr = 0.5;
    o.ema = 0.75;
    for (int b = 0; b < bench_count; b++) {
        pdl_optimizer_run_t run = begin(&benches[b], &o, two, 2);
        double              w = 1, average = 1;

        put_all(&benches[b], W, ones, 3);
        put_all(&benches[b], G, ones, 3);
        put_all(&benches[b], E, ones, 3);
        for (int s = 0; s < 4; s++, run.step++) {
            CHECK_OK(step(&o, &run, NULL));
            w -= 0.5;
            average = 0.75 * average + 0.25 * w;
            CHECK_NEAR(get(&benches[b], run.ema, 0), average, 1e-6);
            CHECK_NEAR(get(&benches[b], run.ema, 2), average, 1e-6);
        }
        CHECK_NEAR(get(&benches[b], run.weights, 1), 1, 0);
        CHECK_NEAR(get(&benches[b], run.ema, 1), 1, 0);
    }
}

/* A loss that is not finite, of which only the device knows yet, keeps weights and state as they are. */
static void a_flag_keeps_the_weights(void)
{
    const pdl_parameter_t one = AT(0, 2, true);

    for (int b = 0; b < bench_count; b++)
        for (int method = 0; method < PDL_METHOD_COUNT; method++) {
            pdl_optimizer_options_t o;
            double                  values[2] = {1, 2};
            float                   weight[2] = {1, 0};
            int64_t                 flag = 0;

            pdl_optimizer_defaults(&o);
            o.method = (pdl_method_t)method;
            pdl_optimizer_run_t run = begin(&benches[b], &o, &one, 1);
            run.flag = &flag;
            put_all(&benches[b], W, values, 2);
            put_all(&benches[b], G, values, 2);
            put(&benches[b], run.gradients, 1, NAN);
            /* The second sample has no weight, so that the first is what counts. */
            CHECK_OK(run.backend->ops->check_results(run.backend, NULL, run.gradients, weight, 2, &flag));
            CHECK_INT(flag, 0);
            CHECK_OK(run.backend->ops->check_results(run.backend, NULL, run.gradients, NULL, 2, &flag));
            CHECK_INT(flag, 1);
            CHECK_OK(step(&o, &run, NULL));
            for (int i = 0; i < 2; i++) {
                CHECK_NEAR(get(&benches[b], run.weights, i), values[i], 0);
                CHECK_NEAR(get(&benches[b], run.moment[0], i), 0, 0);
            }
        }
}

/* A copy in the activation type has what was written, where a range has one. */
static void copies_follow_the_weights(void)
{
    pdl_optimizer_options_t o;
    pdl_parameter_t         two[] = {AT(0, 2, true), AT(2, 2, false)};
    double                  values[4] = {1, 2, 3, 4};

    pdl_optimizer_defaults(&o);
    two[1].range.packed = 1;
    for (int b = 0; b < bench_count; b++) {
        float               packed[4] = {9, 9, 9, 9};
        pdl_optimizer_run_t run = begin(&benches[b], &o, two, 2);

        if (run.backend->weight_type != PDL_DTYPE_F32 || run.backend->activation_type != PDL_DTYPE_F32) continue;
        run.packed = packed;
        put_all(&benches[b], W, values, 4);
        put_all(&benches[b], G, values, 4);
        CHECK_OK(step(&o, &run, NULL));
        CHECK(packed[0] == 9 && packed[3] == 9);
        for (int i = 0; i < 2; i++) CHECK_NEAR((double)packed[1 + i], get(&benches[b], run.weights, 2 + i), 0);
    }
}

static void warms_up_and_ends(void)
{
    pdl_optimizer_options_t o;

    pdl_optimizer_defaults(&o);
    CHECK_NEAR(pdl_learning_rate(&o, 0), 0.1, 0);
    o.method = PDL_METHOD_LARS;
    CHECK_NEAR(pdl_learning_rate(&o, 0), 1, 0);
    o.method = PDL_METHOD_ADAMW;
    CHECK_NEAR(pdl_learning_rate(&o, 1000000), 1e-3, 0);
    o.lr = 2;
    o.warmup_steps = 4;
    o.total_steps = 12;
    o.min_lr = 0.5;
    o.schedule = PDL_LR_COSINE;
    CHECK_NEAR(pdl_learning_rate(&o, 0), 0.5, 0);
    CHECK_NEAR(pdl_learning_rate(&o, 3), 2, 0);
    CHECK_NEAR(pdl_learning_rate(&o, 4), 2, 0);
    CHECK_NEAR(pdl_learning_rate(&o, 8), 1.25, 1e-15);
    CHECK_NEAR(pdl_learning_rate(&o, 12), 0.5, 0);
    CHECK_NEAR(pdl_learning_rate(&o, 100), 0.5, 0);
    o.schedule = PDL_LR_POLYNOMIAL;
    CHECK_NEAR(pdl_learning_rate(&o, 6), 1.625, 1e-15);
}

static void counts_its_state(void)
{
    pdl_optimizer_options_t o;

    pdl_optimizer_defaults(&o);
    CHECK_INT(pdl_optimizer_moments(&o), 1);
    o.momentum = 0;
    CHECK_INT(pdl_optimizer_moments(&o), 0);
    o.method = PDL_METHOD_LAMB;
    CHECK_INT(pdl_optimizer_moments(&o), 2);
}

/* One option wrong at a time: each time its name and range are in the message. */
static void names_a_wrong_option(void)
{
    pdl_optimizer_options_t good, o;

    pdl_optimizer_defaults(&good);
    CHECK_OK(pdl_optimizer_check(&good));
#define WRONG(field, value, message)                     \
    do {                                                 \
        o = good;                                        \
        o.field = (value);                               \
        CHECK_ERROR(pdl_optimizer_check(&o), (message)); \
    } while (0)
    WRONG(lr, -2, "lr is -2, expected -1 (the method's usual one), 0 or more");
    WRONG(lr, INFINITY, "lr is inf");
    WRONG(momentum, 1, "momentum is 1, expected 0 to below 1");
    WRONG(beta1, -0.1, "beta1 is -0.1");
    WRONG(beta2, 1, "beta2 is 1, expected 0 to below 1");
    WRONG(epsilon, NAN, "epsilon is ");
    WRONG(weight_decay, -1e-4, "weight_decay is -0.0001");
    WRONG(clip_norm, -1, "clip_norm is -1");
    WRONG(ema, 1, "ema is 1");
    WRONG(gamma, 2, "gamma is 2, expected 0 to 1");
    WRONG(schedule, PDL_LR_STEP, "the step schedule needs milestones");
    WRONG(schedule, PDL_LR_COSINE, "cosine schedule has 0 steps, expected more than the 0 of the warm-up");
    WRONG(milestone_count, PDL_MAX_MILESTONES + 1, "17 milestones, at most 16");
    good.nesterov = true;
    WRONG(momentum, 0, "nesterov needs a momentum above 0");
    WRONG(method, PDL_METHOD_ADAMW, "nesterov is for sgd and lars, not for adamw");
    good.nesterov = false;
    good.lr = 0.1;
    WRONG(min_lr, 0.2, "min_lr is 0.2, expected at most lr, 0.1");
    good.milestone[0] = 5;
    WRONG(milestone_count, 2, "milestone 0 comes after 5");
}

int main(void)
{
    pdl_cpu_options_t cpu = {.threads = 2, .precision = PDL_DTYPE_F32};

    REQUIRE_OK(pdl_backend_create_reference(&benches[bench_count].backend));
    benches[bench_count++].tolerance = 1e-13;
    REQUIRE_OK(pdl_backend_create_cpu(&cpu, &benches[bench_count].backend));
    benches[bench_count++].tolerance = 1e-6;
    RUN(agrees_with_pytorch);
    RUN(lars_follows_its_paper);
    RUN(lamb_follows_its_paper);
    RUN(clips_by_the_global_norm);
    RUN(weights_that_overflow_are_noticed);
    RUN(a_flag_keeps_the_weights);
    RUN(copies_follow_the_weights);
    RUN(averages_follow_the_weights);
    RUN(warms_up_and_ends);
    RUN(counts_its_state);
    RUN(names_a_wrong_option);
    for (int b = 0; b < bench_count; b++) pdl_backend_destroy(benches[b].backend);
    pdl_optimizer_table_destroy(table);
    return test_done();
}
