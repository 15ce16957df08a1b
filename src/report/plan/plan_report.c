/*
 * The ranked table of strategies for people.
 */
#include "report/plan/measured_report.h"
#include "report/plan/ownership_report.h"
#include "report/plan/plan_cells.h"
#include "report/plan/plan_rates.h"
#include "report/plan/sensitivity_report.h"

#include <paradl/base/units.h>
#include <paradl/plan/collectives.h>
#include <paradl/report/table.h>
#include <paradl/topo/topo.h>

#include <math.h>
#include <string.h>

#define CELL_SIZE    PDL__CELL_SIZE
#define MOST_COLUMNS 15

static bool is_orig(const pdl_plan_report_t *report)
{
    return strcmp(report->formulas, "orig") == 0;
}

/* "resnet50   25.6 M parameters, 4.09 GMAC per sample      imagenet   1,281,167 samples" */
static void add_model(pdl_table_t *table, const pdl_plan_report_t *report)
{
    pdl_model_totals_t totals;
    char weights[PDL_FORMAT_SIZE], trained[PDL_FORMAT_SIZE], macs[PDL_FORMAT_SIZE], samples[PDL_FORMAT_SIZE];
    char part[64] = "";

    pdl_model_totals(report->model, &totals);
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "%s", report->model_name);
    if (totals.trained < totals.weights)
        snprintf(part, sizeof(part), ", %s of them trained", pdl_format_short((double)totals.trained, trained));
    pdl_table_cell(table, " %s parameters%s, %sMAC per sample", pdl_format_short((double)totals.weights, weights),
                   part, pdl_format_short((double)totals.macs, macs));
    if (report->dataset == NULL) return;
    pdl_table_cell(table, "    %s   %s samples", report->dataset->name,
                   report->dataset->samples > 0 ? pdl_format_count(report->dataset->samples, samples)
                                                : "unlimited");
}

/* Appends to a text of CELL_SIZE what fits. */
static void append(char *text, const char *format, const char *value)
{
    size_t used = strlen(text);

    snprintf(text + used, CELL_SIZE - used, format, value);
}

/* ", infiniband x2, 3:1 above the rack": what the levels that the devices span are like. */
static void describe_network(const pdl_system_t *system, int64_t pe, char text[CELL_SIZE])
{
    const pdl_topology_t *network = NULL;
    int                   top = pdl_system_level_of_span(system, pe);
    char                  number[PDL_FORMAT_SIZE];

    for (int i = 0; i <= top && i < system->level_count; i++) {
        const pdl_level_t *level = &system->level[i];

        if ((i == top && i == 0) || i == 1) {
            append(text, ", %s", level->transport != NULL ? level->transport : level->name);
            snprintf(number, sizeof(number), "%g", level->ports);
            if (level->ports > 1) append(text, " x%s", number);
        }
        if (level->oversubscription > 1) {
            snprintf(number, sizeof(number), "%g", level->oversubscription);
            append(text, ", %s:1 above the ", number);
            append(text, "%s", i > 0 ? system->level[i - 1].name : "device");
        }
    }
    if (top == system->level_count - 1 && !pdl_topology_network(system, &network) && network != NULL)
        append(text, ", %s", pdl_topology_name(network));
}

static void add_system(pdl_table_t *table, const pdl_plan_report_t *report)
{
    const pdl_system_t *system = report->system;
    int64_t             pe = report->request->pe, size = pdl_system_group_size(system, 0);
    int64_t             groups = (pe + size - 1) / size;
    char                count[PDL_FORMAT_SIZE], nodes[PDL_FORMAT_SIZE], network[CELL_SIZE] = "";

    describe_network(system, pe, network);
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "%s", system->name);
    pdl_table_span(table, " %s x %s in %s %s%s%s", pdl_format_count(pe, count), system->device.name,
                   pdl_format_count(groups, nodes), system->level[0].name, groups == 1 ? "" : "s", network);
    for (int i = 0; i < system->part_count; i++) {
        const pdl_system_part_t *part = &system->part[i];

        pdl_table_row(table, PDL_ROW_PLAIN);
        pdl_table_cell(table, "  %s", part->name);
        pdl_table_span(table, " %s x %s", pdl_format_count(part->nodes * size, count), part->device.name);
    }
}

