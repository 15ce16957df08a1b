/*
 * Out-of-core chains: the test vectors of the method, the search beside all policies tried, and what does not fit.
 */
#include "test.h"

#include <paradl/oracle/chain.h>

static const double forward[] = {4, 6, 6, 5, 5, 4, 3, 3}, backward[] = {8, 12, 12, 10, 10, 8, 6, 6},
                    bytes[] = {400, 360, 300, 260, 200, 160, 120, 80},
                    boundary[] = {20, 40, 36, 30, 26, 20, 16, 12};

static pdl_chain_block_t vector[8];

static pdl_chain_t vector_chain(double memory, double rate)
{
    for (int i = 0; i < 8; i++)
        vector[i] = (pdl_chain_block_t){forward[i], backward[i], bytes[i], boundary[i], 0, 0};
    return (pdl_chain_t){.block = vector, .count = 8, .memory_bytes = memory, .out_rate = rate, .in_rate = rate};
}

/* K, S, R, B for the boundary, C for what is cheap. */
static pdl_memory_policy_t policy_of(char letter)
{
    return letter == 'K'   ? PDL_MEMORY_KEEP
           : letter == 'S' ? PDL_MEMORY_SWAP
           : letter == 'R' ? PDL_MEMORY_RECOMPUTE
           : letter == 'C' ? PDL_MEMORY_RECOMPUTE_CHEAP
                           : PDL_MEMORY_SWAP_BOUNDARY;
}

static void check_plan(const pdl_chain_t *chain, const char *plan, double step_s, double peak)
{
    pdl_memory_policy_t policy[8];
    pdl_chain_result_t  result;
    double              stall[8], stalls = 0;
    int                 after[8], before[8];
    pdl_chain_detail_t  detail = {stall, after, before};

    for (int i = 0; i < 8; i++) policy[i] = policy_of(plan[i]);
    REQUIRE_OK(pdl_chain_simulate(chain, policy, &result, &detail));
    CHECK_NEAR(result.step_s, step_s, 0);
    CHECK_NEAR(result.peak_bytes, peak, 0);
    for (int i = 0; i < 8; i++) {
        stalls += stall[i];
        CHECK(after[i] >= 1 && after[i] <= 15 - i && before[i] >= 1 && before[i] <= (i < 7 ? 7 - i : 1));
    }
    CHECK_NEAR(stalls, result.stall_s, 1e-12);
    CHECK_NEAR(result.in_core_s + result.recompute_s + result.stall_s, result.step_s, 1e-12);
}

/* Numbers of the published description; "B" was not part of it. */
static void vectors_are_met(void)
{
    static const struct {
        double      memory, rate, swap_s, swap_peak;
        const char *capacity;
        double      capacity_s, capacity_peak;
        const char *keep;
        double      keep_s, keep_peak;
        const char *best;
        double      best_s, best_peak;
    } rows[] = {
        {900, 16, 247, 820, "SSSKKKKK", 175.75, 820, "RRRRKKKK", 129, 686, "RRSRKKKK", 124.75, 870},
        {900, 32, 137.75, 820, "SSSSSKKK", 120.25, 820, "RRRRKKKK", 129, 686, "SRSKKKKK", 114.5, 860},
        {1200, 16, 247, 1120, "SSKKKKKK", 137, 1120, "RRKKKKKK", 118, 1180, "RSKRKKKK", 117, 1190},
        {700, 16, 265, 660, "SSSSKKKK", 214.75, 660, "RRRRKKKK", 129, 686, "RRRRKKKK", 129, 686},
        {700, 8, 500, 660, "SSSSKKKK", 378, 660, "RRRRKKKK", 129, 686, "RRRRKKKK", 129, 686},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        pdl_chain_t         chain = vector_chain(rows[i].memory, rows[i].rate);
        pdl_memory_policy_t policy[8], keep[8] = {PDL_MEMORY_KEEP};
        pdl_chain_result_t  result;

        check_plan(&chain, "SSSSSSSS", rows[i].swap_s, rows[i].swap_peak);
        check_plan(&chain, "RRRRRRRR", 144, 400);
        check_plan(&chain, rows[i].capacity, rows[i].capacity_s, rows[i].capacity_peak);
        check_plan(&chain, rows[i].keep, rows[i].keep_s, rows[i].keep_peak);
        check_plan(&chain, rows[i].best, rows[i].best_s, rows[i].best_peak);
        CHECK_INT(pdl_chain_simulate(&chain, keep, &result, NULL), PDL_ERR_UNSUPPORTED);
        REQUIRE_OK(pdl_chain_solve(&chain, policy, &result));
        CHECK(result.step_s <= rows[i].best_s && result.peak_bytes <= rows[i].memory);
    }
}

