/*
 * What a device with memory of its own can do at most, by its own events: products, passes over memory, small kernels one after
 * the other; and what is left of it where ranks share it.
 */
#include "base/clock.h"
#include "train/calibrate/calibrate.h"
#include "train/exec/session.h"
#include <math.h>
#include <paradl/base/random.h>
#include <stdlib.h>

#define LEAST_S     1e-3 /* of a kernel that is long enough */
#define MOST_WIDTH  8192
#define MOST_BYTES  ((size_t)1 << 30)
#define REPETITIONS 8
#define KERNELS     500
#define SHARING_S   0.3
#define SHARED_S \
    5e-5 /* of a kernel as networks have them: longer ones are interrupted when another rank has its turn */

enum { INPUT, OUTPUT, SAVED, WORKSPACE, PACKED, WEIGHT, PLACES };

/* width x width by width x width. */
typedef struct product {
    pdl_backend_t       *backend;
    int64_t              width;
    pdl_model_t         *model;
    pdl_op_t            *op;
    pdl_op_run_t         run;
    void                *memory[PLACES];
    size_t               bytes[PLACES];
    pdl_tensor_stream_t *stream;
    pdl_tensor_event_t  *event[2];
} product_t;

static void product_free(product_t *p)
{
    pdl_tensor_device_t *device = p->backend->device;

    for (int i = 0; i < 2; i++) device->ops->event_destroy(device, p->event[i]);
    device->ops->stream_destroy(device, p->stream);
    for (int i = 0; i < PLACES; i++) device->ops->release(device, PDL_SPACE_DEVICE, p->memory[i], p->bytes[i]);
    p->backend->ops->op_destroy(p->op);
    pdl_model_destroy(p->model);
}

static pdl_status_t product_op(product_t *p)
{
    char         text[160];
    pdl_format_t given = PDL_FORMAT_PLAIN;
    int          length =
        snprintf(text, sizeof(text),
                 "paradl: model/1\nname: product\ninput: {channels: %d}\nlayers:\n  - linear: {out: %d, bias: "
                 "false}\n",
                 (int)p->width, (int)p->width);
    pdl_status_t status = pdl_model_read_yaml_memory(text, (size_t)length, "product", &p->model);

    if (status) return status;
    const pdl_layer_t *layer = pdl_model_layer(p->model, 1);
    pdl_op_spec_t      spec = {.layer = layer,
                               .inputs = &layer->in,
                               .given = &given,
                               .input_count = 1,
                               .samples = p->width,
                               .origin = {.whole = layer->out}};
    status = p->backend->ops->op_create(p->backend, &spec, &p->op);
    if (status) return status;
    const pdl_op_description_t *d = &p->op->description;
    p->bytes[INPUT] = p->backend->ops->tensor_bytes(p->backend, &layer->in, p->width, PDL_FORMAT_PLAIN);
    p->bytes[OUTPUT] = d->out_bytes;
    p->bytes[SAVED] = d->saved_bytes;
    p->bytes[WORKSPACE] = d->workspace_bytes;
    p->bytes[PACKED] = d->packed_bytes;
    p->bytes[WEIGHT] = (size_t)d->weight[0].elements * pdl_dtype_bytes(p->backend->weight_type);
    return PDL_OK;
}

