/*
 * Finds built-in descriptions.
 */
#include <paradl/base/share.h>

#include "base/closest.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a folder holds, for messages. */
static const struct {
    const char *folder, *noun, *list;
} kinds[] = {
    {"models", "model", "paradl model list shows all"},
    {"systems", "system", "paradl system list shows all"},
    {"data", "data set", "paradl data list shows all"},
    {"parameters", "parameter set", NULL},
    {"frameworks", "framework", NULL},
};

static bool is_folder(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* The share folder in use, or NULL. The source tree comes before the installed one so that a build is tried
   out with the descriptions it was built with. */
static const char *share_folder(void)
{
    const char *candidates[] = {getenv("PARADL_SHARE"), PDL_SOURCE_SHARE, PDL_INSTALL_SHARE};
    size_t      i;

    if (candidates[0] != NULL && candidates[0][0] != '\0' && !is_folder(candidates[0])) {
        pdl_error(PDL_ERR_IO, "PARADL_SHARE names %.200s, which is not a folder: correct it or unset it",
                  candidates[0]);
        return NULL;
    }
    for (i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++) {
        if (candidates[i] != NULL && candidates[i][0] != '\0' && is_folder(candidates[i])) return candidates[i];
    }
    pdl_error(PDL_ERR_IO,
              "the built-in descriptions are not found: set PARADL_SHARE to the share folder of paradl");
    return NULL;
}

/* The extension that `file` ends in, with something before it, or NULL. */
static const char *match_extension(const char *file, const char *const *extensions)
{
    size_t length = strlen(file);

    for (; *extensions != NULL; extensions++) {
        size_t tail = strlen(*extensions);

        if (length > tail && strcmp(file + length - tail, *extensions) == 0) return *extensions;
    }
    return NULL;
}

static pdl_status_t check_readable(const char *path)
{
    if (is_folder(path)) return pdl_error(PDL_ERR_IO, "cannot read %s: %s", path, strerror(EISDIR));
    if (access(path, R_OK) != 0) return pdl_error(PDL_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    return PDL_OK;
}

static pdl_status_t copy_path(char *path, size_t size, const char *share, const char *folder, const char *name,
                              const char *extension)
{
    int length = share == NULL ? snprintf(path, size, "%s", name)
                               : snprintf(path, size, "%s/%s/%s%s", share, folder, name, extension);

    if (length >= 0 && (size_t)length < size) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "the path is too long: %s", name);
}

static pdl_status_t refuse_name(const char *folder, const char *name, const char *const *extensions)
{
    const char *noun = folder, *list = NULL;
    char      **names;
    char        hint[1024], all[1024] = "";
    size_t      count, i;
    bool        close;

    for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].folder, folder) != 0) continue;
        noun = kinds[i].noun;
        list = kinds[i].list;
    }
    if (pdl_share_list(folder, extensions, &names, &count) != PDL_OK) {
        return pdl_error(PDL_ERR_INPUT, "unknown %s \"%.60s\": there are no built-in ones", noun, name);
    }
    close = pdl__closest_names(name, (const char *const *)names, count, hint, sizeof(hint));
    pdl__join_names((const char *const *)names, count, all, sizeof(all));
    pdl_share_free_list(names, count);
    if (count == 0) return pdl_error(PDL_ERR_INPUT, "unknown %s \"%.60s\": there are no built-in ones", noun, name);
    if (list == NULL) return pdl_error(PDL_ERR_INPUT, "unknown %s \"%.60s\": expected %s", noun, name, all);
    if (!close) return pdl_error(PDL_ERR_INPUT, "unknown %s \"%.60s\" (%s)", noun, name, list);
    return pdl_error(PDL_ERR_INPUT, "unknown %s \"%.60s\": did you mean %s? (%s)", noun, name, hint, list);
}

pdl_status_t pdl_share_find(const char *folder, const char *name, const char *const *extensions, char *path,
                            size_t size)
{
    const char *share;
    size_t      i;

    if (strchr(name, '/') != NULL || match_extension(name, extensions) != NULL) {
        pdl_status_t st = copy_path(path, size, NULL, NULL, name, NULL);

        return st != PDL_OK ? st : check_readable(path);
    }
    share = share_folder();
    if (share == NULL) return PDL_ERR_IO;
    for (i = 0; extensions[i] != NULL; i++) {
        pdl_status_t st = copy_path(path, size, share, folder, name, extensions[i]);

        if (st != PDL_OK) return st;
        if (access(path, F_OK) == 0) return check_readable(path);
    }
    return refuse_name(folder, name, extensions);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts and drops a name that is there under two extensions. */
static size_t sort_names(char **names, size_t count)
{
    size_t kept = 0, i;

    if (count > 0) qsort(names, count, sizeof(*names), compare_names);
    for (i = 0; i < count; i++) {
        if (kept > 0 && strcmp(names[kept - 1], names[i]) == 0) {
            free(names[i]);
        } else {
            names[kept++] = names[i];
        }
    }
    return kept;
}

/* Appends the name of `file`, if it is a description, to the list. */
static pdl_status_t add_name(const char *file, const char *const *extensions, char ***names, size_t *count)
{
    const char *extension = match_extension(file, extensions);
    char      **longer;

    if (extension == NULL || file[0] == '.') return PDL_OK;
    longer = realloc(*names, (*count + 1) * sizeof(**names));
    if (longer == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    *names = longer;
    longer[*count] = strndup(file, strlen(file) - strlen(extension));
    if (longer[*count] == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    (*count)++;
    return PDL_OK;
}

pdl_status_t pdl_share_list(const char *folder, const char *const *extensions, char ***names, size_t *count)
{
    const char    *share = share_folder();
    char           path[4096];
    char         **found = NULL;
    size_t         n = 0;
    struct dirent *entry;
    DIR           *dir;
    pdl_status_t   st;

    if (share == NULL) return PDL_ERR_IO;
    st = copy_path(path, sizeof(path), share, folder, "", "");
    if (st != PDL_OK) return st;
    dir = opendir(path);
    if (dir == NULL) return pdl_error(PDL_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    while (st == PDL_OK && (entry = readdir(dir)) != NULL) st = add_name(entry->d_name, extensions, &found, &n);
    closedir(dir);
    if (st != PDL_OK) {
        pdl_share_free_list(found, n);
        return st;
    }
    *count = sort_names(found, n);
    *names = found;
    return PDL_OK;
}

void pdl_share_free_list(char **names, size_t count)
{
    size_t i;

    for (i = 0; i < count; i++) free(names[i]);
    free(names);
}
