/*
 * The ranked table of strategies for people.
 */
#include <paradl/report.h>
#include <paradl/table.h>
#include <paradl/units.h>

#include <math.h>
#include <string.h>

#define CELL_SIZE 160

/* "resnet50   25.6 M parameters, 4.09 GMAC per sample      imagenet   1,281,167 samples" */
static void add_model(pdl_table_t *table, const pdl_plan_report_t *report)
{
    pdl_model_totals_t totals;
    char               weights[PDL_FORMAT_SIZE], macs[PDL_FORMAT_SIZE], samples[PDL_FORMAT_SIZE];

    pdl_model_totals(report->model, &totals);
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "%s", report->model_name);
    pdl_table_cell(table, " %s parameters, %sMAC per sample", pdl_format_short((double)totals.weights, weights),
                   pdl_format_short((double)totals.macs, macs));
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

/* ", infiniband x2, 3:1 above the rack": what the levels that the PEs span are like. */
static void describe_network(const pdl_system_t *system, int64_t pe, char text[CELL_SIZE])
{
    int  top = pdl_system_level_of_span(system, pe);
    char number[PDL_FORMAT_SIZE];

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
            append(text, "%s", i > 0 ? system->level[i - 1].name : "PE");
        }
    }
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
}

static pdl_status_t print_head(const pdl_plan_report_t *report, FILE *stream)
{
    static const pdl_column_t columns[] = {{"", PDL_LEFT}, {"", PDL_LEFT}, {"", PDL_LEFT}};
    pdl_table_t              *table = pdl_table_create(columns, 3);
    pdl_status_t              status;

    add_model(table, report);
    add_system(table, report);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    if (strcmp(report->formulas, "orig") == 0) fputs("formulas of the original program\n", stream);
    fputs("\n", stream);
    return status;
}

/* The interval without the unit where it is that of the value: "271 ms" and "[255..290]". */
static char *format_interval(const pdl_projection_t *projection, char text[CELL_SIZE])
{
    char        value[PDL_FORMAT_SIZE], low[PDL_FORMAT_SIZE], high[PDL_FORMAT_SIZE];
    const char *unit = strchr(pdl_format_seconds(projection->total_s, value), ' ');
    char       *low_unit = strchr(pdl_format_seconds(projection->low_s, low), ' ');
    char       *high_unit = strchr(pdl_format_seconds(projection->high_s, high), ' ');

    text[0] = '\0';
    if (projection->low_s == projection->high_s) return text;
    if (unit != NULL && low_unit != NULL && high_unit != NULL && strcmp(unit, low_unit) == 0 &&
        strcmp(unit, high_unit) == 0)
        *low_unit = *high_unit = '\0';
    snprintf(text, CELL_SIZE, "[%s..%s]", low, high);
    return text;
}

/* A share in percent, a factor or a number of PEs: each finding has its own measure. */
static char *format_finding(const pdl_finding_t *finding, char text[CELL_SIZE])
{
    if (finding->share <= 1)
        snprintf(text, CELL_SIZE, "%s %.0f %%", finding->name, 100 * finding->share);
    else if (finding->share == floor(finding->share))
        snprintf(text, CELL_SIZE, "%s %.0f", finding->name, finding->share);
    else
        snprintf(text, CELL_SIZE, "%s x%.2f", finding->name, finding->share);
    return text;
}

/* The mesh and the policies that differ from the plainest. */
static char *format_mesh(const pdl_config_t *config, char text[CELL_SIZE])
{
    char       number[PDL_FORMAT_SIZE];
    pdl_mesh_t mesh;

    snprintf(text, CELL_SIZE, "-");
    if (config->data == 0) return text; /* no mesh to show */
    mesh = pdl_config_mesh(config);
    pdl_mesh_format(&mesh, text, CELL_SIZE);
    if (config->micro_batches > 1)
        append(text, ", %s micro-batches", pdl_format_count(config->micro_batches, number));
    if (config->sharding != PDL_SHARDING_NONE) append(text, ", %s", pdl_sharding_names[config->sharding]);
    if (config->recompute != PDL_RECOMPUTE_NONE)
        append(text, ", %s recompute", pdl_recompute_names[config->recompute]);
    return text;
}

/* What the goal minimises, where the other columns do not show it. */
static void add_goal(pdl_table_t *table, const pdl_plan_report_t *report, const pdl_candidate_t *c)
{
    double seconds = c->epoch_s > 0 ? c->epoch_s : c->sample_s, rate = report->system->cost_per_pe_hour;
    double hours = seconds * (double)report->request->pe / 3600;

    if (report->request->goal == PDL_GOAL_ENERGY)
        pdl_table_cell(table, "%.3g J", c->projection.energy_j / (double)c->config.batch);
    else if (report->request->goal == PDL_GOAL_COST)
        pdl_table_cell(table, "%.3g", rate > 0 ? hours * rate : hours);
    else
        pdl_table_cell(table, "%s", "");
}

