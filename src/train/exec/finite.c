/*
 * Numbers that are not finite: where they came from, and what to do about it.
 */
#include "train/exec/finite.h"
#include "train/exec/shard.h"
#include "train/state/state.h"
#include <math.h>
#include <paradl/train/checkpoint.h>
#include <stdarg.h>
#include <stdio.h>

/* What a rank knows, from the symptom to the cause. */
enum { NOTHING, LOSS, WEIGHT, GRADIENT, OUTPUT, INPUT };

/* The first note of a better cause stays. */
PDL_PRINTF(3, 4) static void note(pdl_session_t *s, int cause, const char *format, ...)
{
    va_list arguments;

    if (cause <= s->observer.not_finite) return;
    s->observer.not_finite = cause;
    va_start(arguments, format);
    vsnprintf(s->observer.not_finite_text, sizeof(s->observer.not_finite_text), format, arguments);
    va_end(arguments);
}

/* The update at hand; the first is 1, as in the log. */
static long long update_of(const pdl_session_t *s)
{
    return (long long)s->updates + 1;
}

static bool are_finite(const float *values, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++) sum += (double)values[i] * 0;
    return sum == 0;
}

/* The first sample whose values, or the numbers to be learnt from it, are not finite; -1: none. */
static int64_t bad_sample(const pdl_session_t *s, const pdl_batch_t *batch)
{
    pdl_shape_t shape = pdl_model_input(s->spec.plan->model);
    int64_t     elements = pdl_shape_elements(&shape), numbers = 0;

    if (s->graph->loss >= 0)
        numbers =
            pdl_shape_elements(&pdl_model_layer(s->spec.plan->model, s->graph->unit[s->graph->loss].layer)->in);
    for (int64_t i = 0; i < s->count; i++) {
        if (batch->weight[i] == 0) continue;
        if (!s->graph->tokens && batch->values && !are_finite(batch->values + i * elements, elements)) return i;
        if (batch->numbers && !are_finite(batch->numbers + i * numbers, numbers)) return i;
    }
    return -1;
}

void pdl__finite_note_input(pdl_session_t *s, const pdl_batch_t *batch)
{
    int64_t i = bad_sample(s, batch);

    if (i < 0) return;
    int64_t     index = batch->index ? batch->index[i] : s->first + i;
    const char *name = s->observer.source ? pdl_source_info(s->observer.source)->name : "the batch";

    if (s->observer.source) index = pdl_source_place(s->observer.source, index);
    note(s, INPUT, "sample %lld of %s (the first is 0) holds a value that is not finite: repair or remove it",
         (long long)index, name);
}

/* The largest number that goes into the network. */
static double largest_input(const pdl_session_t *s, const pdl_batch_t *batch)
{
    pdl_shape_t shape = pdl_model_input(s->spec.plan->model);
    double      largest = 0;

    for (int64_t i = 0; i < s->count * pdl_shape_elements(&shape); i++)
        largest = fmax(largest, fabs((double)batch->values[i]));
    return largest;
}

/* What to do where the samples are finite. Where no update was made, or with samples of such a size, the rate is not the cause. */
static void write_remedy(const pdl_session_t *s, const pdl_batch_t *batch, bool trains, bool updated, char *text,
                         size_t size)
{
    const pdl_optimizer_options_t *o = &s->spec.optimizer;
    double                         largest = batch->values && !s->graph->tokens ? largest_input(s, batch) : 0;
    bool                           divides = o->method == PDL_METHOD_ADAMW || o->method == PDL_METHOD_LAMB;

    if (trains && divides && o->epsilon == 0)
        snprintf(text, size, "with --epsilon 0 a gradient of 0 divides by 0: use a small number");
    else if (largest > 1e6 || (!updated && largest > 0))
        snprintf(text, size, "the samples reach %.3g: scale them", largest);
    else if (!trains)
        snprintf(text, size, "the weights are too large: train again with a lower learning rate");
    else
        snprintf(text, size, "lower the learning rate, add warm-up or clip gradients");
}

/* Whether a sum of squares is finite, of weights, gradients or state. */
static bool is_finite(const pdl_session_t *s, const void *array, int64_t at, int64_t elements)
{
    pdl_backend_t       *backend = s->spec.backend;
    pdl_tensor_stream_t *compute = s->executor.stream[PDL_STREAM_COMPUTE];
    double               sum = NAN;

    return !backend->ops->sum_squares(backend, compute, array, &(pdl_slice_t){at, elements}, 1,
                                      s->executor.scalars) &&
           !pdl_device_fetch(s->executor.device, compute, &sum, s->executor.scalars, sizeof(sum)) && isfinite(sum);
}

