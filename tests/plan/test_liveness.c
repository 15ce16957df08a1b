/*
 * Activation memory and stage borders against a plain simulation: every tensor, mask, copy and gradient of a random
 * graph gets the interval of steps in which it is needed, and the intervals are added up step by step.
 */
#include "random.h"
#include "test.h"

#include <paradl/plan/partition.h>

#include <stdlib.h>

enum { MOST_LAYERS = 40 };

/* A random network of 8-channel images with branches, then a head. */
static pdl_model_t *random_model(void)
{
    static const char *const plain[] = {"conv: {name: l%d, from: %s, out: 8, kernel: 3, pad: 1}",
                                        "relu: {name: l%d, from: %s}",
                                        "batch_norm: {name: l%d, from: %s}",
                                        "dropout: {name: l%d, from: %s, rate: 0.5}",
                                        "gelu: {name: l%d, from: %s}",
                                        "tanh: {name: l%d, from: %s}",
                                        "avg_pool: {name: l%d, from: %s, kernel: 3, pad: 1, stride: 1}"};
    static const char        head[] = "paradl: model/1\nname: random\ninput: {channels: 8, size: [6, 4]}\nlayers:\n"
                                      "  - conv: {name: l0, out: 8, kernel: 3, pad: 1}\n";
    char                     text[8192], from[2][16];
    int                      used = snprintf(text, sizeof(text), "%s", head), count = (int)between(3, 24);
    pdl_model_t             *model = NULL;

    for (int i = 1; i < count; i++) {
        for (int j = 0; j < 2; j++)
            snprintf(from[j], sizeof(from[j]), "l%d", (int)between(i > 4 ? i - 4 : 0, i - 1));
        used += snprintf(text + used, sizeof(text) - (size_t)used, "  - ");
        if (between(0, 3) == 0)
            used += snprintf(text + used, sizeof(text) - (size_t)used, "%s: {name: l%d, from: [%s, %s]}",
                             between(0, 1) ? "add" : "mul", i, from[0], from[1]);
        else
            used += snprintf(text + used, sizeof(text) - (size_t)used, plain[between(0, 6)], i, from[0]);
        used += snprintf(text + used, sizeof(text) - (size_t)used, "\n");
    }
    snprintf(text + used, sizeof(text) - (size_t)used, "  - flatten: {name: flat, from: l%d}\n%s", count - 1,
             "  - linear: {name: fc, out: 10}\n  - cross_entropy: {name: loss}\n");
    CHECK_OK(pdl_model_read_yaml_memory(text, strlen(text), "random", &model));
    return model;
}

static bool one_of(pdl_layer_type_t type, const pdl_layer_type_t *types, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (types[i] == type) return true;
    return false;
}

static bool reads_input_again(const pdl_layer_t *layer)
{
    static const pdl_layer_type_t types[] = {PDL_LAYER_CONV, PDL_LAYER_BATCH_NORM, PDL_LAYER_GELU,
                                             PDL_LAYER_MUL,  PDL_LAYER_LINEAR,     PDL_LAYER_CROSS_ENTROPY};
    return one_of(layer->type, types, sizeof(types) / sizeof(types[0]));
}

static bool reads_output_again(const pdl_layer_t *layer)
{
    return layer->type == PDL_LAYER_RELU || layer->type == PDL_LAYER_TANH;
}

typedef struct simulation {
    const pdl_partition_t *p;
    int                    first, last;
    bool                   training;
    double at[2 * MOST_LAYERS]; /* memory in every step: forward of first .. last-1, then backward */
    double saved;
} simulation_t;

static const pdl_layer_t *layer_of(const simulation_t *s, int i)
{
    return pdl_model_layer(s->p->plan->model, i);
}

static int forward_step(const simulation_t *s, int i)
{
    return i < s->first ? 0 : i - s->first;
}

static int backward_step(const simulation_t *s, int i)
{
    return 2 * (s->last - s->first) - 1 - (i < s->first ? 0 : i - s->first);
}

static void hold(simulation_t *s, double elements, int from, int to)
{
    for (int t = from; t <= to; t++) s->at[t] += elements;
}

