/*
 * Under mpirun: rounds over the ranks give the numbers of the same workers on one rank, whatever the kind.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/rounds/ensemble_inside.h"
#include "train/rounds_fixture.h"

static pdl_ranks_t *world, *alone;

typedef struct trial {
    const char *kind, *network;
    int64_t     workers, hops;
    bool        keep_moments;
} trial_t;

static const trial_t trials[] = {
    {"local:2", rounds_network, 4, 2, false}, {"local", norm_network, 5, 2, true},
    {"sem", rounds_network, 5, 2, false},     {"sem", norm_network, 7, 3, true},
    {"sem", rounds_network, 8, 5, false},     {"cadis", norm_network, 5, 2, false},
};

static pdl_status_t run(fixture_t *f, const trial_t *trial, pdl__round_result_t *result)
{
    pdl_aggregate_options_t options;
    pdl_session_spec_t      session;

    pdl_aggregate_defaults(&options);
    pdl_session_defaults(&session);
    session.optimizer.lr = 0.05;
    options.hops = trial->hops;
    options.keep_moments = trial->keep_moments;
    pdl_status_t status = pdl_aggregate_parse(trial->kind, &options);
    if (!status) status = open_rounds(f, trial->network, &session, &options, false);
    for (int i = 0; i < 4 && !status; i++) status = run_round(f, result);
    return status;
}

static bool compare(const trial_t *trial)
{
    static const int64_t samples[] = {24, 16, 30, 20, 24, 17, 24, 8};
    static const int32_t classes[] = {15, 3, 12, 5, 10, 15, 7, 8};
    fixture_t            together = {
                   .ranks = world, .batch = 8, .workers = trial->workers, .samples = samples, .classes = classes};
    fixture_t           one = together;
    pdl__round_result_t a = {0}, b = {0};
    one.ranks = alone;
    pdl_status_t status = run(&together, trial, &a);

    if (!status) status = run(&one, trial, &b);
    double apart = status ? 1e9 : weights_apart(together.session, one.session);
    bool   good = apart < 2e-5 && fabs(a.loss - b.loss) < 1e-4 && a.samples == b.samples &&
                a.mean.clusters == b.mean.clusters && a.updates == b.updates;
    if (!good)
        printf("FAIL %s of %lld workers: %g apart, loss %g and %g, %s\n", trial->kind, (long long)trial->workers,
               apart, a.loss, b.loss, status ? pdl_error_message() : "");
    close_fixture(&one);
    close_fixture(&together);
    return good;
}

/* Batches of an ensemble: all nets see the same. */
typedef struct views {
    fixture_t f;
    int64_t   worker, taken[4];
    float     values[4][8 * ELEMENTS];
    int32_t   labels[4][8];
} views_t;

static pdl_status_t open_turn(void *context, int64_t worker, int64_t epoch)
{
    views_t *v = context;

    (void)epoch;
    v->worker = worker;
    memset(v->taken, 0, sizeof(v->taken));
    return PDL_OK;
}

static pdl_status_t next_view(void *context, int net, pdl_batch_t *batch)
{
    views_t *v = context;

    fill(&v->f, v->worker, v->taken[net]++ * v->f.batch, v->values[net], v->labels[net]);
    *batch = (pdl_batch_t){.values = v->values[net], .labels = v->labels[net], .weight = v->f.weight};
    return PDL_OK;
}

