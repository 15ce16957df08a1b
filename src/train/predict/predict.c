/*
 * Outputs for all samples of a data set: every rank predicts its part of each batch, the first gets all of them in order.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "base/sorted.h"
#include "train/exec/input.h"
#include <paradl/comm/watch.h>
#include <paradl/train/predict.h>
#include <stdlib.h>
#include <string.h>

typedef struct run {
    const pdl_predict_options_t *options;
    pdl_ranks_t                 *ranks;
    int64_t                      elements, targets, count; /* of a sample; samples of this rank */
    float                       *outputs, *all_outputs;
    int32_t                     *labels, *all_labels;
    int64_t                     *sizes;
    double                      *seconds; /* of every batch */
    int64_t                      batches, given;
    double                       sums[3]; /* of losses, of what is right, of samples */
} run_t;

pdl_latency_t pdl_latency(double *seconds, int64_t count)
{
    pdl_latency_t latency = {0};

    /* The first also waits for what is made when it is needed. */
    if (count > 1) {
        seconds++;
        count--;
    }
    if (count < 1) return latency;
    for (int64_t i = 0; i < count; i++) latency.mean_s += seconds[i] / (double)count;
    latency.median_s = pdl__median(seconds, (size_t)count);
    latency.p95_s = seconds[(count * 95 + 99) / 100 - 1];
    return latency;
}

static pdl_status_t take_memory(run_t *run, int64_t batches)
{
    bool    alone = pdl_ranks_size(run->ranks) == 1;
    int64_t whole = run->options->session->batch, rows = alone ? 0 : whole;

    if (run->options->no_outputs) run->elements = 0;
    run->outputs = malloc((size_t)(run->count * run->elements) * sizeof(*run->outputs) + 1);
    run->labels = malloc((size_t)(run->count * run->targets) * sizeof(*run->labels) + 1);
    run->all_outputs = malloc((size_t)(rows * run->elements) * sizeof(*run->all_outputs) + 1);
    run->all_labels = malloc((size_t)(rows * run->targets) * sizeof(*run->all_labels) + 1);
    run->sizes = calloc(2 * (size_t)pdl_ranks_size(run->ranks), sizeof(*run->sizes));
    run->seconds = calloc((size_t)batches + 1, sizeof(*run->seconds));
    if (run->outputs && run->labels && run->all_outputs && run->all_labels && run->sizes && run->seconds)
        return PDL_OK;
    return pdl__no_memory("for the outputs of a batch: lower --batch");
}

static void give_memory(run_t *run)
{
    free(run->outputs);
    free(run->labels);
    free(run->all_outputs);
    free(run->all_labels);
    free(run->sizes);
    free(run->seconds);
}

/* The samples of this rank that are there: of the last batch some may be missing, at its end. */
static int64_t count_samples(const run_t *run, const pdl_batch_t *batch)
{
    int64_t count = 0;

    while (count < run->count && batch->index[count] >= 0) count++;
    return count;
}

/* Outputs and labels of all ranks, on the first. */
static pdl_status_t gather(run_t *run, const pdl_batch_t *batch, pdl_predict_rows_t *rows)
{
    int64_t      row = run->elements * (int64_t)sizeof(float);
    pdl_status_t status =
        pdl_ranks_gather_all(run->ranks, run->outputs, rows->count * row, run->all_outputs, run->sizes);

    if (status) return status;
    if (rows->labels != NULL)
        status = pdl_ranks_gather_all(run->ranks, batch->labels,
                                      rows->count * rows->target_count * (int64_t)sizeof(int32_t), run->all_labels,
                                      run->sizes + pdl_ranks_size(run->ranks));
    rows->outputs = run->all_outputs;
    if (rows->labels != NULL) rows->labels = run->all_labels;
    rows->count = 0;
    for (int r = 0; r < pdl_ranks_size(run->ranks); r++) rows->count += run->sizes[r] / row;
    return status;
}

