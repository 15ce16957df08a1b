/*
 * What a page is made of: sections with a heading that states the finding, charts, tables. The same calls write HTML and
 * text. Internal to report/page.
 */
#ifndef PDL_REPORT_PAGE_H
#define PDL_REPORT_PAGE_H

#include "report/chart/chart.h"
#include "report/page/documents.h"

#include <paradl/report/table.h>

typedef struct pdl__page {
    FILE               *stream;
    pdl_arena_t        *arena;
    bool                text;   /* for a terminal, instead of HTML */
    const char         *prefix; /* of ids, which are unique on a page */
    const char         *folder; /* where charts are also written, or NULL */
    bool                in_section;
    int                 charts, sections;
    pdl_table_t        *table; /* of a text, while it is filled */
    const pdl_column_t *columns;
    int                 column, column_count;
    pdl_status_t        status; /* the first failure */
} pdl__page_t;

/* The title of what follows: a document. */
void pdl__page_heading(pdl__page_t *page, const char *format, ...) PDL_PRINTF(2, 3);
void pdl__page_section(pdl__page_t *page, const char *format, ...) PDL_PRINTF(2, 3);
void pdl__page_section_end(pdl__page_t *page);
/* The answer, in one or two sentences. */
void pdl__page_answer(pdl__page_t *page, const char *format, ...) PDL_PRINTF(2, 3);
void pdl__page_say(pdl__page_t *page, const char *format, ...) PDL_PRINTF(2, 3);
/* Where something comes from, in small letters. */
void pdl__page_note(pdl__page_t *page, const char *format, ...) PDL_PRINTF(2, 3);
/* Sentences, one a line of `text`, as a list. */
void pdl__page_list(pdl__page_t *page, const char *text);
/* `how` says in a line how to read it. Nothing to draw is said instead. */
void pdl__page_chart(pdl__page_t *page, pdl__chart_t *chart, const char *how);
/* Borrows `columns` until the table ends. The first column names the row. */
void pdl__page_table(pdl__page_t *page, const char *caption, const pdl_column_t *columns, int count);
void pdl__page_row(pdl__page_t *page);
void pdl__page_row_faint(pdl__page_t *page); /* of what is not possible */
void pdl__page_cell(pdl__page_t *page, const char *format, ...) PDL_PRINTF(2, 3);
void pdl__page_seconds(pdl__page_t *page, double seconds); /* a cell; "-" where it is not known */
void pdl__page_bytes(pdl__page_t *page, double bytes);
void pdl__page_percent(pdl__page_t *page, double share);
void pdl__page_table_end(pdl__page_t *page);

/* Numbers of the arena; NULL, with the status set, when memory is out. */
double *pdl__page_numbers(pdl__page_t *page, int count);
/* "name" of every member of a list, and how many there are. */
double *pdl__page_column(pdl__page_t *page, const pdl_json_value_t *list, const char *name, int count);
/* Means of neighbours, so that no more than PDL__MOST_POINTS are left; returns how many. */
#define PDL__MOST_POINTS 600
int         pdl__page_thin(double *values, int count);
const char *pdl__page_print(pdl__page_t *page, const char *format, ...) PDL_PRINTF(2, 3);
/* `text`, or what stands for nothing. */
const char *pdl__page_or(const char *text, const char *otherwise);

/* Members of a list by a score, the highest first; those without one are left out. */
typedef struct pdl__ranked {
    const pdl_json_value_t *value;
    double                  score;
    int                     place; /* in the list, which decides between equals */
} pdl__ranked_t;
pdl__ranked_t *pdl__page_rank(pdl__page_t *page, const pdl_json_value_t      *list,
                              double (*score)(const pdl_json_value_t *), int *count);

/* A part of the time of a candidate, or of its memory. */
typedef struct pdl__plan_part {
    const char *key, *name;
    pdl__look_t look;
} pdl__plan_part_t;
#define PDL__PLAN_PARTS 9
extern const pdl__plan_part_t pdl__plan_times[PDL__PLAN_PARTS];

/* The rules of style of a page. */
void pdl__page_style(FILE *stream);
/* All documents, each in an element of its own. */
void pdl__page_documents(pdl__page_t *page, const pdl_documents_t *documents);
/* Documents of one kind, one after the other. */
void pdl__page_plan(pdl__page_t *page, const pdl__document_t *plan);
/* Of a plan: what its hardware numbers are worth, and its layers under the roofs of the device. */
void pdl__page_precisions(pdl__page_t *page, const pdl__document_t *plan);
void pdl__page_sensitivity(pdl__page_t *page, const pdl__document_t *plan);
void pdl__page_roofline(pdl__page_t *page, const pdl__document_t *plan);
void pdl__page_run(pdl__page_t *page, const pdl__document_t *run);
void pdl__page_simulation(pdl__page_t *page, const pdl__document_t *simulation);
void pdl__page_collective(pdl__page_t *page, const pdl__document_t *collective);
void pdl__page_sweep(pdl__page_t *page, const pdl__document_t *sweep);
void pdl__page_bench(pdl__page_t *page, const pdl__document_t *bench);
void pdl__page_validation(pdl__page_t *page, const pdl__document_t *validation);
void pdl__page_program(pdl__page_t *page, const pdl__document_t *program);
void pdl__page_scaling(pdl__page_t *page, const pdl__document_t *scaling);
void pdl__page_trace(pdl__page_t *page, const pdl__document_t *trace);
/* Timelines operation by operation, beside the first of them. */
void pdl__page_compare_traces(pdl__page_t *page, const pdl_documents_t *documents);
/* Any other: its values. */
void pdl__page_values(pdl__page_t *page, const pdl__document_t *document);
/* What several documents say of the same things, side by side. */
void pdl__page_compare(pdl__page_t *page, const pdl_documents_t *documents);

#endif
