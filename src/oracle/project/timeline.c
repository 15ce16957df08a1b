/*
 * The programs that the ranks of a plan would execute, compiled, priced and replayed: one rank of every stage.
 */
#include "oracle/project/passes.h"
#include "oracle/project/turns.h"
#include <paradl/oracle/replay.h>
#include <paradl/program/compile.h>
#include <stdlib.h>
#include <string.h>

/* Layers times micro-batches. */
#define MOST_LAYERS 250000

static pdl_status_t check_length(const pdl_plan_t *plan)
{
    int64_t layers = pdl_model_layer_count(plan->model);

    if ((double)plan->micro_batches * (double)layers <= MOST_LAYERS) return PDL_OK;
    return pdl_error(PDL_ERR_LIMIT,
                     "%lld micro-batches through %lld layers are too long a timeline: plan a smaller batch, or "
                     "fewer micro-batches",
                     (long long)plan->micro_batches, (long long)layers);
}

/* That of the system; the generic one where none is named, or it cannot be had here. */
static pdl_status_t create_backend(const pdl_oracle_t *oracle, const pdl_plan_t *plan, pdl_backend_t **backend)
{
    const char *name = oracle->system->backend;
    bool        wide = plan->precision == PDL_FP32 || plan->precision == PDL_TF32 || plan->precision == PDL_FP64;
    pdl_dtype_t type = wide ? PDL_DTYPE_F32 : PDL_DTYPE_BF16;

    if (name != NULL && pdl_backend_create_describing(name, 1, type, backend) == PDL_OK) return PDL_OK;
    return pdl_backend_create_describing(NULL, 1, type, backend);
}

static pdl_status_t add_rank(const pdl_plan_t *plan, pdl_backend_t *backend, int64_t rank, bool queues, bool placed,
                             pdl_timeline_t *t)
{
    pdl_program_spec_t spec = {.plan = plan,
                               .backend = backend,
                               .rank = rank,
                               .training = plan->run_mode == PDL_TRAINING,
                               .overlap = true,
                               .unplaced = !placed};
    pdl_program_t     *program;
    pdl_status_t       status = pdl_program_compile(&spec, &program);

    if (status) return status;
    size_t             count = (size_t)program->op_count;
    double            *times = calloc(4 * count + 1, sizeof(*times));
    pdl_replay_rank_t *entry = &t->ranks[t->count++];
    *entry = (pdl_replay_rank_t){
        .rank = rank, .program = program, .seconds = times, .start_s = times + count, .end_s = times + 2 * count};
    if (queues) entry->queue_s = times + 3 * count;
    return times == NULL ? pdl_error(PDL_ERR_NOMEM, "out of memory for a timeline") : PDL_OK;
}

/* What the parameters leave in line holds up computation. So does what ranks exchange that have their device in turns: a message
   takes the device from those that compute. */
static void hold_streams(const pdl_parameters_t *p, const pdl_device_t *device, pdl_replay_rank_t *rank)
{
    bool turns = pdl_device_in_turns(device);

    if (turns) rank->held |= 1u << PDL_STREAM_REDISTRIBUTION;
    if (turns || !p->overlap_gradients) rank->held |= 1u << PDL_STREAM_GRADIENT;
    if (!p->overlap_stages) rank->held |= 1u << PDL_STREAM_STAGE;
    rank->slowdown = p->overlap_slowdown;
}

static bool computes(const pdl_program_op_t *op)
{
    return op->stream == PDL_STREAM_COMPUTE && op->kind != PDL_OP_LOAD && op->kind != PDL_OP_RESULT;
}

