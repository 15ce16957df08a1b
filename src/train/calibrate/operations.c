/*
 * The operations of models timed one by one: every distinct op of a program once for each number of samples, on memory that holds
 * it alone. No update is run, and models need not fit the device.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "train/calibrate/bench.h"
#include <math.h>
#include <paradl/program/compile.h>
#include <stdlib.h>
#include <string.h>

#define TARGET_S     2e-3
#define LEAST_TIMES  3
#define MOST_TIMES   24
#define LONG_S       30e-3 /* timed once */
#define QUEUE_S      60e-6 /* more than the host takes to queue any op */
#define LONGEST_S    0.8   /* of all operations of a program once */
#define STANDARD_S   60.0  /* for the standard networks */
#define ASKED_S      10.0  /* and for each that was asked for */
#define MODEL_S      8.0
#define QUICK_S      10.0
#define QUICK_BATCH  8
#define LAYERS_BATCH 32

/* The gradients that a pass makes. */
static unsigned wanted(const pdl__bench_job_t *job)
{
    unsigned what = 0;

    for (int k = 0; k < job->unit->spec.input_count; k++)
        if (job->run.input_gradient[k] != NULL) what |= PDL_BACKWARD_DATA;
    for (int k = 0; k < job->unit->description.weight_count; k++)
        if (job->run.weight_gradient[k] != NULL) what |= PDL_BACKWARD_WEIGHT;
    return job->pass == PDL_TIMED_DGRAD   ? what & PDL_BACKWARD_DATA
           : job->pass == PDL_TIMED_WGRAD ? PDL_BACKWARD_WEIGHT | PDL_BACKWARD_AGAIN
                                          : what;
}

static pdl_status_t convert(const pdl__bench_t *b, const pdl__bench_job_t *job)
{
    const pdl__unit_t *unit = job->unit;
    int64_t            samples = pdl__region_samples(&unit->region);
    bool               back = job->pass == PDL_TIMED_BACKWARD;

    if (unit->kind == PDL__UNIT_SOURCE && job->graph->tokens)
        return b->backend->device->ops->copy(b->backend->device, b->stream, job->to, job->from,
                                             pdl__index_bytes(&unit->shape, samples));
    if (unit->kind == PDL__UNIT_SOURCE)
        return b->backend->ops->load_values(b->backend, b->stream, &unit->shape, samples, job->from, unit->format,
                                            job->to);
    pdl_format_t format[2] = {job->graph->unit[unit->input[0]].format, unit->format};
    return b->backend->ops->convert(b->backend, b->stream, &unit->shape, samples, format[back], job->from,
                                    format[!back], job->to);
}

static pdl_status_t run_once(const pdl__bench_t *b, const pdl__bench_job_t *job)
{
    if (job->op == NULL) return convert(b, job);
    if (job->pass == PDL_TIMED_FORWARD) return b->backend->ops->forward(job->op, b->stream, &job->run);
    return b->backend->ops->backward(job->op, b->stream, &job->run, wanted(job));
}

/* Mean of so many runs that wait for nothing but the device, and of the host's time to queue one. */
static pdl_status_t run_times(const pdl__bench_t *b, const pdl__bench_job_t *job, int times, double *seconds,
                              double *queue_s)
{
    pdl_tensor_device_t *device = b->backend->device;
    pdl_status_t         status = pdl__stall(&b->stall, b->stream, times > 1 ? times * QUEUE_S : 0);

    if (!status) status = device->ops->record(device, b->stream, b->event[0]);
    double start_s = pdl__seconds();
    for (int i = 0; i < times && !status; i++) status = run_once(b, job);
    *queue_s = (pdl__seconds() - start_s) / times;
    if (!status) status = device->ops->record(device, b->stream, b->event[1]);
    if (!status) status = device->ops->synchronise(device, b->stream);
    if (!status) *seconds = fmax(1e-9, device->ops->elapsed(device, b->event[0], b->event[1]) / times);
    return status;
}

