/*
 * The executor, as its two ways of moving messages see it.
 */
#ifndef PDL_COMM_EXECUTOR_H
#define PDL_COMM_EXECUTOR_H

#include "comm/mpi/mailbox.h"
#include "comm/mpi/reduce.h"
#include "comm/steps.h"

#include <paradl/comm/comm.h>

struct pdl_scratch {
    char  *slots, *pack;
    size_t slots_bytes, pack_bytes;
};

typedef struct pdl__outgoing {
    const char *from;
    size_t      bytes;
    int         peer;
    bool        done;
} pdl__outgoing_t;

typedef struct pdl__incoming {
    char       *to;
    size_t      bytes;
    int         peer;
    bool        done;
    const char *held; /* still where its sender has put it; NULL: at `to`, or not there yet */
} pdl__incoming_t;

struct pdl_executor {
    pdl__steps_t
        steps; /* first: a pdl__steps_t is cast to this. The relay of its areas is ours, others come with a run */
    MPI_Comm         comm;
    MPI_Datatype     type;
    pdl_collective_t collective;
    int64_t          elements;
    pdl__reducer_t   reducer;
    MPI_Request     *send_request;    /* of the current step */
    MPI_Request     *receive_request; /* by slot */
    pdl_scratch_t   *scratch;         /* `own`, or shared */
    pdl_scratch_t    own;
    /* Where messages go through shared memory: */
    pdl_mailbox_t   *mailbox;
    pdl__outgoing_t *outgoing;       /* of the current step */
    int              filled, posted; /* of these, the first ones that are all in their slots; and all there are */
    pdl__incoming_t *incoming;       /* by slot */
};

/* mailbox_steps.c: the same over shared memory. */
extern const pdl__steps_ops_t pdl__mailbox_ops;
pdl_status_t                  pdl__executor_add(pdl__steps_t *steps, const char *from, char *to, int64_t count);
pdl_status_t                  pdl__executor_copy(pdl__steps_t *steps, const char *from, char *to, int64_t count);

#endif
