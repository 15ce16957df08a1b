/*
 * A search whose memory is counted, not modelled.
 */
#include <paradl/train/compile.h>
#include <paradl/train/dry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_PARTS 24 /* ways to cut a batch that are tried */

typedef struct compiler {
    pdl_oracle_t                *oracle;
    pdl_request_t                request;
    const pdl_compile_options_t *options;
    pdl_backend_t               *backend;
} compiler_t;

static void refuse(pdl_candidate_t *c, const char *reason)
{
    c->possible = false;
    snprintf(c->reason, sizeof(c->reason), "%s", reason);
}

/* What the goal minimises. Costs and energies of one strategy go with its time. */
static double score_of(const compiler_t *k, const pdl_candidate_t *c)
{
    if (k->request.goal == PDL_GOAL_MEMORY) return c->projection.memory_bytes;
    return c->score > 0 ? c->score : c->epoch_s > 0 ? c->epoch_s : c->sample_s;
}

/* Times after the plan has changed, which took sample_s for a sample before. */
static void rescale(const compiler_t *k, double sample_s, pdl_candidate_t *c)
{
    double factor = sample_s > 0 ? c->projection.total_s / (double)c->plan->batch / sample_s : 1;

    c->epoch_s *= factor;
    c->sample_s *= factor;
    if (k->request.goal != PDL_GOAL_MEMORY) c->score *= factor;
}

/* Counts the memory of a candidate's plan. One that the trainer refuses is not possible. */
static pdl_status_t count_memory(const compiler_t *k, pdl_candidate_t *c)
{
    pdl_plan_memory_t memory;
    pdl_status_t      status = pdl_plan_memory(c->plan, k->backend, &memory);

    if (status == PDL_ERR_UNSUPPORTED || status == PDL_ERR_LIMIT || status == PDL_ERR_INPUT) {
        refuse(c, pdl_error_message());
        return PDL_OK;
    }
    if (status) return status;
    pdl_plan_take_memory(&memory, &c->projection);
    c->projection.fits = c->projection.memory_bytes <= k->options->capacity;
    if (k->request.goal == PDL_GOAL_MEMORY) c->score = c->projection.memory_bytes;
    return PDL_OK;
}

static void refuse_memory(const compiler_t *k, double bytes, pdl_candidate_t *c)
{
    char need[PDL_FORMAT_SIZE], have[PDL_FORMAT_SIZE], reason[sizeof(c->reason)];

    snprintf(reason, sizeof(reason), "needs %s per PE at the least (compiled), of %s",
             pdl_format_bytes(bytes, need), pdl_format_bytes(k->options->capacity, have));
    refuse(c, reason);
}

/* The candidate with other policies: its mesh and modes stay. *trial is not possible where the plan is refused. */
static pdl_status_t vary(const compiler_t *k, const pdl_candidate_t *c, int64_t micro_batches,
                         pdl_recompute_t recompute, pdl_candidate_t *trial)
{
    double sample_s = c->projection.total_s / (double)c->plan->batch;

    *trial = *c;
    trial->possible = true;
    pdl_status_t status = pdl_plan_copy(c->plan, &trial->plan);
    if (status) return status;
    trial->plan->micro_batches = trial->config.micro_batches = micro_batches;
    trial->plan->recompute = trial->config.recompute = recompute;
    status = pdl_plan_check(trial->plan);
    if (!status) status = pdl_oracle_play(k->oracle, trial->plan, k->request.dataset, &trial->projection);
    if (status == PDL_ERR_LIMIT || status == PDL_ERR_INPUT) {
        refuse(trial, pdl_error_message());
        return PDL_OK;
    }
    if (status) return status;
    rescale(k, sample_s, trial);
    return PDL_OK;
}

static void replace(pdl_candidate_t *c, pdl_candidate_t *trial)
{
    pdl_plan_destroy(c->plan);
    *c = *trial;
    trial->plan = NULL;
}

