/*
 * Where buffers lie that have been placed: asked for the smallest gap beside those that are alive together with another one.
 */
#ifndef PDL_PROGRAM_SHELF_H
#define PDL_PROGRAM_SHELF_H

#include <paradl/program/program.h>

typedef struct pdl__shelf pdl__shelf_t;

/* An empty one for these buffers, whose lives are in [0, steps); their bytes and offsets are not read. */
pdl_status_t pdl__shelf_create(const pdl_program_buffer_t *buffers, int count, int steps, pdl__shelf_t **shelf);
void         pdl__shelf_clear(pdl__shelf_t *shelf);
/* Puts a buffer into the smallest gap that holds it, the lowest of these; behind the last neighbour if there is none. */
size_t pdl__shelf_put(pdl__shelf_t *shelf, int buffer, size_t bytes);
void   pdl__shelf_destroy(pdl__shelf_t *shelf);

#endif
