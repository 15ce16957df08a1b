/*
 * Sessions of ranks that are not there.
 */
#include "train/exec/session.h"
#include <paradl/base/units.h>
#include <paradl/train/dry.h>
#include <string.h>

pdl_status_t pdl_session_create_dry(const pdl_session_spec_t *spec, int rank, pdl_session_t **session)
{
    pdl_session_spec_t dry = *spec;
    pdl_status_t       status = pdl_ranks_create_dry(rank, (int)pdl_mesh_size(&spec->plan->mesh), &dry.ranks);

    if (status) return status;
    dry.max_memory = 0;
    status = pdl_session_create(&dry, session);
    if (status)
        pdl_ranks_destroy(dry.ranks);
    else
        (*session)->dry_ranks = dry.ranks;
    return status;
}

static pdl_status_t check_rank(const pdl_session_spec_t *spec)
{
    int                  ranks = pdl_ranks_size(spec->ranks);
    char                 needs[32], allowed[32];
    pdl_session_memory_t memory;
    pdl_session_t       *session;

    if (pdl_mesh_size(&spec->plan->mesh) != ranks) return PDL_OK; /* refused in a moment, by what it is about */
    pdl_status_t status = pdl_session_create_dry(spec, pdl_ranks_rank(spec->ranks), &session);
    if (status) return status;
    pdl_session_memory(session, &memory);
    pdl_session_destroy(session);
    if (memory.total <= spec->max_memory) return PDL_OK;
    pdl_format_bytes((double)memory.total, needs);
    pdl_format_bytes((double)spec->max_memory, allowed);
    return pdl_error(
        PDL_ERR_LIMIT,
        "%s of memory would be needed on a rank, more than the %s allowed: let paradl plan --max-memory "
        "%zu find a plan for more ranks than %d, lower --batch or use --recompute full",
        needs, allowed, spec->max_memory, ranks);
}

pdl_status_t pdl__session_check_memory(const pdl_session_spec_t *spec)
{
    return pdl_ranks_agree(spec->ranks, check_rank(spec));
}

/* What others hold of a device, as far as that is no matter of its driver. */
static void say_others(size_t held, char *text, size_t size)
{
    static const size_t own = (size_t)1 << 30; /* more than a process needs for itself */
    char                bytes[32];

    *text = '\0';
    if (held > own) snprintf(text, size, " (other processes hold about %s)", pdl_format_bytes((double)held, bytes));
}

pdl_status_t pdl__session_check_device(const pdl_session_t *s)
{
    pdl_tensor_device_t *device = s->executor.device;
    pdl_ranks_t         *sharers = pdl_transport_sharers(s->executor.transport);
    char                 needs[32], left[32], has[32], others[96], ranks[64] = "";
    double               needed;
    size_t               free_bytes, all_bytes;
    pdl_session_memory_t memory;
    pdl_status_t         status;

    if (s->dry || device->ops->memory == NULL) return PDL_OK;
    status = device->ops->memory(device, &free_bytes, &all_bytes);
    if (status) return status;
    pdl_session_memory(s, &memory);
    needed = (double)memory.total;
    if (sharers != NULL) status = pdl_ranks_sum(sharers, &needed, 1);
    if (status || needed <= (double)free_bytes) return status;
    if (sharers != NULL && pdl_ranks_size(sharers) > 1)
        snprintf(ranks, sizeof(ranks), " by the %d ranks that share it", pdl_ranks_size(sharers));
    say_others(all_bytes - free_bytes, others, sizeof(others));
    return pdl_error(PDL_ERR_LIMIT,
                     "%s of memory are needed on the GPU%s, %s of its %s are free%s: lower --batch, or use "
                     "--micro-batches, --recompute full, --precision bf16 or more ranks with --sharding",
                     pdl_format_bytes(needed, needs), ranks, pdl_format_bytes((double)free_bytes, left),
                     pdl_format_bytes((double)all_bytes, has), others);
}
