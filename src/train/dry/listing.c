/*
 * The program of a rank for those who want to read it.
 */
#include "train/exec/session.h"
#include <paradl/train/dry.h>

const pdl_program_t *pdl_session_program(const pdl_session_t *s)
{
    return s->program;
}

int pdl_session_op_count(const pdl_session_t *s)
{
    return s->program ? s->program->op_count : 0;
}

static void place_of(const pdl_program_t *program, int buffer, int64_t *offset, int64_t *bytes)
{
    *offset = buffer < 0 ? -1 : (int64_t)program->buffer[buffer].offset;
    *bytes = buffer < 0 ? 0 : (int64_t)program->buffer[buffer].bytes;
}

void pdl_session_op(const pdl_session_t *s, int i, pdl_session_op_t *op)
{
    const pdl_program_op_t *entry = &s->program->op[i];
    int                     node = entry->kind == PDL_OP_LOAD ? s->graph->source : entry->node;

    *op = (pdl_session_op_t){.kind = pdl_op_kind_names[entry->kind],
                             .layer = "",
                             .op_class = pdl_program_op_class(s->program, entry),
                             .micro_batch = entry->micro_batch,
                             .sent_bytes = entry->bytes};
    pdl_program_op_name(s->program, i, op->name, sizeof(op->name));
    place_of(s->program, pdl_program_op_output(entry), &op->offset, &op->bytes);
    place_of(s->program, entry->workspace, &op->workspace_offset, &op->workspace_bytes);
    if (node < 0) return;
    const pdl__unit_t *unit = &s->graph->unit[node];
    op->layer = pdl_model_layer(s->spec.plan->model, unit->layer)->name;
    op->shape = unit->shape;
    op->samples = pdl__region_samples(&unit->region);
}
