/*
 * paradl coll price: what a collective takes on a machine, by number of devices and size.
 */
#include "cli/coll_price.h"

#include <paradl/base/document.h>
#include <paradl/base/units.h>
#include <paradl/oracle/oracle.h>
#include <paradl/oracle/prices.h>
#include <paradl/report/table.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ROWS 64 /* numbers of devices, and sizes */

const pdl__option_t pdl__coll_price_options[] = {
    {"system", "S", NULL, "the machine: a built-in name (paradl system list) or a .yaml file",
     PDL__TEXT(pdl__coll_price_t, system), .required = true},
    {"devices", "LIST", NULL, "devices that take part, such as 2..8 or 2,4,16; else 2 to 8 of a node",
     PDL__TEXT(pdl__coll_price_t, devices), .letter = 'n'},
    {"bytes", "LIST", "1MiB,16MiB,256MiB", "that every device holds, one size or several with commas between them",
     PDL__TEXT(pdl__coll_price_t, bytes)},
    {"collective", "NAME", "allreduce", "the collective",
     PDL__CHOICE(pdl__coll_price_t, collective, pdl_collective_names, PDL_COLL_COUNT)},
    {"parameters", "NAME", NULL, "parameter set of the cost model; else that of the system",
     PDL__TEXT(pdl__coll_price_t, parameters)},
    {"json", NULL, NULL, "prints one JSON document instead of a table", PDL__FLAG(pdl__coll_price_t, json)},
    {.name = NULL},
};

typedef struct list {
    const char *option;
    double      value[MOST_ROWS];
    int         count;
} list_t;

static pdl_status_t append(list_t *list, double value)
{
    if (list->count == MOST_ROWS)
        return pdl_error(PDL_ERR_INPUT, "--%s: at most %d values are priced at once", list->option, MOST_ROWS);
    list->value[list->count++] = value;
    return PDL_OK;
}

static pdl_status_t add_size(const char *text, void *context)
{
    double       bytes = 0;
    pdl_status_t status = pdl_parse_quantity(text, PDL_UNIT_BYTES, &bytes);

    if (status || !(bytes >= 1))
        return pdl_error(PDL_ERR_INPUT, "--bytes: expected a size such as 16MiB, not %s", text);
    return append(context, bytes);
}

/* A number, or a range A..B. */
static pdl_status_t add_devices(const char *text, void *context)
{
    const char  *dots = strstr(text, "..");
    char         first[32];
    int64_t      from = 0, to = 0;
    pdl_status_t status;

    snprintf(first, sizeof(first), "%.*s", dots != NULL ? (int)(dots - text) : (int)strlen(text), text);
    status = pdl_parse_int(first, 2, 1 << 24, &from);
    to = from;
    if (!status && dots != NULL) status = pdl_parse_int(dots + 2, from, 1 << 24, &to);
    if (status)
        return pdl_error(PDL_ERR_INPUT, "--devices: expected numbers from 2 on, such as 2..8 or 2,4,16, not %s",
                         text);
    for (int64_t n = from; n <= to && !status; n++) status = append(context, (double)n);
    return status;
}

static pdl_status_t read_lists(const pdl__coll_price_t *v, const pdl_system_t *system, list_t *devices,
                               list_t *bytes)
{
    pdl_status_t status = pdl__split_list(v->bytes, add_size, bytes);

    if (status) return status;
    if (v->devices != NULL) return pdl__split_list(v->devices, add_devices, devices);
    for (int64_t n = 2; n <= system->level[0].fanout && n <= 8 && !status; n++) status = append(devices, (double)n);
    if (!status && devices->count == 0)
        status = pdl_error(PDL_ERR_INPUT, "%s has one device in a node: say how many take part with --devices",
                           system->name);
    return status;
}

typedef struct priced {
    double devices, bytes, seconds, bus_rate;
} priced_t;

/* What passes over a link, of what a device holds. */
static double bus_share(pdl_collective_t collective, double devices)
{
    return (collective == PDL_COLL_ALLREDUCE ? 2 : 1) * (devices - 1) / devices;
}

