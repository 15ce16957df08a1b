/*
 * The order of operations: passes forward and backward in the order given, with a number for every buffer. A buffer lives
 * from the first operation that names it to the last, so keeping a tensor for backward needs no bookkeeping of its own:
 * backward names it.
 */
#include "program/builder.h"
#include <assert.h>
#include <string.h>

int pdl__program_buffer(pdl__builder_t *b, int node, size_t bytes)
{
    pdl_program_t *program = b->program;

    if (bytes == 0 || b->status) return -1;
    b->status = pdl__program_grow((void **)&program->buffer, program->buffer_count, &b->buffer_capacity,
                                  sizeof(*program->buffer));
    if (b->status) return -1;
    program->buffer[program->buffer_count] = (pdl_program_buffer_t){
        .bytes = bytes, .space = PDL_SPACE_DEVICE, .first = -1, .last = -1, .node = node, .bucket = -1};
    return program->buffer_count++;
}

pdl_program_op_t *pdl__program_emit(pdl__builder_t *b, const pdl_program_op_t *op)
{
    pdl_program_t *program = b->program;

    if (b->status) return NULL;
    b->status = pdl__program_grow((void **)&program->op, program->op_count, &b->op_capacity, sizeof(*program->op));
    if (b->status) return NULL;
    program->op[program->op_count] = *op;
    return &program->op[program->op_count++];
}

pdl_program_op_t pdl__program_blank(pdl_op_kind_t kind, int node, bool backward)
{
    pdl_program_op_t op = {.kind = kind, .node = node, .backward = backward, .sums = -1, .bucket = -1, .piece = -1};

    op.output = op.saved = op.workspace = op.gradient[0] = op.gradient[1] = -1;
    for (int i = 0; i < PDL_PROGRAM_INPUTS; i++) op.input[i] = op.input_gradient[i] = -1;
    return op;
}

/* Of the micro-batch at hand. */
static pdl_program_op_t blank(const pdl__builder_t *b, pdl_op_kind_t kind, int node, bool backward)
{
    pdl_program_op_t op = pdl__program_blank(kind, node, backward);

    op.micro_batch = b->micro_batch;
    return op;
}

/* Moves [from, to) of a redistribution from one buffer to another; what lies between two of them has buffers of its own.
   Returns the buffer reached. */
static int emit_moves(pdl__builder_t *b, const pdl_program_op_t *like, const pdl_program_move_t *moves, int count,
                      int from, int to)
{
    pdl_program_op_t op = *like;

    for (int k = from; k < to; k++) {
        op.move = k;
        op.stream = moves[k].group != 0 ? PDL_STREAM_REDISTRIBUTION : PDL_STREAM_COMPUTE;
        op.group = moves[k].group;
        op.primitive = moves[k].primitive;
        op.bytes = moves[k].sent;
        op.output = k + 1 == count ? like->output : pdl__program_buffer(b, op.node, moves[k].bytes);
        pdl__program_emit(b, &op);
        op.input[0] = op.output;
    }
    return op.input[0];
}

/* How many moves can be issued before something has to be waited for: those up to the first with other ranks. */
static int first_moves(const pdl_program_move_t *moves, int count)
{
    int k = 0;

    while (k < count && moves[k].group == 0) k++;
    return k < count ? k + 1 : count;
}

/* How many of the moves are with other ranks. */
static int count_exchanges(const pdl_program_move_t *moves, int count)
{
    int exchanges = 0;

    for (int k = 0; k < count; k++) exchanges += moves[k].group != 0;
    return exchanges;
}

/* The output may take the place of input 0 when nobody reads that again. */
static bool takes_input(const pdl__builder_t *b, int i)
{
    const pdl_program_node_t *node = &b->nodes[i];

    if (!node->inplace || node->input_count == 0 || node->recompute) return false;
    int owner = b->root[node->input[0]];
    for (int j = 1; j < node->input_count; j++)
        if (b->root[node->input[j]] == owner) return false;
    return !b->kept[owner] && b->nodes[owner].kind != PDL_NODE_SOURCE && !b->nodes[owner].recompute &&
           b->last_reader[owner] == i && b->nodes[owner].out_bytes == node->out_bytes;
}

