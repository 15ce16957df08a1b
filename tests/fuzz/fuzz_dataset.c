/*
 * Any bytes given to the reader of data set descriptions yield sizes that planning can count with, or an error that
 * names the file.
 */
#include <paradl/model/dataset.h>

#include <assert.h>
#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_dataset_t set;

    if (pdl_dataset_read_memory((const char *)data, size, "fuzz.yaml", &set) != PDL_OK) {
        assert(strstr(pdl_error_message(), "fuzz.yaml") != NULL);
        return 0;
    }
    assert(set.samples >= 0 && pdl_shape_elements(&set.shape) >= 0);
    assert(isfinite(set.bytes_per_sample) && set.bytes_per_sample >= 0);
    assert(isfinite(set.decode_s_per_sample) && set.decode_s_per_sample >= 0);
    return 0;
}
