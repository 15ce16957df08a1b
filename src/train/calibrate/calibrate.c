/*
 * Calibration: measures this machine part after part and fits the few numbers of a system description.
 */
#include "train/calibrate/calibrate.h"
#include "base/clock.h"
#include "train/exec/session.h"
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void pdl__line_add(pdl__line_t *line, double x, double seconds)
{
    if (!(seconds > 0)) return;
    double u = 1 / seconds, v = x / seconds;
    line->u += u;
    line->v += v;
    line->uu += u * u;
    line->uv += u * v;
    line->vv += v * v;
    line->points++;
}

void pdl__line_fit(const pdl__line_t *line, double *a, double *b)
{
    double determinant = line->uu * line->vv - line->uv * line->uv;

    *a = *b = 0;
    if (line->points == 0) return;
    if (determinant > 0) {
        *a = (line->u * line->vv - line->v * line->uv) / determinant;
        *b = (line->v * line->uu - line->u * line->uv) / determinant;
    }
    if (determinant <= 0 || *a < 0) {
        *a = 0;
        *b = line->vv > 0 ? line->v / line->vv : 0;
    }
    if (*b < 0) {
        *a = line->u / line->uu;
        *b = 0;
    }
}

void pdl__calibrate_say(const pdl__calibrate_t *c, const char *format, ...)
{
    va_list arguments;

    if (!c->options->talk || pdl_ranks_rank(c->ranks) != 0) return;
    fprintf(c->options->talk, "%5.1f s  ", pdl__seconds() - c->start_s);
    va_start(arguments, format);
    vfprintf(c->options->talk, format, arguments);
    va_end(arguments);
    fputc('\n', c->options->talk);
    fflush(c->options->talk);
}

/* Names that are wrong are found before anything is measured. */
static pdl_status_t load_models(pdl__calibrate_t *c)
{
    /* A device is not to be judged by small networks alone, and these are what it waits for its host with. */
    static const char *const standard[] = {"lenet", "resnet-tiny", "gpt-char-small", "resnet50", "gpt3-125m"};
    int                      count = c->options->device == NULL ? 3 : c->options->quick ? 1 : 5;
    pdl_status_t             status = PDL_OK;

    for (int i = 0; i < count; i++) c->name[c->model_count++] = standard[i];
    for (int i = 0; i < c->options->model_count; i++) c->name[c->model_count++] = c->options->models[i];
    for (int i = 0; i < c->model_count && !status; i++) status = pdl_model_load(c->name[i], &c->model[i]);
    return status;
}

static double within(double value, double low, double high)
{
    return fmin(fmax(value, low), high);
}

/* Of both precisions, their geometric mean. */
static double matrix_efficiency(const pdl__calibrate_t *c)
{
    double peak[PDL__PRECISIONS] = {c->result->flop_per_s, c->result->half_flop_per_s}, a, b, product = 1;
    int    count = 0;

    for (int p = 0; p < PDL__PRECISIONS; p++) {
        pdl__line_fit(&c->products[p], &a, &b);
        if (!(b > 0) || !(peak[p] > 0)) continue;
        product *= within(1 / (b * peak[p]), 0.01, 1);
        count++;
    }
    return count > 0 ? pow(product, 1.0 / count) : 1;
}

/* Shares of the two ceilings, the least time of a kernel, and the links. */
static void fit(pdl__calibrate_t *c)
{
    pdl_calibration_t *r = c->result;
    double             a, b;

    r->matrix_efficiency = matrix_efficiency(c);
    pdl__line_fit(&c->passes, &a, &b);
    r->memory_efficiency = b > 0 ? within(1 / (b * r->bytes_per_s), 0.01, 1) : 1;
    r->launch_s = within(a, 1e-8, 1e-3);
    if (c->messages.points == 0) return;
    pdl__line_fit(&c->messages, &a, &b);
    r->latency_s = within(a, 1e-8, 1);
    r->link_bytes_per_s = within(b > 0 ? 1 / b : 1e12, 1e3, 1e12);
}

