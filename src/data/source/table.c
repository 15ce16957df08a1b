/*
 * Samples as rows of NAME.csv: a header line, then one sample a line. The column `label` has classes from 0; columns whose
 * names begin with `target` have numbers to be predicted; all others are the values of the sample, in their order. A
 * folder may hold train.csv and val.csv.
 */
#include "data/source/array.h"

#include <inttypes.h>
#include <math.h>
#include <paradl/base/csv.h>
#include <stdlib.h>
#include <string.h>

typedef struct state {
    float              *values;  /* [rows][columns - targets] */
    double             *targets; /* [rows][targets] */
    pdl__array_layout_t layout;
    int64_t             columns; /* of values */
    int64_t             rows;
} state_t;

static const char *const extensions[] = {".csv", NULL};

static bool claims(const char *path, bool folder)
{
    return folder ? pdl__path_exists_in(path, "train.csv") : pdl__has_extension(path, extensions);
}

static bool is_target(const char *name)
{
    return strcmp(name, "label") == 0 || strncmp(name, "target", strlen("target")) == 0;
}

/* One cell: an empty one is a mistake, since nobody says what it stands for. */
static pdl_status_t cell(const pdl_csv_t *table, const char *path, size_t row, int column, double *value)
{
    if (pdl_csv_cell(table, row, column)[0] != '\0') return pdl_csv_number(table, row, column, value);
    return pdl_error(PDL_ERR_INPUT, "%s:%zu: column %s is empty: give every sample a number there", path,
                     pdl_csv_line(table, row), pdl_csv_name(table, column));
}

/* A label is a class; *largest is the largest seen so far. */
static pdl_status_t check_label(const pdl_csv_t *table, const char *path, size_t row, double label, double *largest)
{
    if (!(label >= 0 && label <= INT32_MAX) || label != floor(label))
        return pdl_error(PDL_ERR_INPUT,
                         "%s:%zu: label %g: classes are whole numbers from 0; numbers to be predicted "
                         "are columns target...",
                         path, pdl_csv_line(table, row), label);
    if (label > *largest) *largest = label;
    return PDL_OK;
}

static pdl_status_t read_rows(const pdl_csv_t *table, const char *path, bool classes, state_t *state,
                              double *largest)
{
    float       *value = state->values;
    double      *target = state->targets, number;
    pdl_status_t status = PDL_OK;

    for (size_t row = 0; row < pdl_csv_rows(table); row++)
        for (int c = 0; c < pdl_csv_columns(table); c++) {
            status = cell(table, path, row, c, &number);
            if (!status && is_target(pdl_csv_name(table, c))) {
                if (classes) status = check_label(table, path, row, number, largest);
                *target++ = number;
            } else {
                *value++ = (float)number;
            }
            if (status) return status;
        }
    return PDL_OK;
}

static pdl_status_t fill(pdl_source_t *source, const pdl_source_options_t *options, const pdl_csv_t *table,
                         const char *path)
{
    state_t *state = source->state;
    bool     classes = pdl_csv_column(table, "label") >= 0;
    int64_t  targets = 0;
    double   largest = 0;

    for (int c = 0; c < pdl_csv_columns(table); c++) targets += is_target(pdl_csv_name(table, c));
    state->columns = pdl_csv_columns(table) - targets;
    state->rows = (int64_t)pdl_csv_rows(table);
    if (targets == 0 || (classes && targets > 1) || state->columns == 0)
        return pdl_error(PDL_ERR_INPUT,
                         "%s:1: expected one column label, or columns target..., and columns of values "
                         "beside them",
                         path);
    state->values = calloc((size_t)(state->rows * state->columns) + 1, sizeof(*state->values));
    state->targets = calloc((size_t)(state->rows * targets) + 1, sizeof(*state->targets));
    if (state->values == NULL || state->targets == NULL) return pdl__out_of_memory(path);
    pdl_status_t status = read_rows(table, path, classes, state, &largest);
    if (!status) status = pdl__array_layout(path, &state->columns, 1, false, &options->shape, &state->layout);
    if (status) return status;
    source->info.shape = state->layout.shape;
    source->info.target = classes ? PDL_TARGET_CLASS : PDL_TARGET_VALUES;
    source->info.target_count = targets;
    source->info.bytes_per_sample = (double)(state->columns + targets) * sizeof(float);
    if (classes) return pdl__classes_set(source, options, (int64_t)largest, path);
    if (options->classes == 0 || options->classes == targets) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "%s: %" PRId64 " numbers for each sample, the model gives %" PRId64, path,
                     targets, options->classes);
}

static pdl_status_t open_table(pdl_source_t *source, const char *path, const pdl_source_options_t *options)
{
    char         file[PDL__PATH];
    state_t     *state = calloc(1, sizeof(*state));
    pdl_csv_t   *table = NULL;
    bool         own;
    pdl_status_t status;

    if (state == NULL) return pdl__out_of_memory(path);
    source->state = state;
    status = pdl__file_of_split(&path, options->split, ".csv", file, &own);
    source->part = pdl__part_of(options, own);
    if (!status) status = pdl_csv_read_file(path, &table);
    if (!status) status = fill(source, options, table, path);
    if (!status) status = pdl__part_samples(&source->part, state->rows, path, &source->info.samples);
    pdl_csv_destroy(table);
    return status;
}

static pdl_status_t read_table(const pdl_source_t *source, int64_t index, const pdl_sample_t *sample)
{
    const state_t *state = source->state;
    const int64_t  at = pdl__part_index(&source->part, index), count = source->info.target_count;

    memcpy(sample->values, state->values + at * state->columns, (size_t)state->columns * sizeof(*state->values));
    for (int64_t i = 0; i < count; i++) {
        double target = state->targets[at * count + i];
        if (source->info.target == PDL_TARGET_VALUES)
            sample->numbers[i] = (float)target;
        else
            sample->labels[i] = (int32_t)target;
    }
    return PDL_OK;
}

static void close_table(void *opened)
{
    state_t *state = opened;

    free(state->values);
    free(state->targets);
    free(state);
}

const pdl__reader_t pdl__reader_table = {"CSV tables", claims, open_table, read_table, close_table};
