/*
 * The page of a training run: measured beside projected and simulated, what was lost, how it learned, how its steps were.
 */
#include "report/page/page.h"

#include <paradl/base/units.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CLASSES 16
#define BINS    10

/* Lines of a log that have a key. */
static int count_lines(const pdl__document_t *run, const char *key, const char *without)
{
    int count = 0;

    for (const pdl_json_value_t *l = run->lines; l != NULL; l = l->next)
        count += pdl_json_get(l, key) != NULL && (without == NULL || pdl_json_get(l, without) == NULL);
    return count;
}

static double *line_values(pdl__page_t *page, const pdl__document_t *run, const char *key, int count)
{
    double *values = pdl__page_numbers(page, count);
    int     i = 0;

    for (const pdl_json_value_t *l = run->lines; values != NULL && l != NULL && i < count; l = l->next)
        if (pdl_json_get(l, "step") != NULL) values[i++] = pdl_json_number_of(l, key);
    return values;
}

static void answer(pdl__page_t *page, const pdl__document_t *run, const pdl_json_value_t *summary)
{
    double measured = pdl_json_number_of(summary, "step_s"),
           projected = pdl_json_number_of(summary, "projected.step_s");
    double simulated = pdl_json_number_of(summary, "simulated.step_s");
    char   one[PDL_FORMAT_SIZE], two[PDL_FORMAT_SIZE], three[PDL_FORMAT_SIZE];

    if (summary == NULL) {
        pdl__page_answer(page, "The run has not ended, or was killed: %d updates are in the log.",
                         count_lines(run, "step", NULL));
    } else if (isfinite(projected)) {
        pdl__page_answer(page, "An update takes %s, %s were projected (%+.0f %%)%s%s.",
                         pdl_format_seconds(measured, one), pdl_format_seconds(projected, two),
                         100 * (projected - measured) / measured, isfinite(simulated) ? ", simulated " : "",
                         isfinite(simulated) ? pdl_format_seconds(simulated, three) : "");
    } else {
        pdl__page_answer(page, "An update takes %s.",
                         isfinite(measured) ? pdl_format_seconds(measured, one) : "an unknown time");
    }
    if (pdl_json_true(summary, "projected.generic"))
        pdl__page_say(
            page,
            "The projection is for a generic processor, not for this one: paradl calibrate measures this machine.");
    for (const pdl_json_value_t *f = pdl_json_first(summary, "findings"); f != NULL; f = f->next)
        pdl__page_say(page, "%s is %.0f %%: %s.", pdl__page_or(pdl_json_text_of(f, "name"), "?"),
                      100 * pdl_json_number_of(f, "share"), pdl__page_or(pdl_json_text_of(f, "hint"), ""));
    if (run->left_out > 0) pdl__page_say(page, "The last line of the log is torn and left out.");
}

/* A class of operations in three ways. */
typedef struct class
{
    const char *name;
    double      projected, simulated, measured, lost;
} class_t;

static int more_lost_first(const void *a, const void *b)
{
    const class_t *one = a, *other = b;

    if (one->lost != other->lost) return one->lost > other->lost ? -1 : 1;
    return strcmp(one->name, other->name);
}

static double member(const pdl_json_value_t *summary, const char *group, const char *name)
{
    for (const pdl_json_value_t *c = pdl_json_first(summary, group); c != NULL; c = c->next)
        if (strcmp(c->key, name) == 0) return c->kind == PDL_JSON_NUMBER ? c->number : (double)NAN;
    return NAN;
}

static int find_classes(const pdl_json_value_t *summary, class_t classes[CLASSES])
{
    int count = 0;

    for (const pdl_json_value_t *c = pdl_json_first(summary, "classes"); c != NULL && count < CLASSES - 1;
         c = c->next) {
        class_t class = {.name = c->key,
                         .projected = member(summary, "projected.classes", c->key),
                         .simulated = member(summary, "simulated.classes", c->key),
                         .measured = c->kind == PDL_JSON_NUMBER ? c->number : (double)NAN};

        if (!(class.measured > 0) && !(class.projected > 0)) continue;
        class.lost = class.measured - (isfinite(class.projected) ? class.projected : 0);
        classes[count++] = class;
    }
    classes[count] = (class_t){"between operations", NAN, NAN, pdl_json_number_of(summary, "other_s"), 0};
    classes[count].lost = classes[count].measured;
    if (classes[count].measured > 0) count++;
    qsort(classes, (size_t)count, sizeof(*classes), more_lost_first);
    return count;
}

