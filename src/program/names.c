/*
 * What operations are called, wherever they are shown.
 */
#include <paradl/program/program.h>
#include <stdio.h>

const char *const pdl_op_kind_names[PDL_OP_KIND_COUNT] = {[PDL_OP_LOAD] = "load",
                                                          [PDL_OP_FORWARD] = "forward",
                                                          [PDL_OP_BACKWARD] = "backward",
                                                          [PDL_OP_DGRAD] = "dgrad",
                                                          [PDL_OP_WGRAD] = "wgrad",
                                                          [PDL_OP_RECOMPUTE] = "recompute",
                                                          [PDL_OP_SUM] = "sum",
                                                          [PDL_OP_CONVERT] = "convert",
                                                          [PDL_OP_COPY] = "copy",
                                                          [PDL_OP_REDISTRIBUTE] = "redistribute",
                                                          [PDL_OP_COLLECTIVE] = "collective",
                                                          [PDL_OP_SEND] = "send",
                                                          [PDL_OP_RECV] = "receive",
                                                          [PDL_OP_COPY_OUT] = "copy out",
                                                          [PDL_OP_COPY_IN] = "copy in",
                                                          [PDL_OP_UPDATE] = "update",
                                                          [PDL_OP_RESULT] = "result"};

const char *const pdl_op_stream_names[PDL_STREAM_COUNT] = {[PDL_STREAM_COMPUTE] = "computation",
                                                           [PDL_STREAM_REDISTRIBUTION] = "redistribution",
                                                           [PDL_STREAM_GRADIENT] = "gradient exchange",
                                                           [PDL_STREAM_STAGE] = "stage transfer",
                                                           [PDL_STREAM_COPY_IN] = "copy in",
                                                           [PDL_STREAM_COPY_OUT] = "copy out",
                                                           [PDL_STREAM_HOST] = "host"};

/* The name of a layer of the model, or its number. */
static const char *layer_name(const pdl_program_t *program, int layer, char *text, size_t size)
{
    if (program->model != NULL && layer >= 0 && layer < pdl_model_layer_count(program->model))
        return pdl_model_layer(program->model, layer)->name;
    snprintf(text, size, "%d", layer);
    return text;
}

static const char *const sides[] = {"", "low", "high"};

/* From the layer that has the tensor to the one that gets it. */
static const char *name_redistribution(const pdl_program_t *program, const pdl_program_op_t *op, char *text,
                                       size_t size)
{
    const pdl_program_node_t *node = &program->node[op->node];
    char                      numbers[2][16];
    const char               *producer = layer_name(program, node->layer, numbers[0], sizeof(numbers[0]));

    if (op->part > 0)
        snprintf(text, size, "halo%s %s, %s side", op->backward ? " gradient" : "", producer, sides[op->part]);
    else if (op->sums >= 0)
        snprintf(text, size, "%s gradient of %s", pdl_primitive_names[op->primitive], producer);
    else {
        const char *reader = layer_name(program, node->reader, numbers[1], sizeof(numbers[1]));
        snprintf(text, size, "redistribute%s %s -> %s", op->backward ? " gradient" : "",
                 op->backward ? reader : producer, op->backward ? producer : reader);
    }
    return text;
}

/* Of no layer: by buckets, ties and steps of the update. */
static const char *name_update(const pdl_program_op_t *op, char *text, size_t size)
{
    static const char *const roles[] = {[PDL_ROLE_GRADIENTS] = "gradients",
                                        [PDL_ROLE_PARTS] = "parts of gradients",
                                        [PDL_ROLE_TIED] = "tied gradients",
                                        [PDL_ROLE_WEIGHTS] = "weights"};
    const char              *kind = pdl_op_kind_names[op->kind];

    if (op->kind == PDL_OP_COLLECTIVE)
        snprintf(text, size, "%s %s %d", pdl_primitive_names[op->primitive], roles[op->role], op->bucket);
    else if (op->piece >= 0)
        snprintf(text, size, "%s%s %d", kind,
                 op->kind == PDL_OP_UPDATE ? ""
                 : op->bucket >= 0         ? " gradients"
                                           : " state",
                 op->piece);
    else if (op->kind == PDL_OP_COPY && op->input[0] < 0)
        snprintf(text, size, "clear gradients %d", op->bucket);
    else if (op->kind == PDL_OP_COPY_IN)
        snprintf(text, size, "%s weights %d", kind, op->bucket);
    else if (op->bucket >= 0)
        snprintf(text, size, "%s gradients %d", kind, op->bucket);
    else
        snprintf(text, size, op->kind == PDL_OP_CONVERT ? "%s weights" : "%s", kind);
    return text;
}

/* Rows at the boundary of a convolution. */
static const char *name_copy(const pdl_program_op_t *op, const char *layer, char *text, size_t size)
{
    static const char *const what[] = {[PDL_BOXES_GIVES] = "rows for others",
                                       [PDL_BOXES_OWN] = "own rows",
                                       [PDL_BOXES_HALO] = "halo",
                                       [PDL_BOXES_BORDER] = "boundary"};

    snprintf(text, size, "%s %s of %s, %s side", op->input[0] < 0 ? "clear" : pdl_op_kind_names[op->kind],
             what[op->boxes], layer, sides[op->part]);
    return text;
}

const char *pdl_program_op_name(const pdl_program_t *program, int i, char *text, size_t size)
{
    const pdl_program_op_t *op = &program->op[i];
    char                    number[16];

    if (op->kind == PDL_OP_REDISTRIBUTE) return name_redistribution(program, op, text, size);
    if (op->node < 0) return name_update(op, text, size);
    const char *layer = layer_name(program, program->node[op->node].layer, number, sizeof(number));
    if (op->kind == PDL_OP_COPY) return name_copy(op, layer, text, size);
    bool of_gradient =
        op->backward && op->kind != PDL_OP_BACKWARD && op->kind != PDL_OP_DGRAD && op->kind != PDL_OP_WGRAD;
    snprintf(text, size, "%s%s %s%s%s%s", pdl_op_kind_names[op->kind], of_gradient ? " gradient" : "", layer,
             op->part > 0 ? ", " : "", sides[op->part], op->part > 0 ? " boundary" : "");
    return text;
}

int pdl_program_op_output(const pdl_program_op_t *op)
{
    bool backward = op->kind == PDL_OP_BACKWARD || op->kind == PDL_OP_DGRAD;

    if (op->kind == PDL_OP_LOAD) return op->input[0];
    if (op->kind == PDL_OP_WGRAD) return -1;
    for (int j = 0; j < PDL_PROGRAM_INPUTS && backward; j++)
        if (op->input_gradient[j] >= 0) return op->input_gradient[j];
    return backward ? -1 : op->output;
}
