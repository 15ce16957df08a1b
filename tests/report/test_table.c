/*
 * Tables: alignment, spans, UTF-8, columns that nobody filled, and no colours outside a terminal.
 */
#include "test.h"

#include <paradl/report/table.h>

#include <stdlib.h>

static char printed[2048];

/* Prints a table to a file and leaves the text in `printed`. */
static void print(const pdl_table_t *table)
{
    FILE  *file = tmpfile();
    size_t length = 0;

    CHECK(file != NULL);
    if (file == NULL) return;
    CHECK_OK(pdl_table_print(table, file));
    rewind(file);
    length = fread(printed, 1, sizeof(printed) - 1, file);
    printed[length] = '\0';
    fclose(file);
}

static void lines_up(void)
{
    static const pdl_column_t columns[] = {{"name", PDL_LEFT}, {"size", PDL_RIGHT}, {"note", PDL_LEFT}};
    pdl_table_t              *table = pdl_table_create(columns, 3);

    pdl_table_row(table, PDL_ROW_STRONG);
    pdl_table_cell(table, "%s", "conv1");
    pdl_table_cell(table, "%d", 64);
    pdl_table_cell(table, "%s", "first");
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "%s", "fc");
    pdl_table_cell(table, "%d", 1000000);
    pdl_table_row(table, PDL_ROW_FAINT);
    pdl_table_cell(table, "%s", "\xce\xb1\xce\xb2");
    pdl_table_span(table, "%s", "runs over the rest without widening anything");
    print(table);
    CHECK_STR(printed, "name      size  note\n"
                       "conv1       64  first\n"
                       "fc     1000000\n"
                       "\xce\xb1\xce\xb2     runs over the rest without widening anything\n");
    pdl_table_destroy(table);
}

static void leaves_out_what_is_empty(void)
{
    static const pdl_column_t columns[] = {{"", PDL_LEFT}, {"", PDL_RIGHT}, {"", PDL_LEFT}};
    pdl_table_t              *table = pdl_table_create(columns, 3);

    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "%s", "a");
    pdl_table_cell(table, "%s", "");
    pdl_table_cell(table, "%s", "b");
    pdl_table_cell(table, "%s", "one cell too many is ignored");
    print(table);
    CHECK_STR(printed, "a  b\n");
    pdl_table_destroy(table);
}

static void reports_missing_memory(void)
{
    pdl_table_row(NULL, PDL_ROW_PLAIN);
    pdl_table_cell(NULL, "%d", 1);
    CHECK_INT(pdl_table_print(NULL, stdout), PDL_ERR_NOMEM);
    pdl_table_destroy(NULL);
}

static void knows_files_from_terminals(void)
{
    FILE *file = tmpfile();

    CHECK(file != NULL);
    if (file == NULL) return;
    CHECK_INT(pdl_terminal_width(file), 0);
    CHECK(!pdl_terminal_colour(file));
    fclose(file);
}

int main(void)
{
    RUN(lines_up);
    RUN(leaves_out_what_is_empty);
    RUN(reports_missing_memory);
    RUN(knows_files_from_terminals);
    return test_done();
}
