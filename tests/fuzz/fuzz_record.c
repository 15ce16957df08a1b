/*
 * Any bytes given as the record of a sample are refused, or read into the room that such a sample takes. The first byte
 * chooses the kind of sample; the sum is put right, so that what is behind it is reached as well.
 */
#include "data/store/record.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const pdl_source_info_t kinds[] = {
    {.name = "input",
     .samples = 9,
     .shape = {.channels = 3, .extent = {4, 5, 1}, .rank = 2},
     .classes = 10,
     .target = PDL_TARGET_CLASS,
     .target_count = 1},
    {.name = "input",
     .samples = 9,
     .shape = {.channels = 1, .extent = {4, 5, 1}, .rank = 2},
     .classes = 10,
     .target = PDL_TARGET_MASK,
     .target_count = 20},
    {.name = "input",
     .samples = 9,
     .shape = {.channels = 7, .extent = {1, 1, 1}},
     .target = PDL_TARGET_VALUES,
     .target_count = 3},
    {.name = "input",
     .samples = 9,
     .shape = {.channels = 1, .extent = {6, 1, 1}, .rank = 1, .sequence = true},
     .tokens = true,
     .classes = 50,
     .target = PDL_TARGET_TOKENS,
     .target_count = 6},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const pdl_source_info_t *info = &kinds[size > 0 ? data[0] % 4 : 0];
    pdl__record_room_t       room;
    uint8_t                 *record;
    pdl_sample_t             sample;

    if (size < 1) return 0;
    data++;
    size--;
    record = malloc(size > 0 ? size : 1);
    assert(record != NULL);
    memcpy(record, data, size);
    if (size > 8) {
        const uint32_t sum = (uint32_t)crc32_z(0, record + 8, size - 8);

        memcpy(record + 4, &sum, sizeof(sum));
    }
    if (pdl__record_check(info, 5, record, (int64_t)size) == PDL_OK) {
        assert((int64_t)size <= pdl__record_most(info) && pdl__record_room_make(info, &room) == PDL_OK);
        sample = (pdl_sample_t){.values = room.values,
                                .tokens = room.tokens,
                                .labels = room.labels,
                                .numbers = room.numbers,
                                .shift = data[size - 1] % 16 - 2};
        assert(pdl__record_read(info, record, &sample) == PDL_OK);
        pdl__record_room_free(&room);
    } else {
        assert(strncmp(pdl_error_message(), "input", 5) == 0);
    }
    free(record);
    return 0;
}
