/*
 * Reports: documents (docs/report_format.md) become one page of HTML that needs nothing else, or a text for a terminal.
 *
 *     pdl_documents_t *documents;
 *     pdl_documents_create(&documents);
 *     pdl_documents_add(documents, "plan.json");
 *     pdl_documents_add(documents, "run.jsonl");
 *     pdl_report_page(documents, &(pdl_page_options_t){.title = "resnet50"}, stream);
 *     pdl_documents_destroy(documents);
 *
 * Nothing of a document is ever executed, and the same documents give the same bytes.
 */
#ifndef PARADL_PAGE_H
#define PARADL_PAGE_H

#include <paradl/base/status.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_documents pdl_documents_t;

pdl_status_t pdl_documents_create(pdl_documents_t **documents);
void         pdl_documents_destroy(pdl_documents_t *documents); /* NULL is allowed */

/* A document, a log of a run, or a page with documents, known by what is in it. Refused is what has no kind, or a version
   that this program does not know. */
pdl_status_t pdl_documents_add(pdl_documents_t *documents, const char *path);

/* The same of a text in memory, which is copied; `name` is that of a file it could have come from. */
pdl_status_t pdl_documents_add_text(pdl_documents_t *documents, const char *name, const char *text, size_t length);

/* Of every timeline with more operations than `most`, those of the first updates are kept, and the others counted. */
void pdl_documents_limit_events(pdl_documents_t *documents, int64_t most);

typedef struct pdl_page_options {
    const char *title;   /* NULL: what the first document is about */
    const char *charts;  /* a folder, where every chart is also written as a file; or NULL */
    bool        no_core; /* a page of a plan cannot be asked again, and is smaller */
} pdl_page_options_t;

/* A page of a plan can be asked again where the core is built; else a line of it says what is missing. */
pdl_status_t pdl_report_page(const pdl_documents_t *documents, const pdl_page_options_t *options, FILE *stream);
/* What a page has of the documents, without the page around it: a part of HTML whose ids begin with "again". */
pdl_status_t pdl_report_sections(const pdl_documents_t *documents, FILE *stream);
/* The same answers, charts and tables for a terminal. */
pdl_status_t pdl_report_page_text(const pdl_documents_t *documents, const char *title, FILE *stream);

/* How many documents there are; the name of a file for one, and its text as it was written. */
int          pdl_documents_count(const pdl_documents_t *documents);
const char  *pdl_documents_file(const pdl_documents_t *documents, int i, char *name, size_t size);
pdl_status_t pdl_documents_write(const pdl_documents_t *documents, int i, FILE *stream);

#ifdef __cplusplus
}
#endif
#endif
