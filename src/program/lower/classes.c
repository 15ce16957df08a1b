/*
 * Ranks that do the same. What a backend makes of a layer depends on extents and paddings only, so ranks of a stage that
 * have these alike for all layers have the same program, and a question about all ranks is one about their classes.
 */
#include "program/lower/layouts.h"
#include <stdlib.h>
#include <string.h>

static void mix(uint64_t *hash, int64_t value)
{
    *hash = (*hash ^ (uint64_t)value) * UINT64_C(1099511628211);
}

static void mix_extents(uint64_t *hash, const pdl_region_t *region)
{
    for (int d = 0; d < region->rank; d++) mix(hash, pdl_region_extent(region, d));
}

/* Rows that a window lacks on each side, and its padding. */
static void mix_window(uint64_t *hash, const pdl_layer_t *layer, const pdl_region_t *in, const pdl_region_t *out)
{
    for (int k = 0; k < layer->in.rank; k++) {
        const pdl_range_t *own = in->range[PDL_DIM_SPACE + k];
        int64_t            low, high;
        pdl_range_t        need = pdl__window_needs(layer, k, out->range[PDL_DIM_SPACE + k][0], &low, &high);
        mix(hash, low);
        mix(hash, high);
        mix(hash, need.low - own->low);
        mix(hash, need.high - own->high);
    }
}

static pdl_status_t mix_layer(const pdl__layouts_t *l, int i, uint64_t *hash)
{
    const pdl_layer_t *layer = pdl_model_layer(l->plan->model, i);
    pdl_region_t       in, out;
    pdl_status_t       status = pdl__layouts_region(l, &l->layer[i].out, &layer->out, -1, 0, &out);

    if (status) return status;
    mix_extents(hash, &out);
    if (layer->input_count == 0) return PDL_OK;
    status = pdl__layouts_region(l, &l->layer[i].reads, &layer->in, -1, 0, &in);
    if (status) return status;
    mix_extents(hash, &in);
    if (pdl__is_window(layer)) mix_window(hash, layer, &in, &out);
    if (layer->type == PDL_LAYER_EMBEDDING) {
        pdl_range_t rows = pdl__vocabulary_rows(l, i, l->coordinates);
        mix(hash, rows.high - rows.low);
    }
    if (layer->type == PDL_LAYER_MOE) {
        pdl_range_t experts = pdl__experts(l, i, l->coordinates);
        mix(hash, experts.high - experts.low);
    }
    return PDL_OK;
}

/* Layers that a signature is made of: equal ones in equal layouts add nothing to it. To be freed. */
static pdl_status_t pick_layers(const pdl__layouts_t *l, int **picked, int *count)
{
    const pdl_local_t *local = l->partition->local;
    int                layers = l->partition->layer_count, classes = pdl_model_class_count(l->plan->model);
    int               *latest = malloc(((size_t)classes + (size_t)layers) * sizeof(*latest));

    *picked = latest;
    *count = 0;
    if (latest == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    *picked += classes;
    for (int k = 0; k < classes; k++) latest[k] = -1;
    for (int i = 0; i < layers; i++) {
        int *like = &latest[pdl_model_layer(l->plan->model, i)->class_id];
        if (*like >= 0 && memcmp(&l->layer[i], &l->layer[*like], sizeof(l->layer[i])) == 0 &&
            memcmp(local[i].mode, local[*like].mode, sizeof(local[i].mode)) == 0)
            continue;
        *like = i;
        (*picked)[(*count)++] = i;
    }
    memmove(latest, *picked, (size_t)*count * sizeof(*latest));
    *picked = latest;
    return PDL_OK;
}

static pdl_status_t signature_of(const pdl__layouts_t *l, const int *picked, int count, uint64_t *hash)
{
    pdl_status_t status = PDL_OK;

    *hash = UINT64_C(14695981039346656037);
    for (int i = 0; i < count && !status; i++) status = mix_layer(l, picked[i], hash);
    return status;
}

/* Of a data axis only samples depend, in pieces of two sizes: the first and the last place have both. */
static bool speaks_for_others(const pdl_mesh_t *mesh, const int64_t *coordinates)
{
    for (int a = 0; a < mesh->axis_count; a++)
        if (mesh->axis[a].kind == PDL_AXIS_DATA && coordinates[a] != 0 && coordinates[a] != mesh->axis[a].size - 1)
            return false;
    return true;
}

typedef struct classes {
    pdl__layouts_t *of;
    uint64_t       *seen; /* their signatures */
    int             count;
    int            *picked;
    int             picked_count;
} classes_t;

/* Adds the layouts unless others of their class are there. */
static pdl_status_t add_class(classes_t *c, const pdl__layouts_t *l)
{
    uint64_t     signature;
    pdl_status_t status = signature_of(l, c->picked, c->picked_count, &signature);

    for (int k = 0; k < c->count && !status; k++)
        if (c->seen[k] == signature) return PDL_OK;
    if (status) return status;
    c->of[c->count] = *l;
    c->seen[c->count++] = signature;
    return PDL_OK;
}

pdl_status_t pdl__layouts_classes(const pdl__layouts_t *l, bool agree, pdl__layouts_t **out, int *count)
{
    int          members = agree && l->trivial ? 1 : pdl__layouts_members(l, l->stage_axes);
    classes_t    c = {.of = malloc((size_t)members * sizeof(*c.of)),
                      .seen = malloc((size_t)members * sizeof(*c.seen))};
    pdl_status_t status = c.of && c.seen ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory");

    if (!status) status = pick_layers(l, &c.picked, &c.picked_count);
    if (!status) status = add_class(&c, l);
    for (int m = 0; m < members && members > 1 && !status; m++) {
        pdl__layouts_t other = *l;
        pdl__layouts_member(l, l->stage_axes, m, other.coordinates);
        if (speaks_for_others(&l->plan->mesh, other.coordinates)) status = add_class(&c, &other);
    }
    free(c.picked);
    free(c.seen);
    if (status) {
        free(c.of);
        return status;
    }
    *out = c.of;
    *count = c.count;
    return PDL_OK;
}
