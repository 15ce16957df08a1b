/*
 * Who keeps what, and for how long: activation memory by liveness along one forward and backward pass, and
 * the tensors that cross a stage border.
 */
#include "plan/liveness.h"
#include <paradl/plan/compile.h>
#include <stdlib.h>
#include <string.h>

/* Operations whose output is another view of their input: no storage of their own. */
static bool is_view(const pdl_layer_t *layer)
{
    return pdl_layer_traits(layer)->view != PDL_VIEW_NONE;
}

/* The layer that a view, or a view of a view, looks at. */
static int viewed_layer(const pdl_model_t *model, int i)
{
    while (is_view(pdl_model_layer(model, i))) i = pdl_model_layer(model, i)->inputs[0];
    return i;
}

/* Elements an operation keeps besides input and output: dropout masks of a byte, the hidden layer of experts. */
static double keeps_inside(const pdl_partition_t *partition, int index)
{
    const pdl_layer_t *layer = pdl_model_layer(partition->plan->model, index);
    const pdl_local_t *local = &partition->local[index];
    double             y = local->y_elements * local->samples;

    if (pdl_layer_traits(layer)->drops)
        return layer->rate > 0 ? y / pdl_precision_bytes(partition->plan->precision) : 0;
    if (pdl_layer_traits(layer)->work == PDL_WORK_EXPERTS)
        return y * pdl_layer_expert_rows(layer) *
               (1.0 + (layer->gated ? 3.0 : 2.0) * (double)layer->expert_hidden / (double)layer->in.channels);
    return 0;
}

/* Whether gathered inputs stay for backward. Sequence parallelism keeps its own piece and gathers again. */
static bool keeps_copies(const pdl_partition_t *partition, int index)
{
    return pdl_layer_keeps_inputs(pdl_model_layer(partition->plan->model, index)) &&
           !partition->plan->sequence_parallel;
}

/* What a layer holds and keeps, one micro-batch. */
typedef struct fact {
    const pdl_layer_t *layer;
    double             storage; /* of its output; 0 where that is a view of another's */
    double             inside;  /* kept besides input and output */
    double             copies;  /* gathered inputs */
    bool               keeps_input, keeps_output, keeps_copies;
} fact_t;

/* What is known of all layers is found once per partition; what belongs to a run of layers is reset for it, so that
   walking a stage costs no more than its own layers. */
struct pdl_walk {
    const pdl_partition_t *partition;
    fact_t                *fact;
    int                    first, last;
    int                   *root;       /* the layer that owns the storage of a layer's output */
    int                   *last_use;   /* last reader in forward order, per owner */
    int                   *keep_until; /* per saved owner: the layer whose backward reads it last */
    int                   *external;   /* owners before `first` that the run reads */
    int                    external_count;
    bool                  *known;        /* per owner before `first`: in that list */
    bool                  *saved;        /* per owner: read again in backward */
    bool                  *has_gradient; /* per owner: backward makes its gradient */
    bool                  *gradient;     /* per owner: its gradient is allocated */
};
typedef struct pdl_walk walk_t;

static void save(walk_t *w, int owner, int reader)
{
    /* Readers come in order: the first is the last in backward. */
    if (!w->saved[owner]) w->keep_until[owner] = reader;
    w->saved[owner] = true;
}

static void reset(walk_t *w, int owner)
{
    w->last_use[owner] = owner;
    w->saved[owner] = w->gradient[owner] = false;
}

static void walk_layer(walk_t *w, int i)
{
    const pdl_layer_t *layer = w->fact[i].layer;
    bool               copy = w->fact[i].keeps_copies;

    if (w->fact[i].keeps_output) save(w, w->root[i], i);
    for (int j = 0; j < layer->input_count; j++) {
        int owner = w->root[layer->inputs[j]];
        if (owner < w->first && !w->known[owner]) {
            w->known[owner] = true;
            w->external[w->external_count++] = owner;
            reset(w, owner);
        }
        w->last_use[owner] = i;
        bool copied = copy && j < 32 && w->partition->local[i].gathered_inputs >> j & 1;
        if (w->fact[i].keeps_input && !copied) save(w, owner, i);
    }
}

