/*
 * Number, place and floating-point mode of the threads.
 */
#include "tensor/cpu/threads.h"

#include "tensor/cpu/crowd.h"

#include <hwloc.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#if defined(__x86_64__)
#include <pmmintrin.h>
#include <xmmintrin.h>
#endif

/* The topology of this machine and the hardware threads that the process was given; false when hwloc cannot say. */
static bool load_allowed(hwloc_topology_t *topology, hwloc_cpuset_t *allowed)
{
    if (hwloc_topology_init(topology) != 0) return false;
    *allowed = NULL;
    if (hwloc_topology_load(*topology) == 0) *allowed = hwloc_bitmap_alloc();
    if (*allowed != NULL && hwloc_get_cpubind(*topology, *allowed, HWLOC_CPUBIND_PROCESS) == 0 &&
        !hwloc_bitmap_iszero(*allowed))
        return true;
    hwloc_bitmap_free(*allowed);
    hwloc_topology_destroy(*topology);
    return false;
}

int pdl__threads_allowed(void)
{
    hwloc_topology_t topology;
    hwloc_cpuset_t   allowed;
    hwloc_obj_t      core = NULL;
    int              count = 0;

    if (load_allowed(&topology, &allowed)) {
        while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != NULL)
            count += hwloc_bitmap_intersects(core->cpuset, allowed);
        hwloc_bitmap_free(allowed);
        hwloc_topology_destroy(topology);
    }
    return count > 0 ? count : 1;
}

static void flush_tiny_numbers(void)
{
#if defined(__x86_64__)
    _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
    _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON);
#endif
}

#ifdef _OPENMP
/* Ties this thread to core `worker`, counted over the cores that the process may use and wrapping around. */
static void bind_worker(hwloc_topology_t topology, hwloc_const_cpuset_t allowed, int cores, int worker)
{
    hwloc_cpuset_t set = hwloc_bitmap_dup(allowed);
    hwloc_obj_t    core = NULL;

    if (set == NULL) return;
    for (int left = worker % cores + 1;
         left > 0 && (core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != NULL;)
        left -= hwloc_bitmap_intersects(core->cpuset, allowed);
    if (core != NULL) hwloc_bitmap_and(set, core->cpuset, allowed);
    /* A refusal costs speed, nothing else. */
    (void)hwloc_set_cpubind(topology, set, HWLOC_CPUBIND_THREAD);
    hwloc_bitmap_free(set);
}
#endif

void pdl__threads_setup(int count, bool bind)
{
    hwloc_topology_t topology = NULL;
    hwloc_cpuset_t   allowed = NULL;
    bool             known = bind && count > 1 && load_allowed(&topology, &allowed);

#ifdef _OPENMP
    int cores = pdl__threads_allowed();

    omp_set_dynamic(0);
    omp_set_num_threads(count);
#pragma omp parallel num_threads(count)
    {
        flush_tiny_numbers();
        pdl__crowd_join(omp_get_thread_num());
        if (known && omp_get_thread_num() > 0) bind_worker(topology, allowed, cores, omp_get_thread_num());
    }
#else
    flush_tiny_numbers();
#endif
    if (known) {
        hwloc_bitmap_free(allowed);
        hwloc_topology_destroy(topology);
    }
}

int pdl__threads_count(void)
{
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

void pdl__parallel(int64_t count, int64_t grain, pdl__slice_fn_t function, void *context)
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
