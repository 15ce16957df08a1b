/*
 * The page of a plan: answer, ranking, where the time and the memory of every candidate go, layers of the best.
 */
#include "report/page/page.h"

#include <paradl/base/units.h>

#include <math.h>
#include <string.h>

#define SLOWEST     8 /* times the best: slower ones would leave no room for it */
#define MOST_BARS   16
#define MOST_LAYERS 40
#define MOST_BLOCKS 32

const pdl__plan_part_t        pdl__plan_times[PDL__PLAN_PARTS] = {{"forward_s", "forward", PDL__LOOK_FORWARD},
                                                                  {"backward_s", "backward", PDL__LOOK_BACKWARD},
                                                                  {"update_s", "update", PDL__LOOK_UPDATE},
                                                                  {"comm.layer_s", "layer communication", PDL__LOOK_LAYER},
                                                                  {"comm.halo_s", "halo exchange", PDL__LOOK_HALO},
                                                                  {"comm.gradient_s", "gradient exchange",
                                                                   PDL__LOOK_GRADIENT},
                                                                  {"comm.stage_s", "stage transfer", PDL__LOOK_STAGE},
                                                                  {"bubble_s", "bubble", PDL__LOOK_IDLE},
                                                                  {"io_s", "input", PDL__LOOK_INPUT}};
static const pdl__plan_part_t bytes[PDL__PLAN_PARTS] = {{"memory.weights", "weights", PDL__LOOK_NEXT},
                                                        {"memory.gradients", "gradients", PDL__LOOK_NEXT},
                                                        {"memory.optimizer", "optimizer", PDL__LOOK_NEXT},
                                                        {"memory.saved_activations", "saved activations",
                                                         PDL__LOOK_NEXT},
                                                        {"memory.transient", "transient", PDL__LOOK_NEXT},
                                                        {"memory.buffers", "buffers", PDL__LOOK_NEXT},
                                                        {"memory.workspace", "workspace", PDL__LOOK_NEXT},
                                                        {"memory.context", "context", PDL__LOOK_NEXT},
                                                        {"memory.margin", "margin", PDL__LOOK_IDLE}};
#define BARS (PDL__PLAN_PARTS + 3)

static const char *mesh_of(pdl__page_t *page, const pdl_json_value_t *candidate)
{
    const char *text = "";

    for (const pdl_json_value_t *axis = pdl_json_first(candidate, "mesh"); axis != NULL; axis = axis->next)
        if (axis->kind == PDL_JSON_NUMBER && axis->number > 1)
            text = pdl__page_print(page, "%s%s%s %.0f", text, *text != '\0' ? " x " : "", axis->key, axis->number);
    double experts = pdl_json_number_of(candidate, "experts_over");
    return experts > 1 ? pdl__page_print(page, "%s, experts over %.0f", text, experts) : text;
}

/* ", stages on a100, then v100", where a machine has several kinds of devices. */
static const char *places_of(pdl__page_t *page, const pdl_json_value_t *candidate)
{
    const char *text = "", *before = NULL;

    for (const pdl_json_value_t *s = pdl_json_first(candidate, "stage_devices"); s != NULL; s = s->next) {
        if (s->kind != PDL_JSON_STRING || (before != NULL && strcmp(before, s->text) == 0)) continue;
        text = pdl__page_print(page, "%s%s%s", text, before == NULL ? ", stages on " : ", then ", s->text);
        before = s->text;
    }
    return text;
}

static const pdl_json_value_t *largest_limit(const pdl_json_value_t *candidate)
{
    const pdl_json_value_t *most = NULL;

    for (const pdl_json_value_t *l = pdl_json_first(candidate, "limits"); l != NULL; l = l->next)
        if (most == NULL || pdl_json_number_of(l, "share") > pdl_json_number_of(most, "share")) most = l;
    return most;
}

