/*
 * What the algorithms made for a network put on its links, counted with the arithmetic of the network itself.
 */
#include "test.h"

#include <paradl/coll/coll.h>
#include <stdlib.h>

static pdl_moves_t moves;

static pdl_schedule_t *create(pdl_schedule_spec_t spec)
{
    pdl_schedule_t *schedule = NULL;

    REQUIRE_OK(pdl_schedule_create(&spec, &schedule));
    return schedule;
}

static int64_t blocks_of(const pdl_coll_move_t *move)
{
    int64_t blocks = 0;

    for (int r = 0; r < move->range_count; r++) blocks += moves.range[move->range_first + r].count;
    return blocks;
}

/* Cable of a full distributed loop network from switch a to b, as 2t (up) or 2t+1 (down); -1: none. */
static int loop_cable(int a, int b, int switches)
{
    for (int t = 0; 1 << t < switches; t++) {
        if ((a + (1 << t)) % switches == b) return 2 * t;
        if ((b + (1 << t)) % switches == a) return 2 * t + 1;
    }
    return -1;
}

/* Blocks on the busiest link, summed over the steps; most flows on a link in a step, with and without the diametral
   cables of a row. */
typedef struct loads {
    int64_t blocks, flows, flows_below;
} loads_t;

/* Loads of the busiest inter-switch link; a switch is row*columns + column of a 2-D network. */
static loads_t count_loads(const pdl_schedule_t *schedule, int rows, int columns, int hosts)
{
    enum { CABLES = 64 };
    int      switches = rows * columns;
    int64_t *blocks = calloc((size_t)switches * CABLES, sizeof(int64_t));
    int     *flows = calloc((size_t)switches * CABLES, sizeof(int));
    loads_t  sum = {0};

    for (int step = 0; step < pdl_schedule_steps(schedule); step++) {
        int64_t most = 0;

        memset(blocks, 0, (size_t)switches * CABLES * sizeof(int64_t));
        memset(flows, 0, (size_t)switches * CABLES * sizeof(int));
        for (int rank = 0; rank < pdl_schedule_ranks(schedule); rank++) {
            pdl_schedule_sends(schedule, step, rank, &moves);
            for (int m = 0; m < moves.move_count; m++) {
                int a = rank / hosts, b = moves.move[m].peer / hosts, cable;

                if (a == b) continue;
                if (a / columns == b / columns) {
                    cable = loop_cable(a % columns, b % columns, columns);
                } else {
                    CHECK_INT(a % columns, b % columns);
                    cable = CABLES / 2 + loop_cable(a / columns, b / columns, rows);
                }
                CHECK(cable != -1 && cable != CABLES / 2 - 1);
                blocks[a * CABLES + cable] += blocks_of(&moves.move[m]);
                flows[a * CABLES + cable]++;
            }
        }
        for (int k = 0; k < switches * CABLES; k++) {
            if (blocks[k] > most) most = blocks[k];
            if (flows[k] > sum.flows) sum.flows = flows[k];
            if ((int64_t)2 << (k % CABLES / 2) < columns && flows[k] > sum.flows_below) sum.flows_below = flows[k];
        }
        sum.blocks += most;
    }
    free(blocks);
    free(flows);
    return sum;
}

static loads_t loop_loads(const char *algorithm, int switches, int hosts)
{
    pdl_schedule_t *schedule = create((pdl_schedule_spec_t){.collective = PDL_COLL_REDUCE_SCATTER,
                                                            .algorithm = algorithm,
                                                            .ranks = switches * hosts,
                                                            .hosts_per_switch = hosts});
    loads_t         loads = count_loads(schedule, 1, switches, hosts);

    pdl_schedule_destroy(schedule);
    return loads;
}

/* In blocks of M/P: HD carries h(1-1/N) M (far) and (1-1/N) M (near), SHD (3/4 - 1/(2N)) in the place of
   (1-1/N). */
static void shifting_saves_a_quarter(void)
{
    for (int n = 2; n <= 256; n *= 2) {
        for (int h = 2; h <= 8; h *= 2) {
            int64_t hd_far = loop_loads("hd_far", n, h).blocks, hd_near = loop_loads("hd_near", n, h).blocks;
            int64_t shd_far = loop_loads("shd_far", n, h).blocks, shd_near = loop_loads("shd_near", n, h).blocks;

            CHECK_INT(hd_far, h * h * (n - 1));
            CHECK_INT(hd_near, h * (n - 1));
            CHECK_INT(shd_far * 4 * (n - 1), hd_far * (3 * n - 2));
            CHECK_INT(shd_near * 4 * (n - 1), hd_near * (3 * n - 2));
            CHECK_INT(loop_loads("circulant", n, h).blocks, shd_near);
        }
    }
}

