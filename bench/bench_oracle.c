/*
 * How fast the oracle answers: closed-form evaluations per second on one core for a 96-layer transformer, and the time of a
 * search of all named strategies for every model of the zoo at several numbers of devices, on all cores.
 */
#define _POSIX_C_SOURCE 200809L
#include <malloc.h>
#include <paradl/base/share.h>
#include <paradl/oracle/search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds_of(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double now_s(void)
{
    return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

static int fail(void)
{
    fprintf(stderr, "bench_oracle: %s\n", pdl_error_message());
    return 1;
}

/* Every power-of-two mesh and micro-batch of a 3-D plan on 1,024 to 4,096 devices, over and over for a second. */
static int evaluations(const pdl_system_t *system, const pdl_parameters_t *parameters)
{
    pdl_model_t     *model;
    pdl_oracle_t    *oracle;
    pdl_projection_t projection;
    pdl_config_t     configs[512];
    int              count = 0;
    long             done = 0;
    double           check = 0;

    if (pdl_model_load("gpt3-175b", &model) || pdl_oracle_create(model, system, parameters, &oracle)) return fail();
    for (int64_t pe = 1024; pe <= 4096; pe *= 2)
        for (int64_t tensor = 2; tensor <= 8; tensor *= 2)
            for (int64_t pipeline = 2; pipeline <= 32; pipeline *= 2)
                for (int64_t micro = 1; micro <= 4; micro *= 2) {
                    pdl_config_t c = pdl_config_default("3d");
                    c.tensor = tensor, c.pipeline = pipeline, c.data = pe / tensor / pipeline, c.batch = 2048;
                    c.micro_batches = c.batch / c.data / micro, c.precision = PDL_BF16,
                    c.optimizer = PDL_OPTIMIZER_ADAM;
                    c.sequence_parallel = true;
                    if (c.micro_batches >= 1) configs[count++] = c;
                }
    for (int i = 0; i < count; i++)
        if (pdl_oracle_evaluate(oracle, &configs[i], NULL, &projection)) return fail();
    double begin = now_s(), end = begin;
    while (end - begin < 1.0) {
        for (int i = 0; i < count; i++, done++) {
            pdl_oracle_evaluate(oracle, &configs[i], NULL, &projection);
            check += projection.total_s;
        }
        end = now_s();
    }
    printf("evaluations  gpt3-175b (96 layers) on %s: %.2f million per second on one core (%d configurations, mean "
           "%.3g s)\n",
           system->name, (double)done / (end - begin) / 1e6, count, check / (double)done);
    pdl_oracle_destroy(oracle);
    pdl_model_destroy(model);
    return 0;
}

/* What a search takes by the clock, and of all cores together. */
typedef struct spent {
    double clock_s, cpu_s;
} spent_t;

static int plan_time(const char *name, const pdl_system_t *system, const pdl_parameters_t *parameters, int64_t pe,
                     spent_t *spent)
{
    pdl_model_t  *model;
    pdl_oracle_t *oracle;
    pdl_search_t *search;
    pdl_request_t request = pdl_request_default();

    if (pdl_model_load(name, &model) || pdl_oracle_create(model, system, parameters, &oracle)) return fail();
    request.pe = pe;
    request.precision = PDL_BF16;
    request.named = true;
    *spent = (spent_t){seconds_of(CLOCK_MONOTONIC), now_s()};
    if (pdl_search_run(oracle, &request, &search)) return fail();
    *spent = (spent_t){seconds_of(CLOCK_MONOTONIC) - spent->clock_s, now_s() - spent->cpu_s};
    pdl_search_destroy(search);
    pdl_oracle_destroy(oracle);
    pdl_model_destroy(model);
    return 0;
}

static int plans(const pdl_system_t *system, const pdl_parameters_t *parameters)
{
    static const char *const extensions[] = {".yaml", NULL};
    static const int64_t     pes[] = {8, 512, 6144, 65536};
    char                   **names;
    size_t                   count;

    if (pdl_share_list("models", extensions, &names, &count)) return fail();
    for (size_t k = 0; k < sizeof(pes) / sizeof(pes[0]); k++) {
        spent_t     worst = {0, 0}, total = {0, 0};
        const char *slowest = "";
        for (size_t i = 0; i < count; i++) {
            spent_t spent = {0, 0};
            if (plan_time(names[i], system, parameters, pes[k], &spent)) return 1;
            total.clock_s += spent.clock_s;
            total.cpu_s += spent.cpu_s;
            if (spent.clock_s > worst.clock_s) worst = spent, slowest = names[i];
        }
        printf(
            "plan         %zu models, %6lld devices, named strategies: mean %.1f ms, slowest %.1f ms (%s); of all "
            "cores %.1f and %.1f ms\n",
            count, (long long)pes[k], 1e3 * total.clock_s / (double)count, 1e3 * worst.clock_s, slowest,
            1e3 * total.cpu_s / (double)count, 1e3 * worst.cpu_s);
    }
    pdl_share_free_list(names, count);
    return 0;
}

int main(void)
{
    mallopt(M_MMAP_THRESHOLD, 1 << 29); /* as the command does: freed memory is used again, not given back */
    mallopt(M_TRIM_THRESHOLD, 1 << 29);
    const pdl_system_t *system;
    pdl_parameters_t    parameters;

    pdl_parameters_default(&parameters);
    if (pdl_system_load("frontier", &system)) return fail();
    int status = evaluations(system, &parameters);
    if (!status) status = plans(system, &parameters);
    pdl_system_destroy(system);
    return status;
}
