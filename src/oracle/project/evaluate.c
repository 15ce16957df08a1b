/*
 * Configurations: presets on a mesh, evaluated quickly because layer costs are kept between calls.
 */
#include "oracle/cost/places.h"
#include "oracle/project/pipeline_time.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

pdl_config_t pdl_config_default(const char *strategy)
{
    return (pdl_config_t){.strategy = pdl_strategy_find(strategy),
                          .pipeline = 1,
                          .data = 1,
                          .spatial = 1,
                          .tensor = 1,
                          .context = 1,
                          .experts = 1,
                          .batch = 1,
                          .micro_batches = 1,
                          .schedule = PDL_SCHEDULE_1F1B,
                          .virtual_stages = 1,
                          .optimizer = PDL_OPTIMIZER_MOMENTUM,
                          .precision = PDL_FP32};
}

pdl_config_t pdl_config_on(const pdl_strategy_t *strategy, const pdl_strategy_mesh_t *mesh)
{
    pdl_config_t config = pdl_config_default(strategy->name);

    config.pipeline = mesh->pipeline;
    config.data = mesh->data;
    if (pdl_strategy_splits_twice(strategy)) {
        config.spatial = mesh->context;
        config.tensor = mesh->inner;
    } else {
        *(pdl_strategy_has(strategy, PDL_AXIS_SPATIAL) ? &config.spatial : &config.tensor) = mesh->inner;
    }
    return config;
}

int64_t pdl_config_next_experts(const pdl_config_t *config, int64_t experts)
{
    int64_t tensor = config->strategy->width == PDL_WIDTH_PAIRS ? config->tensor : 1, context = config->spatial;

    /* Of filters and channels a mixture has none that are split, nor of positions that are no tokens. */
    if (experts == 0 || (tensor == 1 && config->tensor > 1)) return 0;
    if (context > 1 && !pdl_strategy_splits_tokens(config->strategy)) return 0;
    for (int64_t e = config->experts + 1; e <= config->data * context && e * tensor <= experts; e++)
        if (e % context == 0 && config->data % (e / context) == 0 && experts % (e * tensor) == 0) return e;
    return 0;
}

const char *const pdl_order_names[PDL_ORDER_COUNT] = {"pipeline, data, inner", "data, pipeline, inner",
                                                      "pipeline, inner, data", "data, inner, pipeline",
                                                      "inner, pipeline, data", "inner, data, pipeline"};

/* The axes of an order, outermost first; TENSOR stands for both inner ones. */
static const pdl_axis_kind_t order_axes[PDL_ORDER_COUNT][3] = {
    [PDL_ORDER_PIPELINE_DATA_INNER] = {PDL_AXIS_PIPELINE, PDL_AXIS_DATA, PDL_AXIS_TENSOR},
    [PDL_ORDER_DATA_PIPELINE_INNER] = {PDL_AXIS_DATA, PDL_AXIS_PIPELINE, PDL_AXIS_TENSOR},
    [PDL_ORDER_PIPELINE_INNER_DATA] = {PDL_AXIS_PIPELINE, PDL_AXIS_TENSOR, PDL_AXIS_DATA},
    [PDL_ORDER_DATA_INNER_PIPELINE] = {PDL_AXIS_DATA, PDL_AXIS_TENSOR, PDL_AXIS_PIPELINE},
    [PDL_ORDER_INNER_PIPELINE_DATA] = {PDL_AXIS_TENSOR, PDL_AXIS_PIPELINE, PDL_AXIS_DATA},
    [PDL_ORDER_INNER_DATA_PIPELINE] = {PDL_AXIS_TENSOR, PDL_AXIS_DATA, PDL_AXIS_PIPELINE}};

static void add_axis(pdl_mesh_t *mesh, pdl_axis_kind_t kind, int64_t size)
{
    mesh->axis[mesh->axis_count++] = (pdl_axis_t){kind, size, 0};
}

