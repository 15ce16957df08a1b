/*
 * Ranges of parameters, made once: as long as weights, gradients and state are side by side.
 */
#include "train/optim/table.h"
#include "base/memory.h"
#include <stdlib.h>

static bool follows(const pdl_update_range_t *range, const pdl_update_range_t *next)
{
    return next->state == range->state + range->elements && next->weights == range->weights + range->elements &&
           next->gradients == range->gradients + range->elements;
}

static bool is_packed_alike(const pdl_update_range_t *range, const pdl_update_range_t *next)
{
    return next->packed == (range->packed < 0 ? -1 : range->packed + range->elements);
}

/* The longest ranges; if `alike`, equal in decay and in their copies. */
static int join(const pdl_parameter_t *parameters, int count, bool decays, bool alike, pdl_update_range_t *ranges)
{
    int made = 0;

    for (int i = 0; i < count; i++) {
        const pdl_update_range_t *next = &parameters[i].range;
        pdl_update_range_t       *last = made > 0 ? &ranges[made - 1] : NULL;
        bool                      joins = last != NULL && follows(last, next);

        if (alike) joins = joins && is_packed_alike(last, next) && (!decays || last->decays == next->decays);
        if (joins)
            last->elements += next->elements;
        else
            ranges[made++] = *next;
    }
    return made;
}

static void fill(pdl_optimizer_table_t *table, const pdl_parameter_t *parameters)
{
    for (int i = 0; i < table->count; i++) {
        const pdl_update_range_t *range = &parameters[i].range;
        int64_t                   scaled = range->decays ? range->elements : 0;

        table->each[i] = *range;
        table->copies[i] = parameters[i].copies > 1 ? (double)parameters[i].copies : 1;
        table->gradients[i] = (pdl_slice_t){range->gradients, range->elements};
        table->scaled_weights[i] = (pdl_slice_t){range->weights, scaled};
        table->scaled_gradients[i] = (pdl_slice_t){range->gradients, scaled};
    }
    for (int i = 0; i < table->joined_count; i++)
        table->joined_gradients[i] = (pdl_slice_t){table->joined[i].gradients, table->joined[i].elements};
}

pdl_status_t pdl_optimizer_table_create(const pdl_optimizer_options_t *options, const pdl_parameter_t *parameters,
                                        int count, pdl_optimizer_table_t **out)
{
    pdl_optimizer_table_t *table = calloc(1, sizeof(*table));
    size_t                 room = (size_t)count + 1;

    if (table == NULL) return pdl__no_memory("for the optimizer");
    table->count = count;
    table->each = calloc(4 * room, sizeof(*table->each));
    table->copies = calloc(room, sizeof(*table->copies));
    table->gradients = calloc(4 * room, sizeof(*table->gradients));
    if (table->each == NULL || table->copies == NULL || table->gradients == NULL) {
        pdl_optimizer_table_destroy(table);
        return pdl__no_memory("for the optimizer");
    }
    table->alike = table->each + room;
    table->joined = table->alike + room;
    table->cut = table->joined + room;
    table->scaled_weights = table->gradients + room;
    table->scaled_gradients = table->scaled_weights + room;
    table->joined_gradients = table->scaled_gradients + room;
    table->alike_count = join(parameters, count, options->weight_decay != 0, true, table->alike);
    table->joined_count = join(parameters, count, false, false, table->joined);
    fill(table, parameters);
    *out = table;
    return PDL_OK;
}

void pdl_optimizer_table_destroy(pdl_optimizer_table_t *table)
{
    if (table == NULL) return;
    free(table->each);
    free(table->copies);
    free(table->gradients);
    free(table);
}
