/*
 * When threads stop spinning, and when they begin again.
 */
#include "test.h"

#include "tensor/cpu/crowd.h"
#include "tensor/cpu/threads.h"

#define LOOK 0.1

static void look(pdl__crowd_rule_t *rule, double share, double seconds)
{
    for (double t = 0; t < seconds; t += LOOK) pdl__crowd_decide(rule, share, LOOK);
}

static void threads_alone_spin(void)
{
    pdl__crowd_rule_t rule = {0};

    look(&rule, 0.002, 100);
    CHECK(!rule.brief);
    look(&rule, 0.12, 100); /* the loader of samples wants a core too */
    CHECK(!rule.brief);
}

static void a_crowd_ends_it_until_there_is_calm(void)
{
    pdl__crowd_rule_t rule = {0};

    pdl__crowd_decide(&rule, 0.5, LOOK);
    CHECK(rule.brief);
    /* Threads that sleep wait less for a core, but do. */
    look(&rule, 0.2, 30);
    CHECK(rule.brief);
    look(&rule, 0, 5);
    CHECK(!rule.brief);
}

/* Where the crowd is noticed only while threads spin, they try it less and less often. */
static void relapses_become_rare(void)
{
    pdl__crowd_rule_t rule = {0};
    int               spun = 0;

    for (int i = 0; i < 6000; i++) {
        pdl__crowd_decide(&rule, rule.brief ? 0 : 0.5, LOOK);
        spun += !rule.brief;
    }
    CHECK(spun > 0 && spun < 30);
}

static double sums[64];

static void add(void *context, int64_t first, int64_t end)
{
    (void)context;
    for (int64_t i = first; i < end; i++) sums[i] += (double)i;
}

/* Begun and ended as often as one likes, whatever the threads. */
static void looking_after_threads_changes_nothing(void)
{
    for (int round = 0; round < 3; round++) {
        pdl__threads_setup(2, false);
        pdl__crowd_begin(2);
        pdl__crowd_begin(1);
        for (int i = 0; i < 100; i++) pdl_threads_run(64, 1, add, NULL);
        pdl__crowd_end();
        pdl__crowd_end();
    }
    CHECK(!pdl__crowd_waits_briefly());
    CHECK_NEAR(sums[63], 300 * 63.0, 0);
}

int main(void)
{
    RUN(threads_alone_spin);
    RUN(a_crowd_ends_it_until_there_is_calm);
    RUN(relapses_become_rare);
    RUN(looking_after_threads_changes_nothing);
    return test_done();
}
