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
 *
 * A flow that a link holds has the level of the link, which changes for all of them at once. The queue knows such a link,
 * not its flows: its event is the first of their ends. Without lists every flow has an event of its own.
 */
#ifndef PDL_SIM_NETWORK_H
#define PDL_SIM_NETWORK_H

#include "sim/queue.h"

#include <paradl/sim/sim.h>

/* Loads count in whole parts of a flow, so that adding and taking away leaves nothing behind. Flows with another
   weight than PDL__WHOLE get another rate than capacity/load, their share of a link, in proportion. */
#define PDL__WHOLE ((int64_t)1 << 30)

/* Bytes of a line of the cache. */
#define PDL__LINE 64

/* Hops that pdl__flow_t.shared has room for; the others count as shared. */
#define PDL__MARKED_HOPS 16

/* A link; one line of the cache. */
typedef struct pdl__wire {
    double   capacity; /* bytes per tick, times PDL__WHOLE */
    int64_t  load;     /* of the flows that move bytes */
    int64_t  fresh;    /* of those among them that began at `instant` */
    int64_t  used;     /* the solver's: by the flows that share it and have a rate, in parts of `unit` */
    int64_t  open;     /* the solver's: load of the open flows, in this pass */
    double   key;      /* the solver's: lowest level with which the link waits in the heap; infinite: it does not */
    int32_t  held;     /* the solver's: flows whose bottleneck it is */
    uint32_t stamp;    /* visited in this pass */
    uint32_t instant;  /* at which a flow began last */
    int32_t  sole;     /* the only entry of the list, which is then empty; else PDL__NONE or PDL__LISTED */
} pdl__wire_t;

/* Bytes and times of a flow that moves. Those of the flows that a link holds are kept with the link: they change with its
   level. */
typedef struct pdl__motion {
    double      left, rate; /* bytes to go at `since`, bytes per tick */
    pdl__tick_t since, end; /* `end`: of the last byte */
} pdl__motion_t;

/* Two lines of the cache; the first is what begins and ends with it, and what the solver looks at. */
typedef struct pdl__flow {
    double        target;   /* share that the rate follows from, if no link holds it; 0: none yet; negative: open */
    double        before;   /* the solver's: share before this pass; by counting */
    int64_t       weight;   /* load on the links of the route */
    int32_t       src, dst; /* ranks, counted through all jobs */
    int32_t       step, order;    /* position among the active flows */
    int32_t       bottleneck;     /* link that the share is from; -1: none */
    uint32_t      stamp;          /* visited in this pass */
    int16_t       bottleneck_hop; /* where it is, while the link holds the flow */
    int16_t       forward, hops;
    uint16_t      shared; /* bit h: hop h is on a link with other flows; see lists.h */
    bool          active; /* moves bytes */
    bool          eager;  /* does not wait for the receiver */
    bool          uneven; /* the links of its way differ, or are many: all are looked at */
    bool          plain;  /* even, of weight PDL__WHOLE, and without a way back */
    int64_t       back;   /* load on the links of the way back */
    pdl__motion_t motion; /* while no link holds it */
    pdl__tick_t   begin;  /* when both sides were ready */
    double        bytes;  /* of the message */
    int32_t       behind,
        beside; /* buffered: the next message to the same receiver, the next one of the sender; -1: none */
} pdl__flow_t;

#define PDL__NONE   (-1)
#define PDL__LISTED (-2)

/* Entries of a list that need no memory of their own. */
#define PDL__FEW_ENTRIES 2

/* The flows on a link, while lists are kept; one line of the cache. The first of them, pdl__wire_t.held, are those whose
   bottleneck it is. */
