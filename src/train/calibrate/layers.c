/*
 * The layers of a model timed inside the trainer itself: sessions on one rank with several batches, and on all ranks
 * with filters, channels or space split, which are the reduced shapes that plans lead to.
 */
#include "base/clock.h"
#include "base/sorted.h"
#include "train/calibrate/calibrate.h"
#include "train/exec/session.h"
#include <math.h>
#include <paradl/train/train.h>
#include <stdlib.h>
#include <string.h>

#define MOST_STEPS  20
#define LEAST_STEPS 4
#define WARM_STEPS  2
/* The whole calibration is over by then. */
#define MOST_S  110.0
#define QUICK_S 25.0
/* Of a device, whose networks and batches are larger: all of it, and an update beyond which a trial is given up. */
#define DEVICE_S       30.0
#define LONGEST_STEP_S 0.6
/* The first so many networks are small. Of the others bf16 has to do, for which devices are made: fp32 takes ten times as long. */
#define SMALL 3

/* Operations of a device are timed while it has more to do than the host can queue in that many times an update. */
#define STALL 1.5

/* One way to run a model. */
typedef struct shape {
    const char     *strategy;
    pdl_axis_kind_t axis;
    int64_t         batch;
    bool            quick; /* also when there is little time */
} shape_t;
/* What matters most comes first: there may not be time for all. */
static const shape_t shapes[] = {{"serial", PDL_AXIS_DATA, 16, true},     {"serial", PDL_AXIS_DATA, 32, true},
                                 {"filter", PDL_AXIS_TENSOR, 32, true},   {"channel", PDL_AXIS_TENSOR, 32, true},
                                 {"spatial", PDL_AXIS_SPATIAL, 32, true}, {"serial", PDL_AXIS_DATA, 8, false},
                                 {"serial", PDL_AXIS_DATA, 64, false},    {"filter", PDL_AXIS_TENSOR, 16, false},
                                 {"channel", PDL_AXIS_TENSOR, 16, false}, {"spatial", PDL_AXIS_SPATIAL, 16, false}};
/* A device has more to do at once. Ranks on it would disturb each other's times. */
static const shape_t device_shapes[] = {{"serial", PDL_AXIS_DATA, 16, true},
                                        {"serial", PDL_AXIS_DATA, 64, false},
                                        {"serial", PDL_AXIS_DATA, 4, false},
                                        {"serial", PDL_AXIS_DATA, 256, false}};
#define COUNT(list) ((int)(sizeof(list) / sizeof(*(list))))

/* One session and the times of its operations. */
typedef struct trial {
    pdl__calibrate_t  *c;
    int                precision; /* of the backends */
    pdl_ranks_t       *ranks;
    pdl_plan_t        *plan;
    pdl_session_t     *session;
    pdl_source_t      *source;
    pdl_loader_t      *loader;
    pdl_global_order_t order;
    pdl_batch_t        batch;
    double            *times, *moved; /* [op][MOST_STEPS] */
    int                steps;
    double             step_s; /* of the latest; then, of a device, the median */
    pdl__stall_t       stall;
} trial_t;

static double median(const double *values, int count)
{
    double sorted[MOST_STEPS];

    memcpy(sorted, values, (size_t)count * sizeof(*values));
    return pdl__median(sorted, (size_t)count);
}

static pdl_status_t add_row(pdl__calibrate_t *c, const pdl_measured_t *row)
{
    pdl_calibration_t *r = c->result;

    for (int i = 0; i < r->row_count; i++) {
        pdl_measured_t *old = &r->row[i];
        if (old->layer != row->layer || old->precision != row->precision || old->after != row->after ||
            old->work[0] != row->work[0] || old->work[1] != row->work[1] || old->in_channels != row->in_channels ||
            old->out_channels != row->out_channels || old->window != row->window || old->halo != row->halo ||
            old->drops != row->drops)
            continue;
        double n = ++c->times_measured[i];
        for (int k = 0; k < 2; k++) old->seconds[k] += (row->seconds[k] - old->seconds[k]) / n;
        return PDL_OK;
    }
    if (r->row_count == r->row_capacity) {
        int             capacity = r->row_capacity ? 2 * r->row_capacity : 256;
        pdl_measured_t *rows = realloc(r->row, (size_t)capacity * sizeof(*rows));
        if (rows) r->row = rows;
        int *times = realloc(c->times_measured, (size_t)capacity * sizeof(*times));
        if (times) c->times_measured = times;
        if (!rows || !times) return pdl_error(PDL_ERR_NOMEM, "out of memory for measured layers");
        r->row_capacity = capacity;
    }
    c->times_measured[r->row_count] = 1;
    r->row[r->row_count++] = *row;
    return PDL_OK;
}

