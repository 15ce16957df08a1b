/*
 * Single operations: a layer on one device, called alone by a framework.
 */
#include "validate/device/device.h"
#include <math.h>
#include <paradl/oracle/framework.h>
#include <stdio.h>
#include <string.h>

/* A network of one layer, and how many samples make the shape. Host time of a call that the device waits for, in calls of an
   element-wise operation: products choose an algorithm, attention and convolutions prepare more. */
static const struct operation {
    const char *name, *format;
    int         numbers;
    const char *yaml;
    double      forward, backward;
} operations[] = {
    {"matmul", "%lldx%lldx%lld", 3, "input: {channels: $2}\nlayers:\n  - linear: {out: $1, bias: false}\n", 1.3,
     1.3},
    {"attention_causal", "%lldx%lldx%lldx%lld", 4,
     "input: {tokens: $2, vocabulary: 2}\nlayers:\n  - embedding: {out: 3*$1*$3}\n"
     "  - attention: {heads: $1, causal: true}\n",
     2.5, 1.8},
    {"conv2d", "n%lldc%lldo%llds%lldk%lldt%lld", 6,
     "input: {channels: $1, size: [$3, $3]}\nlayers:\n  - conv: {out: $1, kernel: 1}\n"
     "  - conv: {out: $2, kernel: $4, stride: $5, pad: ($4-1)/2, bias: false}\n",
     2.1, 1.9},
    {"layer_norm", "%lldx%lld", 2,
     "input: {tokens: $0, vocabulary: 2}\nlayers:\n  - embedding: {out: $1}\n  - layer_norm: {}\n", 1.5, 1},
    {"gelu", "%lldx%lld", 2,
     "input: {tokens: $0, vocabulary: 2}\nlayers:\n  - embedding: {out: $1}\n  - gelu: {}\n", 1, 1},
    {"add", "%lldx%lld", 2,
     "input: {tokens: $0, vocabulary: 2}\nlayers:\n  - embedding: {out: $1, name: a}\n  - gelu: {name: b}\n"
     "  - add: {from: [a, b]}\n",
     1, 1},
};

static const double SINGLE = 1.6;

static const struct operation *find_operation(const char *name)
{
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
        if (strcmp(operations[i].name, name) == 0) return &operations[i];
    return NULL;
}

/* The description with $0, $1, ... replaced by the numbers of the shape. */
static void write_model(const struct operation *op, const long long *n, char *yaml, size_t size)
{
    size_t used = (size_t)snprintf(yaml, size, "paradl: model/1\nname: operation\n");

    for (const char *c = op->yaml; *c && used + 24 < size; c++)
        if (*c == '$')
            used += (size_t)snprintf(yaml + used, size - used, "%lld", n[*++c - '0']);
        else
            yaml[used++] = *c;
    yaml[used] = '\0';
}

static pdl_status_t read_shape(const pdl_device_runs_t *runs, const pdl_device_row_t *row,
                               const struct operation *op, long long n[6])
{
    const char *shape = pdl_csv_cell(runs->csv, row->line, pdl_csv_column(runs->csv, "shape"));
    int         found = sscanf(shape, op->format, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5]);

    for (int i = 0; i < found; i++)
        if (n[i] < 1 || n[i] > 1 << 24) found = 0;
    if (found != op->numbers) return pdl_error(PDL_ERR_INPUT, "shape %.60s is not one of %s", shape, op->name);
    return PDL_OK;
}

static pdl_status_t read_precision(const pdl_device_runs_t *runs, const pdl_device_row_t *row,
                                   pdl_precision_t *precision)
{
    const char *text = pdl_csv_cell(runs->csv, row->line, pdl_csv_column(runs->csv, "precision"));

    for (int i = 0; i < PDL_PRECISION_COUNT; i++)
        if (strcmp(pdl_precision_names[i], text) == 0) {
            *precision = (pdl_precision_t)i;
            return PDL_OK;
        }
    return pdl_error(PDL_ERR_INPUT, "precision %.60s is not known", text);
}

pdl_status_t pdl__device_operation(const pdl_device_runs_t *runs, const char *parameters, pdl_device_row_t *row)
{
    const struct operation *op = find_operation(row->group);
    pdl_model_t            *model = NULL;
    pdl_oracle_t           *oracle = NULL;
    pdl_parameters_t        p;
    pdl_precision_t         precision = PDL_FP32;
    long long               n[6] = {0};
    char                    yaml[512];
    double                  seconds[2];

    if (!op) return pdl_error(PDL_ERR_INPUT, "operation %.60s is not known", row->group);
    pdl_status_t status = pdl_framework_choose(runs->operations, parameters, runs->system, &p);
    /* Operations are called with tensors of their precision. */
    p.autocast = false;
    if (!status) status = read_shape(runs, row, op, n);
    if (!status) status = read_precision(runs, row, &precision);
    if (status) return status;
    write_model(op, n, yaml, sizeof(yaml));
    status = pdl_model_read_yaml_memory(yaml, strlen(yaml), row->name, &model);
    if (!status) status = pdl_oracle_create(model, runs->system, &p, &oracle);
    /* Rows of tokens are one sample; the first number is the batch of all others. */
    double samples = strstr(op->yaml, "tokens: $0") ? 1 : (double)n[0];
    if (!status)
        status = pdl_oracle_layer_seconds(oracle, pdl_model_layer_count(model) - 1, samples, precision, seconds);
    if (!status) {
        double host = row->backward ? op->backward * p.dispatch_backward_s : op->forward * p.dispatch_s;
        /* Times of single calls scatter more than their sums. */
        double width = SINGLE * p.interval_width * p.compute_deviation;
        /* Nothing was queued before that could overlap the way to the device. */
        row->projected_s = fmax(host, seconds[row->backward] + runs->system->device.launch_s);
        row->low_s = row->projected_s * exp(-width);
        row->high_s = row->projected_s * exp(width);
    }
    pdl_oracle_destroy(oracle);
    pdl_model_destroy(model);
    return status;
}
