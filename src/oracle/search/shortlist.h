/*
 * Configurations that fit and may still win once they are replayed.
 */
#ifndef PDL_ORACLE_SHORTLIST_H
#define PDL_ORACLE_SHORTLIST_H

#include <paradl/oracle/oracle.h>

/* Scores are what the goal minimises. */
typedef struct pdl__short {
    pdl_config_t config;
    double       likely; /* by the formulas */
    double       least;  /* that replaying it can give */
    int          place;  /* in which it was added, which decides between equals */
} pdl__short_t;

typedef struct pdl__shortlist {
    pdl__short_t *entries;
    int           count, capacity;
} pdl__shortlist_t;

pdl_status_t pdl__shortlist_add(pdl__shortlist_t *list, const pdl__short_t *entry);
/* The likeliest first. */
void pdl__shortlist_sort(pdl__shortlist_t *list);
void pdl__shortlist_free(pdl__shortlist_t *list);

#endif