/* As parts of plans and timelines look; classes that these have not take the hues that are left. */
static pdl__look_t look_of(const char *name)
{
    static const struct {
        const char *name;
        pdl__look_t look;
    } looks[] = {{"products, forward", PDL__LOOK_FORWARD}, {"products, backward", PDL__LOOK_BACKWARD},
                 {"normalisation", PDL__LOOK_NORM},        {"element-wise", PDL__LOOK_ELEMENT},
                 {"conversion", PDL__LOOK_HALO},           {"update", PDL__LOOK_UPDATE},
                 {"redistribution", PDL__LOOK_LAYER},      {"gradient exchange", PDL__LOOK_GRADIENT},
                 {"copies to the host", PDL__LOOK_STAGE},  {"waiting for samples", PDL__LOOK_INPUT},
                 {"between operations", PDL__LOOK_IDLE}};

    for (size_t i = 0; i < sizeof(looks) / sizeof(looks[0]); i++)
        if (strcmp(looks[i].name, name) == 0) return looks[i].look;
    return PDL__LOOK_NEXT;
}

static void draw_classes(pdl__page_t *page, const class_t *classes, int count)
{
    static const char *const bands[] = {"projected", "simulated", "measured"};
    static const double      places[] = {0, 1, 2};
    pdl__series_t            series[CLASSES];
    pdl__chart_t             chart = {.title = "an update by class of operations",
                                      .x = {.from_zero = true, .format = pdl_format_seconds},
                                      .y = {.scale = PDL__SCALE_BAND, .bands = bands, .band_count = 3},
                                      .series = series,
                                      .series_count = count};

    for (int i = 0; i < count; i++) {
        double *x = pdl__page_numbers(page, 3);

        if (x == NULL) return;
        x[0] = classes[i].projected;
        x[1] = classes[i].simulated;
        x[2] = classes[i].measured;
        series[i] = (pdl__series_t){.name = classes[i].name,
                                    .mark = PDL__MARK_BAR,
                                    .look = look_of(classes[i].name),
                                    .x = x,
                                    .y = places,
                                    .count = 3};
    }
    pdl__page_chart(page, &chart,
                    "The same update in three ways; a part that is longer below was slower than expected.");
}

static void where_time_goes(pdl__page_t *page, const pdl_json_value_t *summary)
{
    static const pdl_column_t columns[] = {{"class", PDL_LEFT},
                                           {"projected", PDL_RIGHT},
                                           {"simulated", PDL_RIGHT},
                                           {"measured", PDL_RIGHT},
                                           {"lost", PDL_RIGHT}};
    class_t                   classes[CLASSES];
    int                       count = find_classes(summary, classes);
    char                      text[PDL_FORMAT_SIZE];

    if (count == 0) return;
    pdl__page_section(page, "Where the time goes: %s loses most, %s of an update", classes[0].name,
                      pdl_format_seconds(fmax(0, classes[0].lost), text));
    draw_classes(page, classes, count);
    pdl__page_table(page, "Seconds of an update by class, what was lost most first", columns, 5);
    for (int i = 0; i < count; i++) {
        pdl__page_row(page);
        pdl__page_cell(page, "%s", classes[i].name);
        pdl__page_seconds(page, classes[i].projected);
        pdl__page_seconds(page, classes[i].simulated);
        pdl__page_seconds(page, classes[i].measured);
        pdl__page_cell(page, "%s%s", classes[i].lost < 0 ? "-" : "",
                       pdl_format_seconds(fabs(classes[i].lost), text));
    }
    pdl__page_table_end(page);
}