/* A share in percent, a factor or a number of devices: each limit has its own measure. */
static const char *measure_of(pdl__page_t *page, const pdl_json_value_t *limit)
{
    double value = pdl_json_number_of(limit, "share");

    if (value <= 1) return pdl__page_print(page, "%.0f %%", 100 * value);
    return value == floor(value) ? pdl__page_print(page, "%.0f", value) : pdl__page_print(page, "x%.2f", value);
}

static void answer(pdl__page_t *page, const pdl__document_t *plan, const pdl_json_value_t *best)
{
    const pdl_json_value_t *limit = largest_limit(best);
    char   total[PDL_FORMAT_SIZE], low[PDL_FORMAT_SIZE], high[PDL_FORMAT_SIZE], epoch[PDL_FORMAT_SIZE];
    double epoch_s = pdl_json_number_of(best, "epoch_s");
    bool   several = pdl_json_first(plan->head, "precisions") != NULL;

    if (best == NULL || !pdl_json_true(best, "feasible")) {
        pdl__page_answer(page, "No strategy is possible on %.0f devices: the reasons are in the table.",
                         pdl_json_number_of(plan->head, "pe"));
        return;
    }
    pdl__page_answer(page, "%s (%s)%s%s: %s per iteration [%s to %s]%s%s.",
                     pdl__page_or(pdl_json_text_of(best, "strategy"), "?"),
                     pdl__page_or(mesh_of(page, best), "one device"), several ? " in " : "",
                     several ? pdl__page_or(pdl_json_text_of(best, "precision"), "?") : "",
                     pdl_format_seconds(pdl_json_number_of(best, "total_s"), total),
                     pdl_format_seconds(pdl_json_number_of(best, "low_s"), low),
                     pdl_format_seconds(pdl_json_number_of(best, "high_s"), high),
                     isfinite(epoch_s) ? ", per epoch " : "",
                     isfinite(epoch_s) ? pdl_format_seconds(epoch_s, epoch) : "");
    if (pdl_json_text_of(plan->head, "explanation") != NULL)
        pdl__page_list(page, pdl_json_text_of(plan->head, "explanation"));
    else if (limit != NULL)
        pdl__page_say(page, "%s is %s: %s.", pdl__page_or(pdl_json_text_of(limit, "name"), "?"),
                      measure_of(page, limit), pdl__page_or(pdl_json_text_of(limit, "hint"), ""));
}

/* The unit once, where it is the same. */
static const char *between(pdl__page_t *page, double low_s, double high_s)
{
    char  low[PDL_FORMAT_SIZE], high[PDL_FORMAT_SIZE];
    char *unit = strchr(pdl_format_seconds(low_s, low), ' '),
         *other = strchr(pdl_format_seconds(high_s, high), ' ');

    if (unit != NULL && other != NULL && strcmp(unit, other) == 0) *unit = '\0';
    return pdl__page_print(page, "%s to %s", low, high);
}

