/*
 * Memory for tensors. It comes straight from the system: page-aligned, in huge pages where the system has them (an
 * arena is walked from end to end in every step, and 4 KiB pages would cost a table walk every few microseconds),
 * and every page is touched once by the threads that will use it, so that no step pays for page faults.
 */
#define _DEFAULT_SOURCE
#include "tensor/cpu/threads.h"

#include <paradl/tensor/backend.h>

#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static atomic_size_t held;

typedef struct pdl__touch {
    volatile char *memory;
    size_t         page;
} pdl__touch_t;

static void touch_pages(void *context, int64_t first, int64_t end)
{
    const pdl__touch_t *touch = context;

    for (int64_t i = first; i < end; i++) touch->memory[(size_t)i * touch->page] = 0;
}

void *pdl_memory_take(size_t bytes)
{
    long         page = sysconf(_SC_PAGESIZE);
    pdl__touch_t touch = {.page = page > 0 ? (size_t)page : 4096};
    void        *memory;

    if (bytes == 0) bytes = 1;
    if (bytes > SIZE_MAX - touch.page) return NULL;
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
#ifdef MADV_HUGEPAGE
    (void)madvise(memory, bytes, MADV_HUGEPAGE); /* a wish: without huge pages everything still works */
#endif
    atomic_fetch_add(&held, bytes);
    touch.memory = memory;
    pdl_threads_run((int64_t)((bytes + touch.page - 1) / touch.page), 512, touch_pages, &touch);
    return memory;
}

void pdl_memory_give(void *memory, size_t bytes)
{
    if (memory == NULL) return;
    munmap(memory, bytes > 0 ? bytes : 1);
    atomic_fetch_sub(&held, bytes > 0 ? bytes : 1);
}

size_t pdl_memory_held(void)
{
    return atomic_load(&held);
}
