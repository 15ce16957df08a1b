/*
 * Virtual stages, as the plan has them.
 */
#include "program/lower/pipe.h"
#include "base/memory.h"
#include <paradl/plan/pipeline.h>
#include <stdlib.h>

static void take_borders(pdl__pipe_t *s)
{
    for (int k = 0; k < s->count * s->chunks && s->count > 1; k++)
        for (int i = s->plan->stage_first[k]; i < s->plan->stage_first[k + 1]; i++) s->run[i] = k;
}

static void study_layers(pdl__pipe_t *s)
{
    const pdl_model_t *model = s->plan->model;
    int                layers = pdl_model_layer_count(model);

    for (int i = 1; i < layers; i++) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);
        s->trains[i] = !layer->frozen && (layer->weights > 0 || layer->tied_to >= 0);
        for (int j = 0; j < layer->input_count; j++) s->trains[i] |= s->trains[layer->inputs[j]];
    }
    for (int i = layers - 1; i > 0; i--) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);
        s->leads[i] |= pdl_layer_traits(layer)->loss != PDL_LOSS_NONE;
        for (int j = 0; j < layer->input_count && s->leads[i]; j++) s->leads[layer->inputs[j]] = true;
    }
}

pdl_status_t pdl__pipe_create(const pdl_plan_t *plan, int at, pdl__pipe_t **out)
{
    size_t       layers = (size_t)pdl_model_layer_count(plan->model);
    pdl__pipe_t *s = calloc(1, sizeof(*s));

    if (!s) return pdl__no_memory("while cutting a model into stages");
    *s = (pdl__pipe_t){.plan = plan,
                       .count = (int)pdl_mesh_extent(&plan->mesh, PDL_AXIS_PIPELINE),
                       .at = at,
                       .chunks = plan->virtual_stages,
                       .run = calloc(layers, sizeof(*s->run)),
                       .trains = calloc(layers, sizeof(*s->trains)),
                       .leads = calloc(layers, sizeof(*s->leads))};
    if (!s->run || !s->trains || !s->leads) {
        pdl__pipe_destroy(s);
        return pdl__no_memory("while cutting a model into stages");
    }
    if (s->count == 1) s->chunks = 1;
    take_borders(s);
    study_layers(s);
    *out = s;
    return PDL_OK;
}

void pdl__pipe_destroy(pdl__pipe_t *s)
{
    if (!s) return;
    free(s->run);
    free(s->trains);
    free(s->leads);
    free(s);
}

int pdl__pipe_stage_of(const pdl__pipe_t *s, int layer)
{
    return s->run[layer] % s->count;
}

bool pdl__pipe_reads(const pdl__pipe_t *s, int producer, int stage, bool *gradient)
{
    const pdl_model_t *model = s->plan->model;
    bool               reads = false;

    *gradient = false;
    for (int i = producer + 1; i < pdl_model_layer_count(model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);
        if (pdl__pipe_stage_of(s, i) != stage) continue;
        for (int j = 0; j < layer->input_count; j++)
            if (layer->inputs[j] == producer) {
                reads = true;
                *gradient |= s->leads[i] && s->trains[producer];
            }
    }
    return reads;
}

bool pdl__pipe_holds(const pdl__pipe_t *s, int owner, int stage)
{
    for (int i = owner; i < pdl_model_layer_count(s->plan->model); i++)
        if ((i == owner || pdl_model_layer(s->plan->model, i)->tied_to == owner) &&
            pdl__pipe_stage_of(s, i) == stage)
            return true;
    return false;
}

int pdl__pipe_holders(const pdl__pipe_t *s, int owner)
{
    int holders = 0;

    for (int k = 0; k < s->count; k++) holders += pdl__pipe_holds(s, owner, k);
    return holders;
}

pdl_status_t pdl__pipe_order(const pdl__pipe_t *s, bool training, pdl_program_pass_t **out, int *count)
{
    pdl_pipeline_t pipeline = pdl_pipeline_of_plan(s->plan);

    pipeline.chunks = s->chunks;
    pipeline.training = training;
    *count = (int)pdl_pipeline_op_count(&pipeline);
    pdl_pipeline_op_t  *ops = calloc((size_t)*count, sizeof(*ops));
    pdl_program_pass_t *order = calloc((size_t)*count, sizeof(*order));
    if (!ops || !order) {
        free(ops);
        free(order);
        return pdl__no_memory("while cutting a model into stages");
    }
    pdl_pipeline_order(&pipeline, s->at, ops);
    for (int k = 0; k < *count; k++)
        order[k] = (pdl_program_pass_t){ops[k].backward, (int)ops[k].micro_batch, ops[k].chunk, ops[k].gradients};
    free(ops);
    *out = order;
    return PDL_OK;
}

/* A stage is ahead of one that lies d stages behind it by d micro-batches: with one message more it never waits for a
   receiver that waits for it. Chunks make the lead longer; then all may be in flight. */
int pdl__pipe_messages(const pdl__pipe_t *s, int from, int to)
{
    int64_t most = s->plan->micro_batches, lead = to > from ? to - from + 1 : from - to + 1;

    return (int)(s->chunks > 1 || lead > most ? most : lead);
}
