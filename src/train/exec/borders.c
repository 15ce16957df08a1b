/*
 * What a rank exchanges with other stages of a pipeline while a program is executed.
 */
#include "train/exec/session.h"

static bool is_border(const pdl__unit_t *unit)
{
    return unit->kind == PDL__UNIT_RECEIVE || unit->kind == PDL__UNIT_SEND;
}

pdl_status_t pdl__borders_begin(pdl_session_t *s, bool training)
{
    pdl_tensor_stream_t *stream = s->executor.stream[PDL_STREAM_STAGE];
    pdl_status_t         status = PDL_OK;

    for (int u = 0; u < s->graph->unit_count && !status; u++) {
        const pdl__unit_t *unit = &s->graph->unit[u];
        if (unit->kind == PDL__UNIT_RECEIVE)
            status = pdl__channel_expect(unit->there_channel, stream, s->micro_batches);
        if (unit->kind == PDL__UNIT_SEND && unit->back_channel && training)
            status = pdl__channel_expect(unit->back_channel, stream, s->micro_batches);
    }
    return status;
}

pdl_status_t pdl__borders_end(pdl_session_t *s)
{
    pdl_status_t status = PDL_OK;

    for (int u = 0; u < s->graph->unit_count && !status; u++) {
        const pdl__unit_t *unit = &s->graph->unit[u];
        if (unit->kind == PDL__UNIT_SEND) status = pdl__channel_flush(unit->there_channel);
        if (unit->kind == PDL__UNIT_RECEIVE && unit->back_channel) status = pdl__channel_flush(unit->back_channel);
    }
    return status;
}

size_t pdl__borders_bytes(const pdl_session_t *s)
{
    size_t bytes = 0;

    for (int u = 0; u < s->graph->unit_count; u++) {
        const pdl__unit_t *unit = &s->graph->unit[u];
        if (!is_border(unit)) continue;
        bytes += (size_t)unit->there.slots * unit->there.bytes + (size_t)unit->back.slots * unit->back.bytes;
    }
    return bytes;
}
