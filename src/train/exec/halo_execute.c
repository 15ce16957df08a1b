/*
 * Running a convolution whose halo travels meanwhile.
 */
#include "train/exec/session.h"
#include <paradl/comm/regions.h>

/* Places in the workspace behind that of ops. */
static char *work(const pdl__halo_t *halo, const pdl_op_run_t *run, size_t at)
{
    return (char *)run->workspace + halo->work_at + at;
}

/* The halo of a side, in saved memory. */
static char *halo_of(const pdl__halo_side_t *side, const pdl_op_run_t *run)
{
    return (char *)run->saved + side->saved_at;
}

static pdl_status_t copy_boxes(pdl_session_t *s, const pdl_boxes_t *boxes, int from, const void *source,
                               void *target)
{
    return s->device->ops->boxes(s->device, s->stream[PDL_STREAM_COMPUTE], boxes, from,
                                 s->spec.backend->activation_type, source, target, false);
}

static pdl_status_t finish_moves(pdl_session_t *s, pdl__halo_t *halo)
{
    double       start_s = pdl__now_s();
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < 2 && !status; i++)
        if (halo->side[i].move) status = pdl_move_finish(halo->side[i].move->made);
    if (!status) status = pdl__session_order(s, PDL_STREAM_REDISTRIBUTION, PDL_STREAM_COMPUTE);
    s->moved_s += pdl__now_s() - start_s;
    return status;
}

/* Where nothing is to be overlapped they arrive at once. */
static pdl_status_t start_moves(pdl_session_t *s, pdl__halo_t *halo, const pdl_op_run_t *run, bool backward)
{
    double       start_s = pdl__now_s();
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < 2 && !status; i++) {
        pdl__halo_side_t    *side = &halo->side[i];
        pdl_tensor_stream_t *stream = s->stream[PDL_STREAM_REDISTRIBUTION];
        char                *gives = work(halo, run, side->gives_at);
        if (!side->move) continue;
        if (!backward) status = copy_boxes(s, &side->gives, 0, run->input[0], gives);
        if (!status) status = pdl__session_order(s, PDL_STREAM_COMPUTE, PDL_STREAM_REDISTRIBUTION);
        if (!status && backward)
            status = pdl_move_start(side->move->made, stream, work(halo, run, side->sum_at), gives, 1);
        if (!status && !backward) status = pdl_move_start(side->move->made, stream, gives, halo_of(side, run), 0);
    }
    s->sent_bytes += pdl__halo_bytes(halo, backward);
    s->moved_s += pdl__now_s() - start_s;
    return status || s->spec.overlap ? status : finish_moves(s, halo);
}

/* The run of a side's op: the strip's buffers, and the weights of the layer, of which copies are made anew. */
static pdl_op_run_t side_run(const pdl__halo_t *halo, const pdl_op_run_t *run)
{
    pdl_op_run_t made = *run;

    made.input[0] = work(halo, run, halo->strip_at);
    made.output = work(halo, run, halo->border_at[0]);
    made.packed = work(halo, run, halo->packed_at);
    made.saved = NULL;
    return made;
}

static pdl_status_t pack(pdl_session_t *s, pdl_op_t *op, const pdl_op_run_t *run)
{
    return op->description.packed_bytes > 0 ? op->backend->ops->refresh(op, s->stream[PDL_STREAM_COMPUTE], run)
                                            : PDL_OK;
}

/* The strip of a side: the halo, and own rows or zeros. */
static pdl_status_t fill_strip(pdl_session_t *s, const pdl__halo_t *halo, const pdl__halo_side_t *side,
                               const pdl_op_run_t *run, bool own)
{
    char        *strip = work(halo, run, halo->strip_at);
    pdl_status_t status =
        own ? copy_boxes(s, &side->own, 0, run->input[0], strip)
            : s->device->ops->fill(s->device, s->stream[PDL_STREAM_COMPUTE], strip, side->strip_bytes);

    return status ? status : copy_boxes(s, &side->halo, 1, halo_of(side, run), strip);
}

static pdl_status_t forward_side(pdl_session_t *s, const pdl__halo_t *halo, const pdl__halo_side_t *side,
                                 const pdl_op_run_t *run)
{
    pdl_op_run_t made = side_run(halo, run);
    pdl_status_t status = pack(s, side->op, &made);

    if (!status) status = fill_strip(s, halo, side, run, true);
    if (!status) status = halo->backend->ops->forward(side->op, s->stream[PDL_STREAM_COMPUTE], &made);
    return status ? status : copy_boxes(s, &side->border, 1, made.output, run->output);
}

