/*
 * How readers (YAML, ONNX, .net) make a model: layers are added in topological order; shapes are inferred
 * as they arrive, so that a mistake is reported at the place that made it.
 */
#ifndef PDL_MODEL_BUILDER_H
#define PDL_MODEL_BUILDER_H

#include <paradl/model/traits.h>

typedef struct pdl_model_builder pdl_model_builder_t;

/* NULL when memory is out. */
pdl_model_builder_t *pdl__builder_create(const char *name, const char *description);
void                 pdl__builder_destroy(pdl_model_builder_t *builder);

/* A layer of this type with the attributes it has when a file says nothing. Zero stands for what inference
   fills in: stride of pooling (the kernel), kv_heads (heads), head_dim (from the input's channels), out.channels
   of moe (the input's). Per-dimension attributes may be set for all PDL_MAX_SPACE dimensions; those beyond the
   input's rank are ignored. The factor of upsample is in stride, or the wanted size in out.extent. */
pdl_layer_t pdl__layer_default(pdl_layer_type_t type);

/* Adds a copy of `layer` (name and inputs included) and infers its output shape. What inference needs is read
   from the attributes; the requested channels of conv, linear, embedding and moe are in layer->out.channels, an
   input's whole shape in layer->out. `where` ("FILE:LINE" or "FILE: node NAME (OPERATOR)"; NULL for
   none) opens the message when the layer does not fit its inputs. Names must be unique. The first layer
   is an input. Attributes that the type does not have are ignored. */
pdl_status_t pdl__builder_add(pdl_model_builder_t *builder, const pdl_layer_t *layer, const char *where,
                              int *index);

/* Shape of a layer added before. */
const pdl_layer_t *pdl__builder_layer(const pdl_model_builder_t *builder, int index);
int                pdl__builder_count(const pdl_model_builder_t *builder);
int                pdl__builder_find(const pdl_model_builder_t *builder, const char *name); /* -1 when absent */

/* Keeps a copy of one line that users should read (pdl_model_remarks). */
pdl_status_t pdl__builder_remark(pdl_model_builder_t *builder, const char *text);

/* Marks a model that is a table of layers with given shapes, without a graph to train. */
void pdl__builder_set_table(pdl_model_builder_t *builder);

/* Derives counts, gradients needed and classes; the builder is gone afterwards, whatever the result. */
pdl_status_t pdl__builder_finish(pdl_model_builder_t *builder, pdl_model_t **model);

#endif
