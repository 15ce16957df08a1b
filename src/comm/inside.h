/*
 * What ranks, requests and exchange need of MPI. With MPI it is in ranks_mpi.c, requests_mpi.c and reduction_mpi.c;
 * without it alone.c takes their place, so that the rest is the same in both builds.
 */
#ifndef PDL_COMM_INSIDE_H
#define PDL_COMM_INSIDE_H

#include <paradl/coll/coll.h>
#include <paradl/coll/sparse.h>
#include <paradl/comm/ranks.h>
#include <paradl/comm/transport.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct pdl__world pdl__world_t;
/* Transports whose messages go on while a rank waits for anything: MPI does that for its own. */
typedef struct pdl__progress {
    pdl_transport_t *transport; /* the first; others follow */
    bool             busy;
} pdl__progress_t;
/* device/transport.c */
pdl_status_t              pdl__progress(pdl__progress_t *progress);
typedef struct pdl__watch pdl__watch_t; /* watch.h */

struct pdl_ranks {
    int             rank, size;
    int             node_rank, node_size;
    int             job_rank; /* the same as rank unless this is a group */
    pdl__world_t   *world;    /* NULL: one rank without MPI */
    double         *gathered; /* room for `piece` values of every rank */
    int64_t         piece;
    bool            dry;                  /* nothing is sent or received */
    double          sent[PDL_SENT_KINDS]; /* bytes, unless this is a group */
    double         *counted;              /* `sent` of the ranks that the group was made of, or its own */
    pdl__watch_t   *watch;                /* of the job, owned unless this is a group; NULL: nobody watches */
    bool            group;
    pdl__progress_t own_progress, *progress; /* that of the job, also of a group */
};

/* Whether the program has MPI running already. */
bool pdl__world_running(void);
/* Fills in ranks and world. */
pdl_status_t pdl__world_start(pdl_ranks_t *ranks);
void         pdl__world_stop(pdl__world_t *world);
/* The world of a group, not yet filled in, so that what follows does not fail on one rank only. */
pdl_status_t pdl__world_reserve(pdl_ranks_t *group);
/* Fills in the group and its world; collective over `ranks`. */
pdl_status_t pdl__world_split(const pdl_ranks_t *ranks, int colour, int key, pdl_ranks_t *group);
/* `bytes` of every rank, in the order of the ranks. */
pdl_status_t pdl__world_gather(pdl__world_t *world, const void *mine, void *all, int bytes);
/* bytes[r] of every rank r to where `all` has place for them, first[r]; `rank` is this one. */
pdl_status_t pdl__world_gather_some(pdl__world_t *world, const void *mine, void *all, const int *bytes,
                                    const int *first, int rank);
pdl_status_t pdl__world_broadcast(pdl__world_t *world, void *data, int bytes, int root);
pdl_status_t pdl__world_barrier(pdl__world_t *world);
/* pdl_ranks_gather_all() that takes another way when more than `most` bytes come together. */
pdl_status_t pdl__ranks_gather_all(pdl_ranks_t *ranks, const void *mine, int64_t bytes, void *all, int64_t *sizes,
                                   int64_t most);
/* What waits for messages of this world, and of groups made of it later, lets others go on. */
void pdl__world_progress(pdl__world_t *world, pdl__progress_t *progress);
/* What waits for messages of this world, and of groups made of it later, gives up when the watch says so. */
void pdl__world_watch(pdl__world_t *world, pdl__watch_t *watch);
/* Of the whole job, also from a group. */
void pdl__world_abort(int exit_status);

/* One message at a time, cut into pieces that MPI can count. */
typedef struct pdl__pieces pdl__pieces_t;

pdl_status_t pdl__pieces_create(int64_t most_bytes, pdl__pieces_t **pieces);
void         pdl__pieces_destroy(pdl__pieces_t *pieces); /* NULL is allowed; must not be in flight */
pdl_status_t pdl__pieces_send(pdl__pieces_t *pieces, pdl__world_t *world, const void *data, int64_t bytes, int peer,
                              int tag);
