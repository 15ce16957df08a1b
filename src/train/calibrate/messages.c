/*
 * Messages between ranks of this node: there and back between two of them, sums of gradients over all, and what ranks that share
 * a device wait for each other besides.
 */
#include "base/clock.h"
#include "base/sorted.h"
#include "train/calibrate/calibrate.h"
#include "train/exec/session.h"
#include <math.h>
#include <paradl/comm/exchange.h>

#define HOST_BYTES   ((int64_t)8 << 20)  /* of the longest message of a host */
#define DEVICE_BYTES ((int64_t)64 << 20) /* of a device, where shorter ones cost nothing but the wait for them */
#define MOST_ROUNDS  200
#define TURN_BYTES   4096 /* of a message that costs nothing to speak of but the wait for it */
#define TURN_WORK_S \
    1e-4 /* of a rank between two messages: less than the slice of a device, which a rank that waits keeps */
#define TURN_ROUNDS  25
#define LEAST_STEP_S 1e-6 /* of a message between ranks that share a device */

static void keep(pdl__calibrate_t *c, bool allreduce, double bytes, double seconds)
{
    pdl_calibration_t *r = c->result;
    double             ranks = pdl_ranks_size(c->ranks);
    double             steps = allreduce ? 2 * (ranks - 1) : 1; /* of a p-th of the bytes */
    double             turns_s = r->slice_s * ranks / r->devices;

    if (r->message_count < PDL_CALIBRATION_MESSAGES)
        r->message[r->message_count++] = (pdl_calibrated_message_t){allreduce, bytes, seconds};
    /* What is waited for turns on a device is no property of the link. */
    pdl__line_add(&c->messages, allreduce ? bytes / ranks : bytes, fmax(LEAST_STEP_S, seconds / steps - turns_s));
}

/* Once there and back, between ranks 0 and 1. */
static pdl_status_t there_and_back(pdl_ranks_request_t *request, char *data, int64_t bytes, int rank)
{
    pdl_status_t status = PDL_OK;

    for (int turn = 0; turn < 2 && !status; turn++) {
        status = turn == rank ? pdl_ranks_send_start(request, data, bytes, 1 - rank, 1)
                              : pdl_ranks_receive_start(request, data, bytes, 1 - rank, 1);
        if (!status) status = pdl_ranks_request_wait(request);
    }
    return status;
}

static pdl_status_t ping_pong(pdl__calibrate_t *c, pdl_ranks_request_t *request, char *data, int64_t bytes)
{
    int          rank = pdl_ranks_rank(c->ranks), rounds = bytes > 65536 ? 20 : MOST_ROUNDS;
    double       seconds = 0, all[MOST_ROUNDS];
    pdl_status_t status = pdl_ranks_barrier(c->ranks);

    if (rank < 2) {
        if (!status) status = there_and_back(request, data, bytes, rank);
        for (int i = 0; i < rounds && !status; i++) {
            double start_s = pdl__seconds();
            status = there_and_back(request, data, bytes, rank);
            all[i] = pdl__seconds() - start_s;
        }
        if (!status) seconds = pdl__median(all, (size_t)rounds) / 2;
    }
    if (!status) status = pdl_ranks_max(c->ranks, &seconds, 1);
    if (!status) keep(c, false, (double)bytes, seconds);
    return status;
}

/* Memory in which sums are made: the host's, or that of a device, with the stream that moves it. */
typedef struct place {
    pdl_tensor_device_t *device;
    pdl_transport_t     *transport; /* NULL: the host's */
    pdl_tensor_stream_t *stream;    /* NULL: the host's */
    void                *data;
} place_t;

static size_t place_bytes(bool queues)
{
    return (size_t)(queues ? DEVICE_BYTES : HOST_BYTES);
}

