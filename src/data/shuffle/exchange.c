/*
 * The exchange of an epoch, slice by slice. What goes to one rank in one slice is a parcel of two messages: a fixed-size
 * list of what is in it, and the records. Both sides know from the seed how many samples a parcel holds, and list them by
 * slot and then by the worker that receives. Between workers of one rank only the owner changes.
 *
 * Slices are posted in order, and at most WINDOW of them are in flight: a rank whose neighbours are late posts later
 * instead of taking memory or waiting.
 */
#include "data/shuffle/shuffle.h"
#include "data/store/store.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW 8

/* A sample that goes to, or comes from, another rank. */
typedef struct transfer {
    int     peer;
    int64_t slot, worker; /* the one that receives */
    int64_t id;           /* leaving only */
} transfer_t;

typedef struct buffer {
    void   *data;
    int64_t room; /* bytes */
} buffer_t;

typedef struct parcel {
    struct parcel       *next; /* of those in flight, in the order of posting, or of those that are free */
    int64_t              slice, count;
    int                  peer;
    bool                 sends, listed; /* receiving: the list has arrived */
    buffer_t             list;          /* int64_t: id and, with a store, bytes of each */
    buffer_t             place;         /* int64_t: receiving: where each belongs */
    buffer_t             records;
    int64_t              record_bytes;
    pdl_ranks_request_t *list_request, *record_request;
    int64_t              list_most, record_most; /* that the requests were made for */
} parcel_t;

struct pdl__exchange {
    pdl_shuffle_t *shuffle;
    int64_t        next;            /* slice to be posted */
    int64_t        parcels[WINDOW]; /* in flight, of slice s in s % WINDOW */
    parcel_t      *moving, *idle;
    transfer_t    *leaving, *coming;
    int64_t        transfer_room;
    int64_t       *ids; /* scratch of one parcel, as many as `leaving` */
    int64_t       *gone;
    int64_t        gone_count;
    double         bytes;
};

pdl_status_t pdl__exchange_create(pdl_shuffle_t *shuffle, pdl__exchange_t **result)
{
    pdl__exchange_t *exchange = calloc(1, sizeof(*exchange));
    const size_t     most = (size_t)(shuffle->count * shuffle->slots);

    if (exchange != NULL) exchange->gone = malloc((most > 0 ? most : 1) * sizeof(*exchange->gone));
    if (exchange == NULL || exchange->gone == NULL) {
        pdl__exchange_destroy(exchange);
        return pdl_error(PDL_ERR_NOMEM, "out of memory for the exchange of samples");
    }
    exchange->shuffle = shuffle;
    *result = exchange;
    return PDL_OK;
}

static void free_parcels(parcel_t *parcel)
{
    while (parcel != NULL) {
        parcel_t *next = parcel->next;

        pdl_ranks_request_destroy(parcel->list_request);
        pdl_ranks_request_destroy(parcel->record_request);
        free(parcel->list.data);
        free(parcel->place.data);
        free(parcel->records.data);
        free(parcel);
        parcel = next;
    }
}

void pdl__exchange_destroy(pdl__exchange_t *exchange)
{
    if (exchange == NULL) return;
    /* What is still moving after a failure belongs to MPI: it is left alone. */
    free_parcels(exchange->idle);
    free(exchange->leaving);
    free(exchange->coming);
    free(exchange->ids);
    free(exchange->gone);
    free(exchange);
}

static int64_t slice_begin(const pdl_shuffle_t *shuffle, int64_t slice)
{
    /* floor(slice k / steps) without the overflow of the product. */
    const int64_t whole = shuffle->slots / shuffle->steps, rest = shuffle->slots % shuffle->steps;

    return slice * whole + slice * rest / shuffle->steps;
}

pdl_status_t pdl__exchange_begin(pdl__exchange_t *exchange)
{
    const pdl_shuffle_t *shuffle = exchange->shuffle;
    const int64_t        slots = shuffle->slots / shuffle->steps + (shuffle->slots % shuffle->steps != 0);
    const int64_t        most = slots * shuffle->count;

    exchange->next = exchange->gone_count = 0;
    exchange->bytes = 0;
    if (most <= exchange->transfer_room) return PDL_OK;
    free(exchange->leaving);
    free(exchange->coming);
    free(exchange->ids);
    exchange->leaving = malloc((size_t)most * sizeof(*exchange->leaving));
    exchange->coming = malloc((size_t)most * sizeof(*exchange->coming));
    exchange->ids = malloc((size_t)most * sizeof(*exchange->ids));
    exchange->transfer_room = most;
    if (exchange->leaving != NULL && exchange->coming != NULL && exchange->ids != NULL) return PDL_OK;
    exchange->transfer_room = 0;
    return pdl_error(PDL_ERR_NOMEM, "out of memory for the exchange of samples");
}

