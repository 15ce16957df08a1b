/*
 * What all backends say alike of an op.
 */
#ifndef PDL_TENSOR_DESCRIBE_H
#define PDL_TENSOR_DESCRIBE_H

#include <paradl/model/traits.h>
#include <paradl/tensor/backend.h>

/* Backends whose blocks have all channels of a tensor, and what these are padded to. */
#define PDL__BLOCK_ALL 0
#define PDL__PADDED    8

/* Refuses what no op is: no or too many inputs, no samples, or a fusion that the backend does not have. */
pdl_status_t pdl__describe_check(const pdl_op_spec_t *spec, bool fuses);
/* Refuses attributes of a layer that only planning knows. */
pdl_status_t pdl__describe_check_computed(const pdl_layer_t *layer);
/* Fills in flop and `divides`, once the weights are known. */
void pdl__describe_work(const pdl_op_spec_t *spec, pdl_op_description_t *description);

#endif