int pdl__lay_out(const pdl_config_t *config, pdl_mesh_t *mesh)
{
    int experts = 0;

    *mesh = (pdl_mesh_t){.axis_count = 0};
    for (int i = 0; i < 3; i++) {
        pdl_axis_kind_t kind = order_axes[config->order][i];
        int64_t         size = kind == PDL_AXIS_PIPELINE ? config->pipeline
                               : kind == PDL_AXIS_DATA   ? config->data
                                                         : config->tensor;
        if (kind == PDL_AXIS_TENSOR) add_axis(mesh, PDL_AXIS_SPATIAL, config->spatial);
        if (kind == PDL_AXIS_DATA && pdl__shares_experts(config)) {
            int64_t replicas = pdl__expert_replicas(config);
            add_axis(mesh, kind, size / replicas);
            experts = mesh->axis_count;
            size = replicas;
        }
        add_axis(mesh, kind, size);
    }
    return experts;
}

pdl_mesh_t pdl_config_mesh(const pdl_config_t *config)
{
    pdl_mesh_t mesh;

    pdl__lay_out(config, &mesh);
    return mesh;
}

pdl_status_t pdl__plan_of_config(pdl_oracle_t *oracle, const pdl_config_t *config, const pdl_mesh_t *mesh,
                                 int expert_axis, pdl_plan_t **out)
{
    pdl_preset_options_t options = {.published = oracle->p.published_forms,
                                    .spatial_until = config->spatial_until,
                                    .expert_axis = expert_axis};
    pdl_plan_t          *plan;
    pdl_status_t         status = pdl_plan_create(oracle->model, mesh, config->batch, &plan);

    if (status) return status;
    plan->micro_batches = config->micro_batches;
    plan->schedule = config->schedule;
    plan->recompute = config->recompute;
    plan->sharding = config->sharding;
    plan->optimizer_tier = config->optimizer_tier;
    plan->sequence_parallel = config->sequence_parallel;
    plan->optimizer = config->optimizer;
    plan->precision = config->precision;
    plan->run_mode = config->run_mode;
    pdl__name_parts(oracle->system, config->part_order, plan);
    status = pdl_plan_set_virtual_stages(plan, config->virtual_stages);
    if (!status) status = pdl_plan_apply_preset(plan, config->strategy->name, &options);
    if (status) {
        pdl_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return PDL_OK;
}

pdl_status_t pdl_oracle_plan(pdl_oracle_t *oracle, const pdl_config_t *config, pdl_plan_t **out)
{
    pdl_mesh_t   mesh;
    int          experts = pdl__lay_out(config, &mesh);
    pdl_plan_t  *plan;
    pdl_status_t status = pdl__plan_of_config(oracle, config, &mesh, experts, &plan);

    if (status) return status;
    status = pdl_plan_check(plan);
    if (status) {
        pdl_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return PDL_OK;
}

/* Data-parallel replicas: with context parallelism several ranks of the data axis hold one sample. */
static int64_t replicas_of(const pdl_config_t *config)
{
    return config->context > 1 ? config->data / config->context : config->data;
}

void pdl__case_of_config(const pdl_oracle_t *oracle, const pdl_config_t *config, const pdl_dataset_t *dataset,
                         pdl_case_t *c)
{
    *c = (pdl_case_t){.pipeline = config->pipeline,
                      .data = config->data,
                      .experts = pdl__expert_replicas(config),
                      .inner = config->spatial * config->tensor,
                      .batch = config->batch,
                      .micro_batches = config->micro_batches,
                      .schedule = config->schedule,
                      .virtual_stages = config->virtual_stages,
                      .recompute = config->recompute,
                      .block_segments = oracle->p.block_segments,
                      .sharding = config->sharding,
                      .optimizer_tier = config->optimizer_tier,
                      .optimizer = config->optimizer,
                      .precision = config->precision,
                      .run_mode = config->run_mode,
                      .dataset = dataset,
                      .spatial = config->spatial > 1};
    c->hybrid = c->data > 1 && c->inner > 1;
    c->pe = 1;
    for (int i = 2; i >= 0; i--) {
        pdl_axis_kind_t kind = order_axes[config->order][i];
        *(kind == PDL_AXIS_PIPELINE ? &c->pipeline_stride
          : kind == PDL_AXIS_DATA   ? &c->data_stride
                                    : &c->inner_stride) = c->pe;
        c->pe *= kind == PDL_AXIS_PIPELINE ? c->pipeline : kind == PDL_AXIS_DATA ? c->data : c->inner;
    }
    /* Nobody is asked how far apart the ranks of a group of one are. */
    if (c->inner == 1) c->inner_stride = 1;
    if (config->spatial > 1 && config->tensor > 1) {
        c->outer = config->spatial;
        c->outer_stride = c->inner_stride * config->tensor;
    }
    c->micro_batch = ceil((double)config->batch / (double)replicas_of(config) / (double)config->micro_batches);
    /* Each holds that much of every sample; keys and values go round behind the computation. */
    if (config->context > 1) c->micro_batch /= (double)config->context;
    c->part_order = config->part_order;
    c->places = pdl__places_key(oracle->system, c);
}

pdl_status_t pdl__check_config(const pdl_oracle_t *oracle, const pdl_config_t *config, const pdl_case_t *c)
{
    pdl_mesh_t mesh = pdl_config_mesh(config);

    if (config->pipeline < 1 || config->data < 1 || config->spatial < 1 || config->tensor < 1 ||
        config->batch < 1 || config->micro_batches < 1)
        return pdl_error(PDL_ERR_INPUT, "mesh sizes, batch and micro-batches start at 1");
    if (config->strategy == NULL || config->strategy->per_layer)
        return pdl_error(PDL_ERR_INPUT, "a configuration needs a strategy that says how layers are split");
    pdl_status_t status = pdl_strategy_check_mesh(config->strategy, &mesh);
    if (!status) status = pdl_system_check_devices(oracle->system, c->pe);
    if (status) return status;
    if (config->context > 1 && config->data % config->context != 0)
        return pdl_error(PDL_ERR_INPUT, "%lld ranks a sample do not divide the data axis of %lld",
                         (long long)config->context, (long long)config->data);
    if (pdl__shares_experts(config) &&
        (config->experts % config->spatial != 0 || config->data % pdl__expert_replicas(config) != 0))
        return pdl_error(
            PDL_ERR_INPUT,
            "%lld ranks that share experts out are not all of a context axis of %lld times a divisor of the "
            "data axis of %lld",
            (long long)config->experts, (long long)config->spatial, (long long)config->data);
    int64_t replicas = replicas_of(config);
    if (replicas > config->batch)
        return pdl_error(PDL_ERR_LIMIT, "a batch of %lld is too small for %lld replicas: at least one sample each",
                         (long long)config->batch, (long long)replicas);
    if (config->micro_batches > (config->batch + replicas - 1) / replicas)
        return pdl_error(PDL_ERR_LIMIT, "%lld micro-batches, but a replica has only %lld samples",
                         (long long)config->micro_batches, (long long)((config->batch + replicas - 1) / replicas));
    if (config->virtual_stages < 1 || (config->virtual_stages > 1 && config->schedule != PDL_SCHEDULE_INTERLEAVED))
        return pdl_error(PDL_ERR_INPUT, "%d virtual stages need the interleaved schedule", config->virtual_stages);
    return PDL_OK;
}

/* The stages of a configuration: by its blocks, or as they are cut. */
static pdl_status_t config_stages(const pdl_config_t *config, const pdl_case_t *c, pdl_profile_t *profile,
                                  pdl__pipeline_cut_t *cut)
{
    int64_t count = c->pipeline * c->virtual_stages;

    if (config->stage_blocks == NULL || count == 1) return pdl__case_stages(c, profile, NULL, cut);
    int *first = malloc(((size_t)count + 1) * sizeof(*first));
    if (first == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    pdl_status_t status =
        pdl__stages_of_blocks(profile, count, config->stage_blocks, first)
            ? pdl__case_stages(c, profile, first, cut)
            : pdl_error(PDL_ERR_INPUT, "the blocks given for %lld stages are not those of the model",
                        (long long)count);
    free(first);
    return status;
}

pdl_status_t pdl_oracle_evaluate(pdl_oracle_t *oracle, const pdl_config_t *config, const pdl_dataset_t *dataset,
                                 pdl_projection_t *projection)
{
    pdl_case_t          c;
    pdl_profile_t      *profile;
    pdl__pipeline_cut_t cut;

    pdl__case_of_config(oracle, config, dataset, &c);
    pdl_status_t status = pdl__check_config(oracle, config, &c);
    if (!status) status = pdl__config_profile(oracle, config, &c, &profile);
    if (!status) status = config_stages(config, &c, profile, &cut);
    if (!status) status = pdl__project_case(oracle, &c, profile, &cut, projection);
    return status;
}

pdl_status_t pdl__least_pass(pdl_oracle_t *oracle, const pdl_config_t *config, double *seconds)
{
    pdl_case_t     c;
    pdl_profile_t *profile;

    pdl__case_of_config(oracle, config, NULL, &c);
    pdl_status_t status = pdl__check_config(oracle, config, &c);
    if (!status) status = pdl__config_profile(oracle, config, &c, &profile);
    return status ? status : pdl__least_run(&c, profile, seconds);
}

pdl_status_t pdl__lower_bound(pdl_oracle_t *oracle, const pdl_config_t *config, double *seconds)
{
    double       stages = (double)config->pipeline, m = (double)config->micro_batches, pass_s;
    pdl_status_t status = pdl__least_pass(oracle, config, &pass_s);

    if (status) return status;
    if (config->run_mode == PDL_INFERENCE)
        *seconds = 0;
    else if (config->schedule == PDL_SCHEDULE_ZERO_BUBBLE)
        *seconds = pass_s * m / stages;
    else
        *seconds = pdl__least_passes(pass_s, m, stages, config->virtual_stages > 1);
    return PDL_OK;
}

/* The bound of the passes of a case that is kept, or the place for it. */
static pdl__kept_bound_t *find_bound(pdl_oracle_t *oracle, const pdl__kept_bound_t *wanted, bool *there)
{
    uint64_t key = pdl__mix((uint64_t)(uintptr_t)wanted->profile, (uint64_t)wanted->pipeline);

    key = pdl__mix(key, (uint64_t)wanted->micro_batches);
    key = pdl__mix(key, wanted->places);
    key = pdl__mix(key, (uint64_t)wanted->virtual_stages * 64 + wanted->schedule * 8 + wanted->recompute);
    pdl__kept_bound_t *kept = &oracle->bounds[key % PDL_BOUND_SLOTS];
    *there = kept->profile == wanted->profile && kept->pipeline == wanted->pipeline &&
             kept->places == wanted->places && kept->micro_batches == wanted->micro_batches &&
             kept->virtual_stages == wanted->virtual_stages && kept->schedule == wanted->schedule &&
             kept->recompute == wanted->recompute;
    return kept;
}

pdl_status_t pdl__replay_bound(pdl_oracle_t *oracle, const pdl_config_t *config, double enough_s, double *seconds)
{
    pdl_case_t     c;
    pdl_profile_t *profile = NULL;

    pdl__case_of_config(oracle, config, NULL, &c);
    pdl_status_t status = pdl__check_config(oracle, config, &c);
    if (!status) status = pdl__config_profile(oracle, config, &c, &profile);
    if (status) return status;
    bool              there;
    pdl__kept_bound_t bound = {
        profile,  c.pipeline, c.micro_batches, c.virtual_stages, (unsigned)c.schedule, (unsigned)c.recompute,
        c.places, 0};
    pdl__kept_bound_t *kept = find_bound(oracle, &bound, &there);
    if (!there) {
        pdl__runs_t runs = {.c = &c, .profile = profile, .enough_s = enough_s};

        status = pdl__profile_runs(&c, profile, c.pipeline * c.virtual_stages, NULL, &runs.cut);
        if (!status) status = pdl__sum_passes(&c, profile);
        if (!status) status = pdl__pipeline_seconds(&runs, &bound.seconds, NULL);
        if (status) return status;
        *kept = bound;
    }
    *seconds = kept->seconds;
    return PDL_OK;
}

pdl_status_t pdl__gather_bound(pdl_oracle_t *oracle, const pdl_config_t *config, double *seconds)
{
    pdl_case_t     c;
    pdl_profile_t *profile;

    pdl__case_of_config(oracle, config, NULL, &c);
    pdl_status_t status = pdl__config_profile(oracle, config, &c, &profile);
    return status ? status : pdl__least_gathers(oracle, &c, profile, seconds);
}

static pdl_status_t memory_of(pdl_oracle_t *oracle, const pdl_config_t *config, pdl_projection_t *projection)
{
    pdl_case_t          c;
    pdl_profile_t      *profile;
    const pdl_stages_t *stages;

    pdl__case_of_config(oracle, config, NULL, &c);
    pdl_status_t status = pdl__check_config(oracle, config, &c);
    if (!status) status = pdl__config_profile(oracle, config, &c, &profile);
    if (!status) status = pdl__profile_stages(&c, profile, c.pipeline, NULL, &stages);
    return status ? status : pdl__project_memory(oracle, &c, profile, stages, projection);
}

pdl_status_t pdl__fits(pdl_oracle_t *oracle, const pdl_config_t *config, bool *fits)
{
    pdl_projection_t projection;
    pdl_status_t     status = memory_of(oracle, config, &projection);

    if (!status) *fits = projection.fits;
    return status;
}

pdl_status_t pdl__evaluate_replayed(pdl_oracle_t *oracle, const pdl_config_t *config, const pdl_dataset_t *dataset,
                                    pdl_projection_t *projection)
{
    pdl_case_t     c;
    pdl_profile_t *profile;
    pdl_status_t   status = pdl_oracle_evaluate(oracle, config, dataset, projection);

    if (status) return status;
    pdl__case_of_config(oracle, config, dataset, &c);
    status = pdl__config_profile(oracle, config, &c, &profile);
    return status ? status : pdl__replay_case(oracle, &c, profile, projection);
}

/* Samples of a replica, and the memory that they take. */
typedef struct load {
    int64_t samples;
    double  bytes;
    bool    fits;
} load_t;

static pdl_status_t weigh(pdl_oracle_t *oracle, const pdl_config_t *config, load_t *load)
{
    pdl_config_t     trial = *config;
    pdl_projection_t projection;

    trial.batch = load->samples * config->data;
    /* Micro-batches keep their size: what grows is what one replica holds at once. */
    if (trial.micro_batches > load->samples) trial.micro_batches = load->samples;
    pdl_status_t status = memory_of(oracle, &trial, &projection);
    load->bytes = status ? 0 : projection.memory_bytes;
    load->fits = !status && projection.fits;
    return status;
}

/* Where memory, which grows about evenly with the samples, reaches the limit: between the two, or beyond. */
static int64_t guess(const load_t *low, const load_t *high, double room)
{
    double slope = (high->bytes - low->bytes) / (double)(high->samples - low->samples);

    return slope > 0 ? low->samples + (int64_t)((room - low->bytes) / slope) : high->samples;
}

static int64_t within(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

pdl_status_t pdl_oracle_largest_batch(pdl_oracle_t *oracle, const pdl_config_t *config, int64_t *batch)
{
    enum { MOST = 1 << 21 };
    double       room = pdl__memory_room(oracle, config->pipeline);
    load_t       low = {.samples = 0}, high = {.samples = 1};
    pdl_status_t status = weigh(oracle, config, &high);

    while (!status && high.fits && high.samples < MOST) {
        load_t before = low;
        low = high;
        high.samples = before.samples == 0 ? 2 : within(guess(&before, &low, room) + 1, 2 * low.samples, MOST);
        status = weigh(oracle, config, &high);
    }
    if (!status && high.fits) low = high;
    for (int turn = 0; !status && high.samples - low.samples > 1; turn++) {
        load_t middle = {.samples = (low.samples + high.samples) / 2};
        /* Every third is halfway, should memory grow unevenly. */
        if (turn % 3 != 2 && low.samples > 0)
            middle.samples = within(guess(&low, &high, room), low.samples + 1, high.samples - 1);
        status = weigh(oracle, config, &middle);
        *(middle.fits ? &low : &high) = middle;
    }
    if (!status) *batch = low.samples * config->data;
    return status;
}
