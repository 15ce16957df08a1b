/*
 * Folders and files: which ones belong to a split.
 */
#include "data/source/source.h"

#include <paradl/base/share.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

pdl_status_t pdl__path_join(const char *folder, const char *name, char *path, size_t size)
{
    int length = snprintf(path, size, "%s/%s", folder, name);

    if (length >= 0 && (size_t)length < size) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "the path is too long: %.60s/%.60s", folder, name);
}

bool pdl__path_is_folder(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool pdl__path_is_file(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool pdl__path_exists_in(const char *folder, const char *name)
{
    char path[PDL__PATH];
    int  length = snprintf(path, sizeof(path), "%s/%s", folder, name);

    return length >= 0 && (size_t)length < sizeof(path) && pdl__path_is_file(path);
}

bool pdl__has_extension(const char *name, const char *const *extensions)
{
    size_t length = strlen(name);

    for (; *extensions != NULL; extensions++) {
        size_t tail = strlen(*extensions);

        if (length > tail && strcasecmp(name + length - tail, *extensions) == 0) return true;
    }
    return false;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Appends a copy of `name`; the list doubles whenever its length reaches a power of two. */
static pdl_status_t append(char ***names, size_t *count, const char *name)
{
    if ((*count & (*count - 1)) == 0) {
        char **longer = realloc(*names, (*count == 0 ? 1 : *count * 2) * sizeof(**names));

        if (longer == NULL) return pdl__out_of_memory(name);
        *names = longer;
    }
    (*names)[*count] = strdup(name);
    if ((*names)[*count] == NULL) return pdl__out_of_memory(name);
    (*count)++;
    return PDL_OK;
}

static pdl_status_t consider(const char *folder, const char *name, pdl__entry_t kind, const char *const *extensions,
                             char ***names, size_t *count)
{
    char         path[PDL__PATH];
    pdl_status_t st;

    if (name[0] == '.' || (extensions != NULL && !pdl__has_extension(name, extensions))) return PDL_OK;
    st = pdl__path_join(folder, name, path, sizeof(path));
    if (st != PDL_OK) return st;
    if (kind == PDL__ENTRY_FOLDER ? !pdl__path_is_folder(path) : !pdl__path_is_file(path)) return PDL_OK;
    return append(names, count, name);
}

pdl_status_t pdl__folder_list(const char *folder, pdl__entry_t kind, const char *const *extensions, char ***names,
                              size_t *count)
{
    DIR           *dir = opendir(folder);
    struct dirent *entry;
    char         **found = NULL;
    size_t         n = 0;
    pdl_status_t   st = PDL_OK;

    if (dir == NULL) return pdl_error(PDL_ERR_IO, "cannot read %s: %s", folder, strerror(errno));
    while (st == PDL_OK && (entry = readdir(dir)) != NULL) {
        st = consider(folder, entry->d_name, kind, extensions, &found, &n);
    }
    closedir(dir);
    if (st != PDL_OK) {
        pdl_share_free_list(found, n);
        return st;
    }
    if (n > 0) qsort(found, n, sizeof(*found), compare_names);
    *names = found;
    *count = n;
    return PDL_OK;
}

static const char *const split_names[2][5] = {{"train", "training", NULL},
                                              {"val", "valid", "validation", "test", NULL}};

bool pdl__folder_of_split(const char *path, pdl_split_t split, char *folder, size_t size)
{
    const char *const *name;

    for (name = split_names[split == PDL_SPLIT_VALID]; *name != NULL; name++) {
        int length = snprintf(folder, size, "%s/%s", path, *name);

        if (length >= 0 && (size_t)length < size && pdl__path_is_folder(folder)) return true;
    }
    return false;
}

static bool begins_with_split(const char *name, pdl_split_t split)
{
    const char *const *word;

    for (word = split_names[split == PDL_SPLIT_VALID]; *word != NULL; word++) {
        if (strncmp(name, *word, strlen(*word)) == 0) return true;
    }
    return false;
}

/* Keeps the names that begin with the word of a split, if both splits have some. */
static bool keep_split(char **names, size_t *count, pdl_split_t split)
{
    size_t train = 0, valid = 0, kept = 0, i;

    for (i = 0; i < *count; i++) {
        train += begins_with_split(names[i], PDL_SPLIT_TRAIN);
        valid += begins_with_split(names[i], PDL_SPLIT_VALID);
    }
    if (train == 0 || valid == 0) return false;
    for (i = 0; i < *count; i++) {
        if (begins_with_split(names[i], split)) {
            names[kept++] = names[i];
        } else {
            free(names[i]);
        }
    }
    *count = kept;
    return true;
}

/* Replaces the names in a list by paths. */
static pdl_status_t prefix_all(const char *folder, char **names, size_t count)
{
    size_t i;

    for (i = 0; i < count; i++) {
        char         path[PDL__PATH];
        char        *copy;
        pdl_status_t st = pdl__path_join(folder, names[i], path, sizeof(path));

        if (st != PDL_OK) return st;
        copy = strdup(path);
        if (copy == NULL) return pdl__out_of_memory(path);
        free(names[i]);
        names[i] = copy;
    }
    return PDL_OK;
}

static bool has_split_folders(const char *path)
{
    char folder[PDL__PATH];

    return pdl__folder_of_split(path, PDL_SPLIT_TRAIN, folder, sizeof(folder)) &&
           pdl__folder_of_split(path, PDL_SPLIT_VALID, folder, sizeof(folder));
}

pdl_status_t pdl__files_of_split(const char *path, pdl_split_t split, const char *const *extensions,
                                 pdl__file_list_t *list)
{
    char         folder[PDL__PATH];
    pdl_status_t st;

    *list = (pdl__file_list_t){0};
    if (!pdl__path_is_folder(path)) return append(&list->paths, &list->count, path);
    if (has_split_folders(path)) {
        list->own = pdl__folder_of_split(path, split, folder, sizeof(folder));
    } else if (!pdl__folder_of_split(path, PDL_SPLIT_TRAIN, folder, sizeof(folder))) {
        snprintf(folder, sizeof(folder), "%s", path);
    }
    st = pdl__folder_list(folder, PDL__ENTRY_FILE, extensions, &list->paths, &list->count);
    if (st != PDL_OK) return st;
    if (!list->own) list->own = keep_split(list->paths, &list->count, split);
    st = prefix_all(folder, list->paths, list->count);
    if (st == PDL_OK && list->count == 0) {
        st = pdl_error(PDL_ERR_INPUT, "%s: no %s files in it", folder, extensions[0]);
    }
    if (st != PDL_OK) pdl__files_free(list);
    return st;
}

void pdl__files_free(pdl__file_list_t *list)
{
    pdl_share_free_list(list->paths, list->count);
    *list = (pdl__file_list_t){0};
}

bool pdl__files_exist(const char *path, bool folder, const char *const *extensions)
{
    pdl__file_list_t list;

    if (!folder) return pdl__has_extension(path, extensions);
    if (pdl__files_of_split(path, PDL_SPLIT_TRAIN, extensions, &list) != PDL_OK) return false;
    pdl__files_free(&list);
    return true;
}

pdl_status_t pdl__file_of_split(const char **path, pdl_split_t split, const char *extension, char file[PDL__PATH],
                                bool *own)
{
    const char *folder = *path;
    char        name[32];

    *own = false;
    if (!pdl__path_is_folder(folder)) return PDL_OK;
    snprintf(name, sizeof(name), "val%s", extension);
    *own = pdl__path_exists_in(folder, name);
    if (!*own || split != PDL_SPLIT_VALID) snprintf(name, sizeof(name), "train%s", extension);
    *path = file;
    return pdl__path_join(folder, name, file, PDL__PATH);
}