static pdl_status_t open_samples(trial_t *t)
{
    pdl_source_options_t options = {.samples = 2 * t->plan->batch};
    pdl_loader_spec_t    spec = {
           .order = pdl_global_order, .order_context = &t->order, .threads = 1, .depth = 1, .normalise = true};

    pdl_source_options_for(t->plan->model, &options);
    pdl_status_t status = pdl_source_open("synthetic", &options, &t->source);
    if (status) return status;
    t->order = (pdl_global_order_t){.samples = pdl_source_info(t->source)->samples,
                                    .batch = t->plan->batch,
                                    .shuffle = true,
                                    .epoch = -1};
    pdl_session_share(t->session, &t->order.first, &spec.samples);
    spec.source = t->source;
    spec.steps_per_epoch = pdl_global_order_steps(&t->order);
    return pdl_loader_create(&spec, &t->loader);
}

/* False, with no error left, where the strategy cannot be had for this model. */
static bool make_plan(trial_t *t, const pdl_model_t *model, const shape_t *shape)
{
    pdl_mesh_t mesh = {{{shape->axis, pdl_ranks_size(t->ranks), 0}}, 1};

    return !pdl_plan_create(model, &mesh, shape->batch, &t->plan) &&
           !pdl_plan_apply_preset(t->plan, shape->strategy, NULL) && !pdl_plan_check(t->plan);
}

static pdl_status_t prepare(trial_t *t)
{
    pdl_session_spec_t spec;

    pdl_session_defaults(&spec);
    t->plan->optimizer = PDL_OPTIMIZER_MOMENTUM;
    t->plan->precision = t->precision == 0 ? PDL_FP32 : PDL_BF16;
    spec.plan = t->plan;
    spec.backend = t->c->backend[t->precision];
    spec.ranks = t->ranks;
    spec.timeline = true;
    spec.overlap = false; /* what waits for other ranks is measured by itself */
    spec.optimizer.lr = 1e-4;
    spec.optimizer.momentum = 0.9;
    pdl_status_t status = pdl_session_create(&spec, &t->session);
    if (status) return status;
    size_t count = (size_t)t->session->program->op_count * MOST_STEPS;
    t->times = calloc(count, sizeof(*t->times));
    t->moved = calloc(count, sizeof(*t->moved));
    status = t->times && t->moved ? open_samples(t) : pdl_error(PDL_ERR_NOMEM, "out of memory for times");
    if (!status && t->c->queues) status = pdl_loader_next(t->loader, &t->batch);
    if (!status && t->c->queues) status = pdl__stall_create(spec.backend->device, &t->stall);
    return pdl_ranks_agree(t->ranks, status);
}

/* A device gets the same samples again and again, before an update begins: making them, and bringing them there while the one
   before is computed, is no part of this. */
static pdl_status_t bring_samples(trial_t *t)
{
    pdl__executor_t *executor = &t->session->executor;
    pdl_status_t     status;

    if (!t->c->queues) return pdl_loader_next(t->loader, &t->batch);
    status = pdl_session_expect(t->session, &t->batch);
    if (status) return status;
    return executor->device->ops->synchronise(executor->device, executor->stream[PDL_STREAM_COPY_IN]);
}

