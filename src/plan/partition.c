/*
 * Compilation of a plan: walks the layers in order, lets the rules decide what each reads and writes on
 * every axis, and puts a redistribution wherever what arrives differs from what is read. Backward is the
 * transpose: the gradient an operation produces is brought to the placement its producer expects.
 */
#include "plan/liveness.h"
#include <math.h>
#include <paradl/plan/compile.h>
#include <paradl/plan/partition.h>
#include <paradl/plan/rules.h>
#include <stdlib.h>
#include <string.h>

static void emit(pdl_compiler_t *c, pdl_transfer_t transfer)
{
    pdl_partition_t *p = c->partition;

    if (c->status || transfer.primitive == PDL_LOCAL) return;
    if (p->transfer_count == c->capacity) {
        int             capacity = c->capacity ? 2 * c->capacity : 256;
        pdl_transfer_t *grown = realloc(p->transfers, (size_t)capacity * sizeof(*grown));
        if (!grown) {
            c->status =
                pdl_error(PDL_ERR_NOMEM, "out of memory while compiling a plan of %d layers", p->layer_count);
            return;
        }
        p->transfers = grown;
        c->capacity = capacity;
    }
    p->transfers[p->transfer_count++] = transfer;
}

/* What the busiest rank holds of a dimension after one more cut; several cuts of one dimension nest. */
static void cut_dimension(pdl_shape_t *shape, double *samples, pdl_placement_t placement, int64_t size)
{
    if (placement == PDL_SPLIT_N) *samples = ceil(*samples / (double)size);
    if (placement == PDL_SPLIT_C) shape->channels = pdl_block_max(shape->channels, size);
    if (placement >= PDL_SPLIT_S0) {
        int64_t *extent = &shape->extent[placement - PDL_SPLIT_S0];
        *extent = pdl_block_max(*extent, size);
    }
}

/* Elements of a tensor on one rank, `skip` being an axis on which it is taken as whole (-1: none). */
static double local_elements(const pdl_compiler_t *c, const pdl_shape_t *whole, const pdl_placement_t *on, int skip)
{
    const pdl_mesh_t *mesh = &c->plan->mesh;
    pdl_shape_t       shape = *whole;
    double            samples = c->partition->micro_batch;

    for (int a = 0; a < mesh->axis_count; a++)
        if (a != skip && pdl_axis_splits(&mesh->axis[a]))
            cut_dimension(&shape, &samples, on[a], mesh->axis[a].size);
    return (double)pdl_shape_elements(&shape) * samples;
}

/* Brings a tensor from one layout to another, axis by axis. */
static void redistribute(pdl_compiler_t *c, const pdl_shape_t *shape, pdl_transfer_t transfer,
                         const pdl_placement_t *from, const pdl_placement_t *to)
{
    pdl_redistribution_step_t step[PDL_MAX_AXES];
    pdl_placement_t           now[PDL_MAX_AXES];
    int                       steps = pdl_redistribution_steps(&c->plan->mesh, from, to, step);

    memcpy(now, from, sizeof(now));
    for (int i = 0; i < steps; i++) {
        int a = transfer.axis = step[i].axis;
        transfer.primitive = step[i].primitive;
        transfer.elements = local_elements(c, shape, now, a);
        transfer.input_gradient = transfer.phase == PDL_PHASE_BACKWARD && from[a] == PDL_PARTIAL;
        emit(c, transfer);
        now[a] = to[a];
    }
}

/* What one layer reads, and the gradient it makes of it, on all axes. */
typedef struct layouts {
    pdl_placement_t reads[PDL_MAX_AXES], dx[PDL_MAX_AXES];
} layouts_t;

/* A tensor that a layer reads twice arrives once, and its two gradients add up before they are sent. */
static bool read_before(const pdl_layer_t *reader, int input)
{
    for (int i = 0; i < input; i++)
        if (reader->inputs[i] == reader->inputs[input]) return true;
    return false;
}