/* The same in memory of the host. */
static bool is_finite_here(const pdl_session_t *s, const void *array, int64_t at, int64_t elements)
{
    bool wide = s->spec.backend->weight_type == PDL_DTYPE_F64, finite = true;

    for (int64_t i = at; i < at + elements; i++)
        finite &= wide ? isfinite(((const double *)array)[i]) != 0 : isfinite(((const float *)array)[i]) != 0;
    return finite;
}

/* The entry of the first parameter that is not finite in an array, or -1. */
static int bad_parameter(const pdl_session_t *s, pdl_session_array_t array)
{
    bool here = s->weights.array[array] != NULL, home = pdl__array_tier(s, array) == PDL_TIER_HOST;

    for (int i = 0; i < s->weights.parameter_count && here; i++) {
        const pdl_update_range_t *range = &s->weights.parameter[i].range;
        int64_t                   at = array == PDL_ARRAY_GRADIENT ? range->gradients
                                       : array == PDL_ARRAY_WEIGHT ? range->weights
                                                                   : range->state;
        if (!(home ? is_finite_here : is_finite)(s, s->weights.array[array], at, range->elements))
            return s->weights.parameter_entry[i];
    }
    return -1;
}

/* The entry of the first statistic that is not finite, or -1. */
static int bad_statistic(const pdl_session_t *s)
{
    for (int i = 0; i < s->weights.entry_count; i++)
        for (int64_t w = 0; w < s->weights.workers && !s->weights.entry[i].info.trainable; w++)
            if (!is_finite(s, pdl__statistics_at(s, &s->weights.entry[i], w), 0, s->weights.entry[i].storage))
                return i;
    return -1;
}

pdl_status_t pdl__finite_watch_statistics(pdl_session_t *s)
{
    pdl_backend_t       *backend = s->spec.backend;
    pdl_tensor_stream_t *compute = s->executor.stream[PDL_STREAM_COMPUTE];
    void                *array;
    pdl_slice_t          slice = pdl__statistics(s, &array);
    int64_t              at = s->executor.flag_at + 1;

    s->executor.scalars_home[at] = 0;
    if (slice.elements == 0) return PDL_OK;
    pdl_status_t status = backend->ops->sum_squares(backend, compute, array, &slice, 1, s->executor.scalars + at);
    return status ? status
                  : s->executor.device->ops->copy(s->executor.device, compute, s->executor.scalars_home + at,
                                                  s->executor.scalars + at, sizeof(double));
}

bool pdl__finite_statistics(const pdl_session_t *s)
{
    return isfinite(s->executor.scalars_home[s->executor.flag_at + 1]);
}

int64_t *pdl__finite_flag(const pdl_session_t *s)
{
    return (int64_t *)(void *)(s->executor.scalars + s->executor.flag_at);
}

pdl_status_t pdl__finite_watch_results(pdl_session_t *s, const pdl__unit_t *loss, const pdl_op_run_t *run)
{
    pdl_backend_t *backend = s->spec.backend;

    return backend->ops->check_results(backend, s->executor.stream[PDL_STREAM_COMPUTE], run->output,
                                       run->sample_weight, pdl__region_samples(&loss->region), pdl__finite_flag(s));
}

pdl_status_t pdl__finite_watch_input(pdl_session_t *s, int micro_batch, const void *input, size_t bytes)
{
    pdl_backend_t       *backend = s->spec.backend;
    pdl_tensor_stream_t *compute = s->executor.stream[PDL_STREAM_COMPUTE];
    int64_t              at = s->executor.inputs_at + micro_batch;
    pdl_status_t         status = backend->ops->find_not_finite(backend, compute, input, bytes,
                                                                (int64_t *)(void *)(s->executor.scalars + at));

    return status ? status
                  : s->executor.device->ops->copy(s->executor.device, compute, s->executor.scalars_home + at,
                                                  s->executor.scalars + at, sizeof(double));
}

void pdl__finite_check_inputs(pdl_session_t *s, const pdl_batch_t *batch)
{
    const int64_t *found = (const int64_t *)(const void *)(s->executor.scalars_home + s->executor.inputs_at);

    for (int m = 0; m < s->micro_batches && !s->graph->tokens && s->graph->source >= 0; m++)
        if (found[m] >= 0) pdl__finite_note_input(s, batch);
}

