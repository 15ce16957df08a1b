/*
 * What counting the memory of plans and making them do with less share.
 */
#ifndef PDL_ORACLE_COUNTED_H
#define PDL_ORACLE_COUNTED_H

#include "oracle/search/searcher.h"

/* What plans may use of a device, where memory is counted, and of the host for a device; 0: not known. */
double pdl__counted_capacity(const pdl__searcher_t *s);
double pdl__host_capacity(const pdl__searcher_t *s);

void pdl__refuse_candidate(pdl_candidate_t *candidate, const char *reason);
/* Counts the memory of a candidate's plan. One that is refused is not possible; one of which nothing is known (!compiled) keeps the
   model's figures. */
pdl_status_t pdl__count_candidate(const pdl__searcher_t *s, pdl_candidate_t *candidate);

/* The least that was found to do: of a device, and of the host for it. */
typedef struct pdl__need {
    double device, host;
} pdl__need_t;
void pdl__note_need(const pdl__searcher_t *s, const pdl_candidate_t *trial, pdl__need_t *least);
void pdl__refuse_memory(const pdl__searcher_t *s, const pdl__need_t *least, pdl_candidate_t *candidate);

/* Changes the plan of a candidate that does not fit to the fastest that does; not possible where there is none. */
pdl_status_t pdl__squeeze_candidate(const pdl__searcher_t *s, pdl_candidate_t *candidate);

#endif
