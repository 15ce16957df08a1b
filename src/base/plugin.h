/*
 * Plugins: the parts of the library that need a library of others which may be missing. Each is a shared library of ours,
 * libparadl-NAME.so, made of src/<module>/plugin/NAME.c or of the files of src/<module>/plugin/NAME/ and compiled against the real headers; it is loaded when it is
 * asked for, and gives a table of functions. The command therefore starts fast, and also where those libraries are not
 * installed. Plugins call nothing of the library but pdl_error(), which leads back to it (src/base/plugin/side.c).
 */
#ifndef PDL_BASE_PLUGIN_H
#define PDL_BASE_PLUGIN_H

#include <paradl/base/status.h>
#include <stdbool.h>
#include <stddef.h>

/* Name, the library behind it, and the Debian package that brings that library. */
/* clang-format off */
#define PDL__PLUGIN_MAP(X)                        \
    X(SIMGRID, simgrid, "SimGrid", "libsimgrid-dev") \
    X(HDF5, hdf5, "HDF5", "libhdf5-dev")          \
    X(JPEG, jpeg, "libjpeg", "libjpeg-dev")       \
    X(PNG, png, "libpng", "libpng-dev")           \
    X(URING, uring, "liburing", "liburing-dev")   \
    X(DNNL, dnnl, "oneDNN", "libdnnl-dev")        \
    X(HWLOC, hwloc, "hwloc", "libhwloc-dev")      \
    X(MPI, ranks, "MPI", "libopenmpi-dev and openmpi-bin") \
    X(CUDA, cuda, "CUDA", "NVIDIA's CUDA toolkit with cuDNN 9") \
    X(CUDA_EMULATED, cuda_emulated, "the emulated GPU of the tests", "g++")
/* clang-format on */

typedef enum pdl__plugin_id {
#define PDL__PLUGIN_ENUM(id, name, library, package) PDL__PLUGIN_##id,
    PDL__PLUGIN_MAP(PDL__PLUGIN_ENUM)
#undef PDL__PLUGIN_ENUM
        PDL__PLUGIN_COUNT
} pdl__plugin_id_t;

/* The table of a plugin of `bytes` bytes, which is loaded when first asked for and then stays. `user` begins the message
   when that fails: a file, an option. May be called from several threads at once. */
pdl_status_t pdl__plugin_load(pdl__plugin_id_t id, const char *user, size_t bytes, const void **table);
/* Whether its file is there; nothing is loaded. */
bool        pdl__plugin_found(pdl__plugin_id_t id);
const char *pdl__plugin_library(pdl__plugin_id_t id);
/* Of the library that the plugin was built against; "" when this build has no such plugin. */
const char *pdl__plugin_version(pdl__plugin_id_t id);

/* ---- in a plugin ---- */

typedef pdl_status_t (*pdl__report_t)(pdl_status_t status, const char *format, ...);

/* What the file of a plugin shows, as pdl__plugin_NAME. */
typedef struct pdl__plugin {
    const char *paradl; /* version, to refuse a file of another one */
    size_t      bytes;
    const void *table;
    void (*connect)(pdl__report_t report); /* NULL: is part of the library */
} pdl__plugin_t;

#ifdef PDL_PLUGIN_SIDE
#define PDL__PLUGIN_CONNECT pdl__plugin_connect
#define PDL__PLUGIN_SHOWN   __attribute__((visibility("default")))
void pdl__plugin_connect(pdl__report_t report);
#else
#define PDL__PLUGIN_CONNECT NULL
#define PDL__PLUGIN_SHOWN
#endif

#define PDL__PLUGIN(name, functions)                                                                          \
    extern const pdl__plugin_t            pdl__plugin_##name;                                                 \
    PDL__PLUGIN_SHOWN const pdl__plugin_t pdl__plugin_##name = {PDL_VERSION, sizeof(functions), &(functions), \
                                                                PDL__PLUGIN_CONNECT};

#endif
