/*
 * Trees: the binomial tree, for reduction followed by broadcast, and the double binary tree.
 *
 * The binomial tree broadcasts to the farthest partner first, so that the many messages of the last step stay between
 * neighbours; a reduction is the same backwards in time.
 *
 * The two trees of the latter are the in-order binary tree over 1..P, where odd numbers are leaves, and the same
 * with all ranks moved by one, so that (nearly) every rank is a leaf in one and works in the other. Each tree
 * carries half of the vector in S segments. A child on side e (0 left, 1 right) at depth d of D hands segment s to
 * its parent in step 2s + 2(D-d) + e: parents hear from their children in turn. The result comes back with the same
 * rhythm.
 */
#include "coll/internal.h"

#include <stdlib.h>

#define DEFAULT_SEGMENTS 8

int pdl__binomial_peer(int members, int step, int member, pdl__view_t view)
{
    int stride = 1 << (pdl__rounds(members) - 1 - step), place = member & (2 * stride - 1);

    if (view == PDL__SENDS) return place == 0 && member + stride < members ? member + stride : -1;
    return place == stride ? member - stride : -1;
}

static void emit_tree(const pdl_schedule_t *schedule, int step, int rank, pdl__view_t view, pdl_moves_t *moves)
{
    int  rounds = schedule->steps / 2, peer;
    bool reduce = step < rounds;

    pdl__clear(moves);
    if (reduce) {
        peer = pdl__binomial_peer(schedule->ranks, rounds - 1 - step, rank,
                                  view == PDL__SENDS ? PDL__RECEIVES : PDL__SENDS);
    } else {
        peer = pdl__binomial_peer(schedule->ranks, step - rounds, rank, view);
    }
    if (peer < 0) return;
    pdl__add_move(moves, peer, reduce ? PDL_MOVE_REDUCE : PDL_MOVE_COPY);
    pdl__add_range(moves, 0, 1);
}

pdl_status_t pdl__setup_tree(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    (void)spec;
    schedule->steps = 2 * pdl__rounds(schedule->ranks);
    schedule->blocks = 1;
    schedule->emit = emit_tree;
    return PDL_OK;
}

typedef struct tree_node {
    int parent, child[2], depth;
} tree_node_t; /* ranks; -1: none */

struct pdl__tree {
    int         depth; /* of the deepest node */
    tree_node_t node[];
};

/* Parent of x in the in-order tree over 1..count, 0 for the root. Where the tree over the next power of two has a
   parent beyond count, the nearest ancestor that exists takes its place. */
static int in_order_parent(int x, int count)
{
    for (;;) {
        int low = x & -x;
        int up = (x & (low << 1)) != 0 ? x - low : x + low;

        if (up <= count) return up;
        x = up;
        if ((int64_t)low * 4 > (int64_t)count * 2) return 0;
    }
}

/* Nodes are visited from the root down, so that the depth of a parent is known: in an in-order tree parents are multiples of higher powers of
   two than their children. */
static void build_tree(tree_node_t *node, int count, int shift, int *deepest)
{
    int64_t top = 1;

    for (int r = 0; r < count; r++) node[r] = (tree_node_t){.parent = -1, .child = {-1, -1}};
    while (2 * top <= count) top *= 2;
    for (int64_t low = top; low >= 1; low /= 2)
        for (int64_t x = low; x <= count; x += 2 * low) {
            int rank = pdl__mod((int)x - 1 - shift, count), up = in_order_parent((int)x, count);

            if (up == 0) continue;
            node[rank].parent = pdl__mod(up - 1 - shift, count);
            node[rank].depth = node[node[rank].parent].depth + 1;
            node[node[rank].parent].child[up < x] = rank;
            if (node[rank].depth > *deepest) *deepest = node[rank].depth;
        }
}

/* The segment whose turn it is when the first one passes in step `start`, or -1. */
static int segment_at(const pdl_schedule_t *schedule, int step, int start)
{
    int since = step - start;

    if (since < 0 || (since & 1) != 0 || since / 2 >= schedule->segments) return -1;
    return since / 2;
}

/* The message of a child with its parent, upwards or downwards, if there is one in this step. */
static void add_edge(const pdl_schedule_t *schedule, int which, int child, bool up, int step, int peer,
                     pdl_moves_t *moves)
{
    const pdl__tree_t *tree = schedule->tree;
    const tree_node_t *node = tree->node + (size_t)which * (size_t)schedule->ranks;
    int                side = node[node[child].parent].child[1] == child;
    int start = up ? 2 * (tree->depth - node[child].depth) : 2 * (tree->depth + node[child].depth - 1);
    int segment = segment_at(schedule, step, start + side);

    if (segment < 0) return;
    pdl__add_move(moves, peer, up ? PDL_MOVE_REDUCE : PDL_MOVE_COPY);
    pdl__add_range(moves, (int64_t)which * schedule->segments + segment, 1);
}

static void emit_double_tree(const pdl_schedule_t *schedule, int step, int rank, pdl__view_t view,
                             pdl_moves_t *moves)
{
    bool sends = view == PDL__SENDS;

    pdl__clear(moves);
    for (int which = 0; which < 2; which++) {
        const tree_node_t *node = schedule->tree->node + (size_t)which * (size_t)schedule->ranks + rank;

        if (node->parent >= 0) add_edge(schedule, which, rank, sends, step, node->parent, moves);
        for (int side = 0; side < 2; side++) {
            if (node->child[side] < 0) continue;
            add_edge(schedule, which, node->child[side], !sends, step, node->child[side], moves);
        }
    }
}

/* One more than the last step in which a child gets its last segment. */
static int double_tree_steps(const pdl_schedule_t *schedule)
{
    const pdl__tree_t *tree = schedule->tree;
    int                steps = 0;

    for (int k = 0; k < 2 * schedule->ranks; k++) {
        const tree_node_t *node = &tree->node[k];
        int                last = 2 * (schedule->segments - 1) + 2 * (tree->depth + node->depth - 1);

        for (int side = 0; side < 2; side++) {
            /* The children of this node are one deeper. */
            if (node->child[side] >= 0 && last + 2 + side + 1 > steps) steps = last + 2 + side + 1;
        }
    }
    return steps;
}

pdl_status_t pdl__setup_double_tree(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    int     ranks = schedule->ranks;
    int64_t segments = spec->segments == 0 ? DEFAULT_SEGMENTS : spec->segments;

    if (segments < 1 || segments > PDL__MAX_SEGMENTS) {
        return pdl_error(PDL_ERR_LIMIT, "double_tree does not take %lld segments; it takes 1 to %d",
                         (long long)segments, PDL__MAX_SEGMENTS);
    }
    schedule->tree = malloc(sizeof(pdl__tree_t) + 2 * (size_t)ranks * sizeof(tree_node_t));
    if (schedule->tree == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    schedule->tree->depth = 0;
    build_tree(schedule->tree->node, ranks, 0, &schedule->tree->depth);
    build_tree(schedule->tree->node + ranks, ranks, 1, &schedule->tree->depth);
    schedule->segments = (int)segments;
    schedule->blocks = 2 * segments;
    schedule->steps = double_tree_steps(schedule);
    schedule->emit = emit_double_tree;
    return PDL_OK;
}

void pdl__tree_destroy(pdl__tree_t *tree)
{
    free(tree);
}
