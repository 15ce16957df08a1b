/*
 * Comma-separated values as in RFC 4180, decoded in place: cells point into the text that was read.
 */
#include <paradl/base/csv.h>

#include "base/file.h"
#include "base/number.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct pdl_csv {
    char   *name; /* of the file */
    char   *text;
    char  **cells; /* header, then rows, `columns` each */
    size_t  cell_count, cell_room;
    size_t *lines; /* where the header and each row start */
    size_t  line_count, line_room;
    size_t  columns;
};

typedef struct cursor {
    char  *at;
    char  *end;
    size_t line;
} cursor_t;

/* Makes room for one more element of `size` bytes in *array. */
static pdl_status_t grow(void **array, size_t count, size_t *room, size_t size)
{
    size_t larger = *room == 0 ? 256 : 2 * *room;
    void  *moved;

    if (count < *room) return PDL_OK;
    moved = realloc(*array, larger * size);
    if (moved == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory while reading a table");
    *array = moved;
    *room = larger;
    return PDL_OK;
}

static pdl_status_t add_cell(pdl_csv_t *table, char *cell)
{
    void        *cells = table->cells;
    pdl_status_t st = grow(&cells, table->cell_count, &table->cell_room, sizeof(*table->cells));

    table->cells = cells;
    if (st == PDL_OK) table->cells[table->cell_count++] = cell;
    return st;
}

static pdl_status_t add_line(pdl_csv_t *table, size_t line)
{
    void        *lines = table->lines;
    pdl_status_t st = grow(&lines, table->line_count, &table->line_room, sizeof(*table->lines));

    table->lines = lines;
    if (st == PDL_OK) table->lines[table->line_count++] = line;
    return st;
}

static pdl_status_t refuse(const pdl_csv_t *table, size_t line, const char *what)
{
    return pdl_error(PDL_ERR_INPUT, "%s:%zu: %s", table->name, line, what);
}

/* Carriage returns count only as part of a line end. There may be two: programs that translate line ends do so also
   where they are those of Windows already. */
static bool at_line_end(const cursor_t *cursor)
{
    const char *at = cursor->at;

    for (int i = 0; i < 2 && at < cursor->end && *at == '\r'; i++) at++;
    return at == cursor->end || *at == '\n';
}

static void skip_line_end(cursor_t *cursor)
{
    while (cursor->at < cursor->end && *cursor->at == '\r') cursor->at++;
    if (cursor->at < cursor->end && *cursor->at == '\n') cursor->at++;
    cursor->line++;
}

/* Decodes a field in quotes onto itself; the cursor stands on the opening quote. */
static pdl_status_t read_quoted(const pdl_csv_t *table, cursor_t *cursor, char **stop)
{
    size_t first_line = cursor->line;
    char  *out = cursor->at++;

    for (;;) {
        if (cursor->at == cursor->end) return refuse(table, first_line, "a quote is opened here and never closed");
        if (*cursor->at == '"') {
            cursor->at++;
            if (cursor->at == cursor->end || *cursor->at != '"') break;
        }
        if (*cursor->at == '\n') cursor->line++;
        *out++ = *cursor->at++;
    }
    *stop = out;
    if (!at_line_end(cursor) && *cursor->at != ',') {
        return refuse(table, cursor->line, "expected a comma after the closing quote");
    }
    return PDL_OK;
}

static pdl_status_t read_plain(const pdl_csv_t *table, cursor_t *cursor, char **stop)
{
    while (!at_line_end(cursor) && *cursor->at != ',') {
        if (*cursor->at == '"')
            return refuse(table, cursor->line, "a quote inside a field that does not begin with one");
        cursor->at++;
    }
    *stop = cursor->at;
    return PDL_OK;
}

/* Reads the fields of one line. Ending a cell with a zero byte overwrites what follows it, which is why that
   is looked at first. */
static pdl_status_t read_row(pdl_csv_t *table, cursor_t *cursor)
{
    for (;;) {
        char        *cell = cursor->at, *stop = cell;
        bool         quoted = cursor->at < cursor->end && *cursor->at == '"';
        bool         last;
        pdl_status_t st = quoted ? read_quoted(table, cursor, &stop) : read_plain(table, cursor, &stop);

        if (st == PDL_OK) st = add_cell(table, cell);
        if (st != PDL_OK) return st;
        last = at_line_end(cursor);
        if (last) {
            skip_line_end(cursor);
        } else {
            cursor->at++;
        }
        *stop = '\0';
        if (last) return PDL_OK;
    }
}

static pdl_status_t check_header(const pdl_csv_t *table)
{
    size_t i, k;

    for (i = 0; i < table->columns; i++) {
        for (k = 0; k < i; k++) {
            if (table->cells[i][0] == '\0' || strcmp(table->cells[i], table->cells[k]) != 0) continue;
            return pdl_error(PDL_ERR_INPUT, "%s:%zu: column \"%.60s\" is given twice", table->name, table->lines[0],
                             table->cells[i]);
        }
    }
    return PDL_OK;
}

static pdl_status_t read_rows(pdl_csv_t *table, cursor_t *cursor)
{
    while (cursor->at < cursor->end) {
        size_t       before = table->cell_count, line = cursor->line, fields;
        pdl_status_t st;

        if (at_line_end(cursor)) {
            skip_line_end(cursor);
            continue;
        }
        st = add_line(table, line);
        if (st == PDL_OK) st = read_row(table, cursor);
        if (st != PDL_OK) return st;
        fields = table->cell_count - before;
        if (before == 0) {
            table->columns = fields;
            if (fields > 4096) return refuse(table, line, "more than 4096 columns");
            st = check_header(table);
            if (st != PDL_OK) return st;
        } else if (fields != table->columns) {
            return pdl_error(PDL_ERR_INPUT, "%s:%zu: the header has %zu fields, this row has %zu", table->name,
                             line, table->columns, fields);
        }
    }
    if (table->line_count == 0) return pdl_error(PDL_ERR_INPUT, "%s: the file is empty", table->name);
    return PDL_OK;
}

static pdl_status_t parse(pdl_csv_t *table, size_t length)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    cursor_t          cursor = {table->text, table->text + length, 1};
    const char       *zero = memchr(table->text, '\0', length);

    if (zero != NULL) return pdl_error(PDL_ERR_INPUT, "%s: not a text file, it contains a zero byte", table->name);
    if (length >= 3 && memcmp(table->text, byte_order_mark, 3) == 0) cursor.at += 3;
    return read_rows(table, &cursor);
}

