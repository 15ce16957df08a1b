/*
 * Number, place and floating-point mode of the threads.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "tensor/cpu/threads.h"

#include "base/plugin.h"
#include "tensor/cpu/crowd.h"
#include "tensor/plugin/hwloc.h"

#include <paradl/tensor/backend.h>

#include <sched.h>
#include <stdio.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#if defined(__x86_64__)
#include <pmmintrin.h>
#include <xmmintrin.h>
#endif

/* NULL without the plugin, which costs speed and nothing else. */
static const pdl__hwloc_t *hwloc(void)
{
    const void *table;

    return pdl__plugin_load(PDL__PLUGIN_HWLOC, "the binding of threads", sizeof(pdl__hwloc_t), &table) ? NULL
                                                                                                       : table;
}

static pdl__cores_t *open_cores(void)
{
    return hwloc() != NULL ? hwloc()->open() : NULL;
}

static void close_cores(pdl__cores_t *cores)
{
    if (cores != NULL) hwloc()->close(cores);
}

/* What the system says where hwloc does not: hardware threads. */
static int count_processors(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

int pdl_threads_allowed(void)
{
    pdl__cores_t *cores = open_cores();
    int           count = cores != NULL ? hwloc()->count(cores) : count_processors();

    close_cores(cores);
    return count > 0 ? count : 1;
}

void pdl_cpu_describe(char *processor, size_t processor_size, char *topology, size_t topology_size)
{
    snprintf(processor, processor_size, "CPU");
    snprintf(topology, topology_size, "unknown topology");
    if (hwloc() != NULL) hwloc()->describe(processor, processor_size, topology, topology_size);
}

static void flush_tiny_numbers(void)
{
#if defined(__x86_64__)
    _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
    _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON);
#endif
}

void pdl__threads_setup(int count, bool bind)
{
    pdl__cores_t *cores = bind && count > 1 ? open_cores() : NULL;

#ifdef _OPENMP
    omp_set_dynamic(0);
    omp_set_num_threads(count);
#pragma omp parallel num_threads(count)
    {
        flush_tiny_numbers();
        pdl__crowd_join(omp_get_thread_num());
        if (cores != NULL && omp_get_thread_num() > 0) hwloc()->bind(cores, omp_get_thread_num());
    }
#else
    flush_tiny_numbers();
#endif
    close_cores(cores);
}

int pdl__threads_count(void)
{
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

void pdl_threads_run(int64_t count, int64_t grain, pdl_slice_fn_t function, void *context)
{
#ifdef _OPENMP
    int64_t threads = omp_get_max_threads();

    if (count < 2 * grain || count < 2) threads = 1;
    if (threads > count / grain && threads > 1) threads = count / grain;
    if (threads > 1) {
#pragma omp parallel num_threads((int)threads)
        {
            int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
            int64_t first = count * me / team, end = count * (me + 1) / team;

            if (first < end) function(context, first, end);
        }
        return;
    }
#else
    (void)grain;
#endif
    if (count > 0) function(context, 0, count);
}
