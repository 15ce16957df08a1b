/*
 * Bytes of files: in memory or mapped, and expanded where they are gzip streams.
 */
#include "data/source/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* Files up to this size are copied into memory. */
#define READ_LIMIT ((size_t)256 << 20)

pdl_status_t pdl__out_of_memory(const char *name)
{
    return pdl_error(PDL_ERR_NOMEM, "out of memory while reading %s", name);
}

static pdl_status_t read_whole(int fd, const char *path, size_t size, pdl__bytes_t *bytes)
{
    uint8_t *data = malloc(size);
    size_t   done = 0;

    if (data == NULL) return pdl__out_of_memory(path);
    while (done < size) {
        ssize_t part = read(fd, data + done, size - done);

        if (part < 0 && errno == EINTR) continue;
        if (part <= 0) {
            free(data);
            if (part == 0) return pdl_error(PDL_ERR_IO, "%s became shorter while it was read", path);
            return pdl_error(PDL_ERR_IO, "cannot read %s: %s", path, strerror(errno));
        }
        done += (size_t)part;
    }
    *bytes = (pdl__bytes_t){.data = data, .size = size, .owned = data};
    return PDL_OK;
}

static pdl_status_t map_whole(int fd, const char *path, size_t size, pdl__bytes_t *bytes)
{
    void *data = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);

    if (data == MAP_FAILED) return pdl_error(PDL_ERR_IO, "cannot map %s: %s", path, strerror(errno));
    *bytes = (pdl__bytes_t){.data = data, .size = size, .mapped = true};
    return PDL_OK;
}

