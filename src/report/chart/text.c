/*
 * Charts with characters, for terminals: bars of blocks, lines as points in a grid, with the ticks of the SVG.
 */
#include "report/chart/scale.h"
#include "report/chart/style.h"

#include "base/memory.h"

#include <paradl/report/table.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS      16
#define MOST_NAME 24
#define SYMBOLS   10

typedef struct sketch {
    const pdl__chart_t *chart;
    FILE               *stream;
    pdl__ruler_t        x, y;
    int                 width; /* of the plot, in characters */
    int                 margin;
    bool                utf8;
} sketch_t;

static const char *const points_utf8[SYMBOLS] = {"●", "■", "▲", "◆", "▼", "+", "○", "□", "△", "◇"};
static const char *const points_ascii[SYMBOLS] = {"o", "x", "+", "*", "#", "@", "a", "b", "c", "d"};
static const char *const fills_utf8[SYMBOLS] = {"█", "▓", "▒", "░", "▚", "▞", "▤", "▥", "▦", "□"};
static const char *const fills_ascii[SYMBOLS] = {"#", "=", ":", ".", "%", "+", "-", "*", "o", "_"};

static const char *symbol_of(const sketch_t *k, int series)
{
    bool bar = k->chart->series[series].mark == PDL__MARK_BAR || k->chart->series[series].mark == PDL__MARK_AREA;

    if (bar) return (k->utf8 ? fills_utf8 : fills_ascii)[series % SYMBOLS];
    return (k->utf8 ? points_utf8 : points_ascii)[series % SYMBOLS];
}

/* In `width` columns, cut where it is longer; control characters are no text. */
static void put_name(const sketch_t *k, const char *name, int width, bool right)
{
    int letters = pdl__chart_width(name), count = 0;

    if (right) fprintf(k->stream, "%*s", letters < width ? width - letters : 0, "");
    for (; *name != '\0'; name++) {
        bool starts = ((unsigned char)*name & 0xc0) != 0x80;

        if (starts && count == width) break;
        count += starts;
        fputc((unsigned char)*name < 0x20 || *name == 0x7f || (!k->utf8 && (unsigned char)*name >= 0x80) ? '?'
                                                                                                         : *name,
              k->stream);
    }
    if (!right) fprintf(k->stream, "%*s", letters < width ? width - letters : 0, "");
}

static void write_legend(const sketch_t *k)
{
    int at = 0, room = k->margin + 2 + k->width;

    for (int s = 0; s < k->chart->series_count; s++) {
        const pdl__series_t *series = &k->chart->series[s];
        int                  letters;

        if (series->name == NULL || series->mark == PDL__MARK_INTERVAL || series->mark == PDL__MARK_LABEL) continue;
        letters = (int)fmin(MOST_NAME, pdl__chart_width(series->name));
        if (at > 0 && at + 4 + letters > room) {
            fputc('\n', k->stream);
            at = 0;
        }
        fprintf(k->stream, "  %s ", series->mark == PDL__MARK_RULE ? "-" : symbol_of(k, s));
        put_name(k, series->name, letters, false);
        at += 4 + letters;
    }
    if (at > 0) fputc('\n', k->stream);
}

static int column_of(const sketch_t *k, double value)
{
    double share = pdl__chart_place(&k->x, value);

    return isfinite(share) ? (int)lround(fmin(1, fmax(0, share)) * (k->width - 1)) : -1;
}

/* Ticks that have room, from the left. */
static void write_x_ticks(const sketch_t *k)
{
    int  at = 0, stride = pdl__chart_stride(&k->x, k->width, 1);
    char text[PDL_FORMAT_SIZE];

    fprintf(k->stream, "%*s", k->margin + 2, "");
    for (int i = 0; i < k->x.tick_count; i += stride) {
        const char *name = pdl__chart_tick(k->x.axis, k->x.tick[i], text);
        int         length = pdl__chart_width(name), start = column_of(k, k->x.tick[i]) - length / 2;

        if (start < 0) start = 0;
        if (start + length > k->width) start = k->width - length;
        if (start < at + (at > 0)) continue; /* moved in from the edge */
        fprintf(k->stream, "%*s%s", start - at, "", name);
        at = start + length;
    }
    fprintf(k->stream, "\n");
    if (k->x.axis->label != NULL)
        fprintf(k->stream, "%*s%s\n", k->margin + 2 + (k->width - pdl__chart_width(k->x.axis->label)) / 2, "",
                k->x.axis->label);
}

/* The point of a series in a band, or -1. */
static int in_band(const pdl__series_t *s, int band)
{
    for (int i = 0; i < s->count; i++)
        if (lround(s->y[i]) == band) return i;
    return -1;
}

