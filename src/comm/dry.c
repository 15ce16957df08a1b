/*
 * The messages of a schedule on one rank, counted.
 */
#include "comm/dry.h"

#include "comm/messages.h"

#include <paradl/coll/sparse.h>

#include <stdlib.h>
#include <string.h>

int64_t pdl__library_bytes(const pdl__reduction_spec_t *spec, int ranks)
{
    int passes = spec->collective == PDL_COLL_ALLREDUCE ? 2 : 1;

    return passes * spec->elements * (int64_t)sizeof(float) / ranks * (ranks - 1);
}

static pdl_status_t count_messages(const pdl_schedule_t *schedule, const pdl__reduction_spec_t *spec, int rank,
                                   pdl__counted_t *counted)
{
    int64_t         extent = sizeof(float), chunk = spec->chunk_bytes / extent;
    pdl_moves_t    *scratch = malloc(sizeof(*scratch));
    pdl__layout_t   layout = {0};
    pdl__messages_t messages = {0};
    pdl_status_t    status;

    if (scratch == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    status = pdl__layout_init(schedule, rank, spec->elements, spec->counts, scratch, &layout);
    if (!status)
        status = pdl__messages_init(schedule, &layout, chunk < 1 ? 1 : chunk, spec->slot_bytes / extent, scratch,
                                    &messages);
    if (!status) {
        *counted = (pdl__counted_t){.slots_bytes = messages.slot_elements * extent,
                                    .pack_bytes = messages.pack_elements * extent};
        for (int i = 0; i < messages.sends.count; i++) counted->sent += messages.sends.message[i].count * extent;
    }
    pdl__messages_fini(&messages);
    pdl__layout_fini(&layout);
    free(scratch);
    return status;
}

pdl_topk_spec_t pdl__topk_of(const pdl__reduction_spec_t *spec)
{
    bool denser = spec->most_density > spec->density;

    return (pdl_topk_spec_t){.elements = spec->elements,
                             .density = denser ? spec->most_density : spec->density,
                             .momentum = spec->momentum};
}

int64_t pdl__sparse_words(const pdl__reduction_spec_t *spec, int ranks)
{
    bool nested = strcmp(spec->algorithm, "sparse_ring_ring") == 0;
    /* Nested rings begin with parts for the ranks of a node. */
    int64_t parts = !nested ? ranks : spec->ranks_per_node > 1 ? spec->ranks_per_node : ranks;

    return (spec->elements + parts - 1) / parts + 1;
}

/* The residual with what selects from it, the elements that this rank keeps, and a message each that is sent and
   received. */
pdl_status_t pdl__count_sparse(const pdl__reduction_spec_t *spec, int ranks, pdl__counted_t *counted)
{
    pdl_sparse_spec_t wanted = {.algorithm = spec->algorithm,
                                .ranks = ranks,
                                .ranks_per_node = spec->ranks_per_node};
    pdl_topk_spec_t   topk = pdl__topk_of(spec);
    int64_t           words = spec->elements + 1;
    double            sent;
    pdl_status_t      status = pdl_sparse_sent(&wanted, (double)spec->elements, spec->density, &sent);

    if (status) return status;
    *counted = (pdl__counted_t){.sent = (int64_t)sent,
                                .held = pdl_topk_bytes(&topk) +
                                        (size_t)(words + 2 * pdl__sparse_words(spec, ranks)) * sizeof(uint32_t)};
    return PDL_OK;
}

pdl_status_t pdl__count_reduction(const pdl__reduction_spec_t *spec, int rank, int ranks, pdl__counted_t *counted)
{
    pdl_schedule_spec_t wanted = {.collective = spec->collective,
                                  .algorithm = spec->algorithm,
                                  .ranks = ranks,
                                  .hosts_per_switch = spec->ranks_per_node};
    pdl_schedule_t     *schedule;
    pdl_status_t        status;

    if (spec->density > 0) return pdl__count_sparse(spec, ranks, counted);
    if (strcmp(spec->algorithm, "library") == 0) {
        *counted = (pdl__counted_t){.sent = pdl__library_bytes(spec, ranks)};
        return PDL_OK;
    }
    status = pdl_schedule_create_sized(&wanted, (double)spec->elements * sizeof(float), &schedule);
    if (status) return status;
    status = count_messages(schedule, spec, rank, counted);
    pdl_schedule_destroy(schedule);
    return status;
}
