/* Tables: quoting, line ends, and a message with file and line for every mistake. */
#include <paradl/base/csv.h>

#include "scratch.h"

static pdl_status_t read_bytes(const char *text, size_t length, pdl_csv_t **table)
{
    return pdl_csv_read_file(scratch_file("table.csv", text, length), table);
}

static pdl_csv_t *must_read(const char *text)
{
    pdl_csv_t *table = NULL;

    CHECK_OK(read_bytes(text, strlen(text), &table));
    if (table == NULL) exit(test_done());
    return table;
}

static void check_refused(const char *text, const char *message)
{
    pdl_csv_t *table = NULL;

    CHECK_ERROR(read_bytes(text, strlen(text), &table), message);
    CHECK(table == NULL);
}

static void reads_rows_and_columns(void)
{
    pdl_csv_t *table = must_read("id,model,seconds\n1,vgg16,0.5\n2,resnet50,\n");

    CHECK_INT(pdl_csv_rows(table), 2);
    CHECK_INT(pdl_csv_column(table, "id"), 0);
    CHECK_INT(pdl_csv_column(table, "seconds"), 2);
    CHECK_INT(pdl_csv_column(table, "absent"), -1);
    CHECK_STR(pdl_csv_cell(table, 1, 1), "resnet50");
    CHECK_STR(pdl_csv_cell(table, 1, 2), "");
    CHECK_STR(pdl_csv_cell(table, 1, -1), "");
    CHECK_STR(pdl_csv_cell(table, 1, 3), "");
    CHECK_STR(pdl_csv_cell(table, 2, 0), "");
    CHECK_INT(pdl_csv_line(table, 1), 3);
    pdl_csv_destroy(table);
}

static void reads_quoted_fields(void)
{
    pdl_csv_t *table = must_read("a,b\n\"x, y\",\"say \"\"hi\"\"\"\n\"two\nlines\",2\n\"\",\"\"\n3,4");

    CHECK_INT(pdl_csv_rows(table), 4);
    CHECK_STR(pdl_csv_cell(table, 0, 0), "x, y");
    CHECK_STR(pdl_csv_cell(table, 0, 1), "say \"hi\"");
    CHECK_STR(pdl_csv_cell(table, 1, 0), "two\nlines");
    CHECK_STR(pdl_csv_cell(table, 1, 1), "2");
    CHECK_STR(pdl_csv_cell(table, 2, 0), "");
    CHECK_STR(pdl_csv_cell(table, 2, 1), "");
    CHECK_STR(pdl_csv_cell(table, 3, 1), "4");
    CHECK_INT(pdl_csv_line(table, 1), 3);
    CHECK_INT(pdl_csv_line(table, 2), 5);
    pdl_csv_destroy(table);
}

static void reads_other_line_ends(void)
{
    pdl_csv_t *table = must_read("\xef\xbb\xbf"
                                 "a,b\r\n1,\"2\"\r\n\r\n\n3,4\r\n");

    CHECK_INT(pdl_csv_rows(table), 2);
    CHECK_INT(pdl_csv_column(table, "a"), 0);
    CHECK_INT(pdl_csv_column(table, "b"), 1);
    CHECK_STR(pdl_csv_cell(table, 0, 1), "2");
    CHECK_STR(pdl_csv_cell(table, 1, 1), "4");
    CHECK_INT(pdl_csv_line(table, 1), 5);
    pdl_csv_destroy(table);
}

/* What translates line ends twice leaves two carriage returns; more, or one inside a line, are part of a field. */
static void reads_line_ends_translated_twice(void)
{
    pdl_csv_t *table = must_read("\xef\xbb\xbf"
                                 "a,b\r\r\n1,\"2\"\r\r\n3,x\ry\r\r\n");

    CHECK_INT(pdl_csv_rows(table), 2);
    CHECK_STR(pdl_csv_cell(table, 0, pdl_csv_column(table, "a")), "1");
    CHECK_STR(pdl_csv_cell(table, 0, 1), "2");
    CHECK_STR(pdl_csv_cell(table, 1, 1), "x\ry");
    pdl_csv_destroy(table);
}

static void reads_a_header_alone(void)
{
    pdl_csv_t *table = must_read("a,b");

    CHECK_INT(pdl_csv_rows(table), 0);
    CHECK_INT(pdl_csv_column(table, "b"), 1);
    pdl_csv_destroy(table);
}

