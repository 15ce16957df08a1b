/*
 * Redistributions, step by step.
 */
#include "train/exec/session.h"
#include <paradl/comm/regions.h>

/* A step until it has to wait. Of a sum that is its first half, into the block. */
static pdl_status_t start_step(const pdl__edge_step_t *step, pdl_tensor_stream_t *stream, const void *source,
                               void *target, void *block)
{
    void *into = step->action == PDL__STEP_SUM ? block : target;

    return pdl_move_start(step->move->made, stream, source, into, step->action != PDL__STEP_MOVE);
}

static pdl_status_t finish_step(const pdl__edge_step_t *step, pdl_tensor_stream_t *stream, void *target,
                                void *block)
{
    pdl_status_t status = pdl_move_finish(step->move->made);

    return status || step->action != PDL__STEP_SUM ? status
                                                   : pdl_move_forward(step->move->made, stream, block, target);
}

static const pdl__edge_step_t *steps_of(const pdl__edge_t *edge, bool back, int *count)
{
    *count = back ? edge->backward_count : edge->forward_count;
    return back ? edge->backward : edge->forward;
}

/* Steps write into two halves of the scratch memory by turns, the last one into the target. */
static void *place_of(const pdl__edge_t *edge, const pdl__edge_trip_t *trip, int i)
{
    int                     count;
    const pdl__edge_step_t *steps = steps_of(edge, trip->back, &count);
    int64_t                 half, block;

    pdl__edge_scratch(steps, count, &half, &block);
    if (i + 1 == count) return trip->target;
    return trip->scratch + (size_t)(block + (i % 2) * half) * pdl_dtype_bytes(edge->type);
}

static pdl_status_t start_trip(const pdl__edge_t *edge, const pdl__edge_trip_t *trip)
{
    int                     count;
    const pdl__edge_step_t *steps = steps_of(edge, trip->back, &count);

    return count > 0 ? start_step(&steps[0], trip->stream, trip->source, place_of(edge, trip, 0), trip->scratch)
                     : PDL_OK;
}

static pdl_status_t finish_trip(const pdl__edge_t *edge, const pdl__edge_trip_t *trip)
{
    int                     count;
    const pdl__edge_step_t *steps = steps_of(edge, trip->back, &count);
    pdl_status_t            status = PDL_OK;

    for (int i = 0; i < count && !status; i++) {
        void *into = place_of(edge, trip, i);
        if (i > 0) status = start_step(&steps[i], trip->stream, place_of(edge, trip, i - 1), into, trip->scratch);
        if (!status) status = finish_step(&steps[i], trip->stream, into, trip->scratch);
    }
    return status;
}

pdl_status_t pdl__edge_start(pdl__edge_t *edge, pdl_tensor_stream_t *stream, bool back, const void *source,
                             void *target, void *scratch)
{
    edge->trip = (pdl__edge_trip_t){stream, back, source, target, scratch};
    return start_trip(edge, &edge->trip);
}

pdl_status_t pdl__edge_finish(pdl__edge_t *edge)
{
    return finish_trip(edge, &edge->trip);
}
