/*
 * Execution of a schedule over MPI. A plan is made once for a schedule, a communicator, a type, an operation and a
 * number of elements; after that it runs on any buffers, without allocating memory.
 *
 *     pdl_schedule_spec_t wanted = {.collective = PDL_COLL_ALLREDUCE, .algorithm = "ring", .ranks = size};
 *     pdl_schedule_create(&wanted, &schedule);
 *     pdl_executor_spec_t spec = {.schedule = schedule, .comm = comm, .type = MPI_FLOAT, .op = MPI_SUM,
 *                                 .elements = n};
 *     pdl_executor_create(&spec, &executor);
 *     pdl_executor_run(executor, NULL, gradients);   // in place, on every rank of comm
 *     pdl_executor_destroy(executor);
 *
 * Messages are cut into chunks, so that a chunk is reduced while the next one is in flight. The order of all
 * reductions is fixed by the schedule: the same ranks, elements and algorithm give the same bits in every run,
 * and on every rank.
 */
#ifndef PARADL_COMM_H
#define PARADL_COMM_H

#include <mpi.h>
#include <paradl/base/status.h>
#include <paradl/coll/coll.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where messages arrive before they are added. Executors of which never two run at the same time may share one,
   which then stays in the cache and counts once. */
typedef struct pdl_scratch pdl_scratch_t;

pdl_status_t pdl_scratch_create(pdl_scratch_t **scratch);
void         pdl_scratch_destroy(pdl_scratch_t *scratch); /* after the executors; NULL is allowed */
size_t       pdl_scratch_bytes(const pdl_scratch_t *scratch);

/* Memory that all ranks of a communicator share on one machine, through which an executor then sends its messages in place of MPI.
   Collective. *mailbox is NULL where ranks are on several machines, are more than 8, or there is no room for it. Vectors above 256 KiB, or
   what PARADL_SHARED says, still go by MPI, but for those of 8 MiB and more of two ranks. */
typedef struct pdl_mailbox pdl_mailbox_t;
pdl_status_t               pdl_mailbox_create(MPI_Comm comm, pdl_mailbox_t **mailbox);
void pdl_mailbox_destroy(pdl_mailbox_t *mailbox); /* NULL is allowed; no executor may use it any more */

typedef struct pdl_executor_spec {
    const pdl_schedule_t *schedule;    /* needed during creation only */
    MPI_Comm              comm;        /* borrowed; no other messages may use it while the executor runs */
    MPI_Datatype          type;        /* predefined */
    MPI_Op                op;          /* predefined, commutative; MPI_OP_NULL where nothing is reduced */
    int64_t               elements;    /* of the whole vector; all-to-all: of what one rank sends, P equal parts */
    const int64_t        *counts;      /* reduce-scatter, allgather: of each rank's part; NULL: equal parts */
    int64_t               chunk_bytes; /* 0: default */
    pdl_scratch_t        *scratch;     /* borrowed, grows during creation; NULL: the executor has its own */
    pdl_mailbox_t        *mailbox;     /* of this communicator, borrowed; NULL: messages are MPI's */
    bool                  all_shared;  /* vectors of any size go through the mailbox */
} pdl_executor_spec_t;

typedef struct pdl_executor pdl_executor_t;

/* PDL_ERR_LIMIT when the schedule leaves a rank without a part of its own (reduce-scatter, allgather). Local, but
   to be called with the same arguments on every rank. */
pdl_status_t pdl_executor_create(const pdl_executor_spec_t *spec, pdl_executor_t **executor);
void         pdl_executor_destroy(pdl_executor_t *executor); /* NULL is allowed; must not be running */

/* Collective over the communicator.
   allreduce       `data` takes the result; `input` NULL: it holds the contribution as well
   reduce-scatter  `data` is a vector of all elements, of which this rank's part is the result, the rest is lost
   allgather       `input` is this rank's part; NULL: it is at its place in `data`
   broadcast       `data`; `input` is not used
   all-to-all      `input` is not NULL and does not overlap `data` */
pdl_status_t pdl_executor_run(pdl_executor_t *executor, const void *input, void *data);

/* The same in the background: start, then test until done. It moves on only inside pdl_executor_test(). */
pdl_status_t pdl_executor_start(pdl_executor_t *executor, const void *input, void *data);
pdl_status_t pdl_executor_test(pdl_executor_t *executor, bool *done);

/* Where the part of a rank is in the vector of a reduce-scatter or allgather. */
void pdl_executor_part(const pdl_executor_t *executor, int rank, int64_t *first, int64_t *count);

/* Bytes that this rank sends in one run. */
int64_t pdl_executor_sent(const pdl_executor_t *executor);
/* Bytes of all its sends since creation. */
int64_t pdl_executor_posted(const pdl_executor_t *executor);
/* Their number. */
int64_t pdl_executor_messages(const pdl_executor_t *executor);

#ifdef __cplusplus
}
#endif
#endif
