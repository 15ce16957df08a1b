/*
 * What the hardware does with a plan: layers under the roofs of the device, and what its numbers are worth.
 */
#include "report/page/page.h"

#include <paradl/base/units.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CLASSES 16
#define MOST_NUMBERS 12
#define LEAST_WORTH  0.005 /* percent of a step: less is shown as nothing */
#define LEAST_NAMED  0.005 /* of the circle that is largest; smaller ones are named when they are pointed at */

/* All layers of one type, forward. */
typedef struct class
{
    const char *type;
    double      flop, bytes, seconds;
    int         layers;
} class_t;

static int longer_first(const void *a, const void *b)
{
    const class_t *x = a, *y = b;

    if (x->seconds != y->seconds) return x->seconds > y->seconds ? -1 : 1;
    return strcmp(x->type, y->type);
}

/* Types that take most; what has no operations or moves nothing is under no roof. */
static int find_classes(const pdl_json_value_t *layers, class_t classes[MOST_CLASSES])
{
    int count = 0, kept = 0;

    for (const pdl_json_value_t *l = layers; l != NULL; l = l->next) {
        const char *type = pdl_json_text_of(l, "type");
        double      flop = pdl_json_number_of(l, "forward_flop"), bytes = pdl_json_number_of(l, "forward_bytes");
        double      seconds = pdl_json_number_of(l, "forward_s");
        int         i = 0;

        if (type == NULL || !(flop > 0) || !(bytes > 0) || !(seconds > 0)) continue;
        while (i < count && strcmp(classes[i].type, type) != 0) i++;
        if (i == MOST_CLASSES) continue;
        if (i == count) classes[count++] = (class_t){.type = type};
        classes[i].flop += flop;
        classes[i].bytes += bytes;
        classes[i].seconds += seconds;
        classes[i].layers++;
    }
    for (int i = 0; i < count; i++)
        if (isfinite(classes[i].flop / classes[i].bytes) && isfinite(classes[i].flop / classes[i].seconds))
            classes[kept++] = classes[i];
    if (kept > 0) qsort(classes, (size_t)kept, sizeof(*classes), longer_first);
    return kept;
}

/* The device, in the precision of the best plan. */
typedef struct roofs {
    double peak, bandwidth; /* FLOP/s and bytes/s */
    double reach[2];        /* shares of both that kernels reach */
} roofs_t;

static double roof_at(const roofs_t *roofs, double intensity, bool reached)
{
    return fmin(roofs->peak * (reached ? roofs->reach[0] : 1),
                intensity * roofs->bandwidth * (reached ? roofs->reach[1] : 1));
}

/* A roof has three points: both ends and the ridge. */
static void make_roof(const roofs_t *roofs, double low, double high, bool reached, double x[3], double y[3])
{
    double ridge =
        roofs->peak * (reached ? roofs->reach[0] : 1) / (roofs->bandwidth * (reached ? roofs->reach[1] : 1));

    x[0] = fmin(low, ridge);
    x[1] = ridge;
    x[2] = fmax(high, ridge);
    for (int i = 0; i < 3; i++) y[i] = roof_at(roofs, x[i], reached);
}

/* Names of circles that would cover each other are moved down. */
static void move_apart(const double *x, const double *y, double *at, int count)
{
    for (int i = 0; i < count; i++) {
        bool free = false;

        at[i] = y[i];
        for (int tries = 0; tries < count && !free; tries++) {
            free = true;
            for (int k = 0; k < i && free; k++)
                free = fabs(log2(x[i] / x[k])) > 2.5 || fabs(log2(at[i] / at[k])) > 1;
            if (!free) at[i] /= 2;
        }
    }
}

