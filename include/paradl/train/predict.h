/*
 * Inference: what a network says of all samples of a data set, in their order.
 *
 *     pdl_predict_options_t options = {.session = session, .source = source, .on_rows = write_rows};
 *     pdl_predict(&options, &summary);
 *
 * The session is one that does not train, on ranks that share the samples (strategy data). docs/inference.md.
 */
#ifndef PARADL_PREDICT_H
#define PARADL_PREDICT_H

#include <paradl/base/status.h>
#include <paradl/data/data.h>
#include <paradl/train/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Samples first, first + 1, ... of the data set. */
typedef struct pdl_predict_rows {
    int64_t        first, count;
    const float   *outputs; /* [count][elements], as pdl_session_predict() has them; NULL: not wanted */
    int64_t        elements;
    const int32_t *labels; /* [count][target_count]; NULL where targets are numbers */
    int64_t        target_count;
} pdl_predict_rows_t;
/* Called on the first rank, batch after batch. A failure ends the run, on all ranks. */
typedef pdl_status_t (*pdl_predict_fn_t)(void *context, const pdl_predict_rows_t *rows);

typedef struct pdl_predict_options {
    pdl_session_t   *session;
    pdl_source_t    *source;
    int              loader_threads;
    bool             normalise;
    bool             no_outputs; /* only losses and times are wanted: outputs stay where they are computed */
    pdl_predict_fn_t on_rows;
    void            *context;
} pdl_predict_options_t;

/* Times of a batch, from samples that are there to outputs on the host, over all batches but the first, where there are others: that one
   also waits for kernels to be prepared. */
typedef struct pdl_latency {
    double median_s, p95_s, mean_s;
} pdl_latency_t;
/* Of so many times, which are sorted. */
pdl_latency_t pdl_latency(double *seconds, int64_t count);

typedef struct pdl_predict_summary {
    int64_t       samples, batches;
    double        loss, accuracy; /* as pdl_evaluate() has them; of no meaning where targets have none */
    double        elapsed_s;      /* loading and gathering included */
    pdl_latency_t latency;
} pdl_predict_summary_t;

/* Collective. */
pdl_status_t pdl_predict(const pdl_predict_options_t *options, pdl_predict_summary_t *summary);

#ifdef __cplusplus
}
#endif
#endif
