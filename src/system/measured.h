/*
 * The measured layers and operations of a system description, and what the machine costs.
 */
#ifndef PDL_SYSTEM_MEASURED_H
#define PDL_SYSTEM_MEASURED_H

#include <paradl/base/yaml.h>
#include <paradl/system/system.h>

/* The list "measured" of a description, if it has one. */
pdl_status_t pdl__system_read_measured(const pdl_yaml_t *root, pdl_system_t *system);
/* And the list "operations". */
pdl_status_t pdl__system_read_operations(const pdl_yaml_t *root, pdl_system_t *system);

/* The mapping "ownership" of a description, if it has one. */
pdl_status_t pdl__system_read_ownership(const pdl_yaml_t *root, pdl_system_t *system);

#endif
