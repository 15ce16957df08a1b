/*
 * Any bytes given to the reader of shards yield samples within the bytes, or an error.
 */
#include "data/source/tar.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl__tar_index_t index = {0};
    size_t           i;

    if (pdl__tar_read_memory(data, size, "input", &index) != PDL_OK) {
        assert(index.samples == NULL && strncmp(pdl_error_message(), "input", 5) == 0);
        assert(strchr(pdl_error_message(), '\n') == NULL);
        return 0;
    }
    for (i = 0; i < index.count; i++) {
        const pdl__tar_sample_t *sample = &index.samples[i];
        char                     name[PDL__TAR_TEXT];

        assert(sample->offset >= 512 && sample->offset <= size && sample->size <= size - sample->offset);
        assert(sample->label >= 0 && sample->label <= index.largest);
        assert(strchr(pdl__tar_entry_name(data, "input", sample, name), '\n') == NULL);
    }
    pdl__tar_free(&index);
    return 0;
}
