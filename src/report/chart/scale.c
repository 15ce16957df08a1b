/*
 * Ranges and ticks. Linear ticks are 1, 2 or 5 times a power of ten; logarithmic ones are whole powers, and 2 and 5 between
 * them where a decade is wide.
 */
#include "report/chart/scale.h"

#include "report/chart/style.h"

#include <math.h>
#include <string.h>

#define WANTED 6     /* ticks on a linear axis, about */
#define FAR    1e100 /* nothing is measured that far; sums and ratios of such values would overflow */

static bool is_log(pdl__scale_t scale)
{
    return scale == PDL__SCALE_LOG2 || scale == PDL__SCALE_LOG10;
}

static void include(pdl__ruler_t *ruler, double value)
{
    if (!isfinite(value) || (is_log(ruler->axis->scale) && !(value > 0))) return;
    ruler->low = fmin(ruler->low, value);
    ruler->high = fmax(ruler->high, value);
}

double pdl__chart_base(const pdl__chart_t *chart, int series, int i)
{
    double sum = 0;

    for (int s = 0; s < series; s++) {
        const pdl__series_t *below = &chart->series[s];
        double               value;

        if (below->mark != chart->series[series].mark || i >= below->count) continue;
        value = below->mark == PDL__MARK_BAR ? below->x[i] : below->y[i];
        if (isfinite(value)) sum += value;
    }
    return sum;
}

static void include_point(const pdl__chart_t *chart, int s, int i, pdl__ruler_t *x, pdl__ruler_t *y)
{
    const pdl__series_t *series = &chart->series[s];
    double               base = 0;
    bool                 across = y->axis->scale == PDL__SCALE_BAND; /* values go along x */

    if (series->mark == PDL__MARK_BAR || series->mark == PDL__MARK_AREA) base = pdl__chart_base(chart, s, i);
    if (series->low != NULL) include(across ? x : y, series->low[i]);
    if (series->high != NULL) include(across ? x : y, series->high[i]);
    if (series->mark == PDL__MARK_RULE) {
        include(across ? x : y, across ? series->x[i] : series->y[i]);
        return;
    }
    include(x, series->x[i] + (series->mark == PDL__MARK_BAR ? base : 0));
    include(y, series->y[i] + (series->mark == PDL__MARK_AREA ? base : 0));
}

static void add_tick(pdl__ruler_t *ruler, double value)
{
    if (ruler->tick_count < PDL__CHART_TICKS) ruler->tick[ruler->tick_count++] = value;
}

static void band_ticks(pdl__ruler_t *ruler)
{
    ruler->low = -0.5;
    ruler->high = ruler->axis->band_count - 0.5;
}

static void linear_ticks(pdl__ruler_t *ruler)
{
    double span, step, power, unit = 1;

    if (ruler->axis->from_zero) ruler->low = fmin(0, ruler->low);
    if (!(ruler->high > ruler->low)) ruler->high = ruler->low + (ruler->low != 0 ? fabs(ruler->low) : 1);
    /* Bytes are counted in powers of 1024, and so are their ticks. */
    if (ruler->axis->format == pdl_format_bytes)
        while (ruler->high / unit >= 1024) unit *= 1024;
    span = (ruler->high - ruler->low) / unit;
    power = pow(10, floor(log10(span / WANTED)));
    step = span / WANTED / power;
    step = (step > 5 ? 10 : step > 2 ? 5 : step > 1 ? 2 : 1) * power * unit;
    ruler->low = step * floor(ruler->low / step + 1e-9);
    ruler->high = step * ceil(ruler->high / step - 1e-9);
    /* Counted, for a value of 1e20 does not grow by a step. */
    for (int i = 0; i < PDL__CHART_TICKS; i++) {
        double value = (round(ruler->low / step) + i) * step;

        if (value <= ruler->high + step / 1e3) add_tick(ruler, value);
    }
}

/* 1, 2, 5, 10, 20, ... by number. */
static double one_two_five(int n)
{
    static const double parts[] = {1, 2, 5};

    return parts[((n % 3) + 3) % 3] * pow(10, floor(n / 3.0));
}