/* As many runs within work that is kept and replayed. What cannot be kept is not timed so. */
static pdl_status_t replay_times(const pdl__bench_t *b, const pdl__bench_job_t *job, int times, double *seconds)
{
    pdl_tensor_device_t *device = b->backend->device;
    pdl_tensor_work_t   *work = NULL;
    pdl_status_t         status = device->ops->capture_begin(device, b->stream);

    if (status) return PDL_OK;
    for (int i = 0; i < times && !status; i++) status = run_once(b, job);
    pdl_status_t end = device->ops->capture_end(device, b->stream, &work);
    bool         kept = !status && !end;
    status = PDL_OK;
    /* The first time the device gets the work. */
    for (int i = 0; i < 2 && kept && !status; i++) {
        status = pdl__stall(&b->stall, b->stream, QUEUE_S);
        if (!status) status = device->ops->record(device, b->stream, b->event[0]);
        if (!status) status = device->ops->replay(device, b->stream, work);
        if (!status) status = device->ops->record(device, b->stream, b->event[1]);
        if (!status) status = device->ops->synchronise(device, b->stream);
    }
    if (kept && !status) *seconds = fmax(1e-9, device->ops->elapsed(device, b->event[0], b->event[1]) / times);
    device->ops->work_destroy(device, work);
    return status;
}

static pdl_status_t time_pass(pdl__bench_t *b, pdl__bench_job_t *job, pdl_timed_pass_t pass, pdl_timed_op_t *row)
{
    double *seconds = &row->seconds[pass], *queue_s = &row->queue_s[pass];

    job->pass = pass;
    /* Kernels are loaded when they are first used. */
    pdl_status_t status = run_times(b, job, 1, seconds, queue_s);
    if (!status) status = run_times(b, job, 1, seconds, queue_s);
    if (status || *seconds > LONG_S) return status;
    int times = (int)fmin(MOST_TIMES, fmax(LEAST_TIMES, TARGET_S / *seconds));
    status = run_times(b, job, times, seconds, queue_s);
    if (status || !b->backend->device->captures) return status;
    return replay_times(b, job, times, &row->replayed_s[pass]);
}

static pdl_status_t time_passes(pdl__bench_t *b, pdl__bench_job_t *job, pdl_timed_op_t *row)
{
    const pdl__unit_t *unit = job->unit;
    pdl_status_t       status = time_pass(b, job, PDL_TIMED_FORWARD, row);
    bool               backward = unit->gradient && unit->kind != PDL__UNIT_SOURCE && unit->spec.training &&
                    !unit->description.gradient_in_forward;

    if (unit->kind == PDL__UNIT_CONVERT) backward = unit->gradient;
    if (!status && backward && (job->op == NULL || wanted(job) != 0))
        status = time_pass(b, job, PDL_TIMED_BACKWARD, row);
    if (!status && backward && unit->description.divides &&
        wanted(job) == (PDL_BACKWARD_DATA | PDL_BACKWARD_WEIGHT)) {
        status = time_pass(b, job, PDL_TIMED_DGRAD, row);
        if (!status) status = time_pass(b, job, PDL_TIMED_WGRAD, row);
    }
    return status;
}

static pdl_timed_op_t *find_row(const pdl_calibration_t *r, const pdl_timed_op_t *row)
{
    for (int i = 0; i < r->operation_count; i++)
        if (pdl_timed_compare(&r->operation[i], row) == 0) return &r->operation[i];
    return NULL;
}

static pdl_status_t add_row(pdl_calibration_t *r, const pdl_timed_op_t *row, const char *key)
{
    if (r->operation_count == r->operation_capacity) {
        int             capacity = r->operation_capacity ? 2 * r->operation_capacity : 256;
        pdl_timed_op_t *rows = realloc(r->operation, (size_t)capacity * sizeof(*rows));
        if (rows == NULL) return pdl__no_memory("for measured operations");
        r->operation = rows;
        r->operation_capacity = capacity;
    }
    pdl_timed_op_t *made = &r->operation[r->operation_count];
    *made = *row;
    made->key = strdup(key);
    if (made->key == NULL) return pdl__no_memory("for measured operations");
    r->operation_count++;
    return PDL_OK;
}

