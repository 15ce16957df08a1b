/*
 * The regions of a move, looked at before anything is made of them.
 */
#ifndef PDL_COMM_REGIONS_CHECK_H
#define PDL_COMM_REGIONS_CHECK_H

#include <paradl/comm/regions.h>

/* The regions of all members, tidy. */
typedef struct pdl__members {
    int           count;
    pdl_region_t *own, *need;
    int          *owner; /* the lowest member that owns the same region */
} pdl__members_t;

/* PDL_ERR_INPUT for regions that a move cannot have. */
pdl_status_t pdl__members_init(const pdl_move_spec_t *spec, pdl__members_t *members);
void         pdl__members_fini(pdl__members_t *members);

#endif