static void walk_begin(walk_t *w, int first, int last)
{
    w->first = first;
    w->last = last;
    w->external_count = 0;
    for (int i = first; i < last; i++) reset(w, i);
    for (int i = first; i < last; i++) walk_layer(w, i);
    for (int i = 0; i < w->external_count; i++) w->known[w->external[i]] = false;
}

static fact_t fact_of(const walk_t *w, int i)
{
    const pdl_partition_t *partition = w->partition;
    const pdl_layer_t     *layer = pdl_model_layer(partition->plan->model, i);
    const pdl_local_t     *local = &partition->local[i];
    fact_t                 fact = {.layer = layer,
                                   .keeps_input = pdl_layer_keeps_inputs(layer),
                                   .keeps_output = pdl_layer_traits(layer)->keeps_output};

    fact.storage = w->root[i] == i ? local->y_elements * local->samples : 0;
    fact.inside = keeps_inside(partition, i);
    fact.copies = is_view(layer) ? 0 : local->gathered_elements * local->samples;
    fact.keeps_copies = keeps_copies(partition, i);
    return fact;
}

pdl_status_t pdl__walk_create(pdl_partition_t *partition)
{
    size_t  count = (size_t)partition->layer_count;
    walk_t *w = malloc(sizeof(*w) + count * (sizeof(fact_t) + 4 * sizeof(int) + 4 * sizeof(bool)));

    if (!w) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    *w = (walk_t){.partition = partition};
    w->fact = (fact_t *)(void *)(w + 1);
    w->root = (int *)(void *)(w->fact + count);
    w->last_use = w->root + count;
    w->keep_until = w->last_use + count;
    w->external = w->keep_until + count;
    w->known = (bool *)(w->external + count);
    w->saved = w->known + count;
    w->has_gradient = w->saved + count;
    w->gradient = w->has_gradient + count;
    memset(w->known, 0, 4 * count * sizeof(bool));
    for (int i = 0; i < partition->layer_count; i++) {
        const pdl_layer_t *layer = pdl_model_layer(partition->plan->model, i);
        /* What was gathered for a view is the view's own. */
        bool view = is_view(layer) && !partition->local[i].gathered_inputs;
        w->root[i] = view ? w->root[layer->inputs[0]] : i;
        if (partition->twin[i] < i) {
            w->fact[i] = w->fact[partition->twin[i]];
            w->fact[i].layer = layer;
        } else {
            w->fact[i] = fact_of(w, i);
        }
        for (int j = 0; j < layer->input_count && layer->needs_input_gradient; j++)
            w->has_gradient[w->root[layer->inputs[j]]] = true;
        if (layer->consumer_count == 0 && !pdl_layer_traits(layer)->source) w->has_gradient[w->root[i]] = true;
    }
    partition->walk = w;
    return PDL_OK;
}

pdl_status_t pdl_partition_saved(const pdl_partition_t *partition, bool *saved)
{
    const pdl_model_t *model = partition->plan->model;

    memset(saved, 0, (size_t)partition->layer_count * sizeof(bool));
    for (int i = 0; i < partition->layer_count; i++) {
        const pdl_layer_t  *layer = pdl_model_layer(model, i);
        const pdl_traits_t *traits = pdl_layer_traits(layer);
        if (traits->keeps_output) saved[viewed_layer(model, i)] = true;
        for (int j = 0; j < layer->input_count && pdl_layer_keeps_inputs(layer); j++)
            saved[viewed_layer(model, layer->inputs[j])] = true;
    }
    return PDL_OK;
}