/* Numbers that are not all the same: power, and with it speed, depends on them. */
static pdl_status_t product_values(product_t *p)
{
    int64_t      count = p->width * p->width;
    float       *values = malloc((size_t)count * sizeof(*values));
    pdl_status_t status;

    if (values == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a product to be timed");
    pdl_random_fill(1, pdl_random_stream("calibrate", 0, 0), 0, count, values);
    for (int64_t i = 0; i < count; i++) values[i] -= 0.5F;
    status = p->backend->ops->weight_import(p->op, 0, values, p->run.weight[0]);
    if (!status) status = p->backend->ops->from_float(p->backend, p->stream, values, count, p->memory[INPUT]);
    if (!status) status = p->backend->ops->refresh(p->op, p->stream, &p->run);
    if (!status) status = p->backend->device->ops->synchronise(p->backend->device, p->stream);
    free(values);
    return status;
}

static pdl_status_t product_create(pdl_backend_t *backend, int64_t width, product_t *p)
{
    pdl_tensor_device_t *device = backend->device;
    pdl_status_t         status;

    *p = (product_t){.backend = backend, .width = width};
    status = product_op(p);
    for (int i = 0; i < PLACES && !status; i++)
        if (p->bytes[i] > 0) status = device->ops->alloc(device, PDL_SPACE_DEVICE, p->bytes[i], &p->memory[i]);
    if (!status) status = device->ops->stream_create(device, &p->stream);
    for (int i = 0; i < 2 && !status; i++) status = device->ops->event_create(device, &p->event[i]);
    if (!status) {
        p->run = (pdl_op_run_t){.input = {p->memory[INPUT]},
                                .output = p->memory[OUTPUT],
                                .saved = p->memory[SAVED],
                                .workspace = p->memory[WORKSPACE],
                                .packed = p->memory[PACKED],
                                .weight = {p->memory[WEIGHT]}};
        status = product_values(p);
    }
    if (status) product_free(p);
    return status;
}

/* Seconds of one, by events, the first few left out. */
static pdl_status_t product_time(product_t *p, int repetitions, double *seconds)
{
    pdl_tensor_device_t *device = p->backend->device;
    pdl_status_t         status = PDL_OK;

    for (int i = -2; i < repetitions && !status; i++) {
        if (i == 0) status = device->ops->record(device, p->stream, p->event[0]);
        if (!status) status = p->backend->ops->forward(p->op, p->stream, &p->run);
    }
    if (!status) status = device->ops->record(device, p->stream, p->event[1]);
    if (!status) status = device->ops->synchronise(device, p->stream);
    if (!status) *seconds = fmax(1e-9, device->ops->elapsed(device, p->event[0], p->event[1]) / repetitions);
    return status;
}

/* Larger and larger ones, until one takes long enough. That one is kept. */
static pdl_status_t find_product(pdl_backend_t *backend, double least_s, product_t *p, double *seconds)
{
    for (int64_t width = 256;; width *= 2) {
        pdl_status_t status = product_create(backend, width, p);

        if (status) return status;
        status = product_time(p, REPETITIONS, seconds);
        if (!status && (*seconds >= least_s || width >= MOST_WIDTH)) return PDL_OK;
        product_free(p);
        if (status) return status;
    }
}

/* Seconds of a product of those that this rank and others do at the same time; `count` of each. */
static pdl_status_t time_together(pdl__calibrate_t *c, product_t *p, int count, bool taking_part, double *seconds)
{
    pdl_status_t status = pdl_ranks_barrier(c->ranks);
    double       start_s = pdl__seconds(), own_s;

    if (status) return status;
    status =
        pdl_ranks_agree(c->ranks, taking_part ? product_time(p, count, &own_s) : PDL_OK); /* the last is through */
    *seconds = (pdl__seconds() - start_s) / (count + 2);
    return status;
}

/* What ranks on one device reach together, over what one of them reaches alone: both for as long, for a device that is hot is
   slower. */
static pdl_status_t compare_sharing(pdl__calibrate_t *c, product_t *p, double seconds)
{
    double       count = ceil(SHARING_S / seconds), sharers = (double)c->result->ranks / c->result->devices;
    double       alone_s, together_s;
    pdl_status_t status = pdl_ranks_max(c->ranks, &count, 1);

    if (!status) status = time_together(c, p, (int)count, pdl_ranks_rank(c->ranks) == 0, &alone_s);
    if (!status) status = time_together(c, p, (int)count, true, &together_s);
    if (status) return status;
    c->result->sharing = fmin(1, fmax(0.1, sharers * alone_s / together_s));
    pdl__calibrate_say(c, "sharing: %d ranks reach %.0f %% of a device together", c->result->ranks,
                       100 * c->result->sharing);
    return PDL_OK;
}

/* The first rank chooses the product; the others would only disturb it. */
static pdl_status_t measure_sharing(pdl__calibrate_t *c)
{
    pdl_backend_t *backend = c->backend[c->backend[1] != NULL ? 1 : 0];
    bool           first = pdl_ranks_rank(c->ranks) == 0;
    product_t      p = {.backend = backend};
    double         found[2] = {0, 0}; /* width, seconds */
    pdl_status_t   status = first ? find_product(backend, SHARED_S, &p, &found[1]) : PDL_OK;

    found[0] = (double)p.width;
    status = pdl_ranks_agree(c->ranks, status);
    if (!status) status = pdl_ranks_broadcast(c->ranks, found, sizeof(found), 0);
    if (status) return status;
    pdl_status_t made = first ? PDL_OK : product_create(backend, (int64_t)found[0], &p);
    status = pdl_ranks_agree(c->ranks, made);
    if (!status) status = compare_sharing(c, &p, found[1]);
    if (!made) product_free(&p);
    return status;
}

/* The first rank alone; then, where every rank has a device, all at once, and of these the mean. */
static pdl_status_t measure_products(pdl__calibrate_t *c, int precision, double *alone, double *all)
{
    product_t    p;
    double       seconds = 0;
    pdl_status_t status = pdl_ranks_agree(c->ranks, find_product(c->backend[precision], LEAST_S, &p, &seconds));

    if (status) return status;
    double flop = 2.0 * (double)p.width * (double)p.width * (double)p.width;
    if (pdl_ranks_rank(c->ranks) == 0) status = product_time(&p, REPETITIONS, &seconds);
    status = pdl_ranks_agree(c->ranks, status);
    if (!status) status = pdl_ranks_broadcast(c->ranks, &seconds, sizeof(seconds), 0);
    *alone = *all = flop / seconds;
    if (!status && !c->shared) {
        status = pdl_ranks_agree(c->ranks, product_time(&p, REPETITIONS, &seconds));
        *all = flop / seconds / pdl_ranks_size(c->ranks);
        if (!status) status = pdl_ranks_sum(c->ranks, all, 1);
    }
    product_free(&p);
    return status;
}

/* Sums of two vectors. */
typedef struct sums {
    pdl_backend_t       *backend;
    void                *memory; /* three vectors */
    size_t               bytes;  /* of one */
    pdl_tensor_stream_t *stream;
    pdl_tensor_event_t  *event[2];
} sums_t;

static pdl_status_t add(const sums_t *s)
{
    char *a = s->memory;

    return s->backend->ops->add(s->backend, s->stream, a, a + s->bytes, s->bytes, a + 2 * s->bytes);
}

static pdl_status_t time_sums(const sums_t *s, int repetitions, double *seconds)
{
    pdl_tensor_device_t *device = s->backend->device;
    pdl_status_t         status = device->ops->record(device, s->stream, s->event[0]);

    for (int i = 0; i < repetitions && !status; i++) status = add(s);
    if (!status) status = device->ops->record(device, s->stream, s->event[1]);
    if (!status) status = device->ops->synchronise(device, s->stream);
    if (!status) *seconds = fmax(1e-9, device->ops->elapsed(device, s->event[0], s->event[1]) / repetitions);
    return status;
}

/* Vectors as long as it takes. */
static pdl_status_t measure_memory(pdl__calibrate_t *c, sums_t *s)
{
    pdl_tensor_device_t *device = s->backend->device;
    double               seconds = 0;
    pdl_status_t         status = PDL_OK;

    for (s->bytes = (size_t)1 << 20; s->bytes <= MOST_BYTES && seconds < LEAST_S && !status; s->bytes *= 4) {
        status = device->ops->alloc(device, PDL_SPACE_DEVICE, 3 * s->bytes, &s->memory);
        if (status) break;
        for (int i = 0; i < 2 && !status; i++) status = time_sums(s, REPETITIONS, &seconds);
        c->result->bytes_per_s_alone = c->result->bytes_per_s = 3 * (double)s->bytes / fmax(seconds, 1e-9);
        device->ops->release(device, PDL_SPACE_DEVICE, s->memory, 3 * s->bytes);
        s->memory = NULL;
    }
    return status;
}

/* Of kernels that do nothing to speak of: the host's time, and the device's when they are waiting for it. */
static pdl_status_t measure_kernels(pdl__calibrate_t *c, sums_t *s)
{
    pdl_tensor_device_t *device = s->backend->device;
    pdl__stall_t         stall;
    double               start_s = 0;
    pdl_status_t         status;

    s->bytes = 1024;
    status = device->ops->alloc(device, PDL_SPACE_DEVICE, 3 * s->bytes, &s->memory);
    if (status) return status;
    status = pdl__stall_create(device, &stall);
    if (!status) status = time_sums(s, KERNELS, &c->result->kernel_gap_s);
    if (!status) status = pdl__stall(&stall, s->stream, 2 * KERNELS * c->result->kernel_gap_s);
    if (!status) status = device->ops->record(device, s->stream, s->event[0]);
    start_s = pdl__seconds();
    for (int i = 0; i < KERNELS && !status; i++) status = add(s);
    c->result->kernel_queue_s = (pdl__seconds() - start_s) / KERNELS;
    if (!status) status = device->ops->record(device, s->stream, s->event[1]);
    if (!status) status = device->ops->synchronise(device, s->stream);
    if (!status) c->result->kernel_gap_s = device->ops->elapsed(device, s->event[0], s->event[1]) / KERNELS;
    pdl__stall_free(&stall);
    device->ops->release(device, PDL_SPACE_DEVICE, s->memory, 3 * s->bytes);
    s->memory = NULL;
    return status;
}

/* On the first rank: others that share its device would only disturb. */
static pdl_status_t measure_sums(pdl__calibrate_t *c)
{
    sums_t               s = {.backend = c->backend[0]};
    pdl_tensor_device_t *device = s.backend->device;
    pdl_status_t         status = device->ops->stream_create(device, &s.stream);

    for (int i = 0; i < 2 && !status; i++) status = device->ops->event_create(device, &s.event[i]);
    if (!status) status = measure_memory(c, &s);
    if (!status) status = measure_kernels(c, &s);
    for (int i = 0; i < 2; i++) device->ops->event_destroy(device, s.event[i]);
    device->ops->stream_destroy(device, s.stream);
    return status;
}

pdl_status_t pdl__calibrate_device(pdl__calibrate_t *c)
{
    pdl_calibration_t *r = c->result;
    double             half_alone;
    pdl_status_t       status = measure_products(c, 0, &r->flop_per_s_alone, &r->flop_per_s);

    if (!status && c->backend[1]) status = measure_products(c, 1, &half_alone, &r->half_flop_per_s);
    if (!status && c->shared) status = measure_sharing(c);
    if (status) return status;
    pdl__calibrate_say(c, "products: %.1f TFLOP/s in fp32, %.1f in bf16", 1e-12 * r->flop_per_s,
                       1e-12 * r->half_flop_per_s);
    if (pdl_ranks_rank(c->ranks) == 0) status = measure_sums(c);
    double values[4] = {r->bytes_per_s, r->bytes_per_s_alone, r->kernel_queue_s, r->kernel_gap_s};
    status = pdl_ranks_agree(c->ranks, status);
    if (!status) status = pdl_ranks_broadcast(c->ranks, values, sizeof(values), 0);
    if (status) return status;
    r->bytes_per_s = values[0];
    r->bytes_per_s_alone = values[1];
    r->kernel_queue_s = values[2];
    r->kernel_gap_s = values[3];
    r->copy_bytes_per_s = r->bytes_per_s / 2; /* read and written */
    pdl__calibrate_say(c, "memory: %.1f GB/s; small kernels: %.1f us of the host, %.1f us of the device",
                       1e-9 * r->bytes_per_s, 1e6 * r->kernel_queue_s, 1e6 * r->kernel_gap_s);
    return PDL_OK;
}
