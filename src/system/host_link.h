/*
 * The link between a device and the memory of its host, in a system description.
 */
#ifndef PDL_SYSTEM_HOST_LINK_H
#define PDL_SYSTEM_HOST_LINK_H

#include <paradl/base/yaml.h>
#include <paradl/system/system.h>

/* The key "host_link" of a device, or "host_bandwidth", which is both directions in one number. */
pdl_status_t pdl__system_read_host_link(const pdl_yaml_t *device, pdl_system_t *system);

#endif
