/*
 * Buckets of gradients in flight.
 *
 * Ready buckets form a queue. Each bucket has a lane, of which there are a few; the first of the queue starts when
 * its lane is free. As buckets become ready in the same order everywhere, those of a lane start in the same order
 * everywhere, whatever the pace of the ranks.
 */
#include <paradl/comm/exchange.h>

#include "base/clock.h"
#include "comm/device/reduction.h"
#include "comm/dry.h"
#include "comm/messages.h"
#include "comm/trial.h"
#include "comm/watch/watch.h"

#include <inttypes.h>
#include <paradl/plan/collectives.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define WHOLE (INT64_MAX / 4) /* bytes that no message has */
#define LOOKS 200             /* after which a rank that still waits lets others have its core */
#define LANES PDL_BUCKETS_IN_FLIGHT

typedef enum bucket_state { IDLE, QUEUED, MOVING, ARRIVED } bucket_state_t;

typedef struct bucket {
    bucket_state_t    state;
    float            *data;
    int64_t           count;
    int               lane;
    char             *algorithm; /* NULL: nothing to do */
    pdl__reduction_t *reduction;
    int64_t           sent; /* bytes each time it is exchanged */
} bucket_t;

struct pdl_exchange {
    pdl_ranks_t    *ranks;
    bucket_t       *bucket;
    int             buckets;
    pdl__reducers_t reducers;
    int             moving[LANES]; /* the bucket in each lane, or -1 */
    int            *queue;         /* circular */
    int             queue_first, queue_count;
    bool            overlap;
    size_t          counted_bytes;                     /* that the lanes of dry ranks would hold */
    double          bytes, summed, waited_s, polled_s; /* summed: elements */
};

static pdl_status_t check_spec(const pdl_exchange_spec_t *spec)
{
    if (spec->buckets < 0) return pdl_error(PDL_ERR_INPUT, "%d buckets: expected 0 or more", spec->buckets);
    if (spec->collective > PDL_COLL_ALLGATHER)
        return pdl_error(PDL_ERR_INPUT,
                         "%s cannot be exchanged in buckets: use allreduce, reduce-scatter or allgather",
                         pdl_collective_names[spec->collective]);
    if (spec->density > 0 && spec->collective != PDL_COLL_ALLREDUCE)
        return pdl_error(PDL_ERR_UNSUPPORTED, "sparse sums are made of whole gradients: use --sharding none");
    if (spec->collective != PDL_COLL_ALLREDUCE && spec->part == NULL)
        return pdl_error(PDL_ERR_INPUT, "an exchange of parts does not say whose they are");
    for (int b = 0; b < spec->buckets; b++) {
        if (spec->bound[b] < 0 || spec->bound[b + 1] < spec->bound[b])
            return pdl_error(PDL_ERR_INPUT, "bucket %d is [%" PRId64 ", %" PRId64 "): expected increasing bounds",
                             b, spec->bound[b], spec->bound[b + 1]);
    }
    return PDL_OK;
}

