/*
 * An arena hands out memory that lives and dies together: everything read from one file, every layer of one
 * model. Nothing in it is freed alone.
 */
#ifndef PARADL_ARENA_H
#define PARADL_ARENA_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_arena pdl_arena_t;

/* NULL when memory is out. */
pdl_arena_t *pdl_arena_create(void);
void         pdl_arena_destroy(pdl_arena_t *arena); /* NULL is allowed */

/* `count` zeroed objects of `size` bytes, aligned for any type; NULL when memory is out or the product
   overflows (pdl_error has been called). */
void *pdl_arena_alloc(pdl_arena_t *arena, size_t count, size_t size);
char *pdl_arena_strdup(pdl_arena_t *arena, const char *text);
char *pdl_arena_strndup(pdl_arena_t *arena, const char *text, size_t length);

#ifdef __cplusplus
}
#endif
#endif