/* Where the gradient goes that a loss makes of its input in forward: over the input when nobody reads that again. */
static int early_gradient(pdl__builder_t *b, int i, int input)
{
    int  owner = b->root[b->nodes[i].input[0]];
    bool last = !b->kept[owner] && b->nodes[owner].kind != PDL_NODE_SOURCE && b->last_reader[owner] == i;

    return last ? input : pdl__program_buffer(b, owner, b->nodes[owner].out_bytes);
}

static bool makes_gradient(const pdl__builder_t *b, const pdl_program_node_t *node)
{
    return b->options->training && node->gradient_in_forward && node->input_gradients & 1;
}

/* Forward of a redistribution up to move `to`, behind those that have been issued. */
static void move_forward(pdl__builder_t *b, int i, int to, bool again)
{
    const pdl_program_node_t *node = &b->nodes[i];
    pdl_program_op_t          op = blank(b, PDL_OP_REDISTRIBUTE, i, false);
    int                       from = again ? 0 : b->issued[i], count = node->move_count[PDL_FORWARD];

    op.again = again;
    if (from == 0) {
        b->held[i] = (pdl__held_t){.value = pdl__program_buffer(b, i, node->out_bytes),
                                   .saved = -1,
                                   .halo = {-1, -1},
                                   .contributions = b->held[i].contributions,
                                   .there = true};
        b->reached[i] = b->held[b->root[node->input[0]]].value;
    }
    op.input[0] = b->reached[i];
    op.output = b->held[i].value;
    b->reached[i] = emit_moves(b, &op, node->move[PDL_FORWARD], count, from, to);
    if (!again) b->issued[i] = to;
}

static void run_forward(pdl__builder_t *b, int i, bool again)
{
    static const pdl_op_kind_t kinds[] = {
        [PDL_NODE_CONVERT] = PDL_OP_CONVERT, [PDL_NODE_RECEIVE] = PDL_OP_RECV, [PDL_NODE_SEND] = PDL_OP_SEND};
    const pdl_program_node_t *node = &b->nodes[i];
    bool                      computes = node->kind == PDL_NODE_COMPUTE;

    if (node->kind == PDL_NODE_REDISTRIBUTE) {
        move_forward(b, i, node->move_count[PDL_FORWARD], again);
        return;
    }
    pdl_program_op_t op = blank(b,
                                !computes ? kinds[node->kind]
                                : again   ? PDL_OP_RECOMPUTE
                                          : PDL_OP_FORWARD,
                                i, false);
    op.again = again;
    for (int j = 0; j < node->input_count; j++) op.input[j] = b->held[b->root[node->input[j]]].value;
    op.output = !again && takes_input(b, i) ? op.input[0] : pdl__program_buffer(b, i, node->out_bytes);
    op.from_saved = again && node->from_saved;
    op.saved = op.from_saved ? b->held[i].saved : pdl__program_buffer(b, i, node->saved_bytes);
    op.workspace = pdl__program_buffer(b, i, node->workspace_bytes);
    if (node->kind == PDL_NODE_RECEIVE || node->kind == PDL_NODE_SEND) op.stream = PDL_STREAM_STAGE;
    if (node->kind == PDL_NODE_SEND) op.bytes = (double)b->nodes[b->root[node->input[0]]].out_bytes;
    if (makes_gradient(b, node)) op.input_gradient[0] = early_gradient(b, i, op.input[0]);
    b->held[i] = (pdl__held_t){.value = op.output,
                               .saved = op.saved,
                               .halo = {-1, -1},
                               .forward = b->program->op_count,
                               .contributions = b->held[i].contributions,
                               .there = true};
    if (node->side != NULL)
        pdl__program_sides_forward(b, &op, b->held[i].halo);
    else
        pdl__program_emit(b, &op);
}