/* The peak is the rate of the fastest product of all: that of one size does not tell. A layer counts the work of all of it. */
static void raise_peak(const pdl__bench_t *b, const pdl__unit_t *unit, const pdl_timed_op_t *row)
{
    pdl_calibration_t *r = b->c->result;
    double            *peak = row->precision == PDL_FP32 ? &r->flop_per_s : &r->half_flop_per_s;

    if (unit->kind == PDL__UNIT_OP && unit->spec.layer->type == PDL_LAYER_LINEAR && !b->split)
        *peak =
            fmax(*peak, (double)unit->spec.layer->flop_forward * row->samples / row->seconds[PDL_TIMED_FORWARD]);
}

/* layer_s: of the layers of the model, forward and backward. */
static pdl_status_t time_unit(pdl__bench_t *b, const pdl__graph_t *graph, int i, double (*layer_s)[2])
{
    const pdl__unit_t *unit = &graph->unit[i];
    pdl_timed_op_t     row = {.precision = (int)b->precision, .samples = (double)graph->node[i].samples};
    pdl__bench_job_t   job = {.graph = graph, .unit = unit};
    char               key[PDL_KEY_SIZE];
    pdl_status_t       status = PDL_OK;

    pdl__unit_key(graph, i, key, sizeof(key));
    row.hash = graph->node[i].key;
    /* Ops whose ranks have to meet are no work of one rank. */
    if (row.hash == 0 || unit->description.meetings[0] + unit->description.meetings[1] > 0) return PDL_OK;
    const pdl_timed_op_t *known = find_row(b->c->result, &row);
    if (known == NULL) {
        if (unit->kind == PDL__UNIT_OP) {
            pdl_op_spec_t spec = pdl__unit_spec(unit);
            status = b->backend->ops->op_create(b->backend, &spec, &job.op);
        }
        if (!status) status = pdl__bench_place(b, &job);
        if (!status) status = time_passes(b, &job, &row);
        b->backend->ops->op_destroy(job.op);
        if (!status) raise_peak(b, unit, &row);
        if (!status) status = add_row(b->c->result, &row, key);
    }
    if (known == NULL) known = &row;
    for (int k = 0; k < 2 && unit->kind == PDL__UNIT_OP; k++) layer_s[unit->layer][k] = known->seconds[k];
    b->sum_s += known->seconds[PDL_TIMED_FORWARD] + known->seconds[PDL_TIMED_BACKWARD];
    return status;
}

/* What cannot be had, or does not fit, is not an error of the machine. */
static pdl_status_t forgive(pdl_status_t status)
{
    return status == PDL_ERR_UNSUPPORTED || status == PDL_ERR_NOMEM || status == PDL_ERR_LIMIT ? PDL_OK : status;
}

static pdl_status_t time_graph(pdl__bench_t *b, const pdl_plan_t *plan)
{
    pdl__layouts_t   *layouts = NULL;
    pdl__graph_t     *graph = NULL;
    pdl__graph_spec_t spec = {.plan = plan,
                              .backend = b->backend,
                              .training = plan->run_mode == PDL_TRAINING,
                              .overlap = true,
                              .bucket_bytes = PDL_BUCKET_BYTES};
    int               layers = pdl_model_layer_count(plan->model), i = 0;
    double(*layer_s)[2] = malloc((size_t)layers * sizeof(*layer_s));
    pdl_status_t status =
        layer_s != NULL ? pdl__layouts_create(plan, 0, plan->batch, &layouts) : pdl__no_memory("for times");

    for (int k = 0; k < 2 * layers && layer_s != NULL; k++) layer_s[k / 2][k % 2] = -1;
    spec.layouts = layouts;
    if (!status) status = pdl__graph_create(&spec, &graph);
    b->sum_s = 0;
    b->split = pdl_mesh_size(&plan->mesh) > 1;
    double end_s = pdl__seconds() + MODEL_S;
    for (; !status && i < graph->unit_count && b->sum_s < LONGEST_S && pdl__seconds() < end_s; i++)
        status = forgive(time_unit(b, graph, i, layer_s));
    /* The search judges by layers. */
    if (!status && i == graph->unit_count && plan->run_mode == PDL_TRAINING && plan->batch == LAYERS_BATCH)
        status = pdl__keep_layers(b->c, plan, (double)plan->batch, (const double(*)[2])layer_s);
    free(layer_s);
    pdl__graph_destroy(graph);
    pdl__layouts_destroy(layouts);
    return forgive(status);
}

