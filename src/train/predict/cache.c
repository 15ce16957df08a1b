/*
 * Generation: keys and values of earlier tokens, which sessions for different numbers of new tokens share.
 */
#include "base/memory.h"
#include "train/exec/session.h"
#include <stdlib.h>

static bool is_cached(const pdl__unit_t *unit)
{
    return unit->kind == PDL__UNIT_OP && unit->description.cache_bytes > 0;
}

/* Where another session keeps what this layer needs. */
static pdl_status_t find_place(const pdl_session_t *like, const pdl__unit_t *unit, size_t *at)
{
    for (int u = 0; u < like->graph->unit_count; u++) {
        const pdl__unit_t *other = &like->graph->unit[u];

        if (!is_cached(other) || other->layer != unit->layer ||
            other->description.cache_bytes != unit->description.cache_bytes)
            continue;
        *at = like->executor.cache_at[u];
        return PDL_OK;
    }
    return pdl_error(PDL_ERR_UNSUPPORTED, "layer %s has another cache for other numbers of tokens",
                     unit->spec.layer->name);
}

/* A backend that does not know of a context would give other numbers. */
static pdl_status_t check_backend(const pdl_session_t *s, const pdl__unit_t *unit)
{
    const pdl_traits_t *traits = unit->kind == PDL__UNIT_OP ? pdl_layer_traits(unit->spec.layer) : NULL;

    if (traits == NULL || (traits->work != PDL_WORK_ATTENTION && traits->kernel != PDL_KERNEL_POSITIONS))
        return PDL_OK;
    if (traits->work == PDL_WORK_ATTENTION ? is_cached(unit)
                                           : unit->description.weight[0].dims[0] == s->spec.context)
        return PDL_OK;
    return pdl_error(PDL_ERR_UNSUPPORTED, "layer %s: %s does not generate text with a cache yet: use --device cpu",
                     unit->spec.layer->name, s->spec.backend->ops->name);
}

pdl_status_t pdl__cache_place(pdl_session_t *s)
{
    pdl__executor_t *e = &s->executor;
    pdl_status_t     status = PDL_OK;

    if (s->spec.context == 0) return PDL_OK;
    e->cache_at = calloc((size_t)s->graph->unit_count + 1, sizeof(*e->cache_at));
    if (e->cache_at == NULL) return pdl__no_memory("for the key-value cache");
    for (int u = 0; u < s->graph->unit_count && !status; u++) {
        const pdl__unit_t *unit = &s->graph->unit[u];

        status = check_backend(s, unit);
        if (status || !is_cached(unit)) continue;
        e->cache_at[u] = e->cache_bytes;
        if (s->spec.like != NULL) status = find_place(s->spec.like, unit, &e->cache_at[u]);
        e->cache_bytes += (unit->description.cache_bytes + 63) / 64 * 64;
    }
    return status;
}

pdl_status_t pdl__cache_take(pdl_session_t *s)
{
    pdl__executor_t *e = &s->executor;
    void            *memory = NULL;

    if (s->spec.context == 0 || s->dry) return PDL_OK;
    if (s->spec.like != NULL)
        e->cache = s->spec.like->executor.cache;
    else if (e->device->ops->alloc(e->device, PDL_SPACE_DEVICE, e->cache_bytes, &memory))
        return pdl_error(PDL_ERR_NOMEM, "no memory for %.1f MiB of keys and values: give fewer prompts or tokens",
                         (double)e->cache_bytes / (1 << 20));
    else
        e->cache = memory;
    pdl_status_t status =
        e->device->ops->alloc(e->device, PDL_SPACE_DEVICE, (size_t)s->count * sizeof(*e->past), &memory);
    e->past = status ? NULL : memory;
    return status;
}

void pdl__cache_destroy(pdl_session_t *s)
{
    pdl__executor_t *e = &s->executor;

    if (e->cache != NULL && s->spec.like == NULL)
        e->device->ops->release(e->device, PDL_SPACE_DEVICE, e->cache, e->cache_bytes);
    if (e->past != NULL)
        e->device->ops->release(e->device, PDL_SPACE_DEVICE, e->past, (size_t)s->count * sizeof(*e->past));
    free(e->cache_at);
}

void pdl__cache_set(const pdl_session_t *s, int unit, pdl_op_run_t *run)
{
    run->past = s->executor.past;
    run->cache = is_cached(&s->graph->unit[unit]) ? s->executor.cache + s->executor.cache_at[unit] : NULL;
}

pdl_status_t pdl_session_set_past(pdl_session_t *s, const int32_t *past)
{
    return s->executor.device->ops->copy(s->executor.device, s->executor.stream[PDL_STREAM_COMPUTE],
                                         s->executor.past, past, (size_t)s->count * sizeof(*past));
}