pdl_status_t pdl__pieces_receive(pdl__pieces_t *pieces, pdl__world_t *world, void *data, int64_t bytes, int peer,
                                 int tag);
pdl_status_t pdl__pieces_wait(pdl__pieces_t *pieces);
/* Where all have arrived nothing is in flight afterwards, as after the wait. */
pdl_status_t pdl__pieces_test(pdl__pieces_t *pieces, bool *done);

/* Sums over the ranks, and exchanges of parts, that may be in flight at the same time, as long as they are in
   different lanes. Those of one lane start in the same order on every rank. */
typedef struct pdl__lanes pdl__lanes_t;

pdl_status_t pdl__lanes_create(const pdl_ranks_t *ranks, int count, pdl__lanes_t **lanes); /* collective */
void         pdl__lanes_destroy(pdl__lanes_t *lanes);                                      /* collective */
/* Bytes of the places where messages arrive. */
size_t pdl__lanes_bytes(const pdl__lanes_t *lanes);

/* One of them, of which there are several kinds. */
typedef struct pdl__reduction pdl__reduction_t;

typedef struct pdl__reduction_ops {
    pdl_status_t (*start)(pdl__reduction_t *reduction, float *data);
    pdl_status_t (*test)(pdl__reduction_t *reduction, bool *done);
    int64_t (*messages)(const pdl__reduction_t *reduction); /* NULL: not known */
    /* Of a sparse one: pdl_topk_residual() and pdl_topk_thin(). NULL: there is none. */
    float *(*residual)(pdl__reduction_t *reduction, int64_t *count);
    void (*thin)(pdl__reduction_t *reduction, double density);
    void (*destroy)(pdl__reduction_t *reduction);
} pdl__reduction_ops_t;

struct pdl__reduction {
    const pdl__reduction_ops_t *ops;
    int64_t bytes; /* sent by this rank in one run; of a sparse one in the latest, before that as expected */
    size_t  held;  /* of memory that is its own, besides that of its lane */
};

typedef struct pdl__reduction_spec {
    int                 lane;
    pdl_collective_t    collective;   /* allreduce, reduce-scatter or allgather */
    const char         *algorithm;    /* a schedule, sparse where there is a density, or "library" */
    double              density;      /* of a sparse sum: share of the elements that a rank sends; 0: it is dense */
    double              most_density; /* that it is thinned to later on; 0: the same */
    pdl_topk_momentum_t momentum;     /* of a sparse sum */
    int64_t             ranks_per_node; /* for schedules that look at it; 0: 1 */
    int64_t             elements;
    const int64_t      *counts;      /* of each rank's part, unless all get the sum */
    int64_t chunk_bytes, slot_bytes; /* of a message, and of the places where messages arrive, at most */
} pdl__reduction_spec_t;

/* In memory of the host, over MPI. */
pdl_status_t pdl__reduction_create(const pdl__lanes_t *lanes, const pdl__reduction_spec_t *spec,
                                   pdl__reduction_t **reduction);

/* Of all kinds. */
static inline pdl_status_t pdl__reduction_start(pdl__reduction_t *reduction, float *data)
{
    return reduction->ops->start(reduction, data);
}

static inline pdl_status_t pdl__reduction_test(pdl__reduction_t *reduction, bool *done)
{
    return reduction->ops->test(reduction, done);
}

/* NULL is allowed; must not be in flight. */
static inline void pdl__reduction_destroy(pdl__reduction_t *reduction)
{
    if (reduction != NULL) reduction->ops->destroy(reduction);
}

/* Messages that this rank has sent since creation; 0 of the library's. */
static inline int64_t pdl__reduction_messages(const pdl__reduction_t *reduction)
{
    return reduction->ops->messages != NULL ? reduction->ops->messages(reduction) : 0;
}

#endif
