/*
 * Values of a system description, and its devices.
 */
#ifndef PDL_SYSTEM_VALUES_H
#define PDL_SYSTEM_VALUES_H

#include <paradl/base/yaml.h>
#include <paradl/system/system.h>

/* A string that outlives its document. */
pdl_status_t pdl__system_string(pdl_system_t *system, const pdl_yaml_t *mapping, const char *key, pdl_need_t need,
                                const char **value);
/* A number in [least, most]; one above 0; one above 0 and at most 1. */
pdl_status_t pdl__system_within(const pdl_yaml_t *mapping, const char *key, pdl_unit_t unit, pdl_need_t need,
                                double least, double most, double *value);
pdl_status_t pdl__system_positive(const pdl_yaml_t *mapping, const char *key, pdl_unit_t unit, pdl_need_t need,
                                  double *value);
pdl_status_t pdl__system_share(const pdl_yaml_t *mapping, const char *key, double *value);

/* The key "device" of a mapping, into system->device. */
pdl_status_t pdl__system_read_device(const pdl_yaml_t *mapping, pdl_system_t *system);
/* The key "devices" of a description whose levels are read, if it has one. */
pdl_status_t pdl__system_read_parts(const pdl_yaml_t *root, pdl_system_t *system);

#endif
