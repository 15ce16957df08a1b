#include "report/page/pack.h"

#include "base/memory.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

#define MOST_UNPACKED ((size_t)1 << 30)

void pdl__base64(const void *data, size_t size, FILE *stream)
{
    static const char    digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *from = data;

    for (size_t i = 0; i < size; i += 3) {
        size_t   left = size - i;
        uint32_t three =
            (uint32_t)from[i] << 16 | (left > 1 ? (uint32_t)from[i + 1] << 8 : 0) | (left > 2 ? from[i + 2] : 0);
        char four[4] = {digits[three >> 18], digits[three >> 12 & 63], left > 1 ? digits[three >> 6 & 63] : '=',
                        left > 2 ? digits[three & 63] : '='};

        fwrite(four, 1, 4, stream);
    }
}

/* Those of RFC 1924, with a comma in place of "<", which would begin markup. */
static const char digits85[] =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~";

/* Four bytes are five digits, the highest first; of fewer bytes one digit more than these. */
static void write_base85(const unsigned char *from, size_t size, FILE *stream)
{
    for (size_t i = 0; i < size; i += 4) {
        size_t   left = size - i < 4 ? size - i : 4;
        uint32_t four = 0;
        char     five[5];

        for (size_t k = 0; k < 4; k++) four = four << 8 | (k < left ? from[i + k] : 0);
        for (int k = 4; k >= 0; k--, four /= 85) five[k] = digits85[four % 85];
        fwrite(five, 1, left + 1, stream);
    }
}

void pdl__pack_element(const char *id, const void *data, size_t size, FILE *stream)
{
    fprintf(stream, "<script type=\"application/octet-stream\" id=\"%s\">", id);
    write_base85(data, size, stream);
    fputs("</script>\n", stream);
}

pdl_status_t pdl__pack(const void *data, size_t size, void **packed, size_t *length)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)size};
    uLong    room;
    int      result;

    if (size > UINT_MAX / 2) return pdl_error(PDL_ERR_LIMIT, "more than 2 GiB cannot be packed into a page");
    /* 15 bits of window; 16 more ask for the head of gzip, which has no time and no name then. */
    if (deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK)
        return pdl__no_memory("for packing a page");
    room = deflateBound(&z, (uLong)size);
    *packed = malloc(room);
    z.next_out = *packed;
    z.avail_out = (uInt)room;
    result = *packed != NULL ? deflate(&z, Z_FINISH) : Z_MEM_ERROR;
    *length = z.total_out;
    deflateEnd(&z);
    if (result == Z_STREAM_END) return PDL_OK;
    free(*packed);
    return pdl__no_memory("for packing a page");
}

static bool read_base85(const char *text, size_t size, unsigned char *to, size_t *length)
{
    int digit_of[256];

    for (int c = 0; c < 256; c++) digit_of[c] = -1;
    for (int d = 0; d < 85; d++) digit_of[(unsigned char)digits85[d]] = d;
    *length = 0;
    for (size_t i = 0; i < size; i += 5) {
        size_t   left = size - i < 5 ? size - i : 5;
        uint64_t four = 0;

        for (size_t k = 0; k < 5; k++) {
            int digit = k < left ? digit_of[(unsigned char)text[i + k]] : 84;

            if (digit < 0) return false;
            four = four * 85 + (uint64_t)digit;
        }
        if (left == 1 || (left == 5 && four > UINT32_MAX)) return false;
        for (size_t k = 0; k + 1 < left; k++) to[(*length)++] = (unsigned char)(four >> (24 - 8 * k));
    }
    return true;
}

/* A page says nothing of the size behind it: memory grows as it is filled, up to a limit. */
static bool inflate_all(z_stream *z, unsigned char **data)
{
    size_t room = 0;

    for (int result = Z_OK; result == Z_OK;) {
        unsigned char *grown;

        if (z->avail_out == 0) {
            room = room > 0 ? 2 * room : 1 << 16;
            grown = room <= MOST_UNPACKED ? realloc(*data, room) : NULL;
            if (grown == NULL) return false;
            *data = grown;
            z->next_out = grown + z->total_out;
            z->avail_out = (uInt)(room - z->total_out);
        }
        result = inflate(z, Z_NO_FLUSH);
        if (result == Z_STREAM_END) return true;
        if (result == Z_OK && z->avail_in == 0 && z->avail_out > 0) return false; /* it is cut */
    }
    return false;
}

pdl_status_t pdl__unpack(const char *text, size_t size, const char *path, void **data, size_t *length)
{
    unsigned char *packed = malloc(size + 1), *unpacked = NULL;
    z_stream       z = {.next_in = packed};
    size_t         packed_length;
    bool whole = packed != NULL && read_base85(text, size, packed, &packed_length) && packed_length < UINT_MAX;

    if (whole) z.avail_in = (uInt)packed_length;
    if (whole && inflateInit2(&z, 15 + 16) == Z_OK) {
        whole = inflate_all(&z, &unpacked);
        inflateEnd(&z);
    } else {
        whole = false;
    }
    free(packed);
    *length = z.total_out;
    *data = unpacked;
    if (whole) return PDL_OK;
    free(unpacked);
    return pdl_error(PDL_ERR_INPUT, "%s: what is packed in this page is damaged, or too large", path);
}