static void curve(pdl__page_t *page, const pdl__document_t *run, const char *key, const char *name,
                  pdl__chart_format_fn_t format, int steps)
{
    double       *x = line_values(page, run, "step", steps), *y = line_values(page, run, key, steps);
    pdl__series_t series = {.name = name, .mark = PDL__MARK_LINE, .x = x, .y = y};
    pdl__chart_t  chart = {.title = name,
                           .x = {.label = "update"},
                           .y = {.label = name, .format = format},
                           .series = &series,
                           .series_count = 1};
    double        least = INFINITY, most = -INFINITY;

    if (x == NULL || y == NULL) return;
    for (int i = 0; i < steps; i++) {
        least = fmin(least, y[i]);
        most = fmax(most, y[i]);
    }
    if (least == most) pdl__page_say(page, "%s: %.4g in all updates.", name, most);
    if (!(least < most)) return;
    series.count = pdl__page_thin(x, steps);
    pdl__page_thin(y, steps);
    pdl__page_chart(page, &chart,
                    series.count < steps ? pdl__page_print(page, "%s, update by update, means of %d neighbours",
                                                           name, (steps + PDL__MOST_POINTS - 1) / PDL__MOST_POINTS)
                                         : pdl__page_print(page, "%s, update by update", name));
}

static void learning(pdl__page_t *page, const pdl__document_t *run, int steps)
{
    static const pdl_column_t columns[] = {{"epoch", PDL_RIGHT},
                                           {"training loss", PDL_RIGHT},
                                           {"training accuracy", PDL_RIGHT},
                                           {"validation loss", PDL_RIGHT},
                                           {"validation accuracy", PDL_RIGHT},
                                           {"time", PDL_RIGHT},
                                           {"hidden", PDL_RIGHT},
                                           {"exchanged", PDL_RIGHT}};
    double                   *loss = line_values(page, run, "loss", steps);

    if (loss == NULL || steps == 0) return;
    pdl__page_section(page, "Learning: the loss goes from %.4g to %.4g in %d updates", loss[0], loss[steps - 1],
                      steps);
    curve(page, run, "loss", "loss", NULL, steps);
    curve(page, run, "accuracy", "accuracy", NULL, steps);
    curve(page, run, "lr", "learning rate", NULL, steps);
    if (count_lines(run, "train_loss", "step") == 0) return;
    pdl__page_table(page, "Epochs", columns, 8);
    for (const pdl_json_value_t *l = run->lines; l != NULL; l = l->next) {
        double valid = pdl_json_number_of(l, "valid_loss"), exchanged = pdl_json_number_of(l, "exchanged");

        if (pdl_json_get(l, "train_loss") == NULL) continue;
        pdl__page_row(page);
        pdl__page_cell(page, "%.0f", pdl_json_number_of(l, "epoch"));
        pdl__page_cell(page, "%.4f", pdl_json_number_of(l, "train_loss"));
        pdl__page_percent(page, pdl_json_number_of(l, "train_accuracy"));
        pdl__page_cell(page, "%s", isfinite(valid) ? pdl__page_print(page, "%.4f", valid) : "-");
        pdl__page_percent(page, pdl_json_number_of(l, "valid_accuracy"));
        pdl__page_seconds(page, pdl_json_number_of(l, "epoch_s"));
        pdl__page_cell(page, "%.0f", pdl_json_number_of(l, "hidden"));
        pdl__page_cell(page, "%s", isfinite(exchanged) ? pdl__page_print(page, "%.0f", exchanged) : "-");
    }
    pdl__page_table_end(page);
}

static double step_seconds(const pdl_json_value_t *line)
{
    return pdl_json_get(line, "step") != NULL ? pdl_json_number_of(line, "step_s") : (double)NAN;
}