/* The batch at which all are compared; the original formulas take one for each. */
static void add_batch(pdl_table_t *table, const pdl_plan_report_t *report)
{
    const pdl_search_t *search = report->search;
    char                count[PDL_FORMAT_SIZE], tokens[PDL_FORMAT_SIZE];
    int64_t             length = pdl__sample_tokens(report->model);

    if (search->batch == 0) return;
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "batch");
    pdl_table_span(table, " %s%s%s%s%s%s", pdl_format_count(search->batch, count),
                   length > 0 ? " samples, " : " samples",
                   length > 0 ? pdl_format_short((double)(search->batch * length), tokens) : "",
                   length > 0 ? " tokens" : "", search->batch_reason[0] != '\0' ? ": " : "", search->batch_reason);
}

/* What trains; without one the answer is that of an ideal framework, or of what the system was measured with. */
static void add_framework(pdl_table_t *table, const pdl_plan_report_t *report)
{
    bool named = report->framework != NULL && *report->framework != '\0';
    if (!named && (report->parameters == NULL || strstr(report->parameters, " with ") == NULL)) return;
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "framework");
    pdl_table_span(table, " %s, parameters %s", named ? report->framework : "none named", report->parameters);
}

static pdl_status_t print_head(const pdl_plan_report_t *report, FILE *stream)
{
    static const pdl_column_t columns[] = {{"", PDL_LEFT}, {"", PDL_LEFT}, {"", PDL_LEFT}};
    pdl_table_t              *table = pdl_table_create(columns, 3);
    pdl_status_t              status;

    add_model(table, report);
    add_system(table, report);
    add_batch(table, report);
    add_framework(table, report);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    if (is_orig(report)) fputs("formulas of the original program\n", stream);
    fputs("\n", stream);
    return status;
}

char *pdl__cell_interval(const pdl_projection_t *projection, char text[CELL_SIZE])
{
    char low[PDL_FORMAT_SIZE], high[PDL_FORMAT_SIZE];

    text[0] = '\0';
    if (projection->low_s == projection->high_s) return text;
    snprintf(text, CELL_SIZE, "[%s..%s]", pdl_format_seconds_like(projection->low_s, projection->total_s, low),
             pdl_format_seconds_like(projection->high_s, projection->total_s, high));
    return text;
}

char *pdl__cell_limit(const pdl_projection_t *projection, char text[CELL_SIZE])
{
    const pdl_finding_t *finding = &projection->findings[0];

    if (projection->finding_count == 0) {
        snprintf(text, CELL_SIZE, "computation");
        return text;
    }
    if (finding->share <= 1)
        snprintf(text, CELL_SIZE, "%s %.0f %%", finding->name, 100 * finding->share);
    else if (finding->share == floor(finding->share))
        snprintf(text, CELL_SIZE, "%s %.0f", finding->name, finding->share);
    else
        snprintf(text, CELL_SIZE, "%s x%.2f", finding->name, finding->share);
    return text;
}

char *pdl__cell_mesh(const pdl_config_t *config, char text[CELL_SIZE])
{
    char         number[PDL_FORMAT_SIZE];
    pdl_config_t whole = *config;
    pdl_mesh_t   mesh;

    snprintf(text, CELL_SIZE, "-");
    if (config->data == 0) return text; /* no mesh to show */
    whole.experts = 1;                  /* replicas are one axis here */
    mesh = pdl_config_mesh(&whole);
    pdl_mesh_format(&mesh, text, CELL_SIZE);
    if (config->experts > 1) append(text, ", experts over %s", pdl_format_count(config->experts, number));
    if (config->micro_batches > 1) append(text, ", %s micro", pdl_format_count(config->micro_batches, number));
    if (config->pipeline > 1 && config->schedule == PDL_SCHEDULE_ZERO_BUBBLE) append(text, "%s", ", zero bubble");
    if (config->virtual_stages > 1) append(text, ", %s virtual", pdl_format_count(config->virtual_stages, number));
    if (config->sharding != PDL_SHARDING_NONE) append(text, ", %s", pdl_sharding_names[config->sharding]);
    if (config->recompute == PDL_RECOMPUTE_FULL && config->recomputed_blocks > 0) {
        append(text, ", %s", config->offloaded ? "offload" : "recompute");
        append(text, config->recomputed_blocks == 1 ? " %s block" : " %s blocks",
               pdl_format_count(config->recomputed_blocks, number));
        if (config->pipeline > 1) append(text, "%s", " a stage");
    } else if (config->recompute == PDL_RECOMPUTE_FULL)
        append(text, "%s", ", recompute");
    if (config->recompute == PDL_RECOMPUTE_SELECTIVE) append(text, "%s", ", selective recompute");
    if (config->optimizer_tier != PDL_TIER_DEVICE)
        append(text, ", state on %s", pdl_tier_names[config->optimizer_tier]);
    return text;
}

