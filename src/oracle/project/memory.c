/*
 * Memory of the busiest rank: states, activations by liveness times the micro-batches in flight, buffers
 * (docs/oracle.md, "Memory").
 */
#include "oracle/internal.h"
#include <math.h>
#include <paradl/program/compile.h>
#include <string.h>

/* Micro-batches whose activations stage s holds at once. */
static double in_flight(const pdl_case_t *c, int64_t stage)
{
    double m = (double)c->micro_batches, depth = (double)(c->pipeline - stage);

    if (c->pipeline == 1) return 1;
    if (c->schedule == PDL_SCHEDULE_GPIPE) return m;
    if (c->schedule == PDL_SCHEDULE_INTERLEAVED) depth += (double)(c->pipeline - 1) / (double)c->virtual_stages;
    return fmin(m, depth);
}

/* Bytes of weight, gradient and optimizer state per weight element, on the device. 16-bit training keeps a 32-bit copy. */
static void state_bytes(const pdl_case_t *c, double *weight, double *gradient, double *optimizer)
{
    double item = pdl__weight_bytes(c);

    *weight = item;
    *gradient = item;
    *optimizer = pdl__moment_bytes(c) + (item < 4 ? 4 : 0);
    if (c->optimizer_tier != PDL_TIER_DEVICE) *optimizer -= pdl__moment_bytes(c);
    if (c->run_mode == PDL_INFERENCE) *gradient = *optimizer = 0;
}

/* Bytes of so many elements, of which replicas share `shared` out from this sharding on. */
static double sharded(const pdl_case_t *c, pdl_sharding_t from, double elements, double shared, double bytes)
{
    return c->sharding >= from ? shared * bytes / (double)c->data : elements * bytes;
}

double pdl__state_bytes(const pdl_case_t *c)
{
    double weight, gradient, optimizer;

    state_bytes(c, &weight, &gradient, &optimizer);
    return sharded(c, PDL_SHARDING_ZERO3, 1, 1, weight) + sharded(c, PDL_SHARDING_ZERO2, 1, 1, gradient) +
           sharded(c, PDL_SHARDING_ZERO1, 1, 1, optimizer);
}

double pdl__least_state_bytes(const pdl_case_t *c)
{
    double weight, gradient, optimizer;

    state_bytes(c, &weight, &gradient, &optimizer);
    return sharded(c, PDL_SHARDING_ZERO3, 1, 1, weight) + sharded(c, PDL_SHARDING_ZERO1, 1, 1, optimizer);
}

/* The tensor that a segment begins with: the input of the layers, where they have one, else a typical one. */
static double border_elements(const pdl_stages_t *st, int64_t s, double input, double saved)
{
    if (input > 0) return input;
    return st->border_elements > 0 ? st->border_elements : saved / (st->cuts[s] + 1);
}

static bool by_blocks(const pdl_oracle_t *oracle, const pdl_stages_t *st, int64_t s)
{
    return oracle->p.block_segments && st->sums[s].attentions > 0;
}

/* Segments of a stage that is recomputed, for the least memory. */
static double segments_of(const pdl_oracle_t *oracle, const pdl_stages_t *st, int64_t s, double all)
{
    const pdl_activation_memory_t *m = &st->held->memory[s];
    double                         border = border_elements(st, s, m->input, m->saved);

    if (by_blocks(oracle, st, s)) return st->sums[s].attentions;
    return fmax(1, fmin(st->cuts[s] + 1, sqrt(all / fmax(border, 1))));
}

static double scores_between(const pdl_oracle_t *oracle, const pdl_profile_t *profile, int first, int last)
{
    if (oracle->p.fused_attention) return 0;
    return profile->prefix[last].attention_scores - profile->prefix[first].attention_scores;
}

/* Blocks that are recomputed keep one tensor per segment, and one segment at a time in full; of those that are on the host meanwhile two
   are here at a time, one that is used and one that is copied; the others keep all. */
