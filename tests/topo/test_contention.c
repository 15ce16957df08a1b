/*
 * Self-contention: known values, and counting against the solution of all messages on random machines.
 */
#include "test.h"

#include <paradl/topo/contention.h>

#include <stdlib.h>
#include <time.h>

static const pdl_system_t *load(const char *name)
{
    const pdl_system_t *system = NULL;
    char                path[1024];

    snprintf(path, sizeof path, "%s/share/systems/%s.yaml", PDL_TEST_SOURCE, name);
    REQUIRE_OK(pdl_system_load(path, &system));
    return system;
}

static pdl_contention_answer_t ask(const pdl_system_t *system, pdl_contention_query_t query)
{
    pdl_contention_answer_t answer = {0};

    CHECK_OK(pdl_contention_explain(system, &query, &answer));
    return answer;
}

static void abci_has_the_published_values(void)
{
    const pdl_system_t *abci = load("abci-v");

    /* data+filter: four rings at once over two ports of each node */
    pdl_contention_answer_t answer = ask(abci, (pdl_contention_query_t){.pe_count = 512, .size = 128, .stride = 4});
    CHECK_NEAR(answer.phi, 2, 0);
    CHECK_INT(answer.level, 3);
    CHECK_INT(answer.bottleneck_messages, 2);
    CHECK_NEAR(answer.seconds_per_byte, 2 / 12.5e9, 1e-15);
    /* leaders only */
    answer = ask(abci, (pdl_contention_query_t){.pe_count = 512, .size = 128, .stride = 4, .concurrent = 1});
    CHECK_NEAR(answer.phi, 1, 0);
    /* dense rings, also across the 3:1 boundary */
    CHECK_NEAR(ask(abci, (pdl_contention_query_t){.pe_count = 512, .size = 512, .stride = 1}).phi, 1, 0);
    CHECK_NEAR(ask(abci, (pdl_contention_query_t){.pe_count = 4352, .size = 4352, .stride = 1}).phi, 1, 0);
    /* scattered over racks: 136 messages leave each rack over 24 links */
    answer = ask(abci, (pdl_contention_query_t){.pe_count = 4352, .size = 32, .stride = 136});
    CHECK_NEAR(answer.phi, 6, 0);
    CHECK_INT(answer.bottleneck_level, 3);
    /* all-to-all inside a node uses the links of the mesh one by one, across the machine the rack uplinks */
    pdl_contention_query_t all = {.pe_count = 4, .size = 4, .stride = 1, .pattern = PDL_PATTERN_PAIRWISE};
    CHECK_NEAR(ask(abci, all).phi, 1, 0);
    all.pe_count = all.size = 4352;
    CHECK_NEAR(ask(abci, all).phi, 6, 0);
    pdl_system_destroy(abci);
}

static void halos_through_the_host_share_the_switch(void)
{
    const pdl_system_t    *abci = load("abci-v");
    pdl_contention_query_t query = {.pe_count = 4, .size = 4, .stride = 1, .pattern = PDL_PATTERN_NEIGHBOURS};

    /* Directly, every partner has its own NVLink. */
    CHECK_NEAR(ask(abci, query).phi, 1, 0);
    /* A chain 0 1 2 3 through the host: each switch carries both messages of one GPU and one of the other. */
    query.host_path = true;
    CHECK_NEAR(ask(abci, query).phi, 3, 0);
    CHECK_INT(ask(abci, query).level, 0);
    query.pe_count = query.size = 2; /* two GPUs of one switch */
    CHECK_NEAR(ask(abci, query).phi, 2, 0);
    query = (pdl_contention_query_t){
        .pe_count = 4, .size = 2, .stride = 2, .pattern = PDL_PATTERN_NEIGHBOURS, .host_path = true};
    CHECK_NEAR(ask(abci, query).phi, 2, 0);
    /* Chains over several nodes: an inner GPU pair of a switch sends four messages. */
    query = (pdl_contention_query_t){
        .pe_count = 64, .size = 64, .stride = 1, .pattern = PDL_PATTERN_NEIGHBOURS, .host_path = true};
    CHECK_NEAR(ask(abci, query).phi, 4 * 12.5 / 16, 1e-15);
    pdl_system_destroy(abci);
}

static uint64_t random_state = 7;

static int64_t draw(int64_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((random_state >> 33) % (uint64_t)below);
}

