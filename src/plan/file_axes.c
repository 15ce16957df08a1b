/*
 * What a plan file says axis by axis: modes of layers, and collectives.
 */
#include "plan/file.h"

#include <paradl/plan/collectives.h>

#include <string.h>

pdl_status_t pdl__plan_add_place(const pdl_yaml_t *node, pdl_status_t st)
{
    return st == PDL_OK || st == PDL_ERR_NOMEM ? st : pdl_yaml_error(node, "%s", pdl_error_message());
}

/* The axis that entry i of a mapping is about. */
static pdl_status_t find_axis(const pdl_yaml_t *mapping, size_t i, const pdl_mesh_t *mesh, int *axis)
{
    const char *key = pdl_yaml_key(mapping, i);
    char        list[PDL_MAX_AXES * (PDL__AXIS_NAME_SIZE + 2)] = "";

    *axis = pdl__axis_find(mesh, key);
    if (*axis >= 0) return PDL_OK;
    for (int a = 0; a < mesh->axis_count; a++) {
        char name[PDL__AXIS_NAME_SIZE];

        pdl__axis_name(mesh, a, name);
        if (a > 0) strcat(list, ", ");
        strcat(list, name);
    }
    return pdl_yaml_error(pdl_yaml_value(mapping, i), "unknown axis \"%.60s\": the mesh has %s", key,
                          mesh->axis_count > 0 ? list : "no axes");
}

/* Reads AXIS: MODE pairs, a key `match` left out, and sets them in *modes; given[] says which ones. */
static pdl_status_t read_mode_pairs(const pdl_yaml_t *mapping, const pdl_mesh_t *mesh, pdl_modes_t *modes,
                                    bool given[PDL_MAX_AXES])
{
    for (size_t i = 0; i < pdl_yaml_size(mapping); i++) {
        const pdl_yaml_t *value = pdl_yaml_value(mapping, i);
        const char       *key = pdl_yaml_key(mapping, i);
        pdl_status_t      st;
        int               axis, mode;

        if (strcmp(key, "match") == 0) continue;
        st = find_axis(mapping, i, mesh, &axis);
        if (st != PDL_OK) return st;
        if (!pdl__axis_has_modes(&mesh->axis[axis])) {
            return pdl_yaml_error(value, "the %s axis takes no mode: pipeline.stages says which layers a rank runs",
                                  key);
        }
        if (given[axis]) return pdl_yaml_error(value, "axis \"%.60s\" is given twice", key);
        st = pdl_yaml_enum(value, pdl_mode_names, PDL_MODE_COUNT, &mode);
        if (st != PDL_OK) return st;
        modes->on[axis] = (uint8_t)mode;
        given[axis] = true;
    }
    return PDL_OK;
}

/* One exception: the layers it matches, and what differs for them. */
static pdl_status_t read_mode_rule(const pdl_yaml_t *entry, pdl_plan_t *plan)
{
    pdl_modes_t  modes = {{0}};
    bool         given[PDL_MAX_AXES] = {false}, matched = false;
    const char  *match;
    pdl_status_t st = pdl_yaml_get_string(entry, "match", PDL_REQUIRED, &match);

    if (st == PDL_OK) st = read_mode_pairs(entry, &plan->mesh, &modes, given);
    if (st != PDL_OK) return st;
    if (pdl_yaml_size(entry) == 1) {
        return pdl_yaml_error(entry, "no mode for the layers that match \"%.100s\": add one such as tensor: filter",
                              match);
    }
    for (int i = 0; i < pdl_model_layer_count(plan->model); i++) {
        if (!pdl__glob_match(match, pdl_model_layer(plan->model, i)->name)) continue;
        matched = true;
        for (int a = 0; a < plan->mesh.axis_count; a++) {
            if (given[a]) plan->modes[i].on[a] = modes.on[a];
        }
    }
    if (matched) return PDL_OK;
    return pdl_yaml_error(pdl_yaml_find(entry, "match"), "no layer of model %.100s matches \"%.100s\"",
                          pdl_model_name(plan->model), match);
}

/* Without modes, the strategy's preset fills them in: enough for a plan written by hand. */
static pdl_status_t apply_strategy(const pdl_yaml_t *root, pdl_plan_t *plan)
{
    const pdl_yaml_t *node = pdl_yaml_find(root, "strategy");
    char              strategy[sizeof(plan->strategy)];

    if (node == NULL) {
        return pdl_yaml_error(root,
                              "modes are missing: expected modes, or a strategy such as data that implies them");
    }
    memcpy(strategy, plan->strategy, sizeof(strategy));
    return pdl__plan_add_place(node, pdl_plan_apply_preset(plan, strategy, NULL));
}

