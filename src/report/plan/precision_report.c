/*
 * What each of several precisions would take, for people and for programs.
 */
#include "report/plan/plan_cells.h"
#include "report/plan/plan_rates.h"

#include <paradl/report/table.h>

#include <math.h>

/* The best is 1. */
static double times_the_best(const pdl_search_t *search, const pdl_candidate_t *c)
{
    return c->sample_s / search->precisions[0].best.sample_s;
}

static void add_answer(pdl_table_t *table, const pdl_plan_report_t *report, const pdl_precision_answer_t *a)
{
    const pdl_candidate_t *c = &a->best;
    char                   text[PDL__CELL_SIZE], number[PDL_FORMAT_SIZE];
    pdl__rates_t           rates;

    pdl_table_row(table, c->possible ? PDL_ROW_PLAIN : PDL_ROW_FAINT);
    pdl_table_cell(table, "%s", pdl_precision_names[a->precision]);
    if (!c->possible) {
        pdl_table_span(table, "not possible: %s", c->reason);
        return;
    }
    rates = pdl__plan_rates(report, c);
    pdl_table_cell(table, "%s", c->config.strategy->name);
    pdl_table_cell(table, "%s", pdl__cell_mesh(&c->config, text));
    pdl_table_cell(table, "%s", pdl_format_seconds(c->projection.total_s, number));
    pdl_table_cell(table, "%s", pdl__cell_interval(&c->projection, text));
    pdl_table_cell(table, "%.2f", times_the_best(report->search, c));
    pdl_table_cell(table, "%s",
                   pdl_format_short(pdl__sample_tokens(report->model) > 0 ? rates.tokens_per_s
                                                                          : rates.samples_per_s,
                                    number));
    pdl_table_cell(table, "%s", pdl_format_bytes(c->projection.memory_bytes, number));
}

pdl_status_t pdl__precisions_print(const pdl_plan_report_t *report, FILE *stream)
{
    const pdl_search_t *search = report->search;
    const pdl_column_t  columns[] = {{"precision", PDL_LEFT},
                                     {"best", PDL_LEFT},
                                     {"mesh", PDL_LEFT},
                                     {"iteration", PDL_RIGHT},
                                     {"", PDL_LEFT},
                                     {"times the best", PDL_RIGHT},
                                     {pdl__sample_tokens(report->model) > 0 ? "tokens/s" : "samples/s", PDL_RIGHT},
                                     {"memory/device", PDL_RIGHT}};
    pdl_table_t        *table;
    pdl_status_t        status;

    if (search->precision_count == 0) return PDL_OK;
    fputs("\n", stream);
    table = pdl_table_create(columns, sizeof(columns) / sizeof(columns[0]));
    for (int i = 0; i < search->precision_count; i++) add_answer(table, report, &search->precisions[i]);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status;
}

void pdl__precisions_left_out(const pdl_search_t *search, FILE *stream)
{
    for (int i = 0; i < search->precision_count; i++)
        if (!search->precisions[i].computed)
            fprintf(stream, "%s is left out: %s.\n", pdl_precision_names[search->precisions[i].precision],
                    search->precisions[i].best.reason);
}

static void write_best(pdl_json_t *json, const pdl_plan_report_t *report, const pdl_candidate_t *c)
{
    const pdl_projection_t *p = &c->projection;

    pdl_json_string(json, "strategy", c->config.strategy->name);
    pdl__config_json(json, &c->config);
    pdl_json_number(json, "total_s", p->total_s);
    pdl_json_number(json, "low_s", p->low_s);
    pdl_json_number(json, "high_s", p->high_s);
    pdl_json_number(json, "epoch_s", c->epoch_s > 0 ? c->epoch_s : (double)NAN);
    pdl_json_number(json, "samples_per_s", pdl__plan_rates(report, c).samples_per_s);
    pdl_json_number(json, "times_best", times_the_best(report->search, c));
    pdl_json_number(json, "energy_j", p->energy_j);
    pdl_json_bytes(json, "memory_bytes", p->memory_bytes);
}

void pdl__precisions_json(pdl_json_t *json, const pdl_plan_report_t *report)
{
    const pdl_search_t *search = report->search;

    if (search->precision_count == 0) return;
    pdl_json_open(json, "precisions", '[');
    for (int i = 0; i < search->precision_count; i++) {
        const pdl_precision_answer_t *a = &search->precisions[i];

        pdl_json_open(json, NULL, '{');
        if (a->best.possible)
            write_best(json, report, &a->best);
        else
            pdl_json_string(json, "precision", pdl_precision_names[a->precision]);
        pdl_json_bool(json, "feasible", a->best.possible);
        pdl_json_string(json, "reason", a->best.possible ? NULL : a->best.reason);
        pdl_json_bool(json, "computed", a->computed);
        pdl_json_int(json, "configurations", a->configurations);
        pdl_json_bool(json, "certified", a->certified);
        pdl_json_close(json);
    }
    pdl_json_close(json);
}
