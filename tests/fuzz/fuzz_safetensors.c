/*
 * Any bytes given to the safetensors reader yield tensors inside them one after another, or an error; and any
 * metadata is an info of a checkpoint, or no info.
 */
#include "train/checkpoint/checkpoint.h"

#include <paradl/train/safetensors.h>

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t *walk_tensor(const pdl_safetensors_t *file, const pdl_stored_t *tensor, const uint8_t *end)
{
    int64_t count = 1;

    assert(tensor->rank >= 0 && tensor->rank <= PDL_SAFETENSORS_RANK);
    assert(pdl_safetensors_find(file, tensor->name) == tensor);
    if (end != NULL) assert(tensor->data == end);
    for (int d = 0; d < tensor->rank; d++) assert(tensor->dims[d] >= 0);
    for (int d = 0; d < tensor->rank; d++) count = tensor->bytes > 0 ? count * tensor->dims[d] : 0;
    if (tensor->type != PDL_STORED_OTHER) {
        float *values = malloc(((size_t)count + 1) * sizeof(*values));

        assert(values != NULL && pdl_stored_to_float(tensor, count, values) == PDL_OK);
        free(values);
    }
    return (const uint8_t *)tensor->data + tensor->bytes;
}

/* An info that was read can be written again. */
static void walk_info(const pdl_safetensors_t *file)
{
    pdl_checkpoint_info_t info;
    pdl__info_text_t      text;

    if (pdl__checkpoint_info_read(file, &info) != PDL_OK) {
        assert(strncmp(pdl_error_message(), "input: ", 7) == 0);
        return;
    }
    assert(info.step >= 0 && info.model != NULL && pdl_optimizer_check(&info.optimizer) == PDL_OK);
    pdl__checkpoint_info_write(&info, &text);
    assert(text.count <= PDL__INFO_ENTRIES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_safetensors_t *file = NULL;
    const uint8_t     *end = NULL;

    if (pdl_safetensors_read_memory(data, size, "input", &file) != PDL_OK) {
        assert(file == NULL && strncmp(pdl_error_message(), "input: ", 7) == 0);
        return 0;
    }
    for (int i = 0; i < pdl_safetensors_count(file); i++) end = walk_tensor(file, pdl_safetensors_at(file, i), end);
    assert(pdl_safetensors_count(file) == 0 || end == data + size);
    walk_info(file);
    pdl_safetensors_close(file);
    return 0;
}
