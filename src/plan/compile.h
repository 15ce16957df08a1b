/*
 * Compilation one layer at a time, for searches that try a layer in many modes.
 */
#ifndef PDL_PLAN_COMPILE_H
#define PDL_PLAN_COMPILE_H

#include "plan/rules.h"
#include <paradl/plan/partition.h>

typedef struct pdl_compiler {
    const pdl_plan_t *plan;
    pdl_partition_t  *partition;
    int               capacity; /* of partition->transfers */
    pdl_status_t      status;   /* of the first failure */
} pdl_compiler_t;

/* Compiles one layer: fills partition->local[index] and appends its transfers. Of its producers only the
   placements of their outputs, local[].out, are read. */
void pdl__compile_layer(pdl_compiler_t *compiler, int index);

/* saved[i]: whether the output of layer i has storage that backward reads again. The modes do not matter. */
pdl_status_t pdl__partition_saved(const pdl_partition_t *partition, bool *saved);

/* Elements of a tensor on a rank, in the mean of all ranks; `skip` is an axis on which it is taken as whole (-1:
   none). */
double pdl__mean_elements(const pdl_compiler_t *compiler, const pdl_shape_t *shape, const pdl_placement_t *on,
                          int skip);
/* Elements that a rank sends, in the mean of all ranks, when a tensor that lies like `now` is brought to `to` on
   one axis. */
double pdl__mean_sent(const pdl_compiler_t *compiler, const pdl_shape_t *shape, const pdl_placement_t *now,
                      int axis, pdl_placement_t to);

/* Of a tensor that is cut along one dimension of `from` elements, and then along another of `to`: the share that is
   where it was. 0 elements stand for many. */
double pdl__staying_share(int64_t from, int64_t to, int64_t pieces);
/* The same of tokens that go to experts and back, in forward and in backward, if all experts are asked equally
   often. */
void pdl__routed_sent(const pdl_compiler_t *compiler, int index, int axis, double sent[4]);

/* The weights of a layer on a rank, in the mean of all ranks, and how many ranks (data axes apart) sum their
   gradients: most of them, biases, and those that are cut in another way than the rule of the layer says. */
typedef struct pdl__weight_count {
    double most, bias, apart;
    double ranks, apart_ranks;
} pdl__weight_count_t;
void pdl__count_weights(const pdl_layer_t *layer, pdl__weight_count_t *count);
/* On one more axis. */
void pdl__cut_weights(const pdl_layer_t *layer, const pdl_rule_t *rule, pdl_mode_t mode, int64_t ranks,
                      pdl__weight_count_t *count);

/* Finds out once what liveness needs to know of all layers; partition->local must be filled. */
pdl_status_t pdl__walk_create(pdl_partition_t *partition);

#endif
