/*
 * Building a program: passes forward and backward in the order given, with a number for every buffer. A buffer lives
 * from the first operation that names it to the last, so keeping a tensor for backward needs no bookkeeping of
 * its own: backward names it.
 */
#include "program/builder.h"
#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static pdl_status_t no_memory(void)
{
    return pdl_error(PDL_ERR_NOMEM, "out of memory while building the program of a rank");
}

static pdl_status_t grow(void **array, int count, int *capacity, size_t item)
{
    if (count < *capacity) return PDL_OK;
    int   wanted = *capacity ? 2 * *capacity : 256;
    void *grown = realloc(*array, (size_t)wanted * item);
    if (!grown) return no_memory();
    *array = grown;
    *capacity = wanted;
    return PDL_OK;
}

/* A new buffer, or -1 where nothing is to be stored or memory is out (then the builder's status says so). */
static int new_buffer(pdl__builder_t *b, int node, size_t bytes)
{
    pdl_program_t *program = b->program;

    if (bytes == 0 || b->status) return -1;
    b->status =
        grow((void **)&program->buffer, program->buffer_count, &b->buffer_capacity, sizeof(*program->buffer));
    if (b->status) return -1;
    program->buffer[program->buffer_count] =
        (pdl_program_buffer_t){.bytes = bytes, .first = -1, .last = -1, .node = node};
    return program->buffer_count++;
}

static void touch(pdl__builder_t *b, int buffer)
{
    if (buffer < 0) return;
    pdl_program_buffer_t *entry = &b->program->buffer[buffer];
    int                   now = b->program->op_count - 1;
    if (entry->first < 0) entry->first = now;
    entry->last = now;
}

static void emit(pdl__builder_t *b, const pdl_program_op_t *op)
{
    pdl_program_t *program = b->program;

    if (b->status) return;
    b->status = grow((void **)&program->op, program->op_count, &b->op_capacity, sizeof(*program->op));
    if (b->status) return;
    program->op[program->op_count++] = *op;
    for (int i = 0; i < PDL_PROGRAM_INPUTS; i++) {
        touch(b, op->input[i]);
        touch(b, op->input_gradient[i]);
    }
    touch(b, op->output);
    touch(b, op->saved);
    touch(b, op->workspace);
    touch(b, op->gradient[0]);
    touch(b, op->gradient[1]);
}

static pdl_program_op_t blank(const pdl__builder_t *b, pdl_op_kind_t kind, int node)
{
    pdl_program_op_t op = {.kind = kind, .node = node, .micro_batch = b->micro_batch};

    op.output = op.saved = op.workspace = op.gradient[0] = op.gradient[1] = -1;
    for (int i = 0; i < PDL_PROGRAM_INPUTS; i++) op.input[i] = op.input_gradient[i] = -1;
    return op;
}

/* The output may take the place of input 0 when nobody reads that again. */
static bool takes_input(const pdl__builder_t *b, int i)
{
    const pdl_program_node_t *node = &b->nodes[i];

    if (!node->inplace || node->input_count == 0 || node->recompute) return false;
    int owner = b->root[node->input[0]];
    for (int j = 1; j < node->input_count; j++)
        if (b->root[node->input[j]] == owner) return false;
    return !b->kept[owner] && !b->nodes[owner].source && !b->nodes[owner].recompute && b->last_reader[owner] == i &&
           b->nodes[owner].out_bytes == node->out_bytes;
}

static void run_forward(pdl__builder_t *b, int i, bool again, bool partly)
{
    const pdl_program_node_t *node = &b->nodes[i];
    pdl_program_op_t          op = blank(b, PDL_OP_FORWARD, i);

    op.again = again;
    op.partly = partly;
    for (int j = 0; j < node->input_count; j++) op.input[j] = b->held[b->root[node->input[j]]].value;
    op.output = !again && takes_input(b, i) ? op.input[0] : new_buffer(b, i, node->out_bytes);
    op.saved = new_buffer(b, i, node->saved_bytes);
    op.workspace = new_buffer(b, i, node->workspace_bytes);
    b->held[i] = (pdl__held_t){op.output, op.saved, b->held[i].contributions, true};
    emit(b, &op);
}

/* A micro-batch into the sources among the nodes of a chunk. */
static void load_sources(pdl__builder_t *b, int chunk)
{
    pdl_program_op_t load = blank(b, PDL_OP_LOAD, -1);
    int              sources = 0;

    for (int i = 0; i < b->node_count; i++) {
        if (!b->nodes[i].source || b->nodes[i].chunk != chunk) continue;
        b->held[i].value = new_buffer(b, i, b->nodes[i].out_bytes);
        b->held[i].there = true;
        if (sources < PDL_PROGRAM_INPUTS) load.input[sources++] = b->held[i].value;
    }
    if (sources > 0) emit(b, &load);
}