static void rotation_removes_contention(void)
{
    static const struct {
        int switches, hosts;
    } cases[] = {{4, 2}, {16, 2}, {16, 4}, {32, 4}, {64, 4}, {256, 8}, {512, 8}, {1024, 8}};

    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        loads_t loads = loop_loads("rshd", cases[k].switches, cases[k].hosts);
        /* (1-1/N)/h of the vector: what every host sends through its own link. */
        CHECK_INT(loads.blocks, cases[k].switches - 1);
        CHECK_INT(loads.flows, 1);
    }
    /* With up to 2 log2 N hosts two flows meet, and only on the diametral cables, which have no other direction. */
    CHECK_INT(loop_loads("rshd", 64, 8).flows, 2);
    CHECK_INT(loop_loads("rshd", 64, 8).flows_below, 1);
    CHECK_INT(loop_loads("rshd", 16, 8).flows, 2);
    CHECK_INT(loop_loads("rshd", 16, 8).flows_below, 1);
}

static loads_t grid_loads(const char *algorithm, int rows, int columns, int hosts)
{
    pdl_schedule_t *schedule = create((pdl_schedule_spec_t){.collective = PDL_COLL_REDUCE_SCATTER,
                                                            .algorithm = algorithm,
                                                            .ranks = rows * columns * hosts,
                                                            .hosts_per_switch = hosts,
                                                            .rows = rows,
                                                            .columns = columns});
    loads_t         loads = count_loads(schedule, rows, columns, hosts);

    pdl_schedule_destroy(schedule);
    return loads;
}

static void two_dimensions_interleave(void)
{
    for (int n = 4; n <= 32; n *= 2) {
        int    h = 4;
        double share = 0.75 + 1 / (4.0 * n) - 1 / (2.0 * n * n);

        CHECK_NEAR((double)grid_loads("shd2d_plain", n, n, h).blocks / (n * n * h), share, 1e-12);
        CHECK_NEAR((double)grid_loads("shd2d", n, n, h).blocks / (n * n * h), share / 2, 1e-12);
    }
}

/* Smallest and largest load of an arc, and the number of arcs that carry something. */
typedef struct arcs {
    int64_t least, most, used;
} arcs_t;

static arcs_t arc_loads(const pdl_schedule_t *schedule, int first_step, int last_step)
{
    size_t   ranks = (size_t)pdl_schedule_ranks(schedule);
    int64_t *load = calloc(ranks * ranks, sizeof(int64_t));
    arcs_t   arcs = {INT64_MAX, 0, 0};

    for (int step = first_step; step < last_step; step++) {
        for (int rank = 0; rank < (int)ranks; rank++) {
            pdl_schedule_sends(schedule, step, rank, &moves);
            for (int m = 0; m < moves.move_count; m++) {
                load[(size_t)rank * ranks + (size_t)moves.move[m].peer] += blocks_of(&moves.move[m]);
            }
        }
    }
    for (size_t k = 0; k < ranks * ranks; k++) {
        if (load[k] == 0) continue;
        arcs.used++;
        if (load[k] < arcs.least) arcs.least = load[k];
        if (load[k] > arcs.most) arcs.most = load[k];
    }
    free(load);
    return arcs;
}

/* Arcs of K(d,2) lead from word ab to words bx; index of ab is a*d + (b < a ? b : b-1). */
static void kautz_keeps_to_the_arcs(void)
{
    for (pdl_collective_t c = PDL_COLL_ALLREDUCE; c < PDL_COLL_COUNT; c++) {
        pdl_schedule_t *schedule =
            create((pdl_schedule_spec_t){.collective = c, .algorithm = "kautz", .ranks = 20, .root = 7});

        for (int step = 0; step < pdl_schedule_steps(schedule); step++) {
            for (int rank = 0; rank < 20; rank++) {
                int a = rank / 4, b = rank % 4 + (rank % 4 >= a);

                pdl_schedule_sends(schedule, step, rank, &moves);
                for (int m = 0; m < moves.move_count; m++) CHECK_INT(moves.move[m].peer / 4, b);
            }
        }
        pdl_schedule_destroy(schedule);
    }
}

