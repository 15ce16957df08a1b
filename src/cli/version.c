/*
 * paradl --version: the build, and the optional parts that it has.
 */
#include "cli/commands.h"

#include <paradl/base/version.h>
#include <paradl/report/table.h>
#include <paradl/sim/sim.h>

#include <hwloc.h>
#include <oneapi/dnnl/dnnl.h>
#include <protobuf-c/protobuf-c.h>
#include <string.h>
#include <yaml.h>
#include <zlib.h>

#ifdef PDL_HAVE_MPI
#include <mpi.h>
#endif
#ifdef PDL_HAVE_HDF5
#include <hdf5.h>
#endif
#ifdef PDL_HAVE_JPEG
#include <jpeglib.h>
#endif
#ifdef PDL_HAVE_PNG
#include <png.h>
#endif

static void add_part(pdl_table_t *table, const char *part, const char *library, const char *version)
{
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "  %s", part);
    pdl_table_cell(table, "%s", library);
    pdl_table_cell(table, "%s", version);
}

#ifdef PDL_HAVE_MPI
/* MPI names itself before it is started; what follows the first comma is the packager's. */
static void add_mpi(pdl_table_t *table)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int  length;

    MPI_Get_library_version(library, &length);
    library[strcspn(library, ",\n")] = '\0';
    add_part(table, "collectives", library, "");
}
#else
static void add_mpi(pdl_table_t *table)
{
    add_part(table, "MPI", "not found", "");
}
#endif

/* What trains: kernels, their threads, and where these are bound. */
static void add_training(pdl_table_t *table)
{
    const dnnl_version_t *dnnl = dnnl_version();
    char                  text[64];

    snprintf(text, sizeof(text), "%d.%d.%d", dnnl->major, dnnl->minor, dnnl->patch);
    add_part(table, "training", "oneDNN", text);
#ifdef _OPENMP
    snprintf(text, sizeof(text), "of %d-%02d", _OPENMP / 100, _OPENMP % 100);
#else
    snprintf(text, sizeof(text), "not found: own kernels use one thread");
#endif
    add_part(table, "threads", "OpenMP", text);
    add_part(table, "binding", "hwloc", HWLOC_VERSION);
}

/* The formats of data that need a library. */
static void add_formats(pdl_table_t *table)
{
    const char *jpeg = "not found", *png = "not found";
    char        hdf5[64] = "not found";

#ifdef PDL_HAVE_HDF5
    unsigned major, minor, patch;
    if (H5get_libversion(&major, &minor, &patch) >= 0)
        snprintf(hdf5, sizeof(hdf5), "%u.%u.%u", major, minor, patch);
#endif
#ifdef PDL_HAVE_JPEG
#define TEXT_OF(x)  #x
#define VALUE_OF(x) TEXT_OF(x)
#ifdef LIBJPEG_TURBO_VERSION
    jpeg = VALUE_OF(LIBJPEG_TURBO_VERSION);
#else
    jpeg = VALUE_OF(JPEG_LIB_VERSION);
#endif
#endif
#ifdef PDL_HAVE_PNG
    png = png_get_libpng_ver(NULL);
#endif
    add_part(table, "gzip files", "zlib", zlibVersion());
    add_part(table, "HDF5 files", "HDF5", hdf5);
    add_part(table, "JPEG images", "libjpeg", jpeg);
    add_part(table, "PNG images", "libpng", png);
    add_part(table, "sample stores", "liburing", PDL_URING);
}

pdl_status_t pdl__print_version(FILE *stream)
{
    static const pdl_column_t columns[] = {{"", PDL_LEFT}, {"", PDL_LEFT}, {"", PDL_LEFT}};
    pdl_table_t              *table = pdl_table_create(columns, 3);
    pdl_status_t              status;

    fprintf(stream, "paradl %s (%s)\n", pdl_version(), PDL_BUILD);
    add_part(table, "YAML files", "libyaml", yaml_get_version_string());
    add_part(table, "ONNX import", "protobuf-c", protobuf_c_version());
    add_mpi(table);
    add_part(table, "simulation", "SimGrid",
             pdl_sim_simgrid_version() != NULL ? pdl_sim_simgrid_version() : "not found");
    add_training(table);
    add_formats(table);
    add_part(table, "CUDA", "not used", "");
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status;
}
