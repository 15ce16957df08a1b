/*
 * Activation memory as the project's own trainer takes it: the layers of a partition become nodes of a program with the
 * sizes that the CPU backend wants, and the program places them. Without a backend at hand, so it is a model of one;
 * tests/train/test_memory.c holds it to the real one.
 */
#ifndef PDL_PROGRAM_FOOTPRINT_H
#define PDL_PROGRAM_FOOTPRINT_H

#include <paradl/model/traits.h>
#include <paradl/plan/partition.h>
#include <paradl/program/program.h>
#include <paradl/tensor/backend.h>

typedef struct pdl__footprint_spec {
    pdl_recompute_t recompute;
    bool            training;
    bool            accumulates;   /* several micro-batches make one update */
    double          item_bytes;    /* of an element of a tensor */
    int64_t         channel_block; /* images are padded to whole blocks of channels; 1: they are not */
    int             threads;       /* of the rank: kernels have scratch memory for each */
} pdl__footprint_spec_t;

/* Bytes. */
typedef struct pdl__footprint {
    double saved; /* held between forward and backward */
    double peak;  /* the whole arena, workspace included */
} pdl__footprint_t;

pdl_status_t pdl__partition_footprint(const pdl_partition_t *partition, const pdl__footprint_spec_t *spec,
                                      pdl__footprint_t *footprint);

/* What is computed together with a layer. */
typedef struct pdl__joined {
    bool             add;        /* another tensor is added first */
    pdl_layer_type_t activation; /* or PDL_NO_ACTIVATION */
} pdl__joined_t;

/* What the backend is told of one operation, and what follows for the program. */
typedef struct pdl__footprint_op {
    const pdl__footprint_spec_t *spec;
    const pdl_layer_t           *layer;
    pdl__joined_t                joined;
    double                       samples;
    double                       out_elements; /* as they lie, padding included */
    double                       weight_bytes;
    bool                         input_gradient;
} pdl__footprint_op_t;

/* Whether a convolution is small enough for the backend's own kernels, which leave tensors as they lie. */
bool pdl__footprint_small(const pdl__footprint_spec_t *spec, const pdl_layer_t *layer);
/* Whether the backend computes these together. */
bool pdl__footprint_joins(const pdl_layer_t *layer, const pdl__joined_t *joined);
/* Everything but inputs and order. */
void pdl__footprint_node(const pdl__footprint_op_t *op, pdl_program_node_t *node);

#endif
