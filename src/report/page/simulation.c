/*
 * The page of a simulated plan: projected beside simulated, stages, communications by what they differ.
 */
#include "report/page/page.h"

#include <paradl/base/units.h>

#include <math.h>

#define MOST_ROWS   40
#define MOST_LEVELS 16

static const struct part {
    const char *key, *name;
    pdl__look_t look;
} parts[] = {{"compute_s", "computation", PDL__LOOK_FORWARD},
             {"layer_s", "layer communication", PDL__LOOK_LAYER},
             {"halo_s", "halo exchange", PDL__LOOK_LAYER},
             {"stage_s", "stage transfer", PDL__LOOK_STAGE},
             {"gradient_s", "gradient exchange", PDL__LOOK_GRADIENT},
             {"bubble_s", "bubble", PDL__LOOK_IDLE}};
#define PARTS ((int)(sizeof(parts) / sizeof(parts[0])))

static double part_of(pdl__page_t *page, const pdl_json_value_t *head, const char *way, int p)
{
    return pdl_json_number_of(head, pdl__page_print(page, "%s.%s", way, parts[p].key));
}

static void side_by_side(pdl__page_t *page, const pdl_json_value_t *head)
{
    static const char *const  bands[] = {"projected", "simulated"};
    static const double       places[] = {0, 1};
    static const pdl_column_t columns[] = {{"part", PDL_LEFT}, {"projected", PDL_RIGHT}, {"simulated", PDL_RIGHT}};
    pdl__series_t             series[PARTS];
    pdl__chart_t              chart = {.title = "an iteration, projected and simulated",
                                       .x = {.from_zero = true, .format = pdl_format_seconds},
                                       .y = {.scale = PDL__SCALE_BAND, .bands = bands, .band_count = 2},
                                       .series = series};
    const char               *differs = NULL;
    double                    most = 0, all = pdl_json_number_of(head, "projected.total_s");
    char                      text[PDL_FORMAT_SIZE];

    for (int p = 0; p < PARTS; p++) {
        double *x = pdl__page_numbers(page, 2);

        if (x == NULL) return;
        x[0] = part_of(page, head, "projected", p);
        x[1] = part_of(page, head, "simulated", p);
        if (!(x[0] > 0) && !(x[1] > 0)) continue;
        series[chart.series_count++] = (pdl__series_t){
            .name = parts[p].name, .mark = PDL__MARK_BAR, .look = parts[p].look, .x = x, .y = places, .count = 2};
        if (!(fabs(x[1] - x[0]) > most)) continue;
        most = fabs(x[1] - x[0]);
        differs = parts[p].name;
    }
    if (differs != NULL && !(most < 1e-3 * all))
        pdl__page_section(page, "Projected beside simulated: %s differs most, by %s", differs,
                          pdl_format_seconds(most, text));
    else
        pdl__page_section(page, "Projected beside simulated: no part differs by 0.1 %% of an iteration");
    pdl__page_chart(
        page, &chart,
        "Computation is the same in both; communication is closed forms above, and flows on the network below.");
    pdl__page_table(page, "Seconds of an iteration", columns, 3);
    for (int p = 0; p < chart.series_count; p++) {
        pdl__page_row(page);
        pdl__page_cell(page, "%s", series[p].name);
        pdl__page_seconds(page, series[p].x[0]);
        pdl__page_seconds(page, series[p].x[1]);
    }
    pdl__page_table_end(page);
}

