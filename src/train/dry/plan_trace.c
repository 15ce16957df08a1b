/*
 * The timeline of a plan that nobody runs: the programs that its ranks would execute, priced and replayed.
 */
#include "train/exec/session.h"
#include <paradl/train/dry.h>
#include <stdlib.h>

/* Layers times micro-batches of all ranks shown. */
#define MOST_LAYERS 100000

typedef struct timeline {
    pdl_replay_rank_t *ranks;
    pdl_session_t    **sessions; /* whose programs they are */
    int                count;
} timeline_t;

static pdl_status_t create_backend(pdl_precision_t precision, pdl_backend_t **backend)
{
    bool        wide = precision == PDL_FP32 || precision == PDL_TF32 || precision == PDL_FP64;
    pdl_dtype_t type = wide ? PDL_DTYPE_F32 : PDL_DTYPE_BF16;
    bool        made = pdl_backend_create_describing("cpu", 1, type, backend) == PDL_OK;

    return made ? PDL_OK : pdl_backend_create_describing(NULL, 1, type, backend);
}

static pdl_status_t check_length(const pdl_plan_t *plan, int ranks)
{
    int64_t layers = pdl_model_layer_count(plan->model);

    if ((double)plan->micro_batches * (double)layers * ranks <= MOST_LAYERS) return PDL_OK;
    return pdl_error(
        PDL_ERR_LIMIT,
        "%lld micro-batches through %lld layers on %d ranks are too long a timeline: ask for a smaller "
        "batch with --batch",
        (long long)plan->micro_batches, (long long)layers, ranks);
}

static pdl_status_t add_rank(pdl_oracle_t *oracle, const pdl_session_spec_t *spec, int64_t rank, timeline_t *t)
{
    pdl_replay_rank_t *entry = &t->ranks[t->count];
    pdl_status_t       status = pdl_session_create_dry(spec, (int)rank, &t->sessions[t->count]);

    if (status) return status;
    t->count++;
    *entry = (pdl_replay_rank_t){.rank = rank, .program = pdl_session_program(t->sessions[t->count - 1])};
    double *seconds = calloc((size_t)entry->program->op_count + 1, sizeof(*seconds));
    entry->seconds = seconds;
    entry->start_s = calloc((size_t)entry->program->op_count + 1, sizeof(*entry->start_s));
    entry->end_s = calloc((size_t)entry->program->op_count + 1, sizeof(*entry->end_s));
    if (seconds == NULL || entry->start_s == NULL || entry->end_s == NULL)
        return pdl_error(PDL_ERR_NOMEM, "out of memory for a timeline");
    return pdl_oracle_price_program(oracle, spec->plan, entry->program, seconds);
}

static void free_timeline(timeline_t *t)
{
    for (int k = 0; k < t->count; k++) {
        free((double *)t->ranks[k].seconds);
        free(t->ranks[k].start_s);
        free(t->ranks[k].end_s);
        pdl_session_destroy(t->sessions[k]);
    }
    free(t->ranks);
    free(t->sessions);
}

pdl_status_t pdl_plan_trace(pdl_oracle_t *oracle, const pdl_plan_t *plan, int most, FILE *stream, double *total_s)
{
    int                axis = pdl_mesh_find(&plan->mesh, PDL_AXIS_PIPELINE);
    int64_t            stages = axis < 0 ? 1 : plan->mesh.axis[axis].size;
    int64_t            stride = axis < 0 ? 1 : pdl_mesh_stride(&plan->mesh, axis);
    int                count = stages < most ? (int)stages : most;
    timeline_t         t = {.ranks = calloc((size_t)count, sizeof(*t.ranks)),
                            .sessions = calloc((size_t)count, sizeof(pdl_session_t *))};
    pdl_session_spec_t spec;
    pdl_backend_t     *backend = NULL;
    pdl_status_t       status = check_length(plan, count);

    if (!status && (t.ranks == NULL || t.sessions == NULL)) status = pdl_error(PDL_ERR_NOMEM, "out of memory");
    if (!status && plan->run_mode != PDL_TRAINING)
        status = pdl_error(PDL_ERR_UNSUPPORTED, "timelines are of training: leave out --mode inference");
    if (!status) status = create_backend(plan->precision, &backend);
    if (!status) pdl__dry_spec(plan, backend, &spec);
    for (int k = 0; k < count && !status; k++) status = add_rank(oracle, &spec, k * stride, &t);
    if (!status) status = pdl_program_replay(t.ranks, t.count, total_s);
    if (!status) pdl_replay_trace(t.ranks, t.count, stream);
    free_timeline(&t);
    pdl_backend_destroy(backend);
    return status;
}
