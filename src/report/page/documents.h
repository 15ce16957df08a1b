/*
 * Documents that were read. Internal to report/page.
 */
#ifndef PDL_REPORT_PAGE_DOCUMENTS_H
#define PDL_REPORT_PAGE_DOCUMENTS_H

#include "report/page/events.h"

#include <paradl/base/json_read.h>
#include <paradl/report/page.h>
#include <stdint.h>

/* A log is the list of its lines; its head is the first of them. */
typedef struct pdl__document {
    const char             *name; /* of the file it came from, without its folder */
    char                    kind[32];
    const pdl_json_value_t *head;
    const pdl_json_value_t *lines;    /* of a log, linked by `next`; else NULL */
    pdl__events_t          *events;   /* of a timeline, whose head has none; else NULL */
    int64_t                 left_out; /* lines at the end of a log that are no JSON: it was cut */
} pdl__document_t;

struct pdl_documents {
    pdl_arena_t     *arena;
    pdl__document_t *item;
    int              count, capacity;
    char           **texts; /* of the files, which values point into */
    int              text_count;
};

/* The summary of a run: in its log or of `train --json`; NULL where it has not ended. */
const pdl_json_value_t *pdl__document_summary(const pdl__document_t *run);
/* All documents, escaped such that no `<` is among them; events of timelines are packed behind them. */
pdl_status_t pdl__documents_embed(const pdl_documents_t *documents, const char *title, FILE *stream);

#endif
