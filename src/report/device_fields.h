/*
 * The device of a system in JSON, as `system show` and `plan` write it. Internal to report.
 */
#ifndef PDL_REPORT_DEVICE_FIELDS_H
#define PDL_REPORT_DEVICE_FIELDS_H

#include <paradl/base/json.h>
#include <paradl/system/system.h>

/* "device": an object. */
void pdl__device_fields(pdl_json_t *json, const pdl_device_t *device);

/* system_parts.c: of a machine whose nodes have different devices a table, and "parts": a list. */
pdl_status_t pdl__print_system_parts(const pdl_system_t *system, FILE *stream);
void         pdl__system_part_fields(pdl_json_t *json, const pdl_system_t *system);

#endif
