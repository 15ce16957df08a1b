/*
 * Weight sets: pointers of the session's arrays change, the rest stays.
 */
#include "train/exec/weight_sets.h"
#include "train/state/state.h"
#include <paradl/base/units.h>
#include <stdlib.h>
#include <string.h>

static size_t array_bytes(const pdl_session_t *s, int array)
{
    return (size_t)pdl__weight_set_elements(s, array) * pdl_dtype_bytes(s->spec.backend->weight_type);
}

int pdl__weight_set_array(const pdl_session_t *s, int i, bool moments)
{
    static const int arrays[] = {PDL_ARRAY_WEIGHT, PDL_ARRAY_MOMENT1, PDL_ARRAY_MOMENT2};

    if (i > 2 || (i > 0 && !moments)) return -1;
    return s->weights.array[arrays[i]] ? arrays[i] : -1;
}

int64_t pdl__weight_set_elements(const pdl_session_t *s, int array)
{
    return array == PDL_ARRAY_WEIGHT ? s->weights.elements : s->weights.trainable;
}

/* Of one set that is taken. */
static size_t set_bytes(const pdl_session_t *s, bool moments)
{
    size_t bytes = 0;

    for (int i = 0, a; (a = pdl__weight_set_array(s, i, moments)) >= 0; i++) bytes += array_bytes(s, a);
    return bytes;
}

pdl_status_t pdl__weight_sets_check(pdl_session_t *const *sessions, int session_count, int count, bool moments)
{
    size_t allowed = sessions[0]->spec.max_memory, all = 0;
    char   needs[PDL_FORMAT_SIZE], most[PDL_FORMAT_SIZE];

    for (int i = 0; i < session_count; i++) {
        pdl_session_memory_t memory;
        pdl_session_memory(sessions[i], &memory);
        all += memory.total + (size_t)(count - 1) * set_bytes(sessions[i], moments);
    }
    if (allowed == 0 || all <= allowed) return PDL_OK;
    return pdl_error(PDL_ERR_LIMIT,
                     "%s of memory would be needed on a rank with %d copies of the weights, more than the %s that "
                     "--max-memory allows: lower --workers or use more ranks",
                     pdl_format_bytes((double)all, needs), count * session_count,
                     pdl_format_bytes((double)allowed, most));
}

pdl_status_t pdl__weight_sets_take(pdl_session_t *s, int count, bool moments)
{
    pdl__weight_sets_give(s);
    if (s->weights.passes)
        return pdl_error(PDL_ERR_UNSUPPORTED,
                         "workers with weights of their own keep them on the device: use memory.weights: device");
    if (moments && pdl__array_tier(s, PDL_ARRAY_MOMENT1) != PDL_TIER_DEVICE)
        return pdl_error(PDL_ERR_UNSUPPORTED, "workers with moments of their own keep them on the device: use "
                                              "memory.optimizer: device");
    s->weights.weight_set = calloc((size_t)count, sizeof(*s->weights.weight_set));
    if (!s->weights.weight_set) return pdl_error(PDL_ERR_NOMEM, "out of memory for %d sets of weights", count);
    s->weights.weight_set_count = count;
    s->weights.weight_set_moments = moments;
    s->weights.selected = 0;
    memcpy(s->weights.weight_set[0].array, s->weights.array, sizeof(s->weights.array));
    for (int b = 1; b < count; b++) {
        memcpy(s->weights.weight_set[b].array, s->weights.array, sizeof(s->weights.array));
        for (int i = 0, a; (a = pdl__weight_set_array(s, i, moments)) >= 0; i++)
            s->weights.weight_set[b].array[a] = NULL;
        for (int i = 0, a; (a = pdl__weight_set_array(s, i, moments)) >= 0; i++) {
            if (s->executor.device->ops->alloc(s->executor.device, PDL_SPACE_DEVICE, array_bytes(s, a),
                                               &s->weights.weight_set[b].array[a]))
                return pdl_error(PDL_ERR_NOMEM,
                                 "no memory for %d sets of %.1f MiB of weights: lower --workers or use more ranks",
                                 count, (double)array_bytes(s, a) / (1 << 20));
        }
        pdl_status_t status = pdl__weight_set_copy(s, 0, b, moments);
        if (status) return status;
    }
    return PDL_OK;
}

