/*
 * What the files of libparadl-mpi.so share: the settings, and what it keeps about each communicator.
 */
#ifndef PDL_COMM_INTERPOSE_H
#define PDL_COMM_INTERPOSE_H

#include <paradl/comm/comm.h>
#include <paradl/topo/topo.h>

#include <pthread.h>

/* From the environment, read once. */
typedef struct pdl__settings {
    const char     *algorithm[PDL_COLL_COUNT]; /* "auto", "mpi" (the library's own) or a name */
    const char     *in_background;             /* the same for MPI_Iallreduce; NULL: the library's own */
    bool            verbose;
    bool            measure;                /* latency and bandwidth, for each communicator */
    double          latency_s, bytes_per_s; /* else these */
    int64_t         chunk_bytes;
    int64_t         ranks_per_node;
    pdl_topology_t *network; /* of all ranks, as it was measured; NULL: not known */
} pdl__settings_t;

const pdl__settings_t *pdl__settings(void);
/* What is wrong with a variable of the environment, on one rank of the job. */
void pdl__warn(const char *variable, const char *text);

/* Why a call goes to the MPI library; each reason is given once per process. */
typedef enum pdl__reason {
    PDL__INTERCOMMUNICATOR,
    PDL__USER_OPERATION,
    PDL__DERIVED_TYPE,
    PDL__TOO_LARGE,
    PDL__NO_SCHEDULE,
    PDL__NO_THREADS,
    PDL__NEW_COMMUNICATOR,
    PDL__REASON_COUNT
} pdl__reason_t;

/* Says under PARADL_VERBOSE, on rank 0 of `comm`, that `call` goes to the MPI library. */
void pdl__say_why(MPI_Comm comm, const char *call, pdl__reason_t reason);

/* One collective that waits for the helper thread or is being run by it. */
typedef struct pdl__operation {
    pdl_executor_t        *executor;
    const void            *input;
    void                  *data;
    bool                   started;
    pdl_status_t           status;
    MPI_Request            request;
    struct pdl__operation *next;
} pdl__operation_t;

#define PDL__PLANS 16
#define PDL__TRIED 4 /* ways of an allreduce */

typedef struct pdl__plan {
    pdl_collective_t collective;
    int64_t          elements;
    MPI_Datatype     type;
    MPI_Op           op;
    int64_t         *counts;   /* or NULL */
    pdl_executor_t  *executor; /* NULL: there is no schedule for this, the library does it */
    bool             tried;    /* in several ways (ways.c), in place of `executor` */
    int              range;    /* of sizes, in which its own lies */
    pdl_executor_t  *way[PDL__TRIED];
    bool             used;
} pdl__plan_t;

typedef struct pdl__state {
    MPI_Comm           comm;       /* the same ranks; carries our messages, which so never meet the program's */
    MPI_Comm           background; /* and those of the helper thread; MPI_COMM_NULL where there is none */
    int                rank, ranks;
    double             latency_s, bytes_per_s;
    bool               one_node;              /* all ranks share memory */
    pdl_mailbox_t     *mailbox;               /* of `comm`, where they do; NULL: not to be had */
    pdl_topology_t    *network;               /* that was measured with these ranks on these hosts; NULL: none */
    pdl_coll_price_t  *price[PDL_COLL_COUNT]; /* of each algorithm; made at first use */
    struct pdl__ways  *ways;                  /* that were tried; made at first use */
    pdl__plan_t        plan[PDL__PLANS];
    int                next_plan; /* the oldest, to be replaced */
    char              *scratch;
    size_t             scratch_bytes;
    pdl__operation_t  *first, *last; /* operations of the helper thread, in the order of the calls */
    struct pdl__state *next_active;
} pdl__state_t;

/* The state of a communicator, made at its first use (collective over it); NULL with the message set on failure. */
pdl__state_t *pdl__state(MPI_Comm comm);
/* The state where there is one, else NULL; local. */
pdl__state_t *pdl__state_if_any(MPI_Comm comm);
/* Frees the states of the predefined communicators, before MPI_Finalize. */
void pdl__states_fini(void);

/* At least `bytes` bytes, kept with the communicator; NULL with the message set. */
char *pdl__scratch(pdl__state_t *state, size_t bytes);

/* The schedule of the algorithm `wanted`, or for "auto" of the one that the cost model chooses; NULL: none
   supports these ranks. The caller destroys it. */
pdl_status_t pdl__choose(pdl__state_t *state, pdl_collective_t collective, const char *wanted, double bytes,
                         pdl_schedule_t **schedule);
/* The schedule of the cheapest algorithm where messages go through memory that ranks share, or by MPI; NULL: there is none. */
pdl_status_t pdl__choose_by_price(pdl__state_t *state, pdl_collective_t collective, double bytes, bool shared,
                                  pdl_schedule_t **schedule);

/* Whether the calls of a plan try several ways in turns, and such a call. */
bool         pdl__ways_are_tried(const pdl__state_t *state, pdl__plan_t *plan);
pdl_status_t pdl__ways_run(pdl__state_t *state, pdl__plan_t *plan, const void *input, void *data);

/* The plan of a call, from those of the communicator. Where no ways are tried and it has no executor, the call is left to the library. */
pdl_status_t pdl__plan(pdl__state_t *state, const pdl__plan_t *wanted, pdl__plan_t **found);
/* How often plans went: one that was found is still there while this has not changed. */
unsigned pdl__plans_forgotten(void);
/* What is left of a state apart from its communicators. */
void pdl__plans_fini(pdl__state_t *state);

/* The helper thread of MPI_Iallreduce: whether it runs, and waiting until a communicator has nothing left to do. */
bool pdl__background_runs(void);
void pdl__background_start(void);
void pdl__background_stop(void);
void pdl__background_drain(pdl__state_t *state);

#endif
