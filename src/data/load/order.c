/*
 * The order of samples: one permutation of all of them in every epoch, the same on every rank, so that the global batch
 * of a step does not depend on how many ranks share it.
 */
#include <paradl/base/random.h>
#include <paradl/data/data.h>

#include <stdlib.h>

int64_t pdl_global_order_steps(const pdl_global_order_t *order)
{
    if (order->batch < 1 || order->samples < 1) return 0;
    return order->samples / order->batch + (order->keep_rest && order->samples % order->batch != 0);
}

/* Makes the permutation of `epoch` the one that is held. */
static pdl_status_t shuffle(pdl_global_order_t *order, int64_t epoch)
{
    if (order->permutation != NULL && order->epoch == epoch) return PDL_OK;
    if (order->permutation == NULL) {
        order->permutation = calloc((size_t)order->samples, sizeof(*order->permutation));
        if (order->permutation == NULL) {
            return pdl_error(PDL_ERR_NOMEM, "out of memory for the order of %lld samples",
                             (long long)order->samples);
        }
    }
    pdl_random_permutation(order->seed, pdl_random_stream("sample order", (uint64_t)epoch, 0), order->samples,
                           order->permutation);
    order->epoch = epoch;
    return PDL_OK;
}

pdl_status_t pdl_global_order(void *context, int64_t epoch, int64_t step, int64_t count, int64_t *indices)
{
    pdl_global_order_t *order = context;
    const int64_t       steps = pdl_global_order_steps(order);
    pdl_status_t        status;

    if (epoch < 0 || step < 0 || step >= steps) {
        return pdl_error(PDL_ERR_INPUT,
                         "there is no step %lld in an epoch of %lld (%lld samples in batches of %lld)",
                         (long long)step, (long long)steps, (long long)order->samples, (long long)order->batch);
    }
    if (order->first < 0 || count < 0 || count > order->batch - order->first) {
        return pdl_error(PDL_ERR_INPUT, "samples %lld to %lld are not all in a batch of %lld",
                         (long long)order->first, (long long)(order->first + count), (long long)order->batch);
    }
    status = order->shuffle ? shuffle(order, epoch) : PDL_OK;
    if (status) return status;
    for (int64_t i = 0; i < count; i++) {
        int64_t place = step * order->batch + order->first + i;

        if (place >= order->samples) {
            indices[i] = -1;
        } else {
            indices[i] = order->shuffle ? order->permutation[place] : place;
        }
    }
    return PDL_OK;
}

void pdl_global_order_free(pdl_global_order_t *order)
{
    free(order->permutation);
    order->permutation = NULL;
    order->epoch = -1;
}