/* A micro-batch into the sources among the nodes of a chunk. */
static void load_sources(pdl__builder_t *b, int chunk)
{
    pdl_program_op_t load = blank(b, PDL_OP_LOAD, -1, false);
    int              sources = 0;

    for (int i = 0; i < b->node_count; i++) {
        if (b->nodes[i].kind != PDL_NODE_SOURCE || b->nodes[i].chunk != chunk) continue;
        b->held[i].value = pdl__program_buffer(b, i, b->nodes[i].out_bytes);
        b->held[i].there = true;
        if (sources < PDL_PROGRAM_INPUTS) load.input[sources++] = b->held[i].value;
    }
    if (sources > 0) pdl__program_emit(b, &load);
}

static bool computes(const pdl__builder_t *b, int i, int chunk)
{
    return b->nodes[i].kind != PDL_NODE_SOURCE && b->nodes[i].kind != PDL_NODE_VIEW && b->nodes[i].chunk == chunk;
}

/* Whether the nodes up to `done` have made what node i reads, and others can run before it is needed. */
static bool may_start(const pdl__builder_t *b, int i, int done, int chunk)
{
    bool between = false;

    for (int j = 0; j < b->nodes[i].input_count; j++) {
        int owner = b->root[b->nodes[i].input[j]];
        if (owner > done || !b->held[owner].there) return false;
    }
    for (int k = done + 1; k < i; k++) between |= computes(b, k, chunk);
    return between;
}

/* Issues the redistributions whose turn it is; `next` is the first that has not been issued. Those that wait several times
   are left for their place, and what is behind them too. */
static int issue_moves(pdl__builder_t *b, int next, int done, int chunk)
{
    for (; next < b->node_count && !b->status; next++) {
        const pdl_program_node_t *node = &b->nodes[next];
        int                       count = node->move_count[PDL_FORWARD];
        int                       exchanges = count_exchanges(node->move[PDL_FORWARD], count);
        if (next <= done || !computes(b, next, chunk) || (exchanges == 0 && node->side == NULL)) continue;
        if (node->side != NULL || exchanges > 1 || !may_start(b, next, done, chunk)) break;
        move_forward(b, next, first_moves(node->move[PDL_FORWARD], count), false);
    }
    return next;
}

static void forward_pass(pdl__builder_t *b, int chunk)
{
    int next = 0;

    load_sources(b, chunk);
    for (int i = 0; i < b->node_count; i++) b->issued[i] = 0;
    b->block = -1;
    for (int i = 0; i < b->node_count && !b->status; i++) {
        bool here = computes(b, i, chunk);
        if (here) pdl__program_enter_block(b, i, false);
        if (here) run_forward(b, i, false);
        if (b->options->overlap) next = issue_moves(b, next, i, chunk);
        if (here) pdl__program_copy_out(b, i);
    }
    /* What is to be made again is not there any more, nor what was copied out. */
    for (int i = 0; i < b->node_count; i++)
        if ((b->nodes[i].recompute || pdl__program_leaves(b, i)) && b->nodes[i].chunk == chunk)
            b->held[i].there = false;
}

/* Makes the output and saved state of a node available to backward. */
static void ensure(pdl__builder_t *b, int owner)
{
    if (b->held[owner].there || b->status) return;
    if (pdl__program_leaves(b, owner)) {
        pdl__program_copy_in(b, owner);
        return;
    }
    const pdl_program_node_t *node = &b->nodes[owner];
    for (int j = 0; j < node->input_count; j++) ensure(b, b->root[node->input[j]]);
    run_forward(b, owner, true);
}

static void contribute(pdl__builder_t *b, int owner, int buffer)
{
    if (b->status) return;
    b->status =
        pdl__program_grow((void **)&b->pending, b->pending_count, &b->pending_capacity, sizeof(*b->pending));
    if (b->status) return;
    b->pending[b->pending_count++] = (pdl__pending_t){owner, b->micro_batch, buffer};
    b->held[owner].contributions++;
}