pdl_status_t pdl__plan_read_modes(const pdl_yaml_t *root, pdl_plan_t *plan)
{
    static const char *const keys[] = {"default", "layers", NULL};
    const pdl_yaml_t        *modes = pdl_yaml_find(root, "modes"), *everywhere, *layers;
    bool                     given[PDL_MAX_AXES] = {false};
    pdl_modes_t              all = {{0}};
    pdl_status_t             st;

    if (modes == NULL) return apply_strategy(root, plan);
    st = pdl_yaml_check_keys(modes, keys);
    if (st != PDL_OK) return st;
    everywhere = pdl_yaml_find(modes, "default");
    layers = pdl_yaml_find(modes, "layers");
    if (everywhere != NULL) {
        st = pdl_yaml_expect(everywhere, PDL_YAML_MAPPING, "modes such as {data: sample, tensor: filter}");
        if (st == PDL_OK && pdl_yaml_find(everywhere, "match") != NULL) {
            st = pdl_yaml_error(everywhere, "the default matches every layer: put a match under layers");
        }
        if (st == PDL_OK) st = read_mode_pairs(everywhere, &plan->mesh, &all, given);
        if (st != PDL_OK) return st;
    }
    for (int i = 0; i < pdl_model_layer_count(plan->model); i++) plan->modes[i] = all;
    if (layers == NULL) return PDL_OK;
    st = pdl_yaml_expect(layers, PDL_YAML_SEQUENCE, "a list of entries such as {match: \"fc*\", tensor: channel}");
    for (size_t i = 0; st == PDL_OK && i < pdl_yaml_size(layers); i++) {
        st = read_mode_rule(pdl_yaml_item(layers, i), plan);
    }
    return st;
}

static pdl_status_t read_density(const pdl_yaml_t *value, double *density)
{
    pdl_status_t st = pdl_yaml_get_number(value, "density", PDL_UNIT_NONE, PDL_OPTIONAL, density);

    if (st != PDL_OK || pdl_yaml_find(value, "density") == NULL || (*density > 0 && *density <= 1)) return st;
    return pdl_yaml_error(pdl_yaml_find(value, "density"), "density %g: expected a number above 0 and up to 1",
                          *density);
}

/* A name, or a mapping with one. */
static pdl_status_t read_collective(const pdl_yaml_t *value, pdl_plan_file_t *file,
                                    pdl_plan_collective_t *collective)
{
    static const char *const keys[] = {"algorithm", "ranks_per_node", "density", NULL};
    const pdl_yaml_t        *node = value;
    const char              *name = "auto";
    pdl_status_t             st;

    if (pdl_yaml_kind(value) == PDL_YAML_SCALAR) {
        st = pdl_yaml_string(value, &name);
    } else {
        st = pdl_yaml_check_keys(value, keys);
        if (st == PDL_OK) st = pdl_yaml_get_string(value, "algorithm", PDL_OPTIONAL, &name);
        if (st == PDL_OK)
            st = pdl_yaml_get_int(value, "ranks_per_node", 1, PDL__PLAN_MAX_RANKS, PDL_OPTIONAL,
                                  &collective->ranks_per_node);
        if (st == PDL_OK) st = read_density(value, &collective->density);
        if (pdl_yaml_find(value, "algorithm") != NULL) node = pdl_yaml_find(value, "algorithm");
    }
    if (st != PDL_OK || strcmp(name, "auto") == 0) return st;
    if (strcmp(name, "hierarchical") == 0) { /* of earlier versions */
        name = "ring_ring";
        snprintf(file->note, sizeof(file->note), "hierarchical collectives of the plan are ring_ring");
    }
    st = pdl__plan_add_place(node, pdl_plan_check_algorithm(name));
    if (st == PDL_OK) snprintf(collective->algorithm, sizeof(collective->algorithm), "%s", name);
    return st;
}

pdl_status_t pdl__plan_read_collectives(const pdl_yaml_t *root, pdl_plan_file_t *file)
{
    pdl_plan_t       *plan = file->plan;
    const pdl_yaml_t *node = pdl_yaml_find(root, "collectives");
    bool              given[PDL_MAX_AXES] = {false};
    pdl_status_t      st;

    if (node == NULL) return PDL_OK;
    st = pdl_yaml_expect(node, PDL_YAML_MAPPING, "a mapping such as {data: ring}");
    for (size_t i = 0; st == PDL_OK && i < pdl_yaml_size(node); i++) {
        const pdl_yaml_t *value = pdl_yaml_value(node, i);
        int               axis;

        st = find_axis(node, i, &plan->mesh, &axis);
        if (st == PDL_OK && given[axis]) {
            st = pdl_yaml_error(value, "axis \"%.60s\" is given twice", pdl_yaml_key(node, i));
        }
        if (st == PDL_OK) st = read_collective(value, file, &plan->collective[axis]);
        if (st != PDL_OK) return st;
        given[axis] = true;
    }
    return st;
}