/* What the goal minimises, where the other columns do not show it. */
static void add_goal(pdl_table_t *table, const pdl_plan_report_t *report, const pdl_candidate_t *c)
{
    double seconds = c->epoch_s > 0 ? c->epoch_s : c->sample_s;
    double rate = pdl_system_price(report->system, c->config.part_order, report->request->pe);
    double hours = seconds * (double)report->request->pe / 3600 * (c->epoch_s > 0 ? 1 : 1e6);
    char   number[PDL_FORMAT_SIZE];

    if (report->request->goal == PDL_GOAL_ENERGY)
        pdl_table_cell(table, "%.3g J", c->projection.energy_j / (double)c->config.batch);
    else if (report->request->goal == PDL_GOAL_COST)
        pdl_table_cell(table, "%s", pdl_format_short(rate > 0 ? hours * rate : hours, number));
}

static void add_rates(pdl_table_t *table, const pdl_plan_report_t *report, const pdl_candidate_t *c)
{
    pdl__rates_t rates = pdl__plan_rates(report, c);
    char         number[PDL_FORMAT_SIZE];
    bool         sequences = pdl__sample_tokens(report->model) > 0;

    pdl_table_cell(table, "%s", pdl_format_short(sequences ? rates.tokens_per_s : rates.samples_per_s, number));
    if (is_orig(report)) return;
    pdl_table_cell(table, "%s", pdl_format_short(rates.flop_per_s / 1e12, number));
    pdl_table_cell(table, rates.mfu < 0.01 ? "<1 %%" : "%.0f %%", 100 * rates.mfu);
}

/* "stages 0-3: a100, 4-7: v100" */
static void add_places(pdl_table_t *table, const pdl_plan_report_t *report, const pdl_config_t *config)
{
    pdl_mesh_t mesh = pdl_config_mesh(config);
    char       text[CELL_SIZE];

    if (report->system->part_count == 0) return;
    pdl_table_cell(table, "%s", pdl_oracle_places(report->system, config->part_order, &mesh, text, sizeof(text)));
}

static void add_possible(pdl_table_t *table, const pdl_plan_report_t *report, int i)
{
    const pdl_candidate_t *c = &report->search->candidates[i];
    char                   text[CELL_SIZE], number[PDL_FORMAT_SIZE];

    pdl_table_row(table, i == 0 ? PDL_ROW_STRONG : PDL_ROW_PLAIN);
    pdl_table_cell(table, "%2d", i + 1);
    pdl_table_cell(table, "%s", c->config.strategy->name);
    if (report->search->precision_count > 0) pdl_table_cell(table, "%s", pdl_precision_names[c->config.precision]);
    pdl_table_cell(table, "%s", pdl__cell_mesh(&c->config, text));
    add_places(table, report, &c->config);
    if (is_orig(report)) pdl_table_cell(table, "%s", pdl_format_count(c->config.batch, number));
    pdl_table_cell(table, "%s", pdl_format_seconds(c->projection.total_s, number));
    pdl_table_cell(table, "%s", pdl__cell_interval(&c->projection, text));
    add_rates(table, report, c);
    if (report->dataset != NULL)
        pdl_table_cell(table, "%s", c->epoch_s > 0 ? pdl_format_seconds(c->epoch_s, number) : "-");
    pdl_table_cell(table, "%s%s", pdl_format_bytes(c->projection.memory_bytes, number),
                   c->projection.fits ? "" : " (too much)");
    add_goal(table, report, c);
    pdl_table_cell(table, "%s", pdl__cell_limit(&c->projection, text));
}

