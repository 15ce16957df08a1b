/*
 * Reductions in memory of a device.
 */
#include "comm/device/reduction.h"

#include "base/memory.h"
#include "comm/dry.h"
#include "comm/steps.h"

#include <stdlib.h>
#include <string.h>

/* What reductions of a lane share, of which one is in flight at a time. */
typedef struct lane {
    void        *slots, *pack;
    size_t       slots_bytes, pack_bytes;
    pdl_wire_t **send, **receive;
    int          sends, receives;
    int64_t      wire_bytes;
} lane_t;

struct pdl__device_lanes {
    pdl_transport_t     *transport;
    pdl_tensor_stream_t *stream;
    pdl_ranks_t         *ranks;
    pdl_ranks_t         *apart; /* whose messages meet no others; or the ranks themselves */
    pdl__lanes_t        *mpi;   /* for collectives of its library */
    lane_t              *lane;
    int                  count;
};

/* By a schedule. */
typedef struct scheduled {
    pdl__reduction_t     base; /* first */
    pdl__steps_t         steps;
    pdl__device_lanes_t *lanes;
    lane_t              *lane;
    int                  tag; /* of the lane */
} scheduled_t;

/* By what is summed in memory of the host, over MPI: its library, or sparse sums. */
typedef struct staged {
    pdl__reduction_t     base; /* first */
    pdl__device_lanes_t *lanes;
    pdl__reduction_t    *inner;
    float               *memory;
    float               *data;
    size_t               bytes;
    pdl_tensor_event_t  *copied;
    enum { STILL, LEAVING, MOVING } place;
} staged_t;

/* By the library of the transport. */
typedef struct native {
    pdl__reduction_t         base; /* first */
    pdl__device_lanes_t     *lanes;
    pdl_library_collective_t collective;
    int64_t                  elements;
} native_t;

pdl_status_t pdl__device_lanes_create(pdl_transport_t *transport, pdl_tensor_stream_t *stream, pdl_ranks_t *ranks,
                                      int count, pdl__device_lanes_t **result)
{
    pdl__device_lanes_t *lanes = calloc(1, sizeof(*lanes));
    pdl_status_t         status = PDL_OK;

    if (lanes != NULL) lanes->lane = calloc((size_t)count, sizeof(*lanes->lane));
    if (lanes == NULL || lanes->lane == NULL) status = pdl__no_memory("for an exchange");
    status = pdl_ranks_agree(ranks, status);
    if (!status) {
        *lanes = (pdl__device_lanes_t){transport, stream, ranks, ranks, NULL, lanes->lane, count};
        /* Communicators of the library belong to groups that have joined. */
        if (transport->carrier != &pdl__carrier_nccl)
            status = pdl_ranks_split(ranks, 0, ranks->rank, &lanes->apart);
        if (!status) status = pdl__lanes_create(ranks, count, &lanes->mpi);
    }
    if (status) {
        pdl__device_lanes_destroy(lanes);
        return status;
    }
    *result = lanes;
    return PDL_OK;
}

static void free_wires(lane_t *lane)
{
    for (int i = 0; i < lane->sends; i++) pdl_wire_destroy(lane->send[i]);
    for (int i = 0; i < lane->receives; i++) pdl_wire_destroy(lane->receive[i]);
    free(lane->send);
    free(lane->receive);
    lane->send = lane->receive = NULL;
    lane->sends = lane->receives = 0;
}

void pdl__device_lanes_destroy(pdl__device_lanes_t *lanes)
{
    if (lanes == NULL) return;
    for (int i = 0; i < lanes->count; i++) {
        lane_t *lane = &lanes->lane[i];

        free_wires(lane);
        pdl_transport_give(lanes->transport, lane->slots, lane->slots_bytes);
        pdl_transport_give(lanes->transport, lane->pack, lane->pack_bytes);
    }
    pdl__lanes_destroy(lanes->mpi);
    if (lanes->apart != lanes->ranks) pdl_ranks_destroy(lanes->apart);
    free(lanes->lane);
    free(lanes);
}

size_t pdl__device_lanes_bytes(const pdl__device_lanes_t *lanes)
{
    size_t bytes = 0;

    for (int i = 0; i < lanes->count; i++) bytes += lanes->lane[i].slots_bytes + lanes->lane[i].pack_bytes;
    return bytes;
}

static scheduled_t *of_steps(pdl__steps_t *steps)
{
    return (scheduled_t *)(void *)((char *)steps - offsetof(scheduled_t, steps));
}

