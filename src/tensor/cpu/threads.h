/*
 * The threads of the CPU backend: one pool, gcc's OpenMP, which oneDNN uses too.
 */
#ifndef PDL_TENSOR_CPU_THREADS_H
#define PDL_TENSOR_CPU_THREADS_H

#include <paradl/base/status.h>
#include <stdbool.h>
#include <stdint.h>

/* Cores this process may use (hardware threads of one core count once); at least 1. */
int pdl__threads_allowed(void);

/* Makes this thread's parallel regions `count` wide. Tiny numbers are flushed to zero from here on in each of the
   threads, because they would slow a training down a hundredfold. With `bind` the workers are tied to one core each,
   inside the mask the process was started with; the caller itself keeps its mask, which threads that it starts later
   (loaders, MPI) inherit. */
void pdl__threads_setup(int count, bool bind);

/* Threads that the next parallel region of this thread will have. */
int pdl__threads_count(void);

typedef void (*pdl__slice_fn_t)(void *context, int64_t first, int64_t end);

/* Calls `function` on consecutive slices of [0, count), one a thread; with fewer than 2 * grain of them on this
   thread alone. This is the only place where our kernels go parallel: gcc compiles the body of a parallel region for
   the plainest processor, whereas functions called through a pointer keep their vector instructions. */
void pdl__parallel(int64_t count, int64_t grain, pdl__slice_fn_t function, void *context);

#endif