/* Nothing waits for a backward pass in inference: a tensor goes when its last reader has run. */
static double forward_peak(const walk_t *w, double *saved_total)
{
    bool   training = w->partition->plan->run_mode == PDL_TRAINING;
    double saved = 0, live = 0, peak = 0;

    /* What earlier stages sent is there from the start. */
    for (int k = 0; k < w->external_count; k++)
        *(training && w->saved[w->external[k]] ? &saved : &live) += w->fact[w->external[k]].storage;
    for (int i = w->first; i < w->last; i++) {
        const pdl_layer_t *layer = w->fact[i].layer;
        *(training && w->saved[i] ? &saved : &live) += w->fact[i].storage;
        double inside = w->fact[i].inside, copied = w->fact[i].copies;
        if (saved + live + inside + copied > peak) peak = saved + live + inside + copied;
        if (training) saved += inside + (w->fact[i].keeps_copies ? copied : 0);
        for (int j = 0; j < layer->input_count; j++) {
            int  owner = w->root[layer->inputs[j]];
            bool repeated = false;
            for (int k = 0; k < j; k++) repeated |= w->root[layer->inputs[k]] == owner;
            if (!repeated && !(training && w->saved[owner]) && w->last_use[owner] == i)
                live -= w->fact[owner].storage;
        }
    }
    *saved_total = saved;
    return peak;
}

/* Storage of the gradient of an owner, when it is not there yet. */
static double allocate_gradient(walk_t *w, int owner)
{
    if (!w->has_gradient[owner] || w->gradient[owner]) return 0;
    w->gradient[owner] = true;
    return w->fact[owner].storage;
}

static double release_saved(walk_t *w, int owner, int reader)
{
    if (!w->saved[owner] || w->keep_until[owner] != reader) return 0;
    w->saved[owner] = false;
    return w->fact[owner].storage;
}

static double backward_peak(walk_t *w, double saved)
{
    double gradients = 0, peak = saved;

    for (int i = w->last - 1; i >= w->first; i--) {
        const pdl_layer_t *layer = w->fact[i].layer;
        bool               kept = w->fact[i].keeps_copies;
        gradients += allocate_gradient(w, w->root[i]);
        for (int j = 0; j < layer->input_count && layer->needs_input_gradient; j++)
            gradients += allocate_gradient(w, w->root[layer->inputs[j]]);
        /* The gradient of a gathered input is whole before it is reduced; so is what is gathered again. */
        double whole = w->fact[i].copies * (layer->needs_input_gradient + (w->fact[i].keeps_input && !kept));
        if (saved + gradients + whole > peak) peak = saved + gradients + whole;
        if (w->gradient[i]) gradients -= w->fact[i].storage;
        saved -= release_saved(w, w->root[i], i) + w->fact[i].inside + (kept ? w->fact[i].copies : 0);
        for (int j = 0; j < layer->input_count; j++) saved -= release_saved(w, w->root[layer->inputs[j]], i);
    }
    return peak;
}

void pdl_partition_memory(const pdl_partition_t *partition, int first, int last, pdl_activation_memory_t *memory)
{
    walk_t *w = partition->walk;

    walk_begin(w, first, last);
    double saved, peak = forward_peak(w, &saved);
    if (partition->plan->run_mode == PDL_TRAINING) {
        double backward = backward_peak(w, saved);
        if (backward > peak) peak = backward;
    }
    memory->saved = saved;
    memory->transient = peak - saved;
    memory->input = 0;
    for (int i = 0; i < w->external_count; i++) memory->input += w->fact[w->external[i]].storage;
}

void pdl_partition_borders(const pdl_partition_t *partition, double *borders)
{
    walk_t *w = partition->walk;
    int     count = partition->layer_count;

    walk_begin(w, 0, count);
    /* A tensor of layer i crosses the borders i+1 .. last_use: add where it begins, take away where it ends. */
    for (int i = 0; i <= count; i++) borders[i] = 0;
    for (int i = 0; i < count; i++) {
        if (w->last_use[i] == i) continue;
        borders[i + 1] += w->fact[i].storage;
        if (w->last_use[i] + 1 <= count) borders[w->last_use[i] + 1] -= w->fact[i].storage;
    }
    for (int i = 1; i <= count; i++) borders[i] += borders[i - 1];
}
