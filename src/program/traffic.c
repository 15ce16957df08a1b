/*
 * What a program sends.
 */
#include <paradl/program/program.h>

pdl_traffic_t pdl_program_op_traffic(const pdl_program_op_t *op)
{
    switch (op->kind) {
    case PDL_OP_REDISTRIBUTE: return PDL_TRAFFIC_REDISTRIBUTION;
    case PDL_OP_SEND: return PDL_TRAFFIC_STAGES;
    case PDL_OP_COLLECTIVE: return PDL_TRAFFIC_GRADIENTS;
    case PDL_OP_RESULT:
    case PDL_OP_UPDATE: return PDL_TRAFFIC_RESULTS;
    default: return op->primitive == PDL_ALLTOALL ? PDL_TRAFFIC_EXPERTS : PDL_TRAFFIC_STATISTICS;
    }
}

void pdl_program_traffic(const pdl_program_t *program, double sent[PDL_TRAFFIC_COUNT])
{
    for (int k = 0; k < PDL_TRAFFIC_COUNT; k++) sent[k] = 0;
    for (int i = 0; i < program->op_count; i++) {
        const pdl_program_op_t *op = &program->op[i];
        bool copies = op->kind == PDL_OP_COPY || op->kind == PDL_OP_COPY_OUT || op->kind == PDL_OP_COPY_IN;
        if (!copies) sent[pdl_program_op_traffic(op)] += op->bytes;
    }
}
