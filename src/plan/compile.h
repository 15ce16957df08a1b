/*
 * Compilation one layer at a time, for searches that try a layer in many modes.
 */
#ifndef PDL_PLAN_COMPILE_H
#define PDL_PLAN_COMPILE_H

#include <paradl/program.h>

typedef struct pdl_compiler {
    const pdl_plan_t *plan;
    pdl_program_t    *program;
    int               capacity; /* of program->transfers */
    pdl_status_t      status;   /* of the first failure */
} pdl_compiler_t;

/* Compiles one layer: fills program->local[index] and appends its transfers. Of its producers only the
   placements of their outputs, local[].out, are read. */
void pdl__compile_layer(pdl_compiler_t *compiler, int index);

/* saved[i]: whether the output of layer i has storage that backward reads again. The modes do not matter. */
pdl_status_t pdl__program_saved(const pdl_program_t *program, bool *saved);

/* halo.c: once all layers are compiled, of how many rows `sent` of every halo is; until then it is one. */
pdl_status_t pdl__halo_busiest(pdl_program_t *program);

/* Finds out once what liveness needs to know of all layers; program->local must be filled. */
pdl_status_t pdl__walk_create(pdl_program_t *program);

#endif