static void ranking(pdl__page_t *page, const pdl__document_t *plan)
{
    static const pdl_column_t columns[] = {
        {"strategy", PDL_LEFT},   {"mesh", PDL_LEFT},      {"batch", PDL_RIGHT},
        {"iteration", PDL_RIGHT}, {"interval", PDL_RIGHT}, {"epoch", PDL_RIGHT},
        {"samples/s", PDL_RIGHT}, {"memory", PDL_RIGHT},   {"limit, or why it is not possible", PDL_LEFT}};
    int  count = 0, possible = 0;
    bool several = pdl_json_first(plan->head, "precisions") != NULL;
    char text[PDL_FORMAT_SIZE];

    for (const pdl_json_value_t *c = pdl_json_first(plan->head, "candidates"); c != NULL; c = c->next) {
        count++;
        possible += pdl_json_true(c, "feasible");
    }
    pdl__page_section(page, "Ranking: %d of %d strategies are possible", possible, count);
    pdl__page_table(page, "Strategies by time, the best first", columns, 9);
    for (const pdl_json_value_t *c = pdl_json_first(plan->head, "candidates"); c != NULL; c = c->next) {
        const pdl_json_value_t *limit = largest_limit(c);
        double                  low_s = pdl_json_number_of(c, "low_s"), high_s = pdl_json_number_of(c, "high_s");

        (pdl_json_true(c, "feasible") ? pdl__page_row : pdl__page_row_faint)(page);
        pdl__page_cell(page, "%s", pdl__page_or(pdl_json_text_of(c, "strategy"), "?"));
        pdl__page_cell(page, "%s%s%s", pdl__page_or(mesh_of(page, c), pdl_json_true(c, "feasible") ? "1" : "-"),
                       places_of(page, c),
                       several && pdl_json_true(c, "feasible")
                           ? pdl__page_print(page, ", %s", pdl__page_or(pdl_json_text_of(c, "precision"), "?"))
                           : "");
        if (pdl_json_number_of(c, "batch") > 0)
            pdl__page_cell(page, "%.0f", pdl_json_number_of(c, "batch"));
        else
            pdl__page_cell(page, "-");
        pdl__page_seconds(page, pdl_json_number_of(c, "total_s"));
        pdl__page_cell(page, "%s", isfinite(low_s) ? between(page, low_s, high_s) : "-");
        pdl__page_seconds(page, pdl_json_number_of(c, "epoch_s"));
        pdl__page_cell(page, "%s",
                       isfinite(pdl_json_number_of(c, "samples_per_s"))
                           ? pdl_format_short(pdl_json_number_of(c, "samples_per_s"), text)
                           : "-");
        pdl__page_bytes(page, pdl_json_number_of(c, "memory_bytes"));
        if (!pdl_json_true(c, "feasible"))
            pdl__page_cell(page, "%s", pdl__page_or(pdl_json_text_of(c, "reason"), "not possible"));
        else if (limit != NULL)
            pdl__page_cell(page, "%s %s", pdl__page_or(pdl_json_text_of(limit, "name"), "?"),
                           measure_of(page, limit));
    }
    pdl__page_table_end(page);
}

/* Candidates that have a value, as bands of a chart. */
typedef struct bars {
    const pdl_json_value_t *candidate[MOST_BARS];
    const char             *name[MOST_BARS];
    double                  band[MOST_BARS];
    int                     count;
    pdl__series_t           series[BARS];
    int                     series_count;
} bars_t;

static void find_bars(pdl__page_t *page, const pdl__document_t *plan, const char *key, bars_t *bars)
{
    double best_s = pdl_json_number_of(pdl_json_first(plan->head, "candidates"), "total_s");

    *bars = (bars_t){.count = 0};
    for (const pdl_json_value_t *c = pdl_json_first(plan->head, "candidates"); c != NULL && bars->count < MOST_BARS;
         c = c->next) {
        if (!isfinite(pdl_json_number_of(c, key))) continue;
        if (pdl_json_number_of(c, "total_s") > SLOWEST * best_s) continue;
        bars->candidate[bars->count] = c;
        bars->band[bars->count] = bars->count;
        bars->name[bars->count++] =
            pdl__page_print(page, "%s%s", pdl__page_or(pdl_json_text_of(c, "strategy"), "?"),
                            pdl_json_true(c, "feasible") ? "" : " (not possible)");
    }
}

static double *values_of(pdl__page_t *page, const bars_t *bars, const char *key)
{
    double *values = pdl__page_numbers(page, bars->count);

    for (int i = 0; values != NULL && i < bars->count; i++) values[i] = pdl_json_number_of(bars->candidate[i], key);
    return values;
}

/* Parts that are nothing everywhere are left out. */
static void add_parts(pdl__page_t *page, bars_t *bars, const pdl__plan_part_t *parts)
{
    for (int p = 0; p < PDL__PLAN_PARTS; p++) {
        double *values = values_of(page, bars, parts[p].key);
        bool    any = false;

        for (int i = 0; values != NULL && i < bars->count; i++) any |= values[i] > 0;
        if (!any) continue;
        bars->series[bars->series_count++] = (pdl__series_t){.name = parts[p].name,
                                                             .mark = PDL__MARK_BAR,
                                                             .look = parts[p].look,
                                                             .x = values,
                                                             .y = bars->band,
                                                             .count = bars->count};
    }
}

