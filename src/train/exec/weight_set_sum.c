/*
 * A weight set summed over ranks, in pieces of the size of a bucket.
 */
#include "train/exec/weight_sets.h"
#include <stdlib.h>

static pdl_status_t create_exchange(pdl__weight_set_sum_t *sum, int array)
{
    pdl_session_t *s = sum->session;
    int64_t  elements = pdl__weight_set_elements(s, array), piece = (int64_t)(s->spec.bucket_bytes / sizeof(float));
    int64_t  count = piece > 0 ? (elements + piece - 1) / piece : 1;
    int64_t *bound = calloc((size_t)count + 1, sizeof(*bound));

    if (!bound) return pdl_error(PDL_ERR_NOMEM, "out of memory for the exchange of weights");
    for (int64_t b = 1; b <= count; b++) bound[b] = b == count ? elements : b * piece;
    pdl_exchange_spec_t spec = {.transport = s->executor.transport,
                                .stream = s->executor.stream[PDL_STREAM_GRADIENT],
                                .ranks = sum->ranks,
                                .data = s->weights.weight_set[sum->set].array[array],
                                .bound = bound,
                                .buckets = (int)count,
                                .overlap = true};
    pdl__name_exchange(s, pdl__data_axes(&s->spec.plan->mesh), &spec);
    pdl_status_t status = pdl_exchange_create(&spec, &sum->exchange[array]);
    sum->pieces[array] = (int)count;
    free(bound);
    return status;
}

pdl_status_t pdl__weight_set_sum_init(pdl__weight_set_sum_t *sum, pdl_session_t *session, pdl_ranks_t *ranks,
                                      int set, bool moments)
{
    pdl_status_t status = PDL_OK;

    *sum = (pdl__weight_set_sum_t){.session = session, .ranks = ranks, .set = set, .moments = moments};
    if (pdl_ranks_size(ranks) == 1 || session->spec.backend->weight_type != PDL_DTYPE_F32) return PDL_OK;
    for (int i = 0, a; !status && (a = pdl__weight_set_array(session, i, moments)) >= 0; i++)
        status = create_exchange(sum, a);
    return status;
}

void pdl__weight_set_sum_fini(pdl__weight_set_sum_t *sum)
{
    for (int a = 0; a < PDL_ARRAY_COUNT; a++) pdl_exchange_destroy(sum->exchange[a]);
}

/* Double precision is the reference's: small, so that the order of ranks may be kept. */
static pdl_status_t sum_array(pdl__weight_set_sum_t *sum, int array)
{
    pdl_exchange_t *exchange = sum->exchange[array];
    pdl_status_t    status = PDL_OK;

    if (!exchange)
        return pdl_ranks_sum(sum->ranks, sum->session->weights.weight_set[sum->set].array[array],
                             pdl__weight_set_elements(sum->session, array));
    for (int b = 0; b < sum->pieces[array] && !status; b++) status = pdl__bucket_ready(sum->session, exchange, b);
    for (int b = 0; b < sum->pieces[array] && !status; b++) status = pdl__bucket_wait(sum->session, exchange, b);
    return status;
}

pdl_status_t pdl__weight_set_sum_run(pdl__weight_set_sum_t *sum)
{
    pdl_status_t status = PDL_OK;

    if (pdl_ranks_size(sum->ranks) == 1) return PDL_OK;
    for (int i = 0, a; !status && (a = pdl__weight_set_array(sum->session, i, sum->moments)) >= 0; i++)
        status = sum_array(sum, a);
    return status;
}

double pdl__weight_set_sum_bytes(const pdl__weight_set_sum_t *sum)
{
    double all = 0;

    for (int a = 0; a < PDL_ARRAY_COUNT; a++) {
        double bytes = 0, waited_s, polled_s;
        if (sum->exchange[a]) pdl_exchange_counters(sum->exchange[a], &bytes, &waited_s, &polled_s);
        all += bytes;
    }
    return all;
}
