/*
 * Writes safetensors files tensor by tensor; only the largest one is ever in memory twice. Checksums are known when
 * the tensors have been written, so the header, which comes first and has room for them, is written again at the end.
 */
#include "train/checkpoint/safetensors.h"

#include <paradl/base/digest.h>
#include <paradl/base/output.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_BYTES 8

static void write_quoted(FILE *stream, const char *text)
{
    putc('"', stream);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(stream, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            fprintf(stream, "\\u%04x", (unsigned)*text);
        else
            putc(*text, stream);
    }
    putc('"', stream);
}

typedef struct layout {
    char  *header;
    size_t header_bytes, data_bytes, largest;
    size_t sum_at, sums_at; /* in the header: the digits of checksums */
} layout_t;

/* Room for the checksums; returns where the first begins. */
static size_t write_zeros(FILE *stream, const char *key, int count)
{
    size_t at;

    fprintf(stream, "\"%s\":\"", key);
    at = (size_t)ftell(stream);
    for (int i = 0; i < count; i++) fprintf(stream, "%s%0*d", i > 0 ? " " : "", PDL__SUM_DIGITS, 0);
    putc('"', stream);
    return at;
}

static void write_metadata(FILE *stream, const pdl_metadata_t *metadata, int count, int tensors, layout_t *layout)
{
    fputs("\"__metadata__\":{", stream);
    for (int i = 0; i < count; i++) {
        write_quoted(stream, metadata[i].key);
        putc(':', stream);
        write_quoted(stream, metadata[i].value);
        putc(',', stream);
    }
    layout->sum_at = write_zeros(stream, PDL__SUM_KEY, 1);
    putc(',', stream);
    layout->sums_at = write_zeros(stream, PDL__SUMS_KEY, tensors);
    putc('}', stream);
}

/* The sizes follow from type and shape; *end moves past this tensor. */
static pdl_status_t write_tensor(FILE *stream, const pdl_stored_t *tensor, size_t *end, size_t *largest)
{
    size_t      element_bytes = 0, bytes;
    const char *type = pdl__stored_type_name(tensor->type, &element_bytes);

    if (type == NULL) return pdl_error(PDL_ERR_INPUT, "tensor %s: its type cannot be written", tensor->name);
    if (tensor->rank < 0 || tensor->rank > PDL_SAFETENSORS_RANK)
        return pdl_error(PDL_ERR_INPUT, "tensor %s has %d dimensions, expected 0 to %d", tensor->name, tensor->rank,
                         PDL_SAFETENSORS_RANK);
    if (!pdl__stored_bytes(tensor->rank, tensor->dims, element_bytes, &bytes) || bytes > PTRDIFF_MAX - *end)
        return pdl_error(PDL_ERR_INPUT, "tensor %s: its shape is not possible", tensor->name);
    write_quoted(stream, tensor->name);
    fprintf(stream, ":{\"dtype\":\"%s\",\"shape\":[", type);
    for (int d = 0; d < tensor->rank; d++) fprintf(stream, "%s%lld", d > 0 ? "," : "", (long long)tensor->dims[d]);
    fprintf(stream, "],\"data_offsets\":[%zu,%zu]}", *end, *end + bytes);
    *end += bytes;
    if (bytes > *largest) *largest = bytes;
    return PDL_OK;
}

