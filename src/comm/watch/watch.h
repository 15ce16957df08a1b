/*
 * The watch, as the rest of the module sees it. NULL is a watch that sees nothing.
 */
#ifndef PDL_COMM_WATCH_H
#define PDL_COMM_WATCH_H

#include <paradl/comm/watch.h>

typedef struct pdl__watch pdl__watch_t;

/* Around a wait for messages; each end of one is progress. */
void pdl__watch_waits(pdl__watch_t *watch, bool waits);
/* An error once ranks are lost. */
pdl_status_t pdl__watch_check(const pdl__watch_t *watch);
/* All work is done and MPI ends: where a rank is lost now the others end at once. */
void pdl__watch_finishes(pdl_ranks_t *ranks);
/* This rank ends on purpose, whatever its status: the others hear of it. */
void pdl__watch_leave(pdl__watch_t *watch);
/* Stops watching. */
void pdl__watch_destroy(pdl__watch_t *watch);

/* Ranks are lost and this one has come to its end: tells so, or waits until the one that speaks has. */
void pdl__watch_mourn(pdl__watch_t *watch);

#endif
