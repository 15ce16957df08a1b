/*
 * Any bytes given to the table reader yield a table whose cells can all be read, or an error.
 */
#define _GNU_SOURCE
#include <paradl/base/csv.h>

#include "as_file.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const pdl_csv_t *table)
{
    size_t row, line = 0, total = 0;
    int    column;

    for (row = 0; row < pdl_csv_rows(table); row++) {
        assert(pdl_csv_line(table, row) > line);
        line = pdl_csv_line(table, row);
        for (column = -1; column < 8; column++) {
            double value = 0;

            total += strlen(pdl_csv_cell(table, row, column));
            (void)pdl_csv_number(table, row, column, &value);
            assert(value - value == 0);
        }
    }
    assert(pdl_csv_column(table, "id") >= -1 && total < SIZE_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const fuzz_file_t file = fuzz_file_make(data, size);
    pdl_csv_t        *table = NULL;

    if (pdl_csv_read_file(file.path, &table) == PDL_OK) {
        walk(table);
        pdl_csv_destroy(table);
    } else {
        assert(table == NULL && strncmp(pdl_error_message(), file.path, strlen(file.path)) == 0);
    }
    fuzz_file_close(&file);
    return 0;
}
