/*
 * Checksums of safetensors files: what was written is what is read.
 */
#include "train/checkpoint/safetensors.h"

#include <paradl/base/digest.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void pdl__sum_print(uint64_t sum, char digits[PDL__SUM_DIGITS])
{
    char text[PDL__SUM_DIGITS + 1];

    snprintf(text, sizeof(text), "%016" PRIx64, sum);
    memcpy(digits, text, PDL__SUM_DIGITS);
}

uint64_t pdl__header_sum(const char *header, size_t header_bytes, const char *digits)
{
    const char *after = digits + PDL__SUM_DIGITS;
    uint64_t    parts[] = {header_bytes, pdl_sum64(header, (size_t)(digits - header)),
                           pdl_sum64(after, (size_t)(header + header_bytes - after))};

    return pdl_sum64(parts, sizeof(parts));
}

/* Where the digits of the header's sum begin. Quotes inside a string are escaped, so this can be nothing else. */
static const char *find_digits(const char *header, size_t header_bytes)
{
    static const char key[] = "\"" PDL__SUM_KEY "\":\"";
    const char       *end = header + header_bytes;

    for (const char *at = header; (at = memchr(at, '"', (size_t)(end - at))) != NULL; at++) {
        if ((size_t)(end - at) < sizeof(key) - 1 + PDL__SUM_DIGITS) return NULL;
        if (memcmp(at, key, sizeof(key) - 1) == 0) return at + sizeof(key) - 1;
    }
    return NULL;
}

pdl_status_t pdl__header_verify(const pdl_safetensors_t *file, const char *header, size_t header_bytes)
{
    const char *sum = pdl_safetensors_metadata(file, PDL__SUM_KEY), *digits;
    const char *sums = pdl_safetensors_metadata(file, PDL__SUMS_KEY);
    char        found[PDL__SUM_DIGITS];

    if (sum == NULL && sums == NULL) return PDL_OK;
    digits = find_digits(header, header_bytes);
    if (digits != NULL && sum != NULL && sums != NULL) {
        pdl__sum_print(pdl__header_sum(header, header_bytes, digits), found);
        if (memcmp(found, digits, sizeof(found)) == 0) return PDL_OK;
    }
    return pdl_error(PDL_ERR_INPUT,
                     "%s: the header is damaged: it does not have the checksum it was written with; after a change "
                     "on purpose, leave " PDL__SUM_KEY " and " PDL__SUMS_KEY " out of the metadata",
                     file->name);
}

pdl_status_t pdl_safetensors_verify(const pdl_safetensors_t *file, bool *summed)
{
    const char  *sums = pdl_safetensors_metadata(file, PDL__SUMS_KEY);
    const size_t each = PDL__SUM_DIGITS + 1;
    char         found[PDL__SUM_DIGITS];

    if (summed != NULL) *summed = sums != NULL;
    if (sums == NULL) return PDL_OK;
    if (strlen(sums) + 1 != (file->count > 0 ? (size_t)file->count * each : 1))
        return pdl_error(PDL_ERR_INPUT, "%s: it does not have one checksum for each of its %d tensors", file->name,
                         file->count);
    for (int i = 0; i < file->count; i++) {
        pdl__sum_print(pdl_sum64(file->tensor[i].data, file->tensor[i].bytes), found);
        if (memcmp(found, sums + (size_t)i * each, sizeof(found)) != 0)
            return pdl_error(PDL_ERR_INPUT,
                             "%s: tensor %s is damaged: it does not have the checksum it was written with",
                             file->name, file->tensor[i].name);
    }
    return PDL_OK;
}
