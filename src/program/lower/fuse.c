/*
 * Which layers are computed together: a layer, a sum with another tensor, an activation. What the backend can fuse is
 * its own affair; here the graph must allow it, which it does when nobody else reads what lies between.
 */
#include "program/lower/graph.h"
#include <stdlib.h>

static bool is_sum(const pdl_layer_t *layer)
{
    return pdl_layer_traits(layer)->combine == PDL_COMBINE_SUM;
}

/* Activations that can end an op of other layers. */
static bool ends_op(const pdl_layer_t *layer)
{
    return pdl_layer_traits(layer)->activation && pdl_layer_traits(layer)->fuses_tail;
}

bool pdl__changes_nothing(const pdl_plan_t *plan, int i)
{
    const pdl_layer_t *layer = pdl_model_layer(plan->model, i);

    return pdl_layer_is_identity(layer) || (plan->run_mode == PDL_INFERENCE && pdl_layer_traits(layer)->drops);
}

int pdl__behind_identities(const pdl_plan_t *plan, int i)
{
    while (pdl__changes_nothing(plan, i)) i = pdl_model_layer(plan->model, i)->inputs[0];
    return i;
}

pdl_fusion_t pdl__fusion_of(const pdl_plan_t *plan, int head, int tail)
{
    const pdl_model_t *model = plan->model;
    pdl_fusion_t       fusion = {.add = false, .activation = PDL_NO_ACTIVATION};

    for (int i = tail; i != head;) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);
        if (!is_sum(layer)) {
            fusion.activation = layer->type;
            i = pdl__behind_identities(plan, layer->inputs[0]);
            /* The sum's own inputs are told apart by the head. */
            if (i == head || !is_sum(pdl_model_layer(model, i))) continue;
        }
        fusion.add = true;
        break;
    }
    return fusion;
}

/* The only layer that reads layer i, or -1. */
static int next_layer(const pdl_model_t *model, int i)
{
    if (pdl_model_layer(model, i)->consumer_count != 1) return -1;
    for (int k = i + 1; k < pdl_model_layer_count(model); k++) {
        const pdl_layer_t *layer = pdl_model_layer(model, k);
        for (int j = 0; j < layer->input_count; j++)
            if (layer->inputs[j] == i) return k;
    }
    return -1;
}

/* The only layer that reads layer i, looking through those that change nothing, or -1. */
static int only_reader(const pdl_plan_t *plan, int i)
{
    int next = next_layer(plan->model, i);

    while (next >= 0 && pdl__changes_nothing(plan, next)) next = next_layer(plan->model, next);
    return next;
}

static bool adds_two_of_a_shape(const pdl_model_t *model, int i)
{
    const pdl_layer_t *layer = pdl_model_layer(model, i);

    return is_sum(layer) && layer->input_count == 2 && layer->inputs[0] != layer->inputs[1] &&
           pdl_shape_elements(&pdl_model_layer(model, layer->inputs[0])->out) ==
               pdl_shape_elements(&pdl_model_layer(model, layer->inputs[1])->out);
}

/* Whether what one layer writes is what its reader wants, forward and backward. */
static bool lies_alike(const pdl__layouts_t *l, int writer, int reader)
{
    for (int a = 0; a < l->plan->mesh.axis_count && !l->trivial; a++) {
        pdl_placement_t written = l->layer[writer].out.on[a];
        if (l->plan->mesh.axis[a].size == 1) continue;
        if (written == PDL_PARTIAL || l->layer[reader].reads.on[a] != written ||
            l->layer[reader].dx.on[a] != written)
            return false;
    }
    return true;
}

/* The only reader, if it takes what layer i writes without anything moving between. */
static int close_reader(const pdl__layouts_t *l, int i)
{
    int reader = only_reader(l->plan, i);

    if (reader < 0 || l->stages->run[i] != l->stages->run[reader]) return -1;
    return lies_alike(l, i, reader) ? reader : -1;
}

/* The last layer that can be computed together with layer i. */
static int reach(const pdl__layouts_t *l, pdl_backend_t *backend, int i, const int *head)
{
    const pdl_model_t *model = l->plan->model;
    const pdl_layer_t *layer = pdl_model_layer(model, i);
    pdl_fusion_t       fusion = {.add = false, .activation = PDL_NO_ACTIVATION};
    int                tail = i, next = close_reader(l, i);

    /* Of two layers that could take in a sum the later one does, which the earlier sees from its claim. */
    if (next >= 0 && adds_two_of_a_shape(model, next) && head[next] == next) {
        fusion.add = true;
        int after = close_reader(l, next);
        if (after >= 0 && ends_op(pdl_model_layer(model, after))) {
            fusion.activation = pdl_model_layer(model, after)->type;
            if (backend->ops->fuses(backend, layer, &fusion)) return after;
            fusion.activation = PDL_NO_ACTIVATION;
        }
        if (backend->ops->fuses(backend, layer, &fusion)) return next;
        fusion.add = false;
    }
    if (next >= 0 && ends_op(pdl_model_layer(model, next))) {
        fusion.activation = pdl_model_layer(model, next)->type;
        if (backend->ops->fuses(backend, layer, &fusion)) tail = next;
    }
    return tail;
}

pdl_status_t pdl__fuse_layers(const pdl__layouts_t *layouts, pdl_backend_t *backend, int *head)
{
    const pdl_model_t *model = layouts->plan->model;
    int                count = pdl_model_layer_count(model);

    for (int i = 0; i < count; i++) head[i] = i;
    if (!backend->ops->fuses) return PDL_OK;
    for (int i = count - 1; i >= 1; i--) {
        if (head[i] != i || !pdl_layer_traits(pdl_model_layer(model, i))->fuses_head) continue;
        int tail = reach(layouts, backend, i, head);
        if (tail == i) continue;
        /* Nothing ends at the layers in between. */
        for (int k = i; k != tail; k = next_layer(model, k)) head[k] = -1;
        head[tail] = i;
    }
    return PDL_OK;
}