static bool computes(const pdl__builder_t *b, int i, int chunk)
{
    return !b->nodes[i].source && !b->nodes[i].view && b->nodes[i].chunk == chunk;
}

/* What an operation has left to be done, now. */
static void run_rest(pdl__builder_t *b, int index)
{
    if (b->status) return;
    pdl_program_op_t op = b->program->op[index];
    op.kind = op.kind == PDL_OP_FORWARD ? PDL_OP_FORWARD_REST : PDL_OP_BACKWARD_REST;
    op.partly = false;
    emit(b, &op);
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

/* Starts the moves whose turn it is; `next` is the first that has not been started. */
static int start_moves(pdl__builder_t *b, int next, int done, int chunk)
{
    for (; next < b->node_count && !b->status; next++) {
        if (next <= done || !computes(b, next, chunk) || !(b->nodes[next].moves & PDL_PROGRAM_THERE)) continue;
        if (b->nodes[next].stepwise || !may_start(b, next, done, chunk)) break;
        b->begun[next] = b->program->op_count;
        run_forward(b, next, false, true);
    }
    return next;
}

static void forward_pass(pdl__builder_t *b, int chunk)
{
    int next = 0;

    load_sources(b, chunk);
    for (int i = 0; i < b->node_count; i++) b->begun[i] = -1;
    for (int i = 0; i < b->node_count && !b->status; i++) {
        if (b->begun[i] >= 0)
            run_rest(b, b->begun[i]);
        else if (computes(b, i, chunk))
            run_forward(b, i, false, false);
        next = start_moves(b, next, i, chunk);
    }
    /* What is to be made again is not there any more. */
    for (int i = 0; i < b->node_count; i++)
        if (b->nodes[i].recompute && b->nodes[i].chunk == chunk) b->held[i].there = false;
}

/* Makes the output and saved state of a node available to backward. */
static void ensure(pdl__builder_t *b, int owner)
{
    if (b->held[owner].there || b->status) return;
    const pdl_program_node_t *node = &b->nodes[owner];
    for (int j = 0; j < node->input_count; j++) ensure(b, b->root[node->input[j]]);
    run_forward(b, owner, true, false);
}

static void contribute(pdl__builder_t *b, int owner, int buffer)
{
    if (b->status) return;
    b->status = grow((void **)&b->pending, b->pending_count, &b->pending_capacity, sizeof(*b->pending));
    if (b->status) return;
    b->pending[b->pending_count++] = (pdl__pending_t){owner, b->micro_batch, buffer};
    b->held[owner].contributions++;
}

static int uses_of(const pdl__builder_t *b, int buffer)
{
    int uses = 0;

    if (b->waiting >= 0 && !b->status) {
        const pdl_program_op_t *op = &b->program->op[b->waiting];
        uses += (op->gradient[0] == buffer) + (op->gradient[1] == buffer);
    }
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
    pdl_program_op_t op = blank(b, PDL_OP_SUM, owner);

    op.gradient[0] = first;
    op.gradient[1] = second;
    if (uses_of(b, first) == 0)
        op.output = first;
    else if (uses_of(b, second) == 0)
        op.output = second;
    else
        op.output = new_buffer(b, owner, b->nodes[owner].out_bytes);
    emit(b, &op);
    return op.output;
}

/* A node that passes its gradient on cannot pass two. */
static bool takes_two(const pdl_program_node_t *node)
{
    bool passes = false;

    for (int j = 0; j < node->input_count; j++) passes |= node->gradient[j] == PDL_GRADIENT_PASSED;
    return node->sums_gradients && !passes;
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
    return new_buffer(b, owner, b->nodes[owner].out_bytes);
}

static bool passes_to(const pdl__builder_t *b, int from, int to)
{
    const pdl_program_node_t *node = &b->nodes[from];

    for (int j = 0; j < node->input_count; j++)
        if (node->input_gradients >> j & 1 && b->root[node->input[j]] == to) return true;
    return false;
}

/* Whether the next thing that happens to what node i makes in backward, but for rearrangement, is a move. */
static bool precedes_move(const pdl__builder_t *b, int i)
{
    for (int j = 0; j < b->nodes[i].input_count; j++)
        if (b->nodes[i].gradient[j] == PDL_GRADIENT_INPLACE) return false;
    for (int at = i, before = i - 1; b->nodes[i].divides && before > 0; before--) {
        const pdl_program_node_t *node = &b->nodes[before];
        if (node->view) continue;
        if (node->source || !node->backward || node->chunk != b->nodes[i].chunk || !passes_to(b, at, before))
            return false;
        if (node->moves & PDL_PROGRAM_BACK) return true;
        if (!node->rearranges) return false;
        at = before;
    }
    return false;
}

static void call_done(pdl__builder_t *b, int i)
{
    pdl_program_op_t op = blank(b, PDL_OP_GRADIENT_DONE, i);

    if (b->last) emit(b, &op);
}

/* What is left of the operation just emitted. A move is under way while the weight gradients that waited for it are made. */
static void end_backward(pdl__builder_t *b, int i, bool divided, bool started)
{
    int latest = b->program->op_count - 1;

    if (b->status) return;
    if (divided) {
        b->waiting = latest;
        return;
    }
    if (started) {
        run_rest(b, b->waiting);
        call_done(b, b->program->op[b->waiting].node);
        b->waiting = -1;
        run_rest(b, latest);
    }
    call_done(b, i);
}

static void run_backward(pdl__builder_t *b, int i)
{
    const pdl_program_node_t *node = &b->nodes[i];
    pdl_program_op_t          op = blank(b, PDL_OP_BACKWARD, i);
    bool                      taken = false, started = b->waiting >= 0 && node->moves & PDL_PROGRAM_BACK;
    bool                      divided = b->waiting < 0 && precedes_move(b, i);

    if (!node->loss) collect_gradients(b, i, op.gradient);
    if (!node->loss && op.gradient[0] < 0) return; /* nothing that leads to the loss reads it */
    for (int j = 0; j < node->input_count; j++)
        if (node->keeps_inputs >> j & 1) ensure(b, b->root[node->input[j]]);
    if (node->keeps_output || node->saved_bytes > 0) ensure(b, i);
    for (int j = 0; j < node->input_count; j++)
        if (node->keeps_inputs >> j & 1) op.input[j] = b->held[b->root[node->input[j]]].value;
    if (node->keeps_output) op.output = b->held[i].value;
    op.saved = b->held[i].saved;
    op.workspace = new_buffer(b, i, node->workspace_bytes);
    for (int j = 0; j < node->input_count; j++)
        if (node->input_gradients >> j & 1) op.input_gradient[j] = gradient_target(b, i, j, op.gradient, &taken);
    op.partly = divided || started;
    emit(b, &op);
    for (int j = 0; j < node->input_count; j++)
        if (node->input_gradients >> j & 1) contribute(b, b->root[node->input[j]], op.input_gradient[j]);
    end_backward(b, i, divided, started);
}

/* What does not change between micro-batches: who owns storage, who reads it last, what backward needs. */
static void study_nodes(pdl__builder_t *b, bool training)
{
    for (int i = 0; i < b->node_count; i++) {
        const pdl_program_node_t *node = &b->nodes[i];
        b->root[i] = node->view ? b->root[node->input[0]] : i;
        b->last_reader[i] = i;
        for (int j = 0; j < node->input_count; j++) {
            int owner = b->root[node->input[j]];
            if (!node->view) b->last_reader[owner] = i;
            /* Making it again reads its inputs again. */
            if (training && node->backward && (node->keeps_inputs >> j & 1 || node->recompute))
                b->kept[owner] = true;
        }
        if (training && node->backward && node->keeps_output) b->kept[b->root[i]] = true;
    }
}

static void backward_pass(pdl__builder_t *b, int chunk)
{
    for (int i = b->node_count - 1; i >= 0 && !b->status; i--) {
        const pdl_program_node_t *node = &b->nodes[i];
        if (node->backward && !node->view && !node->source && node->chunk == chunk) run_backward(b, i);
    }
}

static void run_pass(pdl__builder_t *b, const pdl_program_pass_t *pass, bool last)
{
    b->micro_batch = pass->micro_batch;
    b->held = b->all_held + (size_t)pass->micro_batch * (size_t)b->node_count;
    b->last = last;
    if (pass->backward)
        backward_pass(b, pass->chunk);
    else
        forward_pass(b, pass->chunk);
}

/* Whether no backward pass of the chunk of pass k follows it. */
static bool is_last(const pdl_program_options_t *options, int k)
{
    for (int i = k + 1; i < options->order_count; i++)
        if (options->order[i].backward && options->order[i].chunk == options->order[k].chunk) return false;
    return true;
}

static void run_passes(pdl__builder_t *b, const pdl_program_options_t *options)
{
    for (int k = 0; options->order && k < options->order_count && !b->status; k++)
        run_pass(b, &options->order[k], is_last(options, k));
    for (int m = 0; !options->order && m < options->micro_batches && !b->status; m++) {
        run_pass(b, &(pdl_program_pass_t){.micro_batch = m}, false);
        if (options->training && !b->status)
            run_pass(b, &(pdl_program_pass_t){.backward = true, .micro_batch = m}, m + 1 == options->micro_batches);
    }
}

static pdl_status_t create_builder(pdl__builder_t *b, int count, int micro_batches)
{
    size_t n = (size_t)count;

    b->root = calloc(n, 3 * sizeof(int) + sizeof(bool));
    b->all_held = calloc(n * (size_t)micro_batches + 1, sizeof(*b->all_held));
    if (!b->root || !b->all_held) return no_memory();
    b->last_reader = b->root + n;
    b->begun = b->last_reader + n;
    b->kept = (bool *)(b->begun + n);
    b->waiting = -1;
    return PDL_OK;
}

static pdl_status_t most_alive(const pdl_program_t *program, size_t *most)
{
    size_t *change = calloc((size_t)program->op_count + 1, 2 * sizeof(*change)), *ends = change, alive = 0;

    *most = 0;
    if (!change) return no_memory();
    ends += program->op_count + 1;
    for (int k = 0; k < program->buffer_count; k++) {
        if (program->buffer[k].first < 0) continue;
        change[program->buffer[k].first] += program->buffer[k].bytes;
        ends[program->buffer[k].last] += program->buffer[k].bytes;
    }
    for (int i = 0; i < program->op_count; i++) {
        alive += change[i];
        if (alive > *most) *most = alive;
        alive -= ends[i];
    }
    free(change);
    return PDL_OK;
}

#define ALIGNMENT 64

/* Whether block `k` of `count` buffers is the one before it once more: as large, and alive after it. */
static bool repeats(const pdl_program_buffer_t *buffers, int count, int k)
{
    const pdl_program_buffer_t *block = buffers + (size_t)k * (size_t)count, *before = block - count;
    int                         end = -1, begin = INT_MAX;

    for (int i = 0; i < count; i++) {
        if (block[i].bytes != before[i].bytes) return false;
        if (before[i].last > end) end = before[i].last;
        if (block[i].first < begin) begin = block[i].first;
    }
    return end < begin;
}

static bool alive_together(const pdl_program_buffer_t *a, const pdl_program_buffer_t *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Whether two buffers of a block that are alive together share memory. */
static bool collides(const pdl_program_buffer_t *block, int count)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            if (block[i].offset < block[j].offset + block[j].bytes &&
                block[j].offset < block[i].offset + block[i].bytes && alive_together(&block[i], &block[j]))
                return true;
    return false;
}

/* Micro-batches, unless a pipeline has several on their way, need the same buffers one after the other. Those are placed
   once, for placing takes a time that grows with the square of their number. */
static pdl_status_t place_buffers(pdl_program_t *program, int micro_batches)
{
    pdl_program_buffer_t *buffers = program->buffer;
    int                   count = program->buffer_count / micro_batches;
    bool                  same = micro_batches > 1 && program->buffer_count % micro_batches == 0;
    pdl_status_t          status = PDL_OK;

    for (int k = 1; k < micro_batches && same; k++) same = repeats(buffers, count, k);
    if (same) status = pdl_colour_intervals(buffers, count, ALIGNMENT, &program->arena_bytes);
    for (int k = 1; k < micro_batches && same && !status; k++) {
        pdl_program_buffer_t *block = buffers + (size_t)k * (size_t)count;
        for (int i = 0; i < count; i++) block[i].offset = buffers[i].offset;
        same = !collides(block, count);
    }
    if (same || status) return status;
    return pdl_colour_intervals(buffers, program->buffer_count, ALIGNMENT, &program->arena_bytes);
}

pdl_status_t pdl_program_create(const pdl_program_node_t *nodes, int node_count,
                                const pdl_program_options_t *options, pdl_program_t **out)
{
    pdl__builder_t b = {.nodes = nodes, .node_count = node_count};

    if (node_count < 1) return pdl_error(PDL_ERR_INPUT, "a program needs at least one layer");
    b.program = calloc(1, sizeof(*b.program));
    b.status = b.program ? create_builder(&b, node_count, options->micro_batches) : no_memory();
    if (!b.status) study_nodes(&b, options->training);
    if (!b.status) run_passes(&b, options);
    free(b.root);
    free(b.all_held);
    free(b.pending);
    if (!b.status) b.status = place_buffers(b.program, options->order ? 1 : options->micro_batches);
    if (!b.status) b.status = most_alive(b.program, &b.program->live_bytes);
    if (b.status) {
        pdl_program_destroy(b.program);
        return b.status;
    }
    *out = b.program;
    return PDL_OK;
}

void pdl_program_destroy(pdl_program_t *program)
{
    if (!program) return;
    free(program->op);
    free(program->buffer);
    free(program);
}