static void draw(pdl__page_t *page, bars_t *bars, const char *title, pdl__chart_format_fn_t format, const char *how)
{
    pdl__chart_t chart = {.title = title,
                          .description = how,
                          .x = {.from_zero = true, .format = format},
                          .y = {.scale = PDL__SCALE_BAND, .bands = bars->name, .band_count = bars->count},
                          .series = bars->series,
                          .series_count = bars->series_count};

    pdl__page_chart(page, &chart, how);
}

/* The numbers of the bars that are drawn. */
static void parts_table(pdl__page_t *page, const bars_t *bars, const char *caption, bool seconds)
{
    pdl_column_t columns[BARS + 1] = {{"strategy", PDL_LEFT}};
    int          count = 0;

    while (count < bars->series_count && bars->series[count].mark == PDL__MARK_BAR) {
        columns[count + 1] = (pdl_column_t){bars->series[count].name, PDL_RIGHT};
        count++;
    }
    pdl__page_table(page, caption, columns, count + 1);
    for (int i = 0; i < bars->count; i++) {
        pdl__page_row(page);
        pdl__page_cell(page, "%s", bars->name[i]);
        for (int p = 0; p < count; p++) (seconds ? pdl__page_seconds : pdl__page_bytes)(page, bars->series[p].x[i]);
    }
    pdl__page_table_end(page);
}

static void where_time_goes(pdl__page_t *page, const pdl__document_t *plan, const pdl_json_value_t *best)
{
    double                  most_s = 0, total_s = pdl_json_number_of(best, "total_s");
    const pdl__plan_part_t *most = NULL;
    bars_t                  bars;

    find_bars(page, plan, "total_s", &bars);
    if (bars.count == 0) return;
    for (int p = 0; p < PDL__PLAN_PARTS; p++) {
        if (!(pdl_json_number_of(best, pdl__plan_times[p].key) > most_s)) continue;
        most = &pdl__plan_times[p];
        most_s = pdl_json_number_of(best, most->key);
    }
    if (most != NULL && total_s > 0)
        pdl__page_section(page, "Where the time goes: %s takes %.0f %%", most->name, 100 * most_s / total_s);
    else
        pdl__page_section(page, "Where the time goes");
    add_parts(page, &bars, pdl__plan_times);
    bars.series[bars.series_count++] = (pdl__series_t){.name = "90 % interval",
                                                       .mark = PDL__MARK_INTERVAL,
                                                       .x = values_of(page, &bars, "total_s"),
                                                       .y = bars.band,
                                                       .low = values_of(page, &bars, "low_s"),
                                                       .high = values_of(page, &bars, "high_s"),
                                                       .count = bars.count};
    if (page->status) return;
    draw(page, &bars, "time of an iteration by part", pdl_format_seconds,
         "A bar is an iteration; the whisker is its 90 % interval. Strategies that take eight times the best are "
         "left out.");
    parts_table(page, &bars, "Seconds of an iteration", true);
}

static void where_memory_goes(pdl__page_t *page, const pdl__document_t *plan)
{
    static const double zero = 0;
    double              capacity = pdl_json_number_of(plan->head, "device.memory_bytes"), *rule;
    char                text[PDL_FORMAT_SIZE], used[PDL_FORMAT_SIZE];
    bars_t              bars;

    find_bars(page, plan, "memory.weights", &bars);
    rule = pdl__page_numbers(page, 1);
    if (bars.count == 0 || rule == NULL) return;
    if (isfinite(capacity))
        pdl__page_section(page, "Memory: the best takes %s of %s",
                          pdl_format_bytes(pdl_json_number_of(bars.candidate[0], "memory_bytes"), used),
                          pdl_format_bytes(capacity, text));
    else
        pdl__page_section(page, "Memory by kind");
    add_parts(page, &bars, bytes);
    rule[0] = capacity;
    if (isfinite(capacity))
        bars.series[bars.series_count++] =
            (pdl__series_t){.name = "capacity", .mark = PDL__MARK_RULE, .x = rule, .y = &zero, .count = 1};
    if (page->status) return;
    draw(page, &bars, "memory of a device by kind", pdl_format_bytes,
         "A bar is the memory of one device; what goes over the dashed line does not fit.");
    parts_table(page, &bars, "Bytes of a device", false);
}

