/*
 * Workers on samples made up in memory: points around one centre a class.
 */
#ifndef PDL_ROUNDS_FIXTURE_H
#define PDL_ROUNDS_FIXTURE_H

#include "train/rounds/rounds.h"
#include <paradl/base/random.h>
#include <stdlib.h>

#define CLASSES  4
#define ELEMENTS 6

static const char rounds_network[] = "paradl: model/1\nname: points\ninput: {channels: 6, size: [1, 1]}\nlayers:\n"
                                     "  - flatten: {name: flat}\n"
                                     "  - linear: {name: fc1, out: 12}\n"
                                     "  - relu: {name: r}\n"
                                     "  - linear: {name: fc2, out: 4}\n"
                                     "  - cross_entropy: {name: loss}\n";

/* As above, with eight more classes that no sample has. */
static const char wide_network[] =
    "paradl: model/1\nname: points-wide\ninput: {channels: 6, size: [1, 1]}\nlayers:\n"
    "  - flatten: {name: flat}\n"
    "  - linear: {name: fc1, out: 12}\n"
    "  - relu: {name: r}\n"
    "  - linear: {name: fc2, out: 12}\n"
    "  - cross_entropy: {name: loss}\n";

static const char norm_network[] = "paradl: model/1\nname: points-bn\ninput: {channels: 6, size: [1, 1]}\nlayers:\n"
                                   "  - conv: {name: c, out: 8, kernel: 1}\n"
                                   "  - batch_norm: {name: bn}\n"
                                   "  - relu: {name: r}\n"
                                   "  - flatten: {name: flat}\n"
                                   "  - dropout: {name: drop, rate: 0.25}\n"
                                   "  - linear: {name: fc2, out: 4}\n"
                                   "  - cross_entropy: {name: loss}\n";

typedef struct fixture {
    pdl_ranks_t       *ranks; /* borrowed */
    pdl_model_t       *model;
    pdl_plan_t        *plan;
    pdl_backend_t     *backend;
    pdl_session_t     *session;
    pdl__rounds_t     *rounds;
    int64_t            batch, workers, first, count;
    const int64_t     *samples; /* [workers] */
    const int32_t     *classes; /* [workers]: bit c set: the worker has samples of class c */
    int64_t            taken[64];
    pdl__rounds_plan_t cycle;
    float              values[64 * ELEMENTS], weight[64];
    int32_t            labels[64];
    int                asked; /* batches */
    int64_t            run;   /* rounds of the cycle */
} fixture_t;

/* Sample `i` of a worker. */
static int32_t make_sample(int32_t classes, uint64_t stream, int64_t i, float *values)
{
    int32_t label = (int32_t)pdl_random_below(5, stream, (uint64_t)(i * 64), CLASSES);

    while (!(classes >> label & 1)) label = (label + 1) % CLASSES;
    for (int e = 0; e < ELEMENTS; e++)
        values[e] = (float)(pdl_random_normal(9, 77, (uint64_t)(label * ELEMENTS + e)) +
                            0.8 * pdl_random_normal(5, stream, (uint64_t)(i * 64 + 1 + e)));
    return label;
}

static void fill(fixture_t *f, int64_t worker, int64_t first, float *values, int32_t *labels)
{
    for (int64_t i = 0; i < f->batch; i++)
        labels[i] = make_sample(f->classes[worker], pdl_random_stream("points", (uint64_t)worker, 0),
                                (first + i) % f->samples[worker], values + i * ELEMENTS);
}

static pdl_status_t next_points(void *context, int64_t worker, pdl_batch_t *batch)
{
    fixture_t *f = context;
    int64_t    all = f->first + worker;

    fill(f, all, f->taken[worker]++ % f->cycle.steps * f->batch, f->values, f->labels);
    for (int64_t i = 0; i < f->batch; i++) f->weight[i] = 1;
    *batch = (pdl_batch_t){.values = f->values, .labels = f->labels, .weight = f->weight};
    f->asked++;
    return PDL_OK;
}

static pdl_status_t open_session(fixture_t *f, const char *network, const pdl_session_spec_t *options,
                                 int64_t batch, bool reference)
{
    int                size = pdl_ranks_size(f->ranks);
    pdl_mesh_t         mesh = {{{PDL_AXIS_DATA, size, 0}}, 1};
    pdl_cpu_options_t  cpu = {.threads = 1};
    pdl_session_spec_t spec = *options;
    pdl_status_t       status = pdl_model_read_yaml_memory(network, strlen(network), "test", &f->model);

    if (!status) status = pdl_plan_create(f->model, &mesh, batch, &f->plan);
    if (!status) status = pdl_plan_apply_preset(f->plan, "data", NULL);
    if (!status)
        status = reference ? pdl_backend_create_reference(&f->backend) : pdl_backend_create_cpu(&cpu, &f->backend);
    spec.plan = f->plan;
    spec.backend = f->backend;
    spec.ranks = f->ranks;
    return status ? status : pdl_session_create(&spec, &f->session);
}

static pdl_status_t begin_cycle(fixture_t *f)
{
    return pdl__rounds_begin(f->rounds, f->samples + f->first, &f->cycle);
}

/* The next round, of another cycle where this one is over. */
static pdl_status_t run_round(fixture_t *f, pdl__round_result_t *result)
{
    pdl_status_t status = f->run == f->cycle.rounds ? begin_cycle(f) : PDL_OK;

    f->run = f->run == f->cycle.rounds ? 1 : f->run + 1;
    return status ? status : pdl__rounds_run(f->rounds, result);
}

/* `f` has ranks, batch, workers, samples and classes. */
static pdl_status_t open_rounds(fixture_t *f, const char *network, const pdl_session_spec_t *session,
                                const pdl_aggregate_options_t *options, bool reference)
{
    pdl_session_spec_t separate = *session;
    pdl__rounds_spec_t spec = {.options = *options, .workers = f->workers, .next = next_points, .next_context = f};
    separate.separate = true;
    pdl_status_t status = open_session(f, network, &separate, f->batch * pdl_ranks_size(f->ranks), reference);
    spec.session = f->session;
    if (!status) status = pdl__rounds_create(&spec, &f->rounds);
    if (status) return status;
    pdl__rounds_workers(f->rounds, &f->first, &f->count);
    return begin_cycle(f);
}

static void close_fixture(fixture_t *f)
{
    pdl__rounds_destroy(f->rounds);
    pdl_session_destroy(f->session);
    pdl_backend_destroy(f->backend);
    pdl_plan_destroy(f->plan);
    pdl_model_destroy(f->model);
}

/* Largest difference of the weights and statistics of two sessions. */
static double weights_apart(const pdl_session_t *a, const pdl_session_t *b)
{
    double most = 0;

    for (int i = 0; i < pdl_session_tensor_count(a); i++) {
        int64_t count = pdl_session_tensor(a, i)->elements;
        float  *x = calloc((size_t)count, 2 * sizeof(*x)), *y = x + count;
        if (pdl_session_get(a, i, PDL_ARRAY_WEIGHT, x) || pdl_session_get(b, i, PDL_ARRAY_WEIGHT, y)) most = 1e9;
        for (int64_t k = 0; k < count; k++) most = fmax(most, fabs((double)x[k] - (double)y[k]));
        free(x);
    }
    return most;
}

#endif
