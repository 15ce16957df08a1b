/*
 * The device of a system in JSON, as `system show` and `plan` write it. Internal to report.
 */
#ifndef PDL_REPORT_DEVICE_FIELDS_H
#define PDL_REPORT_DEVICE_FIELDS_H

#include <paradl/base/json.h>
#include <paradl/system/system.h>

/* "device": an object. */
void pdl__device_fields(pdl_json_t *json, const pdl_device_t *device);

#endif
