#include "oracle/cost/places.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

uint64_t pdl__places_key(const pdl_system_t *system, const pdl_case_t *c)
{
    uint64_t key = UINT64_C(0xcbf29ce484222325);

    if (system->part_count == 0) return 0;
    for (int64_t s = 0; s < c->pipeline; s++)
        key = pdl__mix(key, pdl_system_kinds(system, c->part_order, c->pe, c->pipeline, c->pipeline_stride, s));
    return key;
}

/* Power and prices depend on how many devices of each kind there are, too. */
static uint64_t key_of(const pdl_oracle_t *oracle, const pdl_config_t *config)
{
    int64_t    count[PDL_MAX_PARTS];
    pdl_case_t c;

    pdl__case_of_config(oracle, config, NULL, &c);
    pdl_system_count_kinds(oracle->system, config->part_order, c.pe, count);
    uint64_t key = c.places;
    for (int i = 0; i < PDL_MAX_PARTS; i++) key = pdl__mix(key, (uint64_t)count[i]);
    return key;
}

int pdl__places_orders(const pdl_oracle_t *oracle, const pdl_config_t *config, int order[PDL__MOST_PLACES])
{
    uint64_t     key[PDL__MOST_PLACES];
    pdl_config_t trial = *config;
    int          found = 0;

    for (int n = 0; n < pdl_system_orders(oracle->system); n++) {
        int k = 0;

        trial.part_order = n;
        key[found] = key_of(oracle, &trial);
        while (k < found && key[k] != key[found]) k++;
        if (k == found) order[found++] = n;
    }
    return found;
}

void pdl__name_parts(const pdl_system_t *system, int part_order, pdl_plan_t *plan)
{
    int order[PDL_MAX_PARTS];

    plan->part_count = system->part_count;
    if (system->part_count == 0) return;
    pdl_system_order(system, part_order, order);
    for (int i = 0; i < system->part_count; i++)
        memcpy(plan->part[i], system->part[order[i]].name, sizeof(plan->part[i]));
}

pdl_status_t pdl__least_run(const pdl_case_t *c, pdl_profile_t *profile, double *seconds)
{
    const pdl_system_t *system = pdl_oracle_system(profile->oracle);
    int                 layers = profile->partition->layer_count;

    *seconds = profile->run[layers];
    if (profile->kinds == 0) return PDL_OK;
    *seconds = 0;
    const double *run[1u << PDL_MAX_PARTS] = {NULL};
    for (int64_t s = 0; s < c->pipeline; s++) {
        unsigned       kinds = pdl_system_kinds(system, c->part_order, c->pe, c->pipeline, c->pipeline_stride, s);
        pdl_profile_t *on;
        pdl_status_t   status = run[kinds] == NULL ? pdl__profile_for(profile, kinds, &on) : PDL_OK;
        if (status) return status;
        if (run[kinds] == NULL) run[kinds] = on->run;
    }
    for (int i = 0; i < layers; i++) {
        double least = INFINITY;
        for (size_t k = 0; k < sizeof(run) / sizeof(run[0]); k++)
            if (run[k] != NULL) least = fmin(least, run[k][i + 1] - run[k][i]);
        *seconds += least;
    }
    return PDL_OK;
}

/* "a100", or "a100 and v100" where ranks of a stage are on both. */
static void name_kinds(const pdl_system_t *system, unsigned kinds, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < system->part_count; i++)
        if (kinds >> i & 1 && used < size)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? " and " : "", system->part[i].name);
}

char *pdl_oracle_stage_place(const pdl_system_t *system, int part_order, const pdl_mesh_t *mesh, int64_t stage,
                             char *text, size_t size)
{
    int     axis = pdl_mesh_find(mesh, PDL_AXIS_PIPELINE);
    int64_t stages = pdl_mesh_extent(mesh, PDL_AXIS_PIPELINE), stride = axis >= 0 ? pdl_mesh_stride(mesh, axis) : 1;

    name_kinds(system, pdl_system_kinds(system, part_order, pdl_mesh_size(mesh), stages, stride, stage), text,
               size);
    return text;
}

char *pdl_oracle_places(const pdl_system_t *system, int part_order, const pdl_mesh_t *mesh, char *text, size_t size)
{
    char    here[128], next[128];
    int64_t stages = pdl_mesh_extent(mesh, PDL_AXIS_PIPELINE);
    size_t  used = 0;

    text[0] = '\0';
    if (system->part_count == 0) return text;
    for (int64_t s = 0, end; s < stages && used < size; s = end) {
        pdl_oracle_stage_place(system, part_order, mesh, s, here, sizeof(here));
        for (end = s + 1; end < stages; end++)
            if (strcmp(pdl_oracle_stage_place(system, part_order, mesh, end, next, sizeof(next)), here) != 0) break;
        if (stages == 1)
            used += (size_t)snprintf(text, size, "%s", here);
        else if (end == s + 1)
            used += (size_t)snprintf(text + used, size - used, "%s%lld: %s", s > 0 ? ", " : "stage ", (long long)s,
                                     here);
        else
            used += (size_t)snprintf(text + used, size - used, "%s%lld-%lld: %s", s > 0 ? ", " : "stages ",
                                     (long long)s, (long long)end - 1, here);
    }
    if (used >= size && size > 3) memcpy(text + size - 4, "...", 4);
    return text;
}
