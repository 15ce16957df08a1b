/*
 * The operations of models timed one by one: every distinct op of a program once for each number of samples, on memory that holds
 * it alone. No update is run, and models need not fit the device.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "train/calibrate/calibrate.h"
#include "train/exec/session.h"
#include <math.h>
#include <paradl/program/compile.h>
#include <stdlib.h>
#include <string.h>

#define TARGET_S        2e-3
#define LEAST_TIMES     3
#define MOST_TIMES      24
#define LONG_S          30e-3 /* timed once */
#define QUEUE_S         60e-6 /* more than the host takes to queue any op */
#define LONGEST_S       0.8   /* of all operations of a program once */
#define MOST_S          85.0
#define MODEL_S         8.0
#define QUICK_S         10.0
#define RANDOM_VALUES   ((int64_t)1 << 20)
#define BEHIND          ((size_t)1 << 20) /* tensors of a program have others behind them too */
#define ALIGNMENT       256
#define SHARE_OF_MEMORY 0.9

/* Memory by what is in it: numbers that are read, results, weights, indices. */
typedef enum area { AREA_READ, AREA_WRITTEN, AREA_WEIGHTS, AREA_INDICES, AREAS } area_t;

typedef struct bench {
    pdl__calibrate_t    *c;
    pdl_backend_t       *backend;
    pdl_precision_t      precision;
    pdl_tensor_stream_t *stream;
    pdl_tensor_event_t  *event[2];
    pdl__stall_t         stall;
    char                *area[AREAS];
    size_t               bytes[AREAS], used[AREAS];
    int64_t              indices; /* below which those of AREA_INDICES are */
    double               sum_s;   /* of the operations of the program at hand */
} bench_t;

/* One pass of one unit. */
typedef struct job {
    const pdl__graph_t *graph;
    const pdl__unit_t  *unit;
    pdl_op_t           *op;
    pdl_op_run_t        run;
    pdl_timed_pass_t    pass;
    const void         *from;
    void               *to;
} job_t;

/* The next place of an area; NULL while it is only counted what an op needs. */
static void *place(bench_t *b, area_t area, size_t bytes)
{
    size_t at = b->used[area];

    b->used[area] += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return b->used[area] <= b->bytes[area] ? b->area[area] + at : NULL;
}

static size_t input_bytes(const bench_t *b, const pdl__unit_t *unit, int k)
{
    return b->backend->ops->tensor_bytes(b->backend, &unit->reads[k], unit->spec.samples,
                                         unit->description.in_format[k]);
}

static size_t index_bytes(const pdl_shape_t *shape, int64_t samples)
{
    return (size_t)(samples * pdl_shape_positions(shape)) * sizeof(int32_t);
}

static void place_inputs(bench_t *b, const job_t *job, pdl_op_run_t *run)
{
    const pdl__unit_t *unit = job->unit;

    for (int k = 0; k < unit->spec.input_count; k++) {
        bool gradient = unit->spec.input_gradient && job->graph->unit[unit->input[k]].gradient;

        run->input[k] = pdl_layer_traits(unit->spec.layer)->tokens
                            ? place(b, AREA_INDICES, index_bytes(&unit->reads[k], unit->spec.samples))
                            : place(b, AREA_READ, input_bytes(b, unit, k));
        if (gradient && unit->description.gradient_use[k] != PDL_GRADIENT_PASSED)
            run->input_gradient[k] = place(b, AREA_WRITTEN, input_bytes(b, unit, k));
    }
}

static void place_weights(bench_t *b, const pdl_op_description_t *op, pdl_op_run_t *run)
{
    for (int k = 0; k < op->weight_count; k++) {
        size_t bytes = (size_t)op->weight[k].elements * sizeof(float);

        run->weight[k] = place(b, AREA_WEIGHTS, bytes);
        if (op->weight[k].trainable) run->weight_gradient[k] = place(b, AREA_WRITTEN, bytes);
    }
}

static void place_targets(bench_t *b, const pdl__unit_t *unit, pdl_op_run_t *run)
{
    pdl_loss_t loss = pdl_layer_traits(unit->spec.layer)->loss;

    if (loss == PDL_LOSS_CLASSES)
        run->target = place(b, AREA_INDICES, index_bytes(&unit->spec.layer->in, unit->spec.samples));
    if (loss == PDL_LOSS_VALUES) run->target = place(b, AREA_READ, input_bytes(b, unit, 0));
}

