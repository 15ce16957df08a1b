/*
 * Multi-port collectives on the Kautz digraph K(d,k): words of k letters over 0..d without equal neighbours, arcs
 * v_1..v_k -> v_2..v_k x. Shortest paths are unique, so the paths from a node form a tree, and so do the paths to
 * it.
 *
 * Allgather: in step j every block makes the j-th hop of its shortest paths. Reduce-scatter: the contributions to a
 * block run down the shortest paths to its owner, those from the farthest nodes first. Both keep to the direction
 * of the arcs, use all d ports of every node at once, and take k steps.
 */
#include "coll/internal.h"

#define MAX_DIAMETER 12

typedef struct word {
    int letter[MAX_DIAMETER];
} word_t;

/* Words are numbered by their first letter and, for each later letter, its place among those allowed there. */
static word_t word_of(const pdl_schedule_t *schedule, int index)
{
    int    degree = schedule->degree;
    word_t word;

    for (int j = schedule->diameter - 1; j > 0; j--) {
        word.letter[j] = index % degree;
        index /= degree;
    }
    word.letter[0] = index;
    for (int j = 1; j < schedule->diameter; j++) word.letter[j] += word.letter[j] >= word.letter[j - 1];
    return word;
}

static int index_of(const pdl_schedule_t *schedule, const word_t *word)
{
    int index = word->letter[0];

    for (int j = 1; j < schedule->diameter; j++) {
        index = index * schedule->degree + word->letter[j] - (word->letter[j] > word->letter[j - 1]);
    }
    return index;
}

/* Letters of `to` that have to be appended to `from`: the fewest such that the rest of `from` begins `to`. */
static int distance(const pdl_schedule_t *schedule, const word_t *from, const word_t *to)
{
    int k = schedule->diameter;

    for (int hops = 0; hops < k; hops++) {
        int j = 0;
        while (j < k - hops && from->letter[hops + j] == to->letter[j]) j++;
        if (j == k - hops) return hops;
    }
    return k;
}

/* The d neighbours that a node sends to (or hears from), in ascending order of the letter that changes. */
static int neighbour(const pdl_schedule_t *schedule, const word_t *word, int port, pdl__view_t view, word_t *next)
{
    int k = schedule->diameter;

    if (view == PDL__SENDS) {
        for (int j = 1; j < k; j++) next->letter[j - 1] = word->letter[j];
        next->letter[k - 1] = port + (port >= word->letter[k - 1]);
    } else {
        for (int j = 1; j < k; j++) next->letter[j] = word->letter[j - 1];
        next->letter[0] = port + (port >= word->letter[0]);
    }
    return index_of(schedule, next);
}

/*
 * Allgather, hop j of blocks on the arc from -> to: owners u at distance j of `to` whose word ends with the first
 * k-j+1 letters of `from`; the j-1 letters before are free. They are numbered by those letters.
 */
static void add_gathered(const pdl_schedule_t *schedule, int hop, const word_t *from, const word_t *to,
                         pdl_moves_t *moves)
{
    int k = schedule->diameter, degree = schedule->degree, choices = 1;

    for (int j = 1; j < hop; j++) choices *= degree;
    for (int choice = 0; choice < choices; choice++) {
        word_t owner;
        int    rest = choice;

        for (int j = hop - 1; j < k; j++) owner.letter[j] = from->letter[j - hop + 1];
        for (int j = hop - 2; j >= 0; j--) {
            owner.letter[j] = rest % degree + (rest % degree >= owner.letter[j + 1]);
            rest /= degree;
        }
        if (distance(schedule, &owner, to) != hop) continue;
        pdl__add_range(moves, index_of(schedule, &owner), 1);
    }
}

/* Reduce-scatter, contributions that have `hops` more hops to go on the arc from -> to: owners at that distance
   of `from` whose word begins with the last k-hops+1 letters of `to`. */
static void add_scattered(const pdl_schedule_t *schedule, int hops, const word_t *from, const word_t *to,
                          pdl_moves_t *moves)
{
    int k = schedule->diameter, degree = schedule->degree, choices = 1;

    for (int j = 1; j < hops; j++) choices *= degree;
    for (int choice = 0; choice < choices; choice++) {
        word_t owner;
        int    rest = choice;

        for (int j = 0; j <= k - hops; j++) owner.letter[j] = to->letter[hops - 1 + j];
        for (int j = k - hops + 1; j < k; j++) {
            owner.letter[j] = rest % degree + (rest % degree >= owner.letter[j - 1]);
            rest /= degree;
        }
        if (distance(schedule, from, &owner) != hops) continue;
        pdl__add_range(moves, index_of(schedule, &owner), 1);
    }
}

static void emit_half(const pdl_schedule_t *schedule, bool gather, int step, int rank, pdl__view_t view,
                      pdl_moves_t *moves)
{
    word_t self = word_of(schedule, rank), other;

    for (int port = 0; port < schedule->degree; port++) {
        int           peer = neighbour(schedule, &self, port, view, &other);
        const word_t *from = view == PDL__SENDS ? &self : &other, *to = view == PDL__SENDS ? &other : &self;

        pdl__add_move(moves, peer, gather ? PDL_MOVE_COPY : PDL_MOVE_REDUCE);
        if (gather) {
            add_gathered(schedule, step + 1, from, to, moves);
        } else {
            add_scattered(schedule, schedule->diameter - step, from, to, moves);
        }
        pdl__drop_if_empty(moves);
    }
}