static double layer_seconds(const pdl_json_value_t *layer)
{
    return pdl_json_number_of(layer, "forward_s") + pdl_json_number_of(layer, "backward_s") +
           pdl_json_number_of(layer, "comm_s");
}

/* Layers of one block: those whose names begin alike, "layer1.0" or, where that makes many, "layer1". */
typedef struct blocks {
    const char *name[MOST_BLOCKS];
    double      band[MOST_BLOCKS], seconds[3][MOST_BLOCKS];
    int         count;
    bool        all; /* there was room for every one */
} blocks_t;

static int block_length(const char *name, int dots)
{
    int length = 0;

    for (; name[length] != '\0'; length++)
        if (name[length] == '.' && --dots == 0) break;
    return length;
}

static void find_blocks(pdl__page_t *page, const pdl__document_t *plan, int dots, blocks_t *blocks)
{
    static const char *const keys[] = {"forward_s", "backward_s", "comm_s"};

    *blocks = (blocks_t){.all = true};
    for (const pdl_json_value_t *l = pdl_json_first(plan->head, "layers"); l != NULL; l = l->next) {
        const char *name = pdl__page_or(pdl_json_text_of(l, "name"), "?");
        int         length = block_length(name, dots), b = 0;

        while (b < blocks->count &&
               (strncmp(blocks->name[b], name, (size_t)length) != 0 || blocks->name[b][length] != '\0'))
            b++;
        blocks->all &= b < MOST_BLOCKS;
        if (b == MOST_BLOCKS) continue;
        if (b == blocks->count) {
            blocks->name[b] = pdl__page_print(page, "%.*s", length, name);
            blocks->band[b] = blocks->count++;
        }
        for (int k = 0; k < 3; k++) blocks->seconds[k][b] += fmax(0, pdl_json_number_of(l, keys[k]));
    }
}

static void draw_blocks(pdl__page_t *page, const pdl__document_t *plan)
{
    static const pdl__look_t looks[] = {PDL__LOOK_FORWARD, PDL__LOOK_BACKWARD, PDL__LOOK_LAYER};
    static const char *const names[] = {"forward", "backward", "communication"};
    blocks_t                 blocks;
    pdl__series_t            series[3];
    pdl__chart_t             chart = {.title = "an update by block",
                                      .x = {.from_zero = true, .format = pdl_format_seconds},
                                      .y = {.scale = PDL__SCALE_BAND, .bands = blocks.name},
                                      .series = series,
                                      .series_count = 3};

    for (int dots = 2; dots > 0; dots--) {
        find_blocks(page, plan, dots, &blocks);
        if (blocks.all) break;
    }
    if (!blocks.all || blocks.count < 2) return;
    chart.y.band_count = blocks.count;
    for (int k = 0; k < 3; k++)
        series[k] = (pdl__series_t){.name = names[k],
                                    .mark = PDL__MARK_BAR,
                                    .look = looks[k],
                                    .x = blocks.seconds[k],
                                    .y = blocks.band,
                                    .count = blocks.count};
    pdl__page_chart(
        page, &chart,
        "Blocks in the order of the network; a bar is what all layers of one take in an update, communication of "
        "layers and stages with it.");
}

