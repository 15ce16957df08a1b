/*
 * Pages of collectives: one simulated, a sweep over sizes or hosts, one measured.
 */
#include "report/page/page.h"

#include <paradl/base/units.h>

#include <math.h>
#include <string.h>

#define MOST_LINES 24
#define MOST_LINKS 20

static const struct part {
    const char *key, *name;
    pdl__look_t look;
} parts[] = {{"parts.latency_s", "latency", PDL__LOOK_FORWARD},
             {"parts.bandwidth_s", "bandwidth", PDL__LOOK_GRADIENT},
             {"parts.reduction_s", "reduction", PDL__LOOK_UPDATE},
             {"parts.waiting_s", "waiting", PDL__LOOK_IDLE},
             {"parts.contention_s", "contention", PDL__LOOK_LAYER}};
#define PARTS ((int)(sizeof(parts) / sizeof(parts[0])))

static void draw_ranking(pdl__page_t *page, const pdl_json_value_t *const *candidates, int count, double bound_s)
{
    static const double zero = 0;
    const char         *names[MOST_LINES];
    double             *bands = pdl__page_numbers(page, count), *bound = pdl__page_numbers(page, 1);
    pdl__series_t       series[PARTS + 1];
    pdl__chart_t        chart = {.title = "time of every algorithm by part",
                                 .x = {.from_zero = true, .format = pdl_format_seconds},
                                 .y = {.scale = PDL__SCALE_BAND, .bands = names, .band_count = count},
                                 .series = series,
                                 .series_count = PARTS + 1};

    if (bands == NULL || bound == NULL) return;
    for (int i = 0; i < count; i++) {
        bands[i] = i;
        names[i] = pdl__page_or(pdl_json_text_of(candidates[i], "algorithm"), "?");
    }
    for (int p = 0; p < PARTS; p++) {
        double *x = pdl__page_numbers(page, count);

        if (x == NULL) return;
        for (int i = 0; i < count; i++) x[i] = pdl_json_number_of(candidates[i], parts[p].key);
        series[p] = (pdl__series_t){.name = parts[p].name,
                                    .mark = PDL__MARK_BAR,
                                    .look = parts[p].look,
                                    .x = x,
                                    .y = bands,
                                    .count = count};
    }
    bound[0] = bound_s;
    series[PARTS] =
        (pdl__series_t){.name = "lower bound", .mark = PDL__MARK_RULE, .x = bound, .y = &zero, .count = 1};
    pdl__page_chart(
        page, &chart,
        "A bar is the time of an algorithm; the dashed line is what no algorithm can beat on this network.");
}

static void algorithms(pdl__page_t *page, const pdl_json_value_t *head)
{
    static const pdl_column_t columns[] = {{"algorithm", PDL_LEFT},
                                           {"time", PDL_RIGHT},
                                           {"times the bound", PDL_RIGHT},
                                           {"bus rate", PDL_RIGHT},
                                           {"limited by", PDL_LEFT}};
    const pdl_json_value_t   *found[MOST_LINES], *list = pdl_json_first(head, "candidates");
    int                       count = 0;
    char                      text[PDL_FORMAT_SIZE];

    if (list == NULL && isfinite(pdl_json_number_of(head, "time_s"))) found[count++] = head;
    for (; list != NULL && count < MOST_LINES; list = list->next)
        if (pdl_json_true(list, "possible")) found[count++] = list;
    if (count == 0) return;
    if (count > 1)
        pdl__page_section(page, "Ranking: %s is best of %d",
                          pdl__page_or(pdl_json_text_of(found[0], "algorithm"), "?"), count);
    else
        pdl__page_section(page, "Parts of the time");
    draw_ranking(page, found, count, pdl_json_number_of(found[0], "bound_s"));
    pdl__page_table(page, "Algorithms, the fastest first", columns, 5);
    for (int i = 0; i < count; i++) {
        pdl__page_row(page);
        pdl__page_cell(page, "%s", pdl__page_or(pdl_json_text_of(found[i], "algorithm"), "?"));
        pdl__page_seconds(page, pdl_json_number_of(found[i], "time_s"));
        pdl__page_cell(page, "%.2f", pdl_json_number_of(found[i], "bound_ratio"));
        pdl__page_cell(page, "%s", pdl_format_byte_rate(pdl_json_number_of(found[i], "bus_bytes_per_s"), text));
        pdl__page_cell(page, "%s", pdl__page_or(pdl_json_text_of(found[i], "limited_by"), "-"));
    }
    pdl__page_table_end(page);
}

