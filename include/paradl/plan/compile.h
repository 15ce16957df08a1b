/*
 * Compilation one layer at a time, for searches that try a layer in many modes.
 */
#ifndef PARADL_PLAN_COMPILE_H
#define PARADL_PLAN_COMPILE_H

#include <paradl/plan/partition.h>
#include <paradl/plan/rules.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_compiler {
    const pdl_plan_t *plan;
    pdl_partition_t  *partition;
    int               capacity; /* of partition->transfers */
    pdl_status_t      status;   /* of the first failure */
} pdl_compiler_t;

/* Compiles one layer: fills partition->local[index] and appends its transfers. Of its producers only the
   placements of their outputs, local[].out, are read. */
void pdl_compile_layer(pdl_compiler_t *compiler, int index);

/* saved[i]: whether the output of layer i has storage that backward reads again. The modes do not matter. */
pdl_status_t pdl_partition_saved(const pdl_partition_t *partition, bool *saved);

#ifdef __cplusplus
}
#endif
#endif
