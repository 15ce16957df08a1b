/*
 * What a page has of its documents, one after the other, each by the writer of its kind.
 */
#include "report/page/page.h"

#include <string.h>

static const struct writer {
    const char *kind;
    void (*write)(pdl__page_t *, const pdl__document_t *);
} writers[] = {
    {"plan-result", pdl__page_plan},      {"run", pdl__page_run},         {"plan-simulation", pdl__page_simulation},
    {"collective", pdl__page_collective}, {"sweep", pdl__page_sweep},     {"bench", pdl__page_bench},
    {"validation", pdl__page_validation}, {"program", pdl__page_program}, {"trace", pdl__page_trace},
    {"scaling", pdl__page_scaling}};

static void write_command(pdl__page_t *page, const pdl__document_t *document)
{
    FILE *stream = page->stream;
    bool  any = false;

    for (const pdl_json_value_t *word = pdl_json_first(document->head, "command"); word != NULL;
         word = word->next) {
        if (word->kind != PDL_JSON_STRING) continue;
        if (!any) fputs(page->text ? "$ " : "<p class=\"meta command\"><code>", stream);
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
    pdl__page_note(page, "%s: %s, written by paradl %s%s%s", document->name, document->kind,
                   pdl__page_or(version, "of unknown version"), hash != NULL ? ", model " : "",
                   hash != NULL ? hash : "");
}

void pdl__page_documents(pdl__page_t *page, const pdl_documents_t *documents)
{
    if (documents->count > 1) {
        pdl__page_compare(page, documents);
        pdl__page_compare_traces(page, documents);
    }
    for (int i = 0; i < documents->count; i++) {
        if (!page->text) fprintf(page->stream, "<div class=\"document\" id=\"%sd%d\">\n", page->prefix, i);
        write_document(page, &documents->item[i]);
        if (!page->text) fputs("</div>\n", page->stream);
    }
}

pdl_status_t pdl_report_sections(const pdl_documents_t *documents, FILE *stream)
{
    pdl__page_t page = {.stream = stream, .arena = documents->arena, .prefix = "again"};

    pdl__page_documents(&page, documents);
    return page.status;
}
