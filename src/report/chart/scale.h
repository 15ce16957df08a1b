/*
 * Axes of a chart with their range and ticks, the same in all forms. Internal to report/chart.
 */
#ifndef PDL_REPORT_CHART_SCALE_H
#define PDL_REPORT_CHART_SCALE_H

#include "report/chart/chart.h"

#define PDL__CHART_TICKS 24

typedef struct pdl__ruler {
    const pdl__axis_t *axis;
    double             low, high; /* values; of logarithms both above 0 */
    double             tick[PDL__CHART_TICKS];
    int                tick_count;
} pdl__ruler_t;

/* Both axes over all series; false when no point can be drawn. */
bool pdl__chart_measure(const pdl__chart_t *chart, pdl__ruler_t *x, pdl__ruler_t *y);
/* Between 0 at the low end and 1 at the high; NAN for a value that the scale does not have. */
double pdl__chart_place(const pdl__ruler_t *ruler, double value);
/* The text of a value on an axis. */
const char *pdl__chart_value(const pdl__axis_t *axis, double value, char buffer[PDL_FORMAT_SIZE]);
/* The same of a tick, which is a round number: 50 ms, not 50.0 ms. */
const char *pdl__chart_tick(const pdl__axis_t *axis, double value, char buffer[PDL_FORMAT_SIZE]);
/* Every how many ticks have a text, so that on an axis of `length` none covers another; letters are `letter` wide. */
int pdl__chart_stride(const pdl__ruler_t *ruler, double length, double letter);
/* Where a stacked series begins at point i: the sum of those of the same mark before it. */
double pdl__chart_base(const pdl__chart_t *chart, int series, int i);

#endif
