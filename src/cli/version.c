/*
 * paradl --version: the build, and the optional parts that it has.
 */
#include "cli/commands.h"

#include <paradl/sim.h>
#include <paradl/table.h>

#include <protobuf-c/protobuf-c.h>
#include <string.h>
#include <yaml.h>

#ifdef PDL_HAVE_MPI
#include <mpi.h>
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

pdl_status_t pdl__print_version(FILE *stream)
{
    static const pdl_column_t columns[] = {{"", PDL_LEFT}, {"", PDL_LEFT}, {"", PDL_LEFT}};
    pdl_table_t              *table = pdl_table_create(columns, 3);
    pdl_status_t              status;

    fprintf(stream, "paradl %s (%s)\n", PDL_VERSION, PDL_BUILD);
    add_part(table, "YAML files", "libyaml", yaml_get_version_string());
    add_part(table, "ONNX import", "protobuf-c", protobuf_c_version());
    add_mpi(table);
    add_part(table, "simulation", "SimGrid",
             pdl_sim_simgrid_version() != NULL ? pdl_sim_simgrid_version() : "not found");
    add_part(table, "CUDA", "not used", "");
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status;
}