static double busy_of(const pdl_json_value_t *link)
{
    double busy = pdl_json_number_of(link, "busy");

    return isfinite(busy) ? busy : pdl_json_number_of(link, "bytes");
}

/* Of simulate --links. */
static void links(pdl__page_t *page, const pdl_json_value_t *head)
{
    static const pdl_column_t columns[] = {
        {"from", PDL_LEFT}, {"to", PDL_LEFT}, {"kind", PDL_LEFT}, {"bytes", PDL_RIGHT}, {"busy", PDL_RIGHT}};
    int            count;
    pdl__ranked_t *ranked = pdl__page_rank(page, pdl_json_first(head, "links"), busy_of, &count);

    if (count == 0) return;
    pdl__page_section(page, "Links: %s to %s carries most",
                      pdl__page_or(pdl_json_text_of(ranked[0].value, "from"), "?"),
                      pdl__page_or(pdl_json_text_of(ranked[0].value, "to"), "?"));
    pdl__page_table(page, pdl__page_print(page, "The busiest of %d links", count), columns, 5);
    for (int i = 0; i < count && i < MOST_LINKS; i++) {
        pdl__page_row(page);
        pdl__page_cell(page, "%s", pdl__page_or(pdl_json_text_of(ranked[i].value, "from"), "?"));
        pdl__page_cell(page, "%s", pdl__page_or(pdl_json_text_of(ranked[i].value, "to"), "?"));
        pdl__page_cell(page, "%s", pdl__page_or(pdl_json_text_of(ranked[i].value, "kind"), "-"));
        pdl__page_bytes(page, pdl_json_number_of(ranked[i].value, "bytes"));
        pdl__page_percent(page, pdl_json_number_of(ranked[i].value, "busy"));
    }
    pdl__page_table_end(page);
}

void pdl__page_collective(pdl__page_t *page, const pdl__document_t *document)
{
    const pdl_json_value_t *head = document->head, *best = pdl_json_first(head, "candidates");
    char                    size[PDL_FORMAT_SIZE], time[PDL_FORMAT_SIZE];

    if (best == NULL) best = head;
    pdl__page_heading(page, "%s of %s on %.0f hosts of %s",
                      pdl__page_or(pdl_json_text_of(head, "collective"), "collective"),
                      pdl_format_bytes(pdl_json_number_of(head, "bytes"), size), pdl_json_number_of(head, "hosts"),
                      pdl__page_or(pdl_json_text_of(head, "topology"), "?"));
    if (isfinite(pdl_json_number_of(best, "time_s")))
        pdl__page_answer(page, "%s%s: %s, %.2f times the lower bound, limited by %s.",
                         pdl__page_or(pdl_json_text_of(best, "algorithm"), "?"), best != head ? " is best" : "",
                         pdl_format_seconds(pdl_json_number_of(best, "time_s"), time),
                         pdl_json_number_of(best, "bound_ratio"),
                         pdl__page_or(pdl_json_text_of(best, "limited_by"), "?"));
    else
        pdl__page_answer(page, "No algorithm is possible here.");
    algorithms(page, head);
    links(page, head);
}

/* Lines of a chart over the points of a sweep or the rows of a bench: one for every name. */
typedef struct lines {
    const char   *name[MOST_LINES];
    double       *x, *y[MOST_LINES];
    pdl__series_t series[MOST_LINES + 1];
    int           count, points;
    /* Where another one becomes the best: its name at the point. */
    double      *change_x, *change_y;
    const char **change;
    int          changes;
} lines_t;

static double *line_of(pdl__page_t *page, lines_t *lines, const char *name)
{
    int i = 0;

    while (i < lines->count && strcmp(lines->name[i], name) != 0) i++;
    if (i == MOST_LINES) return NULL;
    if (i == lines->count) {
        lines->name[i] = name;
        lines->y[i] = pdl__page_numbers(page, lines->points);
        if (lines->y[i] == NULL) return NULL;
        for (int p = 0; p < lines->points; p++) lines->y[i][p] = NAN;
        lines->count++;
    }
    return lines->y[i];
}

