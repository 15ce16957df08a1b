/*
 * page show: a document as the part of a page. page choices: what options of plan and simulate are flags, and which are chosen from a list.
 */
#include "page.h"

#include "cli/commands.h"

#include <paradl/base/json.h>
#include <paradl/report/page.h>

static pdl_status_t show(const void *values, const pdl__operands_t *operands)
{
    pdl_documents_t *documents;
    pdl_status_t     status = pdl_documents_create(&documents);

    (void)values;
    if (status) return status;
    for (int i = 0; !status && i < operands->count; i++) status = pdl_documents_add(documents, operands->text[i]);
    if (!status) status = pdl_report_sections(documents, stdout);
    pdl_documents_destroy(documents);
    return status;
}

/* {"flags": [...], "choices": {"precision": ["fp32", ...], ...}} of the options of a verb. */
static void write_options(pdl_json_t *json, const char *verb, const pdl__option_t *options)
{
    pdl_json_open(json, verb, '{');
    pdl_json_open(json, "flags", '[');
    for (const pdl__option_t *o = options; o->name != NULL; o++)
        if (o->kind == PDL__OPTION_FLAG) pdl_json_string(json, NULL, o->name);
    pdl_json_close(json);
    pdl_json_open(json, "choices", '{');
    for (const pdl__option_t *o = options; o->name != NULL; o++) {
        if (o->kind != PDL__OPTION_CHOICE && o->kind != PDL__OPTION_CHOICES) continue;
        pdl_json_open(json, o->name, '[');
        for (int i = 0; i < o->choice_count; i++) pdl_json_string(json, NULL, o->choices[i]);
        pdl_json_close(json);
    }
    pdl_json_close(json);
    pdl_json_close(json);
}

static pdl_status_t choices(const void *values, const pdl__operands_t *operands)
{
    pdl_json_t json;

    (void)values, (void)operands;
    pdl_json_begin_line(&json, stdout);
    pdl_json_open(&json, NULL, '{');
    write_options(&json, "plan", pdl__plan_commands[0].options);
    write_options(&json, "simulate", pdl__simulate_commands[0].options);
    pdl_json_close(&json);
    return PDL_OK;
}

const pdl__command_t pdl__page_commands[] = {
    {.name = "page show",
     .usage = "DOCUMENT...",
     .summary = "a document as the part of a page",
     .operands = 1,
     .optional = 15,
     .run = show},
    {.name = "page choices", .usage = "", .summary = "flags and choices of plan and simulate", .run = choices},
    {.name = NULL}};