static void stages(pdl__page_t *page, const pdl_json_value_t *head)
{
    static const pdl_column_t columns[] = {{"stage", PDL_RIGHT},
                                           {"layers", PDL_RIGHT},
                                           {"computation", PDL_RIGHT},
                                           {"communication", PDL_RIGHT},
                                           {"idle", PDL_RIGHT}};
    int                       stage = 0, idlest = 0;
    double                    most = -1;

    for (const pdl_json_value_t *s = pdl_json_first(head, "stages"); s != NULL; s = s->next, stage++) {
        if (!(pdl_json_number_of(s, "idle_share") > most)) continue;
        most = pdl_json_number_of(s, "idle_share");
        idlest = stage;
    }
    if (stage < 2) return;
    pdl__page_section(page, "Stages: stage %d is idle most, %.0f %% of the time", idlest, 100 * most);
    stage = 0;
    pdl__page_table(page, "Stages of the pipeline", columns, 5);
    for (const pdl_json_value_t *s = pdl_json_first(head, "stages"); s != NULL; s = s->next) {
        pdl__page_row(page);
        pdl__page_cell(page, "%d", stage++);
        pdl__page_cell(page, "%.0f to %.0f", pdl_json_number_of(s, "first_layer"),
                       pdl_json_number_of(s, "last_layer"));
        pdl__page_seconds(page, pdl_json_number_of(s, "compute_s"));
        pdl__page_seconds(page, pdl_json_number_of(s, "comm_s"));
        pdl__page_percent(page, pdl_json_number_of(s, "idle_share"));
    }
    pdl__page_table_end(page);
}

/* All calls of a communication; those that only the timeline asked for are in no iteration. */
static double all_simulated(const pdl_json_value_t *c)
{
    double times = pdl_json_number_of(c, "times");

    return times > 0 ? pdl_json_number_of(c, "simulated_s") * times : (double)NAN;
}

static void communications(pdl__page_t *page, const pdl_json_value_t *head)
{
    static const pdl_column_t columns[] = {{"communication", PDL_LEFT}, {"algorithm", PDL_LEFT},
                                           {"ranks", PDL_RIGHT},        {"bytes", PDL_RIGHT},
                                           {"times", PDL_RIGHT},        {"projected", PDL_RIGHT},
                                           {"simulated", PDL_RIGHT},    {"ratio", PDL_RIGHT}};
    int                       count;
    pdl__ranked_t *ranked = pdl__page_rank(page, pdl_json_first(head, "communications"), all_simulated, &count);

    if (count == 0) return;
    pdl__page_section(page, "Communications: %s takes most",
                      pdl__page_or(pdl_json_text_of(ranked[0].value, "primitive"), "?"));
    pdl__page_table(page, "Distinct communications, those that take most first", columns, 8);
    for (int i = 0; i < count && i < MOST_ROWS; i++) {
        const pdl_json_value_t *c = ranked[i].value;
        double projected = pdl_json_number_of(c, "projected_s"), simulated = pdl_json_number_of(c, "simulated_s");

        pdl__page_row(page);
        pdl__page_cell(page, "%s", pdl__page_or(pdl_json_text_of(c, "primitive"), "?"));
        pdl__page_cell(page, "%s", pdl__page_or(pdl_json_text_of(c, "algorithm"), "-"));
        pdl__page_cell(page, "%.0f", pdl_json_number_of(c, "ranks"));
        pdl__page_bytes(page, pdl_json_number_of(c, "bytes"));
        pdl__page_cell(page, "%.0f", pdl_json_number_of(c, "times"));
        pdl__page_seconds(page, projected);
        pdl__page_seconds(page, simulated);
        pdl__page_cell(page, "%s", projected > 0 ? pdl__page_print(page, "%.2f", simulated / projected) : "-");
    }
    pdl__page_table_end(page);
    if (count > MOST_ROWS) pdl__page_say(page, "%d more are in the document.", count - MOST_ROWS);
}