/* One tag for every step and lane; those of a step that is long past may come again. */
static int tag_of(const scheduled_t *r)
{
    return (int)((int64_t)r->steps.step * r->lanes->count + r->tag) %
           (PDL_RANKS_TAGS / r->lanes->count * r->lanes->count);
}

static pdl_status_t send(pdl__steps_t *steps, int i, const char *from, int64_t count, int peer)
{
    scheduled_t *r = of_steps(steps);

    return pdl_wire_send(r->lane->send[i], r->lanes->stream, from, count * steps->extent, peer, tag_of(r));
}

static pdl_status_t receive(pdl__steps_t *steps, int i, char *to, int64_t count, int peer)
{
    scheduled_t *r = of_steps(steps);

    return pdl_wire_receive(r->lane->receive[i], r->lanes->stream, to, count * steps->extent, peer, tag_of(r));
}

static pdl_status_t complete(pdl__steps_t *steps, bool send, int i, bool block, bool *done)
{
    lane_t     *lane = of_steps(steps)->lane;
    pdl_wire_t *wire = send ? lane->send[i] : lane->receive[i];

    *done = true;
    return block ? pdl_wire_wait(wire) : pdl_wire_test(wire, done);
}

static pdl_status_t add(pdl__steps_t *steps, const char *from, char *to, int64_t count)
{
    pdl__device_lanes_t *lanes = of_steps(steps)->lanes;
    pdl_tensor_device_t *device = lanes->transport->device;

    return device->ops->reduce(device, lanes->stream, PDL_DTYPE_F32, from, to, count);
}

static pdl_status_t copy(pdl__steps_t *steps, const char *from, char *to, int64_t count)
{
    pdl__device_lanes_t *lanes = of_steps(steps)->lanes;
    pdl_tensor_device_t *device = lanes->transport->device;

    return device->ops->copy(device, lanes->stream, to, from, (size_t)(count * steps->extent));
}

static pdl_status_t group(pdl__steps_t *steps, bool begin)
{
    pdl_transport_t *transport = of_steps(steps)->lanes->transport;

    return begin ? pdl_transport_begin(transport) : pdl_transport_end(transport);
}

static pdl_status_t enlarge(pdl_transport_t *transport, int64_t wanted, void **memory, size_t *bytes)
{
    pdl_status_t status;

    if (wanted <= (int64_t)*bytes) return PDL_OK;
    pdl_transport_give(transport, *memory, *bytes);
    *memory = NULL;
    status = pdl_transport_take(transport, (size_t)wanted, memory);
    *bytes = status ? 0 : (size_t)wanted;
    return status;
}

static int64_t longest(const pdl__message_list_t *list)
{
    int64_t most = 0;

    for (int i = 0; i < list->count; i++)
        if (list->message[i].count > most) most = list->message[i].count;
    return most;
}

static pdl_status_t make_wires(pdl__device_lanes_t *lanes, lane_t *lane, int sends, int receives)
{
    pdl_status_t status = PDL_OK;

    lane->send = calloc((size_t)sends + 1, sizeof(*lane->send));
    lane->receive = calloc((size_t)receives + 1, sizeof(*lane->receive));
    if (lane->send == NULL || lane->receive == NULL) return pdl__no_memory("for an exchange");
    for (; !status && lane->sends < sends; lane->sends += !status)
        status = pdl_wire_create(lanes->transport, lanes->apart, PDL_SENT_EXCHANGE, lane->wire_bytes,
                                 &lane->send[lane->sends]);
    for (; !status && lane->receives < receives; lane->receives += !status)
        status = pdl_wire_create(lanes->transport, lanes->apart, PDL_SENT_EXCHANGE, lane->wire_bytes,
                                 &lane->receive[lane->receives]);
    return status;
}

/* The lane has room for the largest of its reductions. */
static pdl_status_t fit_lane(pdl__device_lanes_t *lanes, lane_t *lane, const pdl__messages_t *messages,
                             int64_t extent)
{
    int64_t      sent = longest(&messages->sends), received = longest(&messages->receives);
    int64_t      wire = (sent > received ? sent : received) * extent;
    int          sends = lane->sends, receives = lane->receives;
    pdl_status_t status =
        enlarge(lanes->transport, messages->slot_elements * extent, &lane->slots, &lane->slots_bytes);

    if (!status)
        status = enlarge(lanes->transport, messages->pack_elements * extent, &lane->pack, &lane->pack_bytes);
    if (status) return status;
    if (wire <= lane->wire_bytes && messages->most_sends <= sends && messages->most_window <= receives)
        return PDL_OK;
    free_wires(lane);
    if (wire > lane->wire_bytes) lane->wire_bytes = wire;
    return make_wires(lanes, lane, messages->most_sends > sends ? messages->most_sends : sends,
                      messages->most_window > receives ? messages->most_window : receives);
}

