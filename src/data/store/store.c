/*
 * The samples of one rank. Those that are held are in a table that nobody changes while they are read; those that were
 * added wait beside it until the commit. So reading needs no lock.
 */
#include "data/store/store.h"

#include "data/source/source.h"
#include "data/store/files.h"
#include "data/store/record.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    int64_t  id, bytes;
    uint8_t *record; /* in memory, or */
    int64_t  place;  /* in the file */
} entry_t;

typedef struct list {
    entry_t *entry;
    int64_t  count, room;
} list_t;

/* A buffer of a thread that reads; there are as many as ever read at once. */
typedef struct buffer {
    struct buffer *next;
    uint8_t        record[];
} buffer_t;

struct pdl_store {
    pdl_source_t      *source;  /* borrowed */
    pdl_source_t       reading; /* what the loader reads from */
    int64_t            most_bytes;
    pdl__files_t      *files; /* NULL: in memory */
    list_t             held, added;
    int32_t           *slot_of; /* [samples]: where in `held`; -1: is not */
    int64_t           *free_place;
    int64_t            free_count, free_room, places; /* places that were ever used */
    uint8_t           *record;                        /* one that is being made or fetched */
    int64_t           *many_place, *many_bytes;
    int64_t            many_room;
    pdl__record_room_t room;
    pthread_mutex_t    lock; /* of the buffers */
    buffer_t          *buffers;
};

static pdl_status_t out_of_memory(const pdl_store_t *store)
{
    return pdl_error(PDL_ERR_NOMEM, "out of memory for the samples of %s: keep them in files, or use more ranks",
                     store->source->info.name);
}

/* ---- reading ---- */

static buffer_t *take_buffer(pdl_store_t *store)
{
    buffer_t *buffer;

    pthread_mutex_lock(&store->lock);
    buffer = store->buffers;
    if (buffer != NULL) store->buffers = buffer->next;
    pthread_mutex_unlock(&store->lock);
    return buffer != NULL ? buffer : malloc(sizeof(*buffer) + (size_t)store->most_bytes);
}

static void give_buffer(pdl_store_t *store, buffer_t *buffer)
{
    pthread_mutex_lock(&store->lock);
    buffer->next = store->buffers;
    store->buffers = buffer;
    pthread_mutex_unlock(&store->lock);
}

static const entry_t *find(const pdl_store_t *store, int64_t id)
{
    if (id < 0 || id >= store->source->info.samples || store->slot_of[id] < 0) return NULL;
    return &store->held.entry[store->slot_of[id]];
}

static pdl_status_t refuse_missing(const pdl_store_t *store, int64_t id)
{
    return pdl_error(PDL_ERR_INPUT, "%s: sample %" PRId64 " is not held by this rank", store->source->info.name,
                     id);
}

static pdl_status_t read_held(const pdl_source_t *source, int64_t index, const pdl_sample_t *sample)
{
    pdl_store_t   *store = source->state;
    const entry_t *entry = find(store, index);
    buffer_t      *buffer;
    pdl_status_t   status;

    if (entry == NULL) return refuse_missing(store, index);
    if (store->files == NULL) return pdl__record_read(&source->info, entry->record, sample);
    buffer = take_buffer(store);
    if (buffer == NULL) return out_of_memory(store);
    status = pdl__files_read(store->files, entry->place, buffer->record, entry->bytes);
    if (!status) status = pdl__record_check(&source->info, index, buffer->record, entry->bytes);
    if (!status) status = pdl__record_read(&source->info, buffer->record, sample);
    give_buffer(store, buffer);
    return status;
}

/* The store closes its source itself. */
static void close_held(void *state)
{
    (void)state;
}

static const pdl__reader_t reader_held = {"store", NULL, NULL, read_held, close_held};

/* ---- creation ---- */

