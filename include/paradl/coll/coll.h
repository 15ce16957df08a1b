/*
 * Collective algorithms as schedules: who sends which blocks to whom at which step, and whether they are added or
 * copied on arrival. A schedule is written once and used four times: verified on integers, priced, simulated flow
 * by flow, and executed over a real transport. It is generated step by step and never stored.
 *
 *     pdl_schedule_spec_t spec = {.collective = PDL_COLL_ALLREDUCE, .algorithm = "ring", .ranks = 16};
 *     pdl_schedule_t *schedule;
 *     pdl_schedule_create(&spec, &schedule);
 *     for (int step = 0; step < pdl_schedule_steps(schedule); step++) {
 *         pdl_moves_t moves;
 *         pdl_schedule_sends(schedule, step, rank, &moves);
 *         for (int k = 0; k < moves.move_count; k++) send(moves.move[k].peer, ...);
 *     }
 *     pdl_schedule_destroy(schedule);
 *
 * The vector is cut into pdl_schedule_blocks() blocks: block b of B over n elements starts at floor(b n/B) and ends
 * before floor((b+1) n/B). A move carries one or more ranges of consecutive blocks, cyclic in B. Reduce-scatter
 * ends with rank r owning the block(s) pdl_schedule_owned(); all-to-all counts B = P*P blocks, block s*P + d going
 * from rank s to rank d (fc2: twice as many, two halves of each).
 */
#ifndef PARADL_COLL_H
#define PARADL_COLL_H

#include <paradl/base/status.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pdl_collective {
    PDL_COLL_ALLREDUCE,
    PDL_COLL_REDUCE_SCATTER,
    PDL_COLL_ALLGATHER,
    PDL_COLL_BROADCAST,
    PDL_COLL_ALLTOALL,
    PDL_COLL_COUNT
} pdl_collective_t;
/* allreduce reduce-scatter allgather broadcast alltoall */
extern const char *const pdl_collective_names[PDL_COLL_COUNT];

typedef enum pdl_move_op { PDL_MOVE_COPY, PDL_MOVE_REDUCE } pdl_move_op_t;

typedef struct pdl_block_span {
    int64_t first, count;
} pdl_block_span_t; /* blocks, cyclic */

#define PDL_MAX_MOVES  512  /* of one rank in one step (multi-port algorithms) */
#define PDL_MAX_RANGES 4096 /* of one rank in one step, all moves together */

typedef struct pdl_coll_move {
    int           peer;
    pdl_move_op_t op;
    int           range_first, range_count; /* into the ranges returned with the moves */
} pdl_coll_move_t;

/* Large, and only the counted entries are ever written: keep one and use it again, never clear it. */
typedef struct pdl_moves {
    int              move_count, range_count;
    pdl_coll_move_t  move[PDL_MAX_MOVES];
    pdl_block_span_t range[PDL_MAX_RANGES];
} pdl_moves_t;

#define PDL_COLL_NAME_SIZE 64 /* of an algorithm, its end included */

typedef struct pdl_schedule_spec {
    pdl_collective_t collective;
    const char      *algorithm;
    int64_t          ranks;
    int64_t          hosts_per_switch; /* shd*, rshd, circulant, hierarchical (ranks per node); 0: 1 */
    int64_t          rows,
        columns;         /* shd2d, fc2; kautz: degree in `rows`, 0: that of diameter 2; multiport: side, 0: least */
    int64_t    radix;    /* recmul; 0: 4 */
    int64_t    root;     /* broadcast */
    int64_t    segments; /* pipelining where the algorithm allows it; 0: default, for any size */
    const int *order;    /* ring: permutation of the ranks, or NULL */
} pdl_schedule_spec_t;

typedef struct pdl_schedule pdl_schedule_t;

/* PDL_ERR_LIMIT when the algorithm does not support these ranks; the message says which it does. */
pdl_status_t pdl_schedule_create(const pdl_schedule_spec_t *spec, pdl_schedule_t **schedule);
void         pdl_schedule_destroy(pdl_schedule_t *schedule);

/* Pipelined algorithms (chain, double_tree) without a number of segments get the one that is best for this size where a
   message takes a start-up and its bytes over the rate (0: those of memory inside a node); other specs stay as they are. */
pdl_status_t pdl_schedule_tune(pdl_schedule_spec_t *spec, double bytes, double startup_s, double bytes_per_s);

/* The two calls together, tuned for memory inside a node. */
pdl_status_t pdl_schedule_create_sized(const pdl_schedule_spec_t *spec, double bytes, pdl_schedule_t **schedule);

const char      *pdl_schedule_algorithm(const pdl_schedule_t *schedule);
pdl_collective_t pdl_schedule_collective(const pdl_schedule_t *schedule);
int              pdl_schedule_ranks(const pdl_schedule_t *schedule);
int              pdl_schedule_steps(const pdl_schedule_t *schedule);
int64_t          pdl_schedule_blocks(const pdl_schedule_t *schedule);
int64_t          pdl_schedule_segments(const pdl_schedule_t *schedule); /* 1: not pipelined */