static int uses_by(const pdl__builder_t *b, int op, int buffer)
{
    const int *gradient = b->program->op[op].gradient;

    return (gradient[0] == buffer) + (gradient[1] == buffer);
}

static int uses_of(const pdl__builder_t *b, int buffer)
{
    int uses = 0;

    if (b->status) return 0;
    if (b->waiting >= 0) uses += uses_by(b, b->waiting, buffer);
    for (int k = 0; k < b->left_count; k++) uses += uses_by(b, b->left[k], buffer);
    for (int k = 0; k < b->pending_count; k++) uses += b->pending[k].buffer == buffer;
    return uses;
}

/* Takes one pending gradient of a node. */
static int take(pdl__builder_t *b, int owner)
{
    for (int k = 0; k < b->pending_count; k++)
        if (b->pending[k].owner == owner && b->pending[k].micro_batch == b->micro_batch) {
            int buffer = b->pending[k].buffer;
            memmove(&b->pending[k], &b->pending[k + 1], (size_t)(--b->pending_count - k) * sizeof(*b->pending));
            b->held[owner].contributions--;
            return buffer;
        }
    return -1;
}

/* a + b goes where no other reader waits for what is there. */
static int sum_of(pdl__builder_t *b, int owner, int first, int second)
{
    pdl_program_op_t op = blank(b, PDL_OP_SUM, owner, true);

    op.input[0] = first;
    op.input[1] = second;
    if (uses_of(b, first) == 0)
        op.output = first;
    else if (uses_of(b, second) == 0)
        op.output = second;
    else
        op.output = pdl__program_buffer(b, owner, b->nodes[owner].out_bytes);
    pdl__program_emit(b, &op);
    return op.output;
}

/* A node that passes its gradient on cannot pass two. */
static bool takes_two(const pdl_program_node_t *node)
{
    bool passes = false;

    for (int j = 0; j < node->input_count; j++) passes |= node->gradient[j] == PDL_GRADIENT_PASSED;
    return node->kind == PDL_NODE_COMPUTE && node->sums_gradients && !passes;
}

static void collect_gradients(pdl__builder_t *b, int i, int gradient[2])
{
    int allowed = takes_two(&b->nodes[i]) ? 2 : 1;

    gradient[0] = take(b, i);
    gradient[1] = -1;
    while (b->held[i].contributions > allowed - 1) gradient[0] = sum_of(b, i, gradient[0], take(b, i));
    if (b->held[i].contributions > 0) gradient[1] = take(b, i);
}

/* Where the gradient of input j goes. */
static int gradient_target(pdl__builder_t *b, int i, int j, const int gradient[2], bool *taken)
{
    const pdl_program_node_t *node = &b->nodes[i];
    int                       owner = b->root[node->input[j]];

    if (node->gradient[j] == PDL_GRADIENT_PASSED) {
        assert(gradient[1] < 0);
        return gradient[0];
    }
    if (node->gradient[j] == PDL_GRADIENT_INPLACE && !*taken && gradient[0] >= 0 && uses_of(b, gradient[0]) == 0 &&
        b->nodes[owner].out_bytes == node->out_bytes) {
        *taken = true;
        return gradient[0];
    }
    return pdl__program_buffer(b, owner, b->nodes[owner].out_bytes);
}

static bool passes_to(const pdl__builder_t *b, int from, int to)
{
    const pdl_program_node_t *node = &b->nodes[from];

    for (int j = 0; j < node->input_count; j++)
        if (node->input_gradients >> j & 1 && b->root[node->input[j]] == to) return true;
    return false;
}

static bool has_sums(const pdl_program_node_t *node)
{
    for (int j = 0; j < node->input_count; j++)
        if (node->input_gradients >> j & 1 && node->sum_count[j] > 0) return true;
    return false;
}

/* Whether the gradients of weights may be made after those of inputs, from the same gradient of the output. */
static bool divisible(const pdl__builder_t *b, int i)
{
    for (int j = 0; j < b->nodes[i].input_count; j++)
        if (b->nodes[i].gradient[j] == PDL_GRADIENT_INPLACE) return false;
    return b->nodes[i].divides;
}

