/*
 * What every layer of a plan takes in an update, summed over the operations of the program that belong to it. Layers
 * that a backend fuses count as the first of them; a redistribution belongs to the layer that reads what it makes.
 */
#include "report/plan/plan_layers.h"

#include "base/memory.h"

#include <paradl/plan/partition.h>

#include <math.h>
#include <stdlib.h>

typedef struct layer_sums {
    double forward_s, backward_s, comm_s, sent_bytes, saved_bytes, out_bytes;
    int    operations;
} layer_sums_t;

static void add_op(const pdl_replay_rank_t *rank, int i, layer_sums_t *sums)
{
    const pdl_program_op_t   *op = &rank->program->op[i];
    const pdl_program_node_t *node = op->node >= 0 ? &rank->program->node[op->node] : NULL;
    layer_sums_t             *layer;

    if (node == NULL) return;
    layer = &sums[node->kind == PDL_NODE_REDISTRIBUTE ? node->reader : node->layer];
    layer->operations++;
    if (op->stream != PDL_STREAM_COMPUTE) {
        layer->comm_s += rank->seconds[i];
        layer->sent_bytes += op->bytes;
    } else if (op->backward) {
        layer->backward_s += rank->seconds[i];
    } else {
        layer->forward_s += rank->seconds[i];
    }
}

/* Bytes of one micro-batch. */
static void add_nodes(const pdl_program_t *program, layer_sums_t *sums)
{
    for (int i = 0; i < program->node_count; i++) {
        const pdl_program_node_t *node = &program->node[i];

        if (node->kind != PDL_NODE_COMPUTE) continue;
        sums[node->layer].saved_bytes += (double)node->saved_bytes;
        sums[node->layer].out_bytes += (double)node->out_bytes;
    }
}

/* Forward, of one device in an update: operations, and bytes that it reads and writes; formats of 8 bits are for factors alone. */
static void write_work(pdl_json_t *json, const pdl_plan_t *plan, const pdl_layer_t *layer, const pdl_local_t *local)
{
    double item = pdl_precision_bytes(plan->precision);
    double elements = local->samples * (local->x_elements + local->y_elements) + local->weights;

    pdl_json_number(json, "forward_flop",
                    plan->micro_batches * local->samples * (double)layer->flop_forward * local->share_forward);
    pdl_json_bytes(json, "forward_bytes", plan->micro_batches * item * elements);
}

static void write_layer(pdl_json_t *json, const pdl_plan_t *plan, const pdl_layer_t *layer, const layer_sums_t *s,
                        const pdl_local_t *local)
{
    pdl_json_open(json, NULL, '{');
    pdl_json_string(json, "name", layer->name);
    pdl_json_string(json, "type", pdl_layer_type_name(layer->type));
    pdl_json_int(json, "operations", s->operations);
    pdl_json_number(json, "flop", (double)layer->flop_forward);
    pdl_json_int(json, "weights", layer->weights);
    pdl_json_number(json, "forward_s", s->forward_s);
    pdl_json_number(json, "backward_s", s->backward_s);
    pdl_json_number(json, "comm_s", s->comm_s);
    pdl_json_bytes(json, "sent_bytes", s->sent_bytes);
    pdl_json_bytes(json, "output_bytes", s->out_bytes);
    pdl_json_bytes(json, "saved_bytes", s->saved_bytes);
    write_work(json, plan, layer, local);
    pdl_json_close(json);
}

pdl_status_t pdl__plan_layers_json(pdl_json_t *json, const pdl_plan_t *plan, const pdl_timeline_t *timeline)
{
    int              count = pdl_model_layer_count(plan->model);
    double           samples = (double)plan->batch / (double)pdl_mesh_extent(&plan->mesh, PDL_AXIS_DATA);
    layer_sums_t    *sums = calloc((size_t)count + 1, sizeof(*sums));
    pdl_partition_t *partition = NULL;
    pdl_status_t     status = sums != NULL ? PDL_OK : pdl__no_memory("for the layers of a plan");

    if (!status) status = pdl_partition_create(plan, ceil(samples / (double)plan->micro_batches), &partition);
    for (int r = 0; r < timeline->count && !status; r++) {
        add_nodes(timeline->ranks[r].program, sums);
        for (int i = 0; i < timeline->ranks[r].program->op_count; i++) add_op(&timeline->ranks[r], i, sums);
    }
    pdl_json_open(json, "layers", '[');
    for (int l = 0; l < count && !status; l++)
        if (sums[l].operations > 0)
            write_layer(json, plan, pdl_model_layer(plan->model, l), &sums[l], &partition->local[l]);
    pdl_json_close(json);
    if (partition != NULL) pdl_partition_destroy(partition);
    free(sums);
    return status;
}