/* A flat view owns nothing, unless it was gathered. */
static int owner(const simulation_t *s, int i)
{
    while (layer_of(s, i)->type == PDL_LAYER_FLATTEN && !s->p->local[i].gathered_inputs)
        i = layer_of(s, i)->inputs[0];
    return i;
}

static bool uses(const simulation_t *s, int reader, int tensor)
{
    for (int j = 0; j < layer_of(s, reader)->input_count; j++)
        if (owner(s, layer_of(s, reader)->inputs[j]) == tensor) return true;
    return false;
}

/* Reads the tensor itself again in backward, and not a copy gathered for it. */
static bool reads_again(const simulation_t *s, int reader, int tensor)
{
    if (!reads_input_again(layer_of(s, reader))) return false;
    for (int j = 0; j < layer_of(s, reader)->input_count; j++)
        if (owner(s, layer_of(s, reader)->inputs[j]) == tensor && !(s->p->local[reader].gathered_inputs >> j & 1))
            return true;
    return false;
}

static void simulate_tensor(simulation_t *s, int o)
{
    double elements = s->p->local[o].y_elements * s->p->local[o].samples;
    int    last_read = -1, first_again = -1, born = -1;
    bool   outside = false;

    if (owner(s, o) != o) return;
    for (int k = s->first; k < s->p->layer_count; k++) {
        const pdl_layer_t *reader = layer_of(s, k);
        bool               alias = owner(s, k) == o, used = uses(s, k, o);
        if (k >= s->last) {
            outside |= used;
            continue;
        }
        if (used) last_read = k;
        if (first_again < 0 && ((used && reads_again(s, k, o)) || (alias && reads_output_again(reader))))
            first_again = k;
        /* Who reads it last makes its gradient; what later stages send back is there for the first alias. */
        if (alias || (used && reader->needs_input_gradient)) born = k;
    }
    if (o < s->first && last_read < 0) return;
    if (s->training && first_again >= 0) {
        hold(s, elements, forward_step(s, o), backward_step(s, first_again));
        s->saved += elements;
    } else
        hold(s, elements, forward_step(s, o), last_read >= 0 ? forward_step(s, last_read) : s->last - s->first - 1);
    bool wanted = outside || layer_of(s, o)->consumer_count == 0;
    for (int k = o + 1; k < s->p->layer_count; k++) wanted |= uses(s, k, o) && layer_of(s, k)->needs_input_gradient;
    if (s->training && born >= 0 && wanted && layer_of(s, o)->type != PDL_LAYER_INPUT)
        hold(s, elements, backward_step(s, born), o >= s->first ? backward_step(s, o) : backward_step(s, s->first));
}

static void simulate(simulation_t *s)
{
    for (int o = 0; o < s->last; o++) simulate_tensor(s, o);
    for (int i = s->first; i < s->last; i++) {
        const pdl_local_t *local = &s->p->local[i];
        double mask = layer_of(s, i)->type == PDL_LAYER_DROPOUT ? 0.25 * local->y_elements * local->samples : 0;
        double copy = layer_of(s, i)->type == PDL_LAYER_FLATTEN ? 0 : local->gathered_elements * local->samples;
        bool   kept = reads_input_again(layer_of(s, i)) && s->training;
        hold(s, mask, forward_step(s, i), s->training ? backward_step(s, i) : forward_step(s, i));
        hold(s, copy, forward_step(s, i), kept ? backward_step(s, i) : forward_step(s, i));
        if (s->training && layer_of(s, i)->needs_input_gradient)
            hold(s, copy, backward_step(s, i), backward_step(s, i));
        if (s->training) s->saved += mask + (kept ? copy : 0);
    }
}

static void check_run(const pdl_partition_t *p, int first, int last)
{
    simulation_t s = {.p = p, .first = first, .last = last, .training = p->plan->run_mode == PDL_TRAINING};
    pdl_activation_memory_t memory;
    double                  peak = 0, input = 0;

    simulate(&s);
    for (int t = 0; t < (s.training ? 2 : 1) * (last - first); t++)
        if (s.at[t] > peak) peak = s.at[t];
    for (int o = 0; o < first; o++) {
        bool read = false;
        for (int k = first; k < last; k++) read |= owner(&s, o) == o && uses(&s, k, o);
        if (read) input += p->local[o].y_elements * p->local[o].samples;
    }
    pdl_partition_memory(p, first, last, &memory);
    CHECK_NEAR(memory.saved, s.saved, 1e-12);
    CHECK_NEAR(memory.saved + memory.transient, peak, 1e-12);
    CHECK_NEAR(memory.input, input, 1e-12);
}

