/*
 * Reads what layers were measured to take:
 *
 *     measured:
 *       - {layer: conv, work: [2.4e6, 4.7e6], channels: [16, 32], window: 9, seconds: [1.1e-4, 2.3e-4]}
 *       - {layer: conv, precision: bf16, work: [2.4e6, 4.7e6], channels: [16, 32], seconds: [1e-5, 2e-5]}
 *       - {layer: relu, after: conv, work: [1e5, 1e5], channels: [32, 32], seconds: [0, 0]}
 *       - {layer: update, work: [1e6, 0], seconds: [2e-4, 0]}
 */
#include "system/measured.h"
#include <math.h>
#include <paradl/base/arena.h>

static const char *const keys[] = {"layer", "after",     "work",    "channels", "window",
                                   "halo",  "precision", "dropout", "seconds",  NULL};

/* Two numbers of at least `least`. */
static pdl_status_t read_pair(const pdl_yaml_t *row, const char *key, pdl_unit_t unit, double least, double pair[2])
{
    const pdl_yaml_t *node = pdl_yaml_find(row, key);
    pdl_status_t      status;

    if (node == NULL) return PDL_OK;
    status = pdl_yaml_expect(node, PDL_YAML_SEQUENCE, "two numbers");
    if (status) return status;
    if (pdl_yaml_size(node) != 2) return pdl_yaml_error(node, "%s wants two numbers", key);
    for (size_t i = 0; i < 2; i++) {
        status = pdl_yaml_number(pdl_yaml_item(node, i), unit, &pair[i]);
        if (status) return status;
        if (!(pair[i] >= least) || !isfinite(pair[i]))
            return pdl_yaml_error(pdl_yaml_item(node, i), "%s must be at least %g", key, least);
    }
    return PDL_OK;
}

static pdl_status_t read_row(const pdl_yaml_t *node, pdl_measured_t *row)
{
    const char  *names[PDL_LAYER_TYPE_COUNT + 1];
    double       channels[2] = {1, 1};
    pdl_status_t status = pdl_yaml_expect(node, PDL_YAML_MAPPING, "a measured layer");

    if (status) return status;
    for (int i = 0; i < PDL_LAYER_TYPE_COUNT; i++) names[i] = pdl_layer_type_name((pdl_layer_type_t)i);
    names[PDL_MEASURED_UPDATE] = "update";
    *row = (pdl_measured_t){.after = -1, .window = 1, .precision = PDL_FP32};
    status = pdl_yaml_get_enum(node, "layer", names, PDL_LAYER_TYPE_COUNT + 1, PDL_REQUIRED, &row->layer);
    if (!status) status = pdl_yaml_get_enum(node, "after", names, PDL_LAYER_TYPE_COUNT, PDL_OPTIONAL, &row->after);
    if (!status) status = read_pair(node, "work", PDL_UNIT_NONE, 0, row->work);
    if (!status) status = read_pair(node, "channels", PDL_UNIT_NONE, 1, channels);
    if (!status) status = read_pair(node, "seconds", PDL_UNIT_SECONDS, 0, row->seconds);
    if (!status) status = pdl_yaml_get_number(node, "window", PDL_UNIT_NONE, PDL_OPTIONAL, &row->window);
    if (!status) status = pdl_yaml_get_bool(node, "halo", PDL_OPTIONAL, &row->halo);
    if (!status) status = pdl_yaml_get_bool(node, "dropout", PDL_OPTIONAL, &row->drops);
    if (!status)
        status = pdl_yaml_get_enum(node, "precision", pdl_precision_names, PDL_PRECISION_COUNT, PDL_OPTIONAL,
                                   &row->precision);
    if (!status) status = pdl_yaml_check_keys(node, keys);
    if (status) return status;
    if (!(row->window >= 1)) return pdl_yaml_error(node, "window must be at least 1");
    if (row->seconds[0] > 0 && !(row->work[0] > 0)) return pdl_yaml_error(node, "work is missing");
    row->in_channels = channels[0];
    row->out_channels = channels[1];
    return PDL_OK;
}

pdl_status_t pdl__system_read_measured(const pdl_yaml_t *root, pdl_system_t *system)
{
    const pdl_yaml_t *list = pdl_yaml_find(root, "measured");
    pdl_status_t      status;

    if (list == NULL) return PDL_OK;
    status = pdl_yaml_expect(list, PDL_YAML_SEQUENCE, "a list of measured layers");
    if (status || pdl_yaml_size(list) == 0) return status;
    pdl_measured_t *rows = pdl_arena_alloc(system->arena, pdl_yaml_size(list), sizeof(*rows));
    if (rows == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a system description");
    for (size_t i = 0; i < pdl_yaml_size(list); i++) {
        status = read_row(pdl_yaml_item(list, i), &rows[i]);
        if (status) return status;
    }
    system->measured = rows;
    system->measured_count = (int)pdl_yaml_size(list);
    return PDL_OK;
}
