/*
 * What `paradl plan` says against what `paradl simulate` says, for all plans that the search proposes for six networks on four
 * machines with 4, 24 and 256 devices: the share that agrees within 1 % and within 5 %, without and with pipelines; for pipelines
 * also that of the formulas without a play, which are all there is of pipelines with very many passes. With an argument every plan is listed.
 */
#include "test.h"

#include <paradl/oracle/search.h>
#include <paradl/sim/plan_sim.h>

#include <math.h>
#include <stdlib.h>

static const char *const networks[] = {"resnet50", "vgg16", "unet", "cosmoflow-128", "gpt2-355m", "bert-large"};
static const char *const machines[] = {"abci-v", "selene", "frontier", "tsubame3"};
static const int64_t     sizes[] = {4, 24, 256};

typedef struct tally {
    int    plans, within_1, within_5;
    double worst;
} tally_t;

static tally_t without_pipeline, with_pipeline, formulas;
static bool    listed;

static void count(tally_t *tally, double ratio)
{
    double off = fabs(ratio - 1);

    tally->plans++;
    tally->within_1 += off <= 0.01;
    tally->within_5 += off <= 0.05;
    tally->worst = fmax(tally->worst, off);
}

static void list(const pdl_candidate_t *candidate, const pdl_plan_parts_t *s, double formula_s, const char *network,
                 const char *machine)
{
    const pdl_projection_t *p = &candidate->projection;
    const pdl_config_t     *c = &candidate->config;

    printf("%-13s %-8s %-13s p%lld d%lld s%lld t%lld m%lld v%d z%d %s %+7.2f %% of %.4g, formulas %+.2f %%:",
           network, machine, candidate->config.strategy->name, (long long)c->pipeline, (long long)c->data,
           (long long)c->spatial, (long long)c->tensor, (long long)c->micro_batches, c->virtual_stages,
           (int)c->sharding, pdl_recompute_names[c->recompute], 100 * (p->total_s / s->total_s - 1), s->total_s,
           100 * (formula_s / s->total_s - 1));
    printf(" comp %+.2f layer %+.2f halo %+.2f stage %+.2f grad %+.2f bubble %+.2f\n",
           100 * (p->compute_s - s->compute_s) / s->total_s,
           100 * (p->comm[PDL_COMM_LAYER] - s->comm[PDL_COMM_LAYER]) / s->total_s,
           100 * (p->comm[PDL_COMM_HALO] - s->comm[PDL_COMM_HALO]) / s->total_s,
           100 * (p->comm[PDL_COMM_STAGE] - s->comm[PDL_COMM_STAGE]) / s->total_s,
           100 * (p->comm[PDL_COMM_GRADIENT] - s->comm[PDL_COMM_GRADIENT]) / s->total_s,
           100 * (p->bubble_s - s->bubble_s) / s->total_s);
}

static void compare(pdl_oracle_t *oracle, const pdl_candidate_t *candidate, const char *network,
                    const char *machine)
{
    pdl_plan_sim_options_t options = pdl_plan_sim_options_default();
    pdl_plan_sim_t        *sim = NULL;
    pdl_projection_t       formula;
    const pdl_config_t    *c = &candidate->config;
    tally_t               *tally = c->pipeline > 1 ? &with_pipeline : &without_pipeline;
    bool played = c->pipeline * c->virtual_stages * c->micro_batches <= 300000; /* pdl_oracle_replay() */

    CHECK_OK(pdl_sim_plan(oracle, candidate->plan, &options, &sim));
    if (sim == NULL) return;
    CHECK_NEAR(candidate->projection.total_s, sim->projected.total_s, 1e-9);
    if (played) count(tally, candidate->projection.total_s / sim->simulated.total_s);
    CHECK_OK(pdl_oracle_project(oracle, candidate->plan, NULL, &formula));
    if (candidate->config.pipeline > 1) count(&formulas, formula.total_s / sim->simulated.total_s);
    if (listed) list(candidate, &sim->simulated, formula.total_s, network, machine);
    pdl_plan_sim_destroy(sim);
}

static void compare_all(const char *network, const char *machine)
{
    pdl_model_t        *model = NULL;
    const pdl_system_t *system = NULL;
    pdl_parameters_t    parameters;
    pdl_oracle_t       *oracle = NULL;

    REQUIRE_OK(pdl_model_load(network, &model));
    REQUIRE_OK(pdl_system_load(machine, &system));
    CHECK_OK(pdl_parameters_choose(NULL, system, &parameters));
    REQUIRE_OK(pdl_oracle_create(model, system, &parameters, &oracle));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        pdl_request_t request = pdl_request_default();
        pdl_search_t *search = NULL;

        request.pe = sizes[i];
        CHECK_OK(pdl_search_run(oracle, &request, &search));
        for (int k = 0; search != NULL && k < search->possible; k++)
            compare(oracle, &search->candidates[k], network, machine);
        pdl_search_destroy(search);
    }
    pdl_oracle_destroy(oracle);
    pdl_system_destroy(system);
    pdl_model_destroy(model);
}

static void show(const char *what, const tally_t *t)
{
    printf("%s: %d plans, %.1f %% within 1 %%, %.1f %% within 5 %%, worst %.1f %%\n", what, t->plans,
           100.0 * t->within_1 / t->plans, 100.0 * t->within_5 / t->plans, 100 * t->worst);
}

static void plan_and_simulate_agree(void)
{
    for (size_t n = 0; n < sizeof(networks) / sizeof(*networks); n++)
        for (size_t m = 0; m < sizeof(machines) / sizeof(*machines); m++) compare_all(networks[n], machines[m]);
    show("plan against simulate, without pipeline", &without_pipeline);
    show("plan against simulate, with pipeline", &with_pipeline);
    show("formulas against simulate, with pipeline", &formulas);
    CHECK(without_pipeline.plans >= 500 && with_pipeline.plans >= 150);
    CHECK(without_pipeline.within_1 >= 0.99 * without_pipeline.plans && without_pipeline.worst <= 0.02);
    CHECK(with_pipeline.within_1 >= 0.99 * with_pipeline.plans && with_pipeline.worst <= 0.01);
    CHECK(formulas.within_1 >= 0.45 * formulas.plans);
}

int main(int argc, char **argv)
{
    (void)argv;
    listed = argc > 1;
    RUN(plan_and_simulate_agree);
    return test_done();
}