static void add_impossible(pdl_table_t *table, const pdl_search_t *search, const pdl_candidate_t *c)
{
    char text[CELL_SIZE];

    pdl_table_row(table, PDL_ROW_FAINT);
    pdl_table_cell(table, "%s", " -");
    pdl_table_cell(table, "%s", c->config.strategy->name);
    if (search->precision_count > 0)
        pdl_table_cell(table, "%s", c->config.data > 0 ? pdl_precision_names[c->config.precision] : "-");
    pdl_table_cell(table, "%s", pdl__cell_mesh(&c->config, text));
    pdl_table_span(table, "%s%s", c->same_as != NULL ? "" : "not possible: ", c->reason);
}

/* Strategies without a mesh to show that share a reason share a line. */
static bool shares_line(const pdl_candidate_t *a, const pdl_candidate_t *b)
{
    return a->config.data == 0 && b->config.data == 0 && strcmp(a->reason, b->reason) == 0;
}

static void add_impossibles(pdl_table_t *table, const pdl_search_t *search)
{
    const pdl_candidate_t *c = search->candidates;

    for (int i = search->possible; i < search->count; i++) {
        char names[CELL_SIZE] = "";
        int  first = search->possible, sharing = 0;

        while (!shares_line(&c[first], &c[i]) && first < i) first++;
        if (first < i) continue;
        for (int k = i; k < search->count; k++) {
            if (k > i && !shares_line(&c[i], &c[k])) continue;
            append(names, sharing++ > 0 ? ", %s" : "%s", c[k].config.strategy->name);
        }
        if (sharing == 1) {
            add_impossible(table, search, &c[i]);
            continue;
        }
        pdl_table_row(table, PDL_ROW_FAINT);
        pdl_table_cell(table, "%s", " -");
        pdl_table_span(table, "%s: not possible: %s", names, c[i].reason);
    }
}

static bool has_price(const pdl_plan_report_t *report)
{
    return pdl_system_price(report->system, 0, report->system->pe_count) > 0;
}

static const char *goal_header(const pdl_plan_report_t *report)
{
    if (report->request->goal == PDL_GOAL_ENERGY) return "energy/sample";
    if (report->dataset != NULL && report->dataset->samples > 0)
        return has_price(report) ? "cost/epoch" : "device hours/epoch";
    return has_price(report) ? "cost/M samples" : "device hours/M samples";
}

static int make_columns(const pdl_plan_report_t *report, pdl_column_t columns[MOST_COLUMNS])
{
    pdl_goal_t goal = report->request->goal;
    int        count = 0;

    columns[count++] = (pdl_column_t){" #", PDL_LEFT};
    columns[count++] = (pdl_column_t){"strategy", PDL_LEFT};
    if (report->search->precision_count > 0) columns[count++] = (pdl_column_t){"precision", PDL_LEFT};
    columns[count++] = (pdl_column_t){"mesh", PDL_LEFT};
    if (report->system->part_count > 0) columns[count++] = (pdl_column_t){"devices", PDL_LEFT};
    if (is_orig(report)) columns[count++] = (pdl_column_t){"batch", PDL_RIGHT};
    columns[count++] = (pdl_column_t){"iteration", PDL_RIGHT};
    columns[count++] = (pdl_column_t){"", PDL_LEFT};
    columns[count++] = (pdl_column_t){pdl__sample_tokens(report->model) > 0 ? "tokens/s" : "samples/s", PDL_RIGHT};
    if (!is_orig(report)) columns[count++] = (pdl_column_t){"TFLOP/s", PDL_RIGHT};
    if (!is_orig(report)) columns[count++] = (pdl_column_t){"MFU", PDL_RIGHT};
    if (report->dataset != NULL) columns[count++] = (pdl_column_t){"epoch", PDL_RIGHT};
    columns[count++] = (pdl_column_t){"memory/device", PDL_RIGHT};
    if (goal == PDL_GOAL_ENERGY || goal == PDL_GOAL_COST)
        columns[count++] = (pdl_column_t){goal_header(report), PDL_RIGHT};
    columns[count++] = (pdl_column_t){"limited by", PDL_LEFT};
    return count;
}

