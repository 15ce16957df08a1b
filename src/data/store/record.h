/*
 * A sample as bytes: what a store holds and ranks send to each other. Internal to the module.
 *
 * A record is a head and two parts, elements (values or tokens) and targets (labels or numbers), each in the narrowest
 * form that gives back every bit. Numbers are in the byte order of the machine.
 *
 *     u32 magic, u32 sum   sum: CRC-32 of all that follows it
 *     i64 id
 *     i64 elements         of the first part
 *     i64 targets          of the second part; tokens: 0, targets are the tokens one further
 *     u8  form[2]          of the two parts, then 6 bytes 0
 *
 * A token sample holds the tokens of its window and those after it, as far as the window can be moved.
 */
#ifndef PDL_DATA_STORE_RECORD_H
#define PDL_DATA_STORE_RECORD_H

#include <paradl/data/data.h>
#include <stdint.h>

/* Most bytes of a record of such a source. */
int64_t pdl__record_most(const pdl_source_info_t *info);
/* Room for one sample as the source delivers it, windows moved as far as they go included. */
typedef struct pdl__record_room {
    float   *values, *numbers;
    int32_t *tokens, *labels, *stretch;
} pdl__record_room_t;
pdl_status_t pdl__record_room_make(const pdl_source_info_t *info, pdl__record_room_t *room);
void         pdl__record_room_free(pdl__record_room_t *room);

/* Reads sample `id` from the source and writes its record, of *bytes. */
pdl_status_t pdl__record_make(pdl_source_t *source, int64_t id, const pdl__record_room_t *room, uint8_t *record,
                              int64_t *bytes);
/* Whether these bytes are a whole record of sample `id` of such a source, with the right sum. */
pdl_status_t pdl__record_check(const pdl_source_info_t *info, int64_t id, const uint8_t *record, int64_t bytes);
/* What the source would have delivered; the record has been checked. */
pdl_status_t pdl__record_read(const pdl_source_info_t *info, const uint8_t *record, const pdl_sample_t *sample);

#endif
