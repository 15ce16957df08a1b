/*
 * The header of a .npy file is a Python dictionary in text: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}.
 * Keys may come in any order; anything else than these three is refused.
 */
#include "data/source/npy.h"

#include <inttypes.h>
#include <string.h>

typedef struct cursor {
    const char *name, *at, *end;
} cursor_t;

static const struct {
    char            text[4];
    pdl__npy_type_t type;
    size_t          width;
    bool            integers;
} types[] = {
    {"|u1", PDL__NPY_U8, 1, true},   {"|b1", PDL__NPY_U8, 1, true},   {"|i1", PDL__NPY_I8, 1, true},
    {"<u2", PDL__NPY_U16, 2, true},  {"<i2", PDL__NPY_I16, 2, true},  {"<u4", PDL__NPY_U32, 4, true},
    {"<i4", PDL__NPY_I32, 4, true},  {"<i8", PDL__NPY_I64, 8, true},  {"<f2", PDL__NPY_F16, 2, false},
    {"<f4", PDL__NPY_F32, 4, false}, {"<f8", PDL__NPY_F64, 8, false},
};

static pdl_status_t refuse(const cursor_t *cursor, const char *what)
{
    return pdl_error(PDL_ERR_INPUT, "%s: not a .npy file that can be read: %s", cursor->name, what);
}

static bool take(cursor_t *cursor, const char *text)
{
    const size_t length = strlen(text);

    while (cursor->at < cursor->end && (*cursor->at == ' ' || *cursor->at == '\n')) cursor->at++;
    if ((size_t)(cursor->end - cursor->at) < length || memcmp(cursor->at, text, length) != 0) return false;
    cursor->at += length;
    return true;
}

static pdl_status_t read_type(cursor_t *cursor, pdl__npy_t *array)
{
    size_t i;

    if (!take(cursor, "'")) return refuse(cursor, "records are not supported, save one plain array");
    for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (!take(cursor, types[i].text)) continue;
        array->type = types[i].type;
        array->width = types[i].width;
        array->integers = types[i].integers;
        return take(cursor, "'") ? PDL_OK : refuse(cursor, "the type of its elements is not known");
    }
    return refuse(cursor, "its elements are not little-endian integers or floating point numbers of 1 to 8 bytes");
}

static pdl_status_t read_shape(cursor_t *cursor, pdl__npy_t *array)
{
    if (!take(cursor, "(")) return refuse(cursor, "the shape is not in brackets");
    while (!take(cursor, ")")) {
        int64_t extent = 0;
        bool    digits = false;

        if (array->rank == PDL__ARRAY_RANK) return refuse(cursor, "it has more than 5 axes");
        take(cursor, "");
        while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9') {
            extent = extent * 10 + (*cursor->at++ - '0');
            digits = true;
            if (extent > (int64_t)1 << 46) return refuse(cursor, "its shape is larger than any file");
        }
        if (!digits) return refuse(cursor, "its shape is not a list of numbers");
        array->size[array->rank++] = extent;
        if (!take(cursor, ",") && (cursor->at == cursor->end || *cursor->at != ')')) {
            return refuse(cursor, "its shape is not a list of numbers");
        }
    }
    return PDL_OK;
}

static pdl_status_t read_entries(cursor_t *cursor, pdl__npy_t *array)
{
    bool         type = false, order = false, shape = false;
    pdl_status_t st = PDL_OK;

    if (!take(cursor, "{")) return refuse(cursor, "its header is not a dictionary");
    while (st == PDL_OK && !take(cursor, "}")) {
        if (!type && take(cursor, "'descr'") && take(cursor, ":")) {
            type = true;
            st = read_type(cursor, array);
        } else if (!order && take(cursor, "'fortran_order'") && take(cursor, ":")) {
            order = true;
            if (!take(cursor, "False"))
                st = refuse(cursor, "it is in Fortran order, save it with numpy.ascontiguousarray");
        } else if (!shape && take(cursor, "'shape'") && take(cursor, ":")) {
            shape = true;
            st = read_shape(cursor, array);
        } else {
            return refuse(cursor, "its header has an entry that is not known, or twice");
        }
        take(cursor, ",");
    }
    if (st == PDL_OK && !(type && order && shape)) st = refuse(cursor, "its header lacks type, order or shape");
    return st;
}

pdl_status_t pdl__npy_read_memory(const uint8_t *data, size_t size, const char *name, pdl__npy_t *array)
{
    pdl__npy_t   found = {0};
    cursor_t     cursor = {.name = name};
    size_t       begin, header;
    pdl_status_t st;

    if (size < 12 || memcmp(data, "\x93NUMPY", 6) != 0) return refuse(&cursor, "it does not begin as one");
    if (data[6] < 1 || data[6] > 3) return refuse(&cursor, "its version is not 1 to 3");
    begin = data[6] == 1 ? 10 : 12;
    header = data[8] | (size_t)data[9] << 8;
    if (data[6] > 1) header |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
    if (header > size - begin) return refuse(&cursor, "it ends within its header");
    cursor.at = (const char *)data + begin;
    cursor.end = cursor.at + header;
    st = read_entries(&cursor, &found);
    if (st != PDL_OK) return st;
    if (found.rank == 0) return refuse(&cursor, "it is a single number, not an array of samples");
    if (!pdl__array_elements(found.size, found.rank, &found.elements)) {
        return refuse(&cursor, "an extent is 0 or its shape is larger than any file");
    }
    if ((size_t)found.elements != (size - begin - header) / found.width ||
        (size - begin - header) % found.width != 0) {
        return pdl_error(PDL_ERR_INPUT, "%s: %zu bytes of data where its shape says %" PRId64 " elements of %zu",
                         name, size - begin - header, found.elements, found.width);
    }
    found.data = data + begin + header;
    *array = found;
    return PDL_OK;
}

static float half_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t       exponent = half >> 10 & 31, mantissa = half & 1023, bits;
    float          value;

    if (exponent == 0) {
        value = (float)mantissa * (1.0f / 16777216); /* 2^-24 */
        return sign != 0 ? -value : value;
    }
    bits = sign | (exponent == 31 ? 0x7f800000 : (exponent + 112) << 23) | mantissa << 13;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Elements may be at any address, since the header has any length. */
#define LOAD(type)                              \
    do {                                        \
        type value_;                            \
        memcpy(&value_, place, sizeof(value_)); \
        return (double)value_;                  \
    } while (0)

double pdl__npy_element(const pdl__npy_t *array, int64_t index)
{
    const uint8_t *place = array->data + (size_t)index * array->width;

    switch (array->type) {
    case PDL__NPY_U8: return *place;
    case PDL__NPY_I8: LOAD(int8_t);
    case PDL__NPY_U16: LOAD(uint16_t);
    case PDL__NPY_I16: LOAD(int16_t);
    case PDL__NPY_U32: LOAD(uint32_t);
    case PDL__NPY_I32: LOAD(int32_t);
    case PDL__NPY_I64: LOAD(int64_t);
    case PDL__NPY_F16: return half_to_float((uint16_t)(place[0] | place[1] << 8));
    case PDL__NPY_F32: LOAD(float);
    case PDL__NPY_F64: LOAD(double);
    }
    return 0;
}
