/*
 * Times every layer of a model, forward and backward, one after the other as a step does:
 *
 *     bench_ops MODEL SAMPLES [THREADS|cuda|emulated [fp32|bf16 [REPETITIONS]]]
 *
 * It fuses what the backend fuses and converts where formats differ. Printed for each layer: the median milliseconds,
 * GFLOP/s, and GB/s if each tensor passed through memory once. With one thread the times are those of the processor, which
 * other programs on the machine disturb less; on a GPU those between two events, of work that is queued.
 */
#include <paradl/model/model.h>
#include <paradl/model/traits.h>
#include <paradl/tensor/backend.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_REPETITIONS 64

typedef struct node {
    const pdl_layer_t  *layer;
    int                 inputs[PDL_MAX_INPUTS], input_count; /* nodes */
    pdl_fusion_t        fusion;
    pdl_op_t           *op;
    pdl_op_run_t        run;
    void               *converted[PDL_MAX_INPUTS], *back[PDL_MAX_INPUTS]; /* where arrangements differ */
    void               *gradients[16];                                    /* of the output, from its readers */
    int                 gradient_count;
    pdl_tensor_event_t *event[2][2]; /* of a GPU: before and after each pass */
    double              seconds[2][MOST_REPETITIONS];
} node_t;

typedef struct bench {
    pdl_model_t         *model;
    pdl_backend_t       *backend;
    pdl_tensor_stream_t *stream;    /* NULL: the CPU works at once */
    void                *workspace; /* of all ops */
    size_t               workspace_bytes;
    node_t              *nodes; /* one a layer; those fused into another have no op */
    int                 *node_of;
    int                  count;
    int64_t              samples;
    int                  repetitions;
} bench_t;

static void check(pdl_status_t status)
{
    if (status == PDL_OK) return;
    fprintf(stderr, "bench_ops: %s\n", pdl_error_message());
    exit(1);
}

