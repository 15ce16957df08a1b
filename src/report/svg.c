/*
 * Draws line plots. Positions follow from the logarithms of the values; ticks are powers of ten, or of two on
 * request.
 */
#include "report/svg.h"

#include <math.h>

#define WIDTH  900.0
#define HEIGHT 520.0
#define LEFT   90.0
#define RIGHT  210.0 /* room for the legend */
#define TOP    50.0
#define BOTTOM 70.0
#define TICKS  12 /* at most so many on an axis */

/* Eight colours that people with colour blindness can tell apart; dashes tell the rounds apart. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#7f3c8d", "#444444"};
static const char *const dashes[] = {"none", "8 4", "2 3"};
#define COLOURS (sizeof(colours) / sizeof(colours[0]))

typedef struct axis {
    double low, high; /* logarithms to the base of the ticks */
    double start, length, base;
} axis_t;

static double place(const axis_t *axis, double value)
{
    double share =
        axis->high > axis->low ? (log(value) / log(axis->base) - axis->low) / (axis->high - axis->low) : 0.5;

    return axis->start + share * axis->length;
}

static void write_text(FILE *stream, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<': fputs("&lt;", stream); break;
        case '>': fputs("&gt;", stream); break;
        case '&': fputs("&amp;", stream); break;
        default: fputc(*text, stream);
        }
    }
}

static void label(FILE *stream, double x, double y, const char *anchor, int size, const char *text)
{
    fprintf(stream, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\">", x, y, anchor, size);
    write_text(stream, text);
    fputs("</text>\n", stream);
}

static void line(FILE *stream, double x1, double y1, double x2, double y2, const char *colour)
{
    fprintf(stream, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1, y1, x2, y2,
            colour);
}

static bool find_range(const pdl__plot_t *plot, double *least, double *most)
{
    *least = INFINITY;
    *most = 0;
    for (int s = 0; s < plot->series_count; s++)
        for (int p = 0; p < plot->points; p++) {
            if (!(plot->series[s].y[p] > 0)) continue;
            *least = fmin(*least, plot->series[s].y[p]);
            *most = fmax(*most, plot->series[s].y[p]);
        }
    return *most > 0;
}

static void draw_x_ticks(const pdl__plot_t *plot, const axis_t *axis, FILE *stream)
{
    double bottom = HEIGHT - BOTTOM, step = fmax(1, ceil((axis->high - axis->low) / TICKS));
    char   text[PDL_FORMAT_SIZE];

    for (double tick = ceil(axis->low - 1e-9); tick <= axis->high + 1e-9; tick += step) {
        double value = pow(axis->base, tick), x = place(axis, value);

        line(stream, x, TOP, x, bottom, "#e0e0e0");
        label(stream, x, bottom + 18, "middle", 12, plot->format_x(value, text));
    }
    label(stream, axis->start + axis->length / 2, HEIGHT - 22, "middle", 14, plot->x_label);
}

static void draw_y_ticks(const pdl__plot_t *plot, const axis_t *axis, FILE *stream)
{
    double step = fmax(1, ceil((axis->high - axis->low) / TICKS));
    char   text[PDL_FORMAT_SIZE];

    for (double tick = ceil(axis->low - 1e-9); tick <= axis->high + 1e-9; tick += step) {
        double value = pow(axis->base, tick), y = place(axis, value);

        line(stream, LEFT, y, WIDTH - RIGHT, y, "#e0e0e0");
        label(stream, LEFT - 8, y + 4, "end", 12, plot->format_y(value, text));
    }
    fprintf(stream, "<text transform=\"translate(22 %.1f) rotate(-90)\" text-anchor=\"middle\" font-size=\"14\">",
            (HEIGHT - BOTTOM + TOP) / 2);
    write_text(stream, plot->y_label);
    fputs("</text>\n", stream);
}

/* A series is drawn in pieces where points are missing. */
static void draw_series(const pdl__plot_t *plot, int index, const axis_t *x, const axis_t *y, FILE *stream)
{
    const pdl__series_t *series = &plot->series[index];
    const char          *colour = series->faint ? "#999999" : colours[(size_t)index % COLOURS];
    const char          *dash = series->faint ? dashes[2] : dashes[(size_t)index / COLOURS % 3];
    double               legend = TOP + 10 + 18.0 * index;
    bool                 open = false;

    fprintf(stream, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" stroke-dasharray=\"%s\" d=\"", colour,
            series->faint ? "1.5" : "2", dash);
    for (int p = 0; p < plot->points; p++) {
        bool there = series->y[p] > 0;

        if (there) fprintf(stream, "%c%.1f %.1f", open ? 'L' : 'M', place(x, plot->x[p]), place(y, series->y[p]));
        open = there;
    }
    fputs("\"/>\n", stream);
    for (int p = 0; p < plot->points; p++)
        if (series->y[p] > 0 && !series->faint)
            fprintf(stream, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\"/>\n", place(x, plot->x[p]),
                    place(y, series->y[p]), colour);
    fprintf(stream,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"2\" "
            "stroke-dasharray=\"%s\"/>\n",
            WIDTH - RIGHT + 15, legend, WIDTH - RIGHT + 45, legend, colour, dash);
    label(stream, WIDTH - RIGHT + 52, legend + 4, "start", 12, series->name);
}

pdl_status_t pdl__svg_write(const pdl__plot_t *plot, FILE *stream)
{
    axis_t x = {.start = LEFT, .length = WIDTH - RIGHT - LEFT, .base = plot->binary_x ? 2 : 10};
    axis_t y = {.start = HEIGHT - BOTTOM, .length = TOP + BOTTOM - HEIGHT, .base = 10};
    double least, most, height = fmax(HEIGHT, TOP + 18.0 * plot->series_count + 20);

    if (plot->points < 1 || !find_range(plot, &least, &most))
        return pdl_error(PDL_ERR_LIMIT, "there is nothing to draw: no algorithm supports any point of the sweep");
    x.low = log(plot->x[0]) / log(x.base);
    x.high = log(plot->x[plot->points - 1]) / log(x.base);
    y.low = floor(log10(least) + 1e-9);
    y.high = ceil(log10(most) - 1e-9);
    if (y.high <= y.low) y.high = y.low + 1;
    fprintf(stream,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
            "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\">\n",
            WIDTH, height, WIDTH, height);
    fprintf(stream, "<title>");
    write_text(stream, plot->title);
    fprintf(stream, "</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n");
    label(stream, LEFT, TOP - 20, "start", 16, plot->title);
    draw_x_ticks(plot, &x, stream);
    draw_y_ticks(plot, &y, stream);
    fprintf(stream,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" stroke=\"#444444\"/>\n", LEFT,
            TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    for (int s = 0; s < plot->series_count; s++) draw_series(plot, s, &x, &y, stream);
    fputs("</svg>\n", stream);
    return PDL_OK;
}
