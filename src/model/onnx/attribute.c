/*
 * Attributes of the node being read, and the operands that took their place in newer operator sets.
 */
#include "model/onnx/graph.h"

#include <string.h>

const Onnx__AttributeProto *pdl__onnx_attribute(const pdl__onnx_t *o, const char *name)
{
    for (size_t i = 0; i < o->node->n_attribute; i++) {
        const Onnx__AttributeProto *attribute = o->node->attribute[i];

        if (attribute->name != NULL && strcmp(attribute->name, name) == 0) return attribute;
    }
    return NULL;
}

int64_t pdl__onnx_int(const pdl__onnx_t *o, const char *name, int64_t otherwise)
{
    const Onnx__AttributeProto *attribute = pdl__onnx_attribute(o, name);

    if (attribute == NULL) return otherwise;
    return attribute->has_i ? attribute->i : 0; /* writers of proto3 leave zeros out */
}

double pdl__onnx_float(const pdl__onnx_t *o, const char *name, double otherwise)
{
    const Onnx__AttributeProto *attribute = pdl__onnx_attribute(o, name);

    if (attribute == NULL) return otherwise;
    return attribute->has_f ? pdl__onnx_decimal((double)attribute->f, 7) : 0;
}

const char *pdl__onnx_string(pdl__onnx_t *o, const char *name, const char *otherwise)
{
    const Onnx__AttributeProto *attribute = pdl__onnx_attribute(o, name);
    char                       *text;

    if (attribute == NULL) return otherwise;
    text = pdl_arena_alloc(o->arena, attribute->s.len + 1, 1);
    if (text != NULL && attribute->s.len > 0) memcpy(text, attribute->s.data, attribute->s.len);
    return text;
}

static char type_letter(Onnx__AttributeProto__AttributeType type)
{
    switch (type) {
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT: return 'f';
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT: return 'i';
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING: return 's';
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR: return 't';
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS: return 'F';
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS: return 'I';
    default: return '?';
    }
}

/* The types that `known` gives an attribute, or NULL when it is not among them. */
static const char *types_of(const char *known, const char *name)
{
    size_t length = strlen(name);

    while (known[0] != '\0') {
        if (strncmp(known, name, length) == 0 && known[length] == ':') return known + length + 1;
        known += strcspn(known, " ");
        known += strspn(known, " ");
    }
    return NULL;
}

pdl_status_t pdl__onnx_check_attributes(const pdl__onnx_t *o, const char *known)
{
    for (size_t i = 0; i < o->node->n_attribute; i++) {
        const Onnx__AttributeProto *attribute = o->node->attribute[i];
        const char                 *name = attribute->name != NULL ? attribute->name : "";
        const char                 *types = types_of(known, name);
        bool                        typed = attribute->has_type && attribute->type != 0;

        if (strcmp(name, "consumed_inputs") == 0) continue; /* a hint of the first operator sets */
        if (types == NULL) return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "the attribute %s is not supported", name);
        if (typed && memchr(types, type_letter(attribute->type), strcspn(types, " ")) == NULL)
            return pdl__onnx_fail(o, PDL_ERR_INPUT, "the attribute %s has a wrong type", name);
    }
    return PDL_OK;
}

bool pdl__onnx_string_is(const pdl__onnx_t *o, const char *name, const char *text)
{
    const Onnx__AttributeProto *attribute = pdl__onnx_attribute(o, name);

    return attribute != NULL && attribute->has_s && attribute->s.len == strlen(text) &&
           memcmp(attribute->s.data, text, attribute->s.len) == 0;
}

static pdl_status_t ints_of_operand(pdl__onnx_t *o, size_t input, int64_t *values, int limit, int *count)
{
    pdl__onnx_value_t *value = pdl__onnx_input(o, input);
    const double      *numbers;
    int64_t            n;

    if (value == NULL) return PDL_OK;
    numbers = value->kind == PDL__ONNX_CONSTANT ? pdl__onnx_numbers(o, value) : NULL;
    if (numbers == NULL)
        return pdl__onnx_fail(o, PDL_ERR_INPUT,
                              "operand %zu is not known before the network runs; export with fixed "
                              "input sizes",
                              input + 1);
    n = pdl__onnx_elements(&value->view);
    if (n > limit)
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "operand %zu has %lld elements, at most %d make sense", input + 1,
                              (long long)n, limit);
    for (int64_t i = 0; i < n; i++) values[i] = pdl__onnx_to_int(numbers[i]);
    *count = (int)n;
    return PDL_OK;
}

pdl_status_t pdl__onnx_ints(pdl__onnx_t *o, const char *name, int input, int64_t *values, int limit, int *count)
{
    const Onnx__AttributeProto *attribute = name != NULL ? pdl__onnx_attribute(o, name) : NULL;

    *count = -1;
    if (attribute != NULL) {
        if (attribute->n_ints > (size_t)limit)
            return pdl__onnx_fail(o, PDL_ERR_INPUT, "attribute %s has %zu elements, at most %d make sense", name,
                                  attribute->n_ints, limit);
        for (size_t i = 0; i < attribute->n_ints; i++) values[i] = attribute->ints[i];
        *count = (int)attribute->n_ints;
        return PDL_OK;
    }
    return input >= 0 ? ints_of_operand(o, (size_t)input, values, limit, count) : PDL_OK;
}

pdl_status_t pdl__onnx_normal_axis(const pdl__onnx_t *o, int64_t axis, int rank, int *normal)
{
    if (axis < -rank || axis >= rank)
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "axis %lld of a tensor with %d dimensions", (long long)axis, rank);
    *normal = (int)(axis < 0 ? axis + rank : axis);
    return PDL_OK;
}
