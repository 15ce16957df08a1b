/*
 * Opens data sets: finds the reader for a name or path and keeps what all readers have in common.
 */
#include "data/source/source.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the order in which they are asked: those that know their files by name come first, and image folders, which
   any folder of folders may be, last. */
static const pdl__reader_t *const readers[] = {
    &pdl__reader_idx,   &pdl__reader_cifar, &pdl__reader_tokens, &pdl__reader_text,   &pdl__reader_npy,
    &pdl__reader_table, &pdl__reader_hdf5,  &pdl__reader_tar,    &pdl__reader_folder,
};

static pdl_status_t find_reader(const char *path, const pdl__reader_t **reader)
{
    const bool folder = pdl__path_is_folder(path);
    size_t     i;

    for (i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
        if (!readers[i]->claims(path, folder)) continue;
        *reader = readers[i];
        return PDL_OK;
    }
    if (folder) {
        return pdl_error(PDL_ERR_INPUT,
                         "%s: no data in it that can be read: expected IDX or CIFAR files, train.bin, input.txt, "
                         ".npy, .csv, .h5 or .tar files, or a folder of images for every class",
                         path);
    }
    return pdl_error(PDL_ERR_INPUT,
                     "%s: not a kind of file that can be read: expected .npy, .csv, .h5, .bin, .txt or .tar", path);
}

/* Means are per channel as delivered: one grey value serves three equal channels, three do not make a grey one. */
static void set_means(pdl_source_t *source)
{
    const pdl__known_t *known = source->known;
    const int64_t       channels = source->info.shape.channels;
    int                 c;

    if (known == NULL || known->channels == 0 || source->info.shape.rank == 0) return;
    if (channels != known->channels && !(channels == 3 && known->channels == 1)) return;
    source->info.mean_count = (int)channels;
    for (c = 0; c < (int)channels; c++) {
        const int from = known->channels == 1 ? 0 : c;

        source->info.mean[c] = known->mean[from];
        source->info.deviation[c] = known->deviation[from];
    }
}

/* The last part of a path, without trailing slashes. */
static void name_of_path(const char *path, char *name, size_t size)
{
    size_t end = strlen(path), begin;

    while (end > 1 && path[end - 1] == '/') end--;
    begin = end;
    while (begin > 0 && path[begin - 1] != '/') begin--;
    snprintf(name, size, "%.*s", (int)(end - begin), path + begin);
}

static pdl_status_t open_as(const char *name, const char *path, const pdl__reader_t *reader,
                            const pdl__known_t *known, const pdl_source_options_t *options, pdl_source_t **source)
{
    pdl_source_t *opened = calloc(1, sizeof(*opened));
    pdl_status_t  st;

    if (opened == NULL) return pdl__out_of_memory(name);
    opened->reader = reader;
    opened->known = known;
    name_of_path(name, opened->info.name, sizeof(opened->info.name));
    st = reader->open(opened, path, options);
    if (st != PDL_OK) {
        pdl_source_close(opened);
        return st;
    }
    set_means(opened);
    *source = opened;
    return PDL_OK;
}

/* Extents beyond the rank are 1, whatever the caller left there. */
static pdl_source_options_t tidy_options(const pdl_source_options_t *options)
{
    pdl_source_options_t tidy = *options;
    int                  i;

    for (i = tidy.shape.rank < 0 ? 0 : tidy.shape.rank; i < PDL_MAX_SPACE; i++) tidy.shape.extent[i] = 1;
    return tidy;
}

pdl_status_t pdl_source_open(const char *name_or_path, const pdl_source_options_t *options, pdl_source_t **source)
{
    const pdl_source_options_t tidy = tidy_options(options);
    const pdl__known_t        *known = pdl__known_find(name_or_path);
    const pdl__reader_t       *reader = known != NULL ? known->reader : NULL;
    char                       path[PDL__PATH];
    pdl_status_t               st = PDL_OK;

    if (!(options->valid_share >= 0 && options->valid_share < 1)) {
        return pdl_error(PDL_ERR_INPUT, "%s: the share of validation is %g: expected 0 to 1", name_or_path,
                         options->valid_share);
    }
    if (known != NULL) {
        st = pdl__known_path(known, options->folder, path, sizeof(path));
    } else if (!pdl__path_is_folder(name_or_path) && !pdl__path_is_file(name_or_path)) {
        st = pdl__known_refuse(name_or_path);
    } else if (snprintf(path, sizeof(path), "%s", name_or_path) >= (int)sizeof(path)) {
        st = pdl_error(PDL_ERR_INPUT, "the path of the data is too long");
    }
    if (st == PDL_OK && reader == NULL) st = find_reader(path, &reader);
    return st != PDL_OK ? st : open_as(name_or_path, path, reader, known, &tidy, source);
}

