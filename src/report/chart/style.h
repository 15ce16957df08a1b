/*
 * Hues and patterns of series, and text. Internal to report/chart.
 */
#ifndef PDL_REPORT_CHART_STYLE_H
#define PDL_REPORT_CHART_STYLE_H

#include "report/chart/chart.h"

#define PDL__HUES 8

int            pdl__chart_hue(const pdl__chart_t *chart, int series);
pdl__pattern_t pdl__chart_pattern(const pdl__chart_t *chart, int series);
/* Characters of a text, about the columns that it takes. */
int pdl__chart_width(const char *text);

#endif