/* What a rank sends, and receives, in a step. Both views describe the same messages: the k-th message from a to
   b is the k-th in both. Written into *moves. */
void pdl_schedule_sends(const pdl_schedule_t *schedule, int step, int rank, pdl_moves_t *moves);
void pdl_schedule_receives(const pdl_schedule_t *schedule, int step, int rank, pdl_moves_t *moves);

/* Blocks a rank owns after a reduce-scatter, or contributes to an allgather; what it has at the start of a
   broadcast or all-to-all. */
void pdl_schedule_owned(const pdl_schedule_t *schedule, int rank, pdl_moves_t *moves);

#define PDL_MAX_PERIODS 8

/* Groups of steps in which every rank sends to the same peers the same number of blocks again and again (rings),
   for the periodic shortcut of the simulator: group k is the steps first[k] <= step < last[k]. Both arrays have
   PDL_MAX_PERIODS entries. Returns the number of groups, in the order of the steps; 0: none known. Equal blocks
   are equal bytes only when the elements are divisible by pdl_schedule_blocks(). */
int pdl_schedule_period(const pdl_schedule_t *schedule, int first[], int last[]);

/* The number of steps after which all messages of a group have the sizes again that they had, for a vector of `elements`
   elements: 1 where blocks are equal, 0 where sizes are not known to repeat. */
int64_t pdl_schedule_size_period(const pdl_schedule_t *schedule, int group, int64_t elements);

/* Whether it is a list of messages that have sizes of their own (pdl_sparse_schedule()), whatever the vector's. */
bool pdl_schedule_listed(const pdl_schedule_t *schedule);

/* Bytes of a range, of a vector of `elements` elements of `element_bytes` bytes. */
int64_t pdl_range_bytes(const pdl_schedule_t *schedule, const pdl_block_span_t *range, int64_t elements,
                        int64_t element_bytes);

/* The elements of every block of a vector (not of all-to-all): in order, or, where every rank has a part of its own
   (reduce-scatter, allgather), in the part of the rank that owns the block. `counts`: elements of these parts; NULL: equal.
   part[r] is then the first element of rank r's, part[ranks] the end; else it is left alone. */
pdl_status_t pdl_schedule_place(const pdl_schedule_t *schedule, int64_t elements, const int64_t *counts,
                                int64_t *part, pdl_block_span_t *block);

/* How often a rank sends every block, found once; then elements of a vector that it sends in all steps. Where every rank has a
   part of its own, `part` says the elements of a rank's, which sum to the vector; NULL: equal ones. */
typedef struct pdl_sends pdl_sends_t;
typedef int64_t (*pdl_part_fn_t)(const void *context, int rank);
pdl_status_t pdl_sends_create(const pdl_schedule_t *schedule, int rank, pdl_sends_t **sends);
int64_t pdl_sends_elements(const pdl_sends_t *sends, int64_t elements, pdl_part_fn_t part, const void *context);
void    pdl_sends_destroy(pdl_sends_t *sends); /* NULL is allowed */

/* Names of the algorithms of a collective; NULL ends the list. */
const char *const *pdl_coll_algorithms(pdl_collective_t collective);
/* What serves sums, scatters and gathers on machines made of nodes, the simplest first; NULL ends the list. Others are for
   particular networks, or are worse than one of these everywhere. Not all exist for all collectives and ranks. */
const char *const *pdl_coll_common(void);
/* Further ones, made for the networks of direct links that a machine may have in place of a tree. */
const char *const *pdl_coll_direct(void);
/* Whether an algorithm is made for several ranks per node, and of no use with one. */
bool pdl_coll_nested(const char *algorithm);
/* One line about an algorithm: what it is, which ranks it supports. */
const char *pdl_coll_describe(pdl_collective_t collective, const char *algorithm);

/* Runs the schedule on integers in memory and compares with the direct result: every block at every rank that
   needs it, every contribution counted exactly once. `elements` need not be divisible. PDL_ERR_INPUT with the
   first mistake found. */
pdl_status_t pdl_schedule_verify(const pdl_schedule_t *schedule, int64_t elements);

/* The price without contention for a vector of `bytes`, by counting: over the steps, the sum of the most
   messages, bytes and reduced bytes of any rank in the step. Algorithms for several ports (kautz, fc2) count the
   busiest port. */
typedef struct pdl_coll_price {
    double startups, bytes, reduced_bytes;
} pdl_coll_price_t;
pdl_coll_price_t pdl_schedule_price(const pdl_schedule_t *schedule, double bytes);

#ifdef __cplusplus
}
#endif
#endif
