/*
 * Constants: numbers of initializers, decoded when an operator asks for them, and arrays with broadcasting.
 */
#include "model/onnx/graph.h"

#include <math.h>
#include <string.h>

/* A causal mask of 1024 tokens has this many elements; what is larger is a weight. */
#define NUMBER_LIMIT ((int64_t)1 << 20)
#define DIM_LIMIT    ((int64_t)INT32_MAX)

int64_t pdl__onnx_elements(const pdl__onnx_view_t *view)
{
    int64_t n = 1;

    for (int i = 0; i < view->rank; i++)
        if (__builtin_mul_overflow(n, view->dims[i], &n)) return INT64_MAX;
    return n;
}

int64_t pdl__onnx_to_int(double number)
{
    if (isnan(number)) return 0;
    if (number >= 9.2e18) return INT64_MAX;
    if (number <= -9.2e18) return INT64_MIN;
    return (int64_t)number;
}

pdl_status_t pdl__onnx_make_room(pdl__onnx_t *o, pdl__onnx_value_t *value)
{
    int64_t n = pdl__onnx_elements(&value->view);

    value->data = NULL;
    if (n > NUMBER_LIMIT || n > o->number_budget) return PDL_OK;
    o->number_budget -= n;
    value->data = pdl_arena_alloc(o->arena, n > 0 ? (size_t)n : 1, sizeof *value->data);
    return value->data != NULL ? PDL_OK : PDL_ERR_NOMEM;
}

static double half_to_double(uint16_t half)
{
    int    exponent = (half >> 10) & 31;
    double mantissa = half & 1023, magnitude;

    if (exponent == 31)
        magnitude = mantissa != 0 ? NAN : INFINITY;
    else
        magnitude = exponent == 0 ? ldexp(mantissa, -24) : ldexp(mantissa + 1024, exponent - 25);
    return half & 0x8000 ? -magnitude : magnitude;
}

size_t pdl__onnx_raw_size(int32_t type)
{
    switch (type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__BOOL:
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT8:
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT8: return 1;
    case ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16:
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16: return 2;
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT:
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT32: return 4;
    case ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE:
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT64: return 8;
    default: return 0;
    }
}

/* raw_data is little-endian whatever the machine. */
double pdl__onnx_raw_number(const uint8_t *bytes, int32_t type)
{
    size_t   size = pdl__onnx_raw_size(type);
    uint64_t bits = 0;
    float    single;
    double   number;

    for (size_t i = 0; i < size; i++) bits |= (uint64_t)bytes[i] << 8 * i;
    switch (type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT8: return (int8_t)bits;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT32: return (int32_t)(uint32_t)bits;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT64: return (double)(int64_t)bits;
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16: return half_to_double((uint16_t)bits);
    case ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16:
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT: {
        uint32_t word = (uint32_t)(size == 2 ? bits << 16 : bits);
        memcpy(&single, &word, sizeof single);
        return (double)single;
    }
    case ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE: memcpy(&number, &bits, sizeof number); return number;
    default: return (double)bits;
    }
}

bool pdl__onnx_decode(const Onnx__TensorProto *t, int64_t n, double *data)
{
    size_t count = (size_t)n, size = pdl__onnx_raw_size(t->data_type);

    if (t->has_raw_data && size != 0 && t->raw_data.len == count * size) {
        for (size_t i = 0; i < count; i++)
            data[i] = pdl__onnx_raw_number(t->raw_data.data + i * size, t->data_type);
    } else if (t->n_float_data == count && count > 0) {
        for (size_t i = 0; i < count; i++) data[i] = (double)t->float_data[i];
    } else if (t->n_int64_data == count && count > 0) {
        for (size_t i = 0; i < count; i++) data[i] = (double)t->int64_data[i];
    } else if (t->n_double_data == count && count > 0) {
        memcpy(data, t->double_data, count * sizeof *data);
    } else if (t->n_int32_data == count && count > 0) {
        bool half = t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16;
        for (size_t i = 0; i < count; i++)
            data[i] = half ? half_to_double((uint16_t)t->int32_data[i]) : (double)t->int32_data[i];
    } else {
        return count == 0;
    }
    return true;
}