/* A few decades: the axis ends near the data, since whole decades would leave half of the chart empty. */
static void narrow_ticks(pdl__ruler_t *ruler)
{
    int first = 3 * (int)floor(log10(ruler->low) + 1e-9), last;

    while (one_two_five(first + 1) <= ruler->low * (1 + 1e-9)) first++;
    last = first + 1;
    while (one_two_five(last) < ruler->high * (1 - 1e-9)) last++;
    ruler->low = one_two_five(first);
    ruler->high = one_two_five(last);
    for (int n = first; n <= last; n++) add_tick(ruler, one_two_five(n));
}

static void log_ticks(pdl__ruler_t *ruler)
{
    double base = ruler->axis->scale == PDL__SCALE_LOG2 ? 2 : 10;
    double low = floor(log(ruler->low) / log(base) + 1e-9), high = ceil(log(ruler->high) / log(base) - 1e-9), step;

    if (base > 2 && high - low <= 3) {
        narrow_ticks(ruler);
        return;
    }
    if (high <= low) high = low + 1;
    step = ceil((high - low) / (PDL__CHART_TICKS / 2.0));
    for (double k = low; k <= high; k += step) add_tick(ruler, pow(base, k));
    ruler->low = pow(base, low);
    ruler->high = pow(base, high);
}

static bool finish(pdl__ruler_t *ruler)
{
    if (ruler->axis->scale == PDL__SCALE_BAND)
        band_ticks(ruler);
    else if (!(ruler->high >= ruler->low))
        return false;
    else if (is_log(ruler->axis->scale))
        log_ticks(ruler);
    else
        linear_ticks(ruler);
    return ruler->high > ruler->low && ruler->high < FAR && ruler->low > -FAR &&
           (!is_log(ruler->axis->scale) || ruler->low > 1 / FAR);
}

bool pdl__chart_measure(const pdl__chart_t *chart, pdl__ruler_t *x, pdl__ruler_t *y)
{
    *x = (pdl__ruler_t){.axis = &chart->x, .low = INFINITY, .high = -INFINITY};
    *y = (pdl__ruler_t){.axis = &chart->y, .low = INFINITY, .high = -INFINITY};
    for (int s = 0; s < chart->series_count; s++)
        for (int i = 0; i < chart->series[s].count; i++) include_point(chart, s, i, x, y);
    return finish(x) && finish(y);
}

double pdl__chart_place(const pdl__ruler_t *ruler, double value)
{
    if (!isfinite(value)) return NAN;
    if (!is_log(ruler->axis->scale)) return (value - ruler->low) / (ruler->high - ruler->low);
    return value > 0 ? log(value / ruler->low) / log(ruler->high / ruler->low) : (double)NAN;
}

const char *pdl__chart_value(const pdl__axis_t *axis, double value, char buffer[PDL_FORMAT_SIZE])
{
    if (axis->scale == PDL__SCALE_BAND) {
        int band = (int)lround(value);

        return band >= 0 && band < axis->band_count ? axis->bands[band] : "";
    }
    if (axis->format != NULL) return axis->format(value, buffer);
    if (fabs(value) >= 1e4) return pdl_format_short(value, buffer);
    snprintf(buffer, PDL_FORMAT_SIZE, "%.4g", value);
    return buffer;
}

const char *pdl__chart_tick(const pdl__axis_t *axis, double value, char buffer[PDL_FORMAT_SIZE])
{
    const char *text = pdl__chart_value(axis, value, buffer);
    char       *point = text == buffer ? strchr(buffer, '.') : NULL, *end, *last;

    if (point == NULL) return text;
    end = point + 1 + strspn(point + 1, "0123456789");
    for (last = end; last[-1] == '0';) last--;
    if (last[-1] == '.') last--;
    memmove(last, end, strlen(end) + 1);
    return buffer;
}

static bool texts_fit(const pdl__ruler_t *ruler, double length, double letter, int stride)
{
    double taken = -INFINITY;
    char   text[PDL_FORMAT_SIZE];

    for (int i = 0; i < ruler->tick_count; i += stride) {
        double at = length * pdl__chart_place(ruler, ruler->tick[i]);
        double half = letter * pdl__chart_width(pdl__chart_tick(ruler->axis, ruler->tick[i], text)) / 2;

        if (at - half < taken + letter) return false;
        taken = at + half;
    }
    return true;
}

int pdl__chart_stride(const pdl__ruler_t *ruler, double length, double letter)
{
    int stride = 1;

    while (stride < ruler->tick_count && !texts_fit(ruler, length, letter, stride)) stride++;
    return stride;
}
