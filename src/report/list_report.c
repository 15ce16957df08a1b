/*
 * Lists of the built-in descriptions. Each is loaded, so that a list shows what it is and a broken file is noticed.
 */
#include <paradl/data.h>
#include <paradl/report.h>
#include <paradl/share.h>
#include <paradl/table.h>
#include <paradl/units.h>

typedef pdl_status_t (*add_fn_t)(pdl_table_t *table, const char *name);

static pdl_status_t print_list(const char *folder, const char *const *extensions, const pdl_column_t *columns,
                               int column_count, add_fn_t add, FILE *stream)
{
    char       **names;
    size_t       count;
    pdl_table_t *table;
    pdl_status_t status = pdl_share_list(folder, extensions, &names, &count);

    if (status) return status;
    table = pdl_table_create(columns, column_count);
    for (size_t i = 0; !status && i < count; i++) status = add(table, names[i]);
    if (!status) status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    pdl_share_free_list(names, count);
    return status;
}

static pdl_status_t add_model(pdl_table_t *table, const char *name)
{
    pdl_model_t       *model;
    pdl_model_totals_t totals;
    char               weights[PDL_FORMAT_SIZE], macs[PDL_FORMAT_SIZE];
    pdl_status_t       status = pdl_model_load(name, &model);

    if (status) return status;
    pdl_model_totals(model, &totals);
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "%s", name);
    pdl_table_cell(table, "%s", pdl_format_short((double)totals.weights, weights));
    pdl_table_cell(table, "%s", pdl_format_short((double)totals.macs, macs));
    pdl_table_cell(table, "%s", pdl_model_description(model));
    pdl_model_destroy(model);
    return PDL_OK;
}

pdl_status_t pdl_report_model_list(FILE *stream)
{
    static const char *const  extensions[] = {".yaml", ".net", NULL};
    static const pdl_column_t columns[] = {{"model", PDL_LEFT},
                                           {"parameters", PDL_RIGHT},
                                           {"MAC", PDL_RIGHT},
                                           {"description", PDL_LEFT}};

    return print_list("models", extensions, columns, 4, add_model, stream);
}

static pdl_status_t add_system(pdl_table_t *table, const char *name)
{
    const pdl_system_t *system;
    char                count[PDL_FORMAT_SIZE];
    pdl_status_t        status = pdl_system_load(name, &system);

    if (status) return status;
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "%s", name);
    pdl_table_cell(table, "%s", pdl_format_count(system->pe_count, count));
    pdl_table_cell(table, "%s", system->device.name);
    pdl_table_cell(table, "%s", system->description != NULL ? system->description : "");
    pdl_system_destroy(system);
    return PDL_OK;
}

pdl_status_t pdl_report_system_list(FILE *stream)
{
    static const char *const  extensions[] = {".yaml", NULL};
    static const pdl_column_t columns[] = {{"system", PDL_LEFT},
                                           {"PEs", PDL_RIGHT},
                                           {"PE", PDL_LEFT},
                                           {"description", PDL_LEFT}};

    return print_list("systems", extensions, columns, 4, add_system, stream);
}

static pdl_status_t add_dataset(pdl_table_t *table, const char *name)
{
    pdl_dataset_t dataset;
    char          count[PDL_FORMAT_SIZE], bytes[PDL_FORMAT_SIZE], shape[80], path[4096];
    pdl_status_t  status = pdl_dataset_load(name, &dataset);

    if (status) return status;
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "%s", name);
    pdl_table_cell(table, "%s", dataset.samples > 0 ? pdl_format_count(dataset.samples, count) : "unlimited");
    pdl_table_cell(table, "%s",
                   dataset.shape.channels > 0 ? pdl_shape_format(&dataset.shape, shape, sizeof(shape)) : "");
    pdl_table_cell(table, "%s", pdl_format_bytes(dataset.bytes_per_sample, bytes));
    switch (pdl_data_find(name, NULL, path, sizeof(path))) {
    case PDL_DATA_HERE: pdl_table_cell(table, "%s", dataset.samples > 0 ? path : "made while it is read"); break;
    case PDL_DATA_TO_GET: pdl_table_cell(table, "paradl data get %s", name); break;
    case PDL_DATA_BY_PATH: pdl_table_cell(table, "by path"); break;
    }
    return PDL_OK;
}

pdl_status_t pdl_report_dataset_list(FILE *stream)
{
    static const char *const  extensions[] = {".yaml", NULL};
    static const pdl_column_t columns[] = {{"data", PDL_LEFT},
                                           {"samples", PDL_RIGHT},
                                           {"sample", PDL_RIGHT},
                                           {"stored", PDL_RIGHT},
                                           {"files", PDL_LEFT}};

    return print_list("data", extensions, columns, 5, add_dataset, stream);
}
