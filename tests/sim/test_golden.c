/*
 * Golden values of the flow engine: the neutral model on two networks, the half-duplex cluster of GPUs, and set A.
 * Larger machines are in tests/long.
 */
#include "sim_case.h"

#define MIB64 67108864

typedef struct golden {
    sim_case_t run;
    double     time_s, within;
} golden_t;

static void check_all(const golden_t *golden, size_t count)
{
    pdl_sim_options_t options = pdl_sim_options_default();

    for (size_t i = 0; i < count; i++) {
        double time_s = run_case(&golden[i].run, &options);

        if (fabs(time_s - golden[i].time_s) > golden[i].within * golden[i].time_s)
            printf("%s %s, %d hosts:\n", golden[i].run.topology, golden[i].run.algorithm, golden[i].run.hosts);
        CHECK_NEAR(time_s, golden[i].time_s, golden[i].within);
    }
}

#define CASE(shape, p, per, up, name) \
    .run = {.topology = shape, .hosts = p, .per_switch = per, .uplinks = up, .algorithm = name, .bytes = MIB64}
#define DLN(p, name, s)                                         \
    {                                                           \
        CASE("dln", p, 8, 0, name), .time_s = s, .within = 1e-3 \
    }
#define TREE(p, leaf, name, s)                                             \
    {                                                                      \
        CASE("fat-tree", p, leaf, leaf, name), .time_s = s, .within = 1e-3 \
    }

static void neutral_model_on_dln_and_fat_tree(void)
{
    static const golden_t golden[] = {
        DLN(64, "ring", 0.010948),        DLN(256, "ring", 0.012226),         DLN(1024, "ring", 0.016868),
        DLN(64, "hd_near", 0.018820),     DLN(256, "hd_near", 0.019839),      DLN(1024, "hd_near", 0.020103),
        TREE(64, 8, "ring", 0.011074),    TREE(256, 16, "ring", 0.012736),    TREE(1024, 32, "ring", 0.018911),
        TREE(64, 8, "hd_near", 0.010606), TREE(256, 16, "hd_near", 0.010743), TREE(1024, 32, "hd_near", 0.010787),
    };

    check_all(golden, sizeof(golden) / sizeof(golden[0]));
}

static void neutral_model_of_shifted_algorithms(void)
{
    static const golden_t golden[] = {
        DLN(1024, "shd_near", 0.017460),  DLN(1024, "rshd", 0.012008),  DLN(1024, "hd_far", 0.085356),
        DLN(1024, "shd_far", 0.064216),   DLN(4096, "rshd", 0.010801),  DLN(16384, "hd_near", 0.020205),
        DLN(16384, "shd_near", 0.017524), DLN(16384, "rshd", 0.010815),
    };

    check_all(golden, sizeof(golden) / sizeof(golden[0]));
}

/* The triple was measured with SimGrid, which shares links in inverse proportion to latency; the middle value
   shows it. */
static void multi_leader_on_half_duplex_cluster(void)
{
    static const char *const algorithms[] = {"ring", "ring_ring", "ring_rab"};
    static const double      golden[] = {10.926e-3, 6.389e-3, 6.300e-3};
    pdl_sim_options_t        options = pdl_sim_options_default();

    for (int i = 0; i < 3; i++) {
        sim_case_t c = {
            .topology = "tsubame3", .hosts = 256, .per_switch = 4, .algorithm = algorithms[i], .bytes = 33554432};

        options.latency_share = true;
        CHECK_NEAR(run_case(&c, &options), golden[i], 1e-3);
        options.latency_share = false;
        CHECK_NEAR(run_case(&c, &options), golden[i], 2e-3);
    }
}

#define SET_A(shape, p, per, up, name, ms)                                                              \
    {                                                                                                   \
        CASE(shape, p, per, up, name), .run.host_latency_s = 10e-6, .time_s = (ms)*1e-3, .within = 5e-3 \
    }

static void set_a(void)
{
    static const golden_t golden[] = {
        SET_A("fat-tree", 256, 32, 11, "ring", 21.91),    SET_A("dln", 256, 2, 0, "ring", 21.41),
        SET_A("fat-tree", 256, 32, 11, "hd_far", 34.24),  SET_A("dln", 256, 2, 0, "hd_far", 21.68),
        SET_A("dln", 256, 2, 0, "shd_far", 16.40),        SET_A("dln", 256, 2, 0, "rshd", 11.03),
        SET_A("fat-tree", 1024, 32, 11, "ring", 55.74),   SET_A("dln", 1024, 2, 0, "ring", 53.69),
        SET_A("fat-tree", 1024, 32, 11, "hd_far", 38.82), SET_A("dln", 1024, 2, 0, "hd_far", 21.86),
        SET_A("dln", 1024, 2, 0, "shd_far", 16.51),       SET_A("dln", 1024, 2, 0, "rshd", 11.14),
    };

    check_all(golden, sizeof(golden) / sizeof(golden[0]));
}

int main(void)
{
    RUN(neutral_model_on_dln_and_fat_tree);
    RUN(neutral_model_of_shifted_algorithms);
    RUN(multi_leader_on_half_duplex_cluster);
    RUN(set_a);
    return test_done();
}
