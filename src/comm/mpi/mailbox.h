/*
 * Memory that the ranks of a communicator on one machine share: a channel from every rank to every other, with slots that are filled
 * and emptied in order. A message takes one slot; nobody is asked before it is copied there.
 */
#ifndef PDL_COMM_MAILBOX_H
#define PDL_COMM_MAILBOX_H

#include <paradl/comm/comm.h>
#include <stddef.h>

#define PDL__MAILBOX_SLOT_BYTES (32 * 1024) /* the largest message */

/* The largest vector that goes through it, as the first rank was told; 0 for NULL. */
int64_t pdl__mailbox_limit(const pdl_mailbox_t *mailbox);
/* Whether vectors of so many bytes go through it; NULL takes none. */
bool pdl__mailbox_takes(const pdl_mailbox_t *mailbox, int64_t bytes, int64_t extent);
/* Copies a message into the channel to a rank; false: its slots are full. */
bool pdl__mailbox_send(pdl_mailbox_t *mailbox, int to, const void *from, size_t bytes);
/* The oldest message from a rank, which stays until it is released; NULL: there is none. */
const char *pdl__mailbox_oldest(pdl_mailbox_t *mailbox, int from);
void        pdl__mailbox_release(pdl_mailbox_t *mailbox, int from);
/* A look was in vain, or not. In vain, time passes: MPI moves on meanwhile, since other messages of this rank may be what the others wait
   for, and after a while others get the core, sooner where that was needed before. */
void pdl__mailbox_relax(pdl_mailbox_t *mailbox, bool in_vain);

#endif
