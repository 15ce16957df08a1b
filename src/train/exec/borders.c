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
    pdl_status_t status = PDL_OK;

    for (int u = 0; u < s->graph->unit_count && !status; u++) {
        const pdl__unit_t *unit = &s->graph->unit[u];
        if (unit->kind == PDL__UNIT_RECEIVE) status = pdl__channel_expect(unit->there, s->micro_batches);
        if (unit->kind == PDL__UNIT_SEND && unit->back && training)
            status = pdl__channel_expect(unit->back, s->micro_batches);
    }
    return status;
}

pdl_status_t pdl__borders_end(pdl_session_t *s)
{
    pdl_status_t status = PDL_OK;

    for (int u = 0; u < s->graph->unit_count && !status; u++) {
        const pdl__unit_t *unit = &s->graph->unit[u];
        if (unit->kind == PDL__UNIT_SEND) status = pdl__channel_flush(unit->there);
        if (unit->kind == PDL__UNIT_RECEIVE && unit->back) status = pdl__channel_flush(unit->back);
    }
    return status;
}

static pdl_status_t send(pdl_session_t *s, pdl__channel_t *channel, const void *data)
{
    s->sent_bytes += (double)pdl__channel_message(channel);
    return pdl__channel_send(channel, data);
}

pdl_status_t pdl__border_forward(pdl_session_t *s, const pdl__unit_t *unit, const void *input, void *output)
{
    if (unit->kind == PDL__UNIT_SEND) return send(s, unit->there, input);
    return pdl__channel_receive(unit->there, output);
}

pdl_status_t pdl__border_backward(pdl_session_t *s, const pdl__unit_t *unit, const void *gradient,
                                  void *input_gradient)
{
    if (unit->kind == PDL__UNIT_RECEIVE) return send(s, unit->back, gradient);
    return pdl__channel_receive(unit->back, input_gradient);
}

size_t pdl__borders_bytes(const pdl_session_t *s)
{
    size_t bytes = 0;

    for (int u = 0; u < s->graph->unit_count; u++) {
        const pdl__unit_t *unit = &s->graph->unit[u];
        if (!is_border(unit)) continue;
        bytes += pdl__channel_bytes(unit->there);
        if (unit->back) bytes += pdl__channel_bytes(unit->back);
    }
    return bytes;
}
