/*
 * Threads that compute: cores there are, and loops divided over them.
 */
#ifndef PARADL_THREADS_H
#define PARADL_THREADS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Cores this process may use (hardware threads of one core count once); at least 1. */
int pdl_threads_allowed(void);

typedef void (*pdl_slice_fn_t)(void *context, int64_t first, int64_t end);

/* Calls `function` on consecutive slices of [0, count), one a thread; with fewer than 2 * grain of them on this
   thread alone. This is the only place where our kernels go parallel: gcc compiles the body of a parallel region for
   the plainest processor, whereas functions called through a pointer keep their vector instructions. */
void pdl_threads_run(int64_t count, int64_t grain, pdl_slice_fn_t function, void *context);

#ifdef __cplusplus
}
#endif
#endif
