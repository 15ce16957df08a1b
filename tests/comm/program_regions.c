/*
 * Under mpirun: moves of regions. Every member knows all regions and all values, so it can find out element by
 * element what should arrive.
 */
#include <paradl/comm/regions.h>

#include "ranks.h"

#include <stdlib.h>

#define CASES       1000
#define GROUP_CASES 100
#define MOST        1500 /* elements of a tensor */
#define MEMBERS     8

/* The same numbers on every rank. */
static uint64_t state = 88172645463325252u;

static int64_t draw(int64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int64_t)(state >> 11) % below;
}

/* ------------------------------------------------------------------ regions, the obvious way */

/* A tensor with the regions of all members. */
typedef struct layout_case {
    int          dims;
    int64_t      extent[PDL_REGION_DIMS], elements;
    pdl_region_t own[MEMBERS], need[MEMBERS];
} layout_case_t;

/* What follows from it. */
typedef struct truth {
    int64_t *own[MEMBERS], *need[MEMBERS]; /* the elements of a region as places in the tensor, in order */
    int64_t  owns[MEMBERS], needs[MEMBERS];
    bool    *has[MEMBERS]; /* whether the member owns a place */
    int     *lowest;       /* owner of a place, or -1 */
} truth_t;

static int64_t *places_of(const layout_case_t *c, const pdl_region_t *region, int64_t *count)
{
    int64_t *place = malloc(sizeof(*place));
    int64_t  n = 1;

    place[0] = 0;
    for (int d = 0; d < c->dims; d++) {
        int64_t  more = n * pdl_region_extent(region, d), k = 0;
        int64_t *next = malloc((size_t)(more + 1) * sizeof(*next));

        for (int64_t i = 0; i < n; i++) {
            for (int s = 0; s < region->segments[d]; s++) {
                for (int64_t x = region->range[d][s].low; x < region->range[d][s].high; x++)
                    next[k++] = place[i] * c->extent[d] + x;
            }
        }
        free(place);
        place = next;
        n = more;
    }
    *count = n;
    return place;
}

static void find_truth(const layout_case_t *c, truth_t *t)
{
    t->lowest = malloc((size_t)c->elements * sizeof(*t->lowest));
    for (int64_t i = 0; i < c->elements; i++) t->lowest[i] = -1;
    for (int r = 0; r < size; r++) {
        t->own[r] = places_of(c, &c->own[r], &t->owns[r]);
        t->need[r] = places_of(c, &c->need[r], &t->needs[r]);
        t->has[r] = calloc((size_t)c->elements, sizeof(*t->has[r]));
        for (int64_t i = 0; i < t->owns[r]; i++) {
            t->has[r][t->own[r][i]] = true;
            if (t->lowest[t->own[r][i]] < 0) t->lowest[t->own[r][i]] = r;
        }
    }
}

static void free_truth(truth_t *t)
{
    for (int r = 0; r < size; r++) {
        free(t->own[r]);
        free(t->need[r]);
        free(t->has[r]);
    }
    free(t->lowest);
}

/* The member that gives a place to member r; -1: nobody. */
static int giver(const truth_t *t, int r, int64_t place)
{
    return t->has[r][place] ? r : t->lowest[place];
}

static float whole_value(int64_t place, int member, int round)
{
    return (float)((place * 7 + member * 13 + round * 5 + place % 11 * member) % 64 - 20);
}

/* Of very different magnitudes, so that every order of additions gives other bits. */
static float rough_value(int64_t place, int member, int round)
{
    uint32_t x = (uint32_t)place * 2654435761u + (uint32_t)(member * 97 + round) * 40503u;

    x ^= x >> 13;
    x *= 2246822519u;
    return ldexpf((float)((x >> 8) + 1), (int)(x % 24) - 24);
}

typedef float (*value_fn_t)(int64_t place, int member, int round);

static float *values_at(const int64_t *place, int64_t count, value_fn_t value, int round)
{
    float *data = malloc((size_t)count * sizeof(*data));

    for (int64_t i = 0; i < count; i++) data[i] = value(place[i], rank, round);
    return data;
}

static float *poisoned(int64_t count)
{
    float *data = malloc((size_t)count * sizeof(*data));

    for (int64_t i = 0; i < count; i++) data[i] = NAN;
    return data;
}

static float *expected_need(const truth_t *t, value_fn_t value, int round)
{
    float *data = calloc((size_t)t->needs[rank] + 1, sizeof(*data));

    for (int64_t i = 0; i < t->needs[rank]; i++) {
        int from = giver(t, rank, t->need[rank][i]);

        if (from >= 0) data[i] = value(t->need[rank][i], from, round);
    }
    return data;
}