/* Ways to do the same with less memory: a replica's samples in `parts` equal parts, the fewest first. */
typedef struct ladder {
    int64_t         parts[MOST_PARTS];
    int             count;
    pdl_recompute_t recompute;
} ladder_t;

static ladder_t ladder_of(const pdl_plan_t *plan, pdl_recompute_t recompute)
{
    int64_t  samples = plan->batch / pdl_mesh_extent(&plan->mesh, PDL_AXIS_DATA);
    ladder_t ladder = {.recompute = recompute};

    for (int64_t parts = 1; parts <= samples; parts++) {
        if (samples % parts != 0) continue;
        if (ladder.count == MOST_PARTS) ladder.count--; /* the most parts are among them in any case */
        ladder.parts[ladder.count++] = parts;
    }
    return ladder;
}

/* The candidate on one rung; *fits says whether it does, and then *best is it. */
static pdl_status_t try_rung(const compiler_t *k, const pdl_candidate_t *c, const ladder_t *ladder, int rung,
                             pdl_candidate_t *best, bool *fits)
{
    pdl_candidate_t trial = {.plan = NULL};
    pdl_status_t    status = vary(k, c, ladder->parts[rung], ladder->recompute, &trial);

    if (!status) status = trial.possible ? count_memory(k, &trial) : PDL_OK;
    *fits = !status && trial.possible && trial.projection.fits;
    if (!status) replace(best, &trial);
    pdl_plan_destroy(trial.plan);
    return status;
}

/* More parts take less memory: the fewest that fit, when the most do. */
static pdl_status_t fewest_parts(const compiler_t *k, const pdl_candidate_t *c, const ladder_t *ladder,
                                 pdl_candidate_t *best, int *rung)
{
    int  low = 0, high = ladder->count - 1;
    bool fits;

    while (low < high) {
        int             middle = (low + high) / 2;
        pdl_candidate_t trial = {.plan = NULL};
        pdl_status_t    status = try_rung(k, c, ladder, middle, &trial, &fits);
        if (fits) replace(best, &trial);
        pdl_plan_destroy(trial.plan);
        if (status) return status;
        if (fits)
            high = middle;
        else
            low = middle + 1;
    }
    *rung = high;
    return PDL_OK;
}

/* A pipeline needs parts: more than the fewest that fit may be faster. */
static pdl_status_t fastest_parts(const compiler_t *k, const pdl_candidate_t *c, const ladder_t *ladder, int first,
                                  pdl_candidate_t *best)
{
    int  fastest = first;
    bool fits;

    for (int i = first + 1; i < ladder->count; i++) {
        pdl_candidate_t trial = {.plan = NULL};
        pdl_status_t    status = vary(k, c, ladder->parts[i], ladder->recompute, &trial);
        if (!status && trial.possible && trial.sample_s < best->sample_s) {
            fastest = i;
            replace(best, &trial);
        }
        pdl_plan_destroy(trial.plan);
        if (status) return status;
    }
    return fastest == first ? PDL_OK : try_rung(k, c, ladder, fastest, best, &fits);
}

/* The fastest way to fit under one recompute policy; *found says whether there is one, and then it replaces *c. */
static pdl_status_t climb(const compiler_t *k, pdl_candidate_t *c, pdl_recompute_t recompute, double *least,
                          bool *found)
{
    ladder_t        ladder = ladder_of(c->plan, recompute);
    pdl_candidate_t best = {.plan = NULL};
    int             rung = 0;
    pdl_status_t    status = try_rung(k, c, &ladder, ladder.count - 1, &best, found);

    if (!status && best.possible) *least = best.projection.memory_bytes;
    if (!status && *found) status = fewest_parts(k, c, &ladder, &best, &rung);
    if (!status && *found && pdl_mesh_extent(&c->plan->mesh, PDL_AXIS_PIPELINE) > 1)
        status = fastest_parts(k, c, &ladder, rung, &best);
    if (!status && *found)
        replace(c, &best);
    else if (!status && !best.possible)
        refuse(c, best.reason);
    pdl_plan_destroy(best.plan);
    return status;
}