void pdl__finite_note_update(pdl_session_t *s, const pdl_batch_t *batch, double lr)
{
    static const char *const state[PDL_ARRAY_COUNT] = {
        [PDL_ARRAY_WEIGHT] = "weight", [PDL_ARRAY_MOMENT1] = "momentum", [PDL_ARRAY_MOMENT2] = "second moment"};
    int  gradient = bad_parameter(s, PDL_ARRAY_GRADIENT), statistic = bad_statistic(s);
    char remedy[160];

    write_remedy(s, batch, true, true, remedy, sizeof(remedy));
    pdl__finite_note_input(s, batch);
    if (gradient >= 0)
        note(s, GRADIENT, "the gradient of %s is not finite at update %lld, though the loss is: %s",
             s->weights.entry[gradient].info.name, update_of(s), remedy);
    for (int a = 0; a < PDL_ARRAY_COUNT; a++) {
        int entry = state[a] ? bad_parameter(s, (pdl_session_array_t)a) : -1;
        if (entry >= 0)
            note(s, WEIGHT, "%s %s is not finite after update %lld at learning rate %.3g: %s", state[a],
                 s->weights.entry[entry].info.name, update_of(s), lr, remedy);
    }
    if (statistic >= 0)
        note(s, WEIGHT, "the statistic %s is not finite after update %lld: %s",
             s->weights.entry[statistic].info.name, update_of(s), remedy);
}

pdl_status_t pdl__finite_agree(pdl_session_t *s, pdl_ranks_t *ranks)
{
    double       best = s->observer.not_finite;
    pdl_status_t status = pdl_ranks_max(ranks, &best, 1);

    if (status || best == NOTHING) return status;
    bool speaks = s->observer.not_finite >= best;
    return pdl_ranks_agree(ranks,
                           speaks ? pdl_error(PDL_ERR_NOT_FINITE, "%s", s->observer.not_finite_text) : PDL_OK);
}

/* Of all samples of this rank, as the host has them. */
static pdl_status_t check_labels(const pdl_session_t *s, const pdl_batch_t *batch)
{
    const pdl_layer_t *loss =
        s->graph->loss >= 0 ? pdl_model_layer(s->spec.plan->model, s->graph->unit[s->graph->loss].layer) : NULL;

    if (!loss || pdl_layer_traits(loss)->loss == PDL_LOSS_VALUES || !batch->labels) return PDL_OK;
    return pdl_check_labels(loss, batch->labels, s->count, pdl_shape_positions(&loss->in), loss->in.channels,
                            s->first);
}

pdl_status_t pdl__finite_explain(pdl_session_t *s, pdl_ranks_t *ranks, const pdl_batch_t *batch,
                                 pdl__execute_mode_t mode, const char *what)
{
    bool             trains = mode != PDL__EXECUTE_EVALUATE;
    pdl__execution_t execution = {.batch = batch, .mode = trains ? PDL__EXECUTE_PASS : mode, .searches = true};
    int              gradient = mode == PDL__EXECUTE_TRAIN ? bad_parameter(s, PDL_ARRAY_GRADIENT) : -1;
    char             remedy[160], when[64] = "";
    pdl_status_t     status = pdl_ranks_agree(ranks, check_labels(s, batch));

    if (!status) status = pdl__session_execute(s, s->forward_program, &execution);
    if (status) return status;
    if (trains) snprintf(when, sizeof(when), " at update %lld", update_of(s));
    write_remedy(s, batch, trains, s->updates > 0, remedy, sizeof(remedy));
    pdl__finite_note_input(s, batch);
    if (execution.found >= 0)
        note(s, OUTPUT, "the %s is not finite%s: first in the output of layer %s; %s", what, when,
             pdl_model_layer(s->spec.plan->model, s->graph->unit[execution.found].layer)->name, remedy);
    if (gradient >= 0)
        note(s, GRADIENT, "the %s is not finite%s: first in the gradient of %s; %s", what, when,
             s->weights.entry[gradient].info.name, remedy);
    note(s, LOSS, "the %s is not finite%s, and no output before it; %s", what, when, remedy);
    return pdl__finite_agree(s, ranks);
}

pdl_status_t pdl__finite_name_checkpoint(pdl_status_t status, const char *folder)
{
    char    message[1024];
    int64_t step = -1;

    if (status != PDL_ERR_NOT_FINITE || !folder) return status;
    snprintf(message, sizeof(message), "%s", pdl_error_message());
    if (pdl_checkpoint_latest(folder, &step) || step < 0)
        return pdl_error(status, "%s; there is no checkpoint yet", message);
    return pdl_error(status, "%s; the latest checkpoint in %s is of update %lld", message, folder, (long long)step);
}
