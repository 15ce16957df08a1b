/*
 * The page around the documents: head, style, answer first, and the documents themselves, so that the page can be read again.
 */
#include "report/page/live.h"
#include "report/page/page.h"

#include <paradl/base/version.h>

#include <string.h>

/* Of documents that are about no model and no collective. */
static const char *kind_title(const char *kind)
{
    static const struct {
        const char *kind, *title;
    } titles[] = {{"trace", "Timeline"},
                  {"sweep", "Sweep of collectives"},
                  {"validation", "Validation"},
                  {"published", "Published runs"},
                  {"bench", "Measured collectives"}};

    for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
        if (strcmp(titles[i].kind, kind) == 0) return titles[i].title;
    return kind;
}

static const char *default_title(const pdl_documents_t *documents, pdl__page_t *page)
{
    const pdl_json_value_t *head = documents->item[0].head;
    const char             *about = pdl_json_text_of(head, "model"), *on = pdl_json_text_of(head, "system");

    if (about == NULL) {
        about = pdl_json_text_of(head, "collective");
        on = pdl_json_text_of(head, "topology");
    }
    if (about == NULL) about = kind_title(documents->item[0].kind);
    if (documents->count > 1)
        return pdl__page_print(page, "%s and %d more document%s", about, documents->count - 1,
                               documents->count > 2 ? "s" : "");
    return on != NULL ? pdl__page_print(page, "%s on %s", about, on) : about;
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
