/*
 * Any bytes given to the reader of systems yield an error or a machine whose tree can be used: groups have
 * sizes, and messages in it take a finite time.
 */
#include <paradl/system/system.h>
#include <paradl/topo/contention.h>
#include <paradl/topo/topo.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Holds in every build, unlike assert(). */
static void require(bool condition)
{
    if (!condition) abort();
}

static void use_tree(const pdl_system_t *system, bool host_path)
{
    int64_t             last = system->pe_count - 1;
    const pdl_message_t messages[] = {{0, last, 1e6}, {last, 0, 1e6}, {last / 2, last, 1e3}, {last, last / 3, 1}};
    double              last_s, phi;
    int                 level;

    require(pdl_contention_run(system, host_path, messages, 4, NULL, &last_s) == PDL_OK);
    require(last_s >= 0 && isfinite(last_s));
    for (int pattern = 0; pattern < 3; pattern++) {
        int64_t                size = system->pe_count < 512 ? system->pe_count : 512;
        pdl_contention_query_t query = {
            .pe_count = size, .size = size, .stride = 1, .host_path = host_path, .pattern = (pdl_pattern_t)pattern};
        require(pdl_contention_phi(system, &query, &phi, &level) == PDL_OK);
        require(phi >= 1 && isfinite(phi) && level >= 0 && level < system->level_count);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const pdl_system_t *system;

    if (pdl_system_read_memory((const char *)data, size, "fuzz.yaml", &system) != PDL_OK) return 0;
    require(system->level_count >= 1 && system->level_count <= PDL_MAX_LEVELS);
    require(pdl_system_group_size(system, system->level_count - 1) == system->pe_count);
    require(pdl_system_level_of_span(system, system->pe_count) < system->level_count);
    require(pdl_system_common_level(system, 0, system->pe_count - 1) < system->level_count);
    const pdl_topology_t *network;
    /* Files that a description names are not read here. */
    if ((system->network != NULL && system->network->path != NULL) ||
        pdl_topology_network(system, &network) != PDL_OK) {
        pdl_system_destroy(system);
        return 0;
    }
    require(system->device.memory_bytes > system->device.reserved_bytes);
    use_tree(system, false);
    use_tree(system, true);
    pdl_system_destroy(system);
    return 0;
}