static void layers(pdl__page_t *page, const pdl__document_t *plan)
{
    static const pdl_column_t columns[] = {{"layer", PDL_LEFT},          {"type", PDL_LEFT},
                                           {"forward", PDL_RIGHT},       {"backward", PDL_RIGHT},
                                           {"communication", PDL_RIGHT}, {"FLOP of a sample", PDL_RIGHT},
                                           {"output", PDL_RIGHT},        {"saved", PDL_RIGHT}};
    int                       count;
    pdl__ranked_t *ranked = pdl__page_rank(page, pdl_json_first(plan->head, "layers"), layer_seconds, &count);
    double         stages = pdl_json_number_of(pdl_json_first(plan->head, "candidates"), "mesh.pipeline"), all = 0;
    char           text[PDL_FORMAT_SIZE];

    if (count == 0) return;
    for (int i = 0; i < count; i++) all += ranked[i].score;
    pdl__page_section(page, "Layers: %s takes most, %.0f %% of %s%s",
                      pdl__page_or(pdl_json_text_of(ranked[0].value, "name"), "?"), 100 * ranked[0].score / all,
                      pdl_format_seconds(all, text),
                      stages > 1 ? pdl__page_print(page, " that the %.0f stages take together", stages) : "");
    draw_blocks(page, plan);
    pdl__page_table(page,
                    pdl__page_print(page, "The %d of %d layers that take most of an update of the best plan",
                                    count < MOST_LAYERS ? count : MOST_LAYERS, count),
                    columns, 8);
    for (int i = 0; i < count && i < MOST_LAYERS; i++) {
        const pdl_json_value_t *layer = ranked[i].value;

        pdl__page_row(page);
        pdl__page_cell(page, "%s", pdl__page_or(pdl_json_text_of(layer, "name"), "?"));
        pdl__page_cell(page, "%s", pdl__page_or(pdl_json_text_of(layer, "type"), "?"));
        pdl__page_seconds(page, pdl_json_number_of(layer, "forward_s"));
        pdl__page_seconds(page, pdl_json_number_of(layer, "backward_s"));
        pdl__page_seconds(page, pdl_json_number_of(layer, "comm_s"));
        pdl__page_cell(page, "%s", pdl_format_short(pdl_json_number_of(layer, "flop"), text));
        pdl__page_bytes(page, pdl_json_number_of(layer, "output_bytes"));
        pdl__page_bytes(page, pdl_json_number_of(layer, "saved_bytes"));
    }
    pdl__page_table_end(page);
}

/* Which of the weights are trained, where not all are. */
static void adapters(pdl__page_t *page, const pdl__document_t *plan)
{
    double all = pdl_json_number_of(plan->head, "model_parameters");
    double trained = pdl_json_number_of(plan->head, "trained_parameters"),
           rank = pdl_json_number_of(plan->head, "lora.rank");
    char some[PDL_FORMAT_SIZE], of[PDL_FORMAT_SIZE];

    if (!(trained < all)) return;
    pdl_format_short(trained, some);
    pdl_format_short(all, of);
    if (rank > 0)
        pdl__page_say(page, "Of %s parameters %s are trained: adapters of rank %.0f (%s).", of, some, rank,
                      pdl__page_or(pdl_json_text_of(plan->head, "lora.layers"), "?"));
    else
        pdl__page_say(page, "Of %s parameters %s are trained.", of, some);
}

void pdl__page_plan(pdl__page_t *page, const pdl__document_t *plan)
{
    const pdl_json_value_t *best = pdl_json_first(plan->head, "candidates");

    pdl__page_heading(page, "Plan: %s on %s, %.0f devices",
                      pdl__page_or(pdl_json_text_of(plan->head, "model"), "?"),
                      pdl__page_or(pdl_json_text_of(plan->head, "system"), "?"),
                      pdl_json_number_of(plan->head, "pe"));
    answer(page, plan, best);
    adapters(page, plan);
    ranking(page, plan);
    pdl__page_precisions(page, plan);
    where_time_goes(page, plan, best);
    where_memory_goes(page, plan);
    pdl__page_sensitivity(page, plan);
    layers(page, plan);
    pdl__page_roofline(page, plan);
}
