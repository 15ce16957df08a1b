/*
 * Classes of equal layers and the hash of a model. Both come from one canonical list of words per layer: its
 * type, shapes and attributes.
 */
#include "model/internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORDS 64

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ (hash >> 29);
}

static size_t shape_words(const pdl_shape_t *shape, uint64_t *words)
{
    words[0] = (uint64_t)shape->channels;
    for (int d = 0; d < PDL_MAX_SPACE; d++) words[1 + d] = (uint64_t)shape->extent[d];
    words[1 + PDL_MAX_SPACE] = (uint64_t)shape->rank * 2 + shape->sequence;
    return PDL_MAX_SPACE + 2;
}

static size_t attribute_words(const pdl__attribute_t *attribute, const pdl_layer_t *layer, uint64_t *words)
{
    const void *value = pdl__attribute_value(attribute, layer);

    switch (attribute->kind) {
    case PDL__ATTRIBUTE_BOOL: words[0] = *(const bool *)value; return 1;
    case PDL__ATTRIBUTE_INIT: words[0] = *(const pdl_init_t *)value; return 1;
    default:
        memcpy(words, value, pdl__attribute_size(attribute));
        return pdl__attribute_size(attribute) / sizeof(*words);
    }
}

static bool is_absent(const pdl__attribute_t *attribute, const pdl_layer_t *layer)
{
    const void *value = pdl__attribute_value(attribute, layer);

    if ((attribute->types & PDL__ATTRIBUTE_LATE) == 0) return false;
    return attribute->kind == PDL__ATTRIBUTE_BOOL ? !*(const bool *)value : *(const int64_t *)value == 0;
}

/* All that decides what a layer computes, except where its inputs come from. Returns the count of words. */
static size_t layer_words(const pdl_layer_t *layer, uint64_t words[MAX_WORDS])
{
    size_t count = 0;

    words[count++] = (uint64_t)layer->type;
    words[count++] = (uint64_t)layer->input_count * 4 + (layer->tied_to >= 0) * 2 + layer->needs_input_gradient;
    count += shape_words(&layer->in, words + count);
    count += shape_words(&layer->out, words + count);
    for (const pdl__attribute_t *a = pdl__attributes; a->key != NULL; a++)
        if (pdl__attribute_of(a, layer->type) && !is_absent(a, layer))
            count += attribute_words(a, layer, words + count);
    return count;
}

static uint64_t hash_words(uint64_t hash, const uint64_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++) hash = mix(hash, words[i]);
    return hash;
}

/* The next character of a name in which every whole number between dots, or after '#', reads '#': layers that
   stand at the same place of a repeated block differ in these numbers only. */
static int next_character(const char **cursor, bool *at_start)
{
    const char *c = *cursor, *end = c;

    if (*at_start) {
        while (isdigit((unsigned char)*end)) end++;
        if (end > c && (*end == '.' || *end == '\0')) {
            *cursor = end;
            *at_start = false;
            return '#';
        }
    }
    *at_start = *c == '.' || *c == '#';
    if (*c != '\0') (*cursor)++;
    return (unsigned char)*c;
}

static uint64_t hash_place(const char *name)
{
    bool     at_start = true;
    uint64_t hash = 1;
    int      c;

    while ((c = next_character(&name, &at_start)) != '\0') hash = mix(hash, (uint64_t)c);
    return hash;
}

static bool same_place(const char *a, const char *b)
{
    bool a_start = true, b_start = true;
    int  c;

    do {
        c = next_character(&a, &a_start);
        if (c != next_character(&b, &b_start)) return false;
    } while (c != '\0');
    return true;
}

static bool same_class(const pdl_layer_t *a, const pdl_layer_t *b)
{
    uint64_t a_words[MAX_WORDS], b_words[MAX_WORDS];
    size_t   count = layer_words(a, a_words);

    return layer_words(b, b_words) == count && memcmp(a_words, b_words, count * sizeof(*a_words)) == 0 &&
           same_place(a->name, b->name);
}

static uint64_t hash_links(uint64_t hash, const pdl_layer_t *layer)
{
    for (int i = 0; i < layer->input_count; i++) hash = mix(hash, (uint64_t)layer->inputs[i]);
    return mix(hash, (uint64_t)layer->tied_to + 1);
}

pdl_status_t pdl__classify(pdl_model_t *model)
{
    size_t   slot_count = model->name_slot_count;        /* a power of two, over twice the layers */
    int     *slots = calloc(slot_count, sizeof(*slots)); /* first layer of a class + 1, by hash */
    uint64_t hash = model->table;
    uint64_t words[MAX_WORDS];

    if (slots == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for the layer classes of a model");
    model->class_count = 0;
    for (int i = 0; i < model->count; i++) {
        pdl_layer_t *layer = &model->layers[i];
        size_t       count = layer_words(layer, words);
        uint64_t     own = hash_words(0, words, count);
        size_t       slot = mix(own, hash_place(layer->name)) & (slot_count - 1);

        hash = hash_links(mix(hash, own), layer);
        while (slots[slot] != 0 && !same_class(&model->layers[slots[slot] - 1], layer))
            slot = (slot + 1) & (slot_count - 1);
        if (slots[slot] == 0) {
            slots[slot] = i + 1;
            layer->class_id = model->class_count++;
        } else {
            layer->class_id = model->layers[slots[slot] - 1].class_id;
        }
    }
    free(slots);
    model->hash = hash;
    return PDL_OK;
}
