/*
 * What pages of timelines have in common. Internal to report/page.
 */
#ifndef PDL_REPORT_PAGE_TRACE_H
#define PDL_REPORT_PAGE_TRACE_H

#include "report/page/page.h"

/* All slices of one name, of the first process. */
typedef struct pdl__trace_sum {
    const char *name;
    double      seconds;
    int64_t     count;
} pdl__trace_sum_t;

/* In the order of their names, which are those of operations or of their classes. */
pdl__trace_sum_t *pdl__trace_sums(pdl__page_t *page, const pdl__events_t *events, bool classes, int *count);
int               pdl__trace_by_name(const void *a, const void *b);
/* How operations with this name look. */
pdl__look_t pdl__trace_look(const char *name);
/* A picture of the first of them. */
void pdl__trace_still(pdl__page_t *page, const pdl__events_t *events);
/* Pictures of several timelines below each other, on one scale of time. */
void pdl__trace_beside(pdl__page_t *page, const pdl_documents_t *documents);
/* "projected", "simulated" or "measured". */
const char *pdl__trace_source(const pdl__document_t *trace);
/* 0 for measured, 1 simulated, 2 projected, 3 others: what is nearer to reality stands above. */
int pdl__trace_place(const pdl__document_t *trace);

#endif