/* Whether that overlaps with something in the same pass. */
static bool may_divide(const pdl__builder_t *b, int i)
{
    return b->options->overlap && !b->leaves && divisible(b, i);
}

/* Whether the next thing that happens to what node i makes in backward, but for conversion, is a redistribution. */
static bool precedes_move(const pdl__builder_t *b, int i)
{
    if (!may_divide(b, i) || has_sums(&b->nodes[i])) return false;
    for (int at = i, before = i - 1; before > 0; before--) {
        const pdl_program_node_t *node = &b->nodes[before];
        if (node->kind == PDL_NODE_VIEW) continue;
        if (node->kind == PDL_NODE_SOURCE || !node->backward || node->chunk != b->nodes[i].chunk ||
            !passes_to(b, at, before))
            return false;
        if (count_exchanges(node->move[PDL_BACKWARD], node->move_count[PDL_BACKWARD]) > 0) return true;
        if (node->kind != PDL_NODE_CONVERT) return false;
        at = before;
    }
    return false;
}

/* The weight gradients of an operation that has made those of its inputs. */
static void run_wgrad(pdl__builder_t *b, int dgrad)
{
    if (b->status) return;
    pdl_program_op_t op = b->program->op[dgrad];
    op.kind = PDL_OP_WGRAD;
    for (int j = 0; j < PDL_PROGRAM_INPUTS; j++) op.input_gradient[j] = -1;
    pdl__program_emit(b, &op);
    if (b->nodes[op.node].side != NULL) pdl__program_sides_wgrad(b, &op, b->held[op.node].halo);
}

static void leave_wgrad(pdl__builder_t *b, int dgrad)
{
    if (b->status) return;
    b->status = pdl__program_grow((void **)&b->left, b->left_count, &b->left_capacity, sizeof(*b->left));
    if (!b->status) b->left[b->left_count++] = dgrad;
}

/* The weight gradients that the backward pass of this chunk and micro-batch has left. */
static void weights_pass(pdl__builder_t *b, int chunk)
{
    int kept = 0;

    for (int k = 0; k < b->left_count && !b->status; k++) {
        const pdl_program_op_t *dgrad = &b->program->op[b->left[k]];
        if (dgrad->micro_batch == b->micro_batch && b->nodes[dgrad->node].chunk == chunk)
            run_wgrad(b, b->left[k]);
        else
            b->left[kept++] = b->left[k];
    }
    b->left_count = kept;
}

/* Sums over ranks of the gradients that operation `of` has made of its inputs: the first moves of each, or the rest. */
static void sum_over_ranks(pdl__builder_t *b, int of, bool first, bool rest, int *reached)
{
    const pdl_program_op_t    made = b->program->op[of];
    const pdl_program_node_t *node = &b->nodes[made.node];

    for (int j = 0; j < node->input_count && !b->status; j++) {
        pdl_program_op_t op = blank(b, PDL_OP_REDISTRIBUTE, made.node, true);
        int              count = node->sum_count[j], begin = first ? 0 : 1, end = rest ? count : 1;
        if (made.input_gradient[j] < 0 || count == 0) continue;
        op.sums = j;
        op.input[0] = first ? made.input_gradient[j] : reached[j];
        op.output = made.input_gradient[j];
        reached[j] = emit_moves(b, &op, node->sum[j], count, begin, end);
    }
}