static pdl_status_t place_take(const pdl__calibrate_t *c, place_t *place)
{
    pdl_tensor_device_t *device = c->queues ? c->backend[0]->device : pdl_device_cpu();
    pdl_status_t status = device->ops->alloc(device, PDL_SPACE_DEVICE, place_bytes(c->queues), &place->data);

    place->device = device;
    if (!status && c->queues) status = device->ops->stream_create(device, &place->stream);
    return status;
}

static void place_give(place_t *place)
{
    pdl_transport_destroy(place->transport);
    place->device->ops->stream_destroy(place->device, place->stream);
    place->device->ops->release(place->device, PDL_SPACE_DEVICE, place->data,
                                place_bytes(place->device->asynchronous));
}

static pdl_status_t sum_once(const place_t *place, pdl_exchange_t *exchange)
{
    pdl_status_t status = pdl_exchange_ready(exchange, 0);

    if (!status) status = pdl_exchange_wait(exchange, 0);
    if (!status && place->stream) status = place->device->ops->synchronise(place->device, place->stream);
    return status;
}

static pdl_status_t allreduce(pdl__calibrate_t *c, const place_t *place, int64_t bytes)
{
    int64_t             bound[2] = {0, bytes / 4};
    pdl_exchange_spec_t spec = {.ranks = c->ranks,
                                .data = place->data,
                                .bound = bound,
                                .buckets = 1,
                                .algorithm = "ring",
                                .transport = place->transport,
                                .stream = place->stream};
    pdl_exchange_t     *exchange = NULL;
    int                 rounds = bytes > 65536 ? 20 : 100;
    double              all[MOST_ROUNDS] = {0}, seconds;
    pdl_status_t        status = pdl_exchange_create(&spec, &exchange);

    for (int i = -2; i < rounds && !status; i++) {
        double start_s = pdl__seconds();
        status = sum_once(place, exchange);
        if (i >= 0) all[i] = pdl__seconds() - start_s;
    }
    seconds = pdl__median(all, (size_t)rounds);
    pdl_exchange_destroy(exchange);
    if (!status) status = pdl_ranks_max(c->ranks, &seconds, 1);
    if (!status) keep(c, true, (double)bytes, seconds);
    return status;
}

/* Work of a rank, and messages behind it. */
typedef struct rounds {
    const place_t  *place;
    pdl_exchange_t *exchange;
    pdl__stall_t    stall;
} rounds_t;

static pdl_status_t queue_round(const rounds_t *r, bool sending)
{
    pdl_status_t status = pdl__stall(&r->stall, r->place->stream, TURN_WORK_S);

    if (!status && sending) status = pdl_exchange_ready(r->exchange, 0);
    return status || !sending ? status : pdl_exchange_wait(r->exchange, 0);
}

static pdl_status_t finish(const rounds_t *r)
{
    return r->place->device->ops->synchronise(r->place->device, r->place->stream);
}

/* Seconds of a round in which ranks work, and send where they are to. Nothing but the last round is waited for; the first few, which open what
   ranks share, are left out. */
static pdl_status_t time_rounds(pdl__calibrate_t *c, const rounds_t *r, bool sending, double *seconds)
{
    int          rounds = c->options->quick ? TURN_ROUNDS / 5 : TURN_ROUNDS;
    double       start_s = 0;
    pdl_status_t status = PDL_OK;

    for (int i = -2; i < rounds && !status; i++) {
        if (i == 0) status = finish(r);
        if (i == 0 && !status) status = pdl_ranks_barrier(c->ranks);
        if (i == 0) start_s = pdl__seconds();
        if (!status) status = queue_round(r, sending);
    }
    if (!status) status = finish(r);
    status = pdl_ranks_agree(c->ranks, status); /* when the last one is through */
    *seconds = (pdl__seconds() - start_s) / rounds;
    return status;
}

