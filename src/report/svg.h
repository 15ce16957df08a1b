/*
 * Line plots with logarithmic axes as SVG that needs no other file: no fonts, scripts or style sheets.
 */
#ifndef PDL_REPORT_SVG_H
#define PDL_REPORT_SVG_H

#include <paradl/base/status.h>
#include <paradl/base/units.h>
#include <stdbool.h>
#include <stdio.h>

typedef char *(*pdl__svg_format_fn_t)(double value, char buffer[PDL_FORMAT_SIZE]);

typedef struct pdl__series {
    const char   *name;
    const double *y;     /* one per x; 0 or less: no point */
    bool          faint; /* drawn thin and dashed, for a bound */
} pdl__series_t;

typedef struct pdl__plot {
    const char          *title, *x_label, *y_label;
    const double        *x; /* above 0, ascending */
    int                  points;
    bool                 binary_x; /* ticks at powers of two */
    const pdl__series_t *series;
    int                  series_count;
    pdl__svg_format_fn_t format_x, format_y;
} pdl__plot_t;

/* PDL_ERR_LIMIT when there is nothing to draw. */
pdl_status_t pdl__svg_write(const pdl__plot_t *plot, FILE *stream);

#endif