static void check_borders(const pdl_partition_t *p)
{
    double       borders[MOST_LAYERS + 1];
    simulation_t s = {.p = p, .last = p->layer_count};

    pdl_partition_borders(p, borders);
    for (int b = 0; b <= p->layer_count; b++) {
        double crossing = 0;
        for (int o = 0; o < b; o++) {
            bool needed = false;
            for (int k = b; k < p->layer_count; k++) needed |= owner(&s, o) == o && uses(&s, k, o);
            if (needed) crossing += p->local[o].y_elements * p->local[o].samples;
        }
        CHECK(fabs(borders[b] - crossing) < 1e-6);
    }
}

static void random_graphs(int64_t tensor, const char *strategy, pdl_run_mode_t mode)
{
    const pdl_mesh_t mesh = {{{PDL_AXIS_TENSOR, tensor, 0}}, 1};

    for (int times = 0; times < 150; times++) {
        pdl_model_t     *model = random_model();
        pdl_plan_t      *plan;
        pdl_partition_t *p;

        REQUIRE_OK(pdl_plan_create(model, &mesh, 4, &plan));
        plan->run_mode = mode;
        CHECK_OK(pdl_plan_apply_preset(plan, strategy, NULL));
        REQUIRE_OK(pdl_partition_create(plan, 2, &p));
        int layers = p->layer_count, cut = (int)between(1, layers - 1), second = (int)between(cut, layers - 1);
        check_run(p, 0, layers);
        check_run(p, 0, cut);
        check_run(p, cut, layers);
        if (second > cut) check_run(p, cut, second);
        check_borders(p);
        pdl_partition_destroy(p);
        pdl_plan_destroy(plan);
        pdl_model_destroy(model);
    }
}

static void training_of_random_graphs(void)
{
    random_graphs(1, "serial", PDL_TRAINING);
}
static void inference_of_random_graphs(void)
{
    random_graphs(1, "serial", PDL_INFERENCE);
}
static void split_filters_of_random_graphs(void)
{
    random_graphs(2, "filter", PDL_TRAINING);
}
static void split_channels_of_random_graphs(void)
{
    random_graphs(4, "channel", PDL_TRAINING);
}

/* A chain by hand: conv (x kept), relu (y kept, shared with the next conv's x), conv, loss. */
static void chain_by_hand(void)
{
    static const char       text[] = "paradl: model/1\nname: chain\ninput: {channels: 2, size: [4, 4]}\nlayers:\n"
                                     "  - conv: {name: a, out: 4, kernel: 3, pad: 1}\n  - relu: {name: b}\n"
                                     "  - conv: {name: c, out: 8, kernel: 3, pad: 1}\n  - mse: {name: loss}\n";
    const pdl_mesh_t        mesh = {{{PDL_AXIS_DATA, 1, 0}}, 1};
    pdl_model_t            *model = NULL;
    pdl_plan_t             *plan;
    pdl_partition_t        *p;
    pdl_activation_memory_t memory;

    CHECK_OK(pdl_model_read_yaml_memory(text, strlen(text), "chain", &model));
    REQUIRE_OK(pdl_plan_create(model, &mesh, 1, &plan));
    REQUIRE_OK(pdl_partition_create(plan, 1, &p));
    pdl_partition_memory(p, 0, p->layer_count, &memory);
    /* Input 32, relu 64 and the output 128 are kept; a's 64 are not. */
    CHECK_NEAR(memory.saved, 32 + 64 + 128, 0);
    /* Most is held when the loss, whose own gradient is one number, has made that of its input. */
    CHECK_NEAR(memory.saved + memory.transient, 32 + 64 + 128 + 1 + 128, 0);
    pdl_partition_destroy(p);
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
}

int main(void)
{
    RUN(chain_by_hand);
    RUN(training_of_random_graphs);
    RUN(inference_of_random_graphs);
    RUN(split_filters_of_random_graphs);
    RUN(split_channels_of_random_graphs);
    return test_done();
}