static void write_bar(const sketch_t *k, int band)
{
    int    at = 0;
    char   text[PDL_FORMAT_SIZE];
    double total = 0;

    put_name(k, k->y.axis->bands[band], k->margin, true);
    fputs(k->utf8 ? " ┤" : " |", k->stream);
    for (int s = 0; s < k->chart->series_count; s++) {
        const pdl__series_t *series = &k->chart->series[s];
        int                  i = in_band(series, band);

        if (i < 0 || !isfinite(series->x[i]) || (series->mark != PDL__MARK_BAR && series->mark != PDL__MARK_POINT))
            continue;
        if (series->mark == PDL__MARK_POINT) {
            int to = column_of(k, series->x[i]);

            for (; at < to; at++) fputc(' ', k->stream);
            fputs(symbol_of(k, s), k->stream);
            at++;
            continue;
        }
        total = pdl__chart_base(k->chart, s, i) + series->x[i];
        for (int to = column_of(k, total); at < to; at++) fputs(symbol_of(k, s), k->stream);
    }
    fprintf(k->stream, " %s\n", total > 0 ? pdl__chart_value(k->x.axis, total, text) : "-");
}

static void write_bars(const sketch_t *k)
{
    for (int band = 0; band < k->y.axis->band_count; band++) write_bar(k, band);
}

/* A cell of the grid holds the series that is drawn there last, plus one; 0: none. */
static void fill_grid(const sketch_t *k, unsigned char *grid)
{
    for (int s = k->chart->series_count - 1; s >= 0; s--) {
        const pdl__series_t *series = &k->chart->series[s];

        if (series->mark == PDL__MARK_INTERVAL || series->mark == PDL__MARK_LABEL || s > 250) continue;
        for (int i = 0; i < series->count; i++) {
            double base = series->mark == PDL__MARK_AREA ? pdl__chart_base(k->chart, s, i) : 0;
            double share = pdl__chart_place(&k->y, base + series->y[i]);
            int    column = column_of(k, series->x[i]),
                row = isfinite(share) ? (int)lround((1 - share) * (ROWS - 1)) : -1;

            if (column < 0 || row < 0 || row >= ROWS) continue;
            for (int c = 0; series->mark == PDL__MARK_RULE && c < k->width; c++)
                grid[row * k->width + c] = (unsigned char)(s + 1);
            grid[row * k->width + column] = (unsigned char)(s + 1);
        }
    }
}

static void write_row(const sketch_t *k, const unsigned char *grid, int row)
{
    const char *name = "";
    char        text[PDL_FORMAT_SIZE];

    for (int i = 0; i < k->y.tick_count; i++)
        if (lround((1 - pdl__chart_place(&k->y, k->y.tick[i])) * (ROWS - 1)) == row)
            name = pdl__chart_tick(k->y.axis, k->y.tick[i], text);
    put_name(k, name, k->margin, true);
    fputs(k->utf8 ? (*name != '\0' ? " ┤" : " │") : " |", k->stream);
    for (int c = 0; c < k->width; c++) {
        int series = grid[row * k->width + c] - 1;

        if (series < 0)
            fputc(' ', k->stream);
        else
            fputs(k->chart->series[series].mark == PDL__MARK_RULE ? "-" : symbol_of(k, series), k->stream);
    }
    fputc('\n', k->stream);
}

static pdl_status_t write_grid(const sketch_t *k)
{
    unsigned char *grid = calloc((size_t)ROWS * (size_t)k->width, 1);

    if (grid == NULL) return pdl__no_memory("for a chart");
    fill_grid(k, grid);
    for (int row = 0; row < ROWS; row++) write_row(k, grid, row);
    free(grid);
    return PDL_OK;
}

static int widest_name(const sketch_t *k)
{
    int  most = 0;
    char text[PDL_FORMAT_SIZE];

    for (int i = 0; i < k->y.axis->band_count; i++) most = (int)fmax(most, pdl__chart_width(k->y.axis->bands[i]));
    for (int i = 0; i < k->y.tick_count; i++)
        most = (int)fmax(most, pdl__chart_width(pdl__chart_tick(k->y.axis, k->y.tick[i], text)));
    return (int)fmin(most, MOST_NAME);
}

pdl_status_t pdl__chart_text(const pdl__chart_t *chart, int width, bool utf8, FILE *stream)
{
    sketch_t     k = {.chart = chart, .stream = stream, .utf8 = utf8};
    bool         bands = chart->y.scale == PDL__SCALE_BAND;
    pdl_status_t status = PDL_OK;

    if (!pdl__chart_measure(chart, &k.x, &k.y))
        return pdl_error(PDL_ERR_LIMIT, "there is nothing to draw: no point has a value");
    k.margin = widest_name(&k);
    k.width = (int)fmax(20, width - k.margin - 2 - (bands ? 10 : 0));
    fprintf(stream, "%s\n", chart->title);
    write_legend(&k);
    if (bands)
        write_bars(&k);
    else
        status = write_grid(&k);
    if (!status) write_x_ticks(&k);
    return status;
}

/* As the locale is set, without asking for it: the library does not change that of its program. */
static bool locale_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);

        if (value == NULL || *value == '\0') continue;
        return strstr(value, "UTF-8") != NULL || strstr(value, "utf8") != NULL;
    }
    return false;
}

pdl_status_t pdl__chart_terminal(const pdl__chart_t *chart, FILE *stream)
{
    int width = pdl_terminal_width(stream);

    return pdl__chart_text(chart, width > 0 ? width : 80, locale_is_utf8(), stream);
}