static pdl_status_t check_source(const pdl_source_info_t *info)
{
    if (info->tokens && info->target != PDL_TARGET_TOKENS) {
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s: tokens with targets other than tokens cannot be kept in a store",
                         info->name);
    }
    if (info->samples < 1) return pdl_error(PDL_ERR_INPUT, "%s: there are no samples to keep", info->name);
    return PDL_OK;
}

pdl_status_t pdl__store_create(const pdl_store_spec_t *spec, bool ring, pdl_store_t **result)
{
    const pdl_source_info_t *info = &spec->source->info;
    pdl_status_t             status = check_source(info);
    pdl_store_t             *store;

    if (status) return status;
    store = calloc(1, sizeof(*store));
    if (store == NULL) return pdl__out_of_memory(info->name);
    pthread_mutex_init(&store->lock, NULL);
    store->source = spec->source;
    store->reading = (pdl_source_t){.info = *info, .reader = &reader_held, .known = spec->source->known};
    store->reading.info.bytes = false;
    store->reading.state = store;
    store->most_bytes = pdl__record_most(info);
    store->record = malloc((size_t)store->most_bytes);
    store->slot_of = malloc((size_t)info->samples * sizeof(*store->slot_of));
    if (store->record == NULL || store->slot_of == NULL) status = out_of_memory(store);
    for (int64_t i = 0; !status && i < info->samples; i++) store->slot_of[i] = -1;
    if (!status) status = pdl__record_room_make(info, &store->room);
    if (!status && spec->folder != NULL)
        status = pdl__files_open(spec->folder, store->most_bytes, ring, &store->files);
    if (status) {
        pdl_store_destroy(store);
        return status;
    }
    *result = store;
    return PDL_OK;
}

pdl_status_t pdl_store_create(const pdl_store_spec_t *spec, pdl_store_t **store)
{
    return pdl__store_create(spec, true, store);
}

bool pdl__store_ring(const pdl_store_t *store)
{
    return store->files != NULL && pdl__files_ring(store->files);
}

static void free_list(list_t *list)
{
    for (int64_t i = 0; i < list->count; i++) free(list->entry[i].record);
    free(list->entry);
}

