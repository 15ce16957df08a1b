/*
 * Moves that are planned.
 */
#include "program/lower/planned_move.h"
#include <paradl/plan/parts.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 256

/* A move that was found; the next one with the same hash, and the one found before. */
typedef struct known {
    pdl__move_key_t     key;
    pdl__planned_move_t move;
    struct known       *next, *before;
} known_t;

struct pdl__known_moves {
    known_t *bucket[BUCKETS], *latest;
};

pdl_status_t pdl__known_moves_create(pdl__known_moves_t **known)
{
    *known = calloc(1, sizeof(**known));
    return *known != NULL ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory while preparing redistributions");
}

void pdl__known_moves_destroy(pdl__known_moves_t *known)
{
    for (known_t *k = known != NULL ? known->latest : NULL; k != NULL;) {
        known_t *before = k->before;
        free((pdl_region_t *)(uintptr_t)k->move.own);
        free((pdl_region_t *)(uintptr_t)k->move.need);
        free(k);
        k = before;
    }
    free(known);
}

static void start_key(const pdl__layouts_t *l, unsigned axes, pdl_dtype_t type, pdl__move_key_t *key)
{
    memset(key, 0, sizeof(*key));
    memcpy(key->coordinates, l->coordinates, sizeof(key->coordinates));
    key->axes = axes;
    key->type = type;
}

pdl__move_key_t pdl__move_key_sum(const pdl__layouts_t *l, unsigned axes, pdl_dtype_t type, int64_t elements)
{
    pdl__move_key_t key;

    start_key(l, axes, type, &key);
    key.elements = elements;
    return key;
}

pdl__move_key_t pdl__move_key_change(const pdl__layouts_t *l, unsigned axes, pdl_dtype_t type,
                                     const pdl_shape_t *shape, int64_t block, const pdl_layout_t *from,
                                     const pdl_layout_t *to, bool transpose)
{
    const pdl_layout_t *layout[2] = {from, to};
    pdl__move_key_t     key;

    start_key(l, axes, type, &key);
    key.extent[0] = shape->channels;
    for (int d = 0; d < PDL_MAX_SPACE; d++) key.extent[1 + d] = shape->extent[d];
    key.rank = shape->rank;
    key.sequence = shape->sequence;
    key.block = block;
    key.transpose = transpose;
    for (int k = 0; k < 2; k++) {
        memcpy(key.on[k], layout[k]->on, sizeof(key.on[k]));
        key.segments[k] = layout[k]->segments;
        for (int s = 0; s < layout[k]->segments; s++) {
            key.segment[k][s][0] = layout[k]->segment[s].low;
            key.segment[k][s][1] = layout[k]->segment[s].high;
            key.segment[k][s][2] = layout[k]->segment[s].unit;
        }
    }
    return key;
}

static known_t **bucket_of(const pdl__layouts_t *l, const pdl__move_key_t *key)
{
    const unsigned char *byte = (const unsigned char *)key;
    uint64_t             hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i + sizeof(uint64_t) <= sizeof(*key); i += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, byte + i, sizeof(word));
        hash = (hash ^ word) * UINT64_C(1099511628211);
    }
    return &l->moves->bucket[(hash ^ hash >> 32) % BUCKETS];
}

static pdl_status_t no_memory(void)
{
    return pdl_error(PDL_ERR_NOMEM, "out of memory while preparing redistributions");
}

static pdl_status_t copy_move(const pdl__planned_move_t *move, pdl__planned_move_t **out)
{
    *out = malloc(sizeof(**out));
    if (*out == NULL) return no_memory();
    **out = *move;
    return PDL_OK;
}

pdl_status_t pdl__planned_move_find(const pdl__layouts_t *l, const pdl__move_key_t *key, pdl__planned_move_t **out)
{
    *out = NULL;
    for (const known_t *k = *bucket_of(l, key); k != NULL; k = k->next)
        if (memcmp(&k->key, key, sizeof(*key)) == 0) return copy_move(&k->move, out);
    return PDL_OK;
}

static pdl_status_t count_parts(pdl__planned_move_t *move)
{
    pdl_move_parts_t parts;
    double           item = (double)pdl_dtype_bytes(move->type);
    pdl_status_t     status = pdl_move_parts_init(move->own, move->need, move->members, move->place, &parts);

    if (status) return status;
    move->sent[0] = (double)parts.gives.elements * item;
    move->sent[1] = (double)parts.takes.elements * item;
    move->buffers = (size_t)pdl_move_buffer_size(&parts, (int64_t)pdl_dtype_bytes(move->type));
    pdl_move_parts_fini(&parts);
    return PDL_OK;
}

pdl_status_t pdl__planned_move_create(const pdl__layouts_t *l, const pdl__move_key_t *key, unsigned axes,
                                      pdl_dtype_t type, pdl_region_t *own, pdl_region_t *need,
                                      pdl__planned_move_t **out)
{
    known_t *known = calloc(1, sizeof(*known));

    if (known == NULL) {
        free(own);
        free(need);
        return no_memory();
    }
    known->move = (pdl__planned_move_t){.axes = axes,
                                        .members = pdl__layouts_members(l, axes),
                                        .place = pdl__layouts_place(l, axes),
                                        .own = own,
                                        .need = need,
                                        .type = type};
    known->before = l->moves->latest;
    l->moves->latest = known;
    pdl_status_t status = count_parts(&known->move);
    if (status) return status;
    if (key != NULL) {
        known_t **bucket = bucket_of(l, key);
        known->key = *key;
        known->next = *bucket;
        *bucket = known;
    }
    return copy_move(&known->move, out);
}

void pdl__planned_move_destroy(pdl__planned_move_t *move)
{
    free(move);
}
