/*
 * The key "network" of a system description: a topology in place of the tree on the outermost level. Modules that come later know
 * topologies; the description is kept as a text for them.
 */
#include "system/network.h"
#include "base/memory.h"

#include <paradl/base/arena.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The mapping as a topology file, which JSON is too. */
static pdl_status_t keep_text(const pdl_yaml_t *node, pdl_system_t *system, pdl_system_network_t *network)
{
    char        *json = NULL, *text;
    size_t       length = 0;
    FILE        *memory = open_memstream(&json, &length);
    pdl_status_t status = PDL_OK;

    if (memory == NULL) return pdl__no_memory("for the network of a system");
    fputs("{\"paradl\": \"topology/1\", ", memory);
    pdl_yaml_write_json(node, memory);
    if (fclose(memory) != 0 || (text = pdl_arena_strdup(system->arena, json)) == NULL) {
        status = pdl__no_memory("for the network of a system");
    } else {
        char *second = strchr(text + 1, '{');

        *second = ' ';
        network->text = text;
    }
    free(json);
    return status;
}

pdl_status_t pdl__system_read_network(const pdl_yaml_t *root, pdl_system_t *system)
{
    const pdl_yaml_t     *node = pdl_yaml_find(root, "network");
    const pdl_level_t    *top = &system->level[system->level_count - 1];
    pdl_system_network_t *network;
    pdl_status_t          status = PDL_OK;

    if (node == NULL) return PDL_OK;
    if (top->shared_medium || top->oversubscription > 1)
        return pdl_yaml_error(node,
                              "level %s is joined by this network, which says how wide it is: leave out "
                              "shared and oversubscription there",
                              top->name);
    network = pdl_arena_alloc(system->arena, 1, sizeof(*network));
    if (network == NULL) return pdl__no_memory("for the network of a system");
    *network = (pdl_system_network_t){.port_bytes_per_s = top->bandwidth_bytes_per_s};
    if (pdl_yaml_kind(node) == PDL_YAML_SCALAR) {
        network->path = pdl_arena_strdup(system->arena, pdl_yaml_text(node));
        if (network->path == NULL) status = pdl__no_memory("for the network of a system");
    } else {
        status = pdl_yaml_expect(node, PDL_YAML_MAPPING, "a topology or the path of a topology file");
        if (!status && pdl_yaml_size(node) == 0) status = pdl_yaml_error(node, "a network without a topology");
        if (!status && pdl_yaml_find(node, "paradl") != NULL)
            status = pdl_yaml_error(node, "a network in a system file needs no line 'paradl'");
        if (!status) status = keep_text(node, system, network);
    }
    system->network = network;
    return status;
}
