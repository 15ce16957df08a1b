/*
 * Parameters and switches as files have them.
 */
#ifndef PDL_ORACLE_PARAMETERS_H
#define PDL_ORACLE_PARAMETERS_H

#include <paradl/oracle/oracle.h>

/* Everything about a switch that its field does not say. */
typedef struct pdl__switch_info {
    const char *name, *meaning;
    bool        standard;
    size_t      offset;
} pdl__switch_info_t;
extern const pdl__switch_info_t pdl__switch_info[];
extern const int                pdl__switch_count;

/* Reads maps of parameters and switches (NULL: none) over what is there. */
pdl_status_t pdl__parameters_read(const pdl_yaml_t *values, const pdl_yaml_t *flags, pdl_parameters_t *parameters);

#endif
