/*
 * Data policies for people and for programs: an epoch in the parts by which the publication breaks it down, and what
 * has to be stored.
 */
#include <paradl/base/units.h>
#include <paradl/report/report.h>
#include <paradl/report/table.h>

#include <math.h>

static double saved(const pdl_policy_row_t *row, const pdl_policy_row_t *base)
{
    return 1 - row->projection.epoch_s / base->projection.epoch_s;
}

static void add_seconds(pdl_table_t *table, double seconds)
{
    char text[PDL_FORMAT_SIZE];

    pdl_table_cell(table, "%s", seconds > 0 ? pdl_format_seconds(seconds, text) : "-");
}

static void add_row(pdl_table_t *table, const pdl_policy_row_t *row, const pdl_policy_row_t *base)
{
    const pdl_policy_projection_t *p = &row->projection;
    char                           text[PDL_POLICY_TEXT_SIZE];

    pdl_table_row(table, p->fits ? PDL_ROW_PLAIN : PDL_ROW_FAINT);
    pdl_table_cell(table, "%s", pdl_data_policy_format(&row->policy, text));
    add_seconds(table, p->epoch_s);
    add_seconds(table, p->io_s);
    add_seconds(table, p->exchange_s);
    add_seconds(table, p->pass_s);
    add_seconds(table, p->sync_s);
    add_seconds(table, p->select_s);
    if (fabs(saved(row, base)) < 5e-4)
        pdl_table_cell(table, "=");
    else
        pdl_table_cell(table, "%+.1f %%", -100 * saved(row, base));
    if (p->stored_share > 0)
        pdl_table_cell(table, "%.3g %%", 100 * p->stored_share);
    else
        pdl_table_cell(table, "-");
    pdl_table_cell(table, "%s", p->fits ? "" : "does not fit on a node");
}

static pdl_status_t print_rows(const pdl_policy_report_t *report, FILE *stream)
{
    static const pdl_column_t columns[] = {{"data policy", PDL_LEFT}, {"epoch", PDL_RIGHT},
                                           {"I/O", PDL_RIGHT},        {"EXCHANGE", PDL_RIGHT},
                                           {"FW+BW", PDL_RIGHT},      {"GE+WU", PDL_RIGHT},
                                           {"select", PDL_RIGHT},     {"time", PDL_RIGHT},
                                           {"stored", PDL_RIGHT},     {"", PDL_LEFT}};
    pdl_table_t              *table = pdl_table_create(columns, sizeof(columns) / sizeof(columns[0]));
    pdl_status_t              status;

    if (!report->compared) add_row(table, report->base, report->base);
    for (int i = 0; i < (report->compared ? report->count : 1); i++) add_row(table, &report->rows[i], report->base);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status;
}

/* What the policy saves, and of which the saving consists. */
static void print_saving(const pdl_policy_report_t *report, FILE *stream)
{
    const pdl_policy_row_t *row = &report->rows[0];
    double                  share = saved(row, report->base);
    char                    name[PDL_POLICY_TEXT_SIZE], other[PDL_POLICY_TEXT_SIZE], text[PDL_FORMAT_SIZE];

    pdl_data_policy_format(&row->policy, name);
    pdl_data_policy_format(&report->base->policy, other);
    if (fabs(share) < 5e-4)
        fprintf(stream, "%s takes as long as %s.\n", name, other);
    else
        fprintf(stream, "%s %s %s an epoch, %.1f %%, against %s without hiding.\n", name,
                share > 0 ? "saves" : "costs",
                pdl_format_seconds(fabs(share) * report->base->projection.epoch_s, text), 100 * fabs(share), other);
}

pdl_status_t pdl_report_policy(const pdl_policy_report_t *report, FILE *stream)
{
    pdl_status_t status;

    fputs("\nan epoch, as far as it shows; stored: share of the data set per worker\n", stream);
    status = print_rows(report, stream);
    if (status) return status;
    if (!report->compared) print_saving(report, stream);
    if (report->explanation != NULL) fputs(report->explanation, stream);
    return PDL_OK;
}

static void write_policy(pdl_json_t *json, const pdl_data_policy_t *policy)
{
    char text[PDL_POLICY_TEXT_SIZE];

    pdl_json_string(json, "policy", pdl_data_policy_format(policy, text));
    pdl_json_string(json, "shuffle", pdl_policy_shuffle_names[policy->shuffle]);
    pdl_json_string(json, "store", pdl_policy_store_names[policy->store]);
    pdl_json_number(json, "exchange", policy->exchange);
    pdl_json_number(json, "hide", policy->hide);
    pdl_json_number(json, "hide_mean", policy->hide_mean);
    pdl_json_int(json, "refresh_every", policy->refresh_every);
}

void pdl_report_policy_json(pdl_json_t *json, const char *key, const pdl_policy_row_t *row,
                            const pdl_policy_row_t *base)
{
    const pdl_policy_projection_t *p = &row->projection;

    pdl_json_open(json, key, '{');
    write_policy(json, &row->policy);
    pdl_json_number(json, "epoch_s", p->epoch_s);
    pdl_json_number(json, "io_s", p->io_s);
    pdl_json_number(json, "exchange_s", p->exchange_s);
    pdl_json_number(json, "fw_bw_s", p->pass_s);
    pdl_json_number(json, "ge_wu_s", p->sync_s);
    pdl_json_number(json, "select_s", p->select_s);
    pdl_json_number(json, "iterations", p->iterations);
    pdl_json_number(json, "read_s", p->read_s);
    pdl_json_number(json, "input_s", p->input_s);
    pdl_json_number(json, "exchange_total_s", p->exchange_total_s);
    pdl_json_number(json, "stall_per_iteration_s", p->stall_s);
    pdl_json_number(json, "exchange_samples", p->exchange_samples);
    pdl_json_bytes(json, "exchange_bytes", p->exchange_bytes);
    pdl_json_number(json, "exchange_bytes_per_s", p->exchange_bytes_per_s);
    pdl_json_number(json, "hidden", p->hidden);
    pdl_json_number(json, "hiding_saving", p->saving);
    pdl_json_number(json, "stored_share", p->stored_share);
    pdl_json_bytes(json, "stored_bytes", p->stored_bytes);
    pdl_json_bytes(json, "node_bytes", p->node_bytes);
    pdl_json_bool(json, "fits", p->fits);
    pdl_json_number(json, "epochs", p->epochs);
    pdl_json_number(json, "seen", p->seen);
    pdl_json_number(json, "never_left", p->never_left);
    if (base != NULL) pdl_json_number(json, "saving", saved(row, base));
    pdl_json_close(json);
}