static void draw_lines(pdl__page_t *page, lines_t *lines, pdl__chart_t *chart, const char *how)
{
    for (int i = 0; i < lines->count; i++)
        lines->series[i] = (pdl__series_t){.name = lines->name[i],
                                           .mark = PDL__MARK_LINE,
                                           .x = lines->x,
                                           .y = lines->y[i],
                                           .count = lines->points,
                                           .faint = strcmp(lines->name[i], "lower bound") == 0};
    chart->series = lines->series;
    chart->series_count = lines->count;
    if (lines->changes > 1)
        lines->series[chart->series_count++] = (pdl__series_t){.name = "best from here",
                                                               .mark = PDL__MARK_LABEL,
                                                               .x = lines->change_x,
                                                               .y = lines->change_y,
                                                               .labels = lines->change,
                                                               .count = lines->changes};
    pdl__page_chart(page, chart, how);
}

static const pdl_json_value_t *best_of(const pdl_json_value_t *point)
{
    for (const pdl_json_value_t *c = pdl_json_first(point, "candidates"); c != NULL; c = c->next)
        if (pdl_json_true(c, "possible")) return c;
    return NULL;
}

static void fill_sweep(pdl__page_t *page, const pdl_json_value_t *points, const char *over, lines_t *lines)
{
    int p = 0;

    for (const pdl_json_value_t *point = points; point != NULL; point = point->next, p++) {
        double *bound = line_of(page, lines, "lower bound");

        lines->x[p] = pdl_json_number_of(point, over);
        if (bound != NULL) bound[p] = pdl_json_number_of(best_of(point), "bound_s");
        for (const pdl_json_value_t *c = pdl_json_first(point, "candidates"); c != NULL; c = c->next) {
            double *y = pdl_json_true(c, "possible") && pdl_json_text_of(c, "algorithm") != NULL
                            ? line_of(page, lines, pdl_json_text_of(c, "algorithm"))
                            : NULL;

            if (y != NULL) y[p] = pdl_json_number_of(c, "time_s");
        }
    }
}

static void mark_changes(pdl__page_t *page, const pdl_json_value_t *points, const char *over, lines_t *lines)
{
    const char *last = "";

    lines->change_x = pdl__page_numbers(page, lines->points);
    lines->change_y = pdl__page_numbers(page, lines->points);
    lines->change = pdl_arena_alloc(page->arena, (size_t)lines->points + 1, sizeof(*lines->change));
    if (lines->change_x == NULL || lines->change_y == NULL || lines->change == NULL) return;
    for (const pdl_json_value_t *point = points; point != NULL; point = point->next) {
        const pdl_json_value_t *best = best_of(point);
        const char             *name = pdl_json_text_of(best, "algorithm");

        if (name == NULL || strcmp(name, last) == 0) continue;
        last = name;
        lines->change_x[lines->changes] = pdl_json_number_of(point, over);
        lines->change_y[lines->changes] = pdl_json_number_of(best, "time_s");
        lines->change[lines->changes++] = pdl__page_print(page, "%s is best", name);
    }
}

/* The places where another algorithm becomes the best. */
static void list_changes(pdl__page_t *page, const pdl_json_value_t *points, const char *over, bool hosts)
{
    const pdl_column_t columns[] = {{hosts ? "hosts, from" : "bytes, from", PDL_RIGHT},
                                    {"best", PDL_LEFT},
                                    {"time", PDL_RIGHT},
                                    {"times the bound", PDL_RIGHT}};
    const char        *last = "";

    pdl__page_table(page, "Where the best algorithm changes", columns, 4);
    for (const pdl_json_value_t *point = points; point != NULL; point = point->next) {
        const pdl_json_value_t *best = best_of(point);
        const char             *name = pdl__page_or(pdl_json_text_of(best, "algorithm"), "none");

        if (strcmp(name, last) == 0) continue;
        last = name;
        pdl__page_row(page);
        if (hosts)
            pdl__page_cell(page, "%.0f", pdl_json_number_of(point, over));
        else
            pdl__page_bytes(page, pdl_json_number_of(point, over));
        pdl__page_cell(page, "%s", name);
        pdl__page_seconds(page, pdl_json_number_of(best, "time_s"));
        pdl__page_cell(page, "%.2f", pdl_json_number_of(best, "bound_ratio"));
    }
    pdl__page_table_end(page);
}