static void draw_roofs(pdl__page_t *page, const roofs_t *roofs, const class_t *classes, int count)
{
    double        low = roofs->peak / roofs->bandwidth / 4, high = 4 * roofs->peak / roofs->bandwidth;
    double        x[MOST_CLASSES], y[MOST_CLASSES], size[MOST_CLASSES], names_at[MOST_CLASSES];
    double        roof_x[3], roof_y[3], reached_x[3], reached_y[3];
    const char   *names[MOST_CLASSES];
    int           named = 0;
    bool          known = roofs->reach[0] > 0 && roofs->reach[1] > 0;
    pdl__series_t series[] = {
        {.name = "layers", .mark = PDL__MARK_POINT, .x = x, .y = y, .size = size, .labels = names, .count = count},
        {.name = "names", .mark = PDL__MARK_LABEL, .x = x, .y = names_at, .labels = names, .count = count},
        {.name = "peak", .mark = PDL__MARK_LINE, .x = roof_x, .y = roof_y, .count = 3},
        {.name = "kernels reach",
         .mark = PDL__MARK_LINE,
         .x = reached_x,
         .y = reached_y,
         .count = 3,
         .faint = true}};
    pdl__chart_t chart = {.title = "layers under the roofs of the device",
                          .x = {.label = "FLOP for a byte", .scale = PDL__SCALE_LOG2, .format = pdl_format_short},
                          .y = {.label = "rate", .scale = PDL__SCALE_LOG10, .format = pdl_format_flop_rate},
                          .series = series,
                          .series_count = known ? 4 : 3};

    for (int i = 0; i < count; i++) {
        names[i] = classes[i].type;
        x[i] = classes[i].flop / classes[i].bytes;
        y[i] = classes[i].flop / classes[i].seconds;
        size[i] = classes[i].seconds / classes[0].seconds;
        low = fmin(low, x[i] / 2);
        high = fmax(high, 2 * x[i]);
    }
    while (named < count && size[named] > LEAST_NAMED) named++;
    series[1].count = named;
    move_apart(x, y, names_at, named);
    make_roof(roofs, low, high, false, roof_x, roof_y);
    if (known) make_roof(roofs, low, high, true, reached_x, reached_y);
    pdl__page_chart(page, &chart,
                    "A circle is all layers of a type, its area their time forward. Under the slope memory limits, "
                    "under the flat roof arithmetic; the distance to the roof is what could be gained.");
}

void pdl__page_roofline(pdl__page_t *page, const pdl__document_t *plan)
{
    static const pdl_column_t columns[] = {{"type", PDL_LEFT},      {"layers", PDL_RIGHT},
                                           {"forward", PDL_RIGHT},  {"FLOP for a byte", PDL_RIGHT},
                                           {"rate", PDL_RIGHT},     {"of the roof", PDL_RIGHT},
                                           {"limited by", PDL_LEFT}};
    const char               *precision = pdl_json_text_of(pdl_json_first(plan->head, "candidates"), "precision");
    class_t                   classes[MOST_CLASSES];
    int                       count = find_classes(pdl_json_first(plan->head, "layers"), classes), bound = 0;
    roofs_t roofs = {.bandwidth = pdl_json_number_of(plan->head, "device.memory_bandwidth_bytes_per_s"),
                     .reach = {pdl_json_number_of(plan->head, "device.matrix_efficiency"),
                               pdl_json_number_of(plan->head, "device.memory_efficiency")}};
    char    text[PDL_FORMAT_SIZE];

    roofs.peak = pdl_json_number_of(plan->head, pdl__page_print(page, "device.peak_flop_per_s.%s",
                                                                pdl__page_or(precision, "fp32")));
    if (count == 0 || !(roofs.peak > 0) || !(roofs.bandwidth > 0)) return;
    for (int i = 0; i < count; i++) bound += classes[i].flop / classes[i].bytes < roofs.peak / roofs.bandwidth;
    pdl__page_section(page, "Roofline: %s takes most; memory limits %d of %d types of layers", classes[0].type,
                      bound, count);
    draw_roofs(page, &roofs, classes, count);
    pdl__page_table(page, "Types of layers, forward, those that take most first", columns, 7);
    for (int i = 0; i < count; i++) {
        double intensity = classes[i].flop / classes[i].bytes, rate = classes[i].flop / classes[i].seconds;

        pdl__page_row(page);
        pdl__page_cell(page, "%s", classes[i].type);
        pdl__page_cell(page, "%d", classes[i].layers);
        pdl__page_seconds(page, classes[i].seconds);
        pdl__page_cell(page, "%.3g", intensity);
        pdl__page_cell(page, "%s", pdl_format_flop_rate(rate, text));
        pdl__page_percent(page, rate / roof_at(&roofs, intensity, false));
        pdl__page_cell(page, "%s", intensity < roofs.peak / roofs.bandwidth ? "memory" : "arithmetic");
    }
    pdl__page_table_end(page);
}

