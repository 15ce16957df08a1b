/*
 * Any bytes given to the table reader yield a table whose cells can all be read, or an error.
 */
#define _GNU_SOURCE
#include <paradl/csv.h>

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* The reader takes a path, so the bytes go into a file that lives in memory. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_csv_t *table = NULL;
    char       path[64];
    int        fd = memfd_create("table", 0);

    if (fd < 0 || write(fd, data, size) != (ssize_t)size) abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (pdl_csv_read_file(path, &table) == PDL_OK) {
        walk(table);
        pdl_csv_destroy(table);
    } else {
        assert(table == NULL && strncmp(pdl_error_message(), path, strlen(path)) == 0);
    }
    close(fd);
    return 0;
}