/* A plan that does not fit is tried in smaller parts, and with recomputation. */
static pdl_status_t squeeze(const compiler_t *k, pdl_candidate_t *c)
{
    bool         found = false;
    double       least = c->projection.memory_bytes;
    pdl_status_t status = climb(k, c, PDL_RECOMPUTE_NONE, &least, &found);

    if (!status && !found && c->possible) status = climb(k, c, PDL_RECOMPUTE_FULL, &least, &found);
    if (!status && !found && c->possible) refuse_memory(k, least, c);
    return status;
}

/* Whether policies were chosen that a model which errs on the large side may not have had to choose. */
static bool is_plain(const pdl_plan_t *plan)
{
    return plan->recompute == PDL_RECOMPUTE_NONE &&
           (plan->micro_batches == 1 || pdl_mesh_extent(&plan->mesh, PDL_AXIS_PIPELINE) > 1);
}

static pdl_status_t settle(const compiler_t *k, pdl_candidate_t *c)
{
    pdl_status_t status = count_memory(k, c);

    if (status || !c->possible || (c->projection.fits && (!k->options->rescue || is_plain(c->plan)))) return status;
    if (k->request.run_mode == PDL_TRAINING) return squeeze(k, c);
    if (!c->projection.fits) refuse_memory(k, c->projection.memory_bytes, c);
    return PDL_OK;
}

/* A strategy that the model finds too large, though the trainer may not. */
static pdl_status_t rescue(const compiler_t *k, pdl_candidate_t *c)
{
    if (c->projection.memory_bytes <= 0 || c->config.batch <= 0 || c->config.strategy->per_layer) return PDL_OK;
    pdl_status_t status = pdl_oracle_plan(k->oracle, &c->config, &c->plan);
    if (status == PDL_ERR_LIMIT || status == PDL_ERR_INPUT) return PDL_OK;
    if (!status) status = pdl_oracle_play(k->oracle, c->plan, k->request.dataset, &c->projection);
    if (status) return status;
    c->possible = true;
    c->score = score_of(k, c);
    return settle(k, c);
}

/* The first of those shown that has not been counted, or -1. */
static int next_of(const compiler_t *k, const pdl_search_t *search)
{
    for (int i = 0; i < search->possible && (k->options->top == 0 || i < k->options->top); i++)
        if (!search->candidates[i].projection.compiled) return i;
    return -1;
}

/* A model without a loss cannot be trained, but it can be projected. */
static bool can_be_trained(const pdl_search_t *search)
{
    const pdl_model_t *model = search->possible > 0 ? search->candidates[0].plan->model : NULL;

    return model == NULL || pdl_model_loss(model) != NULL;
}

pdl_status_t pdl_search_compile(pdl_oracle_t *oracle, const pdl_request_t *request,
                                const pdl_compile_options_t *options, pdl_search_t *search)
{
    pdl_cpu_options_t cpu = {.threads = options->threads,
                             .precision = request->precision == PDL_BF16 ? PDL_DTYPE_BF16 : PDL_DTYPE_F32};
    compiler_t        k = {.oracle = oracle, .request = *request, .options = options};
    pdl_status_t      status;

    if (!can_be_trained(search)) return PDL_OK;
    status = pdl_backend_create_cpu(&cpu, &k.backend);
    /* Another processor may have the type that this one lacks: the model's figures stay. */
    if (status == PDL_ERR_UNSUPPORTED) return PDL_OK;
    for (int i = search->possible; i < search->count && options->rescue && !status; i++)
        status = rescue(&k, &search->candidates[i]);
    if (!status) pdl_search_rank(search);
    for (int i; !status && (i = next_of(&k, search)) >= 0;) {
        status = settle(&k, &search->candidates[i]);
        if (!status) pdl_search_rank(search);
    }
    pdl_backend_destroy(k.backend);
    return status;
}
