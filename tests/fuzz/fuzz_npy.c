/*
 * Any bytes given to the NumPy reader yield an array whose elements can all be read and whose axes have a meaning, or an
 * error.
 */
#include "data/source/npy.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void interpret(const pdl__npy_t *array, const pdl_shape_t *asked)
{
    pdl__array_layout_t layout;

    if (pdl__array_layout("input", array->size + 1, array->rank - 1, array->width == 1, asked, &layout) != PDL_OK) {
        assert(strncmp(pdl_error_message(), "input", 5) == 0);
        return;
    }
    assert(layout.channels * layout.positions == array->elements / array->size[0]);
    assert(layout.resize || pdl_shape_elements(&layout.shape) == layout.channels * layout.positions);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const pdl_shape_t none = {0}, image = {.channels = 3, .extent = {8, 8, 1}, .rank = 2},
                      vector = {.channels = 12, .extent = {1, 1, 1}};
    pdl__npy_t array = {0};
    double     sum = 0;
    int64_t    i;

    if (pdl__npy_read_memory(data, size, "input", &array) != PDL_OK) {
        assert(array.data == NULL && strncmp(pdl_error_message(), "input", 5) == 0);
        return 0;
    }
    for (i = 0; i < array.elements; i++) sum += pdl__npy_element(&array, i);
    assert(sum != 0.123);
    interpret(&array, &none);
    interpret(&array, &image);
    interpret(&array, &vector);
    return 0;
}