static void reads_numbers(void)
{
    pdl_csv_t *table = must_read("x\n0.5\n-3\n 1e-3 \n   \nnan\n1.5x\n12 3\n1e999\n0x10\n");
    double     value = 7;

    CHECK_OK(pdl_csv_number(table, 0, 0, &value));
    CHECK_NEAR(value, 0.5, 0);
    CHECK_OK(pdl_csv_number(table, 1, 0, &value));
    CHECK_NEAR(value, -3, 0);
    CHECK_OK(pdl_csv_number(table, 2, 0, &value));
    CHECK_NEAR(value, 1e-3, 0);
    CHECK_OK(pdl_csv_number(table, 3, 0, &value));
    CHECK_OK(pdl_csv_number(table, 0, -1, &value));
    CHECK_ERROR(pdl_csv_number(table, 4, 0, &value), "table.csv:6: x: expected a number, found \"nan\"");
    CHECK_ERROR(pdl_csv_number(table, 5, 0, &value), "expected a number, found \"1.5x\"");
    CHECK_ERROR(pdl_csv_number(table, 6, 0, &value), "expected a number");
    CHECK_ERROR(pdl_csv_number(table, 7, 0, &value), "expected a number");
    CHECK_ERROR(pdl_csv_number(table, 8, 0, &value), "expected a number");
    CHECK_NEAR(value, 1e-3, 0);
    pdl_csv_destroy(table);
}

static void refuses_malformed_tables(void)
{
    check_refused("", "table.csv: the file is empty");
    check_refused("\n\r\n\n", "table.csv: the file is empty");
    check_refused("a,b\n1\n", "table.csv:2: the header has 2 fields, this row has 1");
    check_refused("a,b\n1,2\n\n1,2,3\n", "table.csv:4: the header has 2 fields, this row has 3");
    check_refused("a,b\n1,\"open\n2,3\n", "table.csv:2: a quote is opened here and never closed");
    check_refused("a,b\n1,\"", "table.csv:2: a quote is opened here");
    check_refused("a,b\n\"x\"y,2\n", "table.csv:2: expected a comma after the closing quote");
    check_refused("a,b\nx\"y\",2\n", "table.csv:2: a quote inside a field");
    check_refused("a,b,a\n1,2,3\n", "table.csv:1: column \"a\" is given twice");
}

static void refuses_binary_files(void)
{
    pdl_csv_t *table = NULL;

    CHECK_ERROR(read_bytes("a,b\n1\0,2\n", 9, &table), "not a text file");
    CHECK_INT(pdl_csv_read_file(scratch_path("absent.csv"), &table), PDL_ERR_IO);
    CHECK(strstr(pdl_error_message(), "absent.csv: No such file or directory") != NULL);
    CHECK_ERROR(pdl_csv_read_file(scratch_folder, &table), "Is a directory");
    CHECK(table == NULL);
    pdl_csv_destroy(NULL);
}

static void reads_many_rows(void)
{
    enum { ROWS = 50000 };
    char      *text = malloc(ROWS * 32);
    size_t     used = (size_t)sprintf(text, "row,square\n");
    pdl_csv_t *table = NULL;
    double     value = 0;
    int        i;

    for (i = 0; i < ROWS; i++) used += (size_t)sprintf(text + used, "%d,%lld\n", i, (long long)i * i);
    CHECK_OK(read_bytes(text, used, &table));
    CHECK_INT(pdl_csv_rows(table), ROWS);
    CHECK_OK(pdl_csv_number(table, ROWS - 1, 1, &value));
    CHECK_NEAR(value, (ROWS - 1.0) * (ROWS - 1.0), 0);
    pdl_csv_destroy(table);
    free(text);
}

int main(void)
{
    if (!scratch_begin()) return 1;
    RUN(reads_rows_and_columns);
    RUN(reads_quoted_fields);
    RUN(reads_other_line_ends);
    RUN(reads_line_ends_translated_twice);
    RUN(reads_a_header_alone);
    RUN(reads_numbers);
    RUN(refuses_malformed_tables);
    RUN(refuses_binary_files);
    RUN(reads_many_rows);
    scratch_end();
    return test_done();
}