/* Three rounds of two nets, in `parts` stages. */
static pdl_status_t run_ensemble(views_t *v, int parts, pdl__ensemble_t **ensemble, pdl__ensemble_result_t *result)
{
    int                  groups = pdl_ranks_size(v->f.ranks) / parts;
    pdl_mesh_t           mesh = {{{PDL_AXIS_DATA, groups, 0}, {PDL_AXIS_PIPELINE, parts, 0}}, parts > 1 ? 2 : 1};
    pdl_cpu_options_t    cpu = {.threads = 1};
    pdl__ensemble_spec_t spec = {.workers = v->f.workers, .views = {open_turn, next_view, v}};
    pdl_status_t status = pdl_model_read_yaml_memory(rounds_network, strlen(rounds_network), "test", &v->f.model);
    int64_t      steps;

    pdl_aggregate_defaults(&spec.options);
    pdl_session_defaults(&spec.session);
    spec.options.kind = PDL_AGGREGATE_FEDDCT;
    spec.options.nets = 2;
    spec.options.mixup = 0.2;
    for (int i = 0; i < 8; i++) v->f.weight[i] = 1;
    if (!status) status = pdl_plan_create(v->f.model, &mesh, v->f.batch * mesh.axis[0].size, &v->f.plan);
    if (!status)
        status = pdl_plan_apply_preset(v->f.plan,
                                       parts == 1   ? "data"
                                       : groups > 1 ? "data+pipeline"
                                                    : "pipeline",
                                       NULL);
    if (!status) status = pdl_backend_create_cpu(&cpu, &v->f.backend);
    spec.session.plan = v->f.plan;
    spec.session.backend = v->f.backend;
    spec.session.ranks = v->f.ranks;
    spec.session.optimizer.lr = 0.05;
    if (!status) status = pdl__ensemble_create(&spec, ensemble);
    if (!status) status = pdl__ensemble_begin(*ensemble, v->f.samples, &steps);
    for (int i = 0; i < 3 && !status; i++) status = pdl__ensemble_run(*ensemble, result);
    return status;
}

/* Nets whole on every rank, and in stems and bodies on two, against all on one. */
static bool compare_ensembles(int parts)
{
    static const int64_t   samples[] = {24, 16, 30, 20, 24};
    static const int32_t   classes[] = {15, 3, 12, 5, 10};
    views_t                v[2];
    pdl__ensemble_t       *e[2] = {NULL, NULL};
    pdl__ensemble_result_t result[2] = {{0}, {0}};
    pdl_status_t           status = PDL_OK;
    double                 apart = 0;

    for (int i = 0; i < 2; i++) {
        v[i] = (views_t){.f = {.batch = 8, .workers = 5, .samples = samples, .classes = classes}};
        v[i].f.ranks = i ? alone : world;
        if (!status) status = run_ensemble(&v[i], i ? 1 : parts, &e[i], &result[i]);
    }
    if (parts > 1 && !status) {
        pdl__ensemble_report_t report;

        status = pdl__ensemble_report(e[0], &report);
        /* Activations there and gradients back of both nets: 8 samples at the cut. */
        const pdl_layer_t *cut = pdl_model_layer(e[0]->model, pdl_model_cut(e[0]->model));
        double             expected = 2.0 * 2 * 8 * (double)pdl_shape_elements(&cut->out) * sizeof(float);
        if (fabs(report.sent_bytes - expected) > 0.5 || !(report.stem_bytes > 0 && report.body_bytes > 0))
            status = pdl_error(PDL_ERR_INPUT, "%g bytes sent, expected %g", report.sent_bytes, expected);
    }
    for (int n = 0; n < 2 && !status && parts == 1; n++)
        apart = fmax(apart, weights_apart(pdl__ensemble_net(e[0], n), pdl__ensemble_net(e[1], n)));
    bool good = !status && apart < 2e-5 && fabs(result[0].loss - result[1].loss) < 1e-4 &&
                fabs(result[0].accuracy - result[1].accuracy) < 1e-9 && result[0].samples == result[1].samples &&
                fabs(result[0].agreement - result[1].agreement) < 1e-5;
    if (!good)
        printf("FAIL feddct in %d parts: %g apart, loss %g and %g, %s\n", parts, apart, result[0].loss,
               result[1].loss, status ? pdl_error_message() : "");
    for (int i = 1; i >= 0; i--) {
        pdl__ensemble_destroy(e[i]);
        close_fixture(&v[i].f);
    }
    return good;
}

int main(void)
{
    int count = (int)(sizeof(trials) / sizeof(*trials)) + 2, good = 0;

    if (pdl_ranks_create(&world) || pdl_ranks_split(world, pdl_ranks_rank(world), 0, &alone)) return 1;
    for (int i = 0; i < count - 2; i++) good += compare(&trials[i]);
    good += compare_ensembles(1);
    good += pdl_ranks_size(world) % 2 != 0 || compare_ensembles(2);
    if (pdl_ranks_rank(world) == 0) printf("%d ranks: %d of %d kinds alike\n", pdl_ranks_size(world), good, count);
    pdl_ranks_destroy(alone);
    pdl_ranks_destroy(world);
    return good == count ? 0 : 1;
}
