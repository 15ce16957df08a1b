#include "report/page/pack.h"

#include "base/memory.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

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

void pdl__pack_element(const char *id, const void *data, size_t size, FILE *stream)
{
    fprintf(stream, "<script type=\"application/octet-stream\" id=\"%s\">", id);
    pdl__base64(data, size, stream);
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