/* The device is kept busy for so many seconds before it. */
static pdl_status_t step(trial_t *t, int number, double stall_s)
{
    pdl_step_result_t result;
    pdl_session_t    *s = t->session;
    pdl_status_t      status = bring_samples(t);

    if (!status) status = pdl__stall(&t->stall, s->executor.stream[PDL_STREAM_COMPUTE], stall_s);
    s->observer.timeline_count = 0;
    if (!status) status = pdl_session_step(s, &t->batch, &result);
    if (status) return status;
    t->step_s = result.step_s;
    for (int i = 0; i < s->observer.timeline_count && number >= 0; i++) {
        const pdl__moment_t *moment = &s->observer.timeline[i];
        size_t               at = (size_t)moment->op * MOST_STEPS + (size_t)number;
        if (t->c->queues && moment->waits) continue;     /* the host's time, not the device's */
        t->times[at] += moment->end_s - moment->start_s; /* of its issue, and of waiting for it */
        t->moved[at] += moment->moved_s;
    }
    return PDL_OK;
}

/* As many steps as there is time for, the same number on all ranks; none where one takes too long. */
static pdl_status_t choose_steps(trial_t *t)
{
    double       budget_s = t->c->options->quick ? 0.15 : t->c->queues ? 0.3 : 1.4;
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < WARM_STEPS && !status && !(t->c->queues && t->step_s > 10 * LONGEST_STEP_S); i++)
        status = step(t, -1, 0);
    if (!status) status = pdl_ranks_max(t->ranks, &t->step_s, 1);
    if (status) return status;
    if (t->c->queues && !t->c->options->quick && t->step_s > LONGEST_STEP_S) return PDL_OK;
    double wanted = budget_s / t->step_s;
    t->steps = wanted < LEAST_STEPS ? LEAST_STEPS : wanted > MOST_STEPS ? MOST_STEPS : (int)wanted;
    return PDL_OK;
}

/* First what an update takes when nobody looks; then its operations, queued while the device is busy. */
static pdl_status_t run_queued_steps(trial_t *t)
{
    pdl_session_t *s = t->session;
    pdl__moment_t *timeline = s->observer.timeline;
    double         all[MOST_STEPS] = {0};

    s->observer.timeline = NULL;
    pdl_status_t status = choose_steps(t);
    for (int i = 0; i < t->steps && !status; i++) {
        status = step(t, -1, 0);
        all[i] = t->step_s;
    }
    s->observer.timeline = timeline;
    double update_s = median(all, t->steps > 0 ? t->steps : 1);
    for (int i = -1; i < t->steps && t->steps > 0 && !status; i++) status = step(t, i, STALL * update_s);
    if (t->steps > 0) t->step_s = update_s;
    return status;
}

static pdl_status_t run_steps(trial_t *t)
{
    pdl_status_t status;

    if (t->c->queues) return run_queued_steps(t);
    status = choose_steps(t);
    for (int i = 0; i < t->steps && !status; i++) status = step(t, i, 0);
    return status;
}

/* Seconds of every layer, forward and backward; -1 where no unit of the graph begins with it. Messages are kept apart. */
static void sum_operations(trial_t *t, double (*layer_s)[2])
{
    const pdl_session_t *s = t->session;
    int                  layers = pdl_model_layer_count(t->plan->model);

    for (int i = 0; i < layers; i++) layer_s[i][0] = layer_s[i][1] = -1;
    for (int u = 0; u < s->graph->unit_count; u++)
        if (s->graph->unit[u].kind == PDL__UNIT_OP)
            layer_s[s->graph->unit[u].layer][0] = layer_s[s->graph->unit[u].layer][1] = 0;
    for (int i = 0; i < s->program->op_count; i++) {
        const pdl_program_op_t *op = &s->program->op[i];
        const pdl__unit_t      *unit = &s->graph->unit[op->node < 0 ? 0 : op->node];
        size_t                  at = (size_t)i * MOST_STEPS;
        double                  seconds = median(t->times + at, t->steps), moved = median(t->moved + at, t->steps);
        bool                    backward = op->backward;
        if (op->node < 0) continue;
        if (op->kind == PDL_OP_REDISTRIBUTE) {
            /* What stays on a rank is copied, at a speed of its own. */
            double copied_s = op->sums >= 0 || op->part > 0 ? 0
                                                            : pdl__edge_kept_bytes(unit->edge, backward, op->move) /
                                                                  t->c->result->copy_bytes_per_s;
            if (op->bytes > 0) pdl__line_add(&t->c->messages, op->bytes, fmax(seconds - copied_s, 0.1 * seconds));
            continue;
        }
        double *sum = &layer_s[unit->layer][backward];
        *sum = (*sum < 0 ? 0 : *sum) + seconds - moved;
    }
}

