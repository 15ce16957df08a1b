/*
 * Collectives inside a node, as a library was measured to execute them: a start-up, more for every further device, the links
 * that the devices which take part have between them, and the passes of the vector through each device.
 *
 *     seconds = startup + (n - 1) step + 2 (n - 1) / n bytes / (rings link) + bytes / pass        (allreduce of n devices)
 */
#ifndef PARADL_FABRIC_H
#define PARADL_FABRIC_H

#include <paradl/system/system.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PDL_MESH_DEVICES 8 /* the most that links are given for */

typedef enum pdl_fabric_term {
    PDL_FABRIC_STARTUP, /* seconds of a collective */
    PDL_FABRIC_STEP,    /* seconds for every further device */
    PDL_FABRIC_LINK,    /* seconds a byte takes on a link */
    PDL_FABRIC_PASS,    /* seconds a byte takes to pass through a device */
    PDL_FABRIC_TERMS
} pdl_fabric_term_t;

typedef struct pdl_fabric {
    double value[PDL_FABRIC_TERMS];
    int    devices; /* of a mesh; 0: a switch joins them, and any of them has its link to itself */
    int    links[PDL_MESH_DEVICES][PDL_MESH_DEVICES];
    double detour; /* links in place of which the way through the host counts where no ring of links is to be had */
} pdl_fabric_t;

/* Groups of `devices`, each `stride` from the next, that execute a collective at once in a node, from the first device on.
   `vectors` is 2 of an allreduce, which passes over everything twice, and 1 of a reduce-scatter or an allgather. */
typedef struct pdl_fabric_use {
    int devices, stride, groups, vectors;
} pdl_fabric_use_t;

/* Rings that the links between the devices of the worst group carry at once; `detour` where there is none. */
double pdl_fabric_rings(const pdl_fabric_t *fabric, const pdl_fabric_use_t *use);
/* How often each term counts. */
void   pdl_fabric_terms(const pdl_fabric_t *fabric, const pdl_fabric_use_t *use, double bytes,
                        double term[PDL_FABRIC_TERMS]);
double pdl_fabric_seconds(const pdl_fabric_t *fabric, const pdl_fabric_use_t *use, double bytes);

#ifdef __cplusplus
}
#endif
#endif
