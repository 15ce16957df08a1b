/*
 * The key "network" of a system description.
 */
#ifndef PDL_SYSTEM_NETWORK_H
#define PDL_SYSTEM_NETWORK_H

#include <paradl/base/yaml.h>
#include <paradl/system/system.h>

pdl_status_t pdl__system_read_network(const pdl_yaml_t *root, pdl_system_t *system);

#endif
