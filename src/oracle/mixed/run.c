/*
 * The dynamic programme over layers. A state is the placement of every open tensor, that is one already
 * written and still to be read; of two ways to the same state only the cheaper goes on.
 */
#include "oracle/mixed/mixed.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Three bits per open tensor in two words. */
enum { SLOTS_PER_WORD = 21, MAX_SLOTS = 2 * SLOTS_PER_WORD, TABLE_SIZE = 8192 };

typedef struct state {
    uint64_t word[2];
} state_t;

typedef struct label {
    state_t state;
    double  cost;
    int     parent; /* index among the labels of the layer before */
    int     option;
} label_t;

/* Where a layer finds its inputs in the state and puts its output. */
typedef struct step {
    int     first_input; /* in `slots` */
    int     output;      /* slot, or -1 when nobody reads it */
    int     lends;       /* slot for the mode of weights that a later layer shares, or -1 */
    int     borrows;     /* slot of the mode of the layer whose weights this one shares, or -1 */
    state_t keep;        /* what stays of the state after it has run */
} step_t;

typedef struct search {
    const pdl_options_t *o;
    int                  layers;
    step_t              *steps;
    int                 *slots;    /* slot of every input of every layer */
    bool                 too_wide; /* more open tensors than a state holds */
    double              *price;    /* [table][option]: what the goal asks for a mode with replicated inputs */
    double              *exchange; /* the same, of gradient exchange alone */
    label_t             *labels;   /* of all layers, one after another */
    size_t               label_count, label_capacity;
    size_t              *first;              /* first label of each layer; layers + 1 */
    int                  bucket[TABLE_SIZE]; /* label + 1 relative to the layer's first, by hash of its state */
    uint32_t             stamp[TABLE_SIZE];  /* the layer a bucket belongs to, + 1 */
    bool                 certified;
} search_t;

static int field(const state_t *state, int slot)
{
    return (int)(state->word[slot >= SLOTS_PER_WORD] >> 3 * (slot % SLOTS_PER_WORD) & 7);
}

static void set_field(state_t *state, int slot, uint64_t value)
{
    uint64_t *word = &state->word[slot >= SLOTS_PER_WORD];

    *word = (*word & ~(UINT64_C(7) << 3 * (slot % SLOTS_PER_WORD))) | value << 3 * (slot % SLOTS_PER_WORD);
}

/* How weights lie that another layer shares. */
typedef enum hold { HOLD_EQUAL, HOLD_SUMMED, HOLD_OUTPUTS, HOLD_INPUTS, HOLD_OTHER } hold_t;

static hold_t hold_of(const pdl_layer_t *layer, pdl_mode_t mode)
{
    /* An embedding is the transpose of the linear layer that shares its weights: its width is that one's inputs. */
    bool table = pdl_layer_traits(layer)->tokens;

    switch (mode) {
    case PDL_MODE_REPLICATE: return HOLD_EQUAL;
    case PDL_MODE_SAMPLE:
    case PDL_MODE_SPACE: return HOLD_SUMMED;
    case PDL_MODE_VOCABULARY: return HOLD_OUTPUTS;
    case PDL_MODE_FILTER: return table ? HOLD_INPUTS : HOLD_OUTPUTS;
    case PDL_MODE_CHANNEL: return HOLD_INPUTS;
    default: return HOLD_OTHER;
    }
}

/* Shared weights lie alike for both layers; where the first sums its gradient over the axis anyway, the second
   may leave it equal everywhere. */
static bool can_share(hold_t first, hold_t second)
{
    return first == second || (first == HOLD_SUMMED && second == HOLD_EQUAL);
}

/* The last layer that reads each output, and the last that shares its weights. */
static void last_uses(const pdl_model_t *model, int layers, int *last_read, int *last_share)
{
    for (int i = 0; i < layers; i++) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);
        last_read[i] = last_share[i] = -1;
        for (int j = 0; j < layer->input_count; j++) last_read[layer->inputs[j]] = i;
        if (layer->tied_to >= 0 && layer->tied_to < i) last_share[layer->tied_to] = i;
    }
}

static int take_slot(search_t *s, int *owner)
{
    for (int slot = 0; slot < MAX_SLOTS; slot++)
        if (owner[slot] < 0) return slot;
    s->too_wide = true;
    return -1;
}

