/*
 * The network as the flow engine sees it: links with their load, the flows that move bytes over them, and the max-
 * min fair rates of these flows.
 *
 * Rates follow from counting where that is provably right: let r(f) be the least capacity/load over the links of
 * flow f. These rates never exceed a capacity. If every flow has a link on which all flows have the rate
 * capacity/load, that link is full and no flow on it is faster, which is what max-min fairness means (every flow
 * has a bottleneck). A batch of flows that meets no older flow and has one common rate always passes this test:
 * the symmetric steps of collectives. Otherwise the general solver fills the links progressively; only then lists of the
 * flows of each link are kept.
 *
 * The solver looks at no more flows than change, and at those beside them on full links. Every flow remembers its
 * bottleneck. Open at first are the flows that begin, and those whose bottleneck a flow has left. Filling raises a common
 * level; all other flows keep their shares, until one of two things is seen:
 *   - a link is full at a level below the share of a flow on it: that flow is opened;
 *   - an open flow gets less than it had: the flows whose bottlenecks its other links are are opened.
 * Such a flow had more than the level of the moment, so whatever was filled before stays right. In the end every flow has
 * a bottleneck, and the rates are max-min fair. Where an event changes the level of a link and nothing else, which is
 * seen from the links of the flows that it holds, no order of links is needed.
 */
#ifndef PDL_SIM_NETWORK_H
#define PDL_SIM_NETWORK_H

#include "sim/queue.h"

#include <paradl/sim/sim.h>

/* Loads count in whole parts of a flow, so that adding and taking away leaves nothing behind. Flows with another
   weight than PDL__WHOLE get another rate than capacity/load, their share of a link, in proportion. */
#define PDL__WHOLE ((int64_t)1 << 30)

/* A link; 64 bytes, one line of the cache. */
typedef struct pdl__wire {
    double   capacity; /* bytes per tick, times PDL__WHOLE */
    int64_t  load;     /* of the flows that move bytes */
    int64_t  fresh;    /* of those among them that began at `instant` */
    int64_t  used;     /* the solver's: by the flows that have a share, in parts of `unit` */
    int64_t  open;     /* the solver's: load of the open flows, in this pass */
    double   key;      /* the solver's: lowest level with which the link waits in the heap; infinite: it does not */
    int32_t  head;     /* first entry of the list of flows; -1: none */
    int32_t  held;     /* the solver's: flows whose bottleneck it is */
    uint32_t stamp;    /* visited in this pass */
    uint32_t instant;  /* at which a flow began last */
} pdl__wire_t;

typedef struct pdl__flow {
    double      left, rate;   /* bytes to go at `since`, bytes per tick */
    double      target;       /* share that the rate follows from; 0: none yet; in the solver negative: open */
    double      before;       /* the solver's: share before this pass */
    double      counted;      /* the solver's: share by counting */
    int64_t     weight, back; /* load on the links of the route, on those of the way back */
    double      bytes;        /* of the message */
    pdl__tick_t since, begin; /* of `left`; when both sides were ready */
    pdl__tick_t end;          /* of the last byte; its event may be earlier, and is then put off */
    int32_t     src, dst;     /* ranks, counted through all jobs */
    int32_t     step, order;  /* position among the active flows */
    int32_t     bottleneck;   /* link that the share is from; -1: none */
    int32_t     behind,
        beside; /* buffered: the next message to the same receiver, the next one of the sender; -1: none */
    int16_t  forward, hops;
    uint32_t stamp;
    bool     active, eager; /* moves bytes; does not wait for the receiver */
} pdl__flow_t;

typedef struct pdl__timed_entry {
    int32_t next, prev; /* entries of the same link */
} pdl__timed_entry_t;

typedef struct pdl__share {
    double  share;
    int32_t link;
} pdl__share_t;

typedef struct pdl__network {
    pdl__wire_t        *wire;
    int32_t             wires;
    pdl__flow_t        *flow;
    int32_t            *links; /* of flow f: [f * stride, + hops) */
    int32_t             flows, room, free_flow;
    int32_t             stride, shift; /* a power of two, and its logarithm */
    int32_t            *active;        /* flows that move bytes, in no order */
    int32_t             actives;
    bool                lists; /* lists of the flows of each link are kept */
    pdl__timed_entry_t *entry; /* of hop h of flow f: f * stride + h */
    int32_t            *dirty, dirties;
    uint32_t           *left_at;           /* of each link: instant at which a flow ended and left others behind */
    double             *bytes;             /* of each link: moved in all, counted when a flow begins to move */
    double              unit, part;        /* units of `used` in a capacity of 1, and the reverse */
    int32_t            *batch, batches;    /* flows that begin to move bytes at this instant */
    int32_t            *reached, reacheds; /* a flow can be among them twice */
    pdl__share_t       *heap;
    int32_t             heap_count;
    int32_t            *touched, toucheds; /* the solver's: links of the flows that were opened in this pass */
    int32_t             opens;             /* the solver's: flows that are open */
    uint32_t            stamp, instant;
    int32_t             first_entity; /* flow f is entity first_entity + f of the queue */
    pdl__queue_t       *queue;
    int64_t             solves; /* of the general solver */
} pdl__network_t;

pdl_status_t pdl__network_create(pdl__network_t *net, const pdl_topology_t *topology, double tick_s, int stride,
                                 pdl__queue_t *queue, int32_t first_entity);
void         pdl__network_destroy(pdl__network_t *net);

/* A flow without links yet; -1: out of memory. */
int32_t pdl__network_take(pdl__network_t *net);
void    pdl__network_release(pdl__network_t *net, int32_t flow);

/* Begins, or ends, to move the bytes of a flow; rates follow with pdl__network_settle(). */
void pdl__network_begin(pdl__network_t *net, int32_t flow);
void pdl__network_end(pdl__network_t *net, int32_t flow);

/* Finds the rates after the flows that began and ended at this instant, and queues the end of those it changes.
   PDL_ERR_LIMIT, without a message: a time does not fit in ticks. */
pdl_status_t pdl__network_settle(pdl__network_t *net, pdl__tick_t now);

/* rates.c, for network.c: the rates after the flows of the batch began and others left dirty links. */
pdl_status_t pdl__rates_component(pdl__network_t *net, pdl__tick_t now);
/* The lists of the flows of each link, from the active flows. */
pdl_status_t pdl__rates_make_lists(pdl__network_t *net);
void         pdl__rates_enlist(pdl__network_t *net, int32_t flow);
void         pdl__rates_delist(pdl__network_t *net, int32_t flow);
/* A listed flow takes its share of its links. */
void pdl__rates_hold(pdl__network_t *net, int32_t flow);

/* Sets a rate and queues the end of the flow. */
pdl_status_t pdl__network_set_rate(pdl__network_t *net, int32_t flow, double rate, pdl__tick_t now);

/* The rate that follows from a share. */
static inline double pdl__share_rate(const pdl__flow_t *flow, double share)
{
    return flow->weight == PDL__WHOLE ? share : share * ((double)flow->weight / (double)PDL__WHOLE);
}

/* True when all flows on a link began at this instant. */
static inline bool pdl__all_fresh(const pdl__network_t *net, const pdl__wire_t *wire)
{
    return wire->load == wire->fresh && wire->instant == net->instant;
}

static inline int64_t pdl__hop_load(const pdl__flow_t *flow, int hop)
{
    return hop < flow->forward ? flow->weight : flow->back;
}

#endif
