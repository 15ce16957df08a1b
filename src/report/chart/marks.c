/*
 * The marks of a chart as SVG. Every mark that stands for a value has its text as title, and the value as data.
 */
#include "report/chart/style.h"
#include "report/chart/svg.h"

#include <math.h>
#include <stdlib.h>

#define MANY_POINTS 80 /* more are a line without points */

static const char *const dashes[] = {"none", "8 4", "2 3"};

static bool drawn(const pdl__drawing_t *d, const pdl__series_t *s, int i)
{
    return isfinite(pdl__drawing_x(d, s->x[i])) && isfinite(pdl__drawing_y(d, s->y[i]));
}

/* "ring at 4 MiB: 1.2 ms", or "forward, data: 12 ms" */
static void write_title(const pdl__drawing_t *d, const pdl__series_t *s, int i)
{
    bool across = d->y.axis->scale == PDL__SCALE_BAND;
    char x[PDL_FORMAT_SIZE], y[PDL_FORMAT_SIZE];

    fprintf(d->stream, " data-x=\"%.9g\" data-y=\"%.9g\"><title>", s->x[i], s->y[i]);
    if (s->name != NULL) pdl__chart_escape(s->name, d->stream);
    fputs(s->name != NULL ? ", " : "", d->stream);
    pdl__chart_escape(across ? pdl__chart_value(d->y.axis, s->y[i], y) : pdl__chart_value(d->x.axis, s->x[i], x),
                      d->stream);
    fputs(": ", d->stream);
    pdl__chart_escape(across ? pdl__chart_value(d->x.axis, s->x[i], x) : pdl__chart_value(d->y.axis, s->y[i], y),
                      d->stream);
    fputs("</title></", d->stream);
}

/* Shapes differ from series to series, so that hue is not alone. */
static void draw_point(const pdl__drawing_t *d, int series, int i)
{
    static const char *const shapes[] = {"M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z",
                                         "M-3 -3h6v6h-6z",
                                         "M0 -4L4 3H-4z",
                                         "M0 -4.5L4.5 0L0 4.5L-4.5 0z",
                                         "M0 4L4 -3H-4z",
                                         "M-4 -1h3v-3h2v3h3v2h-3v3h-2v-3h-3z"};
    const pdl__series_t     *s = &d->chart->series[series];
    double                   scale = s->size != NULL ? 1 + 4 * sqrt(fmax(0, s->size[i])) : 1;

    fprintf(d->stream, "<path class=\"fill\" transform=\"translate(%.1f %.1f) scale(%.2f)\"%s d=\"%s\"",
            pdl__drawing_x(d, s->x[i]), pdl__drawing_y(d, s->y[i]), scale,
            s->size != NULL ? " fill-opacity=\".35\"" : "",
            shapes[s->size != NULL ? 0 : (size_t)series % (sizeof(shapes) / sizeof(shapes[0]))]);
    write_title(d, s, i);
    fputs("path>\n", d->stream);
}

static void draw_line(const pdl__drawing_t *d, int series)
{
    const pdl__series_t *s = &d->chart->series[series];
    bool                 open = false;

    fprintf(d->stream, "<path class=\"line%s\" stroke-dasharray=\"%s\" d=\"", s->faint ? " faint" : "",
            s->faint ? dashes[2] : dashes[series / PDL__HUES % 3]);
    for (int i = 0; i < s->count; i++) {
        double x = pdl__drawing_x(d, s->x[i]), y = pdl__drawing_y(d, s->y[i]);
        bool   there = drawn(d, s, i);

        if (there && open && s->mark == PDL__MARK_STEP)
            fprintf(d->stream, "H%.1fV%.1f", x, y);
        else if (there)
            fprintf(d->stream, "%c%.1f %.1f", open ? 'L' : 'M', x, y);
        open = there;
    }
    fputs("\"/>\n", d->stream);
    for (int i = 0; i < s->count && s->count <= MANY_POINTS && !s->faint; i++)
        if (drawn(d, s, i)) draw_point(d, series, i);
}

