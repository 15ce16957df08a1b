/*
 * Samples as records and back, bit by bit.
 */
#include "data/store/record.h"

#include "data/source/source.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define MAGIC 0x72646c70u /* "pldr" */

typedef struct head {
    uint32_t magic, sum;
    int64_t  id, elements, targets;
    uint8_t  form[2], zero[6];
} head_t;

_Static_assert(sizeof(head_t) == 40, "the head of a record has no gaps");

/* How the numbers of a part are kept. */
enum {
    FORM_PIXELS, /* floats that are k / 255: one byte */
    FORM_BYTES,  /* integers below 256 */
    FORM_SHORTS, /* integers below 65536: two bytes */
    FORM_FLOATS,
    FORM_INTEGERS, /* four bytes */
    FORM_COUNT
};
static const int64_t form_bytes[FORM_COUNT] = {1, 1, 2, 4, 4};

static bool targets_are_numbers(const pdl_source_info_t *info)
{
    return info->target == PDL_TARGET_VALUES;
}

/* Most elements of the first part: a window of tokens, its targets, and as many more as it can be moved by. */
static int64_t most_elements(const pdl_source_info_t *info)
{
    return info->tokens ? 2 * info->target_count : pdl_shape_elements(&info->shape);
}

static int64_t target_elements(const pdl_source_info_t *info)
{
    return info->tokens ? 0 : info->target_count;
}

int64_t pdl__record_most(const pdl_source_info_t *info)
{
    return (int64_t)sizeof(head_t) + 4 * (most_elements(info) + target_elements(info));
}

pdl_status_t pdl__record_room_make(const pdl_source_info_t *info, pdl__record_room_t *room)
{
    const size_t elements = (size_t)most_elements(info), targets = (size_t)info->target_count;

    *room = (pdl__record_room_t){0};
    if (info->tokens) {
        room->tokens = calloc(targets, sizeof(*room->tokens));
        room->stretch = calloc(elements, sizeof(*room->stretch));
    } else {
        room->values = calloc(elements > 0 ? elements : 1, sizeof(*room->values));
    }
    if (targets_are_numbers(info)) {
        room->numbers = calloc(targets, sizeof(*room->numbers));
    } else {
        room->labels = calloc(targets, sizeof(*room->labels));
    }
    if ((info->tokens ? room->tokens != NULL && room->stretch != NULL : room->values != NULL) &&
        (room->numbers != NULL || room->labels != NULL))
        return PDL_OK;
    pdl__record_room_free(room);
    return pdl__out_of_memory(info->name);
}

void pdl__record_room_free(pdl__record_room_t *room)
{
    free(room->values);
    free(room->numbers);
    free(room->tokens);
    free(room->labels);
    free(room->stretch);
    *room = (pdl__record_room_t){0};
}

/* ---- parts ---- */

static float pixel_value(uint8_t pixel)
{
    return (float)pixel / 255.0f;
}

static uint32_t float_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* Whether all are k / 255 as readers of pixels compute it; the bits are compared, so that a negative zero is not. */
static bool pack_pixels(const float *values, int64_t count, uint8_t *out)
{
    for (int64_t i = 0; i < count; i++) {
        const float scaled = values[i] * 255.0f;

        if (!(scaled > -0.5f && scaled < 255.5f)) return false;
        out[i] = (uint8_t)(scaled + 0.5f);
        if (float_bits(pixel_value(out[i])) != float_bits(values[i])) return false;
    }
    return true;
}

static int put_floats(const float *values, int64_t count, uint8_t *out)
{
    if (pack_pixels(values, count, out)) return FORM_PIXELS;
    memcpy(out, values, (size_t)count * sizeof(*values));
    return FORM_FLOATS;
}

static int put_integers(const int32_t *values, int64_t count, uint8_t *out)
{
    uint32_t all = 0;

    for (int64_t i = 0; i < count; i++) all |= (uint32_t)values[i];
    if (all < 1u << 8) {
        for (int64_t i = 0; i < count; i++) out[i] = (uint8_t)values[i];
        return FORM_BYTES;
    }
    if (all < 1u << 16) {
        for (int64_t i = 0; i < count; i++) {
            const uint16_t value = (uint16_t)values[i];

            memcpy(out + 2 * i, &value, sizeof(value));
        }
        return FORM_SHORTS;
    }
    memcpy(out, values, (size_t)count * sizeof(*values));
    return FORM_INTEGERS;
}

static void take_floats(int form, const uint8_t *part, int64_t count, float *values)
{
    if (form == FORM_FLOATS) {
        memcpy(values, part, (size_t)count * sizeof(*values));
        return;
    }
    for (int64_t i = 0; i < count; i++) values[i] = pixel_value(part[i]);
}

static void take_integers(int form, const uint8_t *part, int64_t first, int64_t count, int32_t *values)
{
    part += first * form_bytes[form];
    switch (form) {
    case FORM_BYTES:
        for (int64_t i = 0; i < count; i++) values[i] = part[i];
        break;
    case FORM_SHORTS:
        for (int64_t i = 0; i < count; i++) {
            uint16_t value;

            memcpy(&value, part + 2 * i, sizeof(value));
            values[i] = value;
        }
        break;
    default: memcpy(values, part, (size_t)count * sizeof(*values)); break;
    }
}

/* ---- records ---- */

static uint32_t sum_of(const uint8_t *record, int64_t bytes)
{
    const size_t from = offsetof(head_t, id);

    return (uint32_t)crc32_z(0, record + from, (size_t)bytes - from);
}

/* The tokens of the window and of all windows that it can be moved to. Only the last window of a source cannot be moved
   as far as it is long, and how far it can is what the source says: beyond that it repeats itself. */