/* "ring is best from 1 KiB, rshd from 64 KiB" */
static const char *name_changes(pdl__page_t *page, const pdl_json_value_t *points, const char *over, bool hosts)
{
    const char *text = "", *last = "";
    int         changes = 0;
    char        at[PDL_FORMAT_SIZE];

    for (const pdl_json_value_t *point = points; point != NULL; point = point->next) {
        const char *name = pdl__page_or(pdl_json_text_of(best_of(point), "algorithm"), "no algorithm");
        double      value = pdl_json_number_of(point, over);

        if (strcmp(name, last) == 0) continue;
        if (hosts)
            snprintf(at, sizeof(at), "%.0f hosts", value);
        else
            pdl_format_bytes(value, at);
        text = pdl__page_print(page, "%s%s%s%s from %s", text, *text != '\0' ? ", " : "", name,
                               *text != '\0' ? "" : " is best", at);
        last = name;
        changes++;
    }
    return changes == 1 && *last != '\0' ? pdl__page_print(page, "%s is best everywhere", last) : text;
}

void pdl__page_sweep(pdl__page_t *page, const pdl__document_t *document)
{
    const pdl_json_value_t *points = pdl_json_first(document->head, "points"),
                           *list = pdl_json_get(document->head, "points");
    const char  *over = pdl__page_or(pdl_json_text_of(document->head, "sweep"), "bytes");
    bool         hosts = strcmp(over, "hosts") == 0;
    lines_t      lines = {.points = list != NULL ? list->count : 0};
    pdl__chart_t chart = {.title = "time of every algorithm",
                          .x = {.label = hosts ? "hosts" : "bytes of every rank",
                                .scale = PDL__SCALE_LOG2,
                                .format = hosts ? NULL : pdl_format_bytes},
                          .y = {.label = "time", .scale = PDL__SCALE_LOG10, .format = pdl_format_seconds}};

    lines.x = pdl__page_numbers(page, lines.points);
    pdl__page_heading(page, "Sweep over %s: %s on %s", over,
                      pdl__page_or(pdl_json_text_of(points, "collective"), "collective"),
                      pdl__page_or(pdl_json_text_of(points, "topology"), "?"));
    if (lines.x == NULL || points == NULL) {
        pdl__page_answer(page, "There are no points.");
        return;
    }
    fill_sweep(page, points, over, &lines);
    mark_changes(page, points, over, &lines);
    pdl__page_answer(page, "%s.", name_changes(page, points, over, hosts));
    pdl__page_section(page, "Time over %s", over);
    draw_lines(page, &lines, &chart,
               "Both axes are logarithmic; the dotted line is the lower bound, and names stand where another "
               "algorithm becomes the best.");
    list_changes(page, points, over, hosts);
}

/* The place of a size among those of a bench, whose rows go through all algorithms for each. */
static int place_of(const lines_t *lines, double bytes)
{
    int p = 0;

    while (p < lines->points && lines->x[p] != bytes) p++;
    return p;
}

static void find_sizes(pdl__page_t *page, const pdl_json_value_t *rows, lines_t *lines)
{
    int count = 0;

    for (const pdl_json_value_t *row = rows; row != NULL; row = row->next) count++;
    lines->x = pdl__page_numbers(page, count);
    for (const pdl_json_value_t *row = rows; lines->x != NULL && row != NULL; row = row->next) {
        double bytes = pdl_json_number_of(row, "bytes");

        if (isfinite(bytes) && place_of(lines, bytes) == lines->points) lines->x[lines->points++] = bytes;
    }
}

/* One quantity of a bench, a line for every algorithm; `way` stands behind its name. */
static void fill_bench(pdl__page_t *page, const pdl_json_value_t *rows, const char *key, const char *way,
                       lines_t *lines)
{
    for (const pdl_json_value_t *row = rows; row != NULL; row = row->next) {
        const char *name = pdl__page_or(pdl_json_text_of(row, "algorithm"), "?");
        int         p = place_of(lines, pdl_json_number_of(row, "bytes"));
        double      value = pdl_json_number_of(row, key), *y = NULL;

        if (p < lines->points && isfinite(value))
            y = line_of(page, lines, *way != '\0' ? pdl__page_print(page, "%s%s", name, way) : name);
        if (y != NULL) y[p] = value;
    }
}

