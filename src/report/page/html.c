/*
 * The page around the documents: head, style, answer first, and the documents themselves, so that the page can be read again.
 */
#include "report/page/page.h"

#include <paradl/base/version.h>

#include <string.h>

static const struct writer {
    const char *kind;
    void (*write)(pdl__page_t *, const pdl__document_t *);
} writers[] = {
    {"plan-result", pdl__page_plan},      {"run", pdl__page_run},        {"plan-simulation", pdl__page_simulation},
    {"collective", pdl__page_collective}, {"sweep", pdl__page_sweep},    {"bench", pdl__page_bench},
    {"validation", pdl__page_validation}, {"program", pdl__page_program}};

static void write_command(pdl__page_t *page, const pdl__document_t *document)
{
    FILE *stream = page->stream;
    bool  any = false;

    for (const pdl_json_value_t *word = pdl_json_first(document->head, "command"); word != NULL;
         word = word->next) {
        if (word->kind != PDL_JSON_STRING) continue;
        if (!any) fputs(page->text ? "$ " : "<p class=\"command\"><code>", stream);
        fputs(any ? " " : "", stream);
        if (page->text)
            for (const char *c = word->text; *c != '\0'; c++) fputc((unsigned char)*c >= 0x20 ? *c : ' ', stream);
        else
            pdl__chart_escape(word->text, stream);
        any = true;
    }
    if (any) fputs(page->text ? "\n" : "</code></p>\n", stream);
}

static void write_document(pdl__page_t *page, const pdl__document_t *document)
{
    const char *version = pdl_json_text_of(document->head, "version"),
               *hash = pdl_json_text_of(document->head, "model_hash");
    size_t i;

    for (i = 0; i < sizeof(writers) / sizeof(writers[0]); i++)
        if (strcmp(writers[i].kind, document->kind) == 0) break;
    if (i < sizeof(writers) / sizeof(writers[0]))
        writers[i].write(page, document);
    else
        pdl__page_values(page, document);
    pdl__page_section_end(page);
    write_command(page, document);
    pdl__page_say(page, "%s: %s, written by paradl %s%s%s", document->name, document->kind,
                  pdl__page_or(version, "of unknown version"), hash != NULL ? ", model " : "",
                  hash != NULL ? hash : "");
}

static void write_style(FILE *stream)
{
    pdl__chart_style(stream);
    fputs("body{margin:0 auto;max-width:68rem;padding:1rem;font:16px/1.5 "
          "system-ui,sans-serif;color:var(--ink);background:var(--paper)}\n"
          "h1{font-size:1.5rem}h2{font-size:1.3rem;margin-top:2.5rem;border-top:2px solid "
          "var(--grid);padding-top:1rem}\n"
          "h3{font-size:1.1rem;margin-bottom:.3rem}\n"
          ".answer{font-size:1.15rem;font-weight:600}.wide{overflow-x:auto}figure{margin:0 0 1rem}.wide "
          ".chart{min-width:40rem}\n"
          "figcaption,caption{font-size:.9rem;text-align:left;padding:.3rem 0}\n"
          "table{border-collapse:collapse;font-size:.9rem}th,td{padding:.2rem .6rem;border-bottom:1px solid "
          "var(--grid);text-align:left;"
          "vertical-align:top;font-weight:400}thead th{font-weight:600}.n{text-align:right;white-space:nowrap;"
          "font-variant-numeric:tabular-nums}\n"
          "code{font-size:.85rem;overflow-wrap:anywhere}a{color:inherit}:focus-visible{outline:2px solid}\n"
          ".skip{position:absolute;left:-99rem}.skip:focus{left:1rem}\n"
          "@media "
          "print{body{max-width:none;font-size:11px}section{break-inside:avoid}.skip{display:none}.wide{overflow:"
          "visible}}\n",
          stream);
}

static const char *default_title(const pdl_documents_t *documents, pdl__page_t *page)
{
    const char *model = pdl_json_text_of(documents->item[0].head, "model");
    const char *system = pdl_json_text_of(documents->item[0].head, "system");

    if (model == NULL)
        model = pdl__page_or(pdl_json_text_of(documents->item[0].head, "collective"), documents->item[0].kind);
    if (documents->count > 1) return pdl__page_print(page, "%s: %d documents", model, documents->count);
    return system != NULL ? pdl__page_print(page, "%s on %s", model, system) : model;
}

static void write_documents(pdl__page_t *page, const pdl_documents_t *documents)
{
    if (documents->count > 1) pdl__page_compare(page, documents);
    for (int i = 0; i < documents->count; i++) write_document(page, &documents->item[i]);
}

pdl_status_t pdl_report_page(const pdl_documents_t *documents, const char *title, const char *charts, FILE *stream)
{
    pdl__page_t page = {.stream = stream, .arena = documents->arena, .folder = charts};
    const char *shown = title != NULL ? title : default_title(documents, &page);

    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
          "img-src data:\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" "
          "content=\"light dark\">\n"
          "<title>",
          stream);
    pdl__chart_escape(shown, stream);
    fputs("</title>\n<style>\n", stream);
    write_style(stream);
    fputs("</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">to the answer</a>\n<header><h1>", stream);
    pdl__chart_escape(shown, stream);
    fputs("</h1></header>\n<main id=\"main\">\n", stream);
    write_documents(&page, documents);
    fprintf(stream, "</main>\n<footer><p>paradl %s</p></footer>\n", pdl_version());
    pdl__documents_embed(documents, shown, stream);
    fputs("</body>\n</html>\n", stream);
    return page.status;
}

pdl_status_t pdl_report_page_text(const pdl_documents_t *documents, const char *title, FILE *stream)
{
    pdl__page_t page = {.stream = stream, .arena = documents->arena, .text = true};

    pdl__page_heading(&page, "%s", title != NULL ? title : default_title(documents, &page));
    write_documents(&page, documents);
    return page.status;
}