pdl_status_t pdl_csv_read_file(const char *path, pdl_csv_t **table)
{
    pdl_csv_t   *made = calloc(1, sizeof(*made));
    size_t       length;
    pdl_status_t st;

    if (made == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory while reading %s", path);
    made->name = strdup(path);
    st = made->name == NULL ? pdl_error(PDL_ERR_NOMEM, "out of memory while reading %s", path) : PDL_OK;
    if (st == PDL_OK) st = pdl__file_read(path, &made->text, &length);
    if (st == PDL_OK) st = parse(made, length);
    if (st != PDL_OK) {
        pdl_csv_destroy(made);
        return st;
    }
    *table = made;
    return PDL_OK;
}

void pdl_csv_destroy(pdl_csv_t *table)
{
    if (table == NULL) return;
    free(table->name);
    free(table->text);
    free(table->cells);
    free(table->lines);
    free(table);
}

size_t pdl_csv_rows(const pdl_csv_t *table)
{
    return table->line_count - 1;
}

int pdl_csv_columns(const pdl_csv_t *table)
{
    return (int)table->columns;
}

const char *pdl_csv_name(const pdl_csv_t *table, int column)
{
    return table->cells[column];
}

int pdl_csv_column(const pdl_csv_t *table, const char *name)
{
    size_t i;

    for (i = 0; i < table->columns; i++) {
        if (strcmp(table->cells[i], name) == 0) return (int)i;
    }
    return -1;
}

const char *pdl_csv_cell(const pdl_csv_t *table, size_t row, int column)
{
    if (column < 0 || (size_t)column >= table->columns || row >= pdl_csv_rows(table)) return "";
    return table->cells[(row + 1) * table->columns + (size_t)column];
}

size_t pdl_csv_line(const pdl_csv_t *table, size_t row)
{
    return row < pdl_csv_rows(table) ? table->lines[row + 1] : 0;
}

static const char *skip_blanks(const char *text)
{
    while (*text == ' ' || *text == '\t') text++;
    return text;
}

pdl_status_t pdl_csv_number(const pdl_csv_t *table, size_t row, int column, double *value)
{
    const char *cell = skip_blanks(pdl_csv_cell(table, row, column));
    const char *end;
    double      number;

    if (cell[0] == '\0') return PDL_OK;
    if (!pdl__number_scan(cell, true, &end, &number) || *skip_blanks(end) != '\0') {
        return pdl_error(PDL_ERR_INPUT, "%s:%zu: %s: expected a number, found \"%.60s\"", table->name,
                         pdl_csv_line(table, row), table->cells[column], cell);
    }
    *value = number;
    return PDL_OK;
}
