/*
 * How fast programs are compiled on one core: one rank of the first and of the last stage of the best plan of every
 * strategy, for every model of the zoo at several numbers of devices. `bench_compile -v [MODEL [DEVICES]]`: a line per
 * program, with a checksum of all it says, so that two builds that print the same compile the same programs.
 */
#define _POSIX_C_SOURCE 200809L
#include <malloc.h>
#include <paradl/base/share.h>
#include <paradl/oracle/search.h>
#include <paradl/program/compile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct total {
    double seconds, worst;
    int    programs;
    long   ops;
    char   slowest[96];
} total_t;

static bool verbose;

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int fail(void)
{
    fprintf(stderr, "bench_compile: %s\n", pdl_error_message());
    return 1;
}

static void mix(uint64_t *hash, const void *bytes, size_t count)
{
    const unsigned char *byte = bytes;

    for (size_t i = 0; i < count; i++) *hash = (*hash ^ byte[i]) * UINT64_C(1099511628211);
}

/* Without pointers, and without the bytes between members. */
static uint64_t checksum(const pdl_program_t *p)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (int i = 0; i < p->op_count; i++) {
        const pdl_program_op_t *op = &p->op[i];
        int flags[] = {(int)op->kind,   (int)op->stream, op->node,           op->micro_batch, op->backward,
                       op->again,       op->move,        op->sums,           op->part,        (int)op->boxes,
                       op->reverse,     op->bucket,      op->adds,           op->output,      op->saved,
                       op->workspace,   op->gradient[0], op->gradient[1],    op->until,       op->wait_count,
                       op->whole_count, (int)op->group,  (int)op->primitive, (int)op->role};
        mix(&hash, flags, sizeof(flags));
        mix(&hash, op->input, sizeof(op->input));
        mix(&hash, op->input_gradient, sizeof(op->input_gradient));
        mix(&hash, &op->bytes, sizeof(op->bytes));
        mix(&hash, p->wait + op->first_wait, (size_t)op->wait_count * sizeof(int));
        mix(&hash, p->whole + op->first_whole, (size_t)op->whole_count * sizeof(int));
    }
    for (int k = 0; k < p->buffer_count; k++) {
        const pdl_program_buffer_t *b = &p->buffer[k];
        int                         flags[] = {(int)b->space, b->first, b->last, b->node, b->bucket, b->weights};
        mix(&hash, flags, sizeof(flags));
        mix(&hash, &b->bytes, sizeof(b->bytes));
        mix(&hash, &b->offset, sizeof(b->offset));
    }
    for (int i = 0; i < p->node_count; i++) {
        const pdl_program_node_t *n = &p->node[i];
        size_t                    flags[] = {(size_t)n->kind,
                                             (size_t)n->layer,
                                             (size_t)n->tail,
                                             (size_t)n->reader,
                                             (size_t)n->chunk,
                                             (size_t)n->input_count,
                                             n->backward,
                                             n->loss,
                                             n->recompute,
                                             n->swap,
                                             n->input_gradients,
                                             n->keeps_inputs,
                                             n->keeps_output,
                                             n->inplace,
                                             n->sums_gradients,
                                             n->adds_gradient,
                                             n->gradient_in_forward,
                                             n->divides,
                                             n->out_bytes,
                                             n->saved_bytes,
                                             n->workspace_bytes};
        mix(&hash, flags, sizeof(flags));
        mix(&hash, n->input, (size_t)n->input_count * sizeof(int));
    }
    mix(&hash, &p->arena_bytes, sizeof(p->arena_bytes));
    mix(&hash, &p->live_bytes, sizeof(p->live_bytes));
    return hash;
}

