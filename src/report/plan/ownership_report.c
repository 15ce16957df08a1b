/*
 * What a whole training takes, below the table of plans and in its document.
 */
#include "report/plan/ownership_report.h"

#include <paradl/base/units.h>

#include <math.h>

#define DAY 86400.0

/* Hours below two days. */
static char *format_time(double seconds, char text[PDL_FORMAT_SIZE])
{
    char count[PDL_FORMAT_SIZE];

    if (seconds < 2 * DAY) return pdl_format_seconds(seconds, text);
    if (seconds < 100 * DAY)
        snprintf(text, PDL_FORMAT_SIZE, "%.1f d", seconds / DAY);
    else
        snprintf(text, PDL_FORMAT_SIZE, "%s d", pdl_format_count((int64_t)fmin(seconds / DAY + 0.5, 1e15), count));
    return text;
}

static char *format_energy(double joules, char text[PDL_FORMAT_SIZE])
{
    char number[PDL_FORMAT_SIZE];

    snprintf(text, PDL_FORMAT_SIZE, "%sWh", pdl_format_short(joules / 3600, number));
    return text;
}

char *pdl__ownership_time(const pdl_ownership_t *o, char text[PDL_FORMAT_SIZE])
{
    return format_time(o->total_s, text);
}

static void print_failures(const pdl_ownership_t *o, FILE *stream)
{
    char bytes[PDL_FORMAT_SIZE], written[PDL_FORMAT_SIZE], interval[PDL_FORMAT_SIZE], mtbf[PDL_FORMAT_SIZE];

    fprintf(stream, "  checkpoints  %s each", pdl_format_bytes(o->checkpoint_bytes, bytes));
    if (!isnan(o->checkpoint_s)) fprintf(stream, ", written in %s", pdl_format_seconds(o->checkpoint_s, written));
    if (!isnan(o->interval_s)) fprintf(stream, ", best every %s", pdl_format_seconds(o->interval_s, interval));
    fputc('\n', stream);
    if (!isnan(o->mtbf_s)) fprintf(stream, "  failures     one every %s", format_time(o->mtbf_s, mtbf));
    if (!isnan(o->goodput)) fprintf(stream, ", goodput %.1f %%", 100 * o->goodput);
    if (!isnan(o->mtbf_s)) fputc('\n', stream);
}

void pdl__report_ownership(const pdl_plan_report_t *report, FILE *stream)
{
    const pdl_ownership_t *o = report->ownership;
    char text[PDL_FORMAT_SIZE], low[PDL_FORMAT_SIZE], high[PDL_FORMAT_SIZE], count[PDL_FORMAT_SIZE];

    if (o == NULL) return;
    fprintf(stream, "\nto train on %s: %s iterations\n", report->training,
            pdl_format_count((int64_t)o->iterations, count));
    fprintf(stream, "  time         %s", format_time(o->work_s, text));
    if (o->high_s > o->low_s)
        fprintf(stream, " [%s..%s]", format_time(o->low_s, low), format_time(o->high_s, high));
    if (!isnan(o->goodput)) fprintf(stream, ", %s with failures and checkpoints", format_time(o->total_s, text));
    fputc('\n', stream);
    print_failures(o, stream);
    fprintf(stream, "  devices      %s hours", pdl_format_short(o->device_hours, text));
    if (!isnan(o->cost)) fprintf(stream, ", cost %s", pdl_format_short(o->cost, low));
    fputc('\n', stream);
    if (!isnan(o->energy_j)) fprintf(stream, "  energy       %s", format_energy(o->energy_j, text));
    if (!isnan(o->energy_cost)) fprintf(stream, ", cost %s", pdl_format_short(o->energy_cost, low));
    if (!isnan(o->energy_j)) fputc('\n', stream);
    if (o->missing[0] != '\0')
        fprintf(stream, "  not known of %s: %s; add it to its file\n", report->system->name, o->missing);
}

void pdl__report_ownership_json(pdl_json_t *json, const pdl_plan_report_t *report)
{
    const pdl_ownership_t *o = report->ownership;

    if (o == NULL) return;
    pdl_json_open(json, "ownership", '{');
    pdl_json_string(json, "training", report->training);
    pdl_json_number(json, "iterations", o->iterations);
    pdl_json_number(json, "work_s", o->work_s);
    pdl_json_number(json, "low_s", o->low_s);
    pdl_json_number(json, "high_s", o->high_s);
    pdl_json_number(json, "total_s", o->total_s);
    pdl_json_number(json, "goodput", o->goodput);
    pdl_json_number(json, "mtbf_s", o->mtbf_s);
    pdl_json_bytes(json, "checkpoint_bytes", o->checkpoint_bytes);
    pdl_json_number(json, "checkpoint_s", o->checkpoint_s);
    pdl_json_number(json, "checkpoint_every_s", o->interval_s);
    pdl_json_number(json, "device_hours", o->device_hours);
    pdl_json_number(json, "energy_j", o->energy_j);
    pdl_json_number(json, "cost", o->cost);
    pdl_json_number(json, "energy_cost", o->energy_cost);
    pdl_json_string(json, "missing", o->missing[0] != '\0' ? o->missing : NULL);
    pdl_json_close(json);
}