static pdl_status_t scheduled_start(pdl__reduction_t *base, float *data)
{
    scheduled_t *r = (scheduled_t *)base;

    r->steps.area[PDL__AREA_DATA] = (char *)data;
    r->steps.slots = r->lane->slots;
    r->steps.pack = r->lane->pack;
    pdl__steps_start(&r->steps);
    return PDL_OK;
}

static pdl_status_t scheduled_test(pdl__reduction_t *base, bool *done)
{
    return pdl__steps_advance(&((scheduled_t *)base)->steps, false, done);
}

static int64_t scheduled_messages(const pdl__reduction_t *base)
{
    return ((const scheduled_t *)base)->steps.sends;
}

static void scheduled_destroy(pdl__reduction_t *base)
{
    pdl__steps_fini(&((scheduled_t *)base)->steps);
    free(base);
}

static pdl_status_t make_steps(scheduled_t *r, const pdl__reduction_spec_t *spec)
{
    pdl_schedule_spec_t wanted = {.collective = spec->collective,
                                  .algorithm = spec->algorithm,
                                  .ranks = r->lanes->ranks->size,
                                  .hosts_per_switch = spec->ranks_per_node};
    pdl_schedule_t     *schedule;
    pdl_status_t status = pdl_schedule_create_sized(&wanted, (double)spec->elements * sizeof(float), &schedule);

    if (status) return status;
    status = pdl__steps_init(&r->steps, schedule, r->lanes->ranks->rank, spec->elements, spec->counts,
                             spec->chunk_bytes, spec->slot_bytes);
    pdl_schedule_destroy(schedule);
    return status ? status : fit_lane(r->lanes, r->lane, &r->steps.messages, r->steps.extent);
}

static pdl_status_t create_scheduled(pdl__device_lanes_t *lanes, const pdl__reduction_spec_t *spec,
                                     pdl__reduction_t **reduction)
{
    static const pdl__steps_ops_t steps = {
        .send = send, .receive = receive, .complete = complete, .add = add, .copy = copy, .group = group};
    static const pdl__reduction_ops_t ops = {.start = scheduled_start,
                                             .test = scheduled_test,
                                             .messages = scheduled_messages,
                                             .destroy = scheduled_destroy};
    scheduled_t                      *r = calloc(1, sizeof(*r));
    pdl_status_t                      status;

    if (r == NULL) return pdl__no_memory("for an exchange");
    *r = (scheduled_t){.base = {.ops = &ops},
                       .steps = {.ops = &steps, .extent = sizeof(float)},
                       .lanes = lanes,
                       .lane = &lanes->lane[spec->lane],
                       .tag = spec->lane};
    status = make_steps(r, spec);
    if (status) {
        scheduled_destroy(&r->base);
        return status;
    }
    r->base.bytes = pdl__steps_sent(&r->steps);
    *reduction = &r->base;
    return PDL_OK;
}

static pdl_status_t staged_start(pdl__reduction_t *base, float *data)
{
    staged_t            *r = (staged_t *)base;
    pdl_tensor_device_t *device = r->lanes->transport->device;
    pdl_status_t         status = device->ops->copy(device, r->lanes->stream, r->memory, data, r->bytes);

    r->data = data;
    r->place = LEAVING;
    return status ? status : device->ops->record(device, r->lanes->stream, r->copied);
}

static pdl_status_t staged_test(pdl__reduction_t *base, bool *done)
{
    staged_t            *r = (staged_t *)base;
    pdl_tensor_device_t *device = r->lanes->transport->device;
    pdl_status_t         status = PDL_OK;

    *done = false;
    if (r->place == LEAVING) {
        status = device->ops->query(device, r->copied, done);
        if (status || !*done) return status;
        r->place = MOVING;
        status = pdl__reduction_start(r->inner, r->memory);
    }
    if (!status) status = pdl__reduction_test(r->inner, done);
    if (status || !*done) return status;
    r->place = STILL;
    base->bytes = r->inner->bytes;
    return device->ops->copy(device, r->lanes->stream, r->data, r->memory, r->bytes);
}

static int64_t staged_messages(const pdl__reduction_t *base)
{
    return pdl__reduction_messages(((const staged_t *)base)->inner);
}

static float *staged_residual(pdl__reduction_t *base, int64_t *count)
{
    pdl__reduction_t *inner = ((staged_t *)base)->inner;

    return inner->ops->residual != NULL ? inner->ops->residual(inner, count) : NULL;
}

