/*
 * What lets a page answer again: the script, the core and the descriptions that its commands name. Internal to report/page.
 */
#ifndef PDL_REPORT_PAGE_LIVE_H
#define PDL_REPORT_PAGE_LIVE_H

#include "report/page/documents.h"

typedef struct pdl__live {
    char       *script; /* NULL: none was found, and the page has none */
    size_t      script_length;
    char       *core; /* packed; NULL: none */
    size_t      core_length;
    const char *missing; /* why nothing can be asked again; NULL: it can */
} pdl__live_t;

/* Finds what there is; nothing of it is necessary. */
void pdl__live_open(pdl__live_t *live, const pdl_documents_t *documents, bool wanted);
void pdl__live_close(pdl__live_t *live);
/* The content of the policy: only this very script may run. */
void pdl__live_policy(const pdl__live_t *live, FILE *stream);
/* The elements at the end of the page. */
pdl_status_t pdl__live_write(const pdl__live_t *live, const pdl_documents_t *documents, FILE *stream);

#endif
