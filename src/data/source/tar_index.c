/*
 * Tar archives as WebDataset writes them: entries whose names are the same up to the first dot follow each other and
 * make up a sample, KEY.jpg (or .jpeg, .png) and KEY.cls, a class in digits. Other entries are passed over. Nothing is
 * taken out of the archive, so names of entries never become names of files.
 *
 * Headers are those of POSIX (ustar, with pax records for long names and large sizes) and GNU (long names).
 */
#include "data/source/tar.h"

#include "data/image/image.h"
#include "data/source/tar_header.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK    PDL__TAR_BLOCK
#define MAX_NAME 1024

typedef struct walk {
    const uint8_t *data;
    size_t         size, at; /* of the header in work */
    bool           ended;
    const char    *archive;
    char           name[MAX_NAME]; /* of the entry; set before its header by an entry for a long name */
    bool           named;
    bool           sized; /* by a pax record */
    uint64_t       pax_size;
    char           key[MAX_NAME]; /* of the sample in work */
    bool           has_image, has_label;
    size_t         image, image_size;
    int32_t        label;
    size_t         room;
} walk_t;

static pdl_status_t refuse(const walk_t *walk, const char *what)
{
    return pdl_error(PDL_ERR_INPUT, "%s: at byte %zu: %s; write the shard again", walk->archive, walk->at, what);
}

/* Replaces what could break a line of a message. */
static void make_printable(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 32 || *text == 127) *text = '?';
    }
}

static void copy_name(walk_t *walk, const uint8_t *from, size_t length)
{
    if (length >= sizeof(walk->name)) length = sizeof(walk->name) - 1;
    memcpy(walk->name, from, length);
    walk->name[length] = '\0';
}

static bool read_digits(const uint8_t *text, size_t length, uint64_t *value)
{
    size_t i;

    *value = 0;
    for (i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || *value > (uint64_t)1 << 56) return false;
        *value = *value * 10 + (uint64_t)(text[i] - '0');
    }
    return length > 0;
}

/* Records "LENGTH KEY=VALUE\n", the length being that of all of it. */
static pdl_status_t read_pax(walk_t *walk, const uint8_t *text, size_t length)
{
    while (length > 0) {
        const uint8_t *space = memchr(text, ' ', length < 20 ? length : 20), *equals, *value;
        uint64_t       record;

        if (space == NULL || !read_digits(text, (size_t)(space - text), &record) || record > length ||
            record < (size_t)(space - text) + 3 || text[record - 1] != '\n') {
            return refuse(walk, "a damaged pax record");
        }
        space++;
        equals = memchr(space, '=', (size_t)(text + record - space));
        if (equals == NULL) return refuse(walk, "a damaged pax record");
        value = equals + 1;
        if (equals - space == 4 && memcmp(space, "path", 4) == 0) {
            copy_name(walk, value, (size_t)(text + record - 1 - value));
            walk->named = true;
        } else if (equals - space == 4 && memcmp(space, "size", 4) == 0) {
            if (!read_digits(value, (size_t)(text + record - 1 - value), &walk->pax_size)) {
                return refuse(walk, "a damaged pax record");
            }
            walk->sized = true;
        }
        text += record;
        length -= (size_t)record;
    }
    return PDL_OK;
}

/* Adds the sample in work, which is complete or not one at all. */
static pdl_status_t end_sample(walk_t *walk, pdl__tar_index_t *index)
{
    const bool image = walk->has_image, label = walk->has_label;

    walk->has_image = walk->has_label = false;
    if (!image && !label) return PDL_OK;
    if (!image || !label) {
        make_printable(walk->key);
        return pdl_error(PDL_ERR_INPUT, "%s: sample %.200s has no %s; write the shard again", walk->archive,
                         walk->key, image ? ".cls" : ".jpg or .png");
    }
    if (index->count == walk->room) {
        const size_t       room = walk->room * 2 + 256;
        pdl__tar_sample_t *larger = realloc(index->samples, room * sizeof(*larger));

        if (larger == NULL) return pdl__out_of_memory(walk->archive);
        index->samples = larger;
        walk->room = room;
    }
    index->samples[index->count++] = (pdl__tar_sample_t){walk->image, walk->image_size, walk->label};
    if (walk->label > index->largest) index->largest = walk->label;
    return PDL_OK;
}

