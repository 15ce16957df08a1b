/*
 * Reads header blocks of tar archives. They are untrusted: every field is checked before it is believed.
 */
#include "data/source/tar_header.h"

#include <string.h>

/* Where the fields are (POSIX.1-1988, ustar). */
enum {
    NAME_AT = 0,
    NAME_SIZE = 100,
    SIZE_AT = 124,
    SIZE_SIZE = 12,
    SUM_AT = 148,
    SUM_SIZE = 8,
    TYPE_AT = 156,
    MAGIC_AT = 257,
    PREFIX_AT = 345,
    PREFIX_SIZE = 155
};

/* Octal digits between spaces, ended by a space, a zero or the end of the field; or GNU's binary numbers, whose first
   byte has its upper bit set. Returns -1 for anything else. */
static int64_t number_of(const uint8_t *field, int size)
{
    int64_t value = 0;
    int     i = 0;

    if (field[0] & 0x80) {
        value = field[0] & 0x3f;
        if (field[0] & 0x40) return -1;
        for (i = 1; i < size; i++) {
            if (value > (INT64_MAX >> 9)) return -1;
            value = value << 8 | field[i];
        }
        return value;
    }
    while (i < size && field[i] == ' ') i++;
    for (; i < size && field[i] >= '0' && field[i] <= '7'; i++) value = value << 3 | (field[i] - '0');
    return i == size || field[i] == ' ' || field[i] == 0 ? value : -1;
}

/* The sum of all bytes with the field of the sum itself taken as spaces. */
static int64_t sum_of(const uint8_t *block)
{
    int64_t sum = 0;

    for (int i = 0; i < PDL__TAR_BLOCK; i++) sum += i >= SUM_AT && i < SUM_AT + SUM_SIZE ? ' ' : block[i];
    return sum;
}

static size_t length_of(const uint8_t *field, size_t size)
{
    const uint8_t *end = memchr(field, 0, size);

    return end != NULL ? (size_t)(end - field) : size;
}

static void join_name(const uint8_t *block, char *name)
{
    size_t prefix = 0, length = length_of(block + NAME_AT, NAME_SIZE);

    if (memcmp(block + MAGIC_AT, "ustar\0", 6) == 0) prefix = length_of(block + PREFIX_AT, PREFIX_SIZE);
    if (prefix > 0) {
        memcpy(name, block + PREFIX_AT, prefix);
        name[prefix++] = '/';
    }
    memcpy(name + prefix, block + NAME_AT, length);
    name[prefix + length] = '\0';
}

pdl_status_t pdl__tar_parse(const uint8_t block[PDL__TAR_BLOCK], const char *archive, pdl__tar_entry_t *entry)
{
    const int64_t sum = sum_of(block);

    *entry = (pdl__tar_entry_t){.end = sum == (int64_t)SUM_SIZE * ' '};
    if (entry->end) return PDL_OK;
    if (number_of(block + SUM_AT, SUM_SIZE) != sum) {
        return pdl_error(PDL_ERR_INPUT, "%s is not a tar archive or is damaged: a header has a wrong check sum",
                         archive);
    }
    entry->bytes = number_of(block + SIZE_AT, SIZE_SIZE);
    if (entry->bytes < 0 || entry->bytes > INT64_MAX - PDL__TAR_BLOCK) {
        return pdl_error(PDL_ERR_INPUT, "%s is damaged: a header has an impossible size", archive);
    }
    entry->type = (char)block[TYPE_AT];
    entry->file = entry->type == '0' || entry->type == '\0' || entry->type == '7';
    join_name(block, entry->name);
    return PDL_OK;
}

int64_t pdl__tar_padded(int64_t bytes)
{
    return (bytes + PDL__TAR_BLOCK - 1) / PDL__TAR_BLOCK * PDL__TAR_BLOCK;
}