/* Ways to run a model whose operations differ. */
typedef enum way { TRAINING, FILTERS, SPACE, INFERENCE, WAYS } way_t;
static const struct {
    const char     *strategy, *name;
    pdl_axis_kind_t axis;
    pdl_run_mode_t  run_mode;
    bool            alone; /* on one rank */
} ways[WAYS] = {[TRAINING] = {"serial", "training", PDL_AXIS_DATA, PDL_TRAINING, true},
                [FILTERS] = {"filter", "filters split", PDL_AXIS_TENSOR, PDL_TRAINING, false},
                [SPACE] = {"spatial", "space split", PDL_AXIS_SPATIAL, PDL_TRAINING, false},
                [INFERENCE] = {"serial", "inference", PDL_AXIS_DATA, PDL_INFERENCE, true}};

/* All models so; what matters most comes first, since there may not be time for all. Two numbers of samples of an operation give
   its line. */
enum { FP32, BF16 }; /* places of the list of backends */
static const struct round {
    way_t   way;
    int     precision;
    int64_t batch;
} rounds[] = {{TRAINING, BF16, 32},  {TRAINING, FP32, 32}, {TRAINING, BF16, 128},  {FILTERS, BF16, 128},
              {SPACE, BF16, 128},    {TRAINING, BF16, 8},  {TRAINING, FP32, 8},    {TRAINING, BF16, 512},
              {TRAINING, FP32, 128}, {FILTERS, BF16, 32},  {SPACE, BF16, 32},      {INFERENCE, BF16, 32},
              {INFERENCE, BF16, 8},  {FILTERS, FP32, 32},  {SPACE, FP32, 32},      {INFERENCE, FP32, 32},
              {TRAINING, FP32, 512}, {INFERENCE, FP32, 8}, {INFERENCE, BF16, 128}, {INFERENCE, FP32, 128}};
#define COUNT(list) ((int)(sizeof(list) / sizeof(*(list))))

/* Seconds of the operations once, *sum_s; 0 where the model cannot be run so. */
static pdl_status_t time_model(pdl__bench_t *b, const pdl_model_t *model, int way, int64_t batch, double *sum_s)
{
    int64_t      ranks = ways[way].alone ? 1 : pdl_ranks_size(b->c->ranks);
    pdl_mesh_t   mesh = {{{ways[way].axis, ranks, 0}}, 1};
    pdl_plan_t  *plan = NULL;
    pdl_status_t status = PDL_OK;

    *sum_s = 0;
    if (!pdl_plan_create(model, &mesh, batch, &plan) && !pdl_plan_apply_preset(plan, ways[way].strategy, NULL) &&
        !pdl_plan_check(plan)) {
        plan->precision = b->precision;
        plan->run_mode = ways[way].run_mode;
        status = time_graph(b, plan);
        *sum_s = b->sum_s;
    }
    if (plan != NULL) pdl_plan_destroy(plan);
    return status;
}

/* What a model took to time in a way and precision with the last batch, and its operations; batch: 0 before, -1 where it cannot be run so. */
typedef struct seen {
    double  wall_s, sum_s;
    int64_t batch;
} seen_t;

