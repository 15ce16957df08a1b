/*
 * The header of a safetensors file is one JSON object: tensor names to {"dtype", "shape", "data_offsets"}, and an
 * optional "__metadata__" of strings. Nothing else is accepted, so this parser knows only that subset: objects,
 * strings with escapes, and integers without a sign. The file is untrusted; every length is checked before use.
 */
#include "train/checkpoint/safetensors.h"
#include "train/checkpoint/safetensors_json.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char       *name;
    size_t            bytes;
    pdl_stored_type_t type;
} types[] = {
    {"F32", 4, PDL_STORED_F32},       {"F64", 8, PDL_STORED_F64},       {"BF16", 2, PDL_STORED_BF16},
    {"F16", 2, PDL_STORED_F16},       {"I32", 4, PDL_STORED_I32},       {"I64", 8, PDL_STORED_I64},
    {"U8", 1, PDL_STORED_U8},         {"BOOL", 1, PDL_STORED_OTHER},    {"I8", 1, PDL_STORED_OTHER},
    {"I16", 2, PDL_STORED_OTHER},     {"U16", 2, PDL_STORED_OTHER},     {"U32", 4, PDL_STORED_OTHER},
    {"U64", 8, PDL_STORED_OTHER},     {"F8_E4M3", 1, PDL_STORED_OTHER}, {"F8_E5M2", 1, PDL_STORED_OTHER},
    {"F8_E8M0", 1, PDL_STORED_OTHER}, {"C64", 8, PDL_STORED_OTHER},
};

size_t pdl__stored_type_find(const char *name, pdl_stored_type_t *type)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(types[i].name, name) != 0) continue;
        *type = types[i].type;
        return types[i].bytes;
    }
    return 0;
}

const char *pdl__stored_type_name(pdl_stored_type_t type, size_t *element_bytes)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (types[i].type != type || type == PDL_STORED_OTHER) continue;
        *element_bytes = types[i].bytes;
        return types[i].name;
    }
    return NULL;
}

bool pdl__stored_bytes(int rank, const int64_t *dims, size_t element_bytes, size_t *bytes)
{
    size_t product = element_bytes;

    for (int d = 0; d < rank; d++) {
        if (dims[d] < 0) return false;
        if (dims[d] == 0) {
            *bytes = 0;
            return true;
        }
    }
    for (int d = 0; d < rank; d++) {
        if ((uint64_t)dims[d] > (size_t)PTRDIFF_MAX / product) return false;
        product *= (size_t)dims[d];
    }
    *bytes = product;
    return true;
}

typedef struct entry {
    pdl_stored_t tensor;
    size_t       offset;
} entry_t;

typedef struct description {
    size_t  element_bytes;
    bool    has_type, has_shape, has_offsets;
    int64_t offset[2];
} description_t;

static pdl_status_t read_type(pdl__scanner_t *s, pdl_stored_t *tensor, description_t *found)
{
    const char  *type;
    pdl_status_t status = pdl__scan_string(s, &type);

    if (status) return status;
    found->element_bytes = pdl__stored_type_find(type, &tensor->type);
    if (found->element_bytes == 0)
        return pdl_error(PDL_ERR_INPUT, "%s: tensor %s has the unknown type %s", s->file, tensor->name, type);
    return PDL_OK;
}

/* One member of a tensor's description; each comes once. */
static pdl_status_t read_attribute(pdl__scanner_t *s, pdl_stored_t *tensor, description_t *found)
{
    const char  *key;
    pdl_status_t status = pdl__scan_string(s, &key);
    bool        *seen;
    int          count = 2;

    if (!status) status = pdl__scan_expect(s, ':');
    if (status) return status;
    seen = strcmp(key, "dtype") == 0          ? &found->has_type
           : strcmp(key, "shape") == 0        ? &found->has_shape
           : strcmp(key, "data_offsets") == 0 ? &found->has_offsets
                                              : NULL;
    if (seen == NULL)
        return pdl_error(PDL_ERR_INPUT, "%s: tensor %s has the unknown attribute \"%s\"", s->file, tensor->name,
                         key);
    if (*seen) return pdl__scan_fail(s, "an attribute comes twice");
    *seen = true;
    if (seen == &found->has_type) {
        status = read_type(s, tensor, found);
    } else if (seen == &found->has_shape) {
        status = pdl__scan_integers(s, PDL_SAFETENSORS_RANK, "a tensor has more than 8 dimensions", tensor->dims,
                                    &tensor->rank);
    } else {
        status = pdl__scan_integers(s, 2, "expected two offsets", found->offset, &count);
    }
    return !status && count != 2 ? pdl__scan_fail(s, "expected two offsets") : status;
}

