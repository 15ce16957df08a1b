/*
 * Memory over the operations of a program.
 */
#include <paradl/program/program.h>

#include <string.h>

/* What begins at an operation, and ended at the one before, is summed up. */
void pdl_program_alive(const pdl_program_t *program, double *bytes)
{
    memset(bytes, 0, (size_t)program->op_count * sizeof(*bytes));
    for (int k = 0; k < program->buffer_count; k++) {
        const pdl_program_buffer_t *buffer = &program->buffer[k];

        if (buffer->space != PDL_SPACE_DEVICE || buffer->bytes == 0) continue;
        bytes[buffer->first] += (double)buffer->bytes;
        if (buffer->last + 1 < program->op_count) bytes[buffer->last + 1] -= (double)buffer->bytes;
    }
    for (int i = 1; i < program->op_count; i++) bytes[i] += bytes[i - 1];
}