static pdl_status_t price_ranks(pdl_oracle_t *oracle, const pdl_plan_t *plan, pdl_prices_t *prices,
                                const pdl_slow_t *slow, int64_t stride, pdl_timeline_t *t)
{
    double     **seconds = calloc(2 * (size_t)t->count + 1, sizeof(*seconds)), **queue_s = seconds + t->count;
    pdl_status_t status = seconds == NULL ? pdl_error(PDL_ERR_NOMEM, "out of memory for a timeline") : PDL_OK;

    for (int k = 0; k < t->count && !status; k++) {
        seconds[k] = t->ranks[k].start_s - t->ranks[k].program->op_count;
        queue_s[k] = t->ranks[k].end_s + t->ranks[k].program->op_count;
    }
    if (!status) status = pdl__price_programs(oracle, plan, prices, t->ranks, t->count, seconds, queue_s);
    for (int k = 0; k < t->count && !status; k++) {
        bool slowed = slow->factor > 0 && slow->rank / stride % t->count == k;

        hold_streams(&oracle->p, &oracle->system->device, &t->ranks[k]);
        for (int i = 0; slowed && i < t->ranks[k].program->op_count; i++)
            if (computes(&t->ranks[k].program->op[i])) seconds[k][i] *= slow->factor;
    }
    free(seconds);
    return status;
}