/* Larger batches take longer, most of it by the device. */
static bool is_worth_it(const pdl__calibrate_t *c, const seen_t *seen, int64_t batch, double end_s)
{
    double ratio = seen->batch > 0 ? (double)batch / (double)seen->batch : 1;

    if (seen->batch < 0) return false;
    if (c->options->quick && batch != QUICK_BATCH) return false;
    return seen->sum_s * ratio < LONGEST_S && pdl__seconds() + seen->wall_s * fmax(1, ratio) < end_s;
}

/* One model in one way; nothing where there is no time for it. */
static pdl_status_t time_one(pdl__bench_t *b, int m, int w, int64_t batch, double end_s, seen_t *seen)
{
    double       start_s = pdl__seconds();
    pdl_status_t status;

    if (b->backend == NULL || !is_worth_it(b->c, seen, batch, end_s)) return PDL_OK;
    status = time_model(b, b->c->model[m], w, batch, &seen->sum_s);
    seen->wall_s = pdl__seconds() - start_s;
    seen->batch = seen->sum_s > 0 ? batch : -1;
    if (!status && seen->sum_s > 0)
        pdl__calibrate_say(b->c, "operations of %s, %s, batch %lld%s: %.2f ms", b->c->name[m], ways[w].name,
                           (long long)batch, b->precision == PDL_BF16 ? ", bf16" : "", 1e3 * seen->sum_s);
    return status;
}

/* Those that were asked for first, then the standard ones. */
static int model_at(const pdl__calibrate_t *c, int i)
{
    int standard = c->model_count - c->options->model_count;

    return i < c->options->model_count ? standard + i : i - c->options->model_count;
}

static pdl_status_t time_all(pdl__calibrate_t *c, pdl__bench_t *bench, double end_s)
{
    bool         several = pdl_ranks_size(c->ranks) > 1;
    seen_t       seen[WAYS][PDL__PRECISIONS][PDL_CALIBRATION_MODELS + 6] = {0};
    pdl_status_t status = PDL_OK;

    for (int k = 0; k < COUNT(rounds); k++) {
        const struct round *r = &rounds[k];

        for (int i = 0; i < c->model_count && (ways[r->way].alone || several) && !status; i++)
            status = time_one(&bench[r->precision], model_at(c, i), (int)r->way, r->batch, end_s,
                              &seen[r->way][r->precision][i]);
    }
    return status;
}

/* A device that fails has spoiled nothing that was timed before. */
static pdl_status_t keep_earlier(pdl__calibrate_t *c, pdl_status_t status)
{
    if (status && c->result->operation_count > 0) {
        pdl__calibrate_say(c, "%s: no more operations are timed", pdl_error_message());
        return PDL_OK;
    }
    return status;
}

pdl_status_t pdl__calibrate_operations(pdl__calibrate_t *c)
{
    static const pdl_precision_t precisions[PDL__PRECISIONS] = {[FP32] = PDL_FP32, [BF16] = PDL_BF16};
    pdl__bench_t                 bench[PDL__PRECISIONS] = {{.c = c}, {.c = c}};
    double                       limit_s = STANDARD_S + ASKED_S * c->options->model_count,
           end_s = pdl__seconds() + (c->options->quick ? QUICK_S : limit_s);
    pdl_status_t status = PDL_OK;

    for (int p = 0; p < PDL__PRECISIONS && !status && pdl_ranks_rank(c->ranks) == 0; p++) {
        bench[p].backend = c->backend[p];
        bench[p].precision = precisions[p];
        if (bench[p].backend != NULL) status = pdl__bench_create(&bench[p]);
    }
    if (!status && pdl_ranks_rank(c->ranks) == 0) status = keep_earlier(c, time_all(c, bench, end_s));
    for (int p = 0; p < PDL__PRECISIONS; p++)
        if (bench[p].backend != NULL) pdl__bench_free(&bench[p]);
    return pdl_ranks_agree(c->ranks, status);
}