static double saved_of_blocks(const pdl_oracle_t *oracle, const pdl_profile_t *profile, const pdl_stages_t *st,
                              int64_t s, double all, double *transient)
{
    double segments = segments_of(oracle, st, s, all), rest = all, kept = 0, most = 0, copied = 0;
    int    last = st->first[s + 1];

    for (int first = st->first[s], end; first < last; first = end) {
        int block = pdl_plan_block_of(profile->plan, first);
        for (end = first + 1; end < last && pdl_plan_block_of(profile->plan, end) == block;) end++;
        pdl_memory_policy_t policy = pdl_plan_memory_policy(profile->plan, first);
        if (!pdl_memory_recomputes(policy) && policy != PDL_MEMORY_SWAP) continue;
        pdl_activation_memory_t m;
        pdl_partition_memory(profile->partition, first, end, &m);
        double here = m.saved + scores_between(oracle, profile, first, end);
        if (policy == PDL_MEMORY_SWAP) {
            copied = fmax(copied, here);
            rest -= here;
            continue;
        }
        double parts = fmax(1, all > 0 ? segments * here / all : 1);
        kept += parts * border_elements(st, s, m.input, m.saved);
        rest -= here;
        most = fmax(most, here / parts);
    }
    *transient += most + 2 * copied;
    return fmax(0, rest) + kept;
}

/* Elements kept for backward by one micro-batch of a stage under the memory policy. */
static double saved_elements(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_profile_t *profile,
                             const pdl_stages_t *st, int64_t s, double *transient)
{
    const pdl_activation_memory_t *m = &st->held->memory[s];
    double                         scores = oracle->p.fused_attention ? 0 : st->sums[s].attention_scores;
    double                         all = m->saved + scores;

    *transient = m->transient;
    if (c->run_mode == PDL_INFERENCE) return 0;
    if (profile->plan->block_count > 0) return saved_of_blocks(oracle, profile, st, s, all, transient);
    if (c->recompute == PDL_RECOMPUTE_NONE) return all;
    if (c->recompute == PDL_RECOMPUTE_SELECTIVE) return m->saved;
    double segments = segments_of(oracle, st, s, all);
    *transient += all / segments;
    if (by_blocks(oracle, st, s))
        return pdl__checkpoints_on_host(oracle, c) ? 0 : pdl__checkpoint_elements(&st->sums[s]);
    return segments * border_elements(st, s, m->input, m->saved);
}

/* What activations take besides their elements in the format of the precision: sums and inputs of norms in 32 bits, places of
   maxima. */
static double format_bytes(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_stages_t *st, int64_t s,
                           double saved, double item)
{
    const pdl_sums_t *sums = &st->sums[s];
    double            wide = oracle->p.autocast ? fmax(0, 4 - item) : 0;

    if (c->run_mode == PDL_INFERENCE) return 0;
    if (c->recompute == PDL_RECOMPUTE_FULL)
        return by_blocks(oracle, st, s) ? wide * saved + item * sums->logits : 0;
    return wide * sums->norm_inputs + oracle->p.pool_index_bytes * sums->pool_outputs;
}

/* The most that is allocated at once besides weights, optimizer and what is kept: at the end of forward with the gradients of
   the last step, when backward begins with the loss, or later. */
static void loss_peak(const pdl_oracle_t *oracle, const pdl_case_t *c, double logits, pdl_memory_breakdown_t *b)
{
    double forward = oracle->p.loss_forward_bytes * logits, backward = oracle->p.loss_backward_bytes * logits;

    if (c->run_mode == PDL_INFERENCE || logits <= 0 || (forward <= 0 && backward <= 0)) return;
    double late = b->gradients + fmax(b->transient, forward);
    if (oracle->p.late_gradients && backward > late) {
        b->gradients = 0;
        b->transient = backward;
        return;
    }
    if (!oracle->p.late_gradients) forward = fmax(forward, backward);
    /* An allocator that loses memory does not give what logits took to the layers whose backward comes next. */
    b->transient = oracle->p.memory_margin > 1 ? b->transient + forward : fmax(b->transient, forward);
}