/* Redistribution of one input, forward and backward. */
static void emit_edge(pdl_compiler_t *c, int layer, int input, const layouts_t *layouts)
{
    const pdl_layer_t *reader = pdl_model_layer(c->plan->model, layer);
    int                producer = reader->inputs[input];
    const pdl_shape_t *shape = &pdl_model_layer(c->plan->model, producer)->out;
    pdl_local_t       *written = &c->partition->local[producer], *local = &c->partition->local[layer];
    pdl_placement_t    expected[PDL_MAX_AXES];

    local->x_elements += local_elements(c, shape, layouts->reads, -1) / local->samples;
    if (read_before(reader, input)) return;
    int before = c->partition->transfer_count;
    redistribute(c, shape, (pdl_transfer_t){.layer = layer, .input = input, .phase = PDL_PHASE_FORWARD},
                 written->out, layouts->reads);
    bool gathered = false;
    for (int i = before; i < c->partition->transfer_count; i++)
        gathered |= c->partition->transfers[i].primitive == PDL_ALLGATHER;
    if (gathered && input < 32) {
        local->gathered_inputs |= 1u << input;
        local->gathered_elements += local_elements(c, shape, layouts->reads, -1) / local->samples;
    }
    if (c->plan->run_mode == PDL_INFERENCE || !reader->needs_input_gradient) return;
    for (int a = 0; a < PDL_MAX_AXES; a++) expected[a] = pdl_gradient_placement(written->out[a]);
    redistribute(c, shape, (pdl_transfer_t){.layer = layer, .input = input, .phase = PDL_PHASE_BACKWARD},
                 layouts->dx, expected);
}

/* Axes exchange one after the other: rows already received widen the slabs of later ones, by which factor the busiest piece of
   every extent is wider than before. */
static void emit_halo(pdl_compiler_t *c, int index, int axis, const pdl_placement_t *reads,
                      double widened[PDL_MAX_SPACE])
{
    const pdl_layer_t *layer = pdl_model_layer(c->plan->model, index);
    int                dim = (int)(reads[axis] - PDL_SPLIT_S0), neighbours;
    pdl_window_t       window = pdl_layer_window(layer, dim);
    int64_t            pieces = c->plan->mesh.axis[axis].size, rows = pdl_halo_rows(&window, pieces, &neighbours);
    double             row = local_elements(c, &layer->in, reads, axis) / (double)layer->in.extent[dim];

    for (int d = 0; d < PDL_MAX_SPACE; d++)
        if (d != dim) row *= widened[d];
    if (rows == 0) return;
    widened[dim] *= 1.0 + (double)rows / (double)pdl_block_max(layer->in.extent[dim], pieces);
    /* The rows of the busiest piece come from both sides: per side it is their share of one whole slab. */
    pdl_transfer_t transfer = {.layer = index,
                               .input = -1,
                               .axis = axis,
                               .primitive = PDL_HALO,
                               .neighbours = neighbours,
                               .elements = row * (double)rows / neighbours};
    emit(c, transfer);
    if (c->plan->run_mode == PDL_INFERENCE || !layer->needs_input_gradient) return;
    transfer.phase = PDL_PHASE_BACKWARD;
    emit(c, transfer);
}

/* Elements of a sample that the ranks of an axis together read, the cuts of other axes applied. */
static double read_together(const pdl_compiler_t *c, const pdl_layer_t *layer, const pdl_placement_t *reads,
                            int axis)
{
    const pdl_mesh_t *mesh = &c->plan->mesh;
    pdl_shape_t       shape = layer->in;
    double            samples = 1;

    for (int a = 0; a < mesh->axis_count; a++)
        if (a != axis && pdl_axis_splits(&mesh->axis[a]))
            cut_dimension(&shape, &samples, reads[a], mesh->axis[a].size);
    return (double)pdl_shape_elements(&shape);
}

/* Exchanges that belong to the operation itself: expert dispatch, split softmax, normalisation statistics. Replicas that share experts
   bring their own samples. */