static void staged_thin(pdl__reduction_t *base, double density)
{
    pdl__reduction_t *inner = ((staged_t *)base)->inner;

    if (inner->ops->thin != NULL) inner->ops->thin(inner, density);
}

static void staged_destroy(pdl__reduction_t *base)
{
    staged_t            *r = (staged_t *)base;
    pdl_tensor_device_t *device = r->lanes->transport->device;

    pdl__reduction_destroy(r->inner);
    if (r->copied != NULL) device->ops->event_destroy(device, r->copied);
    device->ops->release(device, PDL_SPACE_PINNED, r->memory, r->bytes);
    free(r);
}

static pdl_status_t create_staged(pdl__device_lanes_t *lanes, const pdl__reduction_spec_t *spec,
                                  pdl__reduction_t **reduction)
{
    static const pdl__reduction_ops_t ops = {.start = staged_start,
                                             .test = staged_test,
                                             .messages = staged_messages,
                                             .residual = staged_residual,
                                             .thin = staged_thin,
                                             .destroy = staged_destroy};
    pdl_tensor_device_t              *device = lanes->transport->device;
    staged_t                         *r = calloc(1, sizeof(*r));
    void                             *memory = NULL;
    pdl_status_t                      status;

    if (r == NULL) return pdl__no_memory("for an exchange");
    *r = (staged_t){.base = {.ops = &ops}, .lanes = lanes, .bytes = (size_t)spec->elements * sizeof(float)};
    status = pdl__reduction_create(lanes->mpi, spec, &r->inner);
    if (!status) status = device->ops->alloc(device, PDL_SPACE_PINNED, r->bytes, &memory);
    r->memory = memory;
    if (!status) status = device->ops->event_create(device, &r->copied);
    if (status) {
        staged_destroy(&r->base);
        return status;
    }
    r->base.bytes = r->inner->bytes;
    *reduction = &r->base;
    return PDL_OK;
}

static pdl_status_t native_start(pdl__reduction_t *base, float *data)
{
    native_t *r = (native_t *)base;

    r->lanes->ranks->counted[PDL_SENT_EXCHANGE] += (double)base->bytes;
    return pdl__nccl_collective(r->lanes->transport, r->lanes->ranks, r->lanes->stream, r->collective, data,
                                r->elements);
}

static pdl_status_t native_test(pdl__reduction_t *base, bool *done)
{
    (void)base;
    *done = true;
    return PDL_OK;
}

static void native_destroy(pdl__reduction_t *base)
{
    free(base);
}

static pdl_status_t create_native(pdl__device_lanes_t *lanes, const pdl__reduction_spec_t *spec,
                                  pdl__reduction_t **reduction)
{
    static const pdl__reduction_ops_t ops = {.start = native_start, .test = native_test, .destroy = native_destroy};
    static const pdl_library_collective_t collectives[] = {[PDL_COLL_ALLREDUCE] = PDL_LIBRARY_SUM,
                                                           [PDL_COLL_REDUCE_SCATTER] = PDL_LIBRARY_SCATTER,
                                                           [PDL_COLL_ALLGATHER] = PDL_LIBRARY_GATHER};
    native_t                             *r = calloc(1, sizeof(*r));

    if (r == NULL) return pdl__no_memory("for an exchange");
    *r = (native_t){.base = {.ops = &ops, .bytes = pdl__library_bytes(spec, lanes->ranks->size)},
                    .lanes = lanes,
                    .collective = collectives[spec->collective],
                    .elements = spec->elements};
    *reduction = &r->base;
    return PDL_OK;
}

/* Libraries know parts of one size only. */
static bool has_equal_parts(const pdl__reduction_spec_t *spec, int ranks)
{
    for (int r = 0; spec->counts != NULL && r < ranks; r++)
        if (spec->counts[r] * ranks != spec->elements) return false;
    return true;
}

pdl_status_t pdl__device_reduction_create(pdl__device_lanes_t *lanes, const pdl__reduction_spec_t *spec,
                                          pdl__reduction_t **reduction)
{
    pdl__reduction_spec_t ring = *spec;

    if (spec->density > 0) return create_staged(lanes, spec, reduction);
    if (strcmp(spec->algorithm, "library") != 0) return create_scheduled(lanes, spec, reduction);
    if (lanes->transport->carrier != &pdl__carrier_nccl) return create_staged(lanes, spec, reduction);
    if (has_equal_parts(spec, lanes->ranks->size)) return create_native(lanes, spec, reduction);
    ring.algorithm = "ring";
    return create_scheduled(lanes, &ring, reduction);
}