/* What layer index keeps for the gradients of its weights alone: its input, unless another such layer of the same input has it, and
   the gradient of its output. */
static double kept_for_weights(const pdl_profile_t *profile, int index)
{
    const pdl_model_t *model = profile->plan->model;
    const pdl_layer_t *layer = pdl_model_layer(model, index);
    const pdl_local_t *local = &profile->partition->local[index];
    double             x = local->x_elements;

    if (!pdl__divides_backward(layer)) return 0;
    /* Sequence parallelism keeps its own piece and gathers again. */
    if (profile->plan->sequence_parallel) x -= local->gathered_elements;
    for (int i = index - 1; i > layer->inputs[0] && x > 0; i--) {
        const pdl_layer_t *other = pdl_model_layer(model, i);
        if (pdl__divides_backward(other) && other->inputs[0] == layer->inputs[0]) x = 0;
    }
    return local->samples * (x + local->y_elements);
}

/* What a stage keeps of a micro-batch between its backward pass and that for gradients of weights. */
static double later_elements(const pdl_profile_t *profile, const pdl_stages_t *st, int s)
{
    double sum = 0;

    for (int i = st->first[s]; i < st->first[s + 1]; i++) sum += kept_for_weights(profile, i);
    return sum;
}

/* What one micro-batch keeps, and what is held besides for a while; which of the kept sets of these a case has. */
static int load_set(const pdl_oracle_t *oracle, const pdl_case_t *c)
{
    int set = pdl__checkpoints_on_host(oracle, c) ? PDL_RECOMPUTE_COUNT : (int)c->recompute;

    return pdl__divides_passes(c) ? set + PDL__LOAD_SETS / 2 : set;
}

/* Of a device, beside what it reserves. */
static double free_bytes(const pdl_device_t *device)
{
    return device->memory_bytes - device->reserved_bytes;
}

/* The device that has the least room of these kinds; 0: all are alike. */
static const pdl_device_t *tightest_device(const pdl_system_t *system, unsigned kinds)
{
    const pdl_device_t *tightest = NULL;

    if (kinds == 0) return &system->device;
    for (int i = 0; i < system->part_count; i++) {
        const pdl_device_t *device = &system->part[i].device;
        if (!(kinds >> i & 1)) continue;
        if (tightest == NULL || free_bytes(device) < free_bytes(tightest)) tightest = device;
    }
    return tightest;
}

/* Whether the first of two needs no less memory than the second, a later stage, whatever is shared out or on the host, and has no
   more of it. */
static bool covers(const pdl__stage_load_t *a, const pdl__stage_load_t *b)
{
    if (a->device != b->device && free_bytes(a->device) > free_bytes(b->device)) return false;
    return a->elements >= b->elements && a->expert_elements >= b->expert_elements && a->frozen >= b->frozen &&
           a->saved_bytes >= b->saved_bytes && a->transient_bytes >= b->transient_bytes && a->logits >= b->logits &&
           a->later_bytes >= b->later_bytes;
}