static void emit_intrinsic(pdl_compiler_t *c, int index, int axis, pdl_mode_t mode, const pdl_placement_t *reads)
{
    const pdl_layer_t  *layer = pdl_model_layer(c->plan->model, index);
    const pdl_traits_t *traits = pdl_layer_traits(layer);
    bool                training = c->plan->run_mode == PDL_TRAINING;
    double              samples = c->partition->micro_batch;
    pdl_transfer_t      transfer = {.layer = index, .input = -1, .axis = axis};
    double              positions = (double)pdl_shape_positions(&layer->in);

    if (traits->work == PDL_WORK_EXPERTS && mode == PDL_MODE_EXPERT) {
        transfer.primitive = PDL_ALLTOALL;
        transfer.elements = samples * pdl_layer_expert_rows(layer) * read_together(c, layer, reads, axis);
        if (!pdl_axis_splits(&c->plan->mesh.axis[axis])) transfer.elements *= (double)c->plan->mesh.axis[axis].size;
        for (int i = 0; i < (training ? 4 : 2); i++) {
            transfer.phase = i < 2 ? PDL_PHASE_FORWARD : PDL_PHASE_BACKWARD;
            emit(c, transfer);
        }
    }
    if (traits->loss && mode == PDL_MODE_VOCABULARY) {
        transfer.primitive = PDL_ALLREDUCE;
        transfer.elements = 2.0 * samples * positions; /* maximum and sum of every position */
        emit(c, transfer);
    }
    if (traits->statistics && c->plan->sync_batch_norm && training &&
        (mode == PDL_MODE_SAMPLE || mode == PDL_MODE_SPACE)) {
        transfer.primitive = PDL_ALLREDUCE;
        transfer.elements = 2.0 * (double)layer->in.channels;
        emit(c, transfer);
        transfer.phase = PDL_PHASE_BACKWARD;
        emit(c, transfer);
    }
}

/* `bias` elements of the layer's weights are its bias, which follows the output: whole when inputs are split. */
static void apply_rule(pdl_local_t *local, const pdl_rule_t *rule, pdl_mode_t mode, int axis, int64_t size,
                       double *bias)
{
    local->out[axis] = rule->writes;
    if (rule->reads == PDL_SPLIT_N)
        local->samples = ceil(local->samples / (double)size);
    else {
        local->share_forward *= rule->share;
        local->share_backward_data *= rule->share;
        local->share_backward_weight *= rule->share;
    }
    if (rule->weight == PDL_SPLIT_C) {
        double follows = mode == PDL_MODE_CHANNEL ? 1.0 : rule->share;
        local->weights = (local->weights - *bias) * rule->share + *bias * follows;
        *bias *= follows;
    }
    if (rule->dw == PDL_PARTIAL) local->gradient_axes |= 1u << axis;
    if (rule->redundant) local->replication *= (double)size;
    if (mode == PDL_MODE_SPACE) local->split_space = true;
    if (mode == PDL_MODE_FILTER || mode == PDL_MODE_CHANNEL || mode == PDL_MODE_HEADS ||
        mode == PDL_MODE_VOCABULARY || mode == PDL_MODE_EXPERT)
        local->split = true;
    if (mode == PDL_MODE_FILTER) local->out_channels *= rule->share;
    if (mode == PDL_MODE_CHANNEL) local->in_channels *= rule->share;
}

/* Replicas that share experts out have as many tokens together as before: what each computes is the same, but where some have more
   experts. Their gradients are complete. */
static void share_experts(pdl_local_t *local, const pdl_layer_t *layer, int64_t size, double *bias)
{
    double share = (double)pdl_block_max(layer->experts, size) / (double)layer->experts;
    double more = share * (double)size;

    local->weights *= share;
    *bias *= share;
    local->share_forward *= more;
    local->share_backward_data *= more;
    local->share_backward_weight *= more;
    local->experts_over *= (double)size;
    local->split = true;
}

/* What a layer does on one axis; PASS is replaced by what it stands for. */
static pdl_status_t axis_rule(const pdl_compiler_t *c, int index, int a, pdl_mode_t *mode, pdl_rule_t *rule)
{
    const pdl_layer_t *layer = pdl_model_layer(c->plan->model, index);
    const pdl_axis_t  *axis = &c->plan->mesh.axis[a];
    pdl_placement_t    few[8], *given = few;

    if (layer->input_count > 8) given = malloc((size_t)layer->input_count * sizeof(*given));
    if (!given) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    for (int i = 0; i < layer->input_count; i++) given[i] = c->partition->local[layer->inputs[i]].out[a];
    *mode = (pdl_mode_t)c->plan->modes[index].on[a];
    *rule = pdl_layer_rule(layer, *mode, axis, given);
    if (*mode == PDL_MODE_PASS) *mode = pdl_mode_of_pass(layer, axis, given);
    if (given != few) free(given);
    return PDL_OK;
}

