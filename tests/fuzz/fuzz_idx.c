/*
 * Any bytes given to the IDX reader yield an array whose elements can all be read, or an error.
 */
#include "data/source/idx.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl__idx_t array = {0};
    int64_t    elements = 1, sum = 0, i;

    if (pdl__idx_read_memory(data, size, "input", &array) != PDL_OK) {
        assert(array.data == NULL && strncmp(pdl_error_message(), "input", 5) == 0);
        return 0;
    }
    for (i = 0; i < array.rank; i++) elements *= array.size[i];
    for (i = 0; i < elements; i++) sum += array.data[i];
    assert(elements > 0 && sum >= 0);
    pdl__idx_free(&array);
    return 0;
}
