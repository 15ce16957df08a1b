/*
 * What a machine costs and how often it fails.
 */
#include "system/measured.h"

pdl_status_t pdl__system_read_ownership(const pdl_yaml_t *root, pdl_system_t *system)
{
    static const char *const keys[] = {"device_mtbf",   "restart", "checkpoint_bandwidth", "pue", "node_power",
                                       "price_per_kwh", NULL};
    pdl_ownership_fields_t  *o = &system->ownership;
    const struct {
        const char *key;
        pdl_unit_t  unit;
        double     *value;
        double      least;
    } numbers[] = {
        {"device_mtbf", PDL_UNIT_SECONDS, &o->device_mtbf_s, 1},
        {"restart", PDL_UNIT_SECONDS, &o->restart_s, 0},
        {"checkpoint_bandwidth", PDL_UNIT_BYTE_RATE, &o->checkpoint_bytes_per_s, 1},
        {"pue", PDL_UNIT_NONE, &o->pue, 1},
        {"node_power", PDL_UNIT_WATT, &o->node_power_w, 0},
        {"price_per_kwh", PDL_UNIT_NONE, &o->price_per_kwh, 0},
    };
    const pdl_yaml_t *node = pdl_yaml_find(root, "ownership");
    pdl_status_t      status = PDL_OK;

    o->pue = 1;
    if (node == NULL) return PDL_OK;
    status = pdl_yaml_expect(node, PDL_YAML_MAPPING, "what the machine costs and how often it fails");
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && !status; i++) {
        if (pdl_yaml_find(node, numbers[i].key) == NULL) continue;
        status = pdl_yaml_get_number(node, numbers[i].key, numbers[i].unit, PDL_OPTIONAL, numbers[i].value);
        if (!status && *numbers[i].value < numbers[i].least)
            status = pdl_yaml_error(pdl_yaml_find(node, numbers[i].key), "%s must be at least %g", numbers[i].key,
                                    numbers[i].least);
    }
    return status ? status : pdl_yaml_check_keys(node, keys);
}