void pdl_compile_layer(pdl_compiler_t *c, int index)
{
    const pdl_layer_t *layer = pdl_model_layer(c->plan->model, index);
    const pdl_mesh_t  *mesh = &c->plan->mesh;
    pdl_local_t       *local = &c->partition->local[index];
    pdl_mode_t         mode[PDL_MAX_AXES] = {PDL_MODE_REPLICATE};
    layouts_t          layouts = {0};
    double             bias = (double)layer->bias_weights;
    double             widened[PDL_MAX_SPACE] = {1, 1, 1};

    *local = (pdl_local_t){.samples = c->partition->micro_batch,
                           .share_forward = 1,
                           .share_backward_data = 1,
                           .share_backward_weight = 1,
                           .weights = (double)layer->weights,
                           .out_channels = (double)layer->out.channels,
                           .in_channels = (double)layer->in.channels,
                           .experts_over = 1,
                           .replication = 1,
                           .first_transfer = c->partition->transfer_count};
    for (int a = 0; a < mesh->axis_count && !c->status; a++) {
        pdl_rule_t rule = {.share = 1};
        /* Samples of one replica are what the micro-batch counts, so none are divided on a data axis. */
        bool data = mesh->axis[a].kind == PDL_AXIS_DATA, experts = pdl_plan_shares_experts(c->plan, index, a);
        if (data && mesh->axis[a].size > 1 && !experts) local->gradient_axes |= 1u << a;
        mode[a] = experts ? PDL_MODE_EXPERT : data ? PDL_MODE_SAMPLE : PDL_MODE_REPLICATE;
        if (experts) share_experts(local, layer, mesh->axis[a].size, &bias);
        if (!pdl_axis_splits(&mesh->axis[a])) continue;
        c->status = axis_rule(c, index, a, &mode[a], &rule);
        if (c->status) return;
        layouts.reads[a] = rule.reads;
        layouts.dx[a] = rule.dx;
        apply_rule(local, &rule, mode[a], a, mesh->axis[a].size, &bias);
    }
    for (int a = 0; a < PDL_MAX_AXES; a++) {
        local->reads[a] = layouts.reads[a];
        local->dx[a] = layouts.dx[a];
        local->mode[a] = (uint8_t)mode[a];
    }
    for (int i = 0; i < layer->input_count; i++) emit_edge(c, index, i, &layouts);
    for (int a = 0; a < mesh->axis_count; a++) {
        if (mesh->axis[a].size == 1) continue;
        if (mode[a] == PDL_MODE_SPACE && layer->input_count) emit_halo(c, index, a, layouts.reads, widened);
        emit_intrinsic(c, index, a, mode[a], layouts.reads);
    }
    local->y_elements = local_elements(c, &layer->out, local->out, -1) / local->samples;
    local->transfer_count = c->partition->transfer_count - local->first_transfer;
}

static void emit_gradients(pdl_compiler_t *c)
{
    c->partition->first_gradient = c->partition->transfer_count;
    if (c->plan->run_mode == PDL_INFERENCE) return;
    for (int i = c->partition->layer_count - 1; i >= 0; i--) {
        const pdl_layer_t *layer = pdl_model_layer(c->plan->model, i);
        const pdl_local_t *local = &c->partition->local[i];
        if (pdl_layer_trained(layer) == 0 || local->gradient_axes == 0) continue;
        emit(c, (pdl_transfer_t){.layer = i,
                                 .input = -1,
                                 .phase = PDL_PHASE_GRADIENT,
                                 .primitive = PDL_ALLREDUCE,
                                 .axis = -1,
                                 .axis_mask = local->gradient_axes,
                                 .elements = local->weights,
                                 .tensors = pdl_layer_weight_tensors(layer)});
    }
}

