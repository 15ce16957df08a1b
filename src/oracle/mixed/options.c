/*
 * Tables of layer costs for the choice of per-layer modes. Every entry is made by compiling and pricing the
 * layer exactly as a whole plan is, so that the sum over layers is what the oracle projects.
 */
#include "oracle/mixed/mixed.h"
#include <math.h>
#include <paradl/plan/compile.h>
#include <paradl/plan/rules.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
    pdl_oracle_t  *oracle;
    pdl_plan_t    *plan; /* a copy whose modes are tried */
    int            axis;
    pdl_case_t     c;
    pdl_profile_t  profile;
    pdl_pricing_t  pricing;
    pdl_compiler_t compiler;
} bench_t;

void pdl__sums_add(pdl_sums_t *to, const pdl_sums_t *from)
{
    double       *x = (double *)to;
    const double *y = (const double *)from;

    for (size_t i = 0; i < sizeof(*to) / sizeof(double); i++) x[i] += y[i];
}

double pdl__sums_dot(const pdl_sums_t *a, const pdl_sums_t *b)
{
    const double *x = (const double *)a, *y = (const double *)b;
    double        dot = 0;

    for (size_t i = 0; i < sizeof(*a) / sizeof(double); i++) dot += x[i] * y[i];
    return dot;
}

static pdl_status_t bench_begin(bench_t *b, pdl_oracle_t *oracle, const pdl_plan_t *plan, int axis)
{
    *b = (bench_t){.oracle = oracle, .axis = axis};
    pdl_status_t status = pdl_plan_copy(plan, &b->plan);
    if (status) return status;
    status = pdl__case_of_plan(oracle, b->plan, NULL, &b->c);
    if (status) return status;
    for (int i = 0; i < pdl_model_layer_count(plan->model); i++) b->plan->modes[i].on[axis] = PDL_MODE_REPLICATE;
    status = pdl_partition_create(b->plan, b->c.micro_batch, &b->profile.partition);
    if (status) return status;
    b->profile.plan = b->plan;
    pdl__compute_cost(oracle->system, &oracle->system->device, &oracle->p, plan->precision, &b->profile.compute);
    b->profile.compute.model = b->plan->model;
    b->profile.device = &oracle->system->device;
    b->pricing =
        (pdl_pricing_t){.oracle = oracle, .system = oracle->system, .p = &oracle->p, .profile = &b->profile};
    b->compiler = (pdl_compiler_t){.plan = b->plan,
                                   .partition = b->profile.partition,
                                   .capacity = b->profile.partition->transfer_count};
    return pdl__price_groups(&b->pricing);
}

static void bench_end(bench_t *b)
{
    pdl_partition_destroy(b->profile.partition);
    pdl_plan_destroy(b->plan);
}

/* Seconds of a layer in its present mode with its inputs in their present placements. */
static double price(bench_t *b, int index, pdl_sums_t *sums)
{
    b->profile.partition->transfer_count = 0;
    pdl_compile_layer(&b->compiler, index);
    memset(sums, 0, sizeof(*sums));
    if (!b->compiler.status) pdl__price_layer(&b->pricing, index, sums);
    return pdl__layers_seconds(b->oracle, &b->c, &b->profile, sums);
}

static bool first_mention(const pdl_layer_t *layer, int input)
{
    for (int i = 0; i < input; i++)
        if (layer->inputs[i] == layer->inputs[input]) return false;
    return true;
}

/* A tensor that is read twice by the same layer arrives once: the first mention stands for all. */
static void price_edges(bench_t *b, int index, double seconds, double *edge, double *copies)
{
    const pdl_layer_t *layer = pdl_model_layer(b->plan->model, index);
    const pdl_local_t *local = &b->profile.partition->local[index];
    double             bytes = b->profile.compute.item_bytes * b->oracle->p.memory_margin;
    pdl_sums_t         sums;

    for (int i = 0; i < layer->input_count; i++, edge += PDL_MIXED_PLACEMENTS, copies += PDL_MIXED_PLACEMENTS) {
        pdl_placement_t *given = &b->profile.partition->local[layer->inputs[i]].out[b->axis];
        for (int p = PDL_REPLICATED + 1; p < PDL_MIXED_PLACEMENTS && first_mention(layer, i); p++) {
            *given = (pdl_placement_t)p;
            edge[p] = price(b, index, &sums) - seconds;
            copies[p] = local->gathered_elements * local->samples * bytes;
        }
        *given = PDL_REPLICATED;
    }
}

/* SAMPLE needs a sample for every rank of the axis, which a layer alone cannot know. */
static bool allowed(const bench_t *b, const pdl_layer_t *layer, pdl_mode_t mode)
{
    const pdl_axis_t *axis = &b->plan->mesh.axis[b->axis];

    if (mode == PDL_MODE_SAMPLE && b->c.micro_batch < (double)axis->size) return false;
    return pdl_mode_allowed(layer, mode, axis, NULL, 0);
}

