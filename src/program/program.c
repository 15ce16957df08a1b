/*
 * Making a program: operations of layers in their order, then those of the update, what waits for what, then places of buffers.
 */
#include "program/builder.h"
#include <stdlib.h>
#include <string.h>

pdl_status_t pdl__program_no_memory(void)
{
    return pdl_error(PDL_ERR_NOMEM, "out of memory while building the program of a rank");
}

pdl_status_t pdl__program_grow(void **array, int count, int *capacity, size_t item)
{
    if (count < *capacity) return PDL_OK;
    int   wanted = *capacity ? 2 * *capacity : 256;
    void *grown = realloc(*array, (size_t)wanted * item);
    if (grown == NULL) return pdl__program_no_memory();
    *array = grown;
    *capacity = wanted;
    return PDL_OK;
}

static pdl_status_t create_builder(pdl__builder_t *b)
{
    size_t n = (size_t)b->node_count;

    b->program = calloc(1, sizeof(*b->program));
    b->root = calloc(n, 4 * sizeof(int) + sizeof(bool));
    b->all_held = calloc(n * (size_t)b->options->micro_batches + 1, sizeof(*b->all_held));
    if (b->program == NULL || b->root == NULL || b->all_held == NULL) return pdl__program_no_memory();
    b->last_reader = b->root + n;
    b->issued = b->last_reader + n;
    b->reached = b->issued + n;
    b->kept = (bool *)(b->reached + n);
    b->waiting = b->block = -1;
    b->program->model = b->options->model;
    b->program->node_count = b->node_count;
    b->program->node = malloc(n * sizeof(*b->program->node));
    if (b->program->node == NULL) return pdl__program_no_memory();
    memcpy(b->program->node, b->nodes, n * sizeof(*b->nodes));
    return PDL_OK;
}

/* What was borrowed is forgotten: operations say it. */
static void forget_moves(pdl_program_t *program)
{
    for (int i = 0; i < program->node_count; i++) {
        memset(program->node[i].move, 0, sizeof(program->node[i].move));
        memset(program->node[i].sum, 0, sizeof(program->node[i].sum));
        program->node[i].side = NULL;
    }
}

pdl_status_t pdl_program_create(const pdl_program_node_t *nodes, int node_count,
                                const pdl_program_options_t *options, pdl_program_t **out)
{
    pdl__builder_t b = {.options = options, .nodes = nodes, .node_count = node_count};

    if (node_count < 1) return pdl_error(PDL_ERR_INPUT, "a program needs at least one layer");
    b.status = create_builder(&b);
    if (!b.status) pdl__program_order(&b);
    if (!b.status) b.status = pdl__program_update(&b);
    if (!b.status) b.status = pdl__program_wait(&b);
    if (!b.status)
        b.status = pdl__program_place(b.program, options->order ? 1 : options->micro_batches, options->unplaced);
    free(b.root);
    free(b.all_held);
    free(b.pending);
    free(b.left);
    free(b.leaving);
    if (b.status) {
        pdl_program_destroy(b.program);
        return b.status;
    }
    forget_moves(b.program);
    *out = b.program;
    return PDL_OK;
}

void pdl_program_destroy(pdl_program_t *program)
{
    if (program == NULL) return;
    free(program->node);
    free(program->op);
    free(program->wait);
    free(program->whole);
    free(program->bucket);
    free(program->piece);
    free(program->buffer);
    free(program);
}
