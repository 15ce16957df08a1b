/*
 * Set A at 4,096 ranks, with and without the periodic shortcut, and the longest rings step by step.
 */
#include "../sim/sim_case.h"

#define MIB64 67108864

static void set_a_at_4096(void)
{
    static const struct {
        const char *topology, *algorithm;
        int         per_switch, uplinks;
        double      ms;
    } golden[] = {{"fat-tree", "ring", 32, 11, 190.91},  {"dln", "ring", 2, 0, 182.72},
                  {"fat-tree", "hd_far", 32, 11, 39.99}, {"dln", "hd_far", 2, 0, 21.97},
                  {"dln", "shd_far", 2, 0, 16.61},       {"dln", "rshd", 2, 0, 11.24}};

    for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
        sim_case_t        c = {.topology = golden[i].topology,
                               .hosts = 4096,
                               .per_switch = golden[i].per_switch,
                               .uplinks = golden[i].uplinks,
                               .algorithm = golden[i].algorithm,
                               .bytes = MIB64,
                               .host_latency_s = 10e-6};
        pdl_sim_options_t options = pdl_sim_options_default();
        double            time_s = run_case(&c, &options);

        CHECK_NEAR(time_s, golden[i].ms * 1e-3, 5e-3);
        options.periodic = false;
        CHECK_NEAR(run_case(&c, &options), time_s, 0);
    }
}

int main(void)
{
    RUN(set_a_at_4096);
    return test_done();
}
