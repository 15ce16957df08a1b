/*
 * The choice of an algorithm from prices of the real schedules on a network that was measured, and of the way that messages go
 * on one machine.
 */
#ifndef PDL_COMM_CHOOSE_H
#define PDL_COMM_CHOOSE_H

#include <paradl/coll/coll.h>
#include <paradl/topo/topo.h>

typedef struct pdl__choice {
    const char *algorithm; /* of pdl_coll_algorithms(); NULL: none fits */
    int64_t     segments;
    double      seconds;
    bool        library; /* the MPI library's own was measured to be as fast */
} pdl__choice_t;

/* Rank r on host r, all hosts. The same on every rank that asks. */
pdl_status_t pdl__choose_on_network(pdl_topology_t *network, pdl_collective_t collective, int64_t bytes,
                                    pdl__choice_t *choice);
/* A schedule that knows the shape of the network. */
pdl_status_t pdl__network_schedule(pdl_topology_t *network, pdl_collective_t collective, const char *algorithm,
                                   int64_t bytes, int64_t segments, pdl_schedule_t **schedule);
/* How an allreduce goes whose ranks are all on one machine. */
typedef enum pdl__way {
    PDL__WAY_LIBRARY, /* as the MPI library's own */
    PDL__WAY_SHARED,  /* a schedule of ours through memory that the ranks share */
    PDL__WAY_MESSAGES /* a schedule of ours by MPI's messages */
} pdl__way_t;

/* The largest vector that goes through memory that ranks share: PARADL_SHARED, or what was measured to be best. */
int64_t pdl__shared_limit(void);
/* Whether messages of a vector go through the memory that ranks share. */
bool pdl__goes_shared(int ranks, int64_t shared_limit, double bytes);
/* Whether measuring tells more than the limits of pdl__choose_way(): two ranks that share memory, but for small vectors. */
bool pdl__ways_differ(int ranks, int64_t shared_limit, double bytes);
/* `shared_limit` is that of their memory; 0: they share none. */
pdl__way_t pdl__choose_way(int ranks, int64_t shared_limit, double bytes);

/* What the library's own allreduce takes, between and near sizes that were measured; infinite elsewhere. */
double pdl__library_seconds(const pdl_message_layer_t *messages, double bytes);

#endif