static pdl_status_t read_tensor(pdl__scanner_t *s, entry_t *entry, size_t data_bytes)
{
    pdl_stored_t *tensor = &entry->tensor;
    description_t found = {0};
    size_t        bytes = 0;
    bool          more = true;
    pdl_status_t  status = pdl__scan_expect(s, '{');

    while (!status && more) {
        status = read_attribute(s, tensor, &found);
        if (!status) status = pdl__scan_next(s, '}', &more);
    }
    if (status) return status;
    if (!found.has_type || !found.has_shape || !found.has_offsets)
        return pdl_error(PDL_ERR_INPUT, "%s: tensor %s lacks its %s", s->file, tensor->name,
                         !found.has_type    ? "dtype"
                         : !found.has_shape ? "shape"
                                            : "data_offsets");
    if (found.offset[0] > found.offset[1] || (uint64_t)found.offset[1] > data_bytes)
        return pdl_error(PDL_ERR_INPUT,
                         "%s: tensor %s is at bytes %lld to %lld of %zu; the file is truncated or damaged", s->file,
                         tensor->name, (long long)found.offset[0], (long long)found.offset[1], data_bytes);
    tensor->bytes = (size_t)(found.offset[1] - found.offset[0]);
    if (!pdl__stored_bytes(tensor->rank, tensor->dims, found.element_bytes, &bytes) || bytes != tensor->bytes)
        return pdl_error(PDL_ERR_INPUT, "%s: tensor %s has %zu bytes, which its type and shape do not give",
                         s->file, tensor->name, tensor->bytes);
    entry->offset = (size_t)found.offset[0];
    return PDL_OK;
}

static pdl_status_t out_of_memory(void)
{
    pdl_error(PDL_ERR_NOMEM, "out of memory");
    return PDL_ERR_NOMEM;
}

/* Room for one more element; arrays grow by half, so that a long header costs no more than its length. */
static void *grown(void *array, int count, int *capacity, size_t element_bytes)
{
    if (count < *capacity) return array;
    if (count > INT_MAX / 2 - 64) return NULL;
    *capacity = count + count / 2 + 64;
    return realloc(array, (size_t)*capacity * element_bytes);
}

static int compare_metadata(const void *a, const void *b)
{
    return strcmp(((const pdl_metadata_t *)a)->key, ((const pdl_metadata_t *)b)->key);
}

static pdl_status_t read_metadata(pdl__scanner_t *s, pdl_safetensors_t *file)
{
    pdl_status_t status = pdl__scan_expect(s, '{');
    int          capacity = 0;
    bool         more = true;

    if (!status && pdl__scan_take(s, '}')) return PDL_OK;
    while (!status && more) {
        pdl_metadata_t *array = grown(file->metadata, file->metadata_count, &capacity, sizeof(*array));

        if (array == NULL) return out_of_memory();
        file->metadata = array;
        status = pdl__scan_string(s, &array[file->metadata_count].key);
        if (!status) status = pdl__scan_expect(s, ':');
        if (!status) status = pdl__scan_string(s, &array[file->metadata_count].value);
        if (!status) status = pdl__scan_next(s, '}', &more);
        file->metadata_count++;
    }
    if (status) return status;
    qsort(file->metadata, (size_t)file->metadata_count, sizeof(*file->metadata), compare_metadata);
    for (int i = 1; i < file->metadata_count; i++) {
        if (strcmp(file->metadata[i].key, file->metadata[i - 1].key) == 0)
            return pdl_error(PDL_ERR_INPUT, "%s: the metadata has two values for \"%s\"", s->file,
                             file->metadata[i].key);
    }
    return PDL_OK;
}

