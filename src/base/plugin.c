/*
 * Finds and loads plugins.
 */
#include "base/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In builds that have the plugins inside, for fuzzing. */
#define PLUGIN_EXTERN(id, name, library, package) extern const pdl__plugin_t pdl__plugin_##name;
PDL__PLUGIN_MAP(PLUGIN_EXTERN)

#define INSIDE_0(name)          NULL
#define INSIDE_1(name)          &pdl__plugin_##name
#define INSIDE_OF(flag, name)   INSIDE_##flag(name)
#define INSIDE_WHEN(flag, name) INSIDE_OF(flag, name)
#define PLUGIN_ROW(id, name, library, package) \
    {#name, library, package, PDL_PLUGIN_##id, INSIDE_WHEN(PDL_INSIDE_##id, name)},

static const struct {
    const char          *name, *library, *package, *version;
    const pdl__plugin_t *inside;
} rows[] = {PDL__PLUGIN_MAP(PLUGIN_ROW)};

static _Atomic(const pdl__plugin_t *) loaded[PDL__PLUGIN_COUNT];

/* The installed folder beside the program that runs, wherever both have been moved to. */
static bool beside_program(char *folder, size_t size)
{
    char    program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    char   *slash;
    int     written;

    if (length <= 0) return false;
    program[length] = '\0';
    slash = strrchr(program, '/');
    if (slash == NULL) return false;
    *slash = '\0';
    written = snprintf(folder, size, "%s/%s", program, PDL_BIN_TO_PLUGINS);
    return written > 0 && (size_t)written < size;
}

static bool is_in(const char *folder, pdl__plugin_id_t id, char *path, size_t size)
{
    int length = snprintf(path, size, "%s/libparadl-%s.so", folder, rows[id].name);

    return length > 0 && (size_t)length < size && access(path, R_OK) == 0;
}

/* Writes the path of a plugin: in PARADL_LIB and nowhere else, or beside the program, in the build tree, installed. When it
   is in none of them the path is where it would be installed. */
static bool find(pdl__plugin_id_t id, char *path, size_t size)
{
    const char *chosen = getenv("PARADL_LIB");
    char        beside[4096];

    if (chosen != NULL && *chosen != '\0') return is_in(chosen, id, path, size);
    if (beside_program(beside, sizeof(beside)) && is_in(beside, id, path, size)) return true;
    return is_in(PDL_BUILD_PLUGINS, id, path, size) || is_in(PDL_INSTALL_PLUGINS, id, path, size);
}

static pdl_status_t open_file(pdl__plugin_id_t id, const char *user, size_t bytes, const pdl__plugin_t **plugin)
{
    char  path[4096 + 64], symbol[64];
    void *file;

    if (!find(id, path, sizeof(path)))
        return pdl_error(
            PDL_ERR_UNSUPPORTED,
            "%.300s needs %s: there is no %.600s; install %s and build paradl again, or set PARADL_LIB "
            "to the folder that has the file",
            user, rows[id].library, path, rows[id].package);
    /* Local, because libraries have names in common: SimGrid has functions of MPI for simulated programs. */
    file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (file == NULL)
        return pdl_error(PDL_ERR_UNSUPPORTED, "%.300s needs %s: install %s (%.600s)", user, rows[id].library,
                         rows[id].package, dlerror());
    snprintf(symbol, sizeof(symbol), "pdl__plugin_%s", rows[id].name);
    *plugin = dlsym(file, symbol);
    if (*plugin == NULL || strcmp((*plugin)->paradl, PDL_VERSION) != 0 || (*plugin)->bytes != bytes) {
        dlclose(file);
        return pdl_error(PDL_ERR_UNSUPPORTED, "%.300s needs %s: %.600s belongs to another version of paradl", user,
                         rows[id].library, path);
    }
    (*plugin)->connect(pdl_error);
    return PDL_OK;
}

pdl_status_t pdl__plugin_load(pdl__plugin_id_t id, const char *user, size_t bytes, const void **table)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const pdl__plugin_t   *plugin = atomic_load(&loaded[id]);
    pdl_status_t           status = PDL_OK;

    if (plugin == NULL) {
        pthread_mutex_lock(&lock);
        plugin = atomic_load(&loaded[id]);
        if (plugin == NULL) plugin = rows[id].inside;
        if (plugin == NULL) status = open_file(id, user, bytes, &plugin);
        if (status == PDL_OK) atomic_store(&loaded[id], plugin);
        pthread_mutex_unlock(&lock);
    }
    if (status == PDL_OK) *table = plugin->table;
    return status;
}

bool pdl__plugin_found(pdl__plugin_id_t id)
{
    char path[4096 + 64];

    return rows[id].inside != NULL || find(id, path, sizeof(path));
}

const char *pdl__plugin_library(pdl__plugin_id_t id)
{
    return rows[id].library;
}

const char *pdl__plugin_version(pdl__plugin_id_t id)
{
    return rows[id].version;
}