const int64_t *pdl__exchange_gone(const pdl__exchange_t *exchange, int64_t *count)
{
    *count = exchange->gone_count;
    return exchange->gone;
}

double pdl__exchange_bytes(const pdl__exchange_t *exchange)
{
    return exchange->bytes;
}

/* ---- parcels ---- */

static pdl_status_t grow(buffer_t *buffer, int64_t bytes)
{
    void *longer;

    if (bytes <= buffer->room) return PDL_OK;
    longer = realloc(buffer->data, (size_t)bytes);
    if (longer == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for the exchange of samples");
    *buffer = (buffer_t){longer, bytes};
    return PDL_OK;
}

/* A request for messages of that size; one that is too small is made anew. */
static pdl_status_t make_request(pdl__exchange_t *exchange, pdl_ranks_request_t **request, int64_t *most,
                                 int64_t bytes)
{
    if (*request != NULL && bytes <= *most) return PDL_OK;
    pdl_ranks_request_destroy(*request);
    *request = NULL;
    *most = bytes;
    return pdl_ranks_request_create(exchange->shuffle->ranks, bytes, request);
}

static int64_t list_bytes(const pdl__exchange_t *exchange, int64_t count)
{
    return count * (int64_t)sizeof(int64_t) * (exchange->shuffle->spec.store != NULL ? 2 : 1);
}

/* One that is free, or a new one, with room for the list of `count` samples. */
static pdl_status_t take_parcel(pdl__exchange_t *exchange, int64_t count, parcel_t **result)
{
    parcel_t    *parcel = exchange->idle;
    pdl_status_t status;

    if (parcel == NULL) {
        parcel = calloc(1, sizeof(*parcel));
        if (parcel == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for the exchange of samples");
    } else {
        exchange->idle = parcel->next;
    }
    parcel->count = count;
    parcel->listed = false;
    parcel->record_bytes = 0;
    status = grow(&parcel->list, list_bytes(exchange, count));
    if (!status) status = grow(&parcel->place, count * (int64_t)sizeof(int64_t));
    if (!status)
        status = make_request(exchange, &parcel->list_request, &parcel->list_most, list_bytes(exchange, count));
    if (!status) {
        *result = parcel;
        return PDL_OK;
    }
    parcel->next = exchange->idle;
    exchange->idle = parcel;
    return status;
}

/* From here on its buffers belong to a message. */
static void add_moving(pdl__exchange_t *exchange, parcel_t *parcel)
{
    parcel_t **end = &exchange->moving;

    while (*end != NULL) end = &(*end)->next;
    parcel->next = NULL;
    *end = parcel;
    exchange->parcels[parcel->slice % WINDOW]++;
}

static int list_tag(const parcel_t *parcel)
{
    return (int)(parcel->slice % 1024 * 2);
}

/* ---- sending ---- */

static pdl_status_t fill_records(pdl__exchange_t *exchange, parcel_t *parcel)
{
    pdl_store_t *store = exchange->shuffle->spec.store;
    int64_t     *list = parcel->list.data;
    pdl_status_t status;

    for (int64_t i = 0; i < parcel->count; i++) {
        const int64_t bytes = pdl__store_record_bytes(store, exchange->ids[i]);

        if (bytes < 0) {
            return pdl_error(PDL_ERR_INPUT, "sample %lld is to leave, but the store does not hold it",
                             (long long)exchange->ids[i]);
        }
        list[2 * i] = exchange->ids[i];
        list[2 * i + 1] = bytes;
        parcel->record_bytes += bytes;
    }
    status = grow(&parcel->records, parcel->record_bytes);
    if (!status)
        status = make_request(exchange, &parcel->record_request, &parcel->record_most, parcel->record_bytes);
    return status ? status : pdl__store_get_many(store, exchange->ids, parcel->count, parcel->records.data);
}

static pdl_status_t send_parcel(pdl__exchange_t *exchange, int64_t slice, const transfer_t *transfer, int64_t count)
{
    const bool   records = exchange->shuffle->spec.store != NULL;
    parcel_t    *parcel;
    pdl_status_t status = take_parcel(exchange, count, &parcel);

    if (status) return status;
    parcel->slice = slice;
    parcel->peer = transfer->peer;
    parcel->sends = true;
    for (int64_t i = 0; i < count; i++) {
        exchange->ids[i] = exchange->gone[exchange->gone_count++] = transfer[i].id;
        if (!records) ((int64_t *)parcel->list.data)[i] = transfer[i].id;
    }
    if (records) status = fill_records(exchange, parcel);
    if (status) {
        parcel->next = exchange->idle;
        exchange->idle = parcel;
        return status;
    }
    add_moving(exchange, parcel);
    exchange->bytes += (double)(list_bytes(exchange, count) + parcel->record_bytes);
    status = pdl_ranks_send_start(parcel->list_request, parcel->list.data, list_bytes(exchange, count),
                                  parcel->peer, list_tag(parcel));
    if (status || !records) return status;
    return pdl_ranks_send_start(parcel->record_request, parcel->records.data, parcel->record_bytes, parcel->peer,
                                list_tag(parcel) + 1);
}

/* ---- receiving ---- */

static pdl_status_t receive_parcel(pdl__exchange_t *exchange, int64_t slice, const transfer_t *transfer,
                                   int64_t count)
{
    const pdl_shuffle_t *shuffle = exchange->shuffle;
    parcel_t            *parcel;
    pdl_status_t         status = take_parcel(exchange, count, &parcel);

    if (status) return status;
    parcel->slice = slice;
    parcel->peer = transfer->peer;
    parcel->sends = false;
    for (int64_t i = 0; i < count; i++) {
        ((int64_t *)parcel->place.data)[i] =
            (transfer[i].worker - shuffle->first) * shuffle->slots + transfer[i].slot;
    }
    add_moving(exchange, parcel);
    return pdl_ranks_receive_start(parcel->list_request, parcel->list.data, list_bytes(exchange, count),
                                   parcel->peer, list_tag(parcel));
}

/* The list has arrived and says how long the records are. */
static pdl_status_t receive_records(pdl__exchange_t *exchange, parcel_t *parcel)
{
    const int64_t  most = pdl_store_most_bytes(exchange->shuffle->spec.store);
    const int64_t *list = parcel->list.data;
    pdl_status_t   status;

    for (int64_t i = 0; i < parcel->count; i++) {
        const int64_t bytes = list[2 * i + 1];

        if (bytes < 1 || bytes > most) {
            return pdl_error(PDL_ERR_INPUT, "a record of %lld bytes comes from another rank, expected 1 to %lld",
                             (long long)bytes, (long long)most);
        }
        parcel->record_bytes += bytes;
    }
    status = grow(&parcel->records, parcel->record_bytes);
    if (!status)
        status = make_request(exchange, &parcel->record_request, &parcel->record_most, parcel->record_bytes);
    if (status) return status;
    return pdl_ranks_receive_start(parcel->record_request, parcel->records.data, parcel->record_bytes, parcel->peer,
                                   list_tag(parcel) + 1);
}

/* Everything of a parcel is here: the samples are put beside those that are held. */
static pdl_status_t unpack(pdl__exchange_t *exchange, parcel_t *parcel)
{
    pdl_shuffle_t *shuffle = exchange->shuffle;
    const bool     records = shuffle->spec.store != NULL;
    const int64_t *list = parcel->list.data, *place = parcel->place.data;
    const uint8_t *record = parcel->records.data;
    pdl_status_t   status = PDL_OK;

    for (int64_t i = 0; !status && i < parcel->count; i++) {
        const int64_t id = list[records ? 2 * i : i];

        if (id < 0 || id >= shuffle->spec.samples) {
            return pdl_error(PDL_ERR_INPUT, "sample %lld comes from another rank, but there are %lld",
                             (long long)id, (long long)shuffle->spec.samples);
        }
        shuffle->received[place[i]] = id;
        if (!records) continue;
        status = pdl_store_add(shuffle->spec.store, id, record, list[2 * i + 1]);
        record += list[2 * i + 1];
    }
    return status;
}

/* ---- slices ---- */

static int compare_transfers(const void *a, const void *b)
{
    const transfer_t *x = a, *y = b;

    if (x->peer != y->peer) return x->peer < y->peer ? -1 : 1;
    if (x->slot != y->slot) return x->slot < y->slot ? -1 : 1;
    return (x->worker > y->worker) - (x->worker < y->worker);
}

/* Who sends to whom in a slot, for the workers of this rank. */
static void find_slot(const pdl_shuffle_t *shuffle, int64_t slot)
{
    if (shuffle->spec.options.kind == PDL_SHUFFLE_PAIRED) {
        for (int64_t i = 0; i < shuffle->count; i++) {
            shuffle->target[i] = shuffle->origin[i] = shuffle->partner[shuffle->first + i];
        }
    } else {
        pdl__destinations(&shuffle->spec.options, shuffle->spec.workers, shuffle->epoch, slot, shuffle->first,
                          shuffle->count, shuffle->scratch, shuffle->target, shuffle->origin);
    }
}

/* Notes who has received from whom, changes owners within the rank, and lists what goes to and comes from others. */
static void sort_slot(pdl__exchange_t *exchange, int64_t slot, int64_t *leaving, int64_t *coming)
{
    pdl_shuffle_t *shuffle = exchange->shuffle;
    const int      rank = pdl_ranks_rank(shuffle->ranks);

    find_slot(shuffle, slot);
    for (int64_t i = 0; i < shuffle->count; i++) {
        const int64_t self = shuffle->first + i, target = shuffle->target[i], origin = shuffle->origin[i];
        const int64_t id = shuffle->out[i * shuffle->slots + slot];
        const int     to = pdl__partition_rank(shuffle, target), from = pdl__partition_rank(shuffle, origin);

        if (target == self) {
            shuffle->making.skipped++;
        } else {
            shuffle->making.sent++;
        }
        if (to == rank) {
            shuffle->received[(target - shuffle->first) * shuffle->slots + slot] = id;
        } else {
            exchange->leaving[(*leaving)++] = (transfer_t){.peer = to, .slot = slot, .worker = target, .id = id};
        }
        if (from != rank) exchange->coming[(*coming)++] = (transfer_t){.peer = from, .slot = slot, .worker = self};
        if (origin != self) shuffle->met[i * shuffle->words + origin / 64] |= (uint64_t)1 << (origin % 64);
    }
}

typedef pdl_status_t (*post_fn_t)(pdl__exchange_t *exchange, int64_t slice, const transfer_t *transfer,
                                  int64_t count);

/* One parcel for every rank in the list. */
static pdl_status_t post_parcels(pdl__exchange_t *exchange, int64_t slice, transfer_t *transfer, int64_t count,
                                 post_fn_t post)
{
    pdl_status_t status = PDL_OK;

    if (count > 0) qsort(transfer, (size_t)count, sizeof(*transfer), compare_transfers);
    for (int64_t first = 0, end; !status && first < count; first = end) {
        for (end = first + 1; end < count && transfer[end].peer == transfer[first].peer;) end++;
        status = post(exchange, slice, transfer + first, end - first);
    }
    return status;
}

static pdl_status_t post_slice(pdl__exchange_t *exchange, int64_t slice)
{
    const int64_t low = slice_begin(exchange->shuffle, slice), high = slice_begin(exchange->shuffle, slice + 1);
    int64_t       leaving = 0, coming = 0;
    pdl_status_t  status;

    for (int64_t slot = low; slot < high; slot++) sort_slot(exchange, slot, &leaving, &coming);
    status = post_parcels(exchange, slice, exchange->coming, coming, receive_parcel);
    return status ? status : post_parcels(exchange, slice, exchange->leaving, leaving, send_parcel);
}

/* Takes one parcel as far as it goes without waiting; `done`: it has arrived or left. */
static pdl_status_t advance_parcel(pdl__exchange_t *exchange, parcel_t *parcel, bool *done)
{
    const bool   records = exchange->shuffle->spec.store != NULL;
    pdl_status_t status = pdl_ranks_request_test(parcel->list_request, done);

    if (status || !*done) return status;
    if (!parcel->sends && records && !parcel->listed) {
        parcel->listed = true;
        status = receive_records(exchange, parcel);
        if (status) return status;
    }
    if (records) {
        status = pdl_ranks_request_test(parcel->record_request, done);
        if (status || !*done) return status;
    }
    return parcel->sends ? PDL_OK : unpack(exchange, parcel);
}

static pdl_status_t advance_parcels(pdl__exchange_t *exchange)
{
    parcel_t **link = &exchange->moving;

    while (*link != NULL) {
        parcel_t    *parcel = *link;
        bool         done;
        pdl_status_t status = advance_parcel(exchange, parcel, &done);

        if (status) return status;
        if (!done) {
            link = &parcel->next;
            continue;
        }
        *link = parcel->next;
        exchange->parcels[parcel->slice % WINDOW]--;
        parcel->next = exchange->idle;
        exchange->idle = parcel;
    }
    return PDL_OK;
}

pdl_status_t pdl__exchange_advance(pdl__exchange_t *exchange, int64_t slice)
{
    pdl_status_t status = advance_parcels(exchange);

    if (slice > exchange->shuffle->steps) slice = exchange->shuffle->steps;
    while (!status && exchange->next < slice && exchange->parcels[exchange->next % WINDOW] == 0) {
        status = post_slice(exchange, exchange->next++);
    }
    return status;
}

pdl_status_t pdl__exchange_complete(pdl__exchange_t *exchange)
{
    pdl_status_t status = pdl__exchange_advance(exchange, exchange->shuffle->steps);

    while (!status && (exchange->moving != NULL || exchange->next < exchange->shuffle->steps)) {
        parcel_t *oldest = exchange->moving;

        /* The others move on while this one is waited for. */
        if (oldest != NULL) {
            status = pdl_ranks_request_wait(oldest->list_request);
            if (!status && oldest->record_request != NULL) status = pdl_ranks_request_wait(oldest->record_request);
        }
        if (!status) status = pdl__exchange_advance(exchange, exchange->shuffle->steps);
    }
    return status;
}