static uint64_t drawn = 7;

static double draw(double low, double high)
{
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(drawn >> 11) / 9007199254740992.0;
}

static void draw_chain(pdl_chain_block_t *block, int count, bool cheap, double least, double most,
                       pdl_chain_t *chain)
{
    double sum = 0, largest = 0;

    for (int i = 0; i < count; i++) {
        double seconds = draw(1, 10), size = draw(40, 400);
        block[i] = (pdl_chain_block_t){seconds, 2 * seconds, size, size * draw(0, 0.2), 0, 0};
        if (cheap) block[i].cheap_bytes = size * draw(0.4, 0.8), block[i].cheap_s = seconds * draw(0.05, 0.3);
        sum += size;
        if (size > largest) largest = size;
    }
    double memory = sum * draw(least, most);
    *chain = (pdl_chain_t){.block = block,
                           .count = count,
                           .memory_bytes = memory > largest ? memory : largest,
                           .out_rate = draw(8, 64),
                           .latency_s = 0.01};
    chain->in_rate = chain->out_rate * draw(0.8, 1.2);
}

/* The best of all plans over `kinds` policies. */
static double brute_force(const pdl_chain_t *chain, int kinds)
{
    pdl_memory_policy_t policy[8];
    pdl_chain_result_t  result;
    double              best = INFINITY;
    int                 plans = 1;

    for (int i = 0; i < chain->count; i++) plans *= kinds;
    for (int k = 0; k < plans; k++) {
        for (int i = 0, rest = k; i < chain->count; i++, rest /= kinds)
            policy[i] = (pdl_memory_policy_t)(rest % kinds);
        if (pdl_chain_simulate(chain, policy, &result, NULL) == PDL_OK && result.step_s < best)
            best = result.step_s;
    }
    return best;
}

static double best_rule(const pdl_chain_t *chain)
{
    pdl_memory_policy_t policy[256];
    pdl_chain_result_t  result;
    double              best = INFINITY;

    for (int rule = 1; rule < PDL_MEMORY_POLICY_COUNT; rule++)
        for (int count = 0; count <= chain->count; count++) {
            for (int i = 0; i < chain->count; i++)
                policy[i] = i < count ? (pdl_memory_policy_t)rule : PDL_MEMORY_KEEP;
            if (pdl_chain_simulate(chain, policy, &result, NULL) == PDL_OK && result.step_s < best)
                best = result.step_s;
        }
    return best;
}

/* Half as large a part of the chains has layers that are cheap, and two policies more to try. */
static void search_is_near_the_optimum(void)
{
    double worst = 1;
    int    exact = 0;

    for (int trial = 0; trial < 225; trial++) {
        bool                cheap = trial >= 150;
        pdl_chain_block_t   block[8];
        pdl_chain_t         chain;
        pdl_memory_policy_t policy[8];
        pdl_chain_result_t  result;

        draw_chain(block, 1 + trial % (cheap ? 4 : 7), cheap, 0.35, 0.8, &chain);
        double best = brute_force(&chain, cheap ? PDL_MEMORY_POLICY_COUNT : PDL_MEMORY_RECOMPUTE_CHEAP);
        REQUIRE_OK(pdl_chain_solve(&chain, policy, &result));
        CHECK(result.step_s >= best * (1 - 1e-9) && result.step_s <= best * 1.05);
        CHECK(result.step_s <= best_rule(&chain) * (1 + 1e-9));
        if (result.step_s / best > worst) worst = result.step_s / best;
        exact += result.step_s <= best * (1 + 1e-9);
    }
    printf("%d of 225 chains optimal, worst %.4f\n", exact, worst);
}