void pdl__weight_sets_give(pdl_session_t *s)
{
    if (!s->weights.weight_set) return;
    memcpy(s->weights.array, s->weights.weight_set[0].array, sizeof(s->weights.array));
    for (int b = 1; b < s->weights.weight_set_count; b++)
        for (int i = 0, a; (a = pdl__weight_set_array(s, i, s->weights.weight_set_moments)) >= 0; i++)
            s->executor.device->ops->release(s->executor.device, PDL_SPACE_DEVICE,
                                             s->weights.weight_set[b].array[a], array_bytes(s, a));
    free(s->weights.weight_set);
    s->weights.weight_set = NULL;
    s->weights.weight_set_count = 0;
}

size_t pdl__weight_sets_bytes(const pdl_session_t *s)
{
    return s->weights.weight_set
               ? (size_t)(s->weights.weight_set_count - 1) * set_bytes(s, s->weights.weight_set_moments)
               : 0;
}

pdl_status_t pdl__weight_set_select(pdl_session_t *s, int set)
{
    memcpy(s->weights.array, s->weights.weight_set[set].array, sizeof(s->weights.array));
    s->weights.selected = set;
    return pdl__session_refresh(s, false);
}

pdl_status_t pdl__weight_set_copy(pdl_session_t *s, int from, int to, bool moments)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0, a; !status && (a = pdl__weight_set_array(s, i, moments)) >= 0; i++)
        if (s->weights.weight_set[from].array[a] != s->weights.weight_set[to].array[a])
            status = s->executor.device->ops->copy(s->executor.device, s->executor.stream[PDL_STREAM_COMPUTE],
                                                   s->weights.weight_set[to].array[a],
                                                   s->weights.weight_set[from].array[a], array_bytes(s, a));
    return status;
}

pdl_status_t pdl__weight_set_clear_moments(pdl_session_t *s, int set)
{
    pdl_status_t status = PDL_OK;

    for (int i = 1, a; !status && (a = pdl__weight_set_array(s, i, true)) >= 0; i++)
        status = s->executor.device->ops->fill(s->executor.device, s->executor.stream[PDL_STREAM_COMPUTE],
                                               s->weights.weight_set[set].array[a], array_bytes(s, a));
    return status;
}

#define CHUNK 1024

/* The elements [from, from + count) of one array, on the host. */
static pdl_status_t mean_of_chunk(pdl_session_t *s, int array, int64_t from, int64_t count, int sets,
                                  const int *set, const double *share, int to)
{
    bool         doubles = s->spec.backend->weight_type == PDL_DTYPE_F64;
    size_t       item = doubles ? sizeof(double) : sizeof(float);
    double       sum[CHUNK] = {0}, twice[CHUNK];
    float        single[CHUNK];
    void        *home = doubles ? (void *)twice : (void *)single;
    pdl_status_t status = PDL_OK;

    for (int b = 0; b < sets && !status; b++) {
        const char *values = (const char *)s->weights.weight_set[set[b]].array[array] + (size_t)from * item;
        status = s->executor.device->ops->copy(s->executor.device, NULL, home, values, (size_t)count * item);
        for (int64_t i = 0; i < count; i++) sum[i] += share[b] * (doubles ? twice[i] : (double)single[i]);
    }
    for (int64_t i = 0; i < count; i++) {
        twice[i] = sum[i];
        single[i] = (float)sum[i];
    }
    if (status) return status;
    return s->executor.device->ops->copy(s->executor.device, NULL,
                                         (char *)s->weights.weight_set[to].array[array] + (size_t)from * item, home,
                                         (size_t)count * item);
}

pdl_status_t pdl__weight_set_mean(pdl_session_t *s, int count, const int *set, const double *share, int to,
                                  bool moments)
{
    pdl_status_t status = pdl__session_await(s);

    for (int i = 0, a; !status && (a = pdl__weight_set_array(s, i, moments)) >= 0; i++) {
        int64_t elements = pdl__weight_set_elements(s, a);
        for (int64_t from = 0; from < elements && !status; from += CHUNK)
            status =
                mean_of_chunk(s, a, from, elements - from < CHUNK ? elements - from : CHUNK, count, set, share, to);
    }
    return status;
}
