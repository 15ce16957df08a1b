/*
 * What the files of the model module share: the model itself, the table of layer attributes that reading,
 * writing, checking and hashing are driven by, and the inference of shapes and counts.
 */
#ifndef PDL_MODEL_INTERNAL_H
#define PDL_MODEL_INTERNAL_H

#include <paradl/base/arena.h>
#include <paradl/model/traits.h>

#define PDL_MAX_LAYERS    100000
#define PDL_MAX_REMARKS   8
#define PDL_MAX_ATTRIBUTE INT32_MAX /* of every integer attribute; products are checked apart */

struct pdl_model {
    pdl_arena_t       *arena; /* names and input lists */
    char              *name, *description;
    const char        *remarks[PDL_MAX_REMARKS + 1];
    pdl_layer_t       *layers;
    int                count, capacity;
    int               *name_slots; /* open addressing; layer index + 1, 0 when free */
    size_t             name_slot_count;
    int                class_count;
    uint64_t           hash;
    pdl_model_totals_t totals;
    bool               table;         /* shapes are given, not inferred */
    pdl_lora_t         lora;          /* rank 0: none */
    int64_t            table_samples; /* of the data set that a layer table names; else 0 */
};

typedef enum pdl__attribute_kind {
    PDL__ATTRIBUTE_INT,
    PDL__ATTRIBUTE_EXTENTS, /* one integer per dimension of space */
    PDL__ATTRIBUTE_BOOL,
    PDL__ATTRIBUTE_NUMBER,
    PDL__ATTRIBUTE_INIT
} pdl__attribute_kind_t;

typedef struct pdl__attribute {
    const char           *key;
    size_t                offset; /* of the field in pdl_layer_t */
    pdl__attribute_kind_t kind;
    uint64_t              types; /* bit 1 << type for every layer type that has it */
    double                min, max;
} pdl__attribute_t;

/* Beside the types: zero, the default, is no part of a model's hash, which so stays what it was before the attribute came. */
#define PDL__ATTRIBUTE_LATE (UINT64_C(1) << 63)

/* The table, ended by a NULL key. A key may stand for different fields of different types. */
extern const pdl__attribute_t pdl__attributes[];
extern const char *const      pdl__init_names[]; /* by pdl_init_t */
#define PDL__INIT_COUNT 6

static inline bool pdl__attribute_of(const pdl__attribute_t *attribute, pdl_layer_type_t type)
{
    return attribute->types >> type & 1;
}
static inline void *pdl__attribute_field(const pdl__attribute_t *attribute, pdl_layer_t *layer)
{
    return (char *)layer + attribute->offset;
}
static inline const void *pdl__attribute_value(const pdl__attribute_t *attribute, const pdl_layer_t *layer)
{
    return (const char *)layer + attribute->offset;
}
/* NULL when the type has no such attribute. */
const pdl__attribute_t *pdl__attribute_find(pdl_layer_type_t type, const char *key);
size_t                  pdl__attribute_size(const pdl__attribute_t *attribute);

/* Records "WHERE: layer NAME: message" and returns PDL_ERR_INPUT; `where` may be NULL. */
pdl_status_t pdl__layer_error(const char *where, const pdl_layer_t *layer, const char *format, ...)
    PDL_PRINTF(3, 4);

/* Sets layer->out, and whatever attributes were left to inference, from layer->in and the other inputs. */
pdl_status_t pdl__infer_shape(const pdl_model_t *model, pdl_layer_t *layer, const char *where);

/* Sets weights, operations and element counts from the shapes, and adds them to the totals of the model.
   needs_input_gradient must be set. */
pdl_status_t pdl__count_layer(pdl_model_t *model, pdl_layer_t *layer, const char *where);

/* The slot of the name table that holds the layer of this name, or the free one where it belongs. */
int *pdl__name_slot(const pdl_model_t *model, const char *name);

/* The whole of a file, ended by a zero byte; the caller frees it. */
pdl_status_t pdl__read_file(const char *path, char **data, size_t *length);

/* Sets class_id of every layer, and the count of classes and the hash of the model. */
pdl_status_t pdl__classify(pdl_model_t *model);

#endif