static pdl_status_t read_class(walk_t *walk, const uint8_t *text, size_t length)
{
    uint64_t value;

    while (length > 0 && strchr(" \t\r\n", text[length - 1]) != NULL && text[length - 1] != '\0') length--;
    if (!read_digits(text, length, &value) || value > INT32_MAX)
        return refuse(walk, "a .cls entry that is not a class");
    walk->label = (int32_t)value;
    walk->has_label = true;
    return PDL_OK;
}

static pdl_status_t take_file(walk_t *walk, pdl__tar_index_t *index, size_t content, size_t length)
{
    char        *slash = strrchr(walk->name, '/');
    char        *dot = strchr(slash != NULL ? slash + 1 : walk->name, '.');
    pdl_status_t st = PDL_OK;

    if (dot == NULL) return PDL_OK;
    if (strlen(walk->key) != (size_t)(dot - walk->name) ||
        memcmp(walk->key, walk->name, (size_t)(dot - walk->name)) != 0) {
        st = end_sample(walk, index);
        memcpy(walk->key, walk->name, (size_t)(dot - walk->name));
        walk->key[dot - walk->name] = '\0';
    }
    if (st != PDL_OK) return st;
    if (strcmp(dot, ".cls") == 0) {
        if (walk->has_label) return refuse(walk, "a second .cls entry for a sample");
        return read_class(walk, walk->data + content, length);
    }
    if (!pdl__image_is(walk->name)) return PDL_OK;
    if (walk->has_image) return refuse(walk, "a second image for a sample");
    walk->has_image = true;
    walk->image = content;
    walk->image_size = length;
    return PDL_OK;
}

/* The entry whose header is at walk->at; goes on to the next. */
static pdl_status_t take_entry(walk_t *walk, pdl__tar_index_t *index)
{
    const size_t     content = walk->at + BLOCK;
    pdl__tar_entry_t entry;
    uint64_t         length;
    pdl_status_t     st = pdl__tar_parse(walk->data + walk->at, walk->archive, &entry);

    if (st != PDL_OK) return st;
    walk->ended = entry.end;
    if (entry.end) return PDL_OK;
    length = (uint64_t)entry.bytes;
    if (walk->sized && entry.type != 'x' && entry.type != 'L') length = walk->pax_size;
    if (length > walk->size - content) return refuse(walk, "an entry is longer than the archive");
    if (entry.type == 'L') {
        copy_name(walk, walk->data + content, strnlen((const char *)walk->data + content, (size_t)length));
        walk->named = true;
    } else if (entry.type == 'x') {
        st = read_pax(walk, walk->data + content, (size_t)length);
    } else {
        if (!walk->named) copy_name(walk, (const uint8_t *)entry.name, strlen(entry.name));
        if (entry.file) st = take_file(walk, index, content, (size_t)length);
        walk->named = walk->sized = false;
    }
    length = (uint64_t)pdl__tar_padded((int64_t)length);
    walk->at = length > walk->size - content ? walk->size : content + (size_t)length;
    return st;
}

pdl_status_t pdl__tar_read_memory(const uint8_t *data, size_t size, const char *name, pdl__tar_index_t *index)
{
    walk_t          *walk = calloc(1, sizeof(*walk));
    pdl__tar_index_t found = {.largest = -1};
    pdl_status_t     st = PDL_OK;

    if (walk == NULL) return pdl__out_of_memory(name);
    walk->data = data;
    walk->size = size;
    walk->archive = name;
    while (st == PDL_OK && size - walk->at >= BLOCK && !walk->ended) st = take_entry(walk, &found);
    if (st == PDL_OK && !walk->ended && walk->at != size) st = refuse(walk, "the archive is cut off");
    if (st == PDL_OK) st = end_sample(walk, &found);
    free(walk);
    if (st != PDL_OK) {
        pdl__tar_free(&found);
        return st;
    }
    *index = found;
    return PDL_OK;
}

void pdl__tar_free(pdl__tar_index_t *index)
{
    free(index->samples);
    *index = (pdl__tar_index_t){0};
}

char *pdl__tar_entry_name(const uint8_t *data, const char *name, const pdl__tar_sample_t *sample,
                          char text[PDL__TAR_TEXT])
{
    const char *entry = (const char *)data + sample->offset - BLOCK;

    snprintf(text, PDL__TAR_TEXT, "%.380s: %.*s", name, (int)strnlen(entry, 100), entry);
    make_printable(text);
    return text;
}
