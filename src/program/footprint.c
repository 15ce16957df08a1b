/*
 * From the layers of a partition to the nodes of a program, as src/train/graph.c does it with a real backend: layers are
 * joined, tensors converted between the plain and the blocked arrangement, and what changes nothing is a view.
 */
#include "program/footprint.h"
#include "program/builder.h"
#include <math.h>
#include <stdlib.h>

typedef struct item {
    pdl_shape_t shape;
    double      elements; /* of the output, padding not counted */
    bool        blocked;  /* how the output lies */
    bool        gradient; /* the output gets one */
    bool        convert;
} item_t;

typedef struct walk {
    const pdl_partition_t       *partition;
    const pdl_model_t           *model;
    const pdl__footprint_spec_t *spec;
    pdl_program_node_t          *node;
    item_t                      *item;
    int                         *head;    /* first layer of what ends at layer i; -1: nothing ends there */
    int                         *reader;  /* the only layer that reads layer i, or -1 */
    int                         *item_of; /* the item that holds the output of layer i */
    int                          count;
} walk_t;

static const pdl_layer_t *layer_at(const walk_t *w, int i)
{
    return pdl_model_layer(w->model, i);
}

static bool changes_nothing(const pdl_layer_t *layer)
{
    return pdl_layer_is_identity(layer);
}

static int behind(const walk_t *w, int i)
{
    while (changes_nothing(layer_at(w, i))) i = layer_at(w, i)->inputs[0];
    return i;
}

static bool blockable(const pdl_shape_t *shape)
{
    return !shape->sequence && shape->rank > 0;
}

static bool is_activation(pdl_layer_type_t type)
{
    return pdl_type_traits(type)->activation && pdl_type_traits(type)->fuses_tail;
}

static bool is_sum_of_two(const walk_t *w, int i)
{
    const pdl_layer_t *layer = layer_at(w, i);

    return pdl_layer_traits(layer)->combine == PDL_COMBINE_SUM && layer->input_count == 2 &&
           layer->inputs[0] != layer->inputs[1] &&
           pdl_shape_elements(&layer_at(w, layer->inputs[0])->out) ==
               pdl_shape_elements(&layer_at(w, layer->inputs[1])->out);
}

static void find_readers(walk_t *w)
{
    for (int i = 0; i < w->partition->layer_count; i++) {
        w->head[i] = i;
        w->reader[i] = -1;
        for (int j = 0; j < layer_at(w, i)->input_count; j++)
            if (layer_at(w, layer_at(w, i)->inputs[j])->consumer_count == 1)
                w->reader[layer_at(w, i)->inputs[j]] = i;
    }
}

static int only_reader(const walk_t *w, int i)
{
    int next = w->reader[i];

    while (next >= 0 && changes_nothing(layer_at(w, next))) next = w->reader[next];
    return next;
}

/* The last layer that is computed together with layer i. */
static int reach(const walk_t *w, int i)
{
    const pdl_layer_t *layer = layer_at(w, i);
    int                next = only_reader(w, i);

    if (next >= 0 && is_sum_of_two(w, next) && w->head[next] == next) {
        pdl__joined_t sum = {.add = true, .activation = PDL_NO_ACTIVATION}, both = sum;
        int           after = only_reader(w, next);
        if (after >= 0) both.activation = layer_at(w, after)->type;
        if (after >= 0 && is_activation(both.activation) && pdl__footprint_joins(layer, &both)) return after;
        if (pdl__footprint_joins(layer, &sum)) return next;
    }
    if (next < 0 || !is_activation(layer_at(w, next)->type)) return i;
    pdl__joined_t joined = {.activation = layer_at(w, next)->type};
    return pdl__footprint_joins(layer, &joined) ? next : i;
}

static void join_layers(walk_t *w)
{
    find_readers(w);
    for (int i = w->partition->layer_count - 1; i >= 1; i--) {
        int tail = w->head[i] == i ? reach(w, i) : i;
        if (tail == i) continue;
        for (int k = i; k != tail; k = w->reader[k]) w->head[k] = -1;
        w->head[tail] = i;
    }
}