static char *format_value(const char *unit, double value, char text[PDL_FORMAT_SIZE])
{
    if (strcmp(unit, "FLOP/s") == 0) return pdl_format_flop_rate(value, text);
    if (strcmp(unit, "B/s") == 0) return pdl_format_byte_rate(value, text);
    if (strcmp(unit, "s") == 0) return pdl_format_seconds(value, text);
    return pdl_format_short(value, text);
}

static double worth(const pdl_json_value_t *row)
{
    double elasticity = pdl_json_number_of(row, "elasticity");

    return elasticity >= LEAST_WORTH ? elasticity : (double)NAN;
}

static char *format_share(double value, char text[PDL_FORMAT_SIZE])
{
    snprintf(text, PDL_FORMAT_SIZE, "%.2g %%", value);
    return text;
}

static void draw_worth(pdl__page_t *page, const pdl__ranked_t *ranked, int count)
{
    const char   *names[MOST_NUMBERS];
    double        band[MOST_NUMBERS], x[MOST_NUMBERS];
    pdl__series_t series = {.name = "shorter step", .mark = PDL__MARK_BAR, .x = x, .y = band, .count = count};
    pdl__chart_t  chart = {.title = "what one percent of each hardware number is worth",
                           .x = {.from_zero = true, .format = format_share},
                           .y = {.scale = PDL__SCALE_BAND, .bands = names, .band_count = count},
                           .series = &series,
                           .series_count = 1};

    for (int i = 0; i < count; i++) {
        names[i] = pdl__page_or(pdl_json_text_of(ranked[i].value, "name"), "?");
        band[i] = i;
        x[i] = ranked[i].score;
    }
    pdl__page_chart(
        page, &chart,
        "How many percent shorter a step is if one number is one percent better; the sum is what hardware "
        "decides.");
}

void pdl__page_sensitivity(pdl__page_t *page, const pdl__document_t *plan)
{
    static const pdl_column_t columns[] = {{"hardware number", PDL_LEFT},
                                           {"is", PDL_RIGHT},
                                           {"1 % better: shorter by", PDL_RIGHT},
                                           {"10 % shorter with", PDL_RIGHT}};
    int                       count;
    pdl__ranked_t *ranked = pdl__page_rank(page, pdl_json_first(plan->head, "sensitivity"), worth, &count);
    double         twice = pdl_json_number_of(plan->head, "twice_the_memory_s");
    double         now = pdl_json_number_of(pdl_json_first(plan->head, "candidates"), "total_s");
    char           text[PDL_FORMAT_SIZE];

    if (count > MOST_NUMBERS) count = MOST_NUMBERS;
    if (count == 0) return;
    pdl__page_section(page, "Sensitivity: %s matters most, %.2f %% of a step for 1 %%",
                      pdl__page_or(pdl_json_text_of(ranked[0].value, "name"), "?"), ranked[0].score);
    draw_worth(page, ranked, count);
    pdl__page_table(page, "Hardware numbers, what matters most first", columns, 4);
    for (int i = 0; i < count; i++) {
        const pdl_json_value_t *row = ranked[i].value;
        const char             *unit = pdl__page_or(pdl_json_text_of(row, "unit"), "");
        double factor = pdl_json_number_of(row, "factor"), upgraded = pdl_json_number_of(row, "upgraded");

        pdl__page_row(page);
        pdl__page_cell(page, "%s", pdl__page_or(pdl_json_text_of(row, "name"), "?"));
        pdl__page_cell(page, "%s", format_value(unit, pdl_json_number_of(row, "value"), text));
        pdl__page_cell(page, "%.2f %%", ranked[i].score);
        if (isfinite(factor))
            pdl__page_cell(page, "%s (x %.2f)", format_value(unit, upgraded, text), factor);
        else
            pdl__page_cell(page, "-");
    }
    pdl__page_table_end(page);
    if (pdl_json_text_of(plan->head, "cheapest_upgrade") != NULL)
        pdl__page_say(page, "The cheapest single upgrade for a step 10 %% shorter: %s.",
                      pdl_json_text_of(plan->head, "cheapest_upgrade"));
    if (twice > 0 && twice < 0.98 * now)
        pdl__page_say(page, "Memory binds too: with twice as much a device a step takes %s, %.0f %% less.",
                      pdl_format_seconds(twice, text), 100 * (1 - twice / now));
    else if (twice > 0 && now > 0)
        pdl__page_say(page, "Memory does not bind: twice as much a device gains less than 2 %%.");
}