static void fill_option(bench_t *b, int index, pdl_option_t *option)
{
    const pdl_layer_t *layer = pdl_model_layer(b->plan->model, index);
    const pdl_local_t *local = &b->profile.partition->local[index];
    double             bytes = b->profile.compute.item_bytes * b->oracle->p.memory_margin;

    b->plan->modes[index].on[b->axis] = (uint8_t)option->mode;
    option->seconds = price(b, index, &option->sums);
    option->writes = local->out[b->axis];
    option->state_bytes = layer->frozen    ? local->weights * pdl__weight_bytes(&b->c)
                          : layer->weights ? local->weights * pdl__state_bytes(&b->c)
                                           : 0;
    option->output_bytes = local->y_elements * local->samples * bytes;
    option->wide = option->sums.wide_weights > 0;
    option->narrow = option->sums.data_weights > 0;
}

static pdl_status_t fill_table(bench_t *b, int index, pdl_option_table_t *table)
{
    const pdl_layer_t *layer = pdl_model_layer(b->plan->model, index);
    size_t             row = (size_t)layer->input_count * PDL_MIXED_PLACEMENTS;

    table->layer = index;
    table->edge = calloc(row * PDL_MIXED_OPTIONS + 1, sizeof(*table->edge));
    table->copies = calloc(row * PDL_MIXED_OPTIONS + 1, sizeof(*table->copies));
    if (!table->edge || !table->copies)
        return pdl_error(PDL_ERR_NOMEM, "out of memory for the modes of layer %s", layer->name);
    /* PASS is left out: it always stands for one of the others. */
    for (int mode = PDL_MODE_REPLICATE; mode < PDL_MODE_COUNT; mode++) {
        if (!allowed(b, layer, (pdl_mode_t)mode)) continue;
        size_t        at = row * (size_t)table->count;
        pdl_option_t *option = &table->option[table->count++];
        option->mode = (pdl_mode_t)mode;
        fill_option(b, index, option);
        price_edges(b, index, option->seconds, table->edge + at, table->copies + at);
    }
    /* Later layers are priced with this one replicated again. */
    b->profile.partition->local[index].out[b->axis] = PDL_REPLICATED;
    return b->compiler.status;
}

static bool same_shape(const pdl_shape_t *a, const pdl_shape_t *b)
{
    return a->channels == b->channels && a->rank == b->rank && a->sequence == b->sequence &&
           memcmp(a->extent, b->extent, sizeof(a->extent)) == 0;
}

/* Classes say nothing of the second and later inputs. */
static bool same_inputs(const pdl_model_t *model, int x, int y)
{
    const pdl_layer_t *a = pdl_model_layer(model, x), *b = pdl_model_layer(model, y);

    for (int i = 0; i < a->input_count; i++) {
        if (!same_shape(&pdl_model_layer(model, a->inputs[i])->out, &pdl_model_layer(model, b->inputs[i])->out))
            return false;
        if (first_mention(a, i) != first_mention(b, i)) return false;
    }
    return true;
}

static pdl_status_t fill_all(bench_t *b, pdl_options_t *o, int *table_of_class)
{
    int count = pdl_model_layer_count(o->model);

    for (int i = 0; i < count; i++) {
        int *known = &table_of_class[pdl_model_layer(o->model, i)->class_id];
        if (*known < 0 || !same_inputs(o->model, o->table[*known].layer, i)) {
            pdl_status_t status = fill_table(b, i, &o->table[o->table_count]);
            *known = o->table_count++;
            if (status) return status;
        }
        o->of[i] = *known;
    }
    return pdl_partition_saved(b->profile.partition, o->saved);
}

pdl_status_t pdl__options_create(pdl_oracle_t *oracle, const pdl_plan_t *plan, int axis, pdl_options_t *o)
{
    size_t  count = (size_t)pdl_model_layer_count(plan->model);
    size_t  classes = (size_t)pdl_model_class_count(plan->model);
    int    *table_of_class = malloc((classes + 1) * sizeof(*table_of_class));
    bench_t b;

    *o = (pdl_options_t){.model = plan->model};
    o->table = calloc(count, sizeof(*o->table));
    o->of = calloc(count, sizeof(*o->of));
    o->saved = calloc(count, sizeof(*o->saved));
    pdl_status_t status = PDL_OK;
    if (!table_of_class || !o->table || !o->of || !o->saved)
        status = pdl_error(PDL_ERR_NOMEM, "out of memory for the modes of %zu layers", count);
    if (!status) {
        for (size_t i = 0; i < classes; i++) table_of_class[i] = -1;
        status = bench_begin(&b, oracle, plan, axis);
        if (!status) status = fill_all(&b, o, table_of_class);
        bench_end(&b);
    }
    free(table_of_class);
    if (status) pdl__options_free(o);
    return status;
}

void pdl__options_free(pdl_options_t *o)
{
    for (int i = 0; o->table != NULL && i < o->table_count; i++) {
        free(o->table[i].edge);
        free(o->table[i].copies);
    }
    free(o->table);
    free(o->of);
    free(o->saved);
    *o = (pdl_options_t){0};
}
