/*
 * Under mpirun: hiding on any number of ranks chooses what it chooses on one. Prints a line for each method and scope
 * with a sum over all states of a run, which the script compares between numbers of ranks.
 */
#include <paradl/data/hide.h>

#include "data/hide/state.h"
#include "hide_cases.h"
#include "ranks.h"

#define SAMPLES 1003
#define WORKERS 24
#define EPOCHS  4

/* In parts of different sizes, the last rank having the first of them. */
static void ranks_select_together(void)
{
    float losses[SAMPLES];

    for (int kind = 0; kind < KINDS; kind++) {
        int64_t first = 0, last = SAMPLES;

        random_seed = 77;
        for (int64_t i = 0; i < SAMPLES; i++) losses[i] = make_loss(kind, i, SAMPLES);
        for (int r = size - 1; r > rank; r--) first += (SAMPLES - first) / 3;
        if (rank > 0) last = first + (SAMPLES - first) / 3;
        for (int64_t count = 0; count < SAMPLES; count += 331) {
            pdl_boundary_t alone, shared;

            CHECK_OK(pdl_select_smallest(losses, SAMPLES, 0, count, NULL, &alone));
            CHECK_OK(pdl_select_smallest(losses + first, last - first, first, count, ranks, &shared));
            CHECK_INT(shared.key, alone.key);
            CHECK_INT(shared.index, alone.index);
        }
    }
}

static uint64_t hash_of(const pdl_hide_t *hide)
{
    size_t         bytes = (size_t)pdl_hide_state_bytes(hide);
    unsigned char *state = malloc(bytes);
    uint64_t       hash = UINT64_C(0xcbf29ce484222325);

    pdl_hide_save(hide, state);
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ state[i]) * UINT64_C(0x100000001b3);
    free(state);
    return hash;
}

static bool is_hidden(const pdl_hide_t *hide, int64_t i)
{
    return hide->hidden_all[i / 64] >> (i % 64) & 1;
}

/* This rank's part of the samples that all train on, or refresh, in steps of one sample a worker. The last steps fill up
   with the first samples, whose results are then different: a loss depends on the position. */
static void train(pdl_hide_t *hide, int64_t epoch, bool hidden, int64_t first_step, int64_t last_step)
{
    int64_t order[SAMPLES + WORKERS], count = 0, here = WORKERS / size, start = hidden ? 100000 : 0;

    for (int64_t k = 0; k < SAMPLES; k++) {
        int64_t i = k * 389 % SAMPLES;

        if (is_hidden(hide, i) == hidden) order[count++] = i;
    }
    for (int64_t k = 0; count % WORKERS != 0; k++) order[count++] = order[k];
    if (last_step > count / WORKERS) last_step = count / WORKERS;
    for (int64_t step = first_step; step < last_step; step++) {
        float   loss[WORKERS], correct[WORKERS], confidence[WORKERS];
        int64_t place = step * WORKERS + rank * here;

        for (int64_t k = 0; k < here; k++) {
            random_seed = (uint64_t)(order[place + k] * 1000 + epoch * 7 + (place + k) / 900);
            loss[k] = make_loss(order[place + k] % 50 == 0 ? SOME_NAN : RANDOM, order[place + k], SAMPLES);
            correct[k] = (float)between(0, 10) / 8;
            confidence[k] = (float)between(60, 100) / 100;
        }
        pdl_hide_note(hide, start + place, order + place, loss, correct, confidence, here);
    }
}

/* Workers of this rank, each with every WORKERS-th sample. */
static pdl_hide_workers_t workers_here(int64_t (*partition)[SAMPLES], const int64_t **list, int64_t *sizes)
{
    int64_t here = WORKERS / size;

    for (int64_t w = 0; w < here; w++) {
        sizes[w] = 0;
        for (int64_t i = rank * here + w; i < SAMPLES; i += WORKERS) partition[w][sizes[w]++] = i;
        list[w] = partition[w];
    }
    return (pdl_hide_workers_t){
        .batch = WORKERS, .ranks = ranks, .count = here, .partition = list, .sizes = sizes, .reports = true};
}

