/*
 * What the files of the coll module share. An algorithm is a set-up function that fills in the schedule: number of
 * steps and blocks, and the function that emits one step of one rank, seen as its sends or as its receives.
 *
 * Most algorithms are compositions of levels (levels.c): reduce-scatter inside level 0, then 1, ..., then allgather
 * back. A level has `size` members that differ in one digit of the rank, and describes only its allgather; the
 * reduce-scatter is the same backwards in time.
 */
#ifndef PDL_COLL_INTERNAL_H
#define PDL_COLL_INTERNAL_H

#include <paradl/coll/coll.h>
#include <stddef.h>

#define PDL__MAX_LEVELS   8
#define PDL__MAX_SEGMENTS (1 << 20) /* of pipelined algorithms */
#define PDL__MAX_SKIPS    33        /* of the circulant algorithm: halvings of an int */

typedef enum pdl__view { PDL__SENDS, PDL__RECEIVES } pdl__view_t;

typedef void (*pdl__emit_fn_t)(const pdl_schedule_t *schedule, int step, int rank, pdl__view_t view,
                               pdl_moves_t *moves);

/* One message of a level, in indices and blocks of that level: blocks base + (first + j) mod modulus, j < count. */
typedef struct pdl__part {
    int peer;
    int base, first, count, modulus;
} pdl__part_t;

typedef struct pdl__level pdl__level_t;

/* Step `step` of the allgather of a level at member `index` of host class `host`. */
typedef void (*pdl__gather_fn_t)(const pdl__level_t *level, int step, int index, int host, pdl__view_t view,
                                 pdl__part_t *part);

typedef int (*pdl__label_fn_t)(const pdl__level_t *level, int index, int host);

struct pdl__level {
    pdl__gather_fn_t gather;
    int              size, stride; /* digit of the rank: rank / stride mod size */
    int              steps;
    int              bits;     /* log2 size, for sizes that are powers of two */
    int              shift;    /* log2 stride, or -1: divide */
    bool             forward;  /* reduce-scatter goes the same way round as the allgather (rings) */
    bool             mirrored; /* odd host classes go the other way round */
    pdl__label_fn_t  label;    /* block that a member owns; NULL: the one of its own number */
    int              skip[PDL__MAX_SKIPS];
    int64_t          segment; /* blocks of the vector that one block of the level stands for */
};

typedef struct pdl__tree pdl__tree_t;
typedef struct pdl__list pdl__list_t;

struct pdl_schedule {
    /* For every algorithm. */
    char             name[PDL_COLL_NAME_SIZE];
    pdl_collective_t collective;
    int              ranks, steps;
    int64_t          blocks;
    bool             multiport; /* priced by the busiest port instead of the busiest rank */
    pdl__emit_fn_t   emit;
    int              root;
    int              hosts; /* per switch or node */

    /* Compositions of levels; host classes with bit 1 set use order[1] where there are two orders. */
    pdl__level_t level[2][PDL__MAX_LEVELS];
    int          level_count, gather_steps;
    bool         two_orders;
    int          segments;
    int          before, between; /* steps of another kind before the levels and between their two phases */

    /* Ranks beyond the largest size an algorithm supports fold into a neighbour: survivors + extra = members. */
    int  survivors, extra;
    bool fold_ranks; /* the members are the ranks themselves (and not the nodes) */

    int *order, *position; /* of a ring, and its inverse */

    int          radix, rounds;    /* recursive doubling and multiplying */
    int          rows, columns;    /* fc2 */
    int          degree, diameter; /* kautz */
    int          scatter_steps;    /* broadcast by scatter and allgather; kautz broadcast */
    pdl__tree_t *tree;             /* double_tree */
    pdl__list_t *list;             /* messages with sizes of their own */
};

typedef pdl_status_t (*pdl__setup_fn_t)(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec);

/* The non-negative remainder, also for negative a. */
static inline int pdl__mod(int a, int n)
{
    int rest = a % n;
    return rest < 0 ? rest + n : rest;
}