static double seconds(const bench_t *b)
{
    struct timespec t;

    clock_gettime(b->backend->threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Zeros, in memory of the device. */
static void *take(const bench_t *b, size_t bytes)
{
    void *memory;

    check(b->backend->device->ops->alloc(b->backend->device, PDL_SPACE_DEVICE, bytes, &memory));
    return memory;
}

static void *take_host(size_t bytes)
{
    void *memory = malloc(bytes);

    if (memory == NULL) {
        fprintf(stderr, "bench_ops: out of memory\n");
        exit(1);
    }
    return memory;
}

static void fill(float *values, int64_t count, float scale)
{
    uint32_t x = 12345;

    for (int64_t i = 0; i < count; i++) {
        x = x * 1664525u + 1013904223u;
        values[i] = ((float)(x >> 8) / 8388608.0f - 1.0f) * scale;
    }
}

/* The only reader of layer i, or -1. */
static int only_reader(const bench_t *b, int i)
{
    if (pdl_model_layer(b->model, i)->consumer_count != 1) return -1;
    for (int j = i + 1; j < b->count; j++)
        for (int k = 0; k < pdl_model_layer(b->model, j)->input_count; k++)
            if (pdl_model_layer(b->model, j)->inputs[k] == i) return j;
    return -1;
}

/* Layers that follow node i are computed with it, as far as the backend can. */
static void fuse(bench_t *b, int i)
{
    node_t *node = &b->nodes[i];
    int     last = i, next = only_reader(b, i);

    if (next >= 0 && pdl_model_layer(b->model, next)->type == PDL_LAYER_ADD &&
        pdl_model_layer(b->model, next)->input_count == 2) {
        const pdl_layer_t *add = pdl_model_layer(b->model, next);
        pdl_fusion_t       with = {.add = true};
        int                other = add->inputs[0] == i ? add->inputs[1] : add->inputs[0];

        if (other < i && b->backend->ops->fuses(b->backend, node->layer, &with)) {
            node->fusion = with;
            node->inputs[node->input_count++] = b->node_of[other];
            b->node_of[next] = i;
            last = next;
            next = only_reader(b, last);
        }
    }
    if (next >= 0) {
        pdl_fusion_t with = {.add = node->fusion.add, .activation = pdl_model_layer(b->model, next)->type};

        if (with.activation >= PDL_LAYER_RELU && with.activation <= PDL_LAYER_SIGMOID &&
            b->backend->ops->fuses(b->backend, node->layer, &with)) {
            node->fusion = with;
            b->node_of[next] = i;
        }
    }
}

static void make_nodes(bench_t *b)
{
    for (int i = 0; i < b->count; i++) b->node_of[i] = -1;
    for (int i = 0; i < b->count; i++) {
        node_t *node = &b->nodes[i];

        if (b->node_of[i] >= 0) continue;
        b->node_of[i] = i;
        node->layer = pdl_model_layer(b->model, i);
        for (int k = 0; k < node->layer->input_count; k++)
            node->inputs[node->input_count++] = b->node_of[node->layer->inputs[k]];
        if (i > 0) fuse(b, i);
    }
}

static pdl_shape_t out_shape(const bench_t *b, int node)
{
    return b->nodes[node].layer->out;
}

static void place_weights(const bench_t *b, node_t *node)
{
    pdl_op_t *op = node->op;

    for (int k = 0; k < op->description.weight_count; k++) {
        int64_t plain = 1;
        float  *values;

        for (int d = 0; d < op->description.weight[k].rank; d++) plain *= op->description.weight[k].dims[d];
        values = take_host((size_t)plain * sizeof(float));
        if (strcmp(op->description.weight[k].name, "weight") == 0 && op->description.weight[k].rank > 1)
            fill(values, plain, 0.05f);
        else
            for (int64_t i = 0; i < plain; i++) values[i] = strstr(op->description.weight[k].name, "bias") ? 0 : 1;
        node->run.weight[k] = take(b, (size_t)op->description.weight[k].elements * sizeof(float));
        node->run.weight_gradient[k] = op->description.weight[k].trainable
                                           ? take(b, (size_t)op->description.weight[k].elements * sizeof(float))
                                           : NULL;
        check(op->backend->ops->weight_import(op, k, values, node->run.weight[k]));
        free(values);
    }
    check(op->backend->ops->refresh(op, NULL, &node->run));
}

static void make_op(bench_t *b, int i)
{
    node_t       *node = &b->nodes[i];
    pdl_shape_t   shapes[PDL_MAX_INPUTS];
    pdl_format_t  given[PDL_MAX_INPUTS];
    pdl_op_spec_t spec = {.layer = node->layer,
                          .inputs = shapes,
                          .given = given,
                          .input_count = node->input_count,
                          .samples = b->samples,
                          .fusion = node->fusion,
                          .training = true,
                          .input_gradient = node->layer->needs_input_gradient,
                          .id = (uint64_t)i,
                          .origin = {.whole = node->layer->in}};

    for (int k = 0; k < node->input_count; k++) {
        node_t *source = &b->nodes[node->inputs[k]];

        shapes[k] = out_shape(b, node->inputs[k]);
        given[k] = source->op != NULL ? source->op->description.out_format : PDL_FORMAT_PLAIN;
    }
    check(b->backend->ops->op_create(b->backend, &spec, &node->op));
    node->run = (pdl_op_run_t){.output = take(b, node->op->description.out_bytes),
                               .saved = take(b, node->op->description.saved_bytes),
                               .packed = take(b, node->op->description.packed_bytes),
                               .training = true,
                               .loss_scale = 1.0 / (double)b->samples};
    for (int k = 0; k < node->input_count; k++) {
        size_t bytes =
            b->backend->ops->tensor_bytes(b->backend, &shapes[k], b->samples, node->op->description.in_format[k]);

        node->run.input[k] = b->nodes[node->inputs[k]].run.output;
        if (given[k] != node->op->description.in_format[k])
            node->run.input[k] = node->converted[k] = take(b, bytes);
        if (!node->layer->needs_input_gradient || b->nodes[node->inputs[k]].op == NULL) continue;
        if (node->op->description.gradient_use[k] != PDL_GRADIENT_PASSED)
            node->run.input_gradient[k] = take(b, bytes);
        if (given[k] != node->op->description.in_format[k])
            node->back[k] = take(b, b->backend->ops->tensor_bytes(b->backend, &shapes[k], b->samples, given[k]));
    }
    if (node->op->description.workspace_bytes > b->workspace_bytes)
        b->workspace_bytes = node->op->description.workspace_bytes;
    for (int e = 0; b->stream != NULL && e < 4; e++)
        check(b->backend->device->ops->event_create(b->backend->device, &node->event[e / 2][e % 2]));
    place_weights(b, node);
}

static void make_source(bench_t *b, node_t *node)
{
    int64_t  count = pdl_shape_elements(&node->layer->out) * b->samples;
    float   *values = take_host((size_t)count * sizeof(float));
    int32_t *tokens = (int32_t *)values;

    node->run.output = take(b, (size_t)count * sizeof(float));
    if (node->layer->vocabulary > 0) {
        for (int64_t i = 0; i < count; i++) tokens[i] = (int32_t)(i * 7919 % node->layer->vocabulary);
        check(b->backend->device->ops->copy(b->backend->device, NULL, node->run.output, tokens,
                                            (size_t)count * sizeof(*tokens)));
    } else {
        fill(values, count, 1);
        check(b->backend->ops->from_float(b->backend, NULL, values, count, node->run.output));
    }
    free(values);
}

static void forward(bench_t *b, node_t *node)
{
    for (int k = 0; k < node->input_count; k++)
        if (node->converted[k] != NULL) {
            pdl_shape_t shape = out_shape(b, node->inputs[k]);
            node_t     *source = &b->nodes[node->inputs[k]];

            check(
                b->backend->ops->convert(b->backend, b->stream, &shape, b->samples,
                                         source->op != NULL ? source->op->description.out_format : PDL_FORMAT_PLAIN,
                                         source->run.output, node->op->description.in_format[k],
                                         node->converted[k]));
        }
    check(b->backend->ops->forward(node->op, b->stream, &node->run));
}

static void backward(bench_t *b, node_t *node)
{
    int keep = node->op->description.sums_gradients ? 2 : 1;

    while (node->gradient_count > keep) {
        int last = --node->gradient_count;

        b->backend->ops->add(b->backend, b->stream, node->gradients[last - 1], node->gradients[last],
                             node->op->description.out_bytes, node->gradients[last - 1]);
    }
    /* The last layer of a model without a loss: any numbers will do. */
    if (node->gradient_count == 0) node->gradients[node->gradient_count++] = node->run.output;
    node->run.output_gradient[0] = node->gradients[0];
    node->run.output_gradient[1] = node->gradient_count > 1 ? node->gradients[1] : NULL;
    check(b->backend->ops->backward(node->op, b->stream, &node->run, PDL_BACKWARD_DATA | PDL_BACKWARD_WEIGHT));
    for (int k = 0; k < node->input_count; k++) {
        node_t *source = &b->nodes[node->inputs[k]];
        void   *gradient = node->run.input_gradient[k];

        if (source->op == NULL || !node->layer->needs_input_gradient) continue;
        if (node->op->description.gradient_use[k] == PDL_GRADIENT_PASSED) gradient = node->gradients[0];
        if (node->back[k] != NULL) {
            pdl_shape_t shape = out_shape(b, node->inputs[k]);

            check(b->backend->ops->convert(b->backend, b->stream, &shape, b->samples,
                                           node->op->description.in_format[k], gradient,
                                           source->op->description.out_format, node->back[k]));
            gradient = node->back[k];
        }
        source->gradients[source->gradient_count++] = gradient;
    }
    node->gradient_count = 0;
}

static void mark(const bench_t *b, pdl_tensor_event_t *event)
{
    if (event != NULL) check(b->backend->device->ops->record(b->backend->device, b->stream, event));
}

/* Of work that was queued: when all of it is done. */
static void read_events(bench_t *b, int repetition)
{
    pdl_tensor_device_t *device = b->backend->device;

    check(device->ops->synchronise(device, b->stream));
    for (int i = 0; i < b->count; i++)
        for (int pass = 0; pass < 2 && b->nodes[i].op != NULL && repetition >= 0; pass++)
            b->nodes[i].seconds[pass][repetition] =
                device->ops->elapsed(device, b->nodes[i].event[pass][0], b->nodes[i].event[pass][1]);
}

static void step(bench_t *b, int repetition)
{
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < b->count; i++) {
            node_t *node = &b->nodes[pass == 0 ? i : b->count - 1 - i];
            double  start = seconds(b);

            if (node->op == NULL) continue;
            node->run.workspace = b->workspace;
            mark(b, node->event[pass][0]);
            if (pass == 0)
                forward(b, node);
            else
                backward(b, node);
            mark(b, node->event[pass][1]);
            if (repetition >= 0) node->seconds[pass][repetition] = seconds(b) - start;
        }
    if (b->stream != NULL) read_events(b, repetition);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(bench_t *b, node_t *node, int pass)
{
    qsort(node->seconds[pass], (size_t)b->repetitions, sizeof(double), compare);
    return node->seconds[pass][b->repetitions / 2];
}

static void print(bench_t *b)
{
    double total[2] = {0};

    printf("%-28s %-16s %9s %8s %8s %9s %8s %8s\n", "layer", "type", "forward", "GFLOP/s", "GB/s", "backward",
           "GFLOP/s", "GB/s");
    for (int i = 0; i < b->count; i++) {
        node_t *node = &b->nodes[i];
        double  s[2], bytes, flop[2];

        if (node->op == NULL) continue;
        bytes = (double)node->op->description.out_bytes;
        for (int k = 0; k < node->input_count; k++) {
            pdl_shape_t shape = out_shape(b, node->inputs[k]);

            bytes += (double)b->backend->ops->tensor_bytes(b->backend, &shape, b->samples, PDL_FORMAT_PLAIN);
        }
        flop[0] = (double)(node->layer->flop_forward * b->samples);
        flop[1] = (double)((node->layer->flop_backward_data * node->layer->needs_input_gradient +
                            node->layer->flop_backward_weight) *
                           b->samples);
        for (int pass = 0; pass < 2; pass++) total[pass] += s[pass] = median(b, node, pass);
        printf("%-28.28s %-16s %9.3f %8.1f %8.1f %9.3f %8.1f %8.1f%s%s\n", node->layer->name,
               pdl_layer_type_name(node->layer->type), s[0] * 1e3, flop[0] / s[0] * 1e-9, bytes / s[0] * 1e-9,
               s[1] * 1e3, flop[1] / s[1] * 1e-9, 2 * bytes / s[1] * 1e-9, node->fusion.add ? " +add" : "",
               node->fusion.activation != PDL_LAYER_INPUT ? " +act" : "");
    }
    printf("%-28s %-16s %9.3f %17s %9.3f   sum %.3f ms, %.1f samples/s\n", "all", "", total[0] * 1e3, "",
           total[1] * 1e3, (total[0] + total[1]) * 1e3, (double)b->samples / (total[0] + total[1]));
}

static void make_backend(bench_t *b, const char *where, pdl_dtype_t precision)
{
    pdl_cpu_options_t  cpu = {.threads = atoi(where), .precision = precision};
    pdl_cuda_options_t cuda = {.precision = precision, .emulated = strcmp(where, "emulated") == 0};

    if (!cuda.emulated && strcmp(where, "cuda") != 0) {
        check(pdl_backend_create_cpu(&cpu, &b->backend));
        return;
    }
    check(pdl_backend_create_cuda(&cuda, &b->backend));
    check(b->backend->device->ops->stream_create(b->backend->device, &b->stream));
}

static void make_ops(bench_t *b)
{
    for (int i = 0; i < b->count; i++) {
        if (b->nodes[i].layer == NULL) continue;
        if (i == 0)
            make_source(b, &b->nodes[i]);
        else
            make_op(b, i);
    }
    b->workspace = take(b, b->workspace_bytes);
    for (int i = 0; i < b->count; i++)
        if (b->nodes[i].op != NULL && pdl_layer_traits(b->nodes[i].layer)->loss) /* class 0; zeros of any type */
            b->nodes[i].run.target =
                take(b, (size_t)(pdl_shape_elements(&b->nodes[i].layer->in) * b->samples) * sizeof(int32_t));
}

int main(int argc, char **argv)
{
    bench_t     b = {.repetitions = argc > 5 ? atoi(argv[5]) : 7};
    pdl_dtype_t precision = argc > 4 && strcmp(argv[4], "bf16") == 0 ? PDL_DTYPE_BF16 : PDL_DTYPE_F32;

    if (argc < 3 || atoi(argv[2]) < 1 || b.repetitions < 1 || b.repetitions > MOST_REPETITIONS) {
        fprintf(stderr, "usage: bench_ops MODEL SAMPLES [THREADS|cuda [fp32|bf16 [REPETITIONS]]]\n");
        return 2;
    }
    b.samples = atoi(argv[2]);
    check(pdl_model_load(argv[1], &b.model));
    make_backend(&b, argc > 3 ? argv[3] : "0", precision);
    b.count = pdl_model_layer_count(b.model);
    b.nodes = calloc((size_t)b.count, sizeof(*b.nodes));
    b.node_of = calloc((size_t)b.count, sizeof(*b.node_of));
    if (b.nodes == NULL || b.node_of == NULL) return 1;
    make_nodes(&b);
    make_ops(&b);
    for (int r = -2; r < b.repetitions; r++) step(&b, r);
    print(&b);
    for (int i = 0; i < b.count; i++) b.backend->ops->op_destroy(b.nodes[i].op);
    pdl_backend_destroy(b.backend);
    pdl_model_destroy(b.model);
    free(b.nodes);
    free(b.node_of);
    return 0;
}