/* A run in which every epoch is saved in its middle and, if asked, goes on with what was saved. */
static uint64_t run(const pdl_hide_options_t *options, int64_t share_from, bool restart)
{
    static int64_t     partition[WORKERS][SAMPLES];
    const int64_t     *list[WORKERS];
    int64_t            sizes[WORKERS], bytes;
    pdl_hide_workers_t workers = workers_here(partition, list, sizes);
    pdl_hide_t        *hide = NULL;
    uint64_t           hash = 0;

    REQUIRE_OK(pdl_hide_create(options, SAMPLES, &hide));
    hide->share_from = share_from;
    for (int64_t epoch = 0; epoch < EPOCHS; epoch++) {
        CHECK_OK(pdl_hide_begin(hide, epoch, EPOCHS, &workers));
        train(hide, epoch, false, 0, 20);
        CHECK_OK(pdl_hide_combine(hide, ranks));
        bytes = pdl_hide_state_bytes(hide);
        if (restart) {
            void *state = malloc((size_t)bytes);

            pdl_hide_save(hide, state);
            pdl_hide_destroy(hide);
            REQUIRE_OK(pdl_hide_create(options, SAMPLES, &hide));
            hide->share_from = share_from;
            CHECK_OK(pdl_hide_restore(hide, state, bytes, true));
            CHECK_OK(pdl_hide_begin(hide, epoch, EPOCHS, &workers));
            free(state);
        }
        for (int64_t w = 0; options->scope == PDL_HIDE_LOCAL && w < workers.count; w++) {
            for (int64_t k = 0; k < sizes[w]; k++) {
                int64_t i = partition[w][k];

                CHECK_INT(pdl_hide_bits(hide) != NULL && pdl__bit(pdl_hide_bits(hide), i), is_hidden(hide, i));
            }
        }
        train(hide, epoch, false, 20, SAMPLES);
        if (pdl_hide_refreshes(hide)) train(hide, epoch, true, 0, SAMPLES);
        CHECK_OK(pdl_hide_combine(hide, ranks));
        hash = hash * 31 + hash_of(hide);
    }
    CHECK(options->method == PDL_HIDE_NONE || options->method == PDL_HIDE_IMPORTANCE || hide->report.hidden > 0);
    pdl_hide_destroy(hide);
    return hash;
}

static void every_method(void)
{
    for (int method = 0; method < PDL_HIDE_METHOD_COUNT; method++) {
        for (int scope = 0; scope < PDL_HIDE_SCOPE_COUNT; scope++) {
            pdl_hide_options_t options;
            uint64_t           hash;

            pdl_hide_defaults(&options);
            options.method = (pdl_hide_method_t)method;
            options.scope = (pdl_hide_scope_t)scope;
            options.trim = method == PDL_HIDE_LOSS ? 0.02 : 0;
            if (pdl_hide_check(&options) != PDL_OK) continue;
            hash = run(&options, INT64_MAX, false);
            if (method <= PDL_HIDE_RANDOM && scope == PDL_HIDE_GLOBAL) CHECK(run(&options, 0, false) == hash);
            CHECK(run(&options, INT64_MAX, true) == hash);
            if (rank == 0)
                printf("run %s %s %016llx\n", pdl_hide_method_names[method], pdl_hide_scope_names[scope],
                       (unsigned long long)hash);
        }
    }
}

/* Ranks that share all workers, as those of one pipeline do: one speaks for them, and all hide the same. */
static void twins_count_once(void)
{
    static int64_t     partition[2][SAMPLES];
    const int64_t     *list[2] = {partition[0], partition[1]};
    int64_t            sizes[2] = {0};
    pdl_hide_workers_t workers = {
        .batch = 2, .ranks = ranks, .count = 2, .partition = list, .sizes = sizes, .reports = rank == size - 1};
    pdl_hide_options_t options;
    pdl_hide_t        *hide = NULL;

    for (int64_t i = 0; i < SAMPLES; i++) partition[i % 2][sizes[i % 2]++] = i;
    pdl_hide_defaults(&options);
    options.method = PDL_HIDE_LOSS;
    options.scope = PDL_HIDE_LOCAL;
    options.move_back = false;
    REQUIRE_OK(pdl_hide_create(&options, SAMPLES, &hide));
    CHECK_OK(pdl_hide_begin(hide, 1, 100, &workers));
    CHECK_INT(hide->report.hidden, 150 + 150); /* of 502 and 501 */
    CHECK(memcmp(hide->hidden, hide->hidden_all, (size_t)hide->words * sizeof(*hide->hidden)) == 0);
    pdl_hide_destroy(hide);
}

static void mistakes_are_noticed(void)
{
    pdl_hide_options_t options;
    pdl_hide_workers_t workers = {.batch = 1, .ranks = ranks};
    pdl_hide_t        *hide = NULL;
    int64_t            index[] = {0, 1};
    float              values[] = {1, 1};

    if (size == 1) return;
    pdl_hide_defaults(&options);
    options.method = PDL_HIDE_LOSS;
    options.move_back = false;
    REQUIRE_OK(pdl_hide_create(&options, 10, &hide));
    CHECK_OK(pdl_hide_begin(hide, 0, 10, &workers));
    if (rank == size - 1) pdl_hide_note(hide, 0, index, values, values, values, 2);
    CHECK_ERROR(pdl_hide_begin(hide, 1, 10, &workers), "pdl_hide_combine() first");
    CHECK_OK(pdl_hide_combine(hide, ranks));
    hide->loss[9] = rank == 0 ? 2 : -1; /* as if this rank had resumed from another checkpoint */
    CHECK_ERROR(pdl_hide_begin(hide, 1, 10, &workers), "ranks hide different samples");
    pdl_hide_destroy(hide);
}

int main(void)
{
    if (!begin_ranks()) return 1;
    RUN(ranks_select_together);
    RUN(every_method);
    RUN(twins_count_once);
    RUN(mistakes_are_noticed);
    return end_ranks();
}
