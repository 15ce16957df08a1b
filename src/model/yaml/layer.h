/*
 * Reading one layer of a model file; yaml_read.c expands blocks and repetitions around it.
 */
#ifndef PDL_MODEL_YAML_LAYER_H
#define PDL_MODEL_YAML_LAYER_H

#include "model/builder.h"
#include "model/yaml/expression.h"

#include <paradl/base/yaml.h>

/* What all entries of a file share. */
typedef struct pdl__yaml_reader {
    pdl_model_builder_t *builder;
    const pdl_yaml_t    *blocks; /* or NULL */
    pdl__scope_t         parameters;
    int                  entries; /* expanded so far */
    bool                 table;
    int                 *inputs; /* of the layer being read */
    int                  input_count, input_room;
} pdl__yaml_reader_t;

#define PDL__MAX_PREFIX 900

/* A list of layers under expansion: the file's own, or one instance of a block. */
typedef struct pdl__yaml_frame {
    const struct pdl__yaml_frame *parent;
    const char                   *prefix; /* "layer1.0." */
    const pdl__scope_t           *scope;
    int                           in, previous; /* layers: the block's input, and the one before the next entry */
    int                           before;       /* the input of the block before this one; its own for the first */
    int                           last_in;      /* the input of the last block of this list; -1 before one */
    int                           depth;
    int                           numbers[PDL_LAYER_TYPE_COUNT]; /* names given to unnamed layers */
} pdl__yaml_frame_t;

/* Values that may be expressions. */
pdl_status_t pdl__yaml_value(const pdl_yaml_t *node, const pdl__scope_t *scope, pdl__value_t *value);
pdl_status_t pdl__yaml_integer(const pdl_yaml_t *node, const pdl__scope_t *scope, int64_t min, int64_t max,
                               int64_t *value);

/* The layer that a name means inside the frame. */
pdl_status_t pdl__yaml_resolve(const pdl__yaml_reader_t *reader, const pdl__yaml_frame_t *frame,
                               const pdl_yaml_t *node, int *index);

/* Adds the layer of an entry `type` or `type: attributes` (then `value` is not NULL). */
pdl_status_t pdl__yaml_add_layer(pdl__yaml_reader_t *reader, pdl__yaml_frame_t *frame, const pdl_yaml_t *entry,
                                 const char *type, const pdl_yaml_t *value);

/* Adds the input described by a mapping. */
pdl_status_t pdl__yaml_add_input(pdl__yaml_reader_t *reader, pdl__yaml_frame_t *frame, const pdl_yaml_t *mapping);

#endif