static void emit(const pdl_schedule_t *schedule, int step, int rank, pdl__view_t view, pdl_moves_t *moves)
{
    bool gather = schedule->collective == PDL_COLL_ALLGATHER ||
                  (schedule->collective == PDL_COLL_ALLREDUCE && step >= schedule->diameter);

    pdl__clear(moves);
    emit_half(schedule, gather, step % schedule->diameter, rank, view, moves);
}

/* Broadcast: nodes at distance `step` of the root pass on to those one hop further. When scattering, a node gets
   only the blocks of the nodes behind it, then everything is gathered. */
static void emit_broadcast(const pdl_schedule_t *schedule, int step, int rank, pdl__view_t view, pdl_moves_t *moves)
{
    word_t root = word_of(schedule, schedule->root), self = word_of(schedule, rank), other;
    int    away = distance(schedule, &root, &self);

    pdl__clear(moves);
    if (step >= schedule->diameter) {
        emit_half(schedule, true, step - schedule->diameter, rank, view, moves);
        return;
    }
    if (away != (view == PDL__SENDS ? step : step + 1)) return;
    for (int port = 0; port < schedule->degree; port++) {
        int           peer = neighbour(schedule, &self, port, view, &other);
        const word_t *child = view == PDL__SENDS ? &other : &self;

        if (distance(schedule, &root, &other) != (view == PDL__SENDS ? step + 1 : step)) continue;
        pdl__add_move(moves, peer, PDL_MOVE_COPY);
        if (schedule->scatter_steps == 0) {
            pdl__add_range(moves, 0, 1);
            continue;
        }
        for (int owner = 0; owner < schedule->ranks; owner++) {
            word_t word = word_of(schedule, owner);
            int    whole = distance(schedule, &root, &word);
            if (whole - step - 1 != distance(schedule, child, &word)) continue;
            pdl__add_range(moves, owner, 1);
        }
    }
}

/* All-to-all on K(d,2) (on K(d,1) the first step is enough), the arc ab -> bx: first the block of ab for bx and
   those for nodes xz; then what the nodes ya have sent for bx by way of ab. */
static void emit_alltoall(const pdl_schedule_t *schedule, int step, int rank, pdl__view_t view, pdl_moves_t *moves)
{
    word_t  self = word_of(schedule, rank), other, far;
    int64_t ranks = schedule->ranks;

    pdl__clear(moves);
    for (int port = 0; port < schedule->degree; port++) {
        int           peer = neighbour(schedule, &self, port, view, &other);
        const word_t *a = view == PDL__SENDS ? &self : &other, *b = view == PDL__SENDS ? &other : &self;
        int           from = view == PDL__SENDS ? rank : peer, to = view == PDL__SENDS ? peer : rank;

        pdl__add_move(moves, peer, PDL_MOVE_COPY);
        if (step == 0) pdl__add_range(moves, from * ranks + to, 1);
        for (int second = 0; schedule->diameter == 2 && second < schedule->degree; second++) {
            int third =
                neighbour(schedule, step == 0 ? b : a, second, step == 0 ? PDL__SENDS : PDL__RECEIVES, &far);
            if (third == (step == 0 ? from : to)) continue;
            pdl__add_range(moves, step == 0 ? from * ranks + third : third * ranks + to, 1);
        }
        pdl__drop_if_empty(moves);
    }
}

/* Finds the degree (when not given, for diameter 2) and the diameter that belong to the number of ranks. */
static pdl_status_t find_shape(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    int64_t degree = spec->rows, count;
    int     diameter = 1;

    if (degree == 0) {
        while (degree * (degree + 1) < schedule->ranks) degree++;
    }
    for (count = degree + 1; degree > 1 && count < schedule->ranks && diameter < MAX_DIAMETER; diameter++) {
        count *= degree;
    }
    if (degree < 1 || count != schedule->ranks) {
        return pdl__unsupported(schedule, "d^k + d^(k-1), with the degree d given unless k is 2");
    }
    if (schedule->ranks > PDL_MAX_RANGES || degree > PDL_MAX_MOVES) {
        return pdl__unsupported(schedule, "up to 4096 of degree 512 at most");
    }
    schedule->degree = (int)degree;
    schedule->diameter = diameter;
    schedule->multiport = true;
    schedule->blocks = schedule->ranks;
    schedule->steps = diameter;
    return PDL_OK;
}

pdl_status_t pdl__setup_kautz(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    pdl_status_t status = find_shape(schedule, spec);

    if (status != PDL_OK) return status;
    if (schedule->collective == PDL_COLL_ALLREDUCE) schedule->steps = 2 * schedule->diameter;
    schedule->emit = emit;
    return PDL_OK;
}

pdl_status_t pdl__setup_kautz_broadcast(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    pdl_status_t status = find_shape(schedule, spec);

    if (status != PDL_OK) return status;
    schedule->blocks = 1;
    schedule->emit = emit_broadcast;
    return PDL_OK;
}

pdl_status_t pdl__setup_kautz_scatter(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    pdl_status_t status = find_shape(schedule, spec);

    if (status != PDL_OK) return status;
    schedule->scatter_steps = schedule->diameter;
    schedule->steps = 2 * schedule->diameter;
    schedule->emit = emit_broadcast;
    return PDL_OK;
}

pdl_status_t pdl__setup_kautz_alltoall(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    pdl_status_t status = find_shape(schedule, spec);

    if (status != PDL_OK) return status;
    if (schedule->diameter > 2) return pdl__unsupported(schedule, "d(d+1), a network of diameter 2, or d+1");
    schedule->blocks = (int64_t)schedule->ranks * schedule->ranks;
    schedule->emit = emit_alltoall;
    return PDL_OK;
}