typedef struct pdl__list {
    int32_t       *entry;  /* hop h of flow f: f * stride + h */
    pdl__motion_t *motion; /* of those that it holds */
    double         level;  /* their share */
    int64_t        load;   /* of theirs, on this link */
    pdl__tick_t    due;    /* of its event: none of these ends before; PDL__NEVER: there is no event */
    int32_t        count;
    int32_t        odd;                      /* of those that it holds: not plain */
    int32_t        opened;                   /* of those that it holds: open, in a pass of the solver */
    uint8_t        room_shift, motion_shift; /* room, as powers of two; 0: PDL__FEW_ENTRIES, and no motion */
    bool           changed;                  /* it has another level, or holds others */
    int32_t        few[PDL__FEW_ENTRIES];
} pdl__list_t;

typedef struct pdl__share {
    double  share;
    int32_t link;
} pdl__share_t;

typedef struct pdl__network {
    pdl__wire_t  *wire;
    int32_t       wires;
    pdl__flow_t  *flow;
    int32_t      *links; /* of flow f: [f * stride, + hops) */
    int32_t       flows, room, free_flow;
    int32_t       stride, shift; /* a power of two, and its logarithm */
    int32_t      *active;        /* flows that move bytes, in no order */
    int32_t       actives;
    bool          alike; /* all links have the same capacity */
    bool          lists; /* lists of the flows of each link are kept */
    bool          short_of_memory;
    pdl__list_t  *list;             /* of each link */
    int32_t      *place;            /* in its list, of hop h of flow f: f * stride + h */
    int32_t      *changed, changes; /* links with other flows that they hold, or another level */
    int32_t      *dirty, dirties;
    uint32_t     *left_at;           /* of each link: instant at which a flow ended and left others behind */
    double       *bytes;             /* of each link: moved in all, counted when a flow begins to move */
    double        unit, part;        /* units of `used` in a capacity of 1, and the reverse */
    int32_t      *batch, batches;    /* flows that begin to move bytes at this instant */
    int32_t      *reached, reacheds; /* a flow can be among them twice */
    pdl__share_t *heap;
    int32_t       heap_count;
    int32_t       opens; /* the solver's: flows that are open */
    uint32_t      stamp, instant;
    int32_t       first_link, first_entity; /* link l and flow f are entities first_link + l, first_entity + f */
    pdl__queue_t *queue;
    int64_t       solves; /* of the general solver */
} pdl__network_t;

pdl_status_t pdl__network_create(pdl__network_t *net, const pdl_topology_t *topology, double tick_s, int stride,
                                 pdl__queue_t *queue, int32_t first_link);
void         pdl__network_destroy(pdl__network_t *net);

/* A flow without links yet; -1: out of memory. */
int32_t pdl__network_take(pdl__network_t *net);
void    pdl__network_release(pdl__network_t *net, int32_t flow);

/* Begins, or ends, to move the bytes of a flow; rates follow with pdl__network_settle(). */
void pdl__network_begin(pdl__network_t *net, int32_t flow);
void pdl__network_end(pdl__network_t *net, int32_t flow);

/* Finds the rates after the flows that began and ended at this instant, and queues the ends that they change.
   PDL_ERR_LIMIT, without a message: a time does not fit in ticks. */
pdl_status_t pdl__network_settle(pdl__network_t *net, pdl__tick_t now);

/* The event of a link has come: the flows that it holds and that end now. */
const int32_t *pdl__network_due(pdl__network_t *net, int32_t link, pdl__tick_t now, int32_t *count);

/* Bytes, rate and times of an active flow. */
pdl__motion_t pdl__network_motion(const pdl__network_t *net, int32_t flow);

/* Everything is so much later. */
void pdl__network_shift(pdl__network_t *net, pdl__tick_t ticks);

/* rates.c, for network.c: the shares after the flows of the batch began and others left dirty links. */
void pdl__rates_component(pdl__network_t *net);

/* relevel.c, for rates.c: does it without filling where few links get another level and all others keep theirs. False: what is
   left of the batch and the dirty links is to be filled. */
bool pdl__rates_relevel(pdl__network_t *net);

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