static pdl_status_t price_all(const pdl__coll_price_t *v, const pdl_system_t *system, priced_t *priced, int *count)
{
    list_t           devices = {.option = "devices"}, bytes = {.option = "bytes"};
    pdl_parameters_t p;
    pdl_status_t     status = pdl_parameters_choose(v->parameters, system, &p);

    *count = 0;
    if (!status) status = read_lists(v, system, &devices, &bytes);
    for (int i = 0; i < devices.count * bytes.count && !status; i++) {
        priced_t *at = &priced[(*count)++];

        at->devices = devices.value[i / bytes.count];
        at->bytes = bytes.value[i % bytes.count];
        status = pdl_collective_price(system, &p, (pdl_collective_t)v->collective, (int64_t)at->devices, at->bytes,
                                      &at->seconds);
        at->bus_rate = at->bytes * bus_share((pdl_collective_t)v->collective, at->devices) / at->seconds;
    }
    return status;
}

static pdl_status_t print_prices(const pdl__coll_price_t *v, const pdl_system_t *system, const priced_t *priced,
                                 int count)
{
    static const pdl_column_t columns[] = {{"devices", PDL_RIGHT},
                                           {"bytes", PDL_RIGHT},
                                           {"time", PDL_RIGHT},
                                           {"bus rate", PDL_RIGHT}};
    pdl_table_t              *table = pdl_table_create(columns, 4);
    pdl_status_t              status;

    printf("%s on %s, %s\n\n", pdl_collective_names[v->collective], system->name,
           system->fabric != NULL ? "inside a node as measured" : "by link speeds and start-ups");
    for (int i = 0; i < count; i++) {
        char text[PDL_FORMAT_SIZE];

        pdl_table_row(table, PDL_ROW_PLAIN);
        pdl_table_cell(table, "%.0f", priced[i].devices);
        pdl_table_cell(table, "%s", pdl_format_bytes(priced[i].bytes, text));
        pdl_table_cell(table, "%s", pdl_format_seconds(priced[i].seconds, text));
        pdl_table_cell(table, "%s", pdl_format_byte_rate(priced[i].bus_rate, text));
    }
    status = pdl_table_print(table, stdout);
    pdl_table_destroy(table);
    return status;
}

static pdl_status_t write_prices(const pdl__coll_price_t *v, const pdl_system_t *system, const priced_t *priced,
                                 int count)
{
    pdl_json_t json;

    pdl_document_begin(&json, stdout, "collective-prices/1");
    pdl_json_string(&json, "system", system->name);
    pdl_json_string(&json, "collective", pdl_collective_names[v->collective]);
    pdl_json_bool(&json, "measured", system->fabric != NULL);
    pdl_json_open(&json, "prices", '[');
    for (int i = 0; i < count; i++) {
        pdl_json_open(&json, NULL, '{');
        pdl_json_int(&json, "devices", (int64_t)priced[i].devices);
        pdl_json_int(&json, "bytes", (int64_t)priced[i].bytes);
        pdl_json_number(&json, "seconds", priced[i].seconds);
        pdl_json_number(&json, "bus_bytes_per_s", priced[i].bus_rate);
        pdl_json_close(&json);
    }
    pdl_json_close(&json);
    pdl_json_close(&json);
    return PDL_OK;
}

pdl_status_t pdl__coll_price(const void *given, const pdl__operands_t *operands)
{
    const pdl__coll_price_t *v = given;
    const pdl_system_t      *system;
    priced_t                *priced = malloc(MOST_ROWS * MOST_ROWS * sizeof(*priced));
    int                      count;
    pdl_status_t             status = priced != NULL ? pdl_system_load(v->system, &system) : PDL_ERR_NOMEM;

    (void)operands;
    if (!status) {
        status = price_all(v, system, priced, &count);
        if (!status)
            status = v->json ? write_prices(v, system, priced, count) : print_prices(v, system, priced, count);
        pdl_system_destroy(system);
    }
    free(priced);
    return status;
}