void pdl_source_close(pdl_source_t *source)
{
    if (source == NULL) return;
    if (source->state != NULL) source->reader->close(source->state);
    free(source);
}

const pdl_source_info_t *pdl_source_info(const pdl_source_t *source)
{
    return &source->info;
}

int64_t pdl_source_place(const pdl_source_t *source, int64_t index)
{
    return pdl__part_index(&source->part, index);
}

pdl_status_t pdl_source_read(pdl_source_t *source, int64_t index, const pdl_sample_t *sample)
{
    const pdl_source_info_t *info = &source->info;
    const bool               numbers = info->target == PDL_TARGET_VALUES;

    if (index < 0 || index >= info->samples) {
        return pdl_error(PDL_ERR_INPUT, "%s: there is no sample %" PRId64 ", the last is %" PRId64, info->name,
                         index, info->samples - 1);
    }
    const void *place = sample->bytes != NULL && info->bytes ? (const void *)sample->bytes : sample->values;
    if ((info->tokens ? (const void *)sample->tokens : place) == NULL ||
        (numbers ? (const void *)sample->numbers : (const void *)sample->labels) == NULL) {
        return pdl_error(PDL_ERR_INPUT, "%s: no place is given for the sample or its target", info->name);
    }
    return source->reader->read(source, index, sample);
}

pdl__source_part_t pdl__part_of(const pdl_source_options_t *options, bool own)
{
    const double       share = options->valid_share > 0 ? options->valid_share : 0.1;
    pdl__source_part_t part = {.valid = options->split == PDL_SPLIT_VALID};

    if (own) return part;
    part.every = share < 1e-9 ? 1000000000 : (int64_t)llround(1 / share);
    if (part.every < 2) part.every = 2;
    return part;
}

int64_t pdl__part_count(const pdl__source_part_t *part, int64_t total)
{
    if (part->every == 0) return total;
    return part->valid ? total / part->every : total - total / part->every;
}

/* Validation takes the last sample of every group, training the others. */
int64_t pdl__part_index(const pdl__source_part_t *part, int64_t index)
{
    if (part->every == 0) return index;
    if (part->valid) return index * part->every + part->every - 1;
    return index + index / (part->every - 1);
}

pdl_status_t pdl__part_samples(const pdl__source_part_t *part, int64_t total, const char *name, int64_t *samples)
{
    if (total <= 0) return pdl_error(PDL_ERR_INPUT, "%s: there are no samples in it", name);
    *samples = pdl__part_count(part, total);
    if (*samples > 0) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT,
                     "%s: no sample is left for validation, which takes one in %" PRId64 " of %" PRId64, name,
                     part->every, total);
}

pdl_status_t pdl__classes_set(pdl_source_t *source, const pdl_source_options_t *options, int64_t largest,
                              const char *name)
{
    const int64_t known = source->known != NULL ? source->known->classes : 0;
    const int64_t asked = options->classes, needed = known > 0 ? known : largest + 1;

    if (largest >= needed) {
        return pdl_error(PDL_ERR_INPUT,
                         "%s: a label is %" PRId64 ", but the set has %" PRId64 " classes (0 to %" PRId64 ")", name,
                         largest, known, known - 1);
    }
    if (asked > 0 && needed > asked) {
        return pdl_error(PDL_ERR_INPUT,
                         "%s: holds %" PRId64 " classes, the model tells %" PRId64
                         " apart: write a model file with extends: MODEL and parameters: {classes: %" PRId64 "}",
                         name, needed, asked, needed);
    }
    source->info.classes = known > 0 || asked == 0 ? needed : asked;
    return PDL_OK;
}