static double stored(const walk_t *w, const item_t *item)
{
    double channels = (double)item->shape.channels, block = (double)w->spec->channel_block;

    return item->blocked ? item->elements * ceil(channels / block) * block / channels : item->elements;
}

static int add_item(walk_t *w, const item_t *item, const pdl_program_node_t *node)
{
    w->item[w->count] = *item;
    w->node[w->count] = *node;
    w->node[w->count].backward = item->gradient;
    return w->count++;
}

/* The item that holds the output of another one as it is wanted. */
static int converted(walk_t *w, int from, bool blocked)
{
    if (w->item[from].blocked == blocked) return from;
    for (int k = from + 1; k < w->count; k++)
        if (w->item[k].convert && w->node[k].input[0] == from) return k;
    item_t item = w->item[from];
    item.blocked = blocked;
    item.convert = true;
    pdl_program_node_t node = {.kind = PDL_NODE_CONVERT,
                               .input = {from},
                               .input_count = 1,
                               .input_gradients = item.gradient};
    node.out_bytes = (size_t)(stored(w, &item) * w->spec->item_bytes);
    return add_item(w, &item, &node);
}

static void add_view(walk_t *w, int i)
{
    int from = w->item_of[layer_at(w, i)->inputs[0]];

    if (!changes_nothing(layer_at(w, i))) from = converted(w, from, false);
    item_t item = w->item[from];
    item.shape = layer_at(w, i)->out;
    pdl_program_node_t node = {.kind = PDL_NODE_VIEW,
                               .input = {from},
                               .input_count = 1,
                               .input_gradients = item.gradient};
    node.out_bytes = w->node[from].out_bytes;
    w->item_of[i] = add_item(w, &item, &node);
}

/* Whether a layer reads blocked tensors, given what comes. A first convolution reads few channels as they lie; sums
   are blocked when one part is, and concatenations when blocks stay whole. */
static bool reads_blocked(const walk_t *w, const pdl_layer_t *layer, const int *from, int count)
{
    bool any = false, whole = true;

    for (int j = 0; j < count; j++) {
        any |= w->item[from[j]].blocked;
        whole &= w->item[from[j]].shape.channels % w->spec->channel_block == 0;
    }
    const pdl_traits_t *traits = pdl_layer_traits(layer);
    if (pdl__footprint_small(w->spec, layer)) return false;
    if (pdl_layer_is_convolution(layer))
        return layer->in.channels >= w->spec->channel_block || layer->groups > 1 || w->item[from[0]].gradient;
    if (traits->combine == PDL_COMBINE_JOIN || traits->moves_zero) return any && whole;
    return any || traits->transposed;
}

static bool writes_blocked(const pdl_layer_t *layer, bool reads)
{
    return blockable(&layer->out) && pdl_layer_traits(layer)->positions != PDL_POSITIONS_SUMMED &&
           (reads || pdl_layer_is_convolution(layer));
}

static void find_inputs(walk_t *w, int head, int tail, pdl__joined_t *joined, int *from, int *count)
{
    const pdl_layer_t *layer = layer_at(w, head);

    for (*count = 0; *count < layer->input_count && *count < PDL_PROGRAM_INPUTS; ++*count)
        from[*count] = w->item_of[layer->inputs[*count]];
    *joined = (pdl__joined_t){.activation = PDL_NO_ACTIVATION};
    if (tail == head) return;
    int sum = tail;
    if (pdl_layer_traits(layer_at(w, tail))->combine != PDL_COMBINE_SUM) {
        joined->activation = layer_at(w, tail)->type;
        sum = behind(w, layer_at(w, tail)->inputs[0]);
    }
    if (sum == head) return;
    joined->add = true;
    const int *parts = layer_at(w, sum)->inputs;
    if (*count < PDL_PROGRAM_INPUTS) from[(*count)++] = w->item_of[parts[behind(w, parts[0]) == head]];
}