/* Activations and sums that another layer computes along take no time of their own. */
static bool is_absorbed(const pdl_layer_t *layer)
{
    return pdl_layer_traits(layer)->activation || pdl_layer_traits(layer)->combine == PDL_COMBINE_SUM;
}

static void add_points(pdl__calibrate_t *c, int precision, const pdl_measured_t *row)
{
    bool product = pdl_op_class((pdl_layer_type_t)row->layer, false) == PDL_CLASS_PRODUCT_FORWARD;

    for (int k = 0; k < 2; k++)
        if (row->work[k] > 0)
            pdl__line_add(product ? &c->products[precision] : &c->passes, row->work[k], row->seconds[k]);
}

pdl_status_t pdl__keep_layers(pdl__calibrate_t *c, const pdl_plan_t *plan, double samples,
                              const double (*layer_s)[2])
{
    int              precision = plan->precision == PDL_FP32 ? 0 : 1;
    pdl_partition_t *partition = NULL;
    pdl_status_t     status = pdl_partition_create(plan, samples, &partition);

    for (int i = 0; !status && i < partition->layer_count; i++) {
        const pdl_layer_t *layer = pdl_model_layer(plan->model, i);
        pdl_measured_t     row;
        if (layer_s[i][0] < 0 && layer_s[i][1] < 0 && !is_absorbed(layer)) continue;
        pdl_measured_describe(plan->model, layer, &partition->local[i], plan->precision, &row);
        for (int k = 0; k < 2; k++) row.seconds[k] = layer_s[i][k] > 0 ? layer_s[i][k] : 0;
        add_points(c, precision, &row);
        status = add_row(c, &row);
    }
    pdl_partition_destroy(partition);
    return status;
}

static pdl_status_t keep_update(trial_t *t)
{
    pdl_measured_t row = {.layer = PDL_MEASURED_UPDATE,
                          .precision = (int)t->plan->precision,
                          .after = -1,
                          .in_channels = 1,
                          .out_channels = 1,
                          .window = 1};

    row.work[0] = pdl_update_bytes(t->plan->optimizer, (double)t->session->weights.trainable);
    for (int i = 0; i < t->session->program->op_count; i++)
        if (pdl_program_op_class(t->session->program, &t->session->program->op[i]) == PDL_CLASS_UPDATE)
            row.seconds[0] += median(t->times + (size_t)i * MOST_STEPS, t->steps);
    return row.work[0] > 0 ? add_row(t->c, &row) : PDL_OK;
}

static void keep_step(const trial_t *t)
{
    pdl__calibrate_t *c = t->c;

    if (c->queues && c->whole_count < PDL__WHOLES)
        c->whole[c->whole_count++] = (pdl__whole_t){t->plan->model, t->plan->precision, t->plan->batch, t->step_s};
}

static pdl_status_t collect(trial_t *t)
{
    int layers = pdl_model_layer_count(t->plan->model);
    double(*layer_s)[2] = calloc((size_t)layers, sizeof(*layer_s));
    pdl_status_t status = layer_s ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory for times");

    if (!status) {
        sum_operations(t, layer_s);
        keep_step(t);
        status = pdl__keep_layers(t->c, t->plan, (double)t->session->micro_samples, (const double(*)[2])layer_s);
    }
    if (!status) status = keep_update(t);
    free(layer_s);
    return status;
}

/* What the trainer cannot run yet, and what a device has no memory for, is not an error of the machine. */
static pdl_status_t forgive(const pdl__calibrate_t *c, pdl_status_t status)
{
    if (status == PDL_ERR_UNSUPPORTED) return PDL_OK;
    return c->queues && (status == PDL_ERR_NOMEM || status == PDL_ERR_LIMIT) ? PDL_OK : status;
}

