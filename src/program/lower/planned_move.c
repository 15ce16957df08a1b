/*
 * Moves that are planned.
 */
#include "program/lower/planned_move.h"
#include <paradl/plan/parts.h>
#include <stdlib.h>

pdl_status_t pdl__planned_move_create(const pdl__layouts_t *layouts, unsigned axes, pdl_dtype_t type,
                                      pdl_region_t *own, pdl_region_t *need, pdl__planned_move_t **out)
{
    pdl__planned_move_t *move = calloc(1, sizeof(*move));
    pdl_move_parts_t     parts;
    double               item = (double)pdl_dtype_bytes(type);

    if (!move) {
        free(own);
        free(need);
        return pdl_error(PDL_ERR_NOMEM, "out of memory while preparing redistributions");
    }
    *move = (pdl__planned_move_t){
        .axes = axes, .members = pdl__layouts_members(layouts, axes), .own = own, .need = need, .type = type};
    pdl_status_t status = pdl_move_parts_init(own, need, move->members, pdl__layouts_place(layouts, axes), &parts);
    if (status) {
        pdl__planned_move_destroy(move);
        return status;
    }
    move->sent[0] = (double)parts.gives.elements * item;
    move->sent[1] = (double)parts.takes.elements * item;
    move->buffers = (size_t)pdl_move_buffer_size(&parts, (int64_t)pdl_dtype_bytes(type));
    pdl_move_parts_fini(&parts);
    *out = move;
    return PDL_OK;
}

void pdl__planned_move_destroy(pdl__planned_move_t *move)
{
    if (!move) return;
    free(move->own);
    free(move->need);
    free(move);
}
