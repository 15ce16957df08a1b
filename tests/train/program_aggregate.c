/*
 * Under mpirun: rounds over the ranks give the numbers of the same workers on one rank, whatever the kind.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

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
                a.clusters == b.clusters && a.updates == b.updates;
    if (!good)
        printf("FAIL %s of %lld workers: %g apart, loss %g and %g, %s\n", trial->kind, (long long)trial->workers,
               apart, a.loss, b.loss, status ? pdl_error_message() : "");
    close_fixture(&one);
    close_fixture(&together);
    return good;
}

int main(void)
{
    int count = (int)(sizeof(trials) / sizeof(*trials)), good = 0;

    if (pdl_ranks_create(&world) || pdl_ranks_split(world, pdl_ranks_rank(world), 0, &alone)) return 1;
    for (int i = 0; i < count; i++) good += compare(&trials[i]);
    if (pdl_ranks_rank(world) == 0) printf("%d ranks: %d of %d kinds alike\n", pdl_ranks_size(world), good, count);
    pdl_ranks_destroy(alone);
    pdl_ranks_destroy(world);
    return good == count ? 0 : 1;
}