static void draw_system(pdl_system_t *system, int64_t most_pe)
{
    static const double bandwidths[] = {1e9, 2e9, 12.5e9, 16e9, 50e9};

    memset(system, 0, sizeof *system);
    system->name = "random";
    system->level_count = 1 + (int)draw(4);
    system->pe_count = 1;
    for (int l = 0; l < system->level_count; l++) {
        int64_t room = most_pe / system->pe_count;
        system->level[l] = (pdl_level_t){
            .name = "level",
            .fanout = 1 + draw(room < 17 ? room : 17),
            .bandwidth_bytes_per_s = bandwidths[draw(5)],
            .ports = (double)(1 + draw(draw(3) == 0 ? 40 : 4)),
            .oversubscription = draw(3) ? 1 : 1 + (double)draw(9) / 4,
            .shared_medium = draw(4) == 0,
            .congestion = 1,
        };
        system->host_level[l] = system->level[l];
        system->pe_count *= system->level[l].fanout;
    }
}

static int64_t draw_divisor(int64_t n)
{
    int64_t divisor = 1 + draw(n);
    while (n % divisor != 0) divisor--;
    return draw(4) == 0 ? n / divisor : divisor;
}

static void draw_query(const pdl_system_t *system, pdl_contention_query_t *query)
{
    int64_t p = 1 + draw(system->pe_count);

    *query = (pdl_contention_query_t){.pe_count = draw(3) ? p : system->pe_count};
    if (draw(2)) { /* most numbers have few divisors: start from the product */
        query->stride = 1 + draw(p < 12 ? p : 12);
        query->size = 1 + draw(p / query->stride);
        query->pe_count = p / (query->size * query->stride) * (query->size * query->stride);
    } else {
        query->size = draw_divisor(query->pe_count);
        query->stride = draw_divisor(query->pe_count / query->size);
    }
    query->pattern = (pdl_pattern_t)draw(3);
    switch (draw(4)) { /* some of the interleaved groups of the first block, some of all, or all */
    case 0: query->concurrent = 1 + draw(query->stride); break;
    case 1: query->concurrent = 1 + draw(query->pe_count / query->size); break;
    default: break;
    }
}

/* The messages of the query, rank by rank; step is the distance of the pairwise exchange. */
static int list_messages(const pdl_contention_query_t *query, int64_t step, pdl_message_t *messages)
{
    int64_t block = query->size * query->stride;
    int     count = 0;

    for (int64_t pe = 0; pe < query->pe_count; pe++) {
        int64_t rank = pe % block / query->stride, group = pe / block * query->stride + pe % query->stride;
        if (query->concurrent > 0 && group >= query->concurrent) continue;
        if (query->pattern == PDL_PATTERN_NEIGHBOURS) {
            if (rank + 1 < query->size) messages[count++] = (pdl_message_t){pe, pe + query->stride, 1e9};
            if (rank > 0) messages[count++] = (pdl_message_t){pe, pe - query->stride, 1e9};
        } else if (query->size > 1) {
            int64_t to = (rank + step) % query->size;
            messages[count++] = (pdl_message_t){pe, pe + (to - rank) * query->stride, 1e9};
        }
    }
    return count;
}

/* Seconds per byte of the step by the full solution, and the highest level crossed. */
static double solve(const pdl_system_t *system, const pdl_contention_query_t *query, pdl_message_t *messages,
                    double *alone_s, int *level)
{
    int64_t steps = query->pattern == PDL_PATTERN_PAIRWISE ? query->size - 1 : 1;
    double  worst_s = 0;

    *alone_s = 0;
    *level = 0;
    for (int64_t step = 1; step <= steps; step++) {
        double last_s;
        int    count = list_messages(query, step, messages);
        CHECK_OK(pdl_contention_run(system, query->host_path, messages, count, NULL, &last_s));
        worst_s = fmax(worst_s, last_s);
        for (int m = 0; m < count; m++) {
            int common = pdl_system_common_level(system, messages[m].from, messages[m].to);
            if (common<*level && * alone_s> 0) continue;
            CHECK_OK(pdl_contention_run(system, query->host_path, &messages[m], 1, NULL, &last_s));
            *alone_s = fmax(*alone_s, last_s);
            *level = common;
        }
    }
    return worst_s;
}

