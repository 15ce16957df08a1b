/* Memory that lives and dies together. */
#include <paradl/base/arena.h>

#include "test.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>

static void gives_zeroed_aligned_objects(void)
{
    pdl_arena_t *arena = pdl_arena_create();
    size_t       i, k;

    for (i = 1; i < 3000; i += 7) {
        unsigned char *object = pdl_arena_alloc(arena, i, 1);

        CHECK(object != NULL);
        CHECK_INT((uintptr_t)object % alignof(max_align_t), 0);
        for (k = 0; k < i; k++) {
            if (object[k] != 0) break;
        }
        CHECK_INT(k, i);
        memset(object, 0xff, i);
    }
    pdl_arena_destroy(arena);
}

static void keeps_objects_apart(void)
{
    enum { COUNT = 2000 };
    pdl_arena_t *arena = pdl_arena_create();
    int         *objects[COUNT];
    int          i, wrong = 0;

    for (i = 0; i < COUNT; i++) {
        /* Sizes on both sides of a chunk, so that objects with a chunk of their own come between others. */
        objects[i] = pdl_arena_alloc(arena, i % 100 == 99 ? 20000 : 1 + (size_t)(i % 5), sizeof(int));
        CHECK(objects[i] != NULL);
        objects[i][0] = i;
    }
    for (i = 0; i < COUNT; i++) wrong += objects[i][0] != i;
    CHECK_INT(wrong, 0);
    pdl_arena_destroy(arena);
}

static void refuses_what_overflows(void)
{
    pdl_arena_t *arena = pdl_arena_create();

    CHECK(pdl_arena_alloc(arena, SIZE_MAX, 2) == NULL);
    CHECK(strstr(pdl_error_message(), "out of memory") != NULL);
    CHECK(pdl_arena_alloc(arena, SIZE_MAX / 8, 16) == NULL);
    CHECK(pdl_arena_alloc(arena, 2, SIZE_MAX) == NULL);
    CHECK(pdl_arena_strndup(arena, "x", SIZE_MAX) == NULL);
    CHECK(pdl_arena_alloc(arena, 1, 8) != NULL);
    pdl_arena_destroy(arena);
}

static void gives_something_for_nothing(void)
{
    pdl_arena_t *arena = pdl_arena_create();
    void        *a = pdl_arena_alloc(arena, 0, 8), *b = pdl_arena_alloc(arena, 8, 0);

    CHECK(a != NULL && b != NULL && a != b);
    pdl_arena_destroy(arena);
}

static void copies_texts(void)
{
    pdl_arena_t *arena = pdl_arena_create();

    CHECK_STR(pdl_arena_strdup(arena, "resnet50"), "resnet50");
    CHECK_STR(pdl_arena_strdup(arena, ""), "");
    CHECK_STR(pdl_arena_strndup(arena, "resnet50", 6), "resnet");
    pdl_arena_destroy(arena);
}

static void destroys_null(void)
{
    pdl_arena_destroy(NULL);
}

int main(void)
{
    RUN(gives_zeroed_aligned_objects);
    RUN(keeps_objects_apart);
    RUN(refuses_what_overflows);
    RUN(gives_something_for_nothing);
    RUN(copies_texts);
    RUN(destroys_null);
    return test_done();
}