/* Gives every open tensor a place in the state for as long as it is open. */
static void assign_slots(search_t *s, const int *last_read, const int *last_share)
{
    int owner[MAX_SLOTS], next = 0; /* the layer after which a slot is free; -1: free */

    for (int i = 0; i < MAX_SLOTS; i++) owner[i] = -1;
    for (int i = 0; i < s->layers && !s->too_wide; i++) {
        const pdl_layer_t *layer = pdl_model_layer(s->o->model, i);
        step_t            *step = &s->steps[i];
        *step = (step_t){
            .first_input = next, .output = -1, .lends = -1, .borrows = -1, .keep = {{~UINT64_C(0), ~UINT64_C(0)}}};
        for (int j = 0; j < layer->input_count; j++) s->slots[next++] = s->steps[layer->inputs[j]].output;
        if (layer->tied_to >= 0 && layer->tied_to < i) step->borrows = s->steps[layer->tied_to].lends;
        for (int slot = 0; slot < MAX_SLOTS; slot++)
            if (owner[slot] == i) {
                owner[slot] = -1;
                set_field(&step->keep, slot, 0);
            }
        if (last_read[i] >= 0 && (step->output = take_slot(s, owner)) >= 0) owner[step->output] = last_read[i];
        if (last_share[i] >= 0 && (step->lends = take_slot(s, owner)) >= 0) owner[step->lends] = last_share[i];
    }
}

static pdl_status_t plan_states(search_t *s)
{
    size_t count = (size_t)s->layers, inputs = 0;
    int   *uses;

    for (int i = 0; i < s->layers; i++) inputs += (size_t)pdl_model_layer(s->o->model, i)->input_count;
    s->steps = calloc(count, sizeof(*s->steps));
    s->slots = calloc(inputs + 1, sizeof(*s->slots));
    s->first = calloc(count + 1, sizeof(*s->first));
    s->price = calloc(2 * (size_t)s->o->table_count * PDL_MIXED_OPTIONS, sizeof(*s->price));
    uses = calloc(2 * count, sizeof(*uses));
    if (!s->steps || !s->slots || !s->first || !s->price || !uses) {
        free(uses);
        return pdl_error(PDL_ERR_NOMEM, "out of memory for the states of %zu layers", count);
    }
    s->exchange = s->price + s->o->table_count * PDL_MIXED_OPTIONS;
    last_uses(s->o->model, s->layers, uses, uses + count);
    assign_slots(s, uses, uses + count);
    free(uses);
    return PDL_OK;
}

static void price_options(search_t *s, const pdl_mixed_goal_t *goal)
{
    for (int t = 0; t < s->o->table_count; t++) {
        const pdl_option_table_t *table = &s->o->table[t];
        for (int k = 0; k < table->count; k++) {
            const pdl_option_t *option = &table->option[k];
            double             *price = &s->price[t * PDL_MIXED_OPTIONS + k];
            *price = option->seconds + goal->seconds_per_byte * option->state_bytes;
            s->exchange[t * PDL_MIXED_OPTIONS + k] = pdl__sums_dot(&goal->exchange, &option->sums);
            if ((goal->no_wide && option->wide) || (goal->no_narrow && option->narrow)) *price = INFINITY;
        }
    }
}

static uint64_t hash_of(const state_t *state)
{
    uint64_t hash = state->word[0] * UINT64_C(0x9e3779b97f4a7c15);

    hash ^= state->word[1] * UINT64_C(0xc2b2ae3d27d4eb4f);
    return hash ^ hash >> 31;
}

/* Room for every state that one layer can lead to. */
static pdl_status_t reserve(search_t *s)
{
    size_t need = s->label_count + PDL_BEAM * PDL_MIXED_OPTIONS;

    if (need <= s->label_capacity) return PDL_OK;
    label_t *grown = realloc(s->labels, 2 * need * sizeof(*grown));
    if (!grown) return pdl_error(PDL_ERR_NOMEM, "out of memory for the states of %d layers", s->layers);
    s->labels = grown;
    s->label_capacity = 2 * need;
    return PDL_OK;
}

static void offer(search_t *s, int layer, const label_t *label)
{
    label_t *here = s->labels + s->first[layer];

    for (uint64_t h = hash_of(&label->state);; h++) {
        int at = (int)(h % TABLE_SIZE);
        if (s->stamp[at] != (uint32_t)layer + 1) {
            s->stamp[at] = (uint32_t)layer + 1;
            s->bucket[at] = (int)(s->label_count - s->first[layer]);
            s->labels[s->label_count++] = *label;
            return;
        }
        label_t *known = &here[s->bucket[at]];
        if (known->state.word[0] != label->state.word[0] || known->state.word[1] != label->state.word[1]) continue;
        if (label->cost < known->cost) *known = *label;
        return;
    }
}

