/*
 * The key "fabric" of a system description.
 */
#ifndef PDL_SYSTEM_FABRIC_H
#define PDL_SYSTEM_FABRIC_H

#include <paradl/base/yaml.h>
#include <paradl/system/fabric.h>

pdl_status_t pdl__system_read_fabric(const pdl_yaml_t *root, pdl_system_t *system);

#endif