static void draw_area(const pdl__drawing_t *d, int series)
{
    const pdl__series_t *s = &d->chart->series[series];

    fputs("<path class=\"fill\" fill-opacity=\".8\"", d->stream);
    pdl__drawing_fill(d, series);
    fputs(" d=\"", d->stream);
    for (int i = 0; i < s->count; i++)
        fprintf(d->stream, "%c%.1f %.1f", i > 0 ? 'L' : 'M', pdl__drawing_x(d, s->x[i]),
                pdl__drawing_y(d, pdl__chart_base(d->chart, series, i) + (isfinite(s->y[i]) ? s->y[i] : 0)));
    for (int i = s->count - 1; i >= 0; i--)
        fprintf(d->stream, "L%.1f %.1f", pdl__drawing_x(d, s->x[i]),
                pdl__drawing_y(d, pdl__chart_base(d->chart, series, i)));
    fputs("z\"/>\n", d->stream);
}

/* Half the height of a bar or cell in its band. */
static double half_band(const pdl__drawing_t *d, double share)
{
    return share / 2 * (d->bottom - d->top) / d->y.axis->band_count;
}

static void draw_bars(const pdl__drawing_t *d, int series)
{
    const pdl__series_t *s = &d->chart->series[series];
    double               half = half_band(d, 0.64);

    for (int i = 0; i < s->count; i++) {
        double base = pdl__chart_base(d->chart, series, i), from = pdl__drawing_x(d, base);

        if (!drawn(d, s, i) || !(s->x[i] > 0)) continue;
        fprintf(d->stream, "<rect class=\"fill\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"", from,
                pdl__drawing_y(d, s->y[i]) - half, pdl__drawing_x(d, base + s->x[i]) - from, 2 * half);
        pdl__drawing_fill(d, series);
        write_title(d, s, i);
        fputs("rect>\n", d->stream);
    }
}

static void draw_intervals(const pdl__drawing_t *d, int series)
{
    const pdl__series_t *s = &d->chart->series[series];
    bool                 across = d->y.axis->scale == PDL__SCALE_BAND;

    for (int i = 0; i < s->count; i++) {
        double x = pdl__drawing_x(d, s->x[i]), y = pdl__drawing_y(d, s->y[i]);
        double low = across ? pdl__drawing_x(d, s->low[i]) : pdl__drawing_y(d, s->low[i]);
        double high = across ? pdl__drawing_x(d, s->high[i]) : pdl__drawing_y(d, s->high[i]);

        if (!isfinite(low) || !isfinite(high) || !drawn(d, s, i)) continue;
        if (across)
            fprintf(
                d->stream,
                "<path class=\"ink\" stroke-width=\"1.5\" fill=\"none\" d=\"M%.1f %.1fv8m0 -4H%.1fm0 -4v8\"/>\n",
                low, y - 4, high);
        else
            fprintf(d->stream,
                    "<path class=\"ink\" stroke-width=\"1\" fill=\"none\" opacity=\".6\" d=\"M%.1f %.1fV%.1f\"/>\n",
                    x, low, high);
    }
}

static void draw_cells(const pdl__drawing_t *d, int series)
{
    const pdl__series_t *s = &d->chart->series[series];
    double half = half_band(d, 0.94), wide = (d->right - d->left) / fmax(1, d->x.axis->band_count) * 0.47;

    for (int i = 0; i < s->count; i++) {
        if (!drawn(d, s, i)) continue;
        fprintf(d->stream,
                "<rect class=\"fill\" fill-opacity=\"%.2f\" stroke-opacity=\".3\" x=\"%.1f\" y=\"%.1f\" "
                "width=\"%.1f\" height=\"%.1f\"",
                s->size != NULL ? fmin(1, fmax(0, s->size[i])) : 1, pdl__drawing_x(d, s->x[i]) - wide,
                pdl__drawing_y(d, s->y[i]) - half, 2 * wide, 2 * half);
        write_title(d, s, i);
        fputs("rect>\n", d->stream);
    }
}

static void draw_rule(const pdl__drawing_t *d, int series)
{
    const pdl__series_t *s = &d->chart->series[series];
    double               x = pdl__drawing_x(d, s->x[0]), y = pdl__drawing_y(d, s->y[0]);
    bool                 across = d->y.axis->scale == PDL__SCALE_BAND;

    if (!isfinite(across ? x : y)) return;
    if (across)
        fprintf(d->stream,
                "<path class=\"ink\" stroke-width=\"1.5\" stroke-dasharray=\"6 3\" d=\"M%.1f %.1fV%.1f\"/>\n", x,
                d->top - 4, d->bottom);
    else
        fprintf(d->stream,
                "<path class=\"ink\" stroke-width=\"1.5\" stroke-dasharray=\"6 3\" d=\"M%.1f %.1fH%.1f\"/>\n",
                d->left, y, d->right);
    if (s->name != NULL && across)
        pdl__drawing_text(d, x, d->top - 7, "middle", s->name);
    else if (s->name != NULL)
        pdl__drawing_text(d, d->right - 4, y - 5, "end", s->name);
}

