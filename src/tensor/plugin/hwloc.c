/*
 * The cores of this machine, by hwloc.
 */
#include "tensor/plugin/hwloc.h"

#include "base/plugin.h"

#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pdl__cores {
    hwloc_topology_t topology;
    hwloc_cpuset_t   allowed; /* hardware threads that the process was given */
    int              count;
};

static void close_cores(pdl__cores_t *cores)
{
    hwloc_bitmap_free(cores->allowed);
    hwloc_topology_destroy(cores->topology);
    free(cores);
}

static int count_cores(const pdl__cores_t *cores)
{
    return cores->count;
}

static pdl__cores_t *open_cores(void)
{
    pdl__cores_t *cores = calloc(1, sizeof(*cores));
    hwloc_obj_t   core = NULL;

    if (cores == NULL || hwloc_topology_init(&cores->topology) != 0) {
        free(cores);
        return NULL;
    }
    if (hwloc_topology_load(cores->topology) == 0) cores->allowed = hwloc_bitmap_alloc();
    if (cores->allowed == NULL || hwloc_get_cpubind(cores->topology, cores->allowed, HWLOC_CPUBIND_PROCESS) != 0 ||
        hwloc_bitmap_iszero(cores->allowed)) {
        close_cores(cores);
        return NULL;
    }
    while ((core = hwloc_get_next_obj_by_type(cores->topology, HWLOC_OBJ_CORE, core)) != NULL)
        cores->count += hwloc_bitmap_intersects(core->cpuset, cores->allowed);
    return cores;
}

static void bind_worker(const pdl__cores_t *cores, int worker)
{
    hwloc_cpuset_t set = hwloc_bitmap_dup(cores->allowed);
    hwloc_obj_t    core = NULL;

    if (set == NULL) return;
    for (int left = cores->count > 0 ? worker % cores->count + 1 : 0;
         left > 0 && (core = hwloc_get_next_obj_by_type(cores->topology, HWLOC_OBJ_CORE, core)) != NULL;)
        left -= hwloc_bitmap_intersects(core->cpuset, cores->allowed);
    if (core != NULL) hwloc_bitmap_and(set, core->cpuset, cores->allowed);
    /* A refusal costs speed, nothing else. */
    (void)hwloc_set_cpubind(cores->topology, set, HWLOC_CPUBIND_THREAD);
    hwloc_bitmap_free(set);
}

static void describe_caches(hwloc_topology_t topology, char *text, size_t size)
{
    static const hwloc_obj_type_t caches[] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE};
    size_t                        used = strlen(text);

    for (int i = 0; i < 3; i++) {
        int         count = hwloc_get_nbobjs_by_type(topology, caches[i]);
        hwloc_obj_t cache = count > 0 ? hwloc_get_obj_by_type(topology, caches[i], 0) : NULL;

        if (cache == NULL || used >= size) continue;
        used += (size_t)snprintf(text + used, size - used, ", %d x L%d of %llu KiB", count, i + 1,
                                 (unsigned long long)(cache->attr->cache.size >> 10));
    }
}

static void describe(char *processor, size_t processor_size, char *topology_text, size_t topology_size)
{
    hwloc_topology_t topology;

    if (hwloc_topology_init(&topology) != 0) return;
    if (hwloc_topology_load(topology) == 0) {
        hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
        const char *model = package != NULL ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;

        if (model != NULL) snprintf(processor, processor_size, "%s", model);
        snprintf(topology_text, topology_size, "%d packages, %d cores, %d hardware threads, %d NUMA nodes",
                 hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE),
                 hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE),
                 hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU),
                 hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE));
        describe_caches(topology, topology_text, topology_size);
    }
    hwloc_topology_destroy(topology);
}

static const pdl__hwloc_t functions = {open_cores, count_cores, bind_worker, close_cores, describe};
PDL__PLUGIN(hwloc, functions)
