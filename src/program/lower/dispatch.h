/*
 * Ways of tokens to the ranks that have their experts.
 */
#ifndef PDL_PROGRAM_DISPATCH_H
#define PDL_PROGRAM_DISPATCH_H

#include "program/lower/layouts.h"

typedef struct pdl__dispatch {
    unsigned           axes;  /* of the group of ranks that have the experts */
    int64_t            bytes; /* of the largest message */
    struct pdl_route  *route; /* made by a runtime; or NULL */
    const pdl_layer_t *layer; /* the whole one */
    int                member, members;
    int64_t           *first;          /* [members + 1]: where the experts of every rank begin */
    int64_t            rows, all_rows; /* tokens of this rank, and of all; of a micro-batch */
    bool               input_gradient; /* comes back, beside that of shares */
    double             sent, stayed;   /* bytes since the beginning: to other ranks, and here */
} pdl__dispatch_t;

/* Of a layer in expert mode; local. */
pdl_status_t pdl__dispatch_create(const pdl__layouts_t *layouts, int layer, bool input_gradient,
                                  pdl__dispatch_t **routes);
void         pdl__dispatch_destroy(pdl__dispatch_t *routes); /* NULL is allowed */
/* Bytes that this rank would send to others in forward or backward if all experts were asked equally often; and
   that all ranks together send or keep, which does not depend on who is asked. */
double pdl__dispatch_even_bytes(const pdl__dispatch_t *routes, bool backward);
double pdl__dispatch_all_bytes(const pdl__dispatch_t *routes, bool backward);

#endif
