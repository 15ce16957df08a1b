/*
 * Any bytes given to the readers of tables of runs (measured, published) yield rows that can be walked, or an error that names
 * the file. The first byte chooses the table.
 */
#define _GNU_SOURCE
#include <paradl/validate/published.h>
#include <paradl/validate/validate.h>

#include "as_file.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static pdl_status_t read_measured(const char *path)
{
    pdl_validation_t *table = NULL;
    pdl_status_t      st = pdl_validation_read(path, "abci", &table);
    size_t            i;

    if (st != PDL_OK) return st;
    for (i = 0; i < pdl_validation_count(table); i++) {
        const pdl_measured_row_t *row = pdl_validation_row(table, i);

        assert(row->id != NULL && (row->expressed || row->reason[0] != '\0'));
    }
    pdl_validation_destroy(table);
    return PDL_OK;
}

static pdl_status_t read_published(const char *path)
{
    pdl_published_t *table = NULL;
    pdl_status_t     st = pdl_published_read(path, "published", &table);

    if (st == PDL_OK) pdl_published_destroy(table);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_file_t  file;
    pdl_status_t st;

    if (size == 0) return 0;
    file = fuzz_file_make(data + 1, size - 1);
    st = data[0] % 2 == 0 ? read_measured(file.path) : read_published(file.path);
    if (st != PDL_OK) assert(strstr(pdl_error_message(), file.path) != NULL);
    fuzz_file_close(&file);
    return 0;
}