static void draw_labels(const pdl__drawing_t *d, int series)
{
    const pdl__series_t *s = &d->chart->series[series];

    for (int i = 0; i < s->count; i++)
        if (drawn(d, s, i) && s->labels[i] != NULL)
            pdl__drawing_text(d, pdl__drawing_x(d, s->x[i]) + 6, pdl__drawing_y(d, s->y[i]) + 4, "start",
                              s->labels[i]);
}

/* Where the name of a line stands: beside its last point. */
typedef struct end {
    int    series;
    double y;
} end_t;

static int higher_first(const void *a, const void *b)
{
    const end_t *one = a, *other = b;

    if (one->y != other->y) return one->y < other->y ? -1 : 1;
    return one->series - other->series;
}

static bool find_end(const pdl__drawing_t *d, int series, end_t *end)
{
    const pdl__series_t *s = &d->chart->series[series];

    for (int i = s->count - 1; i >= 0 && pdl__drawing_direct(d, series); i--)
        if (drawn(d, s, i)) {
            *end = (end_t){series, pdl__drawing_y(d, s->y[i])};
            return true;
        }
    return false;
}

/* Names that would cover each other are moved apart: down from the top, then up from the bottom edge. */
static void name_lines(const pdl__drawing_t *d)
{
    end_t *ends = calloc((size_t)d->chart->series_count + 1, sizeof(*ends));
    int    count = 0;

    if (ends == NULL) return;
    for (int s = 0; s < d->chart->series_count; s++) count += find_end(d, s, &ends[count]);
    qsort(ends, (size_t)count, sizeof(*ends), higher_first);
    for (int i = 1; i < count; i++) ends[i].y = fmax(ends[i].y, ends[i - 1].y + PDL__CHART_LINE);
    if (count > 0)
        ends[count - 1].y = fmin(ends[count - 1].y, fmax(d->bottom, d->top + PDL__CHART_LINE * (count - 1)));
    for (int i = count - 2; i >= 0; i--) ends[i].y = fmin(ends[i].y, ends[i + 1].y - PDL__CHART_LINE);
    for (int i = 0; i < count; i++) {
        int hue = pdl__chart_hue(d->chart, ends[i].series);

        fprintf(d->stream, "<path class=\"line hue%d\" stroke-dasharray=\"%s\" d=\"M%.1f %.1fh10\"/>\n", hue,
                d->chart->series[ends[i].series].faint ? dashes[2] : dashes[ends[i].series / PDL__HUES % 3],
                d->right + 4, ends[i].y);
        pdl__drawing_text(d, d->right + 18, ends[i].y + 4, "start", d->chart->series[ends[i].series].name);
    }
    free(ends);
}

void pdl__drawing_marks(const pdl__drawing_t *d)
{
    static void (*const draw[])(const pdl__drawing_t *, int) = {
        [PDL__MARK_LINE] = draw_line, [PDL__MARK_STEP] = draw_line,          [PDL__MARK_AREA] = draw_area,
        [PDL__MARK_BAR] = draw_bars,  [PDL__MARK_INTERVAL] = draw_intervals, [PDL__MARK_CELL] = draw_cells,
        [PDL__MARK_RULE] = draw_rule, [PDL__MARK_LABEL] = draw_labels};

    for (int s = 0; s < d->chart->series_count; s++) {
        const pdl__series_t *series = &d->chart->series[s];

        fprintf(d->stream, "<g class=\"hue%d\">\n", pdl__chart_hue(d->chart, s));
        if (series->mark == PDL__MARK_POINT) {
            for (int i = 0; i < series->count; i++)
                if (drawn(d, series, i)) draw_point(d, s, i);
        } else if (series->count > 0) {
            draw[series->mark](d, s);
        }
        fputs("</g>\n", d->stream);
    }
    name_lines(d);
}