static pdl_status_t run_trial(pdl__calibrate_t *c, const pdl_model_t *model, const shape_t *shape, int precision,
                              double *step_s)
{
    bool         alone = pdl_strategy_find(shape->strategy)->axes == 0;
    trial_t      t = {.c = c, .precision = precision, .ranks = alone ? c->alone : c->ranks};
    bool         possible = make_plan(&t, model, shape);
    pdl_status_t status = possible ? prepare(&t) : PDL_OK;

    *step_s = 0;
    if (possible && !status) status = run_steps(&t);
    if (possible && !status && t.steps > 0) status = collect(&t);
    if (!status) *step_s = t.step_s;
    pdl__stall_free(&t.stall);
    pdl_loader_destroy(t.loader);
    pdl_global_order_free(&t.order);
    pdl_source_close(t.source);
    pdl_session_destroy(t.session);
    if (t.plan) pdl_plan_destroy(t.plan);
    free(t.times);
    free(t.moved);
    return forgive(c, status);
}

/* Whether a step that takes that long with 16 samples is worth this shape; when time runs short, none is. */
static pdl_status_t is_worth_it(pdl__calibrate_t *c, const shape_t *shape, double step_s, bool *worth)
{
    double       elapsed_s = pdl__seconds() - c->start_s, left_s;
    pdl_status_t status = pdl_ranks_max(c->ranks, &elapsed_s, 1);

    if (!status) status = pdl_ranks_max(c->ranks, &step_s, 1);
    left_s = (c->options->quick ? QUICK_S : c->queues ? DEVICE_S : MOST_S) - elapsed_s;
    *worth = step_s * (double)(shape->batch / 16 + 1) * (WARM_STEPS + LEAST_STEPS) < left_s * 0.5;
    if (c->queues && !c->options->quick && step_s * (double)shape->batch / 16 > LONGEST_STEP_S) *worth = false;
    if (c->options->quick && (!shape->quick || step_s > 0.1)) *worth = false;
    if (shape->axis != PDL_AXIS_DATA && pdl_ranks_size(c->ranks) == 1) *worth = false;
    return status;
}

/* One shape of one model. Of ranks that share a device, the first has it to itself. */
static pdl_status_t try_shape(pdl__calibrate_t *c, const shape_t *shape, int m, int precision, double *first_s)
{
    bool         worth, first = *first_s == 0;
    double       step_s = 0;
    pdl_status_t status = is_worth_it(c, shape, *first_s, &worth);

    if (status || !worth) return status;
    if (!c->shared || pdl_ranks_rank(c->ranks) == 0) status = run_trial(c, c->model[m], shape, precision, &step_s);
    status = pdl_ranks_agree(c->ranks, status);
    if (first) *first_s = step_s;
    if (!status && step_s > 0)
        pdl__calibrate_say(c, "%s, %s, batch %lld%s: %.1f ms a step", c->name[m], shape->strategy,
                           (long long)shape->batch, precision > 0 ? ", bf16" : "", 1e3 * step_s);
    return status;
}

pdl_status_t pdl__calibrate_layers(pdl__calibrate_t *c)
{
    const shape_t *shape = c->queues ? device_shapes : shapes;
    int            count = c->queues ? COUNT(device_shapes) : COUNT(shapes);
    double         first_s[PDL__PRECISIONS][PDL_CALIBRATION_MODELS + 6] = {{0}};
    pdl_status_t   status = PDL_OK;
    /* Of models that are asked for, a device has its operations timed one by one. */
    int models = c->queues ? c->model_count - c->options->model_count : c->model_count;

    for (int i = 0; i < count; i++)
        for (int m = 0; m < models; m++)
            for (int p = 0; p < PDL__PRECISIONS && !status; p++)
                if (c->backend[p] && !(c->queues && p == 0 && m >= SMALL))
                    status = try_shape(c, &shape[i], m, p, &first_s[p][m]);
    return status;
}
