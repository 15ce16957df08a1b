/*
 * What every layer of a plan takes in an update, summed over the operations of the program that belong to it. Layers
 * that a backend fuses count as the first of them; a redistribution belongs to the layer that reads what it makes.
 */
#include "report/plan/plan_layers.h"

#include "base/memory.h"

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

static void write_layer(pdl_json_t *json, const pdl_layer_t *layer, const layer_sums_t *s)
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
    pdl_json_close(json);
}

pdl_status_t pdl__plan_layers_json(pdl_json_t *json, const pdl_model_t *model, const pdl_timeline_t *timeline)
{
    int           count = pdl_model_layer_count(model);
    layer_sums_t *sums = calloc((size_t)count + 1, sizeof(*sums));

    if (sums == NULL) return pdl__no_memory("for the layers of a plan");
    for (int r = 0; r < timeline->count; r++) {
        add_nodes(timeline->ranks[r].program, sums);
        for (int i = 0; i < timeline->ranks[r].program->op_count; i++) add_op(&timeline->ranks[r], i, sums);
    }
    pdl_json_open(json, "layers", '[');
    for (int l = 0; l < count; l++)
        if (sums[l].operations > 0) write_layer(json, pdl_model_layer(model, l), &sums[l]);
    pdl_json_close(json);
    free(sums);
    return PDL_OK;
}