/* Later stages hold no more micro-batches than earlier ones, so the first of each kind speaks for it. */
static const pdl__stage_load_t *stage_loads(const pdl_oracle_t *oracle, const pdl_case_t *c,
                                            const pdl_profile_t *profile, const pdl_stages_t *st, int *count)
{
    int                set = load_set(oracle, c);
    int               *loads = &st->held->loads[set];
    pdl__stage_load_t *load = st->held->load + (size_t)set * (size_t)st->count;
    double             item = profile->compute.item_bytes;
    bool               known = *loads > 0;

    for (int k = 0; k < st->held->kind_count && !known; k++) {
        int s = st->held->kinds[k], covered = 0;
        pdl__stage_load_t new = {.stage = s,
                                 .device = tightest_device(oracle->system, st->kinds != NULL ? st->kinds[s] : 0),
                                 .elements = st->sums[s].weights + st->tied[s],
                                 .frozen = st->sums[s].frozen,

                                 .expert_elements = st->sums[s].expert_weights};
        double transient, saved = saved_elements(oracle, c, profile, st, s, &transient);

        new.saved_bytes = saved         *item + format_bytes(oracle, c, st, s, saved, item);
        new.transient_bytes = transient *item;
        new.logits = st->sums[s].logits;
        if (pdl__divides_passes(c)) new.later_bytes = later_elements(profile, st, s) * item;
        while (covered < *loads && !covers(&load[covered], &new)) covered++;
        if (covered == *loads) load[(*loads)++] = new;
    }
    *count = *loads;
    return load;
}

/* Of all micro-batches that a stage holds at once. Where passes are divided all stages hold as many as the first, those beyond what
   1f1b holds for gradients of weights alone; where these need more than backward does, a stage like it at the end holds most. */
static double held_activations(const pdl_case_t *c, const pdl__stage_load_t *load)
{
    double before = in_flight(c, load->stage), all = fmin((double)c->micro_batches, (double)c->pipeline);

    if (!pdl__divides_passes(c)) return load->saved_bytes * before;
    return fmax(load->saved_bytes * before + load->later_bytes * (all - before),
                load->saved_bytes + load->later_bytes * (all - 1));
}

static void stage_memory(const pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_profile_t *profile,
                         const pdl__stage_load_t *load, pdl_memory_breakdown_t *b)
{
    double weight, gradient, optimizer, elements = load->elements;

    state_bytes(c, &weight, &gradient, &optimizer);
    if (c->weights_tier != PDL_TIER_DEVICE) weight = gradient = 0; /* but for a few buckets */
    if (oracle->p.wide_gradients && gradient > 0) gradient = fmax(gradient, 4);
    if (oracle->p.gradient_bytes > 0 && gradient > 0) gradient = oracle->p.gradient_bytes;
    *b = (pdl_memory_breakdown_t){.workspace = oracle->p.workspace_bytes, .context = load->device->reserved_bytes};
    double shared = pdl__shared_weights(c, elements, load->expert_elements);
    /* What is not trained is on every replica, and stays on the device. */
    b->weights = sharded(c, PDL_SHARDING_ZERO3, elements, shared, weight) + load->frozen * pdl__weight_bytes(c);
    b->gradients = sharded(c, PDL_SHARDING_ZERO2, elements, shared, gradient);
    b->optimizer = sharded(c, PDL_SHARDING_ZERO1, elements, shared, optimizer);
    b->saved_activations = held_activations(c, load);
    b->transient = load->transient_bytes;
    loss_peak(oracle, c, load->logits, b);
    /* Activations are gone when the update makes its gradients. */
    double update = sharded(c, PDL_SHARDING_ZERO1, elements, shared, oracle->p.update_gradient_bytes);
    if (gradient > 0) b->transient = fmax(b->transient, update - b->saved_activations);
    b->buffers = c->pe > 1 ? fmax(profile->largest_transfer, oracle->p.bucket_bytes) : 0;
    /* Allocators lose a share of what they hand out; weights and context are placed once. */
    b->margin = (oracle->p.memory_margin - 1) * (b->saved_activations + b->transient + b->buffers + b->gradients);
}

static int threads_of(const pdl_oracle_t *oracle, const pdl_case_t *c)
{
    return pdl_system_threads(oracle->system, c->pe);
}

