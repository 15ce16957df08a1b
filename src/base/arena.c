/*
 * An arena is a list of chunks; objects are cut from the newest one. Chunks double in size up to a limit, so
 * that a small file costs one small allocation and a large one costs few.
 */
#include <paradl/base/arena.h>

#include <paradl/base/status.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Under AddressSanitizer every object gets a chunk of its own, so that an overrun of one object is seen. */
#if defined(__SANITIZE_ADDRESS__)
#define SEPARATE_OBJECTS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SEPARATE_OBJECTS 1
#endif
#endif
#ifndef SEPARATE_OBJECTS
#define SEPARATE_OBJECTS 0
#endif

#define FIRST_CHUNK ((size_t)4 << 10)
#define LAST_CHUNK  ((size_t)1 << 20)
#define ALIGNMENT   alignof(max_align_t)

typedef struct chunk {
    struct chunk *next;
    size_t        size; /* bytes of `data` */
    size_t        used;
    alignas(max_align_t) unsigned char data[];
} chunk_t;

struct pdl_arena {
    chunk_t *chunks; /* newest first */
    size_t   next_size;
};

pdl_arena_t *pdl_arena_create(void)
{
    pdl_arena_t *arena = calloc(1, sizeof(*arena));

    if (arena == NULL) {
        pdl_error(PDL_ERR_NOMEM, "out of memory");
        return NULL;
    }
    arena->next_size = FIRST_CHUNK;
    return arena;
}

void pdl_arena_destroy(pdl_arena_t *arena)
{
    if (arena == NULL) return;
    while (arena->chunks != NULL) {
        chunk_t *next = arena->chunks->next;

        free(arena->chunks);
        arena->chunks = next;
    }
    free(arena);
}

/* Makes a chunk that holds at least `bytes`. A large object gets an exact chunk behind the newest one, so
   that the room left in the newest stays in use. */
static chunk_t *add_chunk(pdl_arena_t *arena, size_t bytes)
{
    int      own = SEPARATE_OBJECTS || bytes > arena->next_size / 2;
    size_t   size = own ? bytes : arena->next_size;
    chunk_t *chunk = calloc(1, sizeof(*chunk) + size);

    if (chunk == NULL) return NULL;
    chunk->size = size;
    if (own && arena->chunks != NULL) {
        chunk->next = arena->chunks->next;
        arena->chunks->next = chunk;
    } else {
        chunk->next = arena->chunks;
        arena->chunks = chunk;
        if (!own && arena->next_size < LAST_CHUNK) arena->next_size *= 2;
    }
    return chunk;
}

void *pdl_arena_alloc(pdl_arena_t *arena, size_t count, size_t size)
{
    chunk_t *chunk = arena->chunks;
    size_t   bytes;
    void    *object;

    if (size != 0 && count > (SIZE_MAX / 2) / size) {
        pdl_error(PDL_ERR_NOMEM, "out of memory: %zu objects of %zu bytes were asked for", count, size);
        return NULL;
    }
    bytes = count * size;
    if (bytes == 0) bytes = 1;
    if (!SEPARATE_OBJECTS) bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (chunk == NULL || chunk->size - chunk->used < bytes) {
        chunk = add_chunk(arena, bytes);
        if (chunk == NULL) {
            pdl_error(PDL_ERR_NOMEM, "out of memory: %zu bytes were asked for", bytes);
            return NULL;
        }
    }
    object = chunk->data + chunk->used;
    chunk->used += bytes;
    return object;
}

char *pdl_arena_strndup(pdl_arena_t *arena, const char *text, size_t length)
{
    char *copy;

    if (length == SIZE_MAX) {
        pdl_error(PDL_ERR_NOMEM, "out of memory: a text of %zu bytes", length);
        return NULL;
    }
    copy = pdl_arena_alloc(arena, length + 1, 1);
    if (copy != NULL && length > 0) memcpy(copy, text, length);
    return copy;
}

char *pdl_arena_strdup(pdl_arena_t *arena, const char *text)
{
    return pdl_arena_strndup(arena, text, strlen(text));
}