/* Stages that share a device compute faster while others wait. */
static pdl_status_t find_rates(const pdl_oracle_t *oracle, const pdl_plan_t *plan, pdl_timeline_t *t)
{
    const pdl_device_t *device = &oracle->system->device;
    double              priced = pdl__dilation(device, plan), of_each = device->sharers / t->count;

    if (t->count == 1 || device->sharers <= 1) return PDL_OK;
    t->rate = malloc(((size_t)t->count + 1) * sizeof(*t->rate));
    if (t->rate == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a timeline");
    t->rate[0] = 1;
    for (int k = 1; k <= t->count; k++) t->rate[k] = pdl_device_dilation(device, k * of_each) / priced;
    return PDL_OK;
}

static pdl_status_t replay(const pdl_timeline_t *t, pdl_replay_rank_t *ranks, double *total_s)
{
    pdl_status_t status = pdl_program_replay(ranks, t->count, total_s);

    return status || t->rate == NULL ? status : pdl__have_turns(t->rate, ranks, t->count, total_s);
}

static pdl_status_t create(pdl_oracle_t *oracle, const pdl_plan_t *plan, pdl_prices_t *prices, pdl_slow_t slow,
                           bool placed, pdl_timeline_t **out)
{
    int             axis = pdl_mesh_find(&plan->mesh, PDL_AXIS_PIPELINE);
    int64_t         stages = axis < 0 ? 1 : plan->mesh.axis[axis].size;
    int64_t         stride = axis < 0 ? 1 : pdl_mesh_stride(&plan->mesh, axis);
    pdl_timeline_t *t = calloc(1, sizeof(*t));
    pdl_backend_t  *backend = NULL;
    pdl_status_t    status = check_length(plan);

    if (t != NULL) t->ranks = calloc((size_t)stages, sizeof(*t->ranks));
    if (!status && (t == NULL || t->ranks == NULL)) status = pdl_error(PDL_ERR_NOMEM, "out of memory");
    if (!status) status = create_backend(oracle, plan, &backend);
    for (int64_t s = 0; s < stages && !status; s++)
        status = add_rank(plan, backend, s * stride, oracle->system->device.queue_s > 0, placed, t);
    if (!status) status = price_ranks(oracle, plan, prices, &slow, stride, t);
    if (!status) status = find_rates(oracle, plan, t);
    if (!status) status = replay(t, t->ranks, &t->total_s);
    pdl_backend_destroy(backend);
    if (status) {
        pdl_timeline_destroy(t);
        return status;
    }
    *out = t;
    return PDL_OK;
}

pdl_status_t pdl_timeline_create(pdl_oracle_t *oracle, const pdl_plan_t *plan, pdl_prices_t *prices,
                                 pdl_slow_t slow, pdl_timeline_t **out)
{
    return create(oracle, plan, prices, slow, true, out);
}

pdl_status_t pdl__timeline_times(pdl_oracle_t *oracle, const pdl_plan_t *plan, pdl_timeline_t **out)
{
    pdl__closed_prices_t prices = pdl__closed_prices(oracle, pdl_mesh_size(&plan->mesh), false);

    return create(oracle, plan, &prices.prices, (pdl_slow_t){0, 0}, false, out);
}

/* What is left out of a replay, one class after the other. */
static bool is_of(const pdl_program_op_t *op, pdl_comm_class_t class)
{
    bool halo = op->primitive == PDL_HALO;

    switch (class) {
    case PDL_COMM_GRADIENT: return op->kind == PDL_OP_COLLECTIVE;
    case PDL_COMM_STAGE: return op->kind == PDL_OP_SEND || op->kind == PDL_OP_RECV;
    case PDL_COMM_LAYER: return op->kind == PDL_OP_REDISTRIBUTE && !halo;
    default: return op->kind == PDL_OP_REDISTRIBUTE && halo;
    }
}

static double busiest_seconds(const pdl_replay_rank_t *ranks, int count)
{
    double most = 0;

    for (int k = 0; k < count; k++) {
        double sum = 0;

        for (int i = 0; i < ranks[k].program->op_count; i++)
            if (ranks[k].program->op[i].stream == PDL_STREAM_COMPUTE)
                sum += ranks[k].end_s[i] - ranks[k].start_s[i];
        if (sum > most) most = sum;
    }
    return most;
}

pdl_status_t pdl_timeline_parts(const pdl_timeline_t *t, pdl_plan_parts_t *parts)
{
    static const pdl_comm_class_t order[] = {PDL_COMM_GRADIENT, PDL_COMM_STAGE, PDL_COMM_LAYER, PDL_COMM_HALO};
    double                        before = t->total_s, without;
    pdl_replay_rank_t            *ranks = calloc((size_t)t->count, sizeof(*ranks));
    pdl_status_t status = ranks == NULL ? pdl_error(PDL_ERR_NOMEM, "out of memory for a timeline") : PDL_OK;

    for (int k = 0; k < t->count && !status; k++) {
        size_t  count = (size_t)t->ranks[k].program->op_count;
        double *times = calloc(3 * count + 1, sizeof(*times));

        ranks[k] = t->ranks[k];
        ranks[k].seconds = times;
        if (times == NULL) status = pdl_error(PDL_ERR_NOMEM, "out of memory for a timeline");
        if (!status) memcpy(times, t->ranks[k].seconds, count * sizeof(*times));
        ranks[k].start_s = times + count;
        ranks[k].end_s = times + 2 * count;
    }
    for (size_t c = 0; c < sizeof(order) / sizeof(order[0]) && !status; c++) {
        for (int k = 0; k < t->count; k++)
            for (int i = 0; i < ranks[k].program->op_count; i++)
                if (is_of(&ranks[k].program->op[i], order[c]))
                    (ranks[k].start_s - ranks[k].program->op_count)[i] = 0;
        status = replay(t, ranks, &without);
        parts->comm[order[c]] = before - without;
        before = without;
    }
    parts->total_s = t->total_s;
    parts->compute_s =
        t->count > 1 && !status ? busiest_seconds(ranks, t->count) : before; /* with what it waits for the host */
    parts->bubble_s = before - parts->compute_s;
    for (int k = 0; k < t->count && ranks != NULL; k++) free((double *)(uintptr_t)ranks[k].seconds);
    free(ranks);
    return status;
}

pdl_status_t pdl_oracle_timeline(pdl_oracle_t *oracle, const pdl_plan_t *plan, pdl_timeline_t **timeline)
{
    pdl__closed_prices_t prices = pdl__closed_prices(oracle, pdl_mesh_size(&plan->mesh), false);

    return pdl_timeline_create(oracle, plan, &prices.prices, (pdl_slow_t){0, 0}, timeline);
}

void pdl_timeline_destroy(pdl_timeline_t *t)
{
    if (t == NULL) return;
    for (int k = 0; k < t->count; k++) {
        free((double *)(uintptr_t)t->ranks[k].seconds);
        pdl_program_destroy((pdl_program_t *)(uintptr_t)t->ranks[k].program);
    }
    free(t->rate);
    free(t->ranks);
    free(t);
}
