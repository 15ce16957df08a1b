/*
 * The best per-layer layouts on a mesh data x inner, or of pipelines on such meshes (docs/oracle.md, "Mixed layouts"). The dynamic programme
 * minimises a sum over layers; what is not a sum (the start-up and overlap of the gradient exchange, the limit of
 * memory) enters through several goals, and the oracle's projection of each result is the judge. The presets take
 * part, so the answer is never worse than the best of them.
 */
#include "oracle/mixed/mixed.h"
#include <math.h>
#include <paradl/oracle/search.h>
#include <stdlib.h>
#include <string.h>

/* What the oracle said of modes it has seen; different goals often lead to the same. */
typedef struct verdict {
    uint64_t modes; /* hash */
    double   total_s;
    bool     fits;
} verdict_t;

enum { MOST_VERDICTS = 64 };

typedef struct mixer {
    pdl_oracle_t        *oracle;
    const pdl_config_t  *config;
    const pdl_dataset_t *dataset;
    pdl_case_t           c;
    int                  axis; /* the inner one */
    pdl_options_t        options;
    pdl_plan_t          *trial;
    pdl_modes_t         *best; /* modes of the best so far */
    bool                 best_sequence_parallel;
    bool                 found;
    pdl_projection_t     projection; /* of the best so far */
    pdl_sums_t           sums;       /* of the best result of the dynamic programme */
    double               sums_s;     /* its projected time; infinite when there is none */
    verdict_t            verdicts[MOST_VERDICTS];
    int                  verdict_count;
} mixer_t;

static int layer_count(const mixer_t *m)
{
    return pdl_model_layer_count(m->oracle->model);
}

static size_t modes_size(const mixer_t *m)
{
    return (size_t)layer_count(m) * sizeof(*m->best);
}

static pdl_status_t check_config(const pdl_config_t *config)
{
    if (config->spatial > 1)
        return pdl_error(PDL_ERR_INPUT,
                         "mixed strategies use a mesh pipeline x data x tensor: leave other axes at 1");
    return PDL_OK;
}

static uint64_t modes_hash(const mixer_t *m)
{
    uint64_t hash = pdl__mix(UINT64_C(0xcbf29ce484222325), m->trial->sequence_parallel);

    for (int i = 0; i < layer_count(m); i++) hash = pdl__mix(hash, m->trial->modes[i].on[m->axis]);
    return hash;
}

/* Projects the modes of the trial plan and keeps them when they are better: in memory first, then faster. */
static pdl_status_t judge(mixer_t *m, verdict_t *verdict)
{
    pdl_projection_t projection;
    uint64_t         hash = modes_hash(m);

    for (int i = 0; i < m->verdict_count; i++)
        if (m->verdicts[i].modes == hash) {
            *verdict = m->verdicts[i];
            return PDL_OK;
        }
    pdl_status_t status = pdl_oracle_project(m->oracle, m->trial, m->dataset, &projection);
    if (status) return status;
    *verdict = (verdict_t){hash, projection.total_s, projection.fits};
    if (m->verdict_count < MOST_VERDICTS) m->verdicts[m->verdict_count++] = *verdict;
    bool better = !m->found || (projection.fits && !m->projection.fits) ||
                  (projection.fits == m->projection.fits && projection.total_s < m->projection.total_s);
    if (better) {
        m->found = true;
        m->projection = projection;
        memcpy(m->best, m->trial->modes, modes_size(m));
        m->best_sequence_parallel = m->trial->sequence_parallel;
    }
    return PDL_OK;
}

bool pdl__splits_layers_on(const pdl_strategy_t *strategy, bool data, bool pipeline)
{
    return !strategy->per_layer && pdl_strategy_has(strategy, PDL_AXIS_PIPELINE) == pipeline &&
           pdl_strategy_has(strategy, PDL_AXIS_DATA) == (data || pipeline) &&
           pdl_strategy_has(strategy, PDL_AXIS_TENSOR) != pdl_strategy_has(strategy, PDL_AXIS_SPATIAL);
}

/* The modes of a preset; one that the model does not allow is left out. */
static pdl_status_t try_preset(mixer_t *m, const pdl_strategy_t *strategy, bool sequence_parallel)
{
    pdl_config_t config = *m->config;
    pdl_plan_t  *plan;
    verdict_t    verdict;

    config.strategy = strategy;
    config.sequence_parallel = sequence_parallel;
    if (pdl_strategy_has(strategy, PDL_AXIS_SPATIAL)) {
        config.spatial = config.tensor;
        config.tensor = 1;
    }
    pdl_status_t status = pdl_oracle_plan(m->oracle, &config, &plan);
    if (status) return status == PDL_ERR_NOMEM ? status : PDL_OK;
    int from = pdl_mesh_find(&plan->mesh, config.tensor > 1 ? PDL_AXIS_TENSOR : PDL_AXIS_SPATIAL);
    for (int i = 0; i < layer_count(m); i++) m->trial->modes[i].on[m->axis] = plan->modes[i].on[from];
    m->trial->sequence_parallel = sequence_parallel;
    pdl_plan_destroy(plan);
    return judge(m, &verdict);
}

