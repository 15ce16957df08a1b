/*
 * page show: a document as the part of a page. page choices: what the options of plan that are chosen from a list have.
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

static pdl_status_t choices(const void *values, const pdl__operands_t *operands)
{
    pdl_json_t json;

    (void)values, (void)operands;
    pdl_json_begin_line(&json, stdout);
    pdl_json_open(&json, NULL, '{');
    for (const pdl__option_t *o = pdl__plan_commands[0].options; o->name != NULL; o++) {
        if (o->kind != PDL__OPTION_CHOICE) continue;
        pdl_json_open(&json, o->name, '[');
        for (int i = 0; i < o->choice_count; i++) pdl_json_string(&json, NULL, o->choices[i]);
        pdl_json_close(&json);
    }
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
    {.name = "page choices", .usage = "", .summary = "what options of plan may be", .run = choices},
    {.name = NULL}};
