/*
 * Reads what operations were measured to take, forward, backward, and where these are made apart dgrad and wgrad:
 *
 *     operations:
 *       - {op: "linear 768 to 3072 bias", precision: bf16, samples: 32, seconds: [1e-4, 2e-4, 1e-4, 1e-4],
 *          replayed: [99us, 198us, 99us, 99us], queue: [5us, 9us, 5us, 5us]}
 */
#include "system/measured.h"
#include <math.h>
#include <paradl/base/arena.h>
#include <stdlib.h>
#include <string.h>

static const char *const keys[] = {"op", "precision", "samples", "seconds", "replayed", "queue", NULL};

uint64_t pdl_timed_hash(const char *key)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

    for (; *key != '\0'; key++) hash = (hash ^ (unsigned char)*key) * UINT64_C(0x100000001b3);
    return hash;
}

int pdl_timed_compare(const void *a, const void *b)
{
    const pdl_timed_op_t *x = a, *y = b;

    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    if (x->precision != y->precision) return x->precision < y->precision ? -1 : 1;
    return (x->samples > y->samples) - (x->samples < y->samples);
}

static pdl_status_t read_times(const pdl_yaml_t *row, const char *key, pdl_need_t need,
                               double times[PDL_TIMED_PASSES])
{
    const pdl_yaml_t *list = pdl_yaml_find(row, key);
    pdl_status_t      status;

    if (list == NULL) return need == PDL_REQUIRED ? pdl_yaml_error(row, "%s is missing", key) : PDL_OK;
    status = pdl_yaml_expect(list, PDL_YAML_SEQUENCE, "times of the passes");
    if (status) return status;
    if (pdl_yaml_size(list) < 1 || pdl_yaml_size(list) > PDL_TIMED_PASSES)
        return pdl_yaml_error(list, "%s has one to %d times", key, PDL_TIMED_PASSES);
    for (size_t i = 0; i < pdl_yaml_size(list); i++) {
        status = pdl_yaml_number(pdl_yaml_item(list, i), PDL_UNIT_SECONDS, &times[i]);
        if (status) return status;
    }
    return PDL_OK;
}

static pdl_status_t read_row(const pdl_yaml_t *node, pdl_arena_t *arena, pdl_timed_op_t *row)
{
    const char  *key;
    pdl_status_t status = pdl_yaml_expect(node, PDL_YAML_MAPPING, "a measured operation");

    if (status) return status;
    *row = (pdl_timed_op_t){.precision = PDL_FP32};
    status = pdl_yaml_get_string(node, "op", PDL_REQUIRED, &key);
    if (!status)
        status = pdl_yaml_get_enum(node, "precision", pdl_precision_names, PDL_PRECISION_COUNT, PDL_OPTIONAL,
                                   &row->precision);
    if (!status) status = pdl_yaml_get_number(node, "samples", PDL_UNIT_NONE, PDL_REQUIRED, &row->samples);
    if (!status) status = read_times(node, "seconds", PDL_REQUIRED, row->seconds);
    if (!status) status = read_times(node, "replayed", PDL_OPTIONAL, row->replayed_s);
    if (!status) status = read_times(node, "queue", PDL_OPTIONAL, row->queue_s);
    if (!status) status = pdl_yaml_check_keys(node, keys);
    if (status) return status;
    if (!(row->samples > 0) || !isfinite(row->samples)) return pdl_yaml_error(node, "samples must be positive");
    row->key = pdl_arena_strdup(arena, key);
    row->hash = pdl_timed_hash(key);
    return row->key != NULL ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory for a system description");
}

pdl_status_t pdl__system_read_operations(const pdl_yaml_t *root, pdl_system_t *system)
{
    const pdl_yaml_t *list = pdl_yaml_find(root, "operations");
    pdl_status_t      status;

    if (list == NULL) return PDL_OK;
    status = pdl_yaml_expect(list, PDL_YAML_SEQUENCE, "a list of measured operations");
    if (status || pdl_yaml_size(list) == 0) return status;
    pdl_timed_op_t *rows = pdl_arena_alloc(system->arena, pdl_yaml_size(list), sizeof(*rows));
    if (rows == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a system description");
    for (size_t i = 0; i < pdl_yaml_size(list); i++) {
        status = read_row(pdl_yaml_item(list, i), system->arena, &rows[i]);
        if (status) return status;
    }
    qsort(rows, pdl_yaml_size(list), sizeof(*rows), pdl_timed_compare);
    system->operation = rows;
    system->operation_count = (int)pdl_yaml_size(list);
    return PDL_OK;
}