static pdl_status_t open_bytes(const char *path, size_t read_limit, pdl__bytes_t *bytes)
{
    struct stat  info;
    pdl_status_t st;
    int          fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) return pdl_error(PDL_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    if (fstat(fd, &info) != 0) {
        st = pdl_error(PDL_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    } else if (!S_ISREG(info.st_mode)) {
        st = pdl_error(PDL_ERR_INPUT, "%s is not a file", path);
    } else if (info.st_size == 0) {
        st = pdl_error(PDL_ERR_INPUT, "%s is empty", path);
    } else if ((size_t)info.st_size <= read_limit) {
        st = read_whole(fd, path, (size_t)info.st_size, bytes);
    } else {
        st = map_whole(fd, path, (size_t)info.st_size, bytes);
    }
    close(fd);
    return st;
}

pdl_status_t pdl__bytes_open(const char *path, pdl__bytes_t *bytes)
{
    return open_bytes(path, READ_LIMIT, bytes);
}

pdl_status_t pdl__bytes_map(const char *path, pdl__bytes_t *bytes)
{
    return open_bytes(path, 0, bytes);
}

void pdl__bytes_close(pdl__bytes_t *bytes)
{
    if (bytes->mapped) munmap((void *)bytes->data, bytes->size);
    free(bytes->owned);
    *bytes = (pdl__bytes_t){0};
}

bool pdl__gzip_is(const uint8_t *data, size_t size)
{
    return size >= 2 && data[0] == 0x1f && data[1] == 0x8b;
}

static pdl_status_t gzip_begin(z_stream *stream, const char *name)
{
    memset(stream, 0, sizeof(*stream));
    /* 15 bits of window, and 16 to ask for the gzip header and its check sum. */
    return inflateInit2(stream, 15 + 16) == Z_OK ? PDL_OK : pdl__out_of_memory(name);
}

/* Expands until `room` bytes are written, the stream ends (*ended) or it proves broken. Several streams may follow
   each other in one file. zlib counts in unsigned ints, so long inputs are handed over in pieces. */
static pdl_status_t gzip_fill(z_stream *stream, const uint8_t *end, const char *name, uint8_t *out, size_t room,
                              size_t *written, bool *ended)
{
    *written = 0;
    while (*written < room && !*ended) {
        size_t left = (size_t)(end - stream->next_in), space = room - *written;
        uInt   before;
        int    code;

        stream->avail_in = (uInt)(left < (1u << 30) ? left : 1u << 30);
        stream->next_out = out + *written;
        stream->avail_out = before = (uInt)(space < (1u << 30) ? space : 1u << 30);
        code = inflate(stream, Z_NO_FLUSH);
        *written += before - stream->avail_out;
        left = (size_t)(end - stream->next_in);
        if (code == Z_STREAM_END) {
            *ended = !pdl__gzip_is(stream->next_in, left);
            if (!*ended && inflateReset(stream) != Z_OK) return pdl__out_of_memory(name);
        } else if (code == Z_MEM_ERROR) {
            return pdl__out_of_memory(name);
        } else if (code == Z_BUF_ERROR || (code == Z_OK && left == 0 && stream->avail_out > 0)) {
            return pdl_error(PDL_ERR_INPUT, "%s: the gzip stream ends early; obtain the file again", name);
        } else if (code != Z_OK) {
            return pdl_error(PDL_ERR_INPUT, "%s: the gzip stream is damaged; obtain the file again", name);
        }
    }
    return PDL_OK;
}

pdl_status_t pdl__gzip_head(const uint8_t *data, size_t size, const char *name, uint8_t *out, size_t count)
{
    z_stream     stream;
    size_t       written;
    bool         ended = false;
    pdl_status_t st = gzip_begin(&stream, name);

    if (st != PDL_OK) return st;
    stream.next_in = (Bytef *)data;
    st = gzip_fill(&stream, data + size, name, out, count, &written, &ended);
    inflateEnd(&stream);
    if (st == PDL_OK && written < count) {
        st = pdl_error(PDL_ERR_INPUT, "%s: too short for its header; obtain the file again", name);
    }
    return st;
}

/* A stream ends with the length of what it holds, modulo 2^32. It may be wrong, so it is believed only as far as the
   densest possible stream of its size could go. */
static size_t gzip_guess(const uint8_t *data, size_t size)
{
    const uint8_t *last = data + size - 4;
    size_t         guess = 0;

    if (size > 18) guess = last[0] | (size_t)last[1] << 8 | (size_t)last[2] << 16 | (size_t)last[3] << 24;
    return guess < 65536 || guess / 1032 > size ? 65536 : guess + 1;
}

/* The buffer grows with what is really there: a stream that claims much and holds little takes little. */
static pdl_status_t gzip_grow(z_stream *stream, const uint8_t *end, const char *name, size_t limit, uint8_t **out,
                              size_t *length)
{
    const size_t guess = gzip_guess(stream->next_in, (size_t)(end - stream->next_in));
    size_t       room = 0, used = 0;
    bool         ended = false;

    while (!ended) {
        size_t       larger = room == 0 ? guess : room * 2, written;
        uint8_t     *buffer;
        pdl_status_t st;

        /* One byte more than the limit shows that there is too much. */
        if (larger > limit + 1) larger = limit + 1;
        buffer = realloc(*out, larger);
        if (buffer == NULL) return pdl__out_of_memory(name);
        *out = buffer;
        room = larger;
        st = gzip_fill(stream, end, name, buffer + used, room - used, &written, &ended);
        if (st != PDL_OK) return st;
        used += written;
        if (used > limit) {
            return pdl_error(PDL_ERR_INPUT,
                             "%s: expands to more than the %zu bytes expected; obtain the file again", name, limit);
        }
    }
    *length = used;
    return PDL_OK;
}

pdl_status_t pdl__gzip_expand(const uint8_t *data, size_t size, const char *name, size_t limit, uint8_t **out,
                              size_t *length)
{
    z_stream     stream;
    uint8_t     *buffer = NULL;
    pdl_status_t st = gzip_begin(&stream, name);

    if (st != PDL_OK) return st;
    stream.next_in = (Bytef *)data;
    st = gzip_grow(&stream, data + size, name, limit, &buffer, length);
    inflateEnd(&stream);
    if (st != PDL_OK) {
        free(buffer);
        return st;
    }
    *out = buffer;
    return PDL_OK;
}
