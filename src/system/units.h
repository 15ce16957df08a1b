/*
 * A check of descriptions of machines and networks. Internal to the library.
 */
#ifndef PDL_SYSTEM_UNITS_H
#define PDL_SYSTEM_UNITS_H

#include <paradl/base/yaml.h>

/* Refuses latencies, sizes and rates of a device or link that are written without a unit and cannot be meant so. */
pdl_status_t pdl__check_units(const pdl_yaml_t *mapping);

#endif