/* Rounds in which all ranks have work, without and with a message: what it takes longer is the turns of the ranks that share a device. */
static pdl_status_t time_turns(pdl__calibrate_t *c, const rounds_t *r)
{
    double       sharers = (double)c->result->ranks / c->result->devices, steps = ceil(log2(c->result->ranks));
    double       working_s, sending_s;
    pdl_status_t status = time_rounds(c, r, false, &working_s);

    if (!status) status = time_rounds(c, r, true, &sending_s);
    if (status) return status;
    c->result->slice_s = fmax(0, (sending_s - working_s) / (steps * sharers));
    pdl__calibrate_say(c, "turns: %.2f ms of work, with a message %.2f ms", 1e3 * working_s, 1e3 * sending_s);
    return pdl_ranks_broadcast(c->ranks, &c->result->slice_s, sizeof(c->result->slice_s), 0);
}

static pdl_status_t rounds_create(pdl__calibrate_t *c, rounds_t *r)
{
    int64_t             bound[2] = {0, TURN_BYTES / 4};
    pdl_exchange_spec_t spec = {.ranks = c->ranks,
                                .data = r->place->data,
                                .bound = bound,
                                .buckets = 1,
                                .algorithm = "rdb", /* one message and its answer for two ranks */
                                .transport = r->place->transport,
                                .stream = r->place->stream};

    return pdl_exchange_create(&spec, &r->exchange);
}

/* Ranks find the size of their work one after the other: together they would disturb each other. */
static pdl_status_t measure_turns(pdl__calibrate_t *c, const place_t *place)
{
    pdl_tensor_device_t *device = place->device;
    rounds_t             r = {.place = place, .stall = {.device = device}};
    pdl_status_t         status = pdl_ranks_agree(c->ranks, rounds_create(c, &r));

    for (int rank = 0; rank < c->result->ranks && !status; rank++)
        status = pdl_ranks_agree(c->ranks,
                                 rank == pdl_ranks_rank(c->ranks) ? pdl__stall_create(device, &r.stall) : PDL_OK);
    if (!status) status = time_turns(c, &r);
    pdl_exchange_destroy(r.exchange);
    pdl__stall_free(&r.stall);
    return status;
}

/* Messages go between processes; what a device has to send is part of a sum over ranks. */
static pdl_status_t measure_messages(pdl__calibrate_t *c, const place_t *place)
{
    static const int64_t sizes[] = {64, 4096, 65536, (int64_t)1 << 20, HOST_BYTES, DEVICE_BYTES};
    int                  count = c->queues ? 6 : 5;
    pdl_ranks_request_t *request = NULL;
    pdl_status_t         status = PDL_OK;

    if (!c->queues) status = pdl_ranks_agree(c->ranks, pdl_ranks_request_create(c->ranks, HOST_BYTES, &request));
    for (int i = 0; i < count && !status && !c->queues; i++) status = ping_pong(c, request, place->data, sizes[i]);
    for (int i = 1; i < count && !status; i++) status = allreduce(c, place, sizes[i]);
    pdl_ranks_request_destroy(request);
    return status;
}

pdl_status_t pdl__calibrate_messages(pdl__calibrate_t *c)
{
    place_t      place = {0};
    pdl_status_t status;

    if (pdl_ranks_size(c->ranks) == 1) {
        pdl__calibrate_say(c, "messages: only one rank, nothing to measure");
        return PDL_OK;
    }
    status = pdl_ranks_agree(c->ranks, place_take(c, &place));
    if (!status && c->queues)
        status = pdl_transport_create(c->ranks, place.device, PDL_TRANSPORT_AUTO, &place.transport);
    if (!status && c->queues && c->shared) status = measure_turns(c, &place);
    if (!status) status = measure_messages(c, &place);
    place_give(&place);
    if (status) return status;
    const pdl_calibrated_message_t *m = c->result->message;
    if (!c->queues)
        pdl__calibrate_say(c, "messages: %.1f us for 64 bytes, %.2f GB/s for 8 MiB", 1e6 * m[0].seconds,
                           1e-9 * m[4].bytes / m[4].seconds);
    m += c->result->message_count - 1;
    pdl__calibrate_say(c, "allreduce of %.0f MiB: %.1f ms", m->bytes / 1048576, 1e3 * m->seconds);
    return PDL_OK;
}
