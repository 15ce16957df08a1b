/*
 * Values of a system description, with the bounds that keep what is computed from them finite.
 */
#include "system/values.h"

#include <paradl/base/arena.h>

/* The strings of the document go away with it; the system keeps copies. */
pdl_status_t pdl__system_string(pdl_system_t *system, const pdl_yaml_t *mapping, const char *key, pdl_need_t need,
                                const char **value)
{
    const char  *text = NULL;
    pdl_status_t st = pdl_yaml_get_string(mapping, key, need, &text);

    if (st || text == NULL) return st;
    *value = pdl_arena_strdup(system->arena, text);
    return *value == NULL ? PDL_ERR_NOMEM : PDL_OK;
}

/* A number that must be in [least, most]. */
pdl_status_t pdl__system_within(const pdl_yaml_t *mapping, const char *key, pdl_unit_t unit, pdl_need_t need,
                                double least, double most, double *value)
{
    pdl_status_t st = pdl_yaml_get_number(mapping, key, unit, need, value);

    if (st) return st;
    const pdl_yaml_t *node = pdl_yaml_find(mapping, key);
    if (node == NULL || (*value >= least && *value <= most)) return PDL_OK;
    if (*value < least) return pdl_yaml_error(node, "%s must be at least %g", key, least);
    return pdl_yaml_error(node, "%s must be at most %g", key, most);
}

pdl_status_t pdl__system_positive(const pdl_yaml_t *mapping, const char *key, pdl_unit_t unit, pdl_need_t need,
                                  double *value)
{
    pdl_status_t st = pdl_yaml_get_number(mapping, key, unit, need, value);

    if (st) return st;
    const pdl_yaml_t *node = pdl_yaml_find(mapping, key);
    if (node != NULL && !(*value > 0)) return pdl_yaml_error(node, "%s must be greater than 0", key);
    return PDL_OK;
}

pdl_status_t pdl__system_share(const pdl_yaml_t *mapping, const char *key, double *value)
{
    pdl_status_t st = pdl__system_positive(mapping, key, PDL_UNIT_NONE, PDL_OPTIONAL, value);

    if (st) return st;
    if (*value > 1) return pdl_yaml_error(pdl_yaml_find(mapping, key), "%s is a share, at most 1", key);
    return PDL_OK;
}