static pdl_status_t try_everywhere(mixer_t *m, pdl_mode_t mode)
{
    verdict_t verdict;

    for (int i = 0; i < layer_count(m); i++) m->trial->modes[i].on[m->axis] = (uint8_t)mode;
    return judge(m, &verdict);
}

static pdl_status_t try_presets(mixer_t *m)
{
    pdl_status_t status = try_everywhere(m, PDL_MODE_REPLICATE);

    if (!status && m->c.micro_batch >= (double)m->c.inner) status = try_everywhere(m, PDL_MODE_SAMPLE);
    for (const pdl_strategy_t *s = pdl_strategy_at(0); s != NULL && !status;
         s = pdl_strategy_at(pdl_strategy_place(s) + 1)) {
        if (!pdl__splits_layers_on(s, true, m->config->pipeline > 1)) continue;
        status = try_preset(m, s, false);
        if (!status && s->width == PDL_WIDTH_PAIRS) status = try_preset(m, s, true);
    }
    m->trial->sequence_parallel = m->config->sequence_parallel;
    return status;
}

/* Seconds that one more unit of a gradient field costs at this volume. Both ways of exchange are taken as in
   use already: their start-up is what the goals without one of them decide about. */
static pdl_status_t exchange_slopes(mixer_t *m, pdl_sums_t at, pdl_sums_t *slopes)
{
    double *const        fields[] = {&at.data_weights, &at.data_tensors,   &at.full_weights,   &at.wide_weights,
                                     &at.wide_tensors, &at.host_gradients, &at.host_replicated};
    double *const        results[] = {&slopes->data_weights,   &slopes->data_tensors, &slopes->full_weights,
                                      &slopes->wide_weights,   &slopes->wide_tensors, &slopes->host_gradients,
                                      &slopes->host_replicated};
    double               item = pdl_precision_bytes(m->c.precision);
    pdl__gradient_cost_t base, more;

    memset(slopes, 0, sizeof(*slopes));
    if (m->c.run_mode == PDL_INFERENCE) return PDL_OK;
    /* Stages exchange theirs side by side. */
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        *fields[i] = fmax(*fields[i] / (double)m->c.pipeline, 1);
    pdl_status_t status = pdl__gradient_total(m->oracle, &m->c, &at, item, &base);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]) && !status; i++) {
        double value = *fields[i], step = fmax(1, value / 64);
        *fields[i] = value + step;
        status = pdl__gradient_total(m->oracle, &m->c, &at, item, &more);
        *fields[i] = value;
        *results[i] = (more.total_s - base.total_s) / step;
    }
    return status;
}

/* Runs the dynamic programme on one goal; its result is judged and remembered. */
static pdl_status_t try_goal(mixer_t *m, const pdl_mixed_goal_t *goal, bool *fits)
{
    pdl_mixed_result_t result;
    verdict_t          verdict = {.fits = false};
    pdl_status_t       status = pdl__mixed_run(&m->options, goal, m->axis, m->trial->modes, &result);

    if (!status && result.possible) status = judge(m, &verdict);
    if (status) return status;
    if (result.possible && verdict.total_s < m->sums_s) {
        m->sums = result.sums;
        m->sums_s = verdict.total_s;
    }
    *fits = verdict.fits;
    return PDL_OK;
}

static pdl_sums_t half_of_everything(const mixer_t *m)
{
    pdl_sums_t sums = {0};

    for (int i = 0; i < layer_count(m); i++) {
        const pdl_layer_t *layer = pdl_model_layer(m->oracle->model, i);
        double             weights = (double)pdl_layer_trained(layer) / 2;
        double             tensors = weights > 0 ? pdl_layer_weight_tensors(layer) / 2.0 : 0;
        sums.data_weights += weights;
        sums.full_weights += weights;
        sums.wide_weights += weights;
        sums.data_tensors += tensors;
        sums.wide_tensors += tensors;
    }
    return sums;
}

/* The exchange in full or, from some layer on, at the little it costs where backward hides it; with both ways of
   exchange or one of them. */
static pdl_status_t try_starts(mixer_t *m)
{
    enum { CUTS = 4 };
    bool             training = m->c.run_mode == PDL_TRAINING, hides = training && m->oracle->p.overlap_gradients;
    pdl_mixed_goal_t goal = {.hidden_share = hides ? m->oracle->p.overlap_slowdown - 1 : 1};
    bool             fits;
    pdl_status_t     status = exchange_slopes(m, half_of_everything(m), &goal.exchange);

    for (int cut = hides ? 0 : CUTS; cut <= CUTS && !status; cut++)
        for (int way = 0; way < (training ? 3 : 1) && !status; way++) {
            goal.hidden_from = layer_count(m) * cut / CUTS;
            goal.no_wide = way == 1;
            goal.no_narrow = way == 2;
            if (way < 2 || m->c.data > 1) status = try_goal(m, &goal, &fits);
        }
    return status;
}

