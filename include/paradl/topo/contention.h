/*
 * Self-contention: how much slower messages of one job are because they share links with each other.
 *
 * phi comes from placement and routes, never from a constant: the messages of one step of every
 * concurrently active group are laid over the links of the machine tree, max-min fair rates are found by
 * progressive filling, and time advances from completion to completion. phi is the time of the
 * step over the time that a message on the slowest of the routes takes alone; it multiplies beta of that step.
 *
 * Routes are static. Up to its lowest common level a message uses, on each level, one link out of the sender's
 * group and one into the receiver's group. devices are spread over the ports of their node in blocks (devices 0 and 1 on
 * the first of two ports, 2 and 3 on the second); the ports of nodes over the links of higher groups one by one in
 * turn. A device with several links of its own (a mesh inside the node) uses one per partner. Where a system has a `network`, a
 * message takes the network's own route between the two ports of the outermost level.
 */
#ifndef PARADL_CONTENTION_H
#define PARADL_CONTENTION_H

#include <paradl/base/status.h>
#include <paradl/system/system.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Max-min fair rates of flows over links. Flow f crosses route[start[f]] .. route[start[f+1]-1]; a flow
   without links gets an infinite rate. It stands for times[f] such flows, or for one where times is NULL. rates has `flows` entries,
   the rate of each of them. */
pdl_status_t pdl_maxmin_rates(int links, const double *capacity, int flows, const int *start, const int *route,
                              const int *times, double *rates);

typedef struct pdl_message {
    int64_t from, to;
    double  bytes;
} pdl_message_t;

/* Time (without start-up) until each of the messages is through, all starting together; finish_s may be NULL.
   `host_path` uses the levels of transfers staged through host memory. */
pdl_status_t pdl_contention_run(const pdl_system_t *system, bool host_path, const pdl_message_t *messages,
                                int count, double *finish_s, double *last_s);

typedef enum pdl_pattern {
    PDL_PATTERN_RING,       /* each rank sends to its successor in the group */
    PDL_PATTERN_NEIGHBOURS, /* to both neighbours at once, not around the end: halo exchange. phi covers both
                              directions, so a cost formula must not count them again */
    PDL_PATTERN_PAIRWISE    /* all-to-all: the worst of the pairwise steps, in step t rank i sends to i + t. Beyond
                              128 ranks only the steps near the middle and near each level's size are compared,
                              unless the middle one already loads every level as far as is possible */
} pdl_pattern_t;

/* Groups of a mesh axis: p ranks on devices 0..p-1, the axis has `size` ranks that are `stride` devices apart; all
   p/size groups are active at once, or the first `concurrent` of them in the order of their first device. */
typedef struct pdl_contention_query {
    int64_t       pe_count, size, stride;
    int64_t       concurrent; /* groups active at once; 0: all */
    pdl_pattern_t pattern;
    bool          host_path;
} pdl_contention_query_t;

typedef struct pdl_contention_answer {
    double  phi;                 /* time of the step over the time alone of a message on the slowest route, >= 1 */
    double  seconds_per_byte;    /* of the step: phi over the bandwidth of that route */
    int     level;               /* the highest level a message crosses; 0 when there is no message */
    int     bottleneck_level;    /* where the busiest link is, and ... */
    int64_t bottleneck_messages; /* ... how many messages share it */
    double  latency_s; /* longest way over a network that is not a tree, beside the start-up of the level */
} pdl_contention_answer_t;

/* Messages of one step are equally large; then the step ends when the busiest link has carried its messages,
   and counting them is as exact as pdl_contention_run(). The counting uses that the pattern and the machine
   repeat, so that it takes microseconds for any number of devices. On a network that is not a tree all messages are counted, and
   pairwise steps, which are not alike there, give their mean. */
pdl_status_t pdl_contention_explain(const pdl_system_t *system, const pdl_contention_query_t *query,
                                    pdl_contention_answer_t *answer);

/* What the links of the first group of every level carry in one step, for steps in which other groups carry no more: those
   of collectives. On a network that is not a tree, all links and the messages of all devices. The messages of a few devices are looked at, so that it takes as long for any machine: those of the first ones,
   and for groups that are larger others spread over the group, whose messages share its links evenly. */
typedef struct pdl_step_loads pdl_step_loads_t;
pdl_status_t pdl_step_loads_create(const pdl_system_t *system, int64_t pe_count, pdl_step_loads_t **loads);
void         pdl_step_loads_destroy(pdl_step_loads_t *loads); /* NULL is allowed */
/* The devices whose messages are to be added, 0 <= place < pdl_step_loads_places(). */
int     pdl_step_loads_places(const pdl_step_loads_t *loads);
int64_t pdl_step_loads_pe(const pdl_step_loads_t *loads, int place);
/* The device of this place sends (or, `in`, receives) so much to (from) `peer`. */
void pdl_step_loads_add(pdl_step_loads_t *loads, int place, int64_t peer, bool in, double amount);
/* Ends the step: the most seconds that a link needs for its amounts, at efficiency[level] of its bandwidth, the highest level
   that was crossed, and the latency of the longest way over a network that is not a tree. */
double pdl_step_loads_end(pdl_step_loads_t *loads, const double efficiency[PDL_MAX_LEVELS], int *level,
                          double *latency_s);

/* The same latency for one message; 0 on trees. */
pdl_status_t pdl_contention_latency(const pdl_system_t *system, int64_t from, int64_t to, double *latency_s);

/* The two numbers most callers need. */
pdl_status_t pdl_contention_phi(const pdl_system_t *system, const pdl_contention_query_t *query, double *phi,
                                int *level);

#ifdef __cplusplus
}
#endif
#endif
