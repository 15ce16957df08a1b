/*
 * Lists of the built-in descriptions. Each is loaded, so that a list shows what it is and a broken file is noticed.
 */
#include "report/dataset_fields.h"

#include <paradl/base/document.h>
#include <paradl/base/share.h>
#include <paradl/base/units.h>
#include <paradl/data/data.h>
#include <paradl/report/report.h>
#include <paradl/report/table.h>

/* A list is a table or a JSON document, whichever of the two is there. */
typedef struct list {
    pdl_table_t *table;
    pdl_json_t  *json;
} list_t;

/* What is listed: where the files are, how the columns are called, and what adds one of them. */
typedef struct kind {
    const char         *folder, *key, *document;
    const char *const  *extensions;
    const pdl_column_t *columns;
    int                 column_count;
    pdl_status_t (*add)(const list_t *list, const char *name);
} kind_t;

static pdl_status_t add_all(const kind_t *kind, const list_t *list)
{
    char       **names;
    size_t       count;
    pdl_status_t status = pdl_share_list(kind->folder, kind->extensions, &names, &count);

    if (status) return status;
    for (size_t i = 0; !status && i < count; i++) {
        if (list->json != NULL) {
            pdl_json_open(list->json, NULL, '{');
            pdl_json_string(list->json, "name", names[i]);
        } else {
            pdl_table_row(list->table, PDL_ROW_PLAIN);
            pdl_table_cell(list->table, "%s", names[i]);
        }
        status = kind->add(list, names[i]);
        if (list->json != NULL) pdl_json_close(list->json);
    }
    pdl_share_free_list(names, count);
    return status;
}

static pdl_status_t print_list(const kind_t *kind, FILE *stream)
{
    list_t       list = {.table = pdl_table_create(kind->columns, kind->column_count)};
    pdl_status_t status = add_all(kind, &list);

    if (!status) status = pdl_table_print(list.table, stream);
    pdl_table_destroy(list.table);
    return status;
}

static pdl_status_t print_json(const kind_t *kind, FILE *stream)
{
    pdl_json_t   json;
    list_t       list = {.json = &json};
    pdl_status_t status;

    pdl_document_begin(&json, stream, kind->document);
    pdl_json_open(&json, kind->key, '[');
    status = add_all(kind, &list);
    pdl_json_close(&json);
    pdl_json_close(&json);
    return status;
}

static pdl_status_t add_model(const list_t *list, const char *name)
{
    pdl_model_t       *model;
    pdl_model_totals_t totals;
    char               weights[PDL_FORMAT_SIZE], macs[PDL_FORMAT_SIZE];
    pdl_status_t       status = pdl_model_load(name, &model);

    if (status) return status;
    pdl_model_totals(model, &totals);
    if (list->json != NULL) {
        pdl_json_int(list->json, "parameters", totals.weights);
        pdl_json_int(list->json, "macs", totals.macs);
        pdl_json_string(list->json, "description", pdl_model_description(model));
    } else {
        pdl_table_cell(list->table, "%s", pdl_format_short((double)totals.weights, weights));
        pdl_table_cell(list->table, "%s", pdl_format_short((double)totals.macs, macs));
        pdl_table_cell(list->table, "%s", pdl_model_description(model));
    }
    pdl_model_destroy(model);
    return PDL_OK;
}

static const char *const  model_extensions[] = {".yaml", ".net", NULL};
static const pdl_column_t model_columns[] = {{"model", PDL_LEFT},
                                             {"parameters", PDL_RIGHT},
                                             {"MAC", PDL_RIGHT},
                                             {"description", PDL_LEFT}};
static const kind_t models = {"models", "models", "model-list/1", model_extensions, model_columns, 4, add_model};

pdl_status_t pdl_report_model_list(FILE *stream)
{
    return print_list(&models, stream);
}

pdl_status_t pdl_report_model_list_json(FILE *stream)
{
    return print_json(&models, stream);
}

static pdl_status_t add_system(const list_t *list, const char *name)
{
    const pdl_system_t *system;
    char                count[PDL_FORMAT_SIZE];
    pdl_status_t        status = pdl_system_load(name, &system);
    const char         *description;

    if (status) return status;
    description = system->description != NULL ? system->description : "";
    if (list->json != NULL) {
        pdl_json_int(list->json, "pe", system->pe_count);
        pdl_json_string(list->json, "device", system->device.name);
        pdl_json_string(list->json, "description", description);
    } else {
        pdl_table_cell(list->table, "%s", pdl_format_count(system->pe_count, count));
        pdl_table_cell(list->table, "%s", system->device.name);
        pdl_table_cell(list->table, "%s", description);
    }
    pdl_system_destroy(system);
    return PDL_OK;
}

static const char *const  yaml_extensions[] = {".yaml", NULL};
static const pdl_column_t system_columns[] = {{"system", PDL_LEFT},
                                              {"devices", PDL_RIGHT},
                                              {"device", PDL_LEFT},
                                              {"description", PDL_LEFT}};
static const kind_t       systems = {"systems",      "systems", "system-list/1", yaml_extensions,
                                     system_columns, 4,         add_system};

pdl_status_t pdl_report_system_list(FILE *stream)
{
    return print_list(&systems, stream);
}

pdl_status_t pdl_report_system_list_json(FILE *stream)
{
    return print_json(&systems, stream);
}

/* Where the samples are, for a reader of the table. */
static const char *say_files(const pdl_dataset_t *dataset, const char *name, pdl_data_state_t place,
                             const char *path, char *text, size_t size)
{
    if (place == PDL_DATA_HERE) return dataset->samples > 0 ? path : "made while it is read";
    if (place == PDL_DATA_BY_PATH) return "by path";
    snprintf(text, size, "paradl data get %s", name);
    return text;
}

static pdl_status_t add_dataset(const list_t *list, const char *name)
{
    pdl_dataset_t    dataset;
    char             count[PDL_FORMAT_SIZE], bytes[PDL_FORMAT_SIZE], shape[80], path[4096], text[160];
    pdl_status_t     status = pdl_dataset_load(name, &dataset);
    pdl_data_state_t place;
    bool             known;

    if (status) return status;
    place = pdl_data_find(name, NULL, path, sizeof(path));
    known = dataset.shape.channels > 0;
    if (known) pdl_shape_format(&dataset.shape, shape, sizeof(shape));
    if (list->json != NULL) {
        pdl__dataset_fields(list->json, &dataset);
        pdl_json_string(list->json, "path", place == PDL_DATA_HERE && dataset.samples > 0 ? path : NULL);
    } else {
        pdl_table_cell(list->table, "%s",
                       dataset.samples > 0 ? pdl_format_count(dataset.samples, count) : "unlimited");
        pdl_table_cell(list->table, "%s", known ? shape : "");
        pdl_table_cell(list->table, "%s", pdl_format_bytes(dataset.bytes_per_sample, bytes));
        pdl_table_cell(list->table, "%s", say_files(&dataset, name, place, path, text, sizeof(text)));
    }
    return PDL_OK;
}

static const pdl_column_t dataset_columns[] = {
    {"data", PDL_LEFT}, {"samples", PDL_RIGHT}, {"sample", PDL_RIGHT}, {"stored", PDL_RIGHT}, {"files", PDL_LEFT}};
static const kind_t datasets = {"data", "data", "dataset-list/1", yaml_extensions, dataset_columns, 5, add_dataset};

pdl_status_t pdl_report_dataset_list(FILE *stream)
{
    return print_list(&datasets, stream);
}

pdl_status_t pdl_report_dataset_list_json(FILE *stream)
{
    return print_json(&datasets, stream);
}