/* All modes of a layer after one label of the layer before. */
static void expand(search_t *s, int layer, const pdl_mixed_goal_t *goal, const label_t *from, int parent)
{
    const pdl_layer_t        *l = pdl_model_layer(s->o->model, layer);
    const pdl_option_table_t *table = &s->o->table[s->o->of[layer]];
    const double             *price = &s->price[s->o->of[layer] * PDL_MIXED_OPTIONS];
    const double             *reduce = &s->exchange[s->o->of[layer] * PDL_MIXED_OPTIONS];
    double                    share = layer < goal->hidden_from ? 1 : goal->hidden_share;
    const step_t             *step = &s->steps[layer];
    const int                *slots = s->slots + step->first_input;
    double                    weight = s->o->saved[layer] ? goal->seconds_per_byte : 0;

    for (int k = 0; k < table->count; k++) {
        size_t  at = (size_t)(k * l->input_count) * PDL_MIXED_PLACEMENTS;
        hold_t  hold = hold_of(l, table->option[k].mode);
        label_t label = {.parent = parent, .option = k};
        label.cost = from->cost + price[k] + share * reduce[k] + weight * table->option[k].output_bytes;
        if (isinf(price[k])) continue;
        if (step->borrows >= 0 && !can_share((hold_t)field(&from->state, step->borrows), hold)) continue;
        for (int j = 0; j < l->input_count; j++, at += PDL_MIXED_PLACEMENTS) {
            size_t given = at + (size_t)field(&from->state, slots[j]);
            label.cost += table->edge[given] + goal->seconds_per_byte * table->copies[given];
        }
        label.state.word[0] = from->state.word[0] & step->keep.word[0];
        label.state.word[1] = from->state.word[1] & step->keep.word[1];
        if (step->output >= 0) set_field(&label.state, step->output, table->option[k].writes);
        if (step->lends >= 0) set_field(&label.state, step->lends, hold);
        offer(s, layer, &label);
    }
}

static int by_cost(const void *a, const void *b)
{
    double x = ((const label_t *)a)->cost, y = ((const label_t *)b)->cost;

    return (x > y) - (x < y);
}

static void narrow_beam(search_t *s, int layer)
{
    size_t count = s->label_count - s->first[layer];

    if (count <= PDL_BEAM) return;
    qsort(s->labels + s->first[layer], count, sizeof(*s->labels), by_cost);
    s->label_count = s->first[layer] + PDL_BEAM;
    s->certified = false;
}

static pdl_status_t sweep(search_t *s, const pdl_mixed_goal_t *goal)
{
    const label_t start = {.parent = -1};

    for (int i = 0; i < s->layers; i++) {
        pdl_status_t status = reserve(s);
        if (status) return status;
        s->first[i] = s->label_count;
        if (i == 0) expand(s, 0, goal, &start, -1);
        for (size_t k = i ? s->first[i - 1] : 0; k < s->first[i]; k++)
            expand(s, i, goal, &s->labels[k], (int)(k - s->first[i - 1]));
        narrow_beam(s, i);
        if (s->label_count == s->first[i]) return PDL_OK;
    }
    s->first[s->layers] = s->label_count;
    return PDL_OK;
}

/* Follows the cheapest label of the last layer back to the first. */
static void trace(const search_t *s, int axis, pdl_modes_t *modes, pdl_mixed_result_t *result)
{
    size_t at = s->first[s->layers - 1];

    for (size_t k = at; k < s->label_count; k++)
        if (s->labels[k].cost < s->labels[at].cost) at = k;
    result->cost = s->labels[at].cost;
    for (int i = s->layers - 1; i >= 0; i--) {
        const label_t      *label = &s->labels[at];
        const pdl_option_t *option = &s->o->table[s->o->of[i]].option[label->option];
        modes[i].on[axis] = (uint8_t)option->mode;
        pdl__sums_add(&result->sums, &option->sums);
        if (i > 0) at = s->first[i - 1] + (size_t)label->parent;
    }
}

pdl_status_t pdl__mixed_run(const pdl_options_t *o, const pdl_mixed_goal_t *goal, int axis, pdl_modes_t *modes,
                            pdl_mixed_result_t *result)
{
    search_t *s = calloc(1, sizeof(*s));

    if (!s) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    *result = (pdl_mixed_result_t){.possible = false};
    s->o = o;
    s->layers = pdl_model_layer_count(o->model);
    s->certified = true;
    pdl_status_t status = plan_states(s);
    if (!status && !s->too_wide) {
        price_options(s, goal);
        status = sweep(s, goal);
        if (!status && s->first[s->layers] > 0) {
            result->possible = true;
            result->certified = s->certified;
            trace(s, axis, modes, result);
        }
    }
    free(s->steps);
    free(s->slots);
    free(s->first);
    free(s->price);
    free(s->labels);
    free(s);
    return status;
}