/* Contributions in the order of the ranks. */
static float *expected_own(const layout_case_t *c, const truth_t *t, value_fn_t value, int round)
{
    float *sum = calloc((size_t)c->elements, sizeof(*sum)),
          *data = calloc((size_t)t->owns[rank] + 1, sizeof(*data));

    for (int r = 0; r < size; r++) {
        for (int64_t i = 0; i < t->needs[r]; i++) {
            int64_t place = t->need[r][i];

            if (giver(t, r, place) == rank) sum[place] += value(place, r, round);
        }
    }
    for (int64_t i = 0; i < t->owns[rank]; i++) data[i] = sum[t->own[rank][i]];
    free(sum);
    return data;
}

static int64_t expected_bytes(const truth_t *t, int backward)
{
    int64_t elements = 0;

    for (int r = 0; r < size; r++) {
        for (int64_t i = 0; i < t->needs[r]; i++) {
            int from = giver(t, r, t->need[r][i]);

            if (from >= 0 && from != r) elements += (backward ? r : from) == rank;
        }
    }
    return elements * (int64_t)sizeof(float);
}

/* ------------------------------------------------------------------ one case */

static bool same(const float *a, const float *b, int64_t count)
{
    return count == 0 || memcmp(a, b, (size_t)count * sizeof(*a)) == 0;
}