static pdl_status_t create_backends(pdl__calibrate_t *c)
{
    const pdl_calibration_device_t *device = c->options->device;
    pdl_cpu_options_t cpu = {.threads = c->options->threads, .precision = PDL_DTYPE_F32, .bind = true};
    pdl_status_t      status;

    if (device == NULL) return pdl_backend_create("cpu", &cpu, &c->backend[0]);
    status = device->create(device, PDL_DTYPE_F32, &c->backend[0]);
    if (!status) status = device->create(device, PDL_DTYPE_BF16, &c->backend[1]);
    if (status == PDL_ERR_UNSUPPORTED && c->backend[0]) status = PDL_OK; /* fp32 it has */
    c->queues = !status && c->backend[0]->device->asynchronous;
    c->shared = c->result->ranks > c->result->devices;
    return status;
}

static pdl_status_t measure(pdl__calibrate_t *c)
{
    pdl_status_t status = pdl_ranks_agree(c->ranks, load_models(c));

    if (!status) status = pdl_ranks_split(c->ranks, pdl_ranks_rank(c->ranks), 0, &c->alone);
    if (!status) status = pdl_ranks_agree(c->ranks, create_backends(c));
    if (!status) status = pdl__calibrate_machine(c);
    if (!status && c->queues) status = pdl__calibrate_device(c);
    if (!status && c->queues) status = pdl__calibrate_link(c);
    if (!status && !c->queues) status = pdl__calibrate_copy(c);
    if (!status) status = pdl__calibrate_messages(c);
    if (!status) status = pdl__calibrate_layers(c);
    if (!status && c->queues) status = pdl__calibrate_operations(c);
    if (status) return status;
    fit(c);
    if (c->queues && pdl_ranks_rank(c->ranks) == 0) status = pdl__calibrate_rest(c);
    return pdl_ranks_agree(c->ranks, status);
}

static void stamp(pdl_calibration_t *r, const pdl_calibration_device_t *device)
{
    time_t    now = time(NULL);
    struct tm utc;

    if (gmtime_r(&now, &utc)) strftime(r->date, sizeof(r->date), "%Y-%m-%d %H:%M UTC", &utc);
    snprintf(r->backend, sizeof(r->backend), "%s", device ? device->backend : "cpu");
    r->devices = device && device->count < r->ranks ? device->count : r->ranks;
    pdl__calibrate_topology(r, device);
}

pdl_status_t pdl_calibrate(const pdl_calibration_options_t *options, pdl_calibration_t **calibration)
{
    pdl__calibrate_t c = {.options = options, .ranks = options->ranks, .start_s = pdl__seconds()};
    pdl_status_t     status;

    c.result = calloc(1, sizeof(*c.result));
    if (!c.result) return pdl_error(PDL_ERR_NOMEM, "out of memory for a calibration");
    c.result->ranks = pdl_ranks_size(options->ranks);
    c.result->threads = options->threads;
    stamp(c.result, options->device);
    status = measure(&c);
    c.result->elapsed_s = pdl__seconds() - c.start_s;
    for (int p = 0; p < PDL__PRECISIONS; p++) pdl_backend_destroy(c.backend[p]);
    pdl_ranks_destroy(c.alone);
    for (int i = 0; i < c.model_count; i++) pdl_model_destroy(c.model[i]);
    free(c.times_measured);
    if (status) {
        pdl_calibration_destroy(c.result);
        return status;
    }
    *calibration = c.result;
    return PDL_OK;
}

void pdl_calibration_destroy(pdl_calibration_t *calibration)
{
    if (!calibration) return;
    for (int i = 0; i < calibration->operation_count; i++) free((char *)(uintptr_t)calibration->operation[i].key);
    free(calibration->operation);
    free(calibration->row);
    free(calibration);
}
