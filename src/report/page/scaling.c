/*
 * The page of plan --devices A..B: how fast the best strategies are on more and more devices, where another one becomes the best, and what
 * ends the others.
 */
#include "report/page/page.h"

#include <math.h>
#include <string.h>

#define MOST_CURVES     5
#define MOST_STRATEGIES 64

/* A strategy over all points. */
typedef struct curve {
    const char *name;
    double     *rate; /* NAN where it is not possible */
    double      score;
} curve_t;

static char *format_devices(double value, char buffer[PDL_FORMAT_SIZE])
{
    return pdl_format_count((int64_t)(value + 0.5), buffer);
}

static const char *strategy_of(const pdl_json_value_t *point)
{
    return pdl__page_or(pdl_json_text_of(point, "best.strategy"), "none");
}

static curve_t *curve_of(pdl__page_t *page, curve_t *curves, int *count, const char *name, int points)
{
    for (int i = 0; i < *count; i++)
        if (strcmp(curves[i].name, name) == 0) return &curves[i];
    if (*count == MOST_STRATEGIES) return NULL;
    curves[*count] = (curve_t){.name = name, .rate = pdl__page_numbers(page, points)};
    if (curves[*count].rate == NULL) return NULL;
    for (int p = 0; p < points; p++) curves[*count].rate[p] = (double)NAN;
    return &curves[(*count)++];
}

static void insert(curve_t *curves, int at)
{
    curve_t one = curves[at];

    for (; at > 0 && curves[at - 1].score < one.score; at--) curves[at] = curves[at - 1];
    curves[at] = one;
}

/* All strategies that are possible somewhere, those first that are near the best at most points; documents of before have only the best. */
static int find_curves(pdl__page_t *page, const pdl_json_value_t *points, int count, curve_t *curves)
{
    int found = 0, place = 0;

    for (const pdl_json_value_t *p = points; p != NULL; p = p->next, place++) {
        double best = pdl_json_number_of(p, "best.samples_per_s");

        for (const pdl_json_value_t *s = pdl_json_first(p, "strategies"); s != NULL; s = s->next) {
            double      rate = pdl_json_number_of(s, "samples_per_s");
            const char *name = pdl_json_text_of(s, "strategy");
            curve_t    *curve = rate > 0 && name != NULL ? curve_of(page, curves, &found, name, count) : NULL;

            if (curve == NULL) continue;
            curve->rate[place] = rate;
            if (best > 0) curve->score += rate / best;
        }
    }
    for (int i = 1; i < found; i++) insert(curves, i);
    return found;
}

static void draw_rates(pdl__page_t *page, const curve_t *curves, int curve_count, double *devices, double *ideal,
                       int count)
{
    pdl__series_t series[MOST_CURVES + 1];
    pdl__chart_t  chart = {.title = "samples per second over devices",
                           .x = {.label = "devices", .scale = PDL__SCALE_LOG2, .format = format_devices},
                           .y = {.label = "samples/s", .scale = PDL__SCALE_LOG10, .format = pdl_format_short},
                           .series = series};

    for (int i = 0; i < curve_count; i++)
        series[chart.series_count++] = (pdl__series_t){
            .name = curves[i].name, .mark = PDL__MARK_LINE, .x = devices, .y = curves[i].rate, .count = count};
    series[chart.series_count++] = (pdl__series_t){
        .name = "ideal", .mark = PDL__MARK_LINE, .x = devices, .y = ideal, .count = count, .faint = true};
    pdl__page_chart(page, &chart,
                    "A line ends where memory or a limit ends its strategy. The faint one is as many times the "
                    "first rate as there are "
                    "times the devices.");
}

static void draw_efficiency(pdl__page_t *page, const curve_t *curves, int curve_count, double *devices,
                            const double *ideal, int count)
{
    pdl__series_t series[MOST_CURVES];
    pdl__chart_t  chart = {.title = "efficiency over devices",
                           .x = {.label = "devices", .scale = PDL__SCALE_LOG2, .format = format_devices},
                           .y = {.label = "% of the first rate of a device", .from_zero = true},
                           .series = series,
                           .series_count = curve_count};

    for (int i = 0; i < curve_count; i++) {
        double *share = pdl__page_numbers(page, count);

        if (share == NULL) return;
        for (int p = 0; p < count; p++) share[p] = 100 * curves[i].rate[p] / ideal[p];
        series[i] = (pdl__series_t){
            .name = curves[i].name, .mark = PDL__MARK_LINE, .x = devices, .y = share, .count = count};
    }
    pdl__page_chart(page, &chart,
                    "What a device does, as a share of what it does in the best plan of the fewest devices.");
}

static void draw(pdl__page_t *page, const pdl_json_value_t *points, int count, const curve_t *curves, int found)
{
    double *devices = pdl__page_column(page, points, "devices", count);
    double *rate = pdl__page_column(page, points, "best.samples_per_s", count);
    double *ideal = pdl__page_column(page, points, "efficiency", count);
    curve_t best = {.name = "projected", .rate = rate};

    if (page->status) return;
    for (int i = 0; i < count; i++) ideal[i] = ideal[i] > 0 ? rate[i] / ideal[i] : (double)NAN;
    if (found == 0) curves = &best;
    if (found == 0 || found > MOST_CURVES) found = found == 0 ? 1 : MOST_CURVES;
    draw_rates(page, curves, found, devices, ideal, count);
    draw_efficiency(page, curves, found, devices, ideal, count);
}

