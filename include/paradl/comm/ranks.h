/*
 * The processes that train together. Under mpirun or srun they are the ranks of MPI; a process that was started by
 * itself is the only rank, does not start MPI at all, and every function below is then a matter of nanoseconds.
 * Without MPI in the build there is one rank.
 *
 *     pdl_ranks_t *ranks;
 *     pdl_ranks_create(&ranks);
 *     status = pdl_ranks_agree(ranks, read_input(path));   // fails on all ranks if it failed on one
 *     ...
 *     double sums[2] = {loss, samples};
 *     pdl_ranks_sum(ranks, sums, 2);                        // the same bits on every rank
 *     if (pdl_ranks_rank(ranks) == 0) printf("loss %g\n", sums[0] / sums[1]);
 *     pdl_ranks_destroy(ranks);
 *
 * Some of them can form a group, which is ranks again, counted from 0: rows and columns of a mesh, say.
 *
 *     pdl_ranks_split(ranks, rank / 4, rank, &row);         // 0..3, 4..7, ...
 *     pdl_ranks_sum(row, sums, 2);
 *     pdl_ranks_destroy(row);
 *
 * A failure that only one rank meets in the middle of things, while the others already wait for it, ends in
 * pdl_ranks_abort(). Functions are called by one thread at a time; those marked collective by all ranks, in the
 * same order.
 */
#ifndef PARADL_RANKS_H
#define PARADL_RANKS_H

#include <paradl/base/status.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_ranks pdl_ranks_t;

/* Collective. Starts MPI when a launcher has started this process, uses it when it is running already. */
pdl_status_t pdl_ranks_create(pdl_ranks_t **ranks);
/* Collective. Ends MPI if pdl_ranks_create() started it; NULL is allowed. */
void pdl_ranks_destroy(pdl_ranks_t *ranks);

/* Collective over `ranks`. The group of those that give the same colour (0 or more), in the order of their keys,
   and of their ranks where keys are equal. It is destroyed before the ranks that it was made of. */
pdl_status_t pdl_ranks_split(pdl_ranks_t *ranks, int colour, int key, pdl_ranks_t **group);

/* Local. A dry rank: it has a number among `size` ranks of which none exists, and collectives leave values as they are.
   It shows what that rank would do (session.h), without MPI and for any number of ranks. It cannot send messages, and
   pdl_ranks_split() refuses it. */
pdl_status_t pdl_ranks_create_dry(int rank, int size, pdl_ranks_t **ranks);
bool         pdl_ranks_dry(const pdl_ranks_t *ranks);

int pdl_ranks_rank(const pdl_ranks_t *ranks);
int pdl_ranks_size(const pdl_ranks_t *ranks);
/* Among the ranks that share this machine's memory. */
int pdl_ranks_node_rank(const pdl_ranks_t *ranks);
int pdl_ranks_node_size(const pdl_ranks_t *ranks);

/* Collective. Sum, and greatest, of each value over the ranks. Values are added in the order of the ranks, so the
   result has the same bits on every rank and in every run. For statistics and metrics; whole gradients go through
   exchange.h. Does not allocate. */
pdl_status_t pdl_ranks_sum(pdl_ranks_t *ranks, double *values, int64_t count);
pdl_status_t pdl_ranks_max(pdl_ranks_t *ranks, double *values, int64_t count);
/* Collective. The bytes of rank `root` to all. */
pdl_status_t pdl_ranks_broadcast(pdl_ranks_t *ranks, void *data, int64_t bytes, int root);
/* Collective. The bytes of all ranks, in the order of the ranks and one after the other, to all; sizes[r] is how many
   are from rank r. Each rank gives as many as it likes. Where `all` is NULL, on every rank, only the sizes are told. */
pdl_status_t pdl_ranks_gather_all(pdl_ranks_t *ranks, const void *mine, int64_t bytes, void *all, int64_t *sizes);
/* Collective. */
pdl_status_t pdl_ranks_barrier(pdl_ranks_t *ranks);