static void levels(pdl__page_t *page, const pdl_json_value_t *head)
{
    static const pdl_column_t columns[] = {{"level", PDL_LEFT},          {"links", PDL_RIGHT},
                                           {"in use", PDL_RIGHT},        {"busiest carries", PDL_RIGHT},
                                           {"busiest, busy", PDL_RIGHT}, {"mean, busy", PDL_RIGHT}};
    const pdl_json_value_t   *list = pdl_json_first(head, "levels"), *most = NULL;
    const char               *bands[MOST_LEVELS];
    double                    place[MOST_LEVELS], largest[MOST_LEVELS];
    int                       count = 0;

    for (const pdl_json_value_t *l = list; l != NULL && count < MOST_LEVELS; l = l->next) {
        double share = pdl_json_number_of(l, "largest_share");

        if (!(pdl_json_number_of(l, "used") > 0)) continue;
        if (most == NULL || share > pdl_json_number_of(most, "largest_share")) most = l;
        bands[count] = pdl__page_or(pdl_json_text_of(l, "name"), "?");
        largest[count] = 100 * share;
        place[count] = count;
        count++;
    }
    if (most == NULL) return;
    const pdl__series_t series = {
        .name = "busiest link", .mark = PDL__MARK_BAR, .x = largest, .y = place, .count = count};
    pdl__chart_t chart = {.title = "how long the busiest link of a level is busy",
                          .x = {.label = "% of the iteration", .from_zero = true},
                          .y = {.scale = PDL__SCALE_BAND, .bands = bands, .band_count = count},
                          .series = &series,
                          .series_count = 1};

    pdl__page_section(page, "Links: those of %s are busy up to %.1f %% of the time",
                      pdl__page_or(pdl_json_text_of(most, "name"), "?"),
                      100 * pdl_json_number_of(most, "largest_share"));
    pdl__page_chart(page, &chart, "Links of a level join its groups to what they are made of.");
    pdl__page_table(page, "Links by level; means are over those in use", columns, 6);
    for (const pdl_json_value_t *l = list; l != NULL; l = l->next) {
        pdl__page_row(page);
        pdl__page_cell(page, "%s", pdl__page_or(pdl_json_text_of(l, "name"), "?"));
        pdl__page_cell(page, "%.0f", pdl_json_number_of(l, "links"));
        pdl__page_cell(page, "%.0f", pdl_json_number_of(l, "used"));
        pdl__page_bytes(page, pdl_json_number_of(l, "largest_bytes"));
        pdl__page_percent(page, pdl_json_number_of(l, "largest_share"));
        pdl__page_percent(page, pdl_json_number_of(l, "mean_share"));
    }
    pdl__page_table_end(page);
}

void pdl__page_simulation(pdl__page_t *page, const pdl__document_t *simulation)
{
    const pdl_json_value_t *head = simulation->head;
    double                  projected = pdl_json_number_of(head, "projected.total_s"),
           simulated = pdl_json_number_of(head, "simulated.total_s");
    char one[PDL_FORMAT_SIZE], two[PDL_FORMAT_SIZE];

    pdl__page_heading(page, "Simulated plan: %s on %s, %.0f ranks, %s",
                      pdl__page_or(pdl_json_text_of(head, "model"), "?"),
                      pdl__page_or(pdl_json_text_of(head, "system"), "?"), pdl_json_number_of(head, "ranks"),
                      pdl__page_or(pdl_json_text_of(head, "mesh"), "?"));
    pdl__page_answer(page, "An iteration takes %s simulated and %s projected%s.",
                     pdl_format_seconds(simulated, one), pdl_format_seconds(projected, two),
                     fabs(projected / simulated - 1) < 5e-4
                         ? ""
                         : pdl__page_print(page, " (%+.1f %%)", 100 * (projected - simulated) / simulated));
    if (pdl_json_text_of(head, "busiest_link.name") != NULL)
        pdl__page_say(page, "The busiest link is %s: %.1f %% of the time.",
                      pdl_json_text_of(head, "busiest_link.name"),
                      100 * pdl_json_number_of(head, "busiest_link.share"));
    if (pdl_json_text_of(head, "stage_devices") != NULL)
        pdl__page_say(page, "Devices: %s.", pdl_json_text_of(head, "stage_devices"));
    side_by_side(page, head);
    stages(page, head);
    communications(page, head);
    levels(page, head);
}
