/*
 * How fast an exact search is: GPT-3 175B on 4,096 A100 with a batch of 4,096, all of it and by branch and bound.
 *     bench_search [threads [bounded | exhaustive]]
 */
#define _POSIX_C_SOURCE 200809L
#include <malloc.h>
#include <paradl/oracle/exact.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of all threads. */
static double cpu_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int fail(void)
{
    fprintf(stderr, "bench_search: %s\n", pdl_error_message());
    return 1;
}

static void print_best(const pdl_exact_t *e)
{
    const pdl_config_t *c = &e->best[0].config;

    printf("             best: %s, pipeline %lld x data %lld x tensor %lld, %lld micro-batches, %d virtual stages: "
           "%.3f s\n",
           c->strategy->name, (long long)c->pipeline, (long long)c->data, (long long)c->tensor,
           (long long)c->micro_batches, c->virtual_stages, e->best[0].projection.total_s);
}

static int run(pdl_oracle_t *oracle, const pdl_request_t *request, bool exhaustive, int threads)
{
    pdl_exact_options_t options = {.exhaustive = exhaustive, .top = 10, .threads = threads};
    pdl_exact_t        *e;

    double begin = cpu_s();
    if (pdl_exact_search(oracle, request, &options, &e)) return fail();
    printf("%-12s %lld configurations, %lld evaluated (%lld too large, %lld refused), %.3f s, %.3f s of "
           "processors: %.2f "
           "million per second, %scertified\n",
           exhaustive ? "exhaustive" : "bounded", (long long)e->configurations, (long long)e->evaluated,
           (long long)e->too_large, (long long)e->impossible, e->seconds, cpu_s() - begin,
           (double)e->configurations / e->seconds / 1e6, e->certified ? "" : "not ");
    for (int b = 0; b < PDL_BOUND_COUNT && !exhaustive; b++)
        printf("             removed by %s: %lld\n", pdl_exact_bound_names[b], (long long)e->removed[b]);
    if (e->count > 0) print_best(e);
    if (exhaustive) printf("             Pareto front of time, memory and energy: %d\n", e->front_count);
    pdl_exact_destroy(e);
    return 0;
}

int main(int argc, char **argv)
{
    int                 threads = argc > 1 ? atoi(argv[1]) : 0, status = 0;
    const pdl_system_t *system;
    pdl_parameters_t    parameters;
    pdl_model_t        *model;
    pdl_oracle_t       *oracle;
    pdl_request_t       request = pdl_request_default();

    mallopt(M_MMAP_THRESHOLD, 1 << 29); /* as the command does: freed memory is used again, not given back */
    mallopt(M_TRIM_THRESHOLD, 1 << 29);
    pdl_parameters_default(&parameters);
    if (pdl_system_load("selene", &system) || pdl_model_load("gpt3-175b", &model)) return fail();
    request.pe = 4096;
    request.batch = 4096;
    request.precision = PDL_BF16;
    request.optimizer = PDL_OPTIMIZER_ADAM;
    /* An oracle of its own for each, which knows nothing yet. */
    for (int exhaustive = 0; exhaustive < 2 && !status; exhaustive++) {
        if (argc > 2 && (strcmp(argv[2], "exhaustive") == 0) != exhaustive) continue;
        if (pdl_oracle_create(model, system, &parameters, &oracle)) return fail();
        status = run(oracle, &request, exhaustive, threads);
        pdl_oracle_destroy(oracle);
    }
    pdl_model_destroy(model);
    pdl_system_destroy(system);
    return status;
}