const double *pdl__onnx_numbers(pdl__onnx_t *o, pdl__onnx_value_t *value)
{
    if (value->data == NULL && value->tensor != NULL) {
        const Onnx__TensorProto *tensor = value->tensor;
        bool                     external = tensor->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;

        value->tensor = NULL; /* tried once, whatever comes of it */
        if (external || pdl__onnx_make_room(o, value) || value->data == NULL) return NULL;
        if (!pdl__onnx_decode(tensor, pdl__onnx_elements(&value->view), value->data)) value->data = NULL;
    }
    return value->data;
}

bool pdl__onnx_scalar(pdl__onnx_t *o, pdl__onnx_value_t *value, double *scalar)
{
    const double *numbers;

    if (value->kind != PDL__ONNX_CONSTANT || pdl__onnx_elements(&value->view) != 1) return false;
    numbers = pdl__onnx_numbers(o, value);
    if (numbers != NULL) *scalar = numbers[0];
    return numbers != NULL;
}

pdl_status_t pdl__onnx_from_tensor(pdl__onnx_t *o, const Onnx__TensorProto *tensor, pdl__onnx_value_t **value)
{
    const char        *name = tensor->name != NULL ? tensor->name : "";
    pdl__onnx_value_t *v = pdl__onnx_new(o, PDL__ONNX_CONSTANT);

    if (v == NULL) return PDL_ERR_NOMEM;
    if (tensor->n_dims > PDL__ONNX_MAX_RANK)
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s: tensor %s has %zu dimensions, at most %d are supported", o->file,
                         name, tensor->n_dims, PDL__ONNX_MAX_RANK);
    v->view.rank = (int)tensor->n_dims;
    for (size_t i = 0; i < tensor->n_dims; i++) {
        if (tensor->dims[i] < 0 || tensor->dims[i] > DIM_LIMIT)
            return pdl_error(PDL_ERR_INPUT, "%s: tensor %s has an impossible dimension of %lld", o->file, name,
                             (long long)tensor->dims[i]);
        v->view.dims[i] = tensor->dims[i];
    }
    v->tensor = v->stored = tensor;
    v->real = tensor->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT ||
              tensor->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE ||
              tensor->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 ||
              tensor->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16;
    *value = v;
    return PDL_OK;
}

pdl_status_t pdl__onnx_broadcast(const pdl__onnx_t *o, const pdl__onnx_view_t *a, const pdl__onnx_view_t *b,
                                 pdl__onnx_view_t *out)
{
    int rank = a->rank > b->rank ? a->rank : b->rank;

    for (int i = 1; i <= rank; i++) {
        int64_t x = i <= a->rank ? a->dims[a->rank - i] : 1, y = i <= b->rank ? b->dims[b->rank - i] : 1;

        if (x != y && x != 1 && y != 1)
            return pdl__onnx_fail(o, PDL_ERR_INPUT,
                                  "operands of %lld and %lld elements in dimension -%d do not fit", (long long)x,
                                  (long long)y, i);
        out->dims[rank - i] = x == 1 ? y : x;
    }
    out->rank = rank;
    return PDL_OK;
}

int64_t pdl__onnx_offset(const pdl__onnx_view_t *view, const int64_t *index, int rank)
{
    int64_t offset = 0;

    for (int i = 0; i < view->rank; i++)
        offset = offset * view->dims[i] + (view->dims[i] == 1 ? 0 : index[rank - view->rank + i]);
    return offset;
}

void pdl__onnx_next(const pdl__onnx_view_t *view, int64_t *index)
{
    for (int i = view->rank - 1; i >= 0; i--) {
        if (++index[i] < view->dims[i]) return;
        index[i] = 0;
    }
}