static void add_operation(walk_t *w, int head, int tail)
{
    const pdl_layer_t  *layer = layer_at(w, head);
    const pdl_local_t  *local = &w->partition->local[tail];
    int                 from[PDL_PROGRAM_INPUTS], count;
    pdl__footprint_op_t op = {.spec = w->spec, .layer = layer, .samples = local->samples};
    item_t item = {.shape = layer_at(w, tail)->out, .gradient = w->spec->training && layer->weights > 0};
    pdl_program_node_t node;

    find_inputs(w, head, tail, &op.joined, from, &count);
    bool reads = w->spec->channel_block > 1 && reads_blocked(w, layer, from, count);
    for (int j = 0; j < count; j++) {
        item.gradient |= w->item[from[j]].gradient;
        op.input_gradient |= w->item[from[j]].gradient;
        from[j] = converted(w, from[j], reads && blockable(&w->item[from[j]].shape));
    }
    item.elements = local->y_elements * local->samples;
    item.blocked =
        w->spec->channel_block > 1 && writes_blocked(layer, reads) && !pdl__footprint_small(w->spec, layer);
    op.out_elements = stored(w, &item);
    op.weight_bytes = 4 * w->partition->local[head].weights;
    pdl__footprint_node(&op, &node);
    node.input_count = count;
    for (int j = 0; j < count; j++) {
        node.input[j] = from[j];
        node.input_gradients |= (unsigned)w->item[from[j]].gradient << j;
    }
    w->item_of[tail] = add_item(w, &item, &node);
}

static bool reads_tokens(const walk_t *w)
{
    for (int i = 1; i < w->partition->layer_count; i++)
        if (pdl_layer_traits(layer_at(w, i))->tokens && layer_at(w, i)->inputs[0] == 0) return true;
    return false;
}

static void add_layers(walk_t *w)
{
    const pdl_local_t *local = &w->partition->local[0];
    item_t             source = {.shape = layer_at(w, 0)->out, .elements = local->y_elements * local->samples};
    pdl_program_node_t node = {.kind = PDL_NODE_SOURCE};

    node.out_bytes = (size_t)(source.elements * (reads_tokens(w) ? 4 : w->spec->item_bytes));
    w->item_of[0] = add_item(w, &source, &node);
    for (int i = 1; i < w->partition->layer_count; i++) {
        if (w->head[i] < 0) continue;
        if (pdl_layer_traits(layer_at(w, i))->view == PDL_VIEW_SAME || changes_nothing(layer_at(w, i)))
            add_view(w, i);
        else
            add_operation(w, w->head[i], i);
    }
}

/* What is there when backward begins and was made before. */
static double held_between(const pdl_program_t *program)
{
    double bytes = 0;
    int    turn = 0;

    while (turn < program->op_count && program->op[turn].kind != PDL_OP_BACKWARD) turn++;
    for (int k = 0; k < program->buffer_count; k++)
        if (program->buffer[k].first < turn && program->buffer[k].last >= turn)
            bytes += (double)program->buffer[k].bytes;
    return bytes;
}

static pdl_status_t place(walk_t *w, pdl__footprint_t *footprint)
{
    pdl_program_options_t options = {.micro_batches = 1, .training = w->spec->training};
    pdl_program_t        *program;
    pdl_status_t          status = PDL_OK;

    if (w->spec->training && w->spec->recompute == PDL_RECOMPUTE_FULL)
        status = pdl__program_choose_recompute(w->node, w->count);
    if (!status) status = pdl_program_create(w->node, w->count, &options, &program);
    if (status) return status;
    footprint->saved = w->spec->training ? held_between(program) : 0;
    footprint->peak = (double)program->arena_bytes;
    pdl_program_destroy(program);
    return PDL_OK;
}

pdl_status_t pdl__partition_footprint(const pdl_partition_t *partition, const pdl__footprint_spec_t *spec,
                                      pdl__footprint_t *footprint)
{
    size_t layers = (size_t)partition->layer_count;
    walk_t w = {.partition = partition, .model = partition->plan->model, .spec = spec};
    size_t items = 2 * layers; /* every layer, and a conversion of its output */
    void  *memory = calloc(items, sizeof(pdl_program_node_t) + sizeof(item_t) + 2 * sizeof(int));

    if (!memory) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    w.node = memory;
    w.item = (item_t *)(void *)(w.node + items);
    w.head = (int *)(void *)(w.item + items);
    w.reader = w.head + layers;
    w.item_of = w.reader + layers;
    join_layers(&w);
    add_layers(&w);
    pdl_status_t status = place(&w, footprint);
    free(memory);
    return status;
}