static void kautz_of_272(void)
{
    pdl_schedule_spec_t spec = {.collective = PDL_COLL_ALLGATHER, .algorithm = "kautz", .ranks = 272};
    pdl_schedule_t     *schedule = create(spec);
    arcs_t              arcs = arc_loads(schedule, 0, 2);

    CHECK_INT(arcs.used, 4352);
    CHECK_INT(arcs.least, 16);
    CHECK_INT(arcs.most, 17);
    pdl_schedule_destroy(schedule);

    spec.collective = PDL_COLL_REDUCE_SCATTER;
    schedule = create(spec);
    CHECK_INT(arc_loads(schedule, 0, 1).most, 16);
    CHECK_INT(arc_loads(schedule, 1, 2).most, 1);
    CHECK_INT(arc_loads(schedule, 0, 2).most, 17);
    pdl_schedule_destroy(schedule);

    spec.collective = PDL_COLL_ALLTOALL;
    schedule = create(spec);
    arcs = arc_loads(schedule, 0, 2);
    CHECK_INT(arcs.used, 4352);
    CHECK_INT(arcs.least, 31);
    CHECK_INT(arcs.most, 33);
    pdl_schedule_destroy(schedule);
}

static void kautz_of_any_diameter(void)
{
    static const struct {
        int degree, diameter, ranks;
    } cases[] = {{2, 3, 12}, {3, 3, 36}, {2, 4, 24}, {4, 3, 80}};

    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        pdl_schedule_t *schedule = create((pdl_schedule_spec_t){.collective = PDL_COLL_ALLGATHER,
                                                                .algorithm = "kautz",
                                                                .ranks = cases[k].ranks,
                                                                .rows = cases[k].degree});
        int64_t         most = 1;

        CHECK_INT(pdl_schedule_steps(schedule), cases[k].diameter);
        for (int step = 0; step < cases[k].diameter; step++, most *= cases[k].degree) {
            CHECK_INT(arc_loads(schedule, step, step + 1).most, most);
        }
        pdl_schedule_destroy(schedule);
    }
}

/* n blocks on every link, n halves and one in the first step, n halves less one in the second. */
static void fully_connected_is_balanced(void)
{
    for (int n = 2; n <= 32; n = n < 8 ? n + 1 : 2 * n) {
        pdl_schedule_t *schedule = create((pdl_schedule_spec_t){
            .collective = PDL_COLL_ALLTOALL, .algorithm = "fc2", .ranks = n * n, .rows = n, .columns = n});

        for (int step = 0; step < 2; step++) {
            arcs_t arcs = arc_loads(schedule, step, step + 1);
            CHECK_INT(arcs.least, step == 0 ? n + 1 : n - 1);
            CHECK_INT(arcs.most, step == 0 ? n + 1 : n - 1);
            CHECK_INT(arcs.used, 2 * n * n * (n - 1));
        }
        CHECK_INT(arc_loads(schedule, 0, 2).least, 2 * n);
        CHECK_INT(arc_loads(schedule, 0, 2).most, 2 * n);
        pdl_schedule_destroy(schedule);
    }
}

/* Messages between the halves of the ranks, over all steps of a tree: one each way, since far partners come first. */
static void a_binomial_tree_crosses_the_middle_once(void)
{
    static const struct {
        pdl_collective_t collective;
        const char      *name;
        int              crossings;
    } trees[] = {{PDL_COLL_BROADCAST, "binomial", 1}, {PDL_COLL_ALLREDUCE, "tree", 2}};

    for (int t = 0; t < 2; t++) {
        pdl_schedule_t *schedule = create(
            (pdl_schedule_spec_t){.collective = trees[t].collective, .algorithm = trees[t].name, .ranks = 64});
        int steps = pdl_schedule_steps(schedule), crossings = 0;

        for (int step = 0; step < steps; step++) {
            for (int rank = 0; rank < 64; rank++) {
                pdl_schedule_sends(schedule, step, rank, &moves);
                for (int m = 0; m < moves.move_count; m++) crossings += rank / 32 != moves.move[m].peer / 32;
            }
        }
        CHECK_INT(crossings, trees[t].crossings);
        pdl_schedule_destroy(schedule);
    }
}

int main(void)
{
    RUN(a_binomial_tree_crosses_the_middle_once);
    RUN(shifting_saves_a_quarter);
    RUN(rotation_removes_contention);
    RUN(two_dimensions_interleave);
    RUN(kautz_keeps_to_the_arcs);
    RUN(kautz_of_272);
    RUN(kautz_of_any_diameter);
    RUN(fully_connected_is_balanced);
    return test_done();
}