/* Padded with blanks, so that the tensors begin at a multiple of eight bytes, as other writers do it. */
static pdl_status_t make_header(const pdl_stored_t *tensors, int count, const pdl_metadata_t *metadata,
                                int metadata_count, layout_t *layout)
{
    FILE        *stream = open_memstream(&layout->header, &layout->header_bytes);
    pdl_status_t status = PDL_OK;

    if (stream == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    putc('{', stream);
    write_metadata(stream, metadata, metadata_count, count, layout);
    for (int i = 0; !status && i < count; i++) {
        putc(',', stream);
        status = write_tensor(stream, &tensors[i], &layout->data_bytes, &layout->largest);
    }
    putc('}', stream);
    while (ftell(stream) % 8 != 0) putc(' ', stream);
    if (fclose(stream) != 0 && !status) status = pdl_error(PDL_ERR_NOMEM, "out of memory");
    return status;
}

/* What is written must be readable: names are distinct and UTF-8, the header is not too long. */
static pdl_status_t check_header(const char *path, const layout_t *layout)
{
    pdl_safetensors_t *file;
    pdl_status_t       status;

    if (layout->header_bytes > PDL__HEADER_LIMIT)
        return pdl_error(PDL_ERR_LIMIT, "%s: the header would have %zu bytes, more than readers accept", path,
                         layout->header_bytes);
    file = calloc(1, sizeof(*file));
    if (file == NULL || (file->name = strdup(path)) == NULL) {
        free(file);
        return pdl_error(PDL_ERR_NOMEM, "out of memory");
    }
    status = pdl__safetensors_parse(file, layout->header, layout->header_bytes, NULL, layout->data_bytes);
    pdl_safetensors_close(file);
    return status;
}

static pdl_status_t write_bytes(FILE *stream, const char *path, const void *data, size_t bytes)
{
    errno = 0;
    if (bytes == 0 || fwrite(data, 1, bytes, stream) == bytes) return PDL_OK;
    return pdl_error(PDL_ERR_IO, "cannot write %s: %s", path, strerror(errno != 0 ? errno : EIO));
}

/* The header again, now with the checksums of the tensors and its own. */
static pdl_status_t write_sums(FILE *stream, const char *path, layout_t *layout)
{
    char *digits = layout->header + layout->sum_at;

    pdl__sum_print(pdl__header_sum(layout->header, layout->header_bytes, digits), digits);
    if (fseek(stream, LENGTH_BYTES, SEEK_SET) != 0)
        return pdl_error(PDL_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    return write_bytes(stream, path, layout->header, layout->header_bytes);
}

static pdl_status_t write_content(FILE *stream, const char *path, layout_t *layout, const pdl_stored_t *tensors,
                                  int count, pdl_fill_fn_t fill, void *context)
{
    unsigned char length[LENGTH_BYTES];
    void         *buffer = malloc(layout->largest > 0 ? layout->largest : 1);
    pdl_status_t  status;

    if (buffer == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory: %s needs %zu bytes", path, layout->largest);
    for (int i = 0; i < LENGTH_BYTES; i++) length[i] = (unsigned char)((uint64_t)layout->header_bytes >> 8 * i);
    status = write_bytes(stream, path, length, sizeof(length));
    if (!status) status = write_bytes(stream, path, layout->header, layout->header_bytes);
    for (int i = 0; !status && i < count; i++) {
        size_t element_bytes = 0, bytes = 0;

        pdl__stored_type_name(tensors[i].type, &element_bytes);
        pdl__stored_bytes(tensors[i].rank, tensors[i].dims, element_bytes, &bytes);
        status = fill(context, i, buffer);
        if (status) break;
        pdl__sum_print(pdl_sum64(buffer, bytes),
                       layout->header + layout->sums_at + (size_t)i * (PDL__SUM_DIGITS + 1));
        status = write_bytes(stream, path, buffer, bytes);
    }
    free(buffer);
    return status ? status : write_sums(stream, path, layout);
}

pdl_status_t pdl_safetensors_write(const char *path, const pdl_stored_t *tensors, int count,
                                   const pdl_metadata_t *metadata, int metadata_count, pdl_fill_fn_t fill,
                                   void *context)
{
    layout_t      layout = {0};
    pdl_output_t *output = NULL;
    pdl_status_t  status = make_header(tensors, count, metadata, metadata_count, &layout);

    if (!status) status = check_header(path, &layout);
    if (!status) status = pdl_output_open(path, &output);
    if (!status) {
        status = write_content(pdl_output_stream(output), path, &layout, tensors, count, fill, context);
        if (status)
            pdl_output_discard(output);
        else
            status = pdl_output_close(output);
    }
    free(layout.header);
    return status;
}