static void long_chains_are_searched(void)
{
    static const int counts[] = {60, 120, 200};

    for (int k = 0; k < 3; k++) {
        pdl_chain_block_t   block[200];
        pdl_chain_t         chain;
        pdl_memory_policy_t policy[200];
        pdl_chain_result_t  result, again;

        draw_chain(block, counts[k], k == 0, 0.2, 0.6, &chain);
        REQUIRE_OK(pdl_chain_solve(&chain, policy, &result));
        CHECK(result.step_s <= best_rule(&chain));
        CHECK(result.peak_bytes <= chain.memory_bytes * (1 + 1e-9));
        REQUIRE_OK(pdl_chain_simulate(&chain, policy, &again, NULL));
        CHECK_NEAR(again.step_s, result.step_s, 0);
    }
}

/* With memory enough everything is kept; with the least, everything is swapped or recomputed; with less nothing goes. */
static void memory_decides(void)
{
    pdl_chain_t         chain = vector_chain(1880, 16);
    pdl_memory_policy_t policy[8];
    pdl_chain_result_t  result;

    REQUIRE_OK(pdl_chain_solve(&chain, policy, &result));
    CHECK_NEAR(result.step_s, 108, 0);
    for (int i = 0; i < 8; i++) CHECK_INT(policy[i], PDL_MEMORY_KEEP);
    chain.memory_bytes = pdl_chain_least_bytes(&chain);
    REQUIRE_OK(pdl_chain_solve(&chain, policy, &result));
    CHECK(result.peak_bytes <= chain.memory_bytes);
    chain.memory_bytes -= 1;
    CHECK_INT(pdl_chain_solve(&chain, policy, &result), PDL_ERR_UNSUPPORTED);
    CHECK_STR(pdl_error_message(), "no policy fits in 399 bytes: the least is 400");
}

/* Cheap recomputation releases its part at once and takes its own time. */
static void cheap_layers_are_computed_again(void)
{
    pdl_chain_t         chain = vector_chain(1200, 16);
    pdl_memory_policy_t policy[8];
    pdl_chain_result_t  result;

    for (int i = 0; i < 8; i++) vector[i].cheap_bytes = bytes[i] / 2, vector[i].cheap_s = 0.5;
    check_plan(&chain, "CCCCCCCC", 112, 980);
    REQUIRE_OK(pdl_chain_solve(&chain, policy, &result));
    CHECK(result.step_s <= 112);
    vector[2].cheap_bytes = 2 * bytes[2];
    CHECK_INT(pdl_chain_solve(&chain, policy, &result), PDL_ERR_INPUT);
}

static void wrong_chains_are_refused(void)
{
    pdl_chain_t         chain = vector_chain(900, 0);
    pdl_memory_policy_t policy[8];
    pdl_chain_result_t  result;

    /* Without a link nothing is copied. */
    REQUIRE_OK(pdl_chain_solve(&chain, policy, &result));
    CHECK(result.step_s > 108 && result.step_s <= 129 && result.out_s == 0);
    chain.in_rate = -1;
    CHECK_INT(pdl_chain_solve(&chain, policy, &result), PDL_ERR_INPUT);
    chain = vector_chain(900, 16);
    vector[3].boundary_bytes = 2 * vector[3].bytes;
    CHECK_INT(pdl_chain_solve(&chain, policy, &result), PDL_ERR_INPUT);
    chain.count = 0;
    CHECK_INT(pdl_chain_solve(&chain, policy, &result), PDL_ERR_INPUT);
}

int main(void)
{
    RUN(vectors_are_met);
    RUN(search_is_near_the_optimum);
    RUN(long_chains_are_searched);
    RUN(memory_decides);
    RUN(cheap_layers_are_computed_again);
    RUN(wrong_chains_are_refused);
    return test_done();
}