static void compare(int64_t most_pe, int64_t most_pairwise, int cases)
{
    pdl_message_t *messages = malloc(2 * (size_t)most_pe * sizeof *messages);
    int            before = test_failures;

    CHECK(messages != NULL);
    for (int i = 0; i < cases && test_failures == before; i++) {
        pdl_system_t           system;
        pdl_contention_query_t query;
        double                 alone_s;
        int                    level;
        draw_system(&system, most_pe);
        draw_query(&system, &query);
        if (query.pattern == PDL_PATTERN_PAIRWISE && query.size > most_pairwise) continue;
        double                  step_s = solve(&system, &query, messages, &alone_s, &level);
        pdl_contention_answer_t answer = ask(&system, query);
        CHECK_INT(answer.level, level);
        CHECK_NEAR(answer.phi, alone_s > 0 ? step_s / alone_s : 1, 1e-9);
        if (alone_s > 0) CHECK_NEAR(answer.seconds_per_byte * 1e9, step_s, 1e-9);
        if (test_failures != before)
            printf("case %d: %lld devices, size %lld, stride %lld, concurrent %lld, pattern %d, %d levels\n", i,
                   (long long)query.pe_count, (long long)query.size, (long long)query.stride,
                   (long long)query.concurrent, (int)query.pattern, system.level_count);
    }
    free(messages);
}

static void counting_equals_solving_on_small_machines(void)
{
    compare(60, 128, 20000);
}
static void counting_equals_solving_on_medium_machines(void)
{
    compare(1500, 24, 600);
}

static void unequal_messages_speed_up_when_others_end(void)
{
    const pdl_system_t *abci = load("abci-v");
    /* devices 0 and 1 share the first port of their node; the second message is three times as large. */
    const pdl_message_t messages[] = {{0, 4, 12.5e9}, {1, 5, 37.5e9}, {2, 2, 1e9}, {3, 7, 0}, {2, 6, 12.5e9}};
    double              finish_s[5], last_s;

    CHECK_OK(pdl_contention_run(abci, false, messages, 5, finish_s, &last_s));
    CHECK_NEAR(finish_s[0], 2, 1e-12);
    CHECK_NEAR(finish_s[1], 4, 1e-12);
    CHECK_NEAR(finish_s[2], 0, 0);
    CHECK_NEAR(finish_s[3], 0, 0);
    CHECK_NEAR(finish_s[4], 1, 1e-12);
    CHECK_NEAR(last_s, 4, 1e-12);
    const pdl_message_t outside = {0, 4352, 1};
    CHECK_ERROR(pdl_contention_run(abci, false, &outside, 1, NULL, NULL), "leaves the machine");
    pdl_system_destroy(abci);
}

static void wrong_questions_are_refused(void)
{
    const pdl_system_t    *abci = load("abci-v");
    double                 phi;
    pdl_contention_query_t query = {.pe_count = 8192, .size = 8192, .stride = 1};

    CHECK_ERROR(pdl_contention_phi(abci, &query, &phi, NULL), "abci-v has 4352");
    query = (pdl_contention_query_t){.pe_count = 10, .size = 4, .stride = 1};
    CHECK_ERROR(pdl_contention_phi(abci, &query, &phi, NULL), "not a multiple");
    query = (pdl_contention_query_t){.pe_count = 10, .size = 0, .stride = 1};
    CHECK_ERROR(pdl_contention_phi(abci, &query, &phi, NULL), "at least 1");
    query = (pdl_contention_query_t){.pe_count = 10, .size = 1, .stride = 1};
    CHECK_OK(pdl_contention_phi(abci, &query, &phi, NULL));
    CHECK_NEAR(phi, 1, 0);
    pdl_system_destroy(abci);
}

/* Generous against slow test machines; the figure printed is what counts. */
static void large_jobs_are_answered_at_once(void)
{
    const pdl_system_t *frontier = load("frontier");
    double              slowest_s = 0, total_s = 0;
    int                 questions = 0;

    for (int64_t stride = 1; stride <= 32768; stride *= 2)
        for (int64_t size = 2; size * stride <= 65536; size *= 2)
            for (int pattern = 0; pattern < 3; pattern++) {
                struct timespec begin, end;
                clock_gettime(CLOCK_MONOTONIC, &begin);
                ask(frontier, (pdl_contention_query_t){.pe_count = 65536,
                                                       .size = size,
                                                       .stride = stride,
                                                       .pattern = (pdl_pattern_t)pattern});
                clock_gettime(CLOCK_MONOTONIC, &end);
                double s = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
                slowest_s = fmax(slowest_s, s);
                total_s += s;
                questions++;
            }
    printf("     65,536 devices: %.1f us on average, %.1f us at most\n", 1e6 * total_s / questions,
           1e6 * slowest_s);
    CHECK(total_s / questions < 2e-3);
    pdl_system_destroy(frontier);
}

int main(void)
{
    RUN(abci_has_the_published_values);
    RUN(halos_through_the_host_share_the_switch);
    RUN(unequal_messages_speed_up_when_others_end);
    RUN(wrong_questions_are_refused);
    RUN(counting_equals_solving_on_small_machines);
    RUN(counting_equals_solving_on_medium_machines);
    RUN(large_jobs_are_answered_at_once);
    return test_done();
}