/* All rows of a batch to the caller's function, on the first rank; without outputs only how many there were. */
static pdl_status_t hand_over(run_t *run, const pdl_batch_t *batch, int64_t samples)
{
    const pdl_predict_options_t *o = run->options;
    int64_t                      own = count_samples(run, batch), labels = batch->labels ? run->targets : 0;
    pdl_predict_rows_t           rows = {.first = run->given,
                                         .count = own,
                                         .outputs = run->outputs,
                                         .elements = run->elements,
                                         .labels = labels > 0 ? batch->labels : NULL,
                                         .target_count = labels};
    pdl_status_t                 status = PDL_OK;

    if (o->no_outputs)
        rows = (pdl_predict_rows_t){.first = run->given, .count = samples};
    else if (pdl_ranks_size(run->ranks) > 1)
        status = gather(run, batch, &rows);
    if (status) return status;
    run->given += rows.count;
    if (o->on_rows && pdl_ranks_rank(run->ranks) == 0) status = o->on_rows(o->context, &rows);
    return status;
}

static pdl_status_t predict_batch(run_t *run, const pdl_batch_t *batch)
{
    pdl_outputs_t     outputs = {.values = run->outputs};
    pdl_step_result_t result;
    double            start_s = pdl__seconds();
    pdl_session_t    *session = run->options->session;
    pdl_status_t      status = run->options->no_outputs ? pdl_session_evaluate(session, batch, &result)
                                                        : pdl_session_predict(session, batch, &outputs, &result);

    if (status) return status;
    run->seconds[run->batches++] = pdl__seconds() - start_s;
    run->sums[0] += result.loss * result.samples;
    run->sums[1] += result.accuracy * result.samples;
    run->sums[2] += result.samples;
    return pdl_ranks_agree(run->ranks, hand_over(run, batch, (int64_t)(result.samples + 0.5)));
}

static pdl_status_t predict_all(run_t *run, const pdl_loader_spec_t *spec)
{
    pdl_loader_t *loader = NULL;
    pdl_status_t  status = pdl_loader_create(spec, &loader);

    status = pdl_ranks_agree(run->ranks, status);
    for (int64_t i = 0; i < spec->steps_per_epoch && !status; i++) {
        pdl_batch_t batch, next;

        pdl_watch_at(run->ranks, &(pdl_watch_place_t){.doing = "waiting for samples"});
        status = pdl_ranks_agree(run->ranks, pdl_loader_next(loader, &batch));
        if (!status && i + 1 < spec->steps_per_epoch && pdl_loader_peek(loader, &next))
            status = pdl_session_expect(run->options->session, &next);
        if (!status) status = predict_batch(run, &batch);
    }
    pdl_loader_destroy(loader);
    return status;
}

pdl_status_t pdl_predict(const pdl_predict_options_t *o, pdl_predict_summary_t *summary)
{
    const pdl_session_t *s = o->session;
    run_t                run = {.options = o, .ranks = s->spec.ranks, .count = s->count};
    pdl_global_order_t   order = {.samples = pdl_source_info(o->source)->samples,
                                  .batch = s->batch,
                                  .first = s->first,
                                  .keep_rest = true,
                                  .epoch = -1};
    pdl_loader_spec_t    spec = {.source = o->source,
                                 .samples = s->count,
                                 .order = pdl_global_order,
                                 .order_context = &order,
                                 .steps_per_epoch = pdl_global_order_steps(&order),
                                 .threads = o->loader_threads > 0 ? o->loader_threads : 1,
                                 .depth = 3, /* at hand, coming to the device, being prepared */
                                 .normalise = o->normalise,
                                 .device = pdl__input_device(s)};
    double               start_s = pdl__seconds();
    pdl_shape_t          shape;
    pdl_status_t         status = pdl_session_output_shape(s, &shape);

    spec.bytes = spec.device != NULL && pdl_source_info(o->source)->bytes;
    if (!status) {
        run.elements = pdl_shape_elements(&shape);
        run.targets = pdl_source_info(o->source)->target_count;
        status = take_memory(&run, spec.steps_per_epoch);
    }
    status = pdl_ranks_agree(run.ranks, status);
    if (!status) status = predict_all(&run, &spec);
    pdl_global_order_free(&order);
    if (!status)
        *summary = (pdl_predict_summary_t){.samples = run.given,
                                           .batches = run.batches,
                                           .loss = run.sums[0] / run.sums[2],
                                           .accuracy = run.sums[1] / run.sums[2],
                                           .elapsed_s = pdl__seconds() - start_s,
                                           .latency = pdl_latency(run.seconds, run.batches)};
    give_memory(&run);
    return status;
}