/* Backward of a layer: in one, or the gradients of inputs first where those of weights are made while the others move. */
static void backward_compute(pdl__builder_t *b, const pdl_program_op_t *backward)
{
    const pdl_program_node_t *node = &b->nodes[backward->node];
    pdl_program_op_t          op = *backward;
    bool                      later = b->waiting < 0 && precedes_move(b, op.node);
    bool                      sums = has_sums(node), divided = sums && may_divide(b, op.node);
    bool                      moves = node->side != NULL && op.input_gradient[0] >= 0;
    bool                      left = b->leaves && divisible(b, op.node);
    int                       at, back[2], reached[PDL_PROGRAM_INPUTS];

    op.kind = later || divided || left ? PDL_OP_DGRAD : PDL_OP_BACKWARD;
    if (moves) pdl__program_sides_dgrad(b, &op, back);
    at = b->program->op_count;
    pdl__program_emit(b, &op);
    if (node->side != NULL && node->trains && op.kind == PDL_OP_BACKWARD)
        pdl__program_sides_wgrad(b, &op, b->held[op.node].halo);
    if (moves) pdl__program_sides_add(b, &op, back);
    if (later) b->waiting = at;
    if (left) leave_wgrad(b, at);
    if (!sums || b->status) return;
    sum_over_ranks(b, at, true, !divided, reached);
    if (!divided) return;
    run_wgrad(b, at);
    sum_over_ranks(b, at, false, true, reached);
}

/* Backward of a redistribution. Weight gradients that have waited for it are made while it is in flight. */
static void backward_moves(pdl__builder_t *b, const pdl_program_op_t *backward)
{
    const pdl_program_node_t *node = &b->nodes[backward->node];
    const pdl_program_move_t *moves = node->move[PDL_BACKWARD];
    pdl_program_op_t          op = *backward;
    int                       count = node->move_count[PDL_BACKWARD], first = first_moves(moves, count);

    op.kind = PDL_OP_REDISTRIBUTE;
    op.input[0] = op.gradient[0];
    op.output = op.input_gradient[0];
    op.gradient[0] = op.input_gradient[0] = -1;
    op.input[0] = emit_moves(b, &op, moves, count, 0, first);
    if (b->waiting >= 0 && count_exchanges(moves, count) > 0) {
        run_wgrad(b, b->waiting);
        b->waiting = -1;
    }
    emit_moves(b, &op, moves, count, first, count);
}

/* Backward of what only hands on a tensor, to here or to there. */
static void backward_other(pdl__builder_t *b, const pdl_program_op_t *backward)
{
    const pdl_program_node_t *node = &b->nodes[backward->node];
    pdl_program_op_t          op = *backward;

    op.kind = node->kind == PDL_NODE_CONVERT   ? PDL_OP_CONVERT
              : node->kind == PDL_NODE_RECEIVE ? PDL_OP_SEND
                                               : PDL_OP_RECV;
    if (node->kind != PDL_NODE_CONVERT) op.stream = PDL_STREAM_STAGE;
    if (node->kind == PDL_NODE_RECEIVE) op.bytes = (double)node->out_bytes;
    op.input[0] = op.gradient[0];
    op.output = op.input_gradient[0];
    op.gradient[0] = op.input_gradient[0] = -1;
    pdl__program_emit(b, &op);
}

/* Of a loss whose gradient is there already, ranks may still have to sum it. */
static void hand_on_gradient(pdl__builder_t *b, int i)
{
    int made = b->held[i].forward, reached[PDL_PROGRAM_INPUTS];

    if (b->status) return;
    sum_over_ranks(b, made, true, true, reached);
    contribute(b, b->root[b->nodes[i].input[0]], b->program->op[made].input_gradient[0]);
}

/* A gradient of input 0, made by another reader, that the operation adds to its own as it writes that; -1: none. */
static int gradient_to_add(pdl__builder_t *b, const pdl_program_node_t *node)
{
    int owner = b->root[node->input[0]];

    if (!node->adds_gradient || !(node->input_gradients & 1) || node->sum_count[0] > 0 || node->side != NULL)
        return -1;
    return b->held[owner].contributions > 0 ? take(b, owner) : -1;
}