static bool same_shape(const pdl_shape_t *a, const pdl_shape_t *b)
{
    return a->channels == b->channels && a->extent[0] == b->extent[0] && a->extent[1] == b->extent[1] &&
           a->extent[2] == b->extent[2];
}

/* Two layers of one class in the same modes, whose inputs arrive alike, compile to the same thing. */
static bool same_situation(const pdl_compiler_t *c, int a, int b)
{
    const pdl_layer_t *x = pdl_model_layer(c->plan->model, a), *y = pdl_model_layer(c->plan->model, b);

    if (memcmp(&c->plan->modes[a], &c->plan->modes[b], sizeof(*c->plan->modes)) != 0 ||
        x->input_count != y->input_count || x->needs_input_gradient != y->needs_input_gradient)
        return false;
    for (int i = 0; i < x->input_count; i++) {
        if (c->partition->twin[x->inputs[i]] == c->partition->twin[y->inputs[i]]) continue;
        const pdl_layer_t *p = pdl_model_layer(c->plan->model, x->inputs[i]);
        const pdl_layer_t *q = pdl_model_layer(c->plan->model, y->inputs[i]);
        if (memcmp(c->partition->local[x->inputs[i]].out, c->partition->local[y->inputs[i]].out,
                   sizeof(c->partition->local[0].out)) != 0 ||
            !same_shape(&p->out, &q->out))
            return false;
    }
    return true;
}

static void copy_layer(pdl_compiler_t *c, int index, int twin)
{
    pdl_local_t *local = &c->partition->local[index];

    *local = c->partition->local[twin];
    local->first_transfer = c->partition->transfer_count;
    for (int i = 0; i < local->transfer_count; i++) {
        pdl_transfer_t transfer = c->partition->transfers[c->partition->local[twin].first_transfer + i];
        transfer.layer = index;
        emit(c, transfer);
    }
}

/* Repeated blocks are compiled once and copied: partition->twin[i] is the layer that i is a copy of. */
static pdl_status_t compile_layers(pdl_compiler_t *c)
{
    int  classes = pdl_model_class_count(c->plan->model);
    int *latest = malloc((size_t)classes * sizeof(*latest)); /* the layer compiled last of each class */

    if (!latest) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    for (int i = 0; i < classes; i++) latest[i] = -1;
    for (int i = 0; i < c->partition->layer_count && !c->status; i++) {
        int *slot = &latest[pdl_model_layer(c->plan->model, i)->class_id];
        if (*slot >= 0 && same_situation(c, i, *slot)) {
            c->partition->twin[i] = *slot;
            copy_layer(c, i, *slot);
            continue;
        }
        c->partition->twin[i] = *slot = i;
        pdl_compile_layer(c, i);
    }
    free(latest);
    return c->status;
}

pdl_status_t pdl_partition_create(const pdl_plan_t *plan, double micro_batch, pdl_partition_t **out)
{
    int            count = pdl_model_layer_count(plan->model);
    pdl_compiler_t c = {.plan = plan};

    c.partition = calloc(1, sizeof(*c.partition));
    if (!c.partition) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    c.partition->plan = plan;
    c.partition->layer_count = count;
    c.partition->micro_batch = micro_batch;
    c.partition->local = malloc((size_t)count * sizeof(*c.partition->local)); /* layers fill it in order */
    c.partition->twin = malloc((size_t)count * sizeof(*c.partition->twin));
    if (!c.partition->local || !c.partition->twin) c.status = pdl_error(PDL_ERR_NOMEM, "out of memory");
    if (!c.status) c.status = compile_layers(&c);
    if (!c.status) emit_gradients(&c);
    if (!c.status) c.status = pdl__walk_create(c.partition);
    if (c.status) {
        pdl_partition_destroy(c.partition);
        return c.status;
    }
    *out = c.partition;
    return PDL_OK;
}

void pdl_partition_destroy(pdl_partition_t *partition)
{
    if (!partition) return;
    free(partition->local);
    free(partition->twin);
    free(partition->transfers);
    free(partition->walk);
    free(partition);
}
