/*
 * Copies between a device and pinned memory of its host: each way alone, and both at once. And what processors of the host do with what
 * is there: an update of AdamW.
 */
#include "base/clock.h"
#include "train/calibrate/calibrate.h"
#include "train/exec/session.h"
#include <math.h>
#include <stdlib.h>

/* 64 KiB to 256 MiB; a quick calibration leaves out the largest. */
#define FIRST_SIZE ((size_t)64 << 10)
#define SIZES      7
#define QUICK      5
#define ROUND      ((size_t)64 << 20) /* bytes copied of a size, in 4 copies at least and 64 at most */

typedef struct link {
    pdl_tensor_device_t *device;
    size_t               most;
    void                *here[2], *there[2]; /* pinned, of the device; one for each way */
    pdl_tensor_stream_t *stream[2];
    pdl_tensor_event_t  *begin[2], *end[2];
} link_t;

static pdl_status_t prepare(link_t *l)
{
    const pdl_device_ops_t *ops = l->device->ops;
    pdl_status_t            status = PDL_OK;

    for (int i = 0; i < 2 && !status; i++) {
        status = ops->alloc(l->device, PDL_SPACE_PINNED, l->most, &l->here[i]);
        if (!status) status = ops->alloc(l->device, PDL_SPACE_DEVICE, l->most, &l->there[i]);
        if (!status) status = ops->stream_create(l->device, &l->stream[i]);
        if (!status) status = ops->event_create(l->device, &l->begin[i]);
        if (!status) status = ops->event_create(l->device, &l->end[i]);
    }
    return status;
}

static void forget(link_t *l)
{
    const pdl_device_ops_t *ops = l->device->ops;

    for (int i = 0; i < 2; i++) {
        ops->event_destroy(l->device, l->begin[i]);
        ops->event_destroy(l->device, l->end[i]);
        ops->stream_destroy(l->device, l->stream[i]);
        ops->release(l->device, PDL_SPACE_DEVICE, l->there[i], l->most);
        ops->release(l->device, PDL_SPACE_PINNED, l->here[i], l->most);
    }
}

static pdl_status_t copy(const link_t *l, int way, size_t bytes)
{
    bool home = way == PDL_HOST_TO_HOST;

    return l->device->ops->copy(l->device, l->stream[way], home ? l->here[way] : l->there[way],
                                home ? l->there[way] : l->here[way], bytes);
}

/* Ways are bits. The slower of two counts. */
static pdl_status_t time_copies(const link_t *l, unsigned ways, size_t bytes, double *bytes_per_s)
{
    const pdl_device_ops_t *ops = l->device->ops;
    int                     count = (int)fmin(64, fmax(4, (double)ROUND / (double)bytes));
    double                  slowest_s = 1e-9;
    pdl_status_t            status = PDL_OK;

    for (int i = 0; i < 2 && !status; i++)
        if (ways >> i & 1) status = ops->record(l->device, l->stream[i], l->begin[i]);
    for (int k = 0; k < 2 * count && !status; k++)
        if (ways >> (k & 1) & 1) status = copy(l, k & 1, bytes);
    for (int i = 0; i < 2 && !status; i++)
        if (ways >> i & 1) status = ops->record(l->device, l->stream[i], l->end[i]);
    for (int i = 0; i < 2 && !status; i++)
        if (ways >> i & 1) status = ops->synchronise(l->device, l->stream[i]);
    for (int i = 0; i < 2 && !status; i++)
        if (ways >> i & 1) slowest_s = fmax(slowest_s, ops->elapsed(l->device, l->begin[i], l->end[i]));
    *bytes_per_s = (double)bytes * count / slowest_s;
    return status;
}

