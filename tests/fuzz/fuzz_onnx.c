/*
 * Any bytes given to the ONNX reader yield a model with consistent totals, or an error that names the file.
 *
 * Changed bytes rarely survive the encoding. Most mutations are therefore made on the unpacked graph: other
 * operators, operands, attributes and dimensions.
 */
#include "onnx.pb-c.h"
#include <paradl/model/model.h>

#include <assert.h>
#include <string.h>

int    LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_model_t       *model = NULL;
    pdl_model_totals_t totals;

    if (pdl_model_read_onnx_memory(data, size, "input", &model) != PDL_OK) {
        assert(model == NULL);
        assert(strncmp(pdl_error_message(), "input", 5) == 0 ||
               strncmp(pdl_error_message(), "model input", 11) == 0);
        return 0;
    }
    pdl_model_totals(model, &totals);
    assert(totals.weights >= 0 && totals.flop_forward >= 0 && totals.y_elements >= 0);
    pdl_model_destroy(model);
    return 0;
}

/* libFuzzer's own mutations; absent where inputs are only replayed. */
__attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

static unsigned draw(unsigned *state, size_t below)
{
    *state = *state * 1664525u + 1013904223u;
    return below > 0 ? (*state >> 8) % (unsigned)below : 0;
}

static int64_t draw_number(unsigned *state, int64_t old)
{
    static const int64_t odd[] = {0, 1, -1, 2, 3, 7, 64, INT32_MAX, INT64_MAX, INT64_MIN, (int64_t)1 << 40};

    switch (draw(state, 4)) {
    case 0: return odd[draw(state, sizeof odd / sizeof odd[0])];
    case 1: return (int64_t)((uint64_t)old + 1);
    case 2: return (int64_t)((uint64_t)old * 2);
    default: return (int64_t)draw(state, 16) - 2;
    }
}

/* Strings are exchanged, so that every one is still freed once. */
static void exchange(char **a, char **b)
{
    char *kept = *a;

    *a = *b;
    *b = kept;
}

static void mutate_attribute(Onnx__AttributeProto *a, unsigned *state)
{
    if (a->n_ints > 0) {
        size_t i = draw(state, a->n_ints);
        a->ints[i] = draw_number(state, a->ints[i]);
    } else if (a->has_i) {
        a->i = draw_number(state, a->i);
    } else if (a->has_f) {
        a->f = (float)draw_number(state, 1) / 3;
    }
    if (a->t != NULL && a->t->has_raw_data && a->t->raw_data.len > 0)
        a->t->raw_data.data[draw(state, a->t->raw_data.len)] ^= (uint8_t)(1u << draw(state, 8));
}

static void mutate_node(const Onnx__GraphProto *graph, Onnx__NodeProto *node, unsigned *state)
{
    Onnx__NodeProto *other = graph->node[draw(state, graph->n_node)];

    switch (draw(state, 4)) {
    case 0: exchange(&node->op_type, &other->op_type); break;
    case 1:
        if (node->n_input > 0 && other->n_input > 0)
            exchange(&node->input[draw(state, node->n_input)], &other->input[draw(state, other->n_input)]);
        break;
    case 2:
        if (node->n_output > 0 && other->n_input > 0)
            exchange(&node->output[draw(state, node->n_output)], &other->input[draw(state, other->n_input)]);
        break;
    default:
        if (node->n_attribute > 0) mutate_attribute(node->attribute[draw(state, node->n_attribute)], state);
    }
}

static void mutate_tensor(Onnx__TensorProto *tensor, unsigned *state)
{
    if (draw(state, 2) == 0 && tensor->n_dims > 0) {
        size_t i = draw(state, tensor->n_dims);
        tensor->dims[i] = draw_number(state, tensor->dims[i]);
    } else if (tensor->has_raw_data && tensor->raw_data.len > 0) {
        tensor->raw_data.data[draw(state, tensor->raw_data.len)] = (uint8_t)draw_number(state, 1);
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    unsigned          state = seed;
    Onnx__ModelProto *model = draw(&state, 8) == 0 ? NULL : onnx__model_proto__unpack(NULL, size, data);
    size_t            packed;

    if (model == NULL) return LLVMFuzzerMutate != NULL ? LLVMFuzzerMutate(data, size, max_size) : size;
    for (int times = 1 + (int)draw(&state, 3); times > 0 && model->graph != NULL; times--) {
        Onnx__GraphProto *graph = model->graph;

        if (graph->n_node > 0 && draw(&state, 4) != 0)
            mutate_node(graph, graph->node[draw(&state, graph->n_node)], &state);
        else if (graph->n_initializer > 0)
            mutate_tensor(graph->initializer[draw(&state, graph->n_initializer)], &state);
    }
    packed = onnx__model_proto__get_packed_size(model);
    if (packed <= max_size) size = onnx__model_proto__pack(model, data);
    onnx__model_proto__free_unpacked(model, NULL);
    return size;
}
