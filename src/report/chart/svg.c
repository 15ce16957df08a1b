/*
 * SVG that needs no other file: no fonts, scripts or style sheets. This is the frame: axes, ticks, legend.
 */
#include "report/chart/svg.h"

#include "report/chart/style.h"

#include <math.h>

#define WIDTH     900.0
#define LETTER    7.0 /* about the width of one */
#define BAND      26.0
#define HEIGHT    240.0 /* of the plot, without bands */
#define MOST_NAME 34    /* letters of a name on an axis */

double pdl__drawing_x(const pdl__drawing_t *d, double value)
{
    return d->left + pdl__chart_place(&d->x, value) * (d->right - d->left);
}

/* Bands go down, values go up. */
double pdl__drawing_y(const pdl__drawing_t *d, double value)
{
    double share = pdl__chart_place(&d->y, value);

    return d->y.axis->scale == PDL__SCALE_BAND ? d->top + share * (d->bottom - d->top)
                                               : d->bottom - share * (d->bottom - d->top);
}

void pdl__drawing_text(const pdl__drawing_t *d, double x, double y, const char *anchor, const char *text)
{
    fprintf(d->stream, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    pdl__chart_escape(text, d->stream);
    fputs("</text>\n", d->stream);
}

static bool is_line(pdl__mark_t mark)
{
    return mark == PDL__MARK_LINE || mark == PDL__MARK_STEP;
}

bool pdl__drawing_direct(const pdl__drawing_t *d, int series)
{
    return is_line(d->chart->series[series].mark) && d->chart->series_count > 1;
}

static bool in_legend(const pdl__drawing_t *d, int s)
{
    const pdl__series_t *series = &d->chart->series[s];

    return series->name != NULL && !is_line(series->mark) && series->mark != PDL__MARK_RULE &&
           series->mark != PDL__MARK_LABEL && series->mark != PDL__MARK_INTERVAL &&
           series->mark != PDL__MARK_CELL && d->chart->series_count > 1;
}

/* Long names are cut: the whole of them is in the title of the element. */
static void write_name(const pdl__drawing_t *d, double x, double y, const char *anchor, const char *name)
{
    char   cut[4 * MOST_NAME + 8];
    size_t length = 0;
    int    letters = 0;

    if (pdl__chart_width(name) <= MOST_NAME) {
        pdl__drawing_text(d, x, y, anchor, name);
        return;
    }
    while (letters < MOST_NAME && length < 4 * MOST_NAME) {
        letters += ((unsigned char)name[length] & 0xc0) != 0x80;
        if (letters == MOST_NAME) break;
        cut[length] = name[length];
        length++;
    }
    snprintf(cut + length, sizeof(cut) - length, "\xe2\x80\xa6");
    fputs("<g><title>", d->stream);
    pdl__chart_escape(name, d->stream);
    fputs("</title>", d->stream);
    pdl__drawing_text(d, x, y, anchor, cut);
    fputs("</g>\n", d->stream);
}

static double name_room(const char *const *names, int count)
{
    int most = 0;

    for (int i = 0; i < count; i++) most = (int)fmax(most, pdl__chart_width(names[i]));
    return LETTER * fmin(most, MOST_NAME);
}

static int count_direct(const pdl__drawing_t *d)
{
    int count = 0;

    for (int s = 0; s < d->chart->series_count; s++) count += pdl__drawing_direct(d, s);
    return count;
}

static double label_room(const pdl__drawing_t *d)
{
    int most = 0;

    for (int s = 0; s < d->chart->series_count; s++)
        if (pdl__drawing_direct(d, s)) most = (int)fmax(most, pdl__chart_width(d->chart->series[s].name));
    return 36 + LETTER * fmin(most, MOST_NAME); /* half of the last tick, where there are no names */
}

/* Names of the legend in rows; returns the height. Written when `write`. */
static double legend(const pdl__drawing_t *d, double y, bool write)
{
    double x = d->left, top = y;

    for (int s = 0; s < d->chart->series_count; s++) {
        const char *name = d->chart->series[s].name;

        if (!in_legend(d, s)) continue;
        if (x > d->left && x + 26 + LETTER * pdl__chart_width(name) > d->width) {
            x = d->left;
            y += 20;
        }
        if (write) {
            fprintf(d->stream, "<rect class=\"fill hue%d\" x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"12\"",
                    pdl__chart_hue(d->chart, s), x, y - 10);
            pdl__drawing_fill(d, s);
            fputs("/>\n", d->stream);
            write_name(d, x + 19, y, "start", name);
        }
        x += 36 + LETTER * fmin(pdl__chart_width(name), MOST_NAME);
    }
    return x > d->left ? y + 20 - top : 0;
}

/* Rules through bands are named above them. */
static double rule_room(const pdl__drawing_t *d)
{
    for (int s = 0; s < d->chart->series_count; s++)
        if (d->chart->series[s].mark == PDL__MARK_RULE && d->y.axis->scale == PDL__SCALE_BAND) return 16;
    return 0;
}

static void lay_out(pdl__drawing_t *d, bool alone)
{
    bool   bands = d->y.axis->scale == PDL__SCALE_BAND;
    double title = alone ? 34 : 8;

    d->width = WIDTH;
    d->left = 28 + (bands ? name_room(d->y.axis->bands, d->y.axis->band_count) : 70);
    d->right = WIDTH - label_room(d);
    d->top = title + legend(d, 0, false) + rule_room(d) + 8;
    d->bottom = d->top + (bands ? BAND * d->y.axis->band_count : fmax(HEIGHT, PDL__CHART_LINE * count_direct(d)));
    d->height = d->bottom + (d->x.axis->label != NULL ? 52 : 30);
}

static void draw_x_axis(const pdl__drawing_t *d)
{
    const pdl__axis_t *axis = d->x.axis;
    int                stride = pdl__chart_stride(&d->x, d->right - d->left, LETTER);
    char               text[PDL_FORMAT_SIZE];

    for (int i = 0; axis->scale == PDL__SCALE_BAND && i < axis->band_count; i++)
        write_name(d, pdl__drawing_x(d, i), d->bottom + 18, "middle", axis->bands[i]);
    for (int i = 0; i < d->x.tick_count; i++) {
        double at = pdl__drawing_x(d, d->x.tick[i]);

        fprintf(d->stream, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>\n", at, d->top, d->bottom);
        if (i % stride == 0)
            pdl__drawing_text(d, at, d->bottom + 18, "middle", pdl__chart_tick(axis, d->x.tick[i], text));
    }
    if (axis->label != NULL) pdl__drawing_text(d, (d->left + d->right) / 2, d->bottom + 40, "middle", axis->label);
}

static void draw_y_axis(const pdl__drawing_t *d)
{
    const pdl__axis_t *axis = d->y.axis;
    char               text[PDL_FORMAT_SIZE];

    for (int i = 0; axis->scale == PDL__SCALE_BAND && i < axis->band_count; i++)
        write_name(d, d->left - 8, pdl__drawing_y(d, i) + 4, "end", axis->bands[i]);
    for (int i = 0; i < d->y.tick_count; i++) {
        double at = pdl__drawing_y(d, d->y.tick[i]);

        fprintf(d->stream, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>\n", d->left, at, d->right);
        pdl__drawing_text(d, d->left - 8, at + 4, "end", pdl__chart_tick(axis, d->y.tick[i], text));
    }
    if (axis->label == NULL) return;
    fprintf(d->stream, "<text transform=\"translate(16 %.1f) rotate(-90)\" text-anchor=\"middle\">",
            (d->top + d->bottom) / 2);
    pdl__chart_escape(axis->label, d->stream);
    fputs("</text>\n", d->stream);
}

static const char *id_of(const pdl__drawing_t *d)
{
    return d->chart->id != NULL ? d->chart->id : "chart";
}

void pdl__drawing_fill(const pdl__drawing_t *d, int s)
{
    pdl__pattern_fill(pdl__chart_pattern(d->chart, s), id_of(d), s, d->stream);
}

/* What a script needs to find the value under the pointer, of linear axes. */
static void write_axis(const pdl__drawing_t *d)
{
    const pdl__axis_t *axis = d->x.axis;

    if (axis->scale != PDL__SCALE_LINEAR || axis->label == NULL) return;
    fprintf(d->stream, " data-x=\"%.1f %.1f %.17g %.17g\" data-y=\"%.1f %.1f\" data-over=\"", d->left, d->right,
            d->x.low, d->x.high, d->top, d->bottom);
    pdl__chart_escape(axis->label, d->stream);
    fputc('"', d->stream);
}

static void begin(const pdl__drawing_t *d, bool alone)
{
    const char *id = d->chart->id != NULL ? d->chart->id : "chart";

    if (alone) fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", d->stream);
    fprintf(d->stream,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" aria-labelledby=\"%s-t %s-d\" "
            "width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\"",
            id, id, d->width, d->height, d->width, d->height);
    write_axis(d);
    fprintf(d->stream, ">\n<title id=\"%s-t\">", id);
    pdl__chart_escape(d->chart->title, d->stream);
    fprintf(d->stream, "</title>\n<desc id=\"%s-d\">", id);
    pdl__chart_escape(d->chart->description != NULL ? d->chart->description : d->chart->title, d->stream);
    fputs("</desc>\n", d->stream);
    if (alone) {
        fputs("<style>\n", d->stream);
        pdl__chart_style(d->stream);
        fputs("</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n", d->stream);
        fprintf(d->stream, "<text x=\"%.1f\" y=\"22\" font-size=\"16\" font-weight=\"600\">", d->left);
        pdl__chart_escape(d->chart->title, d->stream);
        fputs("</text>\n", d->stream);
    }
    fputs("<defs>\n", d->stream);
    for (int s = 0; s < d->chart->series_count; s++)
        pdl__pattern_define(pdl__chart_pattern(d->chart, s), pdl__chart_hue(d->chart, s), id_of(d), s, d->stream);
    fputs("</defs>\n", d->stream);
}

pdl_status_t pdl__chart_svg(const pdl__chart_t *chart, bool alone, FILE *stream)
{
    pdl__drawing_t d = {.chart = chart, .stream = stream};

    if (!pdl__chart_measure(chart, &d.x, &d.y))
        return pdl_error(PDL_ERR_LIMIT, "there is nothing to draw: no point has a value");
    lay_out(&d, alone);
    begin(&d, alone);
    legend(&d, (alone ? 34 : 8) + 8, true);
    draw_x_axis(&d);
    draw_y_axis(&d);
    pdl__drawing_marks(&d);
    fprintf(stream, "<path class=\"ink\" fill=\"none\" d=\"M%.1f %.1fV%.1fH%.1f\"/>\n</svg>\n", d.left, d.top,
            d.bottom, d.right);
    return PDL_OK;
}
