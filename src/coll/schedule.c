/*
 * The table of algorithms, and what all schedules have in common.
 */
#include "coll/internal.h"

#include <stdlib.h>
#include <string.h>

const char *const pdl_collective_names[PDL_COLL_COUNT] = {"allreduce", "reduce-scatter", "allgather", "broadcast",
                                                          "alltoall"};

/* Algorithms that are a reduce-scatter and an allgather, either of which can stand alone. */
#define TWO_HALVES(X)                                                                                              \
    X("ring", ring, "blocks go round a ring: least volume, P-1 steps each way; any P")                             \
    X("hd_near", hd_near, "halving-doubling, nearest partner first; a power of two (allreduce: any P by folding)") \
    X("hd_far", hd_far, "halving-doubling, farthest partner first; a power of two (allreduce: any P by folding)")  \
    X("shd_near", shd_near, "shifted halving-doubling, inside the switch first; N and h powers of two")            \
    X("shd_far", shd_far, "shifted halving-doubling, between switches first; N and h powers of two")               \
    X("rshd", rshd, "rotated SHD: every host class starts at another stride; N and h powers of two")               \
    X("circulant", circulant, "halved skips: least volume in ceil(log2 P) steps each way; any P")                  \
    X("shd2d", shd2d, "SHD on a 2-D loop network, rows and columns interleaved; powers of two")                    \
    X("shd2d_plain", shd2d_plain, "SHD on a 2-D loop network, one dimension after the other; powers of two")       \
    X("ring_ring", ring_ring, "rings inside nodes, then rings between ranks of equal place; any n x g")            \
    X("ring_rab", ring_rab, "rings inside nodes, halving-doubling between them; any n x g")                        \
    X("kautz", kautz, "all d ports at once on a Kautz network, k steps each way; P = d^k + d^(k-1)")               \
    X("swing", swing, "butterfly with near partners on a ring or torus; a power of two")                           \
    X("levels", levels, "any nesting, innermost first: levels:ring/4,hd_far/8; any product")

#define ALLREDUCE(X)                                                                                     \
    TWO_HALVES(X)                                                                                        \
    X("rdb", rdb, "recursive doubling of the whole vector, fewest steps; any P by folding")              \
    X("recmul", recmul, "recursive multiplying: recursive doubling in a larger radix; any P by folding") \
    X("ring_rdb", ring_rdb, "rings inside nodes, recursive doubling between them; any n x g")            \
    X("leader", leader, "reduction to one leader per node, ring between leaders, broadcast; any n x g")  \
    X("tree", tree, "binomial tree: reduction, then broadcast; any P")                                   \
    X("double_tree", double_tree, "two pipelined binary trees, half of the vector each; any P")          \
    X("double_ring", double_ring, "two rings in opposite directions, half of the vector each; any P")    \
    X("multiport", multiport, "all ports of a torus (multiport:k, k nodes a side) or hypercube at once; P = k^D")
#define REDUCE_SCATTER(X) TWO_HALVES(X)
#define ALLGATHER(X) \
    TWO_HALVES(X)    \
    X("bruck", bruck_allgather, "doubling to the left, fewest steps; any P")
#define BROADCAST(X)                                                                                 \
    X("binomial", binomial, "binomial tree, fewest steps; any P")                                    \
    X("chain", chain, "pipelined chain of segments; any P")                                          \
    X("scatter_allgather", scatter_allgather, "binomial scatter, then a ring allgather; any P")      \
    X("kautz", kautz_broadcast, "shortest-path tree of a Kautz network, k steps; P = d^k + d^(k-1)") \
    X("kautz_scatter", kautz_scatter, "scatter along that tree, then the Kautz allgather; P = d^k + d^(k-1)")
#define ALLTOALL(X)                                                                        \
    X("pairwise", pairwise, "one block to one partner in each of P-1 steps; any P")        \
    X("bruck", bruck_alltoall, "ceil(log2 P) steps, blocks go several hops; P up to 4096") \
    X("fc2", fc2, "half of each block by rows, half by columns, 2 steps; rows x columns")  \
    X("kautz", kautz_alltoall, "two steps on a Kautz network of diameter 2; P = d(d+1)")

typedef struct algorithm {
    const char     *name;
    pdl__setup_fn_t setup;
    const char     *description;
} algorithm_t;

#define ENTRY(name, setup, text) {name, pdl__setup_##setup, text},
#define NAME(name, setup, text)  name,

static const algorithm_t allreduce[] = {ALLREDUCE(ENTRY){NULL, NULL, NULL}};
static const algorithm_t reduce_scatter[] = {REDUCE_SCATTER(ENTRY){NULL, NULL, NULL}};
static const algorithm_t allgather[] = {ALLGATHER(ENTRY){NULL, NULL, NULL}};
static const algorithm_t broadcast[] = {BROADCAST(ENTRY){NULL, NULL, NULL}};
static const algorithm_t alltoall[] = {ALLTOALL(ENTRY){NULL, NULL, NULL}};