/* One is kept; what it says depends on the threads of a rank and on the precision. */
pdl_status_t pdl__describing_backend(pdl_oracle_t *oracle, const pdl_case_t *c)
{
    bool        half = c->precision != PDL_FP32 && c->precision != PDL_TF32;
    pdl_dtype_t precision = half ? PDL_DTYPE_BF16 : PDL_DTYPE_F32;
    int         threads = threads_of(oracle, c);

    if (oracle->backend && oracle->backend->activation_type == precision && oracle->backend->threads == threads)
        return PDL_OK;
    pdl_backend_destroy(oracle->backend);
    oracle->backend = NULL;
    pdl_status_t status =
        pdl_backend_create_describing(oracle->system->backend, threads, precision, &oracle->backend);
    if (status) status = pdl_backend_create_describing(NULL, threads, precision, &oracle->backend);
    if (!status) oracle->backend->threads = threads;
    return status;
}

/* The last replica has the most samples, and a rank between others has two neighbours. */
int64_t pdl__busy_rank(const pdl_mesh_t *mesh)
{
    int64_t rank = 0;

    for (int a = 0; a < mesh->axis_count; a++) {
        int64_t size = mesh->axis[a].size, at = size - 1;
        if (mesh->axis[a].kind != PDL_AXIS_DATA && size > 2) at = size - 2;
        rank = rank * size + at;
    }
    return rank;
}

static pdl_status_t compile(pdl_oracle_t *oracle, const pdl_case_t *c, const pdl_profile_t *profile,
                            pdl__placed_t *placed)
{
    pdl_plan_t         plan = *profile->plan;
    pdl_program_spec_t spec = {
        .plan = &plan,
        .rank = pdl__busy_rank(&plan.mesh),
        /* Of all replicas; ranks that share samples along the sequence have less than one each. */
        .samples = (int64_t)ceil(c->micro_batch * (double)pdl_mesh_extent(&plan.mesh, PDL_AXIS_DATA) - 1e-6),
        .training = c->run_mode == PDL_TRAINING,
        .overlap = true};
    pdl_program_t *program;
    pdl_status_t   status = pdl__describing_backend(oracle, c);

    plan.recompute = c->recompute;
    plan.micro_batches = spec.micro_batches = placed->accumulates ? 2 : 1;
    spec.backend = oracle->backend;
    if (!status) status = pdl_program_compile(&spec, &program);
    /* What cannot be run so has the memory that the closed form says. */
    if (status == PDL_ERR_LIMIT || status == PDL_ERR_UNSUPPORTED || status == PDL_ERR_INPUT) return PDL_OK;
    if (status) return status;
    placed->saved = (double)pdl_program_saved_bytes(program);
    placed->arena = (double)program->arena_bytes;
    pdl_program_destroy(program);
    return PDL_OK;
}

/* The arena of a rank; what was found lately is kept, as policies that do not change it are tried one after the other. */
static pdl_status_t find_arena(pdl_oracle_t *oracle, const pdl_case_t *c, pdl_profile_t *profile,
                               pdl__placed_t *placed)
{
    *placed = (pdl__placed_t){.micro_batch = c->micro_batch,
                              .accumulates = c->micro_batches > 1,
                              .recompute = c->recompute,
                              .run_mode = c->run_mode,
                              .precision = c->precision,
                              .threads = threads_of(oracle, c)};
    for (int i = 0; i < PDL__PLACED; i++) {
        const pdl__placed_t *known = &profile->placed[i];
        if (known->threads == placed->threads && known->micro_batch == placed->micro_batch &&
            known->accumulates == placed->accumulates && known->recompute == placed->recompute &&
            known->run_mode == placed->run_mode && known->precision == placed->precision) {
            *placed = *known;
            return PDL_OK;
        }
    }
    pdl_status_t status = compile(oracle, c, profile, placed);
    if (!status) profile->placed[profile->next_placed++ % PDL__PLACED] = *placed;
    return status;
}

/* The trainer places every buffer before it starts: what it takes is in the program of a rank, and nothing is added for
   allocators. What the process needs besides is not its own. */
