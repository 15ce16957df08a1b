/*
 * Charts: what is drawn is said once, and written as SVG (for files and pages) or with block characters (for terminals),
 * with the same scales and ticks. Internal to report.
 *
 *     pdl__series_t series = {.name = "ring", .mark = PDL__MARK_LINE, .x = bytes, .y = seconds, .count = 12};
 *     pdl__chart_t  chart = {.title = "allreduce", .x = {.label = "bytes", .scale = PDL__SCALE_LOG2, .format = pdl_format_bytes},
 *                            .y = {.label = "time", .scale = PDL__SCALE_LOG10, .format = pdl_format_seconds},
 *                            .series = &series, .series_count = 1};
 *     pdl__chart_svg(&chart, true, stream);
 */
#ifndef PDL_REPORT_CHART_H
#define PDL_REPORT_CHART_H

#include <paradl/base/status.h>
#include <paradl/base/units.h>
#include <stdbool.h>
#include <stdio.h>

typedef char *(*pdl__chart_format_fn_t)(double value, char buffer[PDL_FORMAT_SIZE]);

/* A band is one row or column for every name. */
typedef enum pdl__scale { PDL__SCALE_LINEAR, PDL__SCALE_LOG2, PDL__SCALE_LOG10, PDL__SCALE_BAND } pdl__scale_t;

typedef enum pdl__mark {
    PDL__MARK_LINE,     /* with points, unless there are many */
    PDL__MARK_STEP,     /* a line that keeps its value up to the next point */
    PDL__MARK_AREA,     /* stacked on the areas before it */
    PDL__MARK_BAR,      /* along x, one for every band of y; stacked on the bars before it */
    PDL__MARK_INTERVAL, /* from low to high, in the band, or at x, of the point */
    PDL__MARK_POINT,
    PDL__MARK_CELL, /* at (x, y), shaded by `size` between 0 and 1 */
    PDL__MARK_RULE, /* through the chart at y[0]; where y is of bands, at x[0] */
    PDL__MARK_LABEL /* text at a point: labels[i] */
} pdl__mark_t;

/* How classes of time look wherever they are drawn: hue and pattern. Others take the next of the list. */
typedef enum pdl__look {
    PDL__LOOK_NEXT,
    PDL__LOOK_FORWARD,
    PDL__LOOK_BACKWARD,
    PDL__LOOK_UPDATE,
    PDL__LOOK_LAYER,
    PDL__LOOK_HALO,
    PDL__LOOK_GRADIENT,
    PDL__LOOK_STAGE,
    PDL__LOOK_IDLE,
    PDL__LOOK_INPUT,
    PDL__LOOK_NORM,
    PDL__LOOK_ELEMENT,
    PDL__LOOK_COUNT
} pdl__look_t;

typedef enum pdl__pattern {
    PDL__PATTERN_PLAIN,
    PDL__PATTERN_LINES,
    PDL__PATTERN_CROSS,
    PDL__PATTERN_DOTS,
    PDL__PATTERN_EMPTY /* an outline */
} pdl__pattern_t;

typedef struct pdl__series {
    const char        *name;
    pdl__mark_t        mark;
    pdl__look_t        look;
    const double      *x, *y; /* points; NAN, and what a logarithm does not have, is a gap. Of a band its number */
    const double      *low, *high; /* of intervals */
    const double      *size;       /* of cells: shade; of points: area, the largest 1; or NULL */
    const char *const *labels;
    int                count;
    bool               faint; /* a bound */
} pdl__series_t;

typedef struct pdl__axis {
    const char            *label;
    pdl__scale_t           scale;
    pdl__chart_format_fn_t format;
    const char *const     *bands;
    int                    band_count;
    bool                   from_zero; /* of linear scales */
} pdl__axis_t;

typedef struct pdl__chart {
    const char          *title;
    const char          *description; /* the main values in a sentence, for those who do not see it; or NULL */
    pdl__axis_t          x, y;
    const pdl__series_t *series;
    int                  series_count;
    const char          *id; /* unique on a page; NULL: "chart" */
} pdl__chart_t;

/* PDL_ERR_LIMIT when there is nothing to draw. `alone`: a file of its own, with its style sheet. */
pdl_status_t pdl__chart_svg(const pdl__chart_t *chart, bool alone, FILE *stream);
/* With block characters, or ASCII, in `width` columns. */
pdl_status_t pdl__chart_text(const pdl__chart_t *chart, int width, bool utf8, FILE *stream);
/* The same in the width of the terminal behind a stream, or 80 columns, with block characters where the locale has them. */
pdl_status_t pdl__chart_terminal(const pdl__chart_t *chart, FILE *stream);
/* The number of the hue that a class of time has, and its pattern. */
int            pdl__look_hue(pdl__look_t look);
pdl__pattern_t pdl__look_pattern(pdl__look_t look);
/* The element `id`-p`number` of SVG that fills marks with a pattern; none for those that are plain or empty. */
void pdl__pattern_define(pdl__pattern_t pattern, int hue, const char *id, int number, FILE *stream);
/* The attribute of a mark that is filled so. */
void pdl__pattern_fill(pdl__pattern_t pattern, const char *id, int number, FILE *stream);
/* The rules of style that charts need, for a page. */
void pdl__chart_style(FILE *stream);
/* Text for elements and attributes of SVG and HTML; bytes that are not UTF-8, and characters that turn the direction of text,
   become U+FFFD. */
void pdl__chart_escape(const char *text, FILE *stream);

#endif