/* The algorithm of a bucket that has elements. Dry ranks and parts have no trials. */
static pdl_status_t name_bucket(const pdl_exchange_spec_t *spec, pdl__trials_t *trials, int b, bucket_t *bucket)
{
    const char  *algorithm = spec->algorithms != NULL ? spec->algorithms[b] : spec->algorithm;
    bool         measured = algorithm != NULL && strcmp(algorithm, "measure") == 0;
    pdl_status_t status = PDL_OK;

    if (measured && trials->reducers != NULL && spec->collective == PDL_COLL_ALLREDUCE)
        status = pdl__trials_run(trials, bucket->count, &algorithm);
    else if (measured || algorithm == NULL)
        algorithm = spec->density > 0 ? "sparse_ring" : "ring";
    if (status) return status;
    bucket->algorithm = malloc(strlen(algorithm) + 1);
    if (bucket->algorithm == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    strcpy(bucket->algorithm, algorithm);
    return PDL_OK;
}

/* Devices add whole messages as fast as parts of them, and libraries want them whole. */
void pdl__cut_messages(const pdl_exchange_spec_t *spec, pdl__reduction_spec_t *wanted)
{
    bool direct = pdl__transport_direct(spec->transport);

    wanted->chunk_bytes = direct && spec->chunk_bytes > 0 ? spec->chunk_bytes : direct ? PDL__CHUNK_BYTES : WHOLE;
    wanted->slot_bytes = direct ? PDL__SLOT_BYTES : WHOLE;
}

pdl_status_t pdl__reducers_create(const pdl__reducers_t *reducers, const pdl__reduction_spec_t *spec,
                                  pdl__reduction_t **reduction)
{
    return reducers->device != NULL ? pdl__device_reduction_create(reducers->device, spec, reduction)
                                    : pdl__reduction_create(reducers->mpi, spec, reduction);
}

static pdl__reduction_spec_t reduction_of(const pdl_exchange_spec_t *spec, int b, const bucket_t *bucket)
{
    pdl__reduction_spec_t wanted =
        (pdl__reduction_spec_t){.lane = bucket->lane,
                                .collective = spec->collective,
                                .algorithm = bucket->algorithm,
                                .density = spec->density,
                                .most_density = spec->most_density,
                                .momentum = spec->momentum,
                                .ranks_per_node = spec->ranks_per_node,
                                .elements = bucket->count,
                                .counts = spec->part ? spec->part + b * pdl_ranks_size(spec->ranks) : NULL};
    pdl__cut_messages(spec, &wanted);
    return wanted;
}

static pdl_status_t make_bucket(const pdl_exchange_spec_t *spec, pdl__trials_t *trials, int b, bucket_t *bucket)
{
    pdl_status_t status;

    if (spec->data != NULL) bucket->data = spec->data + spec->bound[b];
    bucket->count = spec->bound[b + 1] - spec->bound[b];
    bucket->lane = b % LANES;
    if (bucket->count == 0) return PDL_OK;
    status = name_bucket(spec, trials, b, bucket);
    if (status) return status;
    pdl__reduction_spec_t wanted = reduction_of(spec, b, bucket);
    status = pdl__reducers_create(trials->reducers, &wanted, &bucket->reduction);
    if (!status) bucket->sent = bucket->reduction->bytes;
    return status;
}

/* Nothing but the numbers of pdl_exchange_bytes(). Reductions of a lane share the places where messages arrive. */
static pdl_status_t count_buckets(const pdl_exchange_spec_t *spec, pdl_exchange_t *exchange)
{
    int64_t       slots[LANES] = {0}, pack[LANES] = {0};
    pdl__trials_t trials = {.spec = spec};
    pdl_status_t  status = PDL_OK;

    for (int b = 0; !status && b < spec->buckets; b++) {
        bucket_t      *bucket = &exchange->bucket[b];
        pdl__counted_t counted;

        bucket->count = spec->bound[b + 1] - spec->bound[b];
        bucket->lane = b % LANES;
        if (bucket->count == 0) continue;
        status = name_bucket(spec, &trials, b, bucket);
        if (status) break;
        pdl__reduction_spec_t wanted = reduction_of(spec, b, bucket);
        status = pdl__count_reduction(&wanted, pdl_ranks_rank(spec->ranks), pdl_ranks_size(spec->ranks), &counted);
        if (status) break;
        bucket->sent = counted.sent;
        if (pdl__transport_direct(spec->transport)) exchange->counted_bytes += counted.held;
        if (counted.slots_bytes > slots[bucket->lane]) slots[bucket->lane] = counted.slots_bytes;
        if (counted.pack_bytes > pack[bucket->lane]) pack[bucket->lane] = counted.pack_bytes;
    }
    for (int lane = 0; lane < LANES; lane++) exchange->counted_bytes += (size_t)(slots[lane] + pack[lane]);
    return status;
}

static pdl_status_t make_buckets(const pdl_exchange_spec_t *spec, pdl_exchange_t *exchange)
{
    pdl__trials_t trials = {.spec = spec, .reducers = &exchange->reducers};
    pdl_status_t  status = pdl__transport_direct(spec->transport)
                               ? pdl__lanes_create(spec->ranks, LANES, &exchange->reducers.mpi)
                               : pdl__device_lanes_create(spec->transport, spec->stream, spec->ranks, LANES,
                                                          &exchange->reducers.device);

    for (int b = 0; !status && b < spec->buckets; b++)
        status = pdl_ranks_agree(spec->ranks, make_bucket(spec, &trials, b, &exchange->bucket[b]));
    return status;
}

pdl_status_t pdl_exchange_create(const pdl_exchange_spec_t *spec, pdl_exchange_t **result)
{
    pdl_exchange_t *exchange = NULL;
    pdl_status_t    status = check_spec(spec);

    if (!status) {
        exchange = calloc(1, sizeof(*exchange));
        if (exchange != NULL) {
            for (int lane = 0; lane < LANES; lane++) exchange->moving[lane] = -1;
            exchange->bucket = calloc((size_t)spec->buckets + 1, sizeof(*exchange->bucket));
            exchange->queue = calloc((size_t)spec->buckets + 1, sizeof(*exchange->queue));
        }
        if (exchange == NULL || exchange->bucket == NULL || exchange->queue == NULL)
            status = pdl_error(PDL_ERR_NOMEM, "out of memory");
    }
    status = pdl_ranks_agree(spec->ranks, status);
    if (!status) {
        exchange->ranks = spec->ranks;
        exchange->buckets = spec->buckets;
        exchange->overlap = spec->overlap;
        if (pdl_ranks_size(spec->ranks) > 1)
            status = pdl_ranks_dry(spec->ranks) ? count_buckets(spec, exchange) : make_buckets(spec, exchange);
    }
    if (status) {
        pdl_exchange_destroy(exchange);
        return status;
    }
    *result = exchange;
    return PDL_OK;
}

void pdl_exchange_destroy(pdl_exchange_t *exchange)
{
    bool moving = false;

    if (exchange == NULL) return;
    for (int lane = 0; lane < LANES; lane++) moving = moving || exchange->moving[lane] >= 0;
    for (int b = 0; exchange->bucket != NULL && b < exchange->buckets; b++) {
        free(exchange->bucket[b].algorithm);
        /* MPI may still write to a bucket in flight: its memory is left alone. */
        if (!moving) pdl__reduction_destroy(exchange->bucket[b].reduction);
    }
    if (!moving) pdl__lanes_destroy(exchange->reducers.mpi);
    if (!moving) pdl__device_lanes_destroy(exchange->reducers.device);
    free(exchange->bucket);
    free(exchange->queue);
    free(exchange);
}

static pdl_status_t check_bucket(const pdl_exchange_t *exchange, int b)
{
    if (b < 0 || b >= exchange->buckets)
        return pdl_error(PDL_ERR_INPUT, "bucket %d: there are %d", b, exchange->buckets);
    return PDL_OK;
}

pdl_status_t pdl_exchange_place(pdl_exchange_t *exchange, int b, float *data)
{
    pdl_status_t status = check_bucket(exchange, b);

    if (status) return status;
    if (exchange->bucket[b].state != IDLE)
        return pdl_error(PDL_ERR_INPUT, "bucket %d is moved to another place before it was waited for", b);
    exchange->bucket[b].data = data;
    return PDL_OK;
}

pdl_status_t pdl_exchange_ready(pdl_exchange_t *exchange, int b)
{
    pdl_status_t status = check_bucket(exchange, b);
    bucket_t    *bucket;

    if (status) return status;
    bucket = &exchange->bucket[b];
    if (bucket->state != IDLE)
        return pdl_error(PDL_ERR_INPUT, "bucket %d is ready again before it was waited for", b);
    if (bucket->reduction == NULL) {
        bucket->state = ARRIVED;
        return PDL_OK;
    }
    bucket->state = QUEUED;
    exchange->queue[(exchange->queue_first + exchange->queue_count++) % exchange->buckets] = b;
    return exchange->overlap ? pdl_exchange_poll(exchange) : PDL_OK;
}

static pdl_status_t start_ready(pdl_exchange_t *exchange)
{
    pdl_status_t status = PDL_OK;

    while (!status && exchange->queue_count > 0) {
        int       b = exchange->queue[exchange->queue_first];
        bucket_t *bucket = &exchange->bucket[b];

        if (exchange->moving[bucket->lane] >= 0) break;
        exchange->queue_first = (exchange->queue_first + 1) % exchange->buckets;
        exchange->queue_count--;
        exchange->moving[bucket->lane] = b;
        bucket->state = MOVING;
        status = pdl__reduction_start(bucket->reduction, bucket->data);
    }
    return status;
}

static pdl_status_t move(pdl_exchange_t *exchange)
{
    pdl_status_t status = start_ready(exchange);

    for (int lane = 0; !status && lane < LANES; lane++) {
        int  b = exchange->moving[lane];
        bool done = false;

        if (b < 0) continue;
        status = pdl__reduction_test(exchange->bucket[b].reduction, &done);
        if (status || !done) continue;
        exchange->bucket[b].state = ARRIVED;
        exchange->bytes += (double)exchange->bucket[b].reduction->bytes;
        exchange->summed += (double)exchange->bucket[b].count;
        exchange->moving[lane] = -1;
        status = start_ready(exchange);
    }
    return status;
}

static int in_flight(const pdl_exchange_t *exchange)
{
    int count = 0;

    for (int lane = 0; lane < LANES; lane++) count += exchange->moving[lane] >= 0;
    return count;
}

pdl_status_t pdl_exchange_poll(pdl_exchange_t *exchange)
{
    double       begin;
    pdl_status_t status;

    if (!exchange->overlap || exchange->queue_count + in_flight(exchange) == 0) return PDL_OK;
    begin = pdl__seconds();
    status = move(exchange);
    exchange->polled_s += pdl__seconds() - begin;
    return status;
}

pdl_status_t pdl_exchange_wait(pdl_exchange_t *exchange, int b)
{
    pdl_status_t status = check_bucket(exchange, b);
    bucket_t    *bucket;
    double       begin;
    int          looks = 0;

    if (status) return status;
    bucket = &exchange->bucket[b];
    if (bucket->state == IDLE) return pdl_error(PDL_ERR_INPUT, "bucket %d is waited for before it is ready", b);
    if (bucket->state != ARRIVED) {
        begin = pdl__seconds();
        pdl__watch_waits(exchange->ranks->watch, true);
        while (!status && bucket->state != ARRIVED) {
            status = move(exchange);
            if (!status && bucket->state != ARRIVED) status = pdl__watch_check(exchange->ranks->watch);
            if (!status && bucket->state != ARRIVED) status = pdl__progress(exchange->ranks->progress);
            if (++looks > LOOKS) sched_yield();
        }
        pdl__watch_waits(exchange->ranks->watch, false);
        exchange->waited_s += pdl__seconds() - begin;
    }
    if (!status) bucket->state = IDLE;
    return status;
}

const char *pdl_exchange_algorithm(const pdl_exchange_t *exchange, int b)
{
    return exchange->bucket[b].algorithm != NULL ? exchange->bucket[b].algorithm : "none";
}

void pdl_exchange_counters(const pdl_exchange_t *exchange, double *bytes, double *waited_s, double *polled_s)
{
    *bytes = exchange->bytes;
    *waited_s = exchange->waited_s;
    *polled_s = exchange->polled_s;
}

double pdl_exchange_summed(const pdl_exchange_t *exchange)
{
    return exchange->summed;
}

int64_t pdl_exchange_messages(const pdl_exchange_t *exchange)
{
    int64_t messages = 0;

    for (int b = 0; b < exchange->buckets; b++)
        if (exchange->bucket[b].reduction != NULL)
            messages += pdl__reduction_messages(exchange->bucket[b].reduction);
    return messages;
}

void pdl_exchange_bytes(const pdl_exchange_t *exchange, double *sent, size_t *held)
{
    *sent = 0;
    *held = exchange->counted_bytes;
    for (int b = 0; b < exchange->buckets; b++) {
        *sent += (double)exchange->bucket[b].sent;
        if (exchange->bucket[b].reduction != NULL) *held += exchange->bucket[b].reduction->held;
    }
    if (exchange->reducers.mpi != NULL) *held += pdl__lanes_bytes(exchange->reducers.mpi);
    if (exchange->reducers.device != NULL) *held += pdl__device_lanes_bytes(exchange->reducers.device);
}

double pdl_exchange_bucket_bytes(const pdl_exchange_t *exchange, int b)
{
    return (double)exchange->bucket[b].sent;
}

void pdl_exchange_thin(pdl_exchange_t *exchange, double density)
{
    for (int b = 0; b < exchange->buckets; b++) {
        pdl__reduction_t *reduction = exchange->bucket[b].reduction;

        if (reduction != NULL && reduction->ops->thin != NULL) reduction->ops->thin(reduction, density);
    }
}

float *pdl_exchange_residual(const pdl_exchange_t *exchange, int b, int64_t *count)
{
    pdl__reduction_t *reduction = exchange->bucket[b].reduction;

    *count = 0;
    return reduction != NULL && reduction->ops->residual != NULL ? reduction->ops->residual(reduction, count)
                                                                 : NULL;
}
