/*
 * The threads of the CPU backend: one pool, gcc's OpenMP, which oneDNN uses too.
 */
#ifndef PDL_TENSOR_CPU_THREADS_H
#define PDL_TENSOR_CPU_THREADS_H

#include <paradl/base/status.h>
#include <paradl/tensor/threads.h>
#include <stdbool.h>
#include <stdint.h>

/* Makes this thread's parallel regions `count` wide. Tiny numbers are flushed to zero from here on in each of the
   threads, because they would slow a training down a hundredfold. With `bind` the workers are tied to one core each,
   inside the mask the process was started with; the caller itself keeps its mask, which threads that it starts later
   (loaders, MPI) inherit. */
void pdl__threads_setup(int count, bool bind);

/* Threads that the next parallel region of this thread will have. */
int pdl__threads_count(void);

#endif
