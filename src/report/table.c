/*
 * Text tables. Cells are kept until all widths are known.
 */
#include <paradl/report/table.h>

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define GAP        2  /* blanks between columns */
#define LEAST_ROOM 20 /* for a cell to be broken; in less it is left to the terminal */

typedef struct row {
    pdl_row_style_t style;
    int             count;
    bool            spans; /* the last cell runs over the rest */
    char          **cells;
} row_t;

struct pdl_table {
    const pdl_column_t *columns;
    int                 column_count;
    row_t              *rows;
    size_t              row_count, room;
    bool                failed;
};

int pdl_terminal_width(FILE *stream)
{
    struct winsize size;
    int            file = fileno(stream);

    if (file < 0 || !isatty(file) || ioctl(file, TIOCGWINSZ, &size) != 0) return 0;
    return size.ws_col;
}

bool pdl_terminal_colour(FILE *stream)
{
    const char *no_colour = getenv("NO_COLOR"), *terminal = getenv("TERM");
    int         file = fileno(stream);

    if (no_colour != NULL && no_colour[0] != '\0') return false;
    return file >= 0 && isatty(file) && terminal != NULL && strcmp(terminal, "dumb") != 0;
}

pdl_table_t *pdl_table_create(const pdl_column_t *columns, int count)
{
    pdl_table_t *table = calloc(1, sizeof(*table));

    if (table == NULL) return NULL;
    table->columns = columns;
    table->column_count = count;
    return table;
}

void pdl_table_destroy(pdl_table_t *table)
{
    if (table == NULL) return;
    for (size_t r = 0; r < table->row_count; r++) {
        for (int c = 0; c < table->rows[r].count; c++) free(table->rows[r].cells[c]);
        free(table->rows[r].cells);
    }
    free(table->rows);
    free(table);
}

static bool grow(pdl_table_t *table)
{
    size_t room = table->room > 0 ? 2 * table->room : 16;
    row_t *rows;

    if (table->row_count < table->room) return true;
    rows = realloc(table->rows, room * sizeof(*rows));
    if (rows == NULL) return false;
    table->rows = rows;
    table->room = room;
    return true;
}

void pdl_table_row(pdl_table_t *table, pdl_row_style_t style)
{
    char **cells;

    if (table == NULL || table->failed) return;
    cells = grow(table) ? calloc((size_t)table->column_count, sizeof(*cells)) : NULL;
    table->failed = cells == NULL;
    if (cells != NULL) table->rows[table->row_count++] = (row_t){.style = style, .cells = cells};
}

static char *format_cell(const char *format, va_list arguments)
{
    va_list again;
    char   *text;
    int     length;

    va_copy(again, arguments);
    length = vsnprintf(NULL, 0, format, arguments);
    text = length < 0 ? NULL : malloc((size_t)length + 1);
    if (text != NULL) vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

static void add_cell(pdl_table_t *table, bool spans, const char *format, va_list arguments)
{
    row_t *row;

    if (table == NULL || table->failed || table->row_count == 0) return;
    row = &table->rows[table->row_count - 1];
    if (row->count == table->column_count || row->spans) return;
    row->cells[row->count] = format_cell(format, arguments);
    table->failed = row->cells[row->count] == NULL;
    row->spans = spans;
    if (!table->failed) row->count++;
}

void pdl_table_cell(pdl_table_t *table, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    add_cell(table, false, format, arguments);
    va_end(arguments);
}

void pdl_table_span(pdl_table_t *table, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    add_cell(table, true, format, arguments);
    va_end(arguments);
}

/* Characters of UTF-8 text: bytes that do not continue one. */
static int text_width(const char *text)
{
    int width = 0;

    for (; *text != '\0'; text++) width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

/* Bytes of the first `width` characters. */
static int bytes_of(const char *text, int width)
{
    int i = 0;

    for (; text[i] != '\0'; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80 && width-- == 0) break;
    }
    return i;
}

static void set_widths(const pdl_table_t *table, int *widths)
{
    for (int c = 0; c < table->column_count; c++) widths[c] = text_width(table->columns[c].header);
    for (size_t r = 0; r < table->row_count; r++) {
        const row_t *row = &table->rows[r];

        for (int c = 0; c < row->count - row->spans; c++) {
            int width = text_width(row->cells[c]);

            if (width > widths[c]) widths[c] = width;
        }
    }
}

/* The last cell of a row: where the line ends at `limit` (0: nowhere) it goes on below itself, between words. */
static void print_last(FILE *stream, const char *text, int at, int limit)
{
    int room = limit - at;

    while (room >= LEAST_ROOM && text_width(text) > room) {
        int cut = bytes_of(text, room);

        while (cut > 0 && text[cut] != ' ') cut--;
        if (cut == 0) break;
        fprintf(stream, "%.*s\n%*s", cut, text, at, "");
        text += cut + 1;
    }
    fputs(text, stream);
}

/* One row; columns that nobody filled are left out, and so is what is empty at the end. */
static void print_line(const pdl_table_t *table, const int *widths, const row_t *row, int limit, FILE *stream)
{
    int last = row->count - 1, at = 0;

    while (last >= 0 && row->cells[last][0] == '\0') last--;
    for (int c = 0; c <= last; c++) {
        bool        spanning = row->spans && c == row->count - 1;
        const char *text = row->cells[c];
        int         width = spanning ? 0 : widths[c], pad = width - text_width(text);
        bool        right = !spanning && table->columns[c].align == PDL_RIGHT;

        if (width == 0 && !spanning) continue;
        if (at > 0) fprintf(stream, "%*s", GAP, "");
        if (at > 0) at += GAP;
        if (right) fprintf(stream, "%*s", pad, "");
        if (c == last)
            print_last(stream, text, right ? at + pad : at, limit);
        else
            fprintf(stream, "%s%*s", text, right ? 0 : pad, "");
        at += width;
    }
}

static void print_row(const pdl_table_t *table, const int *widths, const row_t *row, FILE *stream)
{
    static const char *const codes[] = {
        [PDL_ROW_PLAIN] = "", [PDL_ROW_STRONG] = "\033[1m", [PDL_ROW_FAINT] = "\033[2m"};
    const char *code = pdl_terminal_colour(stream) ? codes[row->style] : "";

    fputs(code, stream);
    print_line(table, widths, row, pdl_terminal_width(stream), stream);
    fprintf(stream, "%s\n", code[0] != '\0' ? "\033[0m" : "");
}

static pdl_status_t print_header(const pdl_table_t *table, const int *widths, FILE *stream)
{
    row_t row = {.style = PDL_ROW_PLAIN, .count = table->column_count};
    bool  any = false;

    row.cells = calloc((size_t)table->column_count, sizeof(*row.cells));
    if (row.cells == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a table");
    for (int c = 0; c < table->column_count; c++) {
        row.cells[c] = (char *)table->columns[c].header;
        any = any || row.cells[c][0] != '\0';
    }
    if (any) print_row(table, widths, &row, stream);
    free(row.cells);
    return PDL_OK;
}

pdl_status_t pdl_table_print(const pdl_table_t *table, FILE *stream)
{
    int         *widths;
    pdl_status_t status;

    if (table == NULL || table->failed) return pdl_error(PDL_ERR_NOMEM, "out of memory for a table");
    widths = calloc((size_t)table->column_count, sizeof(*widths));
    if (widths == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a table");
    set_widths(table, widths);
    status = print_header(table, widths, stream);
    for (size_t r = 0; !status && r < table->row_count; r++) print_row(table, widths, &table->rows[r], stream);
    free(widths);
    return status;
}
