/*
 * Data sets that have a name. Means and deviations are those of the training pixels between 0 and 1.
 */
#include "data/source/source.h"

#include "base/closest.h"

#include <paradl/base/share.h>

#include <stdio.h>
#include <string.h>

static const pdl__known_t sets[] = {
    {.name = "mnist",
     .reader = &pdl__reader_idx,
     .get = true,
     .classes = 10,
     .channels = 1,
     .mean = {0.13066},
     .deviation = {0.30811}},
    {.name = "fashion-mnist",
     .reader = &pdl__reader_idx,
     .package = "/usr/share/datasets/fashion-mnist",
     .get = true,
     .classes = 10,
     .channels = 1,
     .mean = {0.28604},
     .deviation = {0.35302}},
    {.name = "cifar10",
     .reader = &pdl__reader_cifar,
     .get = true,
     .classes = 10,
     .channels = 3,
     .mean = {0.49139968, 0.48215841, 0.44653091},
     .deviation = {0.24703223, 0.24348513, 0.26158784}},
    {.name = "cifar100",
     .reader = &pdl__reader_cifar,
     .classes = 100,
     .channels = 3,
     .mean = {0.50707516, 0.48654887, 0.44091784},
     .deviation = {0.26733429, 0.25643846, 0.27615047}},
    {.name = "tinyshakespeare", .reader = &pdl__reader_text},
    {.name = "synthetic", .reader = &pdl__reader_synthetic},
    {.name = "imagenet"},
    {.name = "cosmoflow"},
    {.name = "deepcam"},
    {.name = "openwebtext"},
};

#define SET_COUNT (sizeof(sets) / sizeof(sets[0]))

const pdl__known_t *pdl__known_find(const char *name)
{
    size_t i;

    for (i = 0; i < SET_COUNT; i++) {
        if (strcmp(sets[i].name, name) == 0) return &sets[i];
    }
    return NULL;
}

pdl_status_t pdl__known_refuse(const char *name)
{
    const char *names[SET_COUNT];
    char        hint[256];
    size_t      i;

    if (strchr(name, '/') != NULL) return pdl_error(PDL_ERR_INPUT, "there is no data set at %s", name);
    for (i = 0; i < SET_COUNT; i++) names[i] = sets[i].name;
    if (pdl__closest_names(name, names, SET_COUNT, hint, sizeof(hint))) {
        return pdl_error(PDL_ERR_INPUT, "unknown data set \"%.60s\": did you mean %s? (paradl data list shows all)",
                         name, hint);
    }
    return pdl_error(PDL_ERR_INPUT,
                     "unknown data set \"%.60s\": neither a file or folder nor a built-in name (paradl data list "
                     "shows all)",
                     name);
}

/* The text comes with the product. */
static pdl_status_t text_path(const char *name, char *path, size_t size)
{
    static const char *const extensions[] = {".txt.gz", NULL};

    return pdl_share_find("data", name, extensions, path, size);
}

pdl_status_t pdl__known_path(const pdl__known_t *known, const char *folder, char *path, size_t size)
{
    char         parent[PDL__PATH];
    pdl_status_t st;

    if (known->reader == &pdl__reader_synthetic) {
        snprintf(path, size, "%s", known->name);
        return PDL_OK;
    }
    if (folder == NULL) folder = pdl_data_folder(parent, sizeof(parent));
    st = pdl__path_join(folder, known->name, path, size);
    if (st != PDL_OK || pdl__path_is_folder(path)) return st;
    if (known->reader == &pdl__reader_text) return text_path(known->name, path, size);
    if (known->package != NULL && pdl__path_is_folder(known->package)) {
        snprintf(path, size, "%s", known->package);
        return PDL_OK;
    }
    if (known->get) {
        return pdl_error(PDL_ERR_INPUT, "%s is not found in %s; run: paradl data get %s", known->name, folder,
                         known->name);
    }
    return pdl_error(PDL_ERR_INPUT, "%s is not found in %s and cannot be fetched: put it there or give its path",
                     known->name, folder);
}