static int compile(const char *model, const pdl_plan_t *plan, pdl_backend_t *backend, int64_t rank, total_t *total)
{
    pdl_program_spec_t spec = {.plan = plan, .backend = backend, .rank = rank, .training = true, .overlap = true};
    pdl_program_t     *program;
    double             begin = now_s();
    pdl_status_t       status = pdl_program_compile(&spec, &program);
    double             seconds = now_s() - begin;

    if (status == PDL_ERR_NOMEM) return fail();
    if (status) {
        if (verbose)
            printf("%s %s %lld rank %lld: %s\n", model, plan->strategy, (long long)pdl_mesh_size(&plan->mesh),
                   (long long)rank, pdl_error_message());
        return 0;
    }
    total->programs++;
    total->seconds += seconds;
    total->ops += program->op_count;
    if (seconds > total->worst) {
        total->worst = seconds;
        snprintf(total->slowest, sizeof(total->slowest), "%s, %s", model, plan->strategy);
    }
    if (verbose)
        printf("%s %s %lld rank %lld: %d ops, %d buffers, %zu bytes, checksum %016llx\n", model, plan->strategy,
               (long long)pdl_mesh_size(&plan->mesh), (long long)rank, program->op_count, program->buffer_count,
               program->arena_bytes, (unsigned long long)checksum(program));
    if (verbose) fprintf(stderr, "%.3f ms %s %s %d ops\n", 1e3 * seconds, model, plan->strategy, program->op_count);
    pdl_program_destroy(program);
    return 0;
}

static int compile_plans(const char *name, const pdl_system_t *system, int64_t devices, pdl_backend_t *backend,
                         total_t *total)
{
    pdl_model_t     *model;
    pdl_oracle_t    *oracle;
    pdl_parameters_t parameters;
    pdl_request_t    request = pdl_request_default();
    pdl_search_t    *search;
    int              failed = 0;

    pdl_parameters_default(&parameters);
    if (pdl_model_load(name, &model) || pdl_oracle_create(model, system, &parameters, &oracle)) return fail();
    request.pe = devices;
    request.precision = PDL_BF16;
    if (pdl_search_run(oracle, &request, &search)) return fail();
    for (int i = 0; i < search->possible && !failed; i++) {
        const pdl_plan_t *plan = search->candidates[i].plan;
        if ((double)plan->micro_batches * pdl_model_layer_count(model) > 1e5) continue;
        failed = compile(name, plan, backend, 0, total);
        if (!failed) failed = compile(name, plan, backend, devices - 1, total);
    }
    pdl_search_destroy(search);
    pdl_oracle_destroy(oracle);
    pdl_model_destroy(model);
    return failed;
}

int main(int argc, char **argv)
{
    static const char *const extensions[] = {".yaml", NULL};
    static const int64_t     sizes[] = {8, 512, 6144, 65536};
    static const char *const backends[] = {NULL, "cpu"};
    const pdl_system_t      *system;
    char                   **names;
    size_t                   count;
    int                      failed = 0;

    mallopt(M_MMAP_THRESHOLD, 1 << 29); /* as the command does: freed memory is used again, not given back */
    mallopt(M_TRIM_THRESHOLD, 1 << 29);
    verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
    const char *wanted = argc > 2 ? argv[2] : "";
    int64_t     size = argc > 3 ? atoll(argv[3]) : 0;
    if (pdl_system_load("frontier", &system) || pdl_share_list("models", extensions, &names, &count)) return fail();
    for (size_t b = 0; b < 2 && !failed; b++)
        for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]) && !failed; k++) {
            if (size > 0 && size != sizes[k]) continue;
            pdl_backend_t *backend;
            total_t        total = {0};
            if (pdl_backend_create_describing(backends[b], 1, PDL_DTYPE_BF16, &backend)) return fail();
            for (size_t i = 0; i < count && !failed; i++)
                if (strstr(names[i], wanted) != NULL)
                    failed = compile_plans(names[i], system, sizes[k], backend, &total);
            printf("compile      %zu models, %6lld devices, backend %s: %d programs of %.0f operations in the "
                   "mean, %.2f "
                   "ms each, slowest %.1f ms (%s)\n",
                   count, (long long)sizes[k], backends[b] != NULL ? backends[b] : "generic", total.programs,
                   (double)total.ops / total.programs, 1e3 * total.seconds / total.programs, 1e3 * total.worst,
                   total.slowest);
            pdl_backend_destroy(backend);
        }
    pdl_share_free_list(names, count);
    pdl_system_destroy(system);
    return failed;
}