static void run_backward(pdl__builder_t *b, int i)
{
    const pdl_program_node_t *node = &b->nodes[i];
    pdl_program_op_t          op = blank(b, PDL_OP_BACKWARD, i, true);
    int                       target[PDL_PROGRAM_INPUTS];
    bool                      taken = false;

    if (makes_gradient(b, node)) {
        hand_on_gradient(b, i);
        return;
    }
    if (!node->loss) collect_gradients(b, i, op.gradient);
    if (!node->loss && op.gradient[0] < 0) return; /* nothing that leads to the loss reads it */
    for (int j = 0; j < node->input_count; j++)
        if (node->keeps_inputs >> j & 1) ensure(b, b->root[node->input[j]]);
    if (node->keeps_output || (node->saved_bytes > 0 && !node->from_saved)) ensure(b, i);
    for (int j = 0; j < node->input_count; j++)
        if (node->keeps_inputs >> j & 1) op.input[j] = b->held[b->root[node->input[j]]].value;
    if (node->keeps_output) op.output = b->held[i].value;
    if (node->saved_bytes > 0) op.saved = b->held[i].saved;
    op.workspace = pdl__program_buffer(b, i, node->workspace_bytes);
    for (int j = 0; j < node->input_count; j++)
        if (node->input_gradients >> j & 1) op.input_gradient[j] = gradient_target(b, i, j, op.gradient, &taken);
    memcpy(target, op.input_gradient, sizeof(target));
    if (node->kind == PDL_NODE_COMPUTE && op.gradient[1] < 0) op.gradient[1] = gradient_to_add(b, node);
    if (node->kind == PDL_NODE_COMPUTE)
        backward_compute(b, &op);
    else if (node->kind == PDL_NODE_REDISTRIBUTE)
        backward_moves(b, &op);
    else
        backward_other(b, &op);
    for (int j = 0; j < node->input_count; j++)
        if (node->input_gradients >> j & 1) contribute(b, b->root[node->input[j]], target[j]);
}

/* What does not change between micro-batches: who owns storage, who reads it last, what backward needs. */
static void study_nodes(pdl__builder_t *b, bool training)
{
    for (int i = 0; i < b->node_count; i++) {
        const pdl_program_node_t *node = &b->nodes[i];
        b->root[i] = node->kind == PDL_NODE_VIEW ? b->root[node->input[0]] : i;
        b->last_reader[i] = i;
        for (int j = 0; j < node->input_count; j++) {
            int owner = b->root[node->input[j]];
            if (node->kind != PDL_NODE_VIEW) b->last_reader[owner] = i;
            /* Making it again reads its inputs again. */
            if (training && node->backward && (node->keeps_inputs >> j & 1 || node->recompute))
                b->kept[owner] = true;
        }
        if (training && node->backward && node->keeps_output) b->kept[b->root[i]] = true;
    }
}

static void backward_pass(pdl__builder_t *b, int chunk)
{
    b->block = -1;
    for (int i = b->node_count - 1; i >= 0 && !b->status; i--) {
        const pdl_program_node_t *node = &b->nodes[i];
        if (!node->backward || !computes(b, i, chunk)) continue;
        pdl__program_enter_block(b, i, true);
        run_backward(b, i);
    }
}

static void run_pass(pdl__builder_t *b, const pdl_program_pass_t *pass)
{
    b->micro_batch = pass->micro_batch;
    b->held = b->all_held + (size_t)pass->micro_batch * (size_t)b->node_count;
    b->leaves = pass->gradients == PDL_GRADIENTS_OF_INPUTS;
    if (pass->gradients == PDL_GRADIENTS_OF_WEIGHTS)
        weights_pass(b, pass->chunk);
    else if (pass->backward)
        backward_pass(b, pass->chunk);
    else
        forward_pass(b, pass->chunk);
}

void pdl__program_order(pdl__builder_t *b)
{
    const pdl_program_options_t *options = b->options;

    study_nodes(b, options->training);
    for (int k = 0; options->order && k < options->order_count && !b->status; k++) run_pass(b, &options->order[k]);
    for (int m = 0; !options->order && m < options->micro_batches && !b->status; m++) {
        run_pass(b, &(pdl_program_pass_t){.micro_batch = m});
        if (options->training && !b->status) run_pass(b, &(pdl_program_pass_t){.backward = true, .micro_batch = m});
    }
}