static inline bool pdl__is_power_of_two(int64_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

/* floor(log2 n), n > 0. */
static inline int pdl__log2(int64_t n)
{
    int bits = 0;

    while (n > 1) {
        n >>= 1;
        bits++;
    }
    return bits;
}

/* ceil(log2 n), n > 0: rounds of a binomial tree. */
static inline int pdl__rounds(int64_t n)
{
    return pdl__log2(n) + (pdl__is_power_of_two(n) ? 0 : 1);
}

/* The lowest `bits` bits of a value in the opposite order. */
static inline int pdl__reverse_bits(int value, int bits)
{
    unsigned int v = (unsigned int)value;

    if (bits == 0) return 0;
    v = (v >> 16) | (v << 16);
    v = ((v & 0xff00ff00u) >> 8) | ((v & 0x00ff00ffu) << 8);
    v = ((v & 0xf0f0f0f0u) >> 4) | ((v & 0x0f0f0f0fu) << 4);
    v = ((v & 0xccccccccu) >> 2) | ((v & 0x33333333u) << 2);
    v = ((v & 0xaaaaaaaau) >> 1) | ((v & 0x55555555u) << 1);
    return (int)(v >> (32 - bits));
}

static inline void pdl__clear(pdl_moves_t *moves)
{
    moves->move_count = 0;
    moves->range_count = 0;
}

/* Opens a move; the ranges added afterwards belong to it. */
static inline void pdl__add_move(pdl_moves_t *moves, int peer, pdl_move_op_t op)
{
    pdl_coll_move_t *move = &moves->move[moves->move_count++];

    move->peer = peer;
    move->op = op;
    move->range_first = moves->range_count;
    move->range_count = 0;
}

static inline void pdl__add_range(pdl_moves_t *moves, int64_t first, int64_t count)
{
    pdl_block_span_t *range = &moves->range[moves->range_count++];

    range->first = first;
    range->count = count;
    moves->move[moves->move_count - 1].range_count++;
}

/* Takes back a move that got no range. */
static inline void pdl__drop_if_empty(pdl_moves_t *moves)
{
    if (moves->move[moves->move_count - 1].range_count == 0) moves->move_count--;
}

/* levels.c */
void pdl__level_add(pdl_schedule_t *schedule, int order, int at, pdl__gather_fn_t gather, int size, int stride,
                    int steps);
pdl_status_t pdl__levels_finish(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec, int level_count);
void         pdl__levels_phase(const pdl_schedule_t *schedule, bool gather, int step, int segment, int rank,
                               pdl__view_t view, pdl_moves_t *moves);
int64_t      pdl__levels_owned(const pdl_schedule_t *schedule, int rank);
int          pdl__levels_period(const pdl_schedule_t *schedule, int first[], int last[]);
int64_t      pdl__levels_size_period(const pdl_schedule_t *schedule, int group, int64_t elements);

/* Kinds of levels. */
void pdl__gather_ring(const pdl__level_t *, int step, int index, int host, pdl__view_t view, pdl__part_t *part);
void pdl__gather_far(const pdl__level_t *, int step, int index, int host, pdl__view_t view, pdl__part_t *part);
void pdl__gather_near(const pdl__level_t *, int step, int index, int host, pdl__view_t view, pdl__part_t *part);
void pdl__gather_shifted(const pdl__level_t *, int step, int index, int host, pdl__view_t view, pdl__part_t *part);
void pdl__gather_rotated(const pdl__level_t *, int step, int index, int host, pdl__view_t view, pdl__part_t *part);
void pdl__gather_circulant(const pdl__level_t *, int step, int index, int host, pdl__view_t view,
                           pdl__part_t *part);
void pdl__gather_swing(const pdl__level_t *, int step, int index, int host, pdl__view_t view, pdl__part_t *part);
void pdl__gather_bruck(const pdl__level_t *, int step, int index, int host, pdl__view_t view, pdl__part_t *part);

int pdl__label_near(const pdl__level_t *, int index, int host);
int pdl__label_rotated(const pdl__level_t *, int index, int host);

void pdl__level_add_ring(pdl_schedule_t *schedule, int at, int size, int stride);
void pdl__level_add_circulant(pdl_schedule_t *schedule, int at, int size, int stride);
/* Halving inside groups of `size` ranks: by powers of two, or by the circulant algorithm. */
void pdl__level_add_halving(pdl_schedule_t *schedule, int order, int at, int size, int stride);

/* Folding of members 2i+1, i < extra, into 2i, and the way between members and survivors. */
static inline int pdl__unfold(int extra, int survivor)
{
    return survivor < extra ? 2 * survivor : survivor + extra;
}

static inline int pdl__fold(int extra, int member)
{
    return member < 2 * extra ? member / 2 : member - extra;
}

static inline bool pdl__is_folded(int extra, int member)
{
    return member < 2 * extra && (member & 1) != 0;
}

/* doubling.c: one step of recursive doubling or multiplying among members 0..survivors+extra-1, whole messages
   of the given range. `stride` and `offset` turn a member into a rank. */
void pdl__doubling_setup(pdl_schedule_t *schedule, int members, int radix);
int  pdl__doubling_steps(const pdl_schedule_t *schedule);
void pdl__doubling_emit(const pdl_schedule_t *schedule, int step, int member, int stride, int offset,
                        pdl_block_span_t range, pdl__view_t view, pdl_moves_t *moves);

/* tree.c: one step of a binomial broadcast (or, backwards, reduction) from member 0 of `members`. Returns the peer,
   or -1 where the member does nothing. */
int  pdl__binomial_peer(int members, int step, int member, pdl__view_t view);
void pdl__tree_destroy(pdl__tree_t *tree);

/* listed.c */
void    pdl__list_destroy(pdl__list_t *list); /* NULL is allowed */
int64_t pdl__list_bytes(const pdl__list_t *list, const pdl_block_span_t *range);

/* schedule.c: first element of block b of B over n elements, floor(b n / B). */
int64_t pdl__first_element(int64_t block, int64_t blocks, int64_t elements);
/* Messages about what an algorithm supports. */
pdl_status_t pdl__unequal_parts(const pdl_schedule_t *schedule);
pdl_status_t pdl__unsupported(const pdl_schedule_t *schedule, const char *supported);
/* Ranks per node or switch of the specification, checked to divide the ranks. */
pdl_status_t pdl__hosts(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec);

/* Set-up functions of the algorithms, in the order of the table in schedule.c. */
pdl_status_t pdl__setup_ring(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_rdb(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_recmul(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_hd_near(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_hd_far(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_shd_near(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_shd_far(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_rshd(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_circulant(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_shd2d(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_shd2d_plain(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_ring_ring(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_ring_rab(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_ring_rdb(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_leader(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_levels(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_swing(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_bruck_allgather(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_tree(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_double_ring(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_multiport(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_double_tree(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_binomial(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_chain(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_scatter_allgather(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_pairwise(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_bruck_alltoall(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_fc2(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_kautz(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_kautz_broadcast(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_kautz_scatter(pdl_schedule_t *, const pdl_schedule_spec_t *);
pdl_status_t pdl__setup_kautz_alltoall(pdl_schedule_t *, const pdl_schedule_spec_t *);

#endif