static pdl_status_t place_buffers(pdl_oracle_t *oracle, const pdl_case_t *c, pdl_profile_t *profile,
                                  pdl_memory_breakdown_t *b)
{
    pdl__placed_t placed;
    pdl_status_t  status = find_arena(oracle, c, profile, &placed);

    if (status || placed.arena == 0) return status;
    b->saved_activations = placed.saved;
    b->transient = placed.arena - placed.saved;
    b->workspace = b->context = b->margin = 0;
    /* Gradients are exchanged where they lie. */
    if (c->inner == 1) b->buffers = 0;
    return PDL_OK;
}

static double breakdown_sum(const pdl_memory_breakdown_t *b)
{
    return b->weights + b->gradients + b->optimizer + b->saved_activations + b->transient + b->buffers +
           b->workspace + b->context + b->margin;
}

/* The trainer counts what it takes itself, and not what the process needs besides. */
static bool is_placed(const pdl_oracle_t *oracle, int64_t pipeline)
{
    return oracle->system->backend != NULL && pipeline <= 1;
}

/* Of several kinds of devices, some may have less than the cap. */
static double room_of(const pdl_oracle_t *oracle, int64_t pipeline, const pdl_device_t *device)
{
    double cap = oracle->memory_cap > 0 ? oracle->memory_cap : device->memory_bytes;

    if (oracle->system->part_count > 0) cap = fmin(cap, device->memory_bytes);
    return is_placed(oracle, pipeline) ? cap - device->reserved_bytes : cap;
}

double pdl__memory_room(const pdl_oracle_t *oracle, int64_t pipeline)
{
    return room_of(oracle, pipeline, &oracle->system->device);
}

double pdl__memory_rooms(const pdl_oracle_t *oracle, const pdl_case_t *c)
{
    const pdl_system_t *system = oracle->system;
    double              sum = 0;

    if (system->part_count == 0) return (double)c->pipeline * pdl__memory_room(oracle, c->pipeline);
    for (int64_t s = 0; s < c->pipeline; s++) {
        unsigned kinds = pdl_system_kinds(system, c->part_order, c->pe, c->pipeline, c->pipeline_stride, s);
        sum += room_of(oracle, c->pipeline, tightest_device(system, kinds));
    }
    return sum;
}

/* Whether these bytes of one device are nearer to its room than those of the stage that was nearest so far. */
static bool is_nearer(double bytes, double room, const pdl_projection_t *out)
{
    return room == out->memory_room ? bytes > out->memory_bytes
                                    : bytes * out->memory_room > out->memory_bytes * room;
}

pdl_status_t pdl__project_memory(pdl_oracle_t *oracle, const pdl_case_t *c, pdl_profile_t *profile,
                                 const pdl_stages_t *st, pdl_projection_t *out)
{
    bool placed = is_placed(oracle, c->pipeline);
    int  loads;

    pdl__stages_memory(profile, st);
    const pdl__stage_load_t *load = stage_loads(oracle, c, profile, st, &loads);
    out->memory_bytes = 0;
    out->memory_room = pdl__memory_room(oracle, c->pipeline);
    out->memory_device = NULL;
    out->memory_stage = 0;
    for (int k = 0; k < loads; k++) {
        pdl_memory_breakdown_t b;
        stage_memory(oracle, c, profile, &load[k], &b);
        pdl_status_t status = placed ? place_buffers(oracle, c, profile, &b) : PDL_OK;
        if (status) return status;
        double bytes = breakdown_sum(&b), room = room_of(oracle, c->pipeline, load[k].device);
        if (is_nearer(bytes, room, out)) {
            out->memory_bytes = bytes;
            out->memory = b;
            out->memory_room = room;
            out->memory_stage = load[k].stage;
            if (st->kinds != NULL) out->memory_device = load[k].device->name;
        }
    }
    out->fits = out->memory_bytes <= out->memory_room;
    return PDL_OK;
}
