/*
 * Initial weights. They are drawn from the seed, the weight's full name ("layer1.0.conv1.weight") and the index of
 * each element in the whole, row-major tensor: no layout, rank count or order of drawing changes a number.
 */
#ifndef PARADL_INIT_H
#define PARADL_INIT_H

#include <paradl/base/status.h>
#include <paradl/model/model.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Weight `name` (weight, bias, running_mean, running_var, class_token; experts: router, gate, up, down) of
   `layer`, which has the shapes of the whole model; `dims` are those of the whole tensor in PyTorch's order. What
   `layer->init` means is in docs/model_format.md, "Initial weights". */
pdl_status_t pdl_init_weight(const pdl_layer_t *layer, const char *name, int rank, const int64_t *dims,
                             uint64_t seed, float *plain);

/* Elements first .. first + count - 1 of the same tensor, for a rank that holds a piece. */
pdl_status_t pdl_init_weight_piece(const pdl_layer_t *layer, const char *name, int rank, const int64_t *dims,
                                   uint64_t seed, int64_t first, int64_t count, float *piece);

#ifdef __cplusplus
}
#endif
#endif