static double dot(const float *a, const float *b, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

/* Between the halves of a forward the target holds what the member takes from itself. */
static void check_halfway(const truth_t *t, const float *need, const float *right)
{
    int64_t wrong = 0;

    for (int64_t i = 0; i < t->needs[rank]; i++) wrong += t->has[rank][t->need[rank][i]] && need[i] != right[i];
    CHECK_INT(wrong, 0);
}

static void check_forward(pdl_move_t *move, const truth_t *t, value_fn_t value, int round)
{
    float *own = values_at(t->own[rank], t->owns[rank], value, round), *need = poisoned(t->needs[rank]);
    float *right = expected_need(t, value, round);

    CHECK_OK(pdl_move_start(move, NULL, own, need, 0));
    check_halfway(t, need, right);
    CHECK_OK(pdl_move_finish(move));
    CHECK(same(need, right, t->needs[rank]));
    free(own);
    free(need);
    free(right);
}

static void check_backward(pdl_move_t *move, const layout_case_t *c, const truth_t *t, value_fn_t value, int round)
{
    float *need = values_at(t->need[rank], t->needs[rank], value, round), *own = poisoned(t->owns[rank]);
    float *right = expected_own(c, t, value, round);

    CHECK_OK(pdl_move_backward(move, NULL, need, own));
    CHECK(same(own, right, t->owns[rank]));
    free(own);
    free(need);
    free(right);
}

/* <A x, y> = <x, A^T y>, exactly, because these are integers. */
static void check_adjoint(pdl_move_t *move, const truth_t *t, double products[2])
{
    float *x = values_at(t->own[rank], t->owns[rank], whole_value, 3), *ax = poisoned(t->needs[rank]);
    float *y = values_at(t->need[rank], t->needs[rank], whole_value, 4), *aty = poisoned(t->owns[rank]);

    CHECK_OK(pdl_move_forward(move, NULL, x, ax));
    CHECK_OK(pdl_move_backward(move, NULL, y, aty));
    products[0] += dot(ax, y, t->needs[rank]);
    products[1] += dot(x, aty, t->owns[rank]);
    free(x);
    free(ax);
    free(y);
    free(aty);
}

static void check_case(const layout_case_t *c, int number)
{
    pdl_move_t *move = NULL;
    truth_t     t;
    double      products[2] = {0};
    int         before = test_failures;

    find_truth(c, &t);
    REQUIRE_OK(pdl_move_create(&(pdl_move_spec_t){.group = ranks, .own = c->own, .need = c->need}, &move));
    if (move == NULL) pdl_ranks_abort(ranks, PDL_ERR_INPUT);
    check_forward(move, &t, whole_value, 1);
    check_backward(move, c, &t, whole_value, 2);
    check_backward(move, c, &t, rough_value, 5);
    check_adjoint(move, &t, products);
    CHECK_OK(pdl_ranks_sum(ranks, products, 2));
    CHECK_NEAR(products[0], products[1], 0);
    CHECK_INT(pdl_move_bytes(move, 0), expected_bytes(&t, 0));
    CHECK_INT(pdl_move_bytes(move, 1), expected_bytes(&t, 1));
    if (size == 1) CHECK_INT(pdl_move_buffer_bytes(move), 0);
    pdl_move_destroy(move);
    free_truth(&t);
    if (test_failures > before) printf("rank %d: case %d\n", rank, number);
}

/* ------------------------------------------------------------------ random cases */

static pdl_range_t block(int64_t n, int64_t b, int64_t blocks)
{
    return (pdl_range_t){b * n / blocks, (b + 1) * n / blocks};
}

static void draw_tensor(layout_case_t *c)
{
    *c = (layout_case_t){.dims = 1 + (int)draw(PDL_REGION_DIMS), .elements = 1};
    for (int d = 0; d < c->dims; d++) {
        int64_t most = MOST / c->elements < 24 ? MOST / c->elements : 24;

        c->extent[d] = 1 + draw(most);
        c->elements *= c->extent[d];
    }
}

static pdl_region_t whole(const layout_case_t *c)
{
    pdl_region_t region = {.rank = c->dims};

    for (int d = 0; d < c->dims; d++) {
        region.segments[d] = 1;
        region.range[d][0].high = c->extent[d];
    }
    return region;
}

static pdl_region_t cut(const layout_case_t *c, int d, int64_t b, int64_t blocks)
{
    pdl_region_t region = whole(c);

    region.range[d][0] = block(c->extent[d], b, blocks);
    return region;
}

static void widen(const layout_case_t *c, pdl_region_t *region, int d, int64_t below, int64_t above)
{
    pdl_range_t *range = &region->range[d][0];

    range->low = range->low > below ? range->low - below : 0;
    range->high = range->high + above < c->extent[d] ? range->high + above : c->extent[d];
}

/* Pieces may be thinner than the halo, even empty. */
static void draw_halo(layout_case_t *c)
{
    int     d = (int)draw(c->dims);
    int64_t below = draw(5), above = draw(5);

    for (int r = 0; r < size; r++) {
        c->own[r] = c->need[r] = cut(c, d, r, size);
        widen(c, &c->need[r], d, below, above);
    }
}

/* A grid of pieces with halos on both sides: corners come from a third neighbour. */
static void draw_grid(layout_case_t *c)
{
    int     rows = size % 2 == 0 ? 2 : 1, columns = size / rows, d = (int)draw(c->dims), e = (int)draw(c->dims);
    int64_t halo = 1 + draw(2);

    for (int r = 0; r < size; r++) {
        c->own[r] = cut(c, d, r % columns, columns);
        if (e != d) c->own[r].range[e][0] = block(c->extent[e], r / columns, rows);
        c->need[r] = c->own[r];
        widen(c, &c->need[r], d, halo, halo);
        if (e != d) widen(c, &c->need[r], e, halo, halo);
    }
}

/* S(i) to S(j), gather and slice; pieces of a tensor that few members share are replicated. */
static void draw_redistribution(layout_case_t *c)
{
    int i = (int)draw(c->dims), j = (int)draw(c->dims), before = 1 + (int)draw(size), after = 1 + (int)draw(size);

    for (int r = 0; r < size; r++) {
        c->own[r] = cut(c, i, r % before, before);
        c->need[r] = cut(c, j, (r + 1) % after, after);
    }
}

/* The first dimensions in stretches, each cut by itself, as queries, keys and values are by heads. */
static void stretches(const layout_case_t *c, pdl_region_t *region, int d, int count, int64_t b, int64_t blocks)
{
    *region = whole(c);
    region->segments[d] = count;
    for (int s = 0; s < count; s++) {
        pdl_range_t stretch = block(c->extent[d], s, count), part = block(stretch.high - stretch.low, b, blocks);

        region->range[d][s] = (pdl_range_t){stretch.low + part.low, stretch.low + part.high};
    }
}

static void draw_segments(layout_case_t *c)
{
    int d = (int)draw(c->dims), before = 1 + (int)draw(4), after = 1 + (int)draw(4), other = (int)draw(c->dims);
    int kind = (int)draw(3);

    for (int r = 0; r < size; r++) {
        stretches(c, &c->own[r], d, before, r, size);
        if (kind == 0) c->need[r] = whole(c);
        if (kind == 1) c->need[r] = cut(c, other, r, size);
        if (kind == 2) stretches(c, &c->need[r], other, after, size - 1 - r, size);
    }
}

/* Anything at all: needs of up to four ranges in every dimension, owners with gaps between them. */
static void draw_anything(layout_case_t *c)
{
    int d = (int)draw(c->dims);

    for (int r = 0; r < size; r++) {
        c->own[r] = cut(c, d, r, size);
        if (draw(4) == 0) c->own[r].range[d][0].high = c->own[r].range[d][0].low;
        c->need[r] = (pdl_region_t){.rank = c->dims};
        for (int e = 0; e < c->dims; e++) {
            int64_t next = 0;

            c->need[r].segments[e] = 1 + (int)draw(PDL_REGION_SEGMENTS);
            for (int s = 0; s < c->need[r].segments[e]; s++) {
                int64_t low = next + draw((c->extent[e] - next) / 2 + 1), high = low + draw(c->extent[e] - low + 1);

                c->need[r].range[e][s] = (pdl_range_t){low, high};
                next = high;
            }
        }
    }
}

static void draw_case(layout_case_t *c)
{
    draw_tensor(c);
    switch (draw(5)) {
    case 0: draw_halo(c); break;
    case 1: draw_grid(c); break;
    case 2: draw_redistribution(c); break;
    case 3: draw_segments(c); break;
    default: draw_anything(c); break;
    }
}

static void random_regions_arrive(void)
{
    for (int i = 0; i < CASES; i++) {
        layout_case_t c;

        draw_case(&c);
        check_case(&c, i);
    }
}

/* Every other rank, in reverse; both groups at the same time. */
static void random_regions_arrive_in_groups(void)
{
    pdl_ranks_t *all = ranks;
    uint64_t     kept = state;

    if (pdl_ranks_split(all, rank % 2, -rank, &ranks) != PDL_OK) pdl_ranks_abort(all, PDL_ERR_IO);
    rank = pdl_ranks_rank(ranks);
    size = pdl_ranks_size(ranks);
    for (int i = 0; i < GROUP_CASES; i++) {
        layout_case_t c;

        draw_case(&c);
        check_case(&c, i);
    }
    pdl_ranks_destroy(ranks);
    ranks = all;
    rank = pdl_ranks_rank(ranks);
    size = pdl_ranks_size(ranks);
    state = kept;
}

/* Pieces large enough for messages that MPI does not send at once; two moves under way, finished in another
   order. */
static void two_moves_at_once(void)
{
    layout_case_t c = {.dims = 4, .extent = {2, 6, 40, 50}, .elements = 24000}, gather;
    truth_t       t, all;
    pdl_move_t   *halo = NULL, *whole_one = NULL;

    for (int r = 0; r < size; r++) {
        c.own[r] = c.need[r] = cut(&c, 2, r, size);
        widen(&c, &c.need[r], 2, 2, 1);
    }
    gather = c;
    for (int r = 0; r < size; r++) gather.need[r] = whole(&c);
    find_truth(&c, &t);
    find_truth(&gather, &all);
    REQUIRE_OK(pdl_move_create(&(pdl_move_spec_t){.group = ranks, .own = c.own, .need = c.need}, &halo));
    REQUIRE_OK(pdl_move_create(&(pdl_move_spec_t){.group = ranks, .own = c.own, .need = gather.need}, &whole_one));
    for (int round = 0; round < 5; round++) {
        float *own = values_at(t.own[rank], t.owns[rank], rough_value, round);
        float *need = poisoned(t.needs[rank]), *everything = poisoned(c.elements);
        float *right = expected_need(&t, rough_value, round), *all_right = expected_need(&all, rough_value, round);

        CHECK_OK(pdl_move_start(halo, NULL, own, need, 0));
        CHECK_OK(pdl_move_start(whole_one, NULL, own, everything, 0));
        CHECK_OK(pdl_move_finish(whole_one));
        CHECK_OK(pdl_move_finish(halo));
        CHECK(same(need, right, t.needs[rank]));
        CHECK(same(everything, all_right, c.elements));
        check_backward(whole_one, &gather, &all, rough_value, round);
        free(own);
        free(need);
        free(everything);
        free(right);
        free(all_right);
    }
    pdl_move_destroy(halo);
    pdl_move_destroy(whole_one);
    free_truth(&t);
    free_truth(&all);
}

static void expect_refusal(const layout_case_t *c, const char *part)
{
    pdl_move_t *move = NULL;

    CHECK_ERROR(pdl_move_create(&(pdl_move_spec_t){.group = ranks, .own = c->own, .need = c->need}, &move), part);
    CHECK(move == NULL);
}

static void wrong_regions_are_refused(void)
{
    layout_case_t good = {.dims = 2, .extent = {10, 10}, .elements = 100}, c;
    int           last = size - 1;

    for (int r = 0; r < size; r++) good.own[r] = good.need[r] = cut(&good, 0, r, size);
    c = good;
    c.need[last].range[1][0].low = -1;
    expect_refusal(&c, "expected increasing ranges from 0");
    c = good;
    c.own[last].range[1][0] = (pdl_range_t){6, 5};
    expect_refusal(&c, "is [6, 5)");
    c = good;
    c.need[last].segments[0] = 2;
    expect_refusal(&c, "range 1 of dimension 0 is [0, 0)");
    c = good;
    c.need[last].segments[1] = PDL_REGION_SEGMENTS + 1;
    expect_refusal(&c, "dimension 1 has 5 ranges: expected 0 to 4");
    c = good;
    c.own[last].segments[1] = -1;
    expect_refusal(&c, "has -1 ranges");
    c = good;
    c.own[0].rank = PDL_REGION_DIMS + 1;
    expect_refusal(&c, "the region that member 0 owns has 6 dimensions: expected 1 to 5");
    c = good;
    c.need[last].rank = 1;
    expect_refusal(&c, "needs has 1 dimensions, that of member 0 has 2");
    c = good;
    c.need[0].range[0][0] = c.need[0].range[1][0] = (pdl_range_t){0, (int64_t)1 << 31};
    expect_refusal(&c, "more than 2305843009213693951 elements");
    c = good;
    if (size > 1) {
        c.own[last].range[0][0].low--;
        expect_refusal(&c, "own regions that overlap and are not equal");
    }
}

static void halves_come_in_pairs(void)
{
    layout_case_t c = {.dims = 1, .extent = {10}, .elements = 10};
    pdl_move_t   *move = NULL;
    float         own[10] = {0}, need[10];

    for (int r = 0; r < size; r++) c.own[r] = c.need[r] = cut(&c, 0, r, size);
    REQUIRE_OK(pdl_move_create(&(pdl_move_spec_t){.group = ranks, .own = c.own, .need = c.need}, &move));
    CHECK_ERROR(pdl_move_finish(move), "before it was started");
    CHECK_OK(pdl_move_start(move, NULL, own, need, 0));
    CHECK_ERROR(pdl_move_start(move, NULL, own, need, 1), "before it was finished");
    CHECK_OK(pdl_move_finish(move));
    pdl_move_destroy(move);
    pdl_move_destroy(NULL);
}

/* Small integers are the upper halves of floats; 256 + 1 has no room in one, 256 + 1 + 1 has. */
static uint16_t upper_half(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

static void short_elements_are_added_in_full(void)
{
    static const float rounded[5] = {256, 256, 258, 260,
                                     260}; /* 256 and a one from each of so many others, ties to even */
    layout_case_t      c = {.dims = 2, .extent = {37, 21}, .elements = 777};
    pdl_move_t        *move = NULL;
    uint16_t           own[777], need[777];
    int                others = size - 1;

    for (int r = 0; r < size; r++) {
        c.own[r] = cut(&c, 1, r, size);
        c.need[r] = whole(&c);
    }
    if (others > 4) return;
    int64_t owned = pdl_region_elements(&c.own[rank]), low = c.own[rank].range[1][0].low, wide = owned / 37;
    CHECK_OK(
        pdl_move_create(&(pdl_move_spec_t){.group = ranks, .own = c.own, .need = c.need, .type = PDL_DTYPE_BF16},
                        &move));
    for (int64_t i = 0; i < owned; i++) own[i] = upper_half((float)(i / wide + low + i % wide));
    CHECK_OK(pdl_move_forward(move, NULL, own, need));
    for (int i = 0; i < 777; i++) CHECK_INT(need[i], upper_half((float)(i / 21 + i % 21)));
    for (int i = 0; i < 777; i++) need[i] = upper_half(rank == 0 ? 256 : 1);
    CHECK_OK(pdl_move_backward(move, NULL, need, own));
    for (int64_t i = 0; i < owned; i++) CHECK_INT(own[i], upper_half(rounded[others]));
    CHECK_INT(pdl_move_bytes(move, 0), 2 * owned * others);
    pdl_move_destroy(move);
}

int main(void)
{
    if (!begin_ranks()) return 1;
    RUN(random_regions_arrive);
    RUN(random_regions_arrive_in_groups);
    RUN(two_moves_at_once);
    RUN(wrong_regions_are_refused);
    RUN(halves_come_in_pairs);
    RUN(short_elements_are_added_in_full);
    return end_ranks();
}