static const algorithm_t *const tables[PDL_COLL_COUNT] = {allreduce, reduce_scatter, allgather, broadcast,
                                                          alltoall};

static const char *const allreduce_names[] = {ALLREDUCE(NAME) NULL};
static const char *const reduce_scatter_names[] = {REDUCE_SCATTER(NAME) NULL};
static const char *const allgather_names[] = {ALLGATHER(NAME) NULL};
static const char *const broadcast_names[] = {BROADCAST(NAME) NULL};
static const char *const alltoall_names[] = {ALLTOALL(NAME) NULL};

static const char *const *const names[PDL_COLL_COUNT] = {allreduce_names, reduce_scatter_names, allgather_names,
                                                         broadcast_names, alltoall_names};

/* Names that carry a shape: "levels:ring/4,hd_far/8", "multiport:4". */
static bool has_shape(const char *name)
{
    return strncmp(name, "levels:", 7) == 0 || strncmp(name, "multiport:", 10) == 0;
}

static const algorithm_t *find(pdl_collective_t collective, const char *name)
{
    size_t length;

    if (collective >= PDL_COLL_COUNT || name == NULL) return NULL;
    length = has_shape(name) ? strcspn(name, ":") : strlen(name);
    for (const algorithm_t *entry = tables[collective]; entry->name != NULL; entry++) {
        if (strlen(entry->name) == length && strncmp(entry->name, name, length) == 0) return entry;
    }
    return NULL;
}

const char *const *pdl_coll_algorithms(pdl_collective_t collective)
{
    static const char *const none[] = {NULL};
    return collective < PDL_COLL_COUNT ? names[collective] : none;
}

const char *const *pdl_coll_common(void)
{
    static const char *const common[] = {"ring",        "hd_near",   "circulant", "rdb", "recmul",
                                         "double_tree", "ring_ring", "ring_rab",  NULL};
    return common;
}

const char *const *pdl_coll_direct(void)
{
    static const char *const direct[] = {"hd_far", "swing", "shd_near",  "shd_far",
                                         "rshd",   "kautz", "multiport", NULL};
    return direct;
}

bool pdl_coll_nested(const char *algorithm)
{
    return strncmp(algorithm, "ring_", 5) == 0 || strcmp(algorithm, "leader") == 0;
}

const char *pdl_coll_describe(pdl_collective_t collective, const char *algorithm)
{
    const algorithm_t *entry = find(collective, algorithm);
    return entry != NULL ? entry->description : NULL;
}

pdl_status_t pdl__unsupported(const pdl_schedule_t *schedule, const char *supported)
{
    return pdl_error(PDL_ERR_LIMIT, "%s %s does not support %d ranks with %d per node; ranks supported: %s",
                     pdl_collective_names[schedule->collective], schedule->name, schedule->ranks, schedule->hosts,
                     supported);
}

pdl_status_t pdl__hosts(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    int64_t hosts = spec->hosts_per_switch == 0 ? 1 : spec->hosts_per_switch;

    if (hosts < 1 || schedule->ranks % hosts != 0) {
        return pdl_error(PDL_ERR_LIMIT, "%s: %lld ranks per node do not divide %d ranks", schedule->name,
                         (long long)hosts, schedule->ranks);
    }
    schedule->hosts = (int)hosts;
    return PDL_OK;
}

static pdl_status_t unknown(const pdl_schedule_spec_t *spec)
{
    char   list[1024] = "";
    size_t used = 0;

    if (spec->collective >= PDL_COLL_COUNT)
        return pdl_error(PDL_ERR_INPUT, "unknown collective %d", spec->collective);
    for (const char *const *name = names[spec->collective]; *name != NULL; name++) {
        size_t length = strlen(*name);
        if (used + length + 2 > sizeof(list)) break;
        if (used > 0) list[used++] = ' ';
        memcpy(list + used, *name, length + 1);
        used += length;
    }
    return pdl_error(PDL_ERR_INPUT, "unknown %s algorithm %s; there are: %s",
                     pdl_collective_names[spec->collective], spec->algorithm != NULL ? spec->algorithm : "(none)",
                     list);
}

static pdl_status_t check_spec(const pdl_schedule_spec_t *spec)
{
    if (strlen(spec->algorithm) >= sizeof(((pdl_schedule_t *)NULL)->name)) {
        return pdl_error(PDL_ERR_LIMIT, "the name of the algorithm is too long: %.40s...", spec->algorithm);
    }
    if (spec->ranks < 1 || spec->ranks > INT32_MAX / 4) {
        return pdl_error(PDL_ERR_LIMIT, "%s: %lld ranks; a collective has 1 to %d", spec->algorithm,
                         (long long)spec->ranks, INT32_MAX / 4);
    }
    if (spec->root < 0 || spec->root >= spec->ranks) {
        return pdl_error(PDL_ERR_INPUT, "%s: root %lld is not one of the ranks 0 to %lld", spec->algorithm,
                         (long long)spec->root, (long long)spec->ranks - 1);
    }
    if (spec->segments < 0 || spec->segments > INT32_MAX / spec->ranks / 4) {
        return pdl_error(PDL_ERR_LIMIT, "%s: %lld segments are too many", spec->algorithm,
                         (long long)spec->segments);
    }
    return PDL_OK;
}