static pdl_status_t print_candidates(const pdl_plan_report_t *report, FILE *stream)
{
    pdl_column_t        columns[MOST_COLUMNS];
    const pdl_search_t *search = report->search;
    pdl_table_t        *table = pdl_table_create(columns, make_columns(report, columns));
    pdl_status_t        status;

    for (int i = 0; i < search->possible && (report->top == 0 || i < report->top); i++)
        add_possible(table, report, i);
    add_impossibles(table, search);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status;
}

static void print_part(const char *name, double seconds, double total, FILE *stream)
{
    char text[PDL_FORMAT_SIZE];

    /* Below a thousandth of the iteration a part says nothing. */
    if (seconds > total / 1000) fprintf(stream, ", %s %s", name, pdl_format_seconds(seconds, text));
}

/* ", tied with data+pipeline and mixed" */
static void print_ties(const pdl_search_t *search, FILE *stream)
{
    const pdl_candidate_t *c = search->candidates;
    int                    ties = 1;

    while (ties < search->possible && pdl_candidates_tie(&c[0], &c[ties])) ties++;
    for (int i = 1; i < ties; i++)
        fprintf(stream, "%s%s",
                i == 1         ? ", tied with "
                : i + 1 < ties ? ", "
                               : " and ",
                c[i].config.strategy->name);
}

static void print_best(const pdl_plan_report_t *report, FILE *stream)
{
    const pdl_candidate_t  *best = &report->search->candidates[0];
    const pdl_projection_t *p = &best->projection;
    char                    text[PDL_FORMAT_SIZE], names[256];

    fprintf(stream, "\nbest: %s", best->config.strategy->name);
    print_ties(report->search, stream);
    if (report->search->precision_count > 0)
        fprintf(stream, ", in %s", pdl_precision_names[best->config.precision]);
    fprintf(stream, ". compute %s", pdl_format_seconds(p->compute_s - p->update_s, text));
    print_part("exposed communication", p->comm_s, p->total_s, stream);
    print_part("weight update", p->update_s, p->total_s, stream);
    print_part("pipeline bubble", p->bubble_s, p->total_s, stream);
    print_part("waiting for input", p->io_s, p->total_s, stream);
    fputs(".\n", stream);
    if (best->plan != NULL && *pdl_plan_format_collectives(best->plan, names, sizeof(names)) != '\0')
        fprintf(stream, "collectives: %s.\n", names);
    if (best->config.run_mode == PDL_INFERENCE)
        fprintf(stream, "latency %s for a batch of %lld, throughput %.4g samples/s.\n",
                pdl_format_seconds(p->total_s, text), (long long)best->config.batch,
                (double)best->config.batch / p->total_s);
    if (p->compiled)
        fprintf(stream,
                "memory/device is compiled: what a rank of paradl train takes, messages included, to the byte.\n");
    if (p->estimated && p->high_s > 0)
        fputs("The intervals are estimates: nothing of this machine and framework was measured.\n", stream);
    if (report->request->goal == PDL_GOAL_COST && !has_price(report))
        fprintf(stream, "%s has no price: add cost_per_pe_hour to its file to see costs instead of device hours.\n",
                report->system->name);
    if (report->explanation == NULL && p->finding_count > 0 && p->findings[0].hint[0] != '\0')
        fprintf(stream, "what would help: %s.\n", p->findings[0].hint);
}

pdl_status_t pdl_report_plan(const pdl_plan_report_t *report, FILE *stream)
{
    pdl_status_t status = print_head(report, stream);
    size_t       length;

    if (!status) status = print_candidates(report, stream);
    if (status || report->search->possible == 0) return status;
    status = pdl__precisions_print(report, stream);
    if (status) return status;
    print_best(report, stream);
    pdl__exact_print(report, stream);
    if (report->explanation != NULL) {
        length = strlen(report->explanation);
        fprintf(stream, "%s%s", report->explanation,
                length > 0 && report->explanation[length - 1] != '\n' ? "\n" : "");
    }
    status = pdl__report_sensitivity(report, stream);
    pdl__report_ownership(report, stream);
    if (!status) status = pdl__report_measured(report, stream);
    if (!status && report->policy != NULL) status = pdl_report_policy(report->policy, stream);
    if (report->plan_path != NULL) fprintf(stream, "plan written to %s\n", report->plan_path);
    return status;
}