static void place_op(bench_t *b, job_t *job)
{
    const pdl_op_description_t *op = &job->unit->description;
    int                         gradients = pdl__unit_gradients(job->graph, (int)(job->unit - job->graph->unit));
    pdl_op_run_t                run = {.training = job->unit->spec.training,
                                       .total_samples = job->unit->spec.samples,
                                       .loss_scale = 1.0 / (double)job->unit->spec.samples};

    memset(b->used, 0, sizeof(b->used));
    run.output = place(b, AREA_WRITTEN, op->out_bytes);
    run.saved = place(b, AREA_WRITTEN, op->saved_bytes);
    run.workspace = place(b, AREA_WRITTEN, op->workspace_bytes);
    run.packed = place(b, AREA_WRITTEN, op->packed_bytes);
    place_inputs(b, job, &run);
    place_weights(b, op, &run);
    place_targets(b, job->unit, &run);
    run.output_gradient[0] = place(b, AREA_READ, op->out_bytes);
    if (gradients > 1 && op->sums_gradients) run.output_gradient[1] = place(b, AREA_READ, op->out_bytes);
    if (gradients > 1 && op->adds_gradient) run.added_gradient = place(b, AREA_READ, input_bytes(b, job->unit, 0));
    job->run = run;
}

/* One tensor to another. */
static void place_conversion(bench_t *b, job_t *job)
{
    const pdl__unit_t *unit = job->unit;
    int64_t            samples = pdl__region_samples(&unit->region);
    size_t             most = (size_t)(samples * pdl_shape_elements(&unit->shape)) * sizeof(float);
    pdl_format_t format[2] = {unit->input_count > 0 ? job->graph->unit[unit->input[0]].format : PDL_FORMAT_PLAIN,
                              unit->format};

    for (int i = 0; i < 2; i++) {
        size_t bytes = b->backend->ops->tensor_bytes(b->backend, &unit->shape, samples, format[i]);
        if (bytes > most) most = bytes;
    }
    memset(b->used, 0, sizeof(b->used));
    job->from =
        place(b, unit->kind == PDL__UNIT_SOURCE ? AREA_WEIGHTS : AREA_READ, most); /* plain floats are loaded */
    job->to = place(b, AREA_WRITTEN, most);
}

/* Random numbers at the beginning of an area, then copies of them. */
static pdl_status_t fill(const bench_t *b, area_t area, int64_t indices)
{
    pdl_tensor_device_t *device = b->backend->device;
    size_t               item = area == AREA_READ ? pdl_dtype_bytes(b->backend->activation_type) : sizeof(float);
    int64_t              count = (int64_t)fmin((double)RANDOM_VALUES, (double)(b->bytes[area] / item));
    float               *values = malloc((size_t)count * sizeof(*values));
    int32_t             *numbers = (int32_t *)(void *)values;
    uint32_t             x = 12345;
    pdl_status_t         status = PDL_OK;

    if (values == NULL) return pdl__no_memory("for a calibration");
    for (int64_t i = 0; i < count; i++) {
        x = x * 1664525u + 1013904223u;
        if (area == AREA_INDICES)
            numbers[i] = (int32_t)((int64_t)(x >> 8) % indices);
        else
            values[i] = ((float)(x >> 8) / 8388608.0f - 1.0f) * (area == AREA_WEIGHTS ? 0.05f : 1.0f);
    }
    if (area == AREA_READ)
        status = b->backend->ops->from_float(b->backend, NULL, values, count, b->area[area]);
    else
        status = device->ops->copy(device, NULL, b->area[area], values, (size_t)count * item);
    for (size_t done = (size_t)count * item; done < b->bytes[area] && !status; done *= 2)
        status = device->ops->copy(device, NULL, b->area[area] + done, b->area[area],
                                   done < b->bytes[area] - done ? done : b->bytes[area] - done);
    free(values);
    return status;
}

/* As large as what was placed last needs it. */
static pdl_status_t grow(bench_t *b, area_t area)
{
    pdl_tensor_device_t *device = b->backend->device;
    void                *memory = NULL;
    size_t               free_bytes = 0, all_bytes = 0;
    pdl_status_t         status = PDL_OK;

    if (b->used[area] <= b->bytes[area]) return PDL_OK;
    b->used[area] += BEHIND;
    device->ops->release(device, PDL_SPACE_DEVICE, b->area[area], b->bytes[area]);
    b->area[area] = NULL;
    b->bytes[area] = 0;
    if (device->ops->memory != NULL) status = device->ops->memory(device, &free_bytes, &all_bytes);
    if (!status && all_bytes > 0 && (double)b->used[area] > SHARE_OF_MEMORY * (double)free_bytes)
        status = pdl_error(PDL_ERR_LIMIT, "an operation does not fit the device");
    if (!status) status = device->ops->alloc(device, PDL_SPACE_DEVICE, b->used[area], &memory);
    if (status) return status;
    b->area[area] = memory;
    b->bytes[area] = b->used[area];
    return area == AREA_WRITTEN || area == AREA_INDICES ? PDL_OK : fill(b, area, 0);
}