void pdl_store_destroy(pdl_store_t *store)
{
    if (store == NULL) return;
    while (store->buffers != NULL) {
        buffer_t *next = store->buffers->next;

        free(store->buffers);
        store->buffers = next;
    }
    pdl__files_close(store->files);
    pdl__record_room_free(&store->room);
    free_list(&store->held);
    free_list(&store->added);
    free(store->free_place);
    free(store->many_place);
    free(store->many_bytes);
    free(store->slot_of);
    free(store->record);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

pdl_source_t *pdl_store_source(pdl_store_t *store)
{
    return &store->reading;
}

int64_t pdl_store_count(const pdl_store_t *store)
{
    return store->held.count + store->added.count;
}

double pdl_store_bytes(const pdl_store_t *store)
{
    double bytes = 0;

    for (int64_t i = 0; i < store->held.count; i++) bytes += (double)store->held.entry[i].bytes;
    for (int64_t i = 0; i < store->added.count; i++) bytes += (double)store->added.entry[i].bytes;
    return bytes;
}

int64_t pdl_store_most_bytes(const pdl_store_t *store)
{
    return store->most_bytes;
}

/* ---- taking and leaving ---- */

static pdl_status_t make_list_room(const pdl_store_t *store, list_t *list, int64_t count)
{
    entry_t *longer;
    int64_t  room = list->room;

    if (count <= room) return PDL_OK;
    if (count > INT32_MAX) {
        return pdl_error(PDL_ERR_LIMIT, "%s: one rank cannot hold %" PRId64 " samples", store->source->info.name,
                         count);
    }
    while (room < count) room = room < 64 ? 64 : 2 * room;
    longer = realloc(list->entry, (size_t)room * sizeof(*longer));
    if (longer == NULL) return out_of_memory(store);
    list->entry = longer;
    list->room = room;
    return PDL_OK;
}

/* There is always room to give back all places that were ever used. */
static pdl_status_t take_place(pdl_store_t *store, int64_t *place)
{
    if (store->free_count > 0) {
        *place = store->free_place[--store->free_count];
        return PDL_OK;
    }
    if (store->places == store->free_room) {
        const int64_t room = store->free_room < 64 ? 64 : 2 * store->free_room;
        int64_t      *longer = realloc(store->free_place, (size_t)room * sizeof(*longer));

        if (longer == NULL) return out_of_memory(store);
        store->free_place = longer;
        store->free_room = room;
    }
    *place = store->places++;
    return PDL_OK;
}

static void forget(pdl_store_t *store, entry_t *entry)
{
    if (store->files != NULL) store->free_place[store->free_count++] = entry->place;
    free(entry->record);
    entry->record = NULL;
}

/* Appends a record to a list. */
static pdl_status_t append(pdl_store_t *store, list_t *list, int64_t id, const uint8_t *record, int64_t bytes)
{
    entry_t      entry = {.id = id, .bytes = bytes};
    pdl_status_t status = make_list_room(store, list, list->count + 1);

    if (status) return status;
    if (store->files == NULL) {
        entry.record = malloc((size_t)bytes);
        if (entry.record == NULL) return out_of_memory(store);
        memcpy(entry.record, record, (size_t)bytes);
    } else {
        status = take_place(store, &entry.place);
        if (status) return status;
        status = pdl__files_write(store->files, entry.place, record, bytes);
        if (status) {
            forget(store, &entry);
            return status;
        }
    }
    list->entry[list->count++] = entry;
    return PDL_OK;
}

static void remove_held(pdl_store_t *store, int64_t id)
{
    const int32_t slot = store->slot_of[id];
    list_t       *held = &store->held;

    forget(store, &held->entry[slot]);
    held->entry[slot] = held->entry[--held->count];
    if (slot < held->count) store->slot_of[held->entry[slot].id] = slot;
    store->slot_of[id] = -1;
}

static pdl_status_t load_new(pdl_store_t *store, const int64_t *ids, int64_t count)
{
    list_t      *held = &store->held;
    pdl_status_t status = PDL_OK;

    for (int64_t i = 0; !status && i < count; i++) {
        int64_t bytes;

        if (store->slot_of[ids[i]] >= 0) continue;
        status = pdl__record_make(store->source, ids[i], &store->room, store->record, &bytes);
        if (!status) status = append(store, held, ids[i], store->record, bytes);
        if (!status) store->slot_of[ids[i]] = (int32_t)(held->count - 1);
    }
    return status;
}

pdl_status_t pdl_store_load(pdl_store_t *store, const int64_t *ids, int64_t count)
{
    const int64_t samples = store->source->info.samples;
    uint8_t      *wanted = calloc((size_t)samples, 1);
    pdl_status_t  status = PDL_OK, flushed;

    if (wanted == NULL) return out_of_memory(store);
    pdl_store_discard(store);
    for (int64_t i = 0; !status && i < count; i++) {
        if (ids[i] < 0 || ids[i] >= samples) {
            status = pdl_error(PDL_ERR_INPUT, "%s: there is no sample %" PRId64 " to keep",
                               store->source->info.name, ids[i]);
        } else {
            wanted[ids[i]] = 1;
        }
    }
    for (int64_t i = store->held.count - 1; !status && i >= 0; i--) {
        if (!wanted[store->held.entry[i].id]) remove_held(store, store->held.entry[i].id);
    }
    free(wanted);
    if (!status) status = load_new(store, ids, count);
    flushed = store->files != NULL ? pdl__files_flush(store->files) : PDL_OK;
    return status ? status : flushed;
}

pdl_status_t pdl_store_get(pdl_store_t *store, int64_t id, void *record, int64_t *bytes)
{
    const entry_t *entry = find(store, id);

    if (entry == NULL) return refuse_missing(store, id);
    *bytes = entry->bytes;
    if (store->files != NULL) return pdl__files_read(store->files, entry->place, record, entry->bytes);
    memcpy(record, entry->record, (size_t)entry->bytes);
    return PDL_OK;
}

int64_t pdl__store_record_bytes(const pdl_store_t *store, int64_t id)
{
    const entry_t *entry = find(store, id);

    return entry != NULL ? entry->bytes : -1;
}

static pdl_status_t make_many_room(pdl_store_t *store, int64_t count)
{
    int64_t *place, *bytes;

    if (count <= store->many_room) return PDL_OK;
    place = realloc(store->many_place, (size_t)count * sizeof(*place));
    if (place != NULL) store->many_place = place;
    bytes = realloc(store->many_bytes, (size_t)count * sizeof(*bytes));
    if (bytes != NULL) store->many_bytes = bytes;
    if (place == NULL || bytes == NULL) return out_of_memory(store);
    store->many_room = count;
    return PDL_OK;
}

pdl_status_t pdl__store_get_many(pdl_store_t *store, const int64_t *ids, int64_t count, uint8_t *records)
{
    pdl_status_t status = store->files != NULL ? make_many_room(store, count) : PDL_OK;

    for (int64_t i = 0; !status && i < count; i++) {
        const entry_t *entry = find(store, ids[i]);

        if (entry == NULL) {
            status = refuse_missing(store, ids[i]);
        } else if (store->files != NULL) {
            store->many_place[i] = entry->place;
            store->many_bytes[i] = entry->bytes;
        } else {
            memcpy(records, entry->record, (size_t)entry->bytes);
            records += entry->bytes;
        }
    }
    if (status || store->files == NULL) return status;
    return pdl__files_read_many(store->files, store->many_place, store->many_bytes, count, records);
}

pdl_status_t pdl_store_add(pdl_store_t *store, int64_t id, const void *record, int64_t bytes)
{
    pdl_status_t status;

    if (id < 0 || id >= store->source->info.samples) {
        return pdl_error(PDL_ERR_INPUT, "%s: there is no sample %" PRId64 " to add", store->source->info.name, id);
    }
    if (store->slot_of[id] >= 0) {
        return pdl_error(PDL_ERR_INPUT, "%s: sample %" PRId64 " arrives although it is held already",
                         store->source->info.name, id);
    }
    status = pdl__record_check(&store->source->info, id, record, bytes);
    return status ? status : append(store, &store->added, id, record, bytes);
}

pdl_status_t pdl_store_commit(pdl_store_t *store, const int64_t *gone, int64_t count)
{
    list_t      *held = &store->held, *added = &store->added;
    pdl_status_t status = make_list_room(store, held, held->count + added->count);

    if (!status && store->files != NULL) status = pdl__files_flush(store->files);
    for (int64_t i = 0; !status && i < count; i++) {
        if (find(store, gone[i]) == NULL) status = refuse_missing(store, gone[i]);
    }
    if (status) return status; /* nothing has changed */
    for (int64_t i = 0; i < count; i++) {
        if (store->slot_of[gone[i]] >= 0) remove_held(store, gone[i]);
    }
    for (int64_t i = 0; i < added->count; i++) {
        if (store->slot_of[added->entry[i].id] >= 0) {
            forget(store, &added->entry[i]); /* the same sample twice: one is enough */
            continue;
        }
        store->slot_of[added->entry[i].id] = (int32_t)held->count;
        held->entry[held->count++] = added->entry[i];
    }
    added->count = 0;
    return PDL_OK;
}

void pdl_store_discard(pdl_store_t *store)
{
    /* A write in flight must not come after the next one to the same place; whether it succeeds is of no interest. */
    if (store->files != NULL && store->added.count > 0) (void)pdl__files_flush(store->files);
    for (int64_t i = 0; i < store->added.count; i++) forget(store, &store->added.entry[i]);
    store->added.count = 0;
}