/* How many updates took how long; those beyond three times the median are in the last bin. */
static void draw_distribution(pdl__page_t *page, const pdl__ranked_t *ranked, int count)
{
    double        low = ranked[count - 1].score, high = fmin(ranked[0].score, 3 * ranked[count / 2].score);
    double        width = (high - low) / BINS, updates[BINS] = {0}, band[BINS];
    const char   *names[BINS];
    pdl__series_t series = {.name = "updates", .mark = PDL__MARK_BAR, .x = updates, .y = band, .count = BINS};
    pdl__chart_t  chart = {.title = "distribution of the times of updates",
                           .x = {.label = "updates", .from_zero = true},
                           .y = {.scale = PDL__SCALE_BAND, .bands = names, .band_count = BINS},
                           .series = &series,
                           .series_count = 1};
    char          text[PDL_FORMAT_SIZE];

    if (count < 2 * BINS || !(width > 0)) return;
    for (int b = 0; b < BINS; b++) {
        band[b] = b;
        names[b] = pdl__page_print(page, "from %s", pdl_format_seconds(low + b * width, text));
    }
    for (int i = 0; i < count; i++) updates[(int)fmin(BINS - 1, (ranked[i].score - low) / width)]++;
    pdl__page_chart(page, &chart,
                    "A bar is how many updates took that long; the last one has all that took longer.");
}

static void steps_in_time(pdl__page_t *page, const pdl__document_t *run, int steps)
{
    static const pdl_column_t columns[] = {{"update", PDL_RIGHT},
                                           {"time", PDL_RIGHT},
                                           {"computing", PDL_RIGHT},
                                           {"exchanging", PDL_RIGHT},
                                           {"waiting for samples", PDL_RIGHT}};
    int                       count;
    pdl__ranked_t            *ranked = pdl__page_rank(page, run->lines, step_seconds, &count);
    char                      least[PDL_FORMAT_SIZE], median[PDL_FORMAT_SIZE], most[PDL_FORMAT_SIZE];

    if (count == 0) return;
    pdl__page_section(page, "Steps: %s at least, median %s, %s at most",
                      pdl_format_seconds(ranked[count - 1].score, least),
                      pdl_format_seconds(ranked[count / 2].score, median),
                      pdl_format_seconds(ranked[0].score, most));
    curve(page, run, "step_s", "time of an update", pdl_format_seconds, steps);
    curve(page, run, "samples_per_s", "samples per second", NULL, steps);
    draw_distribution(page, ranked, count);
    pdl__page_table(page, "The slowest updates", columns, 5);
    for (int i = 0; i < count && i < 5; i++) {
        pdl__page_row(page);
        pdl__page_cell(page, "%.0f", pdl_json_number_of(ranked[i].value, "step"));
        pdl__page_seconds(page, ranked[i].score);
        pdl__page_seconds(page, pdl_json_number_of(ranked[i].value, "compute_s"));
        pdl__page_seconds(page, pdl_json_number_of(ranked[i].value, "comm_s"));
        pdl__page_seconds(page, pdl_json_number_of(ranked[i].value, "io_s"));
    }
    pdl__page_table_end(page);
}

/* Values of all epochs, one after the other; returns how many updates there are. */
static int rank_times(const pdl__document_t *run, double *step, double *times[3], int *slowest)
{
    int count = 0;

    for (const pdl_json_value_t *l = run->lines; l != NULL; l = l->next) {
        double at = pdl_json_number_of(l, "ranks.first_step"), every = pdl_json_number_of(l, "ranks.every");

        for (const pdl_json_value_t *u = pdl_json_first(l, "ranks.compute_s"); u != NULL;
             u = u->next, at += every) {
            const pdl_json_value_t *v = u->first;

            if (step != NULL) step[count] = at;
            for (int k = 0; k < 3 && step != NULL; k++, v = v != NULL ? v->next : NULL)
                times[k][count] = v != NULL && v->kind == PDL_JSON_NUMBER ? v->number : (double)NAN;
            if (step != NULL) slowest[count] = v != NULL && v->number >= 0 && v->number < 1e9 ? (int)v->number : 0;
            count++;
        }
    }
    return count;
}

static int by_number(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;

    return (x > y) - (x < y);
}

/* The rank that is found most often, and how often. */
static int most_often(int *ranks, int count, int *times)
{
    int found = 0;

    *times = 0;
    qsort(ranks, (size_t)count, sizeof(*ranks), by_number);
    for (int i = 0, j; i < count; i = j) {
        for (j = i; j < count && ranks[j] == ranks[i];) j++;
        if (j - i <= *times) continue;
        *times = j - i;
        found = ranks[i];
    }
    return found;
}