pdl_status_t pdl_schedule_create(const pdl_schedule_spec_t *spec, pdl_schedule_t **result)
{
    const algorithm_t *entry = find(spec->collective, spec->algorithm);
    pdl_schedule_t    *schedule;
    pdl_status_t       status;

    if (entry == NULL) return unknown(spec);
    status = check_spec(spec);
    if (status != PDL_OK) return status;
    schedule = calloc(1, sizeof(*schedule));
    if (schedule == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    strcpy(schedule->name, spec->algorithm);
    schedule->collective = spec->collective;
    schedule->ranks = (int)spec->ranks;
    schedule->root = (int)spec->root;
    schedule->hosts = 1;
    schedule->segments = 1;
    status = entry->setup(schedule, spec);
    if (status != PDL_OK) {
        pdl_schedule_destroy(schedule);
        return status;
    }
    *result = schedule;
    return PDL_OK;
}

void pdl_schedule_destroy(pdl_schedule_t *schedule)
{
    if (schedule == NULL) return;
    pdl__tree_destroy(schedule->tree);
    pdl__list_destroy(schedule->list);
    free(schedule->order);
    free(schedule->position);
    free(schedule);
}

const char *pdl_schedule_algorithm(const pdl_schedule_t *schedule)
{
    return schedule->name;
}

pdl_collective_t pdl_schedule_collective(const pdl_schedule_t *schedule)
{
    return schedule->collective;
}

int pdl_schedule_ranks(const pdl_schedule_t *schedule)
{
    return schedule->ranks;
}

int pdl_schedule_steps(const pdl_schedule_t *schedule)
{
    return schedule->steps;
}

int64_t pdl_schedule_blocks(const pdl_schedule_t *schedule)
{
    return schedule->blocks;
}

void pdl_schedule_sends(const pdl_schedule_t *schedule, int step, int rank, pdl_moves_t *moves)
{
    schedule->emit(schedule, step, rank, PDL__SENDS, moves);
}

void pdl_schedule_receives(const pdl_schedule_t *schedule, int step, int rank, pdl_moves_t *moves)
{
    schedule->emit(schedule, step, rank, PDL__RECEIVES, moves);
}

void pdl_schedule_owned(const pdl_schedule_t *schedule, int rank, pdl_moves_t *moves)
{
    int64_t each = schedule->blocks / schedule->ranks;

    pdl__clear(moves);
    pdl__add_move(moves, rank, PDL_MOVE_COPY);
    switch (schedule->collective) {
    case PDL_COLL_ALLREDUCE: pdl__add_range(moves, 0, schedule->blocks); break;
    case PDL_COLL_BROADCAST:
        if (rank == schedule->root) pdl__add_range(moves, 0, schedule->blocks);
        break;
    case PDL_COLL_ALLTOALL: pdl__add_range(moves, rank * each, each); break;
    default: pdl__add_range(moves, schedule->level_count > 0 ? pdl__levels_owned(schedule, rank) : rank, 1);
    }
}

int pdl_schedule_period(const pdl_schedule_t *schedule, int first[], int last[])
{
    if (schedule->level_count == 0) return 0;
    return pdl__levels_period(schedule, first, last);
}

int64_t pdl_schedule_size_period(const pdl_schedule_t *schedule, int group, int64_t elements)
{
    if (schedule->level_count == 0) return 0;
    return pdl__levels_size_period(schedule, group, elements);
}

bool pdl_schedule_listed(const pdl_schedule_t *schedule)
{
    return schedule->list != NULL;
}

__extension__ typedef __int128 wide_t;

/* The product may need more than 64 bits only where blocks are pairs of very many ranks. */
int64_t pdl__first_element(int64_t block, int64_t blocks, int64_t elements)
{
    int64_t whole = elements / blocks, rest = elements % blocks;

    if (rest != 0 && block > INT64_MAX / rest) return block * whole + (int64_t)((wide_t)block * rest / blocks);
    return block * whole + block * rest / blocks;
}

int64_t pdl_range_bytes(const pdl_schedule_t *schedule, const pdl_block_span_t *range, int64_t elements,
                        int64_t element_bytes)
{
    int64_t blocks = schedule->blocks, first = range->first, end = first + range->count, wrapped = 0;

    if (schedule->list != NULL) return pdl__list_bytes(schedule->list, range);
    if (end > blocks) {
        wrapped = pdl__first_element(end - blocks, blocks, elements);
        end = blocks;
    }
    return (pdl__first_element(end, blocks, elements) - pdl__first_element(first, blocks, elements) + wrapped) *
           element_bytes;
}