static pdl_status_t place_job(bench_t *b, job_t *job)
{
    const pdl_layer_t *layer = job->op != NULL ? job->unit->spec.layer : NULL;
    pdl_status_t       status = PDL_OK;

    for (int i = 0; i < 2 && !status; i++) {
        if (job->op != NULL)
            place_op(b, job);
        else
            place_conversion(b, job);
        for (int a = 0; a < AREAS && i == 0 && !status; a++) status = grow(b, (area_t)a);
    }
    if (status || layer == NULL) return status;
    if (b->used[AREA_INDICES] > 0)
        status = fill(b, AREA_INDICES, layer->vocabulary > 0 ? layer->vocabulary : layer->in.channels);
    if (!status && job->unit->description.packed_bytes > 0)
        status = b->backend->ops->refresh(job->op, b->stream, &job->run);
    return status;
}

/* The gradients that a pass makes. */
static unsigned wanted(const job_t *job)
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

static pdl_status_t convert(const bench_t *b, const job_t *job)
{
    const pdl__unit_t *unit = job->unit;
    int64_t            samples = pdl__region_samples(&unit->region);
    bool               back = job->pass == PDL_TIMED_BACKWARD;

    if (unit->kind == PDL__UNIT_SOURCE && job->graph->tokens)
        return b->backend->device->ops->copy(b->backend->device, b->stream, job->to, job->from,
                                             index_bytes(&unit->shape, samples));
    if (unit->kind == PDL__UNIT_SOURCE)
        return b->backend->ops->load_values(b->backend, b->stream, &unit->shape, samples, job->from, unit->format,
                                            job->to);
    pdl_format_t format[2] = {job->graph->unit[unit->input[0]].format, unit->format};
    return b->backend->ops->convert(b->backend, b->stream, &unit->shape, samples, format[back], job->from,
                                    format[!back], job->to);
}

static pdl_status_t run_once(const bench_t *b, const job_t *job)
{
    if (job->op == NULL) return convert(b, job);
    if (job->pass == PDL_TIMED_FORWARD) return b->backend->ops->forward(job->op, b->stream, &job->run);
    return b->backend->ops->backward(job->op, b->stream, &job->run, wanted(job));
}

/* Mean of so many runs that wait for nothing but the device, and of the host's time to queue one. */
static pdl_status_t run_times(const bench_t *b, const job_t *job, int times, double *seconds, double *queue_s)
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

static pdl_status_t time_pass(bench_t *b, job_t *job, pdl_timed_pass_t pass, pdl_timed_op_t *row)
{
    double *seconds = &row->seconds[pass], *queue_s = &row->queue_s[pass];

    job->pass = pass;
    /* Kernels are loaded when they are first used. */
    pdl_status_t status = run_times(b, job, 1, seconds, queue_s);
    if (!status) status = run_times(b, job, 1, seconds, queue_s);
    if (status || *seconds > LONG_S) return status;
    int times = (int)fmin(MOST_TIMES, fmax(LEAST_TIMES, TARGET_S / *seconds));
    return run_times(b, job, times, seconds, queue_s);
}

static pdl_status_t time_passes(bench_t *b, job_t *job, pdl_timed_op_t *row)
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

static pdl_status_t time_unit(bench_t *b, const pdl__graph_t *graph, int i)
{
    const pdl__unit_t *unit = &graph->unit[i];
    pdl_timed_op_t     row = {.precision = (int)b->precision, .samples = (double)graph->node[i].samples};
    job_t              job = {.graph = graph, .unit = unit};
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
        if (!status) status = place_job(b, &job);
        if (!status) status = time_passes(b, &job, &row);
        b->backend->ops->op_destroy(job.op);
        if (!status) status = add_row(b->c->result, &row, key);
    }
    if (known == NULL) known = &row;
    b->sum_s += known->seconds[PDL_TIMED_FORWARD] + known->seconds[PDL_TIMED_BACKWARD];
    return status;
}

/* What cannot be had, or does not fit, is not an error of the machine. */
static pdl_status_t forgive(pdl_status_t status)
{
    return status == PDL_ERR_UNSUPPORTED || status == PDL_ERR_NOMEM || status == PDL_ERR_LIMIT ? PDL_OK : status;
}

static pdl_status_t time_graph(bench_t *b, const pdl_plan_t *plan)
{
    pdl__layouts_t   *layouts = NULL;
    pdl__graph_t     *graph = NULL;
    pdl__graph_spec_t spec = {.plan = plan,
                              .backend = b->backend,
                              .training = plan->run_mode == PDL_TRAINING,
                              .overlap = true,
                              .bucket_bytes = PDL_BUCKET_BYTES};
    pdl_status_t      status = pdl__layouts_create(plan, 0, plan->batch, &layouts);

    spec.layouts = layouts;
    if (!status) status = pdl__graph_create(&spec, &graph);
    b->sum_s = 0;
    double end_s = pdl__seconds() + MODEL_S;
    for (int i = 0; !status && i < graph->unit_count && b->sum_s < LONGEST_S && pdl__seconds() < end_s; i++)
        status = forgive(time_unit(b, graph, i));
    pdl__graph_destroy(graph);
    pdl__layouts_destroy(layouts);
    return forgive(status);
}