/* Collective. The worst of the ranks' statuses, and on all of them the message of the first rank that has it,
   headed by "rank R: " (of the job, also in a group) unless all ranks say the same. */
pdl_status_t pdl_ranks_agree(pdl_ranks_t *ranks, pdl_status_t status);

/* Collective. The clock of this rank (CLOCK_MONOTONIC) beside that of rank 0: what rank 0 reads is `offset_s` more, to `error_s`, at
   `at_s` of this one. Of rank 0 all but the time are 0. */
typedef struct pdl_clock {
    double at_s, offset_s, error_s;
} pdl_clock_t;
pdl_status_t pdl_ranks_clock(pdl_ranks_t *ranks, pdl_clock_t *clock);
/* A time of this rank by the clock of rank 0; between two comparisons clocks drift evenly. */
double pdl_clock_common(const pdl_clock_t *first, const pdl_clock_t *last, double time_s);

/* Bytes that this rank has sent since pdl_ranks_create(), over these ranks and all groups made of them, counted where
   messages are posted. Of a sum, MPI gathers the values in its own way: they count as sent to each of the others. What
   pdl_ranks_agree(), a barrier or a broadcast takes is not counted. */
typedef enum pdl_sent {
    PDL_SENT_MESSAGES, /* requests of the caller */
    PDL_SENT_MOVES,    /* regions.h and route.h */
    PDL_SENT_SUMS,     /* pdl_ranks_sum() and pdl_ranks_max() */
    PDL_SENT_EXCHANGE, /* exchange.h */
    PDL_SENT_KINDS
} pdl_sent_t;
double pdl_ranks_sent(const pdl_ranks_t *ranks, pdl_sent_t kind);

/* Ends all ranks because of `status`, whose message is printed once for the job, headed by the rank. Not
   collective, does not return. The exit status is that of the command: 2 for wrong input, 1 for the rest. */
#if defined(__GNUC__) || defined(__clang__)
__attribute__((noreturn))
#endif
void pdl_ranks_abort(pdl_ranks_t *ranks, pdl_status_t status);

/*
 * One message from one rank to another of any length, while both go on:
 *
 *     pdl_ranks_request_create(ranks, bytes, &request);           // once
 *     pdl_ranks_send_start(request, data, bytes, peer, 7);  // there: pdl_ranks_receive_start(..., peer, 7)
 *     ...
 *     pdl_ranks_request_wait(request);                      // the buffer is free, or filled
 *
 * A request is used again and again, for one message at a time. Messages of the same two ranks and tag arrive in
 * the order in which they were sent. Only creation allocates.
 */
#define PDL_RANKS_TAGS 16382 /* tags are 0 or more, and less than this */

typedef struct pdl_ranks_request pdl_ranks_request_t;

/* Local. For messages of up to `most_bytes` between `ranks`, which are borrowed. */
pdl_status_t pdl_ranks_request_create(pdl_ranks_t *ranks, int64_t most_bytes, pdl_ranks_request_t **request);
/* Local. NULL is allowed; what has been started has been waited for, unless something failed. */
void pdl_ranks_request_destroy(pdl_ranks_request_t *request);
/* `peer` is another rank; the buffer is left alone until the wait. Both sides give the same number of bytes. */
pdl_status_t pdl_ranks_send_start(pdl_ranks_request_t *request, const void *data, int64_t bytes, int peer, int tag);
pdl_status_t pdl_ranks_receive_start(pdl_ranks_request_t *request, void *data, int64_t bytes, int peer, int tag);
/* Returns when the message has been sent or has arrived; at once where nothing was started. */
pdl_status_t pdl_ranks_request_wait(pdl_ranks_request_t *request);
/* Whether that is so already, without waiting; once it is, there is nothing left to wait for. */
pdl_status_t pdl_ranks_request_test(pdl_ranks_request_t *request, bool *done);

#ifdef __cplusplus
}
#endif
#endif
