/*
 * A chart while it is written as SVG. Internal to report/chart.
 */
#ifndef PDL_REPORT_CHART_SVG_H
#define PDL_REPORT_CHART_SVG_H

#include "report/chart/scale.h"

#define PDL__CHART_LINE 15.0 /* from one name of a line to the next */

typedef struct pdl__drawing {
    const pdl__chart_t *chart;
    FILE               *stream;
    pdl__ruler_t        x, y;
    double              left, right, top, bottom; /* edges of the plot */
    double              width, height;
} pdl__drawing_t;

double pdl__drawing_x(const pdl__drawing_t *d, double value);
double pdl__drawing_y(const pdl__drawing_t *d, double value);
void   pdl__drawing_text(const pdl__drawing_t *d, double x, double y, const char *anchor, const char *text);
/* Everything inside the axes. */
void pdl__drawing_marks(const pdl__drawing_t *d);
/* Whether a series is named at its end, instead of in the legend. */
bool pdl__drawing_direct(const pdl__drawing_t *d, int series);
/* The value of `fill` of a series: its hue or a pattern of it. */
void pdl__drawing_fill(const pdl__drawing_t *d, int series);

#endif
