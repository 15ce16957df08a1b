/*
 * The page around the documents: head, style, answer first, and the documents themselves, so that the page can be read again.
 */
#include "report/page/live.h"
#include "report/page/page.h"

#include <paradl/base/version.h>

#include <string.h>

static const char *default_title(const pdl_documents_t *documents, pdl__page_t *page)
{
    const char *model = pdl_json_text_of(documents->item[0].head, "model");
    const char *system = pdl_json_text_of(documents->item[0].head, "system");

    if (model == NULL)
        model = pdl__page_or(pdl_json_text_of(documents->item[0].head, "collective"), documents->item[0].kind);
    if (documents->count > 1) return pdl__page_print(page, "%s: %d documents", model, documents->count);
    return system != NULL ? pdl__page_print(page, "%s on %s", model, system) : model;
}

/* Everything up to the first document. */
static void write_head(const pdl__live_t *live, const char *title, FILE *stream)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"",
          stream);
    pdl__live_policy(live, stream);
    fputs("\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" "
          "content=\"light dark\">\n"
          "<title>",
          stream);
    pdl__chart_escape(title, stream);
    fputs("</title>\n<style>\n", stream);
    pdl__page_style(stream);
    fputs("</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">to the answer</a>\n<header><h1>", stream);
    pdl__chart_escape(title, stream);
    fputs("</h1></header>\n<main id=\"main\">\n", stream);
}

pdl_status_t pdl_report_page(const pdl_documents_t *documents, const pdl_page_options_t *options, FILE *stream)
{
    pdl__page_t  page = {.stream = stream, .arena = documents->arena, .folder = options->charts, .prefix = ""};
    const char  *shown = options->title != NULL ? options->title : default_title(documents, &page);
    pdl__live_t  live;
    pdl_status_t status;

    pdl__live_open(&live, documents, !options->no_core);
    write_head(&live, shown, stream);
    pdl__page_documents(&page, documents);
    if (live.missing != NULL && *live.missing != '\0')
        pdl__page_say(&page, "This page cannot be asked again: %s.", live.missing);
    fprintf(stream, "</main>\n<footer><p>paradl %s</p></footer>\n", pdl_version());
    status = pdl__documents_embed(documents, shown, stream);
    if (!status) status = pdl__live_write(&live, documents, stream);
    pdl__live_close(&live);
    fputs("</body>\n</html>\n", stream);
    return page.status ? page.status : status;
}

pdl_status_t pdl_report_page_text(const pdl_documents_t *documents, const char *title, FILE *stream)
{
    pdl__page_t page = {.stream = stream, .arena = documents->arena, .text = true, .prefix = ""};

    pdl__page_heading(&page, "%s", title != NULL ? title : default_title(documents, &page));
    pdl__page_documents(&page, documents);
    return page.status;
}