static void list_bench(pdl__page_t *page, const pdl_json_value_t *rows)
{
    static const pdl_column_t columns[] = {{"algorithm", PDL_LEFT}, {"bytes", PDL_RIGHT},
                                           {"median", PDL_RIGHT},   {"least", PDL_RIGHT},
                                           {"bus rate", PDL_RIGHT}, {"simulated", PDL_RIGHT}};
    char                      text[PDL_FORMAT_SIZE];

    pdl__page_table(page, "Measured", columns, 6);
    for (const pdl_json_value_t *row = rows; row != NULL; row = row->next) {
        pdl__page_row(page);
        pdl__page_cell(page, "%s", pdl__page_or(pdl_json_text_of(row, "algorithm"), "?"));
        pdl__page_bytes(page, pdl_json_number_of(row, "bytes"));
        pdl__page_seconds(page, pdl_json_number_of(row, "median_s"));
        pdl__page_seconds(page, pdl_json_number_of(row, "min_s"));
        pdl__page_cell(page, "%s", pdl_format_byte_rate(pdl_json_number_of(row, "bus_bytes_per_s"), text));
        pdl__page_seconds(page, pdl_json_number_of(row, "simulated_s"));
    }
    pdl__page_table_end(page);
}

/* The row that is fastest at the largest size. */
static const pdl_json_value_t *best_row(const pdl_json_value_t *rows)
{
    const pdl_json_value_t *best = NULL;

    for (const pdl_json_value_t *row = rows; row != NULL; row = row->next) {
        double bytes = pdl_json_number_of(row, "bytes"), most = pdl_json_number_of(best, "bytes");

        if (best == NULL || bytes > most ||
            (bytes == most && pdl_json_number_of(row, "median_s") < pdl_json_number_of(best, "median_s")))
            best = row;
    }
    return best;
}

void pdl__page_bench(pdl__page_t *page, const pdl__document_t *document)
{
    const pdl_json_value_t *rows = pdl_json_first(document->head, "rows"), *best = best_row(rows);
    lines_t                 times = {.points = 0}, rates;
    pdl__chart_t            time = {.title = "median time",
                                    .x = {.label = "bytes", .scale = PDL__SCALE_LOG2, .format = pdl_format_bytes},
                                    .y = {.label = "time", .scale = PDL__SCALE_LOG10, .format = pdl_format_seconds}};
    pdl__chart_t            rate = {.title = "bus rate",
                                    .x = {.label = "bytes", .scale = PDL__SCALE_LOG2, .format = pdl_format_bytes},
                                    .y = {.label = "bus rate", .from_zero = true, .format = pdl_format_byte_rate}};
    char                    text[PDL_FORMAT_SIZE], size[PDL_FORMAT_SIZE];

    find_sizes(page, rows, &times);
    rates = times;
    pdl__page_heading(page, "%s measured on %.0f ranks, library %s",
                      pdl__page_or(pdl_json_text_of(document->head, "collective"), "collective"),
                      pdl_json_number_of(document->head, "ranks"),
                      pdl__page_or(pdl_json_text_of(document->head, "library"), "?"));
    if (times.x == NULL) return;
    if (best != NULL)
        pdl__page_answer(page, "%s is fastest at %s: %s.", pdl__page_or(pdl_json_text_of(best, "algorithm"), "?"),
                         pdl_format_bytes(pdl_json_number_of(best, "bytes"), size),
                         pdl_format_seconds(pdl_json_number_of(best, "median_s"), text));
    fill_bench(page, rows, "median_s", "", &times);
    fill_bench(page, rows, "simulated_s", ", simulated", &times);
    fill_bench(page, rows, "bus_bytes_per_s", "", &rates);
    pdl__page_section(page, "Time over bytes");
    draw_lines(page, &times, &time,
               "Both axes are logarithmic; simulated is the same schedule on the network that was given.");
    pdl__page_section(page, "Bus rate over bytes");
    draw_lines(page, &rates, &rate, "What a link must carry for it: it compares with the speed of a link.");
    list_bench(page, rows);
}
