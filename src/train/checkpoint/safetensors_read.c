/*
 * Reads safetensors files: the file is mapped, its header checked, and tensors are used in place.
 */
#include "train/checkpoint/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LENGTH_BYTES 8

/* Eight bytes of header length, little-endian, then the header, then the tensors. */
static pdl_status_t read_layout(pdl_safetensors_t *file, const unsigned char *bytes, size_t length)
{
    uint64_t     header = 0;
    pdl_status_t status;

    if (length < LENGTH_BYTES)
        return pdl_error(PDL_ERR_INPUT, "%s: this is no safetensors file: it has %zu bytes", file->name, length);
    for (int i = LENGTH_BYTES - 1; i >= 0; i--) header = header << 8 | bytes[i];
    if (header > PDL__HEADER_LIMIT)
        return pdl_error(PDL_ERR_INPUT, "%s: this is no safetensors file: its header would have %llu bytes",
                         file->name, (unsigned long long)header);
    if (header > length - LENGTH_BYTES)
        return pdl_error(PDL_ERR_INPUT, "%s: the file is truncated: a header of %llu bytes in %zu bytes",
                         file->name, (unsigned long long)header, length);
    status = pdl__safetensors_parse(file, (const char *)bytes + LENGTH_BYTES, (size_t)header,
                                    bytes + LENGTH_BYTES + header, length - LENGTH_BYTES - (size_t)header);
    return status ? status : pdl__header_verify(file, (const char *)bytes + LENGTH_BYTES, (size_t)header);
}

static pdl_safetensors_t *create(const char *name)
{
    pdl_safetensors_t *file = calloc(1, sizeof(*file));

    if (file != NULL) file->name = strdup(name);
    if (file != NULL && file->name != NULL) return file;
    free(file);
    pdl_error(PDL_ERR_NOMEM, "out of memory");
    return NULL;
}

pdl_status_t pdl_safetensors_read_memory(const void *data, size_t length, const char *name,
                                         pdl_safetensors_t **file)
{
    pdl_safetensors_t *made = create(name);
    pdl_status_t       status;

    if (made == NULL) return PDL_ERR_NOMEM;
    status = read_layout(made, data, length);
    if (status) {
        pdl_safetensors_close(made);
        return status;
    }
    *file = made;
    return PDL_OK;
}

static pdl_status_t map_file(pdl_safetensors_t *file, int descriptor)
{
    struct stat info;
    void       *mapping;

    if (fstat(descriptor, &info) != 0)
        return pdl_error(PDL_ERR_IO, "cannot read %s: %s", file->name, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return pdl_error(PDL_ERR_INPUT, "cannot read %s: it is no ordinary file", file->name);
    if (info.st_size < LENGTH_BYTES)
        return pdl_error(PDL_ERR_INPUT, "%s: this is no safetensors file: it has %lld bytes", file->name,
                         (long long)info.st_size);
    mapping = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapping == MAP_FAILED) return pdl_error(PDL_ERR_IO, "cannot read %s: %s", file->name, strerror(errno));
    file->mapping = mapping;
    file->mapped_bytes = (size_t)info.st_size;
    return PDL_OK;
}

pdl_status_t pdl_safetensors_open(const char *path, pdl_safetensors_t **file)
{
    pdl_safetensors_t *made;
    pdl_status_t       status = PDL_ERR_NOMEM;
    int                descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (descriptor < 0) return pdl_error(PDL_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    made = create(path);
    if (made != NULL) {
        status = map_file(made, descriptor);
        if (!status) status = read_layout(made, made->mapping, made->mapped_bytes);
        if (status) pdl_safetensors_close(made);
    }
    close(descriptor);
    if (!status) *file = made;
    return status;
}

void pdl_safetensors_close(pdl_safetensors_t *file)
{
    if (file == NULL) return;
    if (file->mapping != NULL) munmap(file->mapping, file->mapped_bytes);
    free(file->tensor);
    free(file->by_name);
    free(file->metadata);
    free(file->text);
    free(file->name);
    free(file);
}

const char *pdl_safetensors_name(const pdl_safetensors_t *file)
{
    return file->name;
}

int pdl_safetensors_count(const pdl_safetensors_t *file)
{
    return file->count;
}

const pdl_stored_t *pdl_safetensors_at(const pdl_safetensors_t *file, int i)
{
    return &file->tensor[i];
}

const pdl_stored_t *pdl_safetensors_find(const pdl_safetensors_t *file, const char *name)
{
    int low = 0, high = file->count;

    while (low < high) {
        int middle = low + (high - low) / 2;
        int order = strcmp(name, file->by_name[middle]->name);

        if (order == 0) return file->by_name[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const char *pdl_safetensors_metadata(const pdl_safetensors_t *file, const char *key)
{
    int low = 0, high = file->metadata_count;

    while (low < high) {
        int middle = low + (high - low) / 2;
        int order = strcmp(key, file->metadata[middle].key);

        if (order == 0) return file->metadata[middle].value;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* IEEE half precision: five bits of exponent, ten of fraction. */
static float half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = half >> 10 & 0x1fu, fraction = half & 0x3ffu;
    uint32_t bits;
    float    value;

    if (exponent == 0) {
        value = (float)fraction * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    bits = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | fraction << 13;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static float bfloat_to_float(uint16_t upper)
{
    uint32_t bits = (uint32_t)upper << 16;
    float    value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* One element; the bytes in the file need not be aligned, so it is copied out first. */
static float to_float(pdl_stored_type_t type, const char *bytes, size_t element_bytes)
{
    union {
        double   f64;
        int64_t  i64;
        int32_t  i32;
        uint16_t u16;
        uint8_t  u8;
    } x;

    memcpy(&x, bytes, element_bytes);
    switch (type) {
    case PDL_STORED_F64: return (float)x.f64;
    case PDL_STORED_BF16: return bfloat_to_float(x.u16);
    case PDL_STORED_F16: return half_to_float(x.u16);
    case PDL_STORED_I32: return (float)x.i32;
    case PDL_STORED_I64: return (float)x.i64;
    case PDL_STORED_U8: return (float)x.u8;
    case PDL_STORED_F32:
    case PDL_STORED_OTHER: break;
    }
    return 0;
}

pdl_status_t pdl_stored_to_float(const pdl_stored_t *tensor, int64_t count, float *out)
{
    size_t element_bytes = 1;

    if (pdl__stored_type_name(tensor->type, &element_bytes) == NULL)
        return pdl_error(PDL_ERR_UNSUPPORTED, "tensor %s is stored in a type that cannot be used as real numbers",
                         tensor->name);
    if (count < 0 || (uint64_t)count != tensor->bytes / element_bytes)
        return pdl_error(PDL_ERR_INPUT, "tensor %s has %zu elements, %lld are wanted", tensor->name,
                         tensor->bytes / element_bytes, (long long)count);
    if (tensor->type == PDL_STORED_F32) {
        if (count > 0) memcpy(out, tensor->data, tensor->bytes);
        return PDL_OK;
    }
    for (int64_t i = 0; i < count; i++)
        out[i] = to_float(tensor->type, (const char *)tensor->data + (size_t)i * element_bytes, element_bytes);
    return PDL_OK;
}