static pdl_status_t measure(pdl__calibrate_t *c, link_t *l)
{
    static const unsigned ways[PDL_HOST_WAYS] = {1u << PDL_HOST_TO_HOST, 1u << PDL_HOST_TO_DEVICE, 3u};
    pdl_calibration_t    *r = c->result;
    int                   sizes = c->options->quick ? QUICK : SIZES;
    double                rate;
    pdl_status_t status = time_copies(l, 3, FIRST_SIZE, &rate); /* the first copies of a process are slow */

    for (int i = 0; i < sizes && !status; i++) {
        size_t bytes = FIRST_SIZE << 2 * i;

        r->host[i].bytes = (double)bytes;
        for (int w = 0; w < PDL_HOST_WAYS && !status; w++)
            status = time_copies(l, ways[w], bytes, &r->host[i].bytes_per_s[w]);
    }
    if (!status) r->host_count = sizes;
    return status;
}

enum { UPDATE_ARRAYS = 4, UPDATE_ROUNDS = 4 }; /* weights, gradients, two moments; the first round touches them */

static pdl_status_t measure_update(pdl__calibrate_t *c)
{
    int64_t            count = c->options->quick ? 1 << 22 : 1 << 24;
    float             *all = calloc((size_t)count, UPDATE_ARRAYS * sizeof(*all));
    pdl_backend_t     *cpu = NULL;
    pdl_status_t       status = all != NULL ? pdl_backend_create_describing("cpu", 1, PDL_DTYPE_F32, &cpu)
                                            : pdl_error(PDL_ERR_NOMEM, "out of memory for an update on the host");
    pdl_update_range_t range = {.elements = count, .packed = -1};
    pdl_update_t       update = {.kind = PDL_UPDATE_ADAMW,
                                 .lr = 1e-3,
                                 .beta1 = 0.9,
                                 .beta2 = 0.999,
                                 .epsilon = 1e-8,
                                 .correction1 = 0.1,
                                 .correction2 = 0.001,
                                 .weights = all,
                                 .gradients = all + count,
                                 .moment = {all + 2 * count, all + 3 * count}};

    for (int i = 0; i < UPDATE_ROUNDS && !status; i++) {
        double start_s = pdl__seconds();
        status = cpu->ops->update(cpu, NULL, &update, &range, 1);
        double rate =
            (2 * UPDATE_ARRAYS - 1) * sizeof(float) * (double)count / fmax(pdl__seconds() - start_s, 1e-9);
        if (i > 0) c->result->host_update_bytes_per_s = fmax(c->result->host_update_bytes_per_s, rate);
    }
    c->result->host_update_bytes_per_s /= c->result->devices;
    pdl_backend_destroy(cpu);
    free(all);
    return status;
}

pdl_status_t pdl__calibrate_link(pdl__calibrate_t *c)
{
    link_t       l = {.device = c->backend[0]->device,
                      .most = FIRST_SIZE << 2 * ((c->options->quick ? QUICK : SIZES) - 1)};
    pdl_status_t status = PDL_OK;

    if (pdl_ranks_rank(c->ranks) == 0) {
        status = prepare(&l);
        if (!status) status = measure(c, &l);
        forget(&l);
        if (!status) status = measure_update(c);
    }
    status = pdl_ranks_agree(c->ranks, status);
    if (!status) status = pdl_ranks_broadcast(c->ranks, &c->result->host_count, sizeof(int), 0);
    if (!status) status = pdl_ranks_broadcast(c->ranks, c->result->host, sizeof(c->result->host), 0);
    if (!status)
        status = pdl_ranks_broadcast(c->ranks, &c->result->host_update_bytes_per_s,
                                     sizeof(c->result->host_update_bytes_per_s), 0);
    if (status) return status;
    const pdl_host_size_t *last = &c->result->host[c->result->host_count - 1];
    pdl__calibrate_say(c, "host link: %.1f GB/s to the host, %.1f to the device, %.1f each way at once",
                       1e-9 * last->bytes_per_s[PDL_HOST_TO_HOST], 1e-9 * last->bytes_per_s[PDL_HOST_TO_DEVICE],
                       1e-9 * last->bytes_per_s[PDL_HOST_BOTH]);
    return PDL_OK;
}