static pdl_status_t read_members(pdl__scanner_t *s, pdl_safetensors_t *file, size_t data_bytes, entry_t **entries)
{
    int          capacity = 0;
    bool         more = true, metadata = false;
    pdl_status_t status = pdl__scan_expect(s, '{');

    file->count = 0;
    if (!status && pdl__scan_take(s, '}')) return PDL_OK;
    while (!status && more) {
        entry_t *array = grown(*entries, file->count, &capacity, sizeof(*array));

        if (array == NULL) return out_of_memory();
        *entries = array;
        array[file->count] = (entry_t){0};
        status = pdl__scan_string(s, &array[file->count].tensor.name);
        if (!status) status = pdl__scan_expect(s, ':');
        if (status) return status;
        if (strcmp(array[file->count].tensor.name, "__metadata__") == 0) {
            if (metadata) return pdl__scan_fail(s, "\"__metadata__\" comes twice");
            metadata = true;
            status = read_metadata(s, file);
        } else {
            status = read_tensor(s, &array[file->count], data_bytes);
            file->count++;
        }
        if (!status) status = pdl__scan_next(s, '}', &more);
    }
    return status;
}

static int compare_offsets(const void *a, const void *b)
{
    const entry_t *x = a, *y = b;

    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->tensor.bytes > y->tensor.bytes) - (x->tensor.bytes < y->tensor.bytes);
}

/* The tensors' bytes follow one another and fill the file: no overlaps that would let two names share storage, and
   no holes where something could be hidden. */
static pdl_status_t place_tensors(pdl_safetensors_t *file, entry_t *entries, const unsigned char *data,
                                  size_t data_bytes)
{
    size_t end = 0;

    if (file->count > 0) qsort(entries, (size_t)file->count, sizeof(*entries), compare_offsets);
    for (int i = 0; i < file->count; i++) {
        if (entries[i].offset != end)
            return pdl_error(PDL_ERR_INPUT,
                             "%s: tensor %s begins at byte %zu, but the one before it ends at byte %zu", file->name,
                             entries[i].tensor.name, entries[i].offset, end);
        file->tensor[i] = entries[i].tensor;
        file->tensor[i].data = data != NULL ? data + end : NULL;
        end += entries[i].tensor.bytes;
    }
    if (end != data_bytes)
        return pdl_error(PDL_ERR_INPUT, "%s: %zu bytes of data belong to no tensor", file->name, data_bytes - end);
    return PDL_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const pdl_stored_t *const *)a)->name, (*(const pdl_stored_t *const *)b)->name);
}

static pdl_status_t sort_names(pdl_safetensors_t *file)
{
    for (int i = 0; i < file->count; i++) file->by_name[i] = &file->tensor[i];
    if (file->count > 0) qsort(file->by_name, (size_t)file->count, sizeof(*file->by_name), compare_names);
    for (int i = 1; i < file->count; i++) {
        if (strcmp(file->by_name[i]->name, file->by_name[i - 1]->name) == 0)
            return pdl_error(PDL_ERR_INPUT, "%s: two tensors have the name %s", file->name, file->by_name[i]->name);
    }
    return PDL_OK;
}

pdl_status_t pdl__safetensors_parse(pdl_safetensors_t *file, const char *header, size_t header_bytes,
                                    const unsigned char *data, size_t data_bytes)
{
    pdl__scanner_t scanner = {.file = file->name, .begin = (const unsigned char *)header};
    entry_t       *entries = NULL;
    pdl_status_t   status;

    if (header_bytes == 0 || header[0] != '{')
        return pdl_error(PDL_ERR_INPUT, "%s: this is no safetensors file: its header does not begin with '{'",
                         file->name);
    file->text = malloc(header_bytes);
    if (file->text == NULL) return out_of_memory();
    scanner.at = scanner.begin;
    scanner.end = scanner.begin + header_bytes;
    scanner.text = file->text;
    status = read_members(&scanner, file, data_bytes, &entries);
    pdl__scan_blanks(&scanner);
    if (!status && scanner.at != scanner.end) status = pdl__scan_fail(&scanner, "text after the closing '}'");
    if (!status) {
        file->tensor = malloc((size_t)(file->count + 1) * sizeof(*file->tensor));
        file->by_name = malloc((size_t)(file->count + 1) * sizeof(*file->by_name));
        if (file->tensor == NULL || file->by_name == NULL) status = out_of_memory();
    }
    if (!status) status = place_tensors(file, entries, data, data_bytes);
    if (!status) status = sort_names(file);
    free(entries);
    return status;
}
