/*
 * paradl --version: the build, and the optional parts that it has.
 */
#include "cli/commands.h"

#include "base/plugin.h"

#include <paradl/base/version.h>
#include <paradl/report/table.h>

#include <protobuf-c/protobuf-c.h>
#include <yaml.h>
#include <zlib.h>

static void add_part(pdl_table_t *table, const char *part, const char *library, const char *version)
{
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "  %s", part);
    pdl_table_cell(table, "%s", library);
    pdl_table_cell(table, "%s", version);
}

/* A plugin is not loaded for this: its file is looked for, and the library's version is that of the build. */
static void add_plugin(pdl_table_t *table, const char *part, pdl__plugin_id_t id)
{
    add_part(table, part, pdl__plugin_library(id), pdl__plugin_found(id) ? pdl__plugin_version(id) : "not found");
}

static void add_threads(pdl_table_t *table)
{
#ifdef _OPENMP
    char text[64];

    snprintf(text, sizeof(text), "of %d-%02d", _OPENMP / 100, _OPENMP % 100);
    add_part(table, "threads", "OpenMP", text);
#else
    add_part(table, "threads", "OpenMP", "not found: own kernels use one thread");
#endif
}

pdl_status_t pdl__print_version(FILE *stream)
{
    static const pdl_column_t columns[] = {{"", PDL_LEFT}, {"", PDL_LEFT}, {"", PDL_LEFT}};
    pdl_table_t              *table = pdl_table_create(columns, 3);
    pdl_status_t              status;

    fprintf(stream, "paradl %s (%s)\n", pdl_version(), PDL_BUILD);
    add_part(table, "YAML files", "libyaml", yaml_get_version_string());
    add_part(table, "ONNX import", "protobuf-c", protobuf_c_version());
    add_plugin(table, "collectives", PDL__PLUGIN_MPI);
    add_plugin(table, "simulation", PDL__PLUGIN_SIMGRID);
    add_plugin(table, "training", PDL__PLUGIN_DNNL);
    add_threads(table);
    add_plugin(table, "binding", PDL__PLUGIN_HWLOC);
    add_part(table, "gzip files", "zlib", zlibVersion());
    add_plugin(table, "HDF5 files", PDL__PLUGIN_HDF5);
    add_plugin(table, "JPEG images", PDL__PLUGIN_JPEG);
    add_plugin(table, "PNG images", PDL__PLUGIN_PNG);
    add_plugin(table, "sample stores", PDL__PLUGIN_URING);
    add_plugin(table, "GPUs", PDL__PLUGIN_CUDA);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status;
}