static pdl_status_t read_stretch(pdl_source_t *source, int64_t id, const pdl__record_room_t *room, int64_t *length)
{
    const int64_t window = source->info.target_count;
    const bool    last = id == source->info.samples - 1;
    pdl_sample_t  sample = {.tokens = room->tokens, .labels = room->labels};
    pdl_status_t  status = pdl_source_read(source, id, &sample);
    int64_t       reach = 0;

    if (status) return status;
    room->stretch[0] = room->tokens[0];
    memcpy(room->stretch + 1, room->labels, (size_t)window * sizeof(*room->labels));
    for (sample.shift = last ? 1 : window - 1; sample.shift > 0 && sample.shift < window; sample.shift++) {
        status = pdl_source_read(source, id, &sample);
        if (status) return status;
        if (!last) {
            memcpy(room->stretch + window, room->labels, (size_t)window * sizeof(*room->labels));
            reach = window - 1;
        } else {
            room->stretch[window + sample.shift] = room->labels[window - 1];
            /* It has moved as long as the window is not the one before. */
            if (memcmp(room->tokens, room->stretch + reach, (size_t)window * sizeof(*room->tokens)) != 0 ||
                memcmp(room->labels, room->stretch + reach + 1, (size_t)window * sizeof(*room->labels)) != 0)
                reach = sample.shift;
        }
    }
    *length = window + 1 + reach;
    return PDL_OK;
}

pdl_status_t pdl__record_make(pdl_source_t *source, int64_t id, const pdl__record_room_t *room, uint8_t *record,
                              int64_t *bytes)
{
    const pdl_source_info_t *info = &source->info;
    head_t                   head = {.magic = MAGIC, .id = id, .targets = target_elements(info)};
    uint8_t                 *part = record + sizeof(head);
    const pdl_sample_t       sample = {.values = room->values, .labels = room->labels, .numbers = room->numbers};
    pdl_status_t             status;

    if (info->tokens) {
        status = read_stretch(source, id, room, &head.elements);
        if (status) return status;
        head.form[0] = (uint8_t)put_integers(room->stretch, head.elements, part);
    } else {
        status = pdl_source_read(source, id, &sample);
        if (status) return status;
        head.elements = most_elements(info);
        head.form[0] = (uint8_t)put_floats(room->values, head.elements, part);
    }
    part += head.elements * form_bytes[head.form[0]];
    head.form[1] = (uint8_t)(targets_are_numbers(info) ? put_floats(room->numbers, head.targets, part)
                                                       : put_integers(room->labels, head.targets, part));
    part += head.targets * form_bytes[head.form[1]];
    *bytes = part - record;
    memcpy(record, &head, sizeof(head));
    head.sum = sum_of(record, *bytes);
    memcpy(record, &head, sizeof(head));
    return PDL_OK;
}

static bool form_fits(int form, bool floats)
{
    if (floats) return form == FORM_PIXELS || form == FORM_FLOATS;
    return form == FORM_BYTES || form == FORM_SHORTS || form == FORM_INTEGERS;
}

static bool head_fits(const pdl_source_info_t *info, const head_t *head, int64_t bytes)
{
    const int64_t most = most_elements(info), least = info->tokens ? info->target_count + 1 : most;

    if (head->magic != MAGIC || !form_fits(head->form[0], !info->tokens) ||
        !form_fits(head->form[1], targets_are_numbers(info)))
        return false;
    if (head->elements < least || head->elements > (most > least ? most : least)) return false;
    if (head->targets != target_elements(info)) return false;
    return bytes == (int64_t)sizeof(*head) + head->elements * form_bytes[head->form[0]] +
                        head->targets * form_bytes[head->form[1]];
}

pdl_status_t pdl__record_check(const pdl_source_info_t *info, int64_t id, const uint8_t *record, int64_t bytes)
{
    static const uint8_t zero[6];
    head_t               head;

    if (bytes < (int64_t)sizeof(head)) {
        return pdl_error(PDL_ERR_INPUT, "%s: the record of sample %" PRId64 " was cut off after %" PRId64 " bytes",
                         info->name, id, bytes);
    }
    memcpy(&head, record, sizeof(head));
    if (!head_fits(info, &head, bytes) || memcmp(head.zero, zero, sizeof(zero)) != 0 ||
        head.sum != sum_of(record, bytes)) {
        return pdl_error(PDL_ERR_INPUT,
                         "%s: the record of sample %" PRId64 " (%" PRId64 " bytes) is cut off or damaged",
                         info->name, id, bytes);
    }
    if (head.id == id) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "%s: a record of sample %" PRId64 " came in place of sample %" PRId64,
                     info->name, head.id, id);
}

pdl_status_t pdl__record_read(const pdl_source_info_t *info, const uint8_t *record, const pdl_sample_t *sample)
{
    const uint8_t *part = record + sizeof(head_t);
    head_t         head;

    memcpy(&head, record, sizeof(head));
    if (info->tokens) {
        const int64_t window = info->target_count, reach = head.elements - window - 1;
        const int64_t shift = sample->shift < 0 ? 0 : sample->shift < reach ? sample->shift : reach;

        take_integers(head.form[0], part, shift, window, sample->tokens);
        take_integers(head.form[0], part, shift + 1, window, sample->labels);
        return PDL_OK;
    }
    take_floats(head.form[0], part, head.elements, sample->values);
    part += head.elements * form_bytes[head.form[0]];
    if (targets_are_numbers(info)) {
        take_floats(head.form[1], part, head.targets, sample->numbers);
    } else {
        take_integers(head.form[1], part, 0, head.targets, sample->labels);
    }
    return PDL_OK;
}