/* What the slowest of the ranks takes longer than the one in the middle, all others wait. */
static void spread(pdl__page_t *page, const pdl__document_t *run)
{
    static const char *const names[] = {"fastest rank", "median", "slowest rank"};
    int                      count = rank_times(run, NULL, NULL, NULL), often, slowest;
    double                  *x = pdl__page_numbers(page, count), *y[3], sums[3] = {0, 0, 0};
    int                     *ranks = pdl_arena_alloc(page->arena, (size_t)count + 1, sizeof(*ranks));
    pdl__series_t            series[3];
    pdl__chart_t             chart = {.title = "computing in an update, by rank",
                                      .x = {.label = "update"},
                                      .y = {.label = "time", .from_zero = true, .format = pdl_format_seconds},
                                      .series = series,
                                      .series_count = 3};

    for (int k = 0; k < 3; k++) y[k] = pdl__page_numbers(page, count);
    if (count == 0 || ranks == NULL || page->status) return;
    rank_times(run, x, y, ranks);
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < count; i++) sums[k] += isfinite(y[k][i]) ? y[k][i] : 0;
        series[k] = (pdl__series_t){
            .name = names[k], .mark = PDL__MARK_LINE, .x = x, .y = y[k], .count = pdl__page_thin(y[k], count)};
    }
    pdl__page_thin(x, count);
    if (!(sums[1] > 0)) return;
    slowest = most_often(ranks, count, &often);
    pdl__page_section(page, "Ranks: the slowest computes %.2f times as long as the median, most often rank %d",
                      sums[2] / sums[1], slowest);
    pdl__page_chart(page, &chart,
                    "Ranks wait for the slowest one in every update; what is above the median is lost.");
    pdl__page_say(page,
                  "Rank %d is the slowest in %d of %d updates; the fastest rank computes %.2f times the median.",
                  slowest, often, count, sums[0] / sums[1]);
}

static void memory_and_ranks(pdl__page_t *page, const pdl_json_value_t *summary)
{
    static const pdl_column_t columns[] = {{"quantity", PDL_LEFT}, {"value", PDL_RIGHT}};

    if (summary == NULL) return;
    pdl__page_section(page, "Memory and ranks");
    pdl__page_table(page, "Of the rank that has most", columns, 2);
    pdl__page_row(page);
    pdl__page_cell(page, "memory, projected");
    pdl__page_bytes(page, pdl_json_number_of(summary, "projected.memory_bytes"));
    pdl__page_row(page);
    pdl__page_cell(page, "memory, counted");
    pdl__page_bytes(page, pdl_json_number_of(summary, "memory_bytes"));
    pdl__page_row(page);
    pdl__page_cell(page, "computing in an update, mean of the ranks");
    pdl__page_seconds(page, pdl_json_number_of(summary, "work_s"));
    pdl__page_row(page);
    pdl__page_cell(page, "computing in an update, rank %.0f, the busiest",
                   pdl_json_number_of(summary, "busiest_rank"));
    pdl__page_seconds(page, pdl_json_number_of(summary, "most_work_s"));
    pdl__page_table_end(page);
}

void pdl__page_run(pdl__page_t *page, const pdl__document_t *run)
{
    const pdl_json_value_t *summary = pdl__document_summary(run);
    int                     steps = count_lines(run, "step", NULL);
    double                  ranks = pdl_json_number_of(run->head, "ranks");

    pdl__page_heading(page, "Run: %s on %s, %.0f %s", pdl__page_or(pdl_json_text_of(run->head, "model"), "?"),
                      pdl__page_or(pdl_json_text_of(run->head, "data"), "?"), ranks, ranks == 1 ? "rank" : "ranks");
    answer(page, run, summary);
    where_time_goes(page, summary);
    learning(page, run, steps);
    steps_in_time(page, run, steps);
    spread(page, run);
    memory_and_ranks(page, summary);
}