/* Ways to run a model whose operations differ; what matters most comes first, since there may not be time for all. */
static const struct way {
    const char     *strategy, *name;
    pdl_axis_kind_t axis;
    pdl_run_mode_t  run_mode;
    bool            alone; /* on one rank */
} ways[] = {{"serial", "training", PDL_AXIS_DATA, PDL_TRAINING, true},
            {"filter", "filters split", PDL_AXIS_TENSOR, PDL_TRAINING, false},
            {"spatial", "space split", PDL_AXIS_SPATIAL, PDL_TRAINING, false},
            {"serial", "inference", PDL_AXIS_DATA, PDL_INFERENCE, true}};
static const int64_t batches[] = {32, 8, 128, 512}, quick_batch = 8;
#define COUNT(list) ((int)(sizeof(list) / sizeof(*(list))))

/* Seconds of the operations once, *sum_s; 0 where the model cannot be run so. */
static pdl_status_t time_model(bench_t *b, const pdl_model_t *model, int way, int64_t batch, double *sum_s)
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

static pdl_status_t create_bench(bench_t *b)
{
    pdl_tensor_device_t *device = b->backend->device;
    pdl_status_t         status = device->ops->stream_create(device, &b->stream);

    for (int i = 0; i < 2 && !status; i++) status = device->ops->event_create(device, &b->event[i]);
    return status ? status : pdl__stall_create(device, &b->stall);
}

static void free_bench(bench_t *b)
{
    pdl_tensor_device_t *device = b->backend->device;

    for (int a = 0; a < AREAS; a++)
        if (b->area[a] != NULL) device->ops->release(device, PDL_SPACE_DEVICE, b->area[a], b->bytes[a]);
    pdl__stall_free(&b->stall);
    for (int i = 0; i < 2; i++) device->ops->event_destroy(device, b->event[i]);
    device->ops->stream_destroy(device, b->stream);
}

/* What each combination took to time with the batch before it, and its operations. */
typedef struct seen {
    double  wall_s, sum_s;
    int64_t batch;
} seen_t;

/* Larger batches take longer, most of it by the device. */
static bool is_worth_it(const pdl__calibrate_t *c, const seen_t *seen, int64_t batch, double end_s)
{
    double ratio = seen->batch > 0 ? (double)batch / (double)seen->batch : 1;

    if (seen->batch < 0) return false;
    if (c->options->quick && batch != quick_batch) return false;
    return seen->sum_s * ratio < LONGEST_S && pdl__seconds() + seen->wall_s * fmax(1, ratio) < end_s;
}

/* One model in one way; nothing where there is no time for it. */
static pdl_status_t time_one(bench_t *b, int m, int w, int64_t batch, double end_s, seen_t *seen)
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

static pdl_status_t time_all(pdl__calibrate_t *c, bench_t *bench, double end_s)
{
    bool         several = pdl_ranks_size(c->ranks) > 1;
    pdl_status_t status = PDL_OK;

    for (int w = 0; w < COUNT(ways); w++)
        for (int p = PDL__PRECISIONS - 1; p >= 0; p--) {
            seen_t seen[PDL_CALIBRATION_MODELS + 6] = {{0, 0, 0}};

            for (int k = 0; k < COUNT(batches) && (ways[w].alone || several); k++)
                for (int i = 0; i < c->model_count && !status; i++)
                    status = time_one(&bench[p], model_at(c, i), w, batches[k], end_s, &seen[i]);
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
    static const pdl_precision_t precisions[PDL__PRECISIONS] = {PDL_FP32, PDL_BF16};
    bench_t                      bench[PDL__PRECISIONS] = {{.c = c}, {.c = c}};
    double                       end_s = pdl__seconds() + (c->options->quick ? QUICK_S : MOST_S);
    pdl_status_t                 status = PDL_OK;

    for (int p = 0; p < PDL__PRECISIONS && !status && pdl_ranks_rank(c->ranks) == 0; p++) {
        bench[p].backend = c->backend[p];
        bench[p].precision = precisions[p];
        if (bench[p].backend != NULL) status = create_bench(&bench[p]);
    }
    if (!status && pdl_ranks_rank(c->ranks) == 0) status = keep_earlier(c, time_all(c, bench, end_s));
    for (int p = 0; p < PDL__PRECISIONS; p++)
        if (bench[p].backend != NULL) free_bench(&bench[p]);
    return pdl_ranks_agree(c->ranks, status);
}