static void add_possible(pdl_table_t *table, const pdl_plan_report_t *report, int i)
{
    const pdl_candidate_t *c = &report->search->candidates[i];
    char                   text[CELL_SIZE], number[PDL_FORMAT_SIZE];

    pdl_table_row(table, i == 0 ? PDL_ROW_STRONG : PDL_ROW_PLAIN);
    pdl_table_cell(table, "%2d", i + 1);
    pdl_table_cell(table, "%s", c->strategy);
    pdl_table_cell(table, "%s", format_mesh(&c->config, text));
    pdl_table_cell(table, "%s", pdl_format_count(c->config.batch, number));
    pdl_table_cell(table, "%s", pdl_format_seconds(c->projection.total_s, number));
    pdl_table_cell(table, "%s", format_interval(&c->projection, text));
    pdl_table_cell(table, "%s", c->epoch_s > 0 ? pdl_format_seconds(c->epoch_s, number) : "-");
    pdl_table_cell(table, "%s%s", pdl_format_bytes(c->projection.memory_bytes, number),
                   c->projection.fits ? "" : " (too much)");
    add_goal(table, report, c);
    pdl_table_cell(table, "%s",
                   c->projection.finding_count > 0 ? format_finding(&c->projection.findings[0], text)
                                                   : "computation");
}

static void add_impossible(pdl_table_t *table, const pdl_candidate_t *c)
{
    char text[CELL_SIZE], number[PDL_FORMAT_SIZE];

    pdl_table_row(table, PDL_ROW_FAINT);
    pdl_table_cell(table, "%s", " -");
    pdl_table_cell(table, "%s", c->strategy);
    pdl_table_cell(table, "%s", format_mesh(&c->config, text));
    pdl_table_cell(table, "%s", c->config.batch > 0 ? pdl_format_count(c->config.batch, number) : "-");
    pdl_table_span(table, "not possible: %s", c->reason);
}

static const char *goal_header(const pdl_plan_report_t *report)
{
    if (report->request->goal == PDL_GOAL_ENERGY) return "energy/sample";
    if (report->request->goal != PDL_GOAL_COST) return "";
    return report->system->cost_per_pe_hour > 0 ? "cost" : "PE hours";
}

static pdl_status_t print_candidates(const pdl_plan_report_t *report, FILE *stream)
{
    const pdl_column_t columns[] = {
        {" #", PDL_LEFT},        {"strategy", PDL_LEFT},   {"mesh", PDL_LEFT},
        {"batch", PDL_RIGHT},    {"iteration", PDL_RIGHT}, {"", PDL_LEFT},
        {"epoch", PDL_RIGHT},    {"memory/PE", PDL_RIGHT}, {goal_header(report), PDL_RIGHT},
        {"limited by", PDL_LEFT}};
    const pdl_search_t *search = report->search;
    pdl_table_t        *table = pdl_table_create(columns, sizeof(columns) / sizeof(columns[0]));
    pdl_status_t        status;

    for (int i = 0; i < search->possible && (report->top == 0 || i < report->top); i++)
        add_possible(table, report, i);
    for (int i = search->possible; i < search->count; i++) add_impossible(table, &search->candidates[i]);
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

static void print_best(const pdl_plan_report_t *report, FILE *stream)
{
    const pdl_candidate_t  *best = &report->search->candidates[0];
    const pdl_projection_t *p = &best->projection;
    char                    text[PDL_FORMAT_SIZE];

    fprintf(stream, "\nbest: %s. compute %s", best->strategy, pdl_format_seconds(p->compute_s - p->update_s, text));
    print_part("exposed communication", p->comm_s, p->total_s, stream);
    print_part("weight update", p->update_s, p->total_s, stream);
    print_part("pipeline bubble", p->bubble_s, p->total_s, stream);
    print_part("waiting for input", p->io_s, p->total_s, stream);
    fputs(".\n", stream);
    if (best->config.run_mode == PDL_INFERENCE)
        fprintf(stream, "latency %s for a batch of %lld, throughput %.4g samples/s.\n",
                pdl_format_seconds(p->total_s, text), (long long)best->config.batch,
                (double)best->config.batch / p->total_s);
    if (p->compiled)
        fprintf(stream,
                "memory/PE is compiled: what a rank of paradl train takes, messages included, to the byte.\n");
    if (report->explanation == NULL && p->finding_count > 0 && p->findings[0].hint[0] != '\0')
        fprintf(stream, "what would help: %s.\n", p->findings[0].hint);
}

pdl_status_t pdl_report_plan(const pdl_plan_report_t *report, FILE *stream)
{
    pdl_status_t status = print_head(report, stream);
    size_t       length;

    if (!status) status = print_candidates(report, stream);
    if (status || report->search->possible == 0) return status;
    print_best(report, stream);
    if (report->explanation != NULL) {
        length = strlen(report->explanation);
        fprintf(stream, "%s%s", report->explanation,
                length > 0 && report->explanation[length - 1] != '\n' ? "\n" : "");
    }
    if (report->policy != NULL) status = pdl_report_policy(report->policy, stream);
    if (report->plan_path != NULL) fprintf(stream, "plan written to %s\n", report->plan_path);
    return status;
}