pdl_status_t pdl__halo_forward(pdl_session_t *s, pdl__unit_t *unit, const pdl_op_run_t *run)
{
    pdl__halo_t *halo = unit->halo;
    pdl_status_t status = start_moves(s, halo, run, false);

    if (!status) status = halo->backend->ops->forward(unit->op, s->stream[PDL_STREAM_COMPUTE], run);
    if (!status && s->spec.overlap) status = finish_moves(s, halo);
    for (int i = 0; i < 2 && !status; i++)
        if (halo->side[i].op) status = forward_side(s, halo, &halo->side[i], run);
    return status;
}

/* The rows of the border of what backward reads. */
static pdl_status_t gather_border(pdl_session_t *s, const pdl__halo_t *halo, const pdl__halo_side_t *side,
                                  const pdl_op_run_t *run, pdl_op_run_t *made)
{
    pdl_status_t status = PDL_OK;

    *made = side_run(halo, run);
    for (int g = 0; g < 2 && !status; g++) {
        char *border = work(halo, run, halo->border_at[1 + g]);
        if (!run->output_gradient[g]) continue;
        status = copy_boxes(s, &side->border, 0, run->output_gradient[g], border);
        made->output_gradient[g] = border;
    }
    if (!status && side->op->description.keeps_output)
        status = copy_boxes(s, &side->border, 0, run->output, made->output);
    return status;
}

/* The gradient of the halo of a side, ready to go back to where it came from. */
static pdl_status_t backward_halo(pdl_session_t *s, const pdl__halo_t *halo, const pdl__halo_side_t *side,
                                  const pdl_op_run_t *run)
{
    pdl_op_run_t made;
    pdl_status_t status = gather_border(s, halo, side, run, &made);

    if (!status) status = pack(s, side->op, &made);
    made.input_gradient[0] = work(halo, run, halo->strip_at);
    if (!status)
        status = halo->backend->ops->backward(side->op, s->stream[PDL_STREAM_COMPUTE], &made, PDL_BACKWARD_DATA);
    return status ? status : copy_boxes(s, &side->halo, 0, made.input_gradient[0], work(halo, run, side->sum_at));
}

/* What halos contribute to the gradient of the weight; that of the bias is complete. */
static pdl_status_t backward_weight(pdl_session_t *s, const pdl__halo_t *halo, const pdl__halo_side_t *side,
                                    const pdl_op_run_t *run)
{
    pdl_op_run_t made;
    pdl_status_t status = gather_border(s, halo, side, run, &made);

    if (!status) status = fill_strip(s, halo, side, run, false);
    made.accumulate = true;
    made.weight_gradient[1] = NULL;
    return status
               ? status
               : halo->backend->ops->backward(side->op, s->stream[PDL_STREAM_COMPUTE], &made, PDL_BACKWARD_WEIGHT);
}

/* What has come back is added to the rows that had been given. */
static pdl_status_t add_rows(pdl_session_t *s, const pdl__halo_t *halo, const pdl__halo_side_t *side,
                             const pdl_op_run_t *run)
{
    char        *back = work(halo, run, side->gives_at), *rows = work(halo, run, halo->rows_at);
    pdl_status_t status = PDL_OK;

    if (side->gives_bytes == 0) return PDL_OK;
    status = copy_boxes(s, &side->gives, 0, run->input_gradient[0], rows);
    if (!status)
        status = halo->backend->ops->add(halo->backend, s->stream[PDL_STREAM_COMPUTE], rows, back,
                                         side->gives_bytes, rows);
    return status ? status : copy_boxes(s, &side->gives, 1, rows, run->input_gradient[0]);
}

pdl_status_t pdl__halo_backward(pdl_session_t *s, pdl__unit_t *unit, const pdl_op_run_t *run, unsigned what)
{
    pdl__halo_t *halo = unit->halo;
    bool         data = (what & PDL_BACKWARD_DATA) && run->input_gradient[0];
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < 2 && data && !status; i++)
        if (halo->side[i].op) status = backward_halo(s, halo, &halo->side[i], run);
    if (data && !status) status = start_moves(s, halo, run, true);
    if (!status) status = halo->backend->ops->backward(unit->op, s->stream[PDL_STREAM_COMPUTE], run, what);
    for (int i = 0; i < 2 && what & PDL_BACKWARD_WEIGHT && !status; i++)
        if (halo->side[i].op) status = backward_weight(s, halo, &halo->side[i], run);
    if (data && !status && s->spec.overlap) status = finish_moves(s, halo);
    for (int i = 0; i < 2 && data && !status; i++) status = add_rows(s, halo, &halo->side[i], run);
    return status;
}