/* And once more at the volumes and with the share exposed that came out best. */
static pdl_status_t try_goals(mixer_t *m)
{
    pdl_status_t status = try_starts(m);
    bool         fits;

    for (int i = 0; i < 3 && m->c.run_mode == PDL_TRAINING && !status && isfinite(m->sums_s); i++) {
        double           before = m->sums_s, total = m->projection.gradient_total_s;
        double           hidden = total > 0 ? fmax(0, total - m->projection.comm[PDL_COMM_GRADIENT]) / total : 0;
        pdl_mixed_goal_t goal = {.hidden_share = 1 - hidden + hidden * (m->oracle->p.overlap_slowdown - 1),
                                 .no_wide = m->sums.wide_weights <= 0,
                                 .no_narrow = m->sums.data_weights <= 0};
        status = exchange_slopes(m, m->sums, &goal.exchange);
        if (!status) status = try_goal(m, &goal, &fits);
        if (!(m->sums_s < before)) break;
    }
    return status;
}

/* The lowest price of memory, between `low` and `high`, at which what comes out fits. */
static pdl_status_t bisect_memory(mixer_t *m, pdl_mixed_goal_t goal, double low, double high, bool *fits)
{
    enum { STEPS = 9 };
    bool here = false;

    goal.seconds_per_byte = high;
    pdl_status_t status = try_goal(m, &goal, &here);
    *fits = here;
    for (int i = 0; i < STEPS && *fits && !status; i++) {
        goal.seconds_per_byte = sqrt(low * high);
        status = try_goal(m, &goal, &here);
        *(here ? &high : &low) = goal.seconds_per_byte;
    }
    return status;
}

/* When the fastest does not fit, memory gets a price: with both ways of exchange first and, where that leads
   somewhere, with one of them. Sequences may then be gathered again in backward instead of being kept. */
static pdl_status_t try_memory(mixer_t *m)
{
    double           unit = m->projection.total_s / m->projection.memory_bytes;
    double           low = 1e-3 * unit, high = 1e4 * unit;
    pdl_mixed_goal_t goal = {.hidden_share = 1};
    bool             fits = false, ignored;
    pdl_status_t     status = exchange_slopes(m, m->sums, &goal.exchange);

    for (int i = 0; i < layer_count(m); i++)
        m->trial->sequence_parallel |= pdl_model_layer(m->oracle->model, i)->out.sequence;
    if (!status) status = bisect_memory(m, goal, low, high, &fits);
    if (!fits || m->c.run_mode == PDL_INFERENCE) return status;
    goal.no_wide = true;
    if (!status) status = bisect_memory(m, goal, low, high, &ignored);
    goal.no_wide = false;
    goal.no_narrow = true;
    if (!status && m->c.data > 1) status = bisect_memory(m, goal, low, high, &ignored);
    return status;
}

static pdl_status_t mix(mixer_t *m)
{
    pdl_status_t status = pdl_plan_check(m->trial);

    if (status) return status;
    if (m->c.inner == 1) return try_everywhere(m, PDL_MODE_PASS);
    status = try_presets(m);
    if (!status) status = pdl__options_create(m->oracle, m->trial, m->axis, &m->options);
    if (!status) status = try_goals(m);
    if (!status && !m->projection.fits) status = try_memory(m);
    pdl__options_free(&m->options);
    return status;
}

pdl_status_t pdl_search_mixed(pdl_oracle_t *oracle, const pdl_config_t *config, const pdl_dataset_t *dataset,
                              pdl_plan_t **plan, pdl_projection_t *projection)
{
    mixer_t      m = {.oracle = oracle, .config = config, .dataset = dataset, .sums_s = INFINITY};
    pdl_config_t base = *config;
    pdl_mesh_t   mesh = pdl_config_mesh(config);
    pdl_status_t status = check_config(config);

    base.strategy = pdl_strategy_find(config->pipeline > 1 ? "3d" : "data+filter");
    if (!status) status = pdl__plan_of_config(oracle, &base, &mesh, 0, &m.trial);
    if (status) return status;
    strcpy(m.trial->strategy, "mixed");
    m.axis = pdl_mesh_find(&mesh, PDL_AXIS_TENSOR);
    status = pdl__case_of_plan(oracle, m.trial, dataset, &m.c);
    for (int i = 0; i < layer_count(&m); i++) m.trial->modes[i].on[m.axis] = PDL_MODE_REPLICATE;
    m.best = malloc(modes_size(&m));
    if (!status && !m.best) status = pdl_error(PDL_ERR_NOMEM, "out of memory");
    if (!status) status = mix(&m);
    if (!status) {
        memcpy(m.trial->modes, m.best, modes_size(&m));
        m.trial->sequence_parallel = m.best_sequence_parallel;
        *plan = m.trial;
        *projection = m.projection;
    } else
        pdl_plan_destroy(m.trial);
    free(m.best);
    return status;
}