/* Why a strategy is not possible on the next number of devices behind its last one. */
static const char *what_ends(const pdl_json_value_t *points, const char *name, int last)
{
    const pdl_json_value_t *p = points;

    for (int i = 0; p != NULL && i <= last; i++) p = p->next;
    if (p == NULL) return "";
    for (const pdl_json_value_t *s = pdl_json_first(p, "strategies"); s != NULL; s = s->next) {
        const char *its = pdl_json_text_of(s, "strategy");

        if (its != NULL && strcmp(its, name) == 0) return pdl__page_or(pdl_json_text_of(s, "reason"), "");
    }
    return "the plan of another strategy";
}

static double devices_at(const pdl_json_value_t *points, int place)
{
    while (place-- > 0) points = points->next;
    return pdl_json_number_of(points, "devices");
}

static void list_strategies(pdl__page_t *page, const pdl_json_value_t *points, int count, const curve_t *curves,
                            int found)
{
    static const pdl_column_t columns[] = {{"strategy", PDL_LEFT},
                                           {"from", PDL_RIGHT},
                                           {"to", PDL_RIGHT},
                                           {"of the best rate", PDL_RIGHT},
                                           {"what ends it", PDL_LEFT}};

    if (found == 0) return;
    pdl__page_section(page, "Strategies: where they are possible, and what ends them");
    pdl__page_table(page, "Strategies by how near they are to the best on all devices", columns, 5);
    for (int i = 0; i < found; i++) {
        int first = 0, last = count - 1, possible = 0;

        while (first < count && isnan(curves[i].rate[first])) first++;
        while (last > first && isnan(curves[i].rate[last])) last--;
        for (int p = first; p <= last; p++) possible += !isnan(curves[i].rate[p]);
        pdl__page_row(page);
        pdl__page_cell(page, "%s", curves[i].name);
        pdl__page_cell(page, "%.0f", devices_at(points, first));
        pdl__page_cell(page, "%.0f", devices_at(points, last));
        pdl__page_percent(page, possible > 0 ? curves[i].score / possible : NAN);
        pdl__page_cell(page, "%s", what_ends(points, curves[i].name, last));
    }
    pdl__page_table_end(page);
}

static void list_points(pdl__page_t *page, const pdl_json_value_t *points)
{
    static const pdl_column_t columns[] = {{"devices", PDL_RIGHT},   {"best", PDL_LEFT},
                                           {"batch", PDL_RIGHT},     {"iteration", PDL_RIGHT},
                                           {"samples/s", PDL_RIGHT}, {"efficiency", PDL_RIGHT},
                                           {"memory", PDL_RIGHT}};
    char                      text[PDL_FORMAT_SIZE];

    pdl__page_table(page, "The best plan at every number of devices", columns, 7);
    for (const pdl_json_value_t *p = points; p != NULL; p = p->next) {
        double rate = pdl_json_number_of(p, "best.samples_per_s"), batch = pdl_json_number_of(p, "best.batch");

        pdl__page_row(page);
        pdl__page_cell(page, "%.0f", pdl_json_number_of(p, "devices"));
        pdl__page_cell(page, "%s", strategy_of(p));
        pdl__page_cell(page, "%s", batch > 0 ? pdl__page_print(page, "%.0f", batch) : "-");
        pdl__page_seconds(page, pdl_json_number_of(p, "best.total_s"));
        pdl__page_cell(page, "%s", isfinite(rate) ? pdl_format_short(rate, text) : "-");
        pdl__page_percent(page, pdl_json_number_of(p, "efficiency"));
        pdl__page_bytes(page, pdl_json_number_of(p, "best.memory_bytes"));
    }
    pdl__page_table_end(page);
}

void pdl__page_scaling(pdl__page_t *page, const pdl__document_t *scaling)
{
    const pdl_json_value_t *points = pdl_json_first(scaling->head, "points"), *last = NULL;
    const char             *changes = "";
    curve_t                 curves[MOST_STRATEGIES];
    int                     count = 0, found;

    for (const pdl_json_value_t *p = points; p != NULL; p = p->next) {
        if (last != NULL && strcmp(strategy_of(last), strategy_of(p)) != 0)
            changes = pdl__page_print(page, "%s, %s from %.0f on", changes, strategy_of(p),
                                      pdl_json_number_of(p, "devices"));
        last = p;
        count++;
    }
    pdl__page_heading(page, "Scaling: %s on %s", pdl__page_or(pdl_json_text_of(scaling->head, "model"), "?"),
                      pdl__page_or(pdl_json_text_of(scaling->head, "system"), "?"));
    if (last == NULL) return;
    if (isfinite(pdl_json_number_of(last, "efficiency")))
        pdl__page_answer(page, "On %.0f devices the efficiency is %.0f %%; %s is best %s%s.",
                         pdl_json_number_of(last, "devices"), 100 * pdl_json_number_of(last, "efficiency"),
                         strategy_of(points),
                         *changes == '\0'
                             ? "everywhere"
                             : pdl__page_print(page, "on %.0f devices", pdl_json_number_of(points, "devices")),
                         changes);
    pdl__page_section(page, "Rate over devices, %s scaling",
                      pdl__page_or(pdl_json_text_of(scaling->head, "scaling"), "weak"));
    found = find_curves(page, points, count, curves);
    draw(page, points, count, curves, found);
    list_points(page, points);
    list_strategies(page, points, count, curves, found);
}
