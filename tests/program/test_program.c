/*
 * Programs of random graphs, executed on a memory of cells: every operation finds in its buffers exactly what should be
 * there, so nothing that is still needed was overwritten, nothing was read before it had come, and every gradient counts
 * every path once. What communicates writes when it is waited for, and what it reads must have stayed until then.
 */
#include "random.h"
#include "test.h"
#include <math.h>
#include <paradl/plan/pipeline.h>
#include <paradl/program/program.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NODES 40
#define MAX_MOVES 4
#define CELL      64

static int below(int limit)
{
    return (int)between(0, limit - 1);
}

/* What a buffer holds: which value of which node, the sum of gradients that came over so many paths, the bucket to which so
   many gradients have been added, or nothing that may be read. */
typedef enum content {
    NOTHING,
    VALUE,
    SAVED,
    GRADIENT,
    SCRATCH,
    MOVED,
    IN_FLIGHT,
    PIECE,
    WHOLE_GRADIENTS,
    WHOLE_WEIGHTS
} content_t;
typedef struct cell {
    content_t kind;
    int       node, micro_batch; /* of a bucket: its number, and 0 */
    double    paths;             /* GRADIENT: the sum of what its readers passed back; MOVED: the move */
    int       writer;            /* operation */
} cell_t;

#define NOT_SUMMED 0.5    /* a gradient that is a part of a sum over ranks */
#define NOT_ADDED  0.0625 /* one to which the rows of a side have not been added */

typedef struct graph {
    pdl_program_node_t   nodes[MAX_NODES];
    pdl_program_move_t   moves[MAX_NODES][PDL_DIRECTIONS][MAX_MOVES];
    pdl_program_side_t   sides[MAX_NODES][2];
    int                  count;
    int                  first_use[MAX_NODES + 1], use[2 * MAX_NODES], weights;
    pdl_program_bucket_t bucket[MAX_NODES];
    pdl_program_update_t update;
} graph_t;

typedef struct machine {
    const graph_t            *graph;
    const pdl_program_node_t *nodes;
    const pdl_program_t      *program;
    cell_t                   *cells;
    double                    expected[MAX_NODES]; /* gradient of each node's output: number of paths to the loss */
    int                       root[MAX_NODES];
    int                       made[MAX_NODES];      /* micro-batches whose weight gradients have been computed */
    bool                      written[MAX_NODES];   /* per weight */
    int                       added[MAX_NODES];     /* per weight: gradients */
    int                       exchanged[MAX_NODES]; /* per bucket: gradients in sums that have come */
    bool                     *pending;              /* per operation: in flight */
    cell_t                   *source;               /* per operation in flight: what it read */
    bool                      updated;
    int                       now; /* the operation at hand */
} machine_t;

static void write_cells(machine_t *m, int buffer, cell_t content)
{
    if (buffer < 0) return;
    content.writer = m->now;
    const pdl_program_buffer_t *b = &m->program->buffer[buffer];
    for (size_t c = b->offset / CELL; c < (b->offset + b->bytes + CELL - 1) / CELL; c++) m->cells[c] = content;
}

static bool holds(const machine_t *m, int buffer, cell_t content)
{
    if (buffer < 0) return false;
    const pdl_program_buffer_t *b = &m->program->buffer[buffer];
    for (size_t c = b->offset / CELL; c < (b->offset + b->bytes + CELL - 1) / CELL; c++) {
        const cell_t *cell = &m->cells[c];
        if (cell->kind != content.kind || cell->node != content.node || cell->micro_batch != content.micro_batch)
            return false;
    }
    return true;
}

static cell_t cell_at(const machine_t *m, int buffer)
{
    return m->cells[m->program->buffer[buffer].offset / CELL];
}

static double paths_in(const machine_t *m, int buffer)
{
    if (buffer < 0) return 0;
    cell_t cell = cell_at(m, buffer);
    return cell.kind == GRADIENT ? cell.paths : NAN;
}

static bool same(cell_t a, cell_t b)
{
    return a.kind == b.kind && a.node == b.node && a.micro_batch == b.micro_batch && a.paths == b.paths &&
           a.writer == b.writer;
}

/* The weights of a node that come and go with their buckets: they are among what the operation names. */
static bool finds_buckets(machine_t *m, const pdl_program_op_t *op, bool gradients)
{
    const graph_t *g = m->graph;

    for (int k = g->first_use[op->node]; k < g->first_use[op->node + 1] && g->update.bucket; k++) {
        int  bucket = -1;
        bool found = false;
        for (int b = 0; b < g->update.bucket_count; b++)
            if (g->use[k] >= g->bucket[b].first && g->use[k] < g->bucket[b].last) bucket = b;
        bool passes = bucket >= 0 && g->bucket[bucket].sharded &&
                      g->update.sharding >= (gradients ? PDL_SHARDING_ZERO2 : PDL_SHARDING_ZERO3);
        for (int w = 0; w < op->whole_count && passes; w++) {
            int    buffer = m->program->whole[op->first_whole + w];
            cell_t cell = cell_at(m, buffer);
            if (m->program->buffer[buffer].bucket != bucket || m->program->buffer[buffer].weights == gradients)
                continue;
            found = holds(m, buffer, (cell_t){gradients ? WHOLE_GRADIENTS : WHOLE_WEIGHTS, bucket, 0, 0, 0});
            if (!gradients) continue;
            cell.paths++;
            write_cells(m, buffer, cell);
        }
        if (passes && !found) return false;
    }
    return true;
}

/* Gradients of weights are made: once a micro-batch, and added to what is there. */
static bool make_weights(machine_t *m, const pdl_program_op_t *op)
{
    const graph_t *g = m->graph;
    bool           adds = false;

    m->made[op->node]++;
    if (!g->update.use) return !op->adds;
    if (m->updated || !finds_buckets(m, op, true)) return false;
    for (int k = g->first_use[op->node]; k < g->first_use[op->node + 1]; k++) adds |= m->written[g->use[k]];
    for (int k = g->first_use[op->node]; k < g->first_use[op->node + 1]; k++) {
        m->written[g->use[k]] = true;
        m->added[g->use[k]]++;
    }
    return adds == op->adds;
}

/* Rows at the boundary of a convolution: pieces of what is there. */
static cell_t piece_of(const pdl_program_op_t *op)
{
    return (cell_t){PIECE, op->node, op->micro_batch, op->part, 0};
}

static bool is_piece(const machine_t *m, int buffer, const pdl_program_op_t *op)
{
    return buffer >= 0 && holds(m, buffer, piece_of(op)) && cell_at(m, buffer).paths == op->part;
}

/* From a tensor to a piece, or back into the tensor, which stays what it is but for gradients that have been added. */
static bool copy_boxes(machine_t *m, const pdl_program_op_t *op)
{
    bool   tensor = op->boxes != PDL_BOXES_HALO, back = op->reverse && tensor;
    int    at = back ? op->output : op->input[0];
    int    owner = op->boxes == PDL_BOXES_BORDER ? op->node : m->root[m->nodes[op->node].input[0]];
    cell_t found = at < 0 ? piece_of(op) : cell_at(m, at);
    bool   right =
        at < 0 || (tensor ? found.kind == GRADIENT || holds(m, at, (cell_t){VALUE, owner, op->micro_batch, 0, 0})
                          : is_piece(m, at, op));

    if (back) right &= is_piece(m, op->input[0], op);
    if (back && found.kind == GRADIENT) found.paths -= NOT_ADDED;
    write_cells(m, op->output, back ? found : piece_of(op));
    return right;
}

/* On the strip of a side. */
static bool compute_side(machine_t *m, const pdl_program_op_t *op)
{
    bool backward = op->kind == PDL_OP_DGRAD || op->kind == PDL_OP_WGRAD;
    bool right = op->kind == PDL_OP_DGRAD || is_piece(m, op->input[0], op);

    for (int g = 0; g < 2; g++) right &= op->gradient[g] < 0 || is_piece(m, op->gradient[g], op);
    if (backward) right &= op->output < 0 || is_piece(m, op->output, op);
    write_cells(m, op->workspace, (cell_t){SCRATCH, op->node, op->micro_batch, 0, 0});
    write_cells(m, backward ? op->input_gradient[0] : op->output, piece_of(op));
    if (op->kind == PDL_OP_WGRAD) {
        m->made[op->node]--; /* counted with the interior */
        right &= make_weights(m, op);
    }
    return right && finds_buckets(m, op, false);
}

static bool has_sum(const pdl_program_node_t *node, int j)
{
    return node->kind == PDL_NODE_COMPUTE && node->sum_count[j] > 0;
}

static int over_input; /* gradients that a loss has made over its input, in all trials */

static bool forward(machine_t *m, const pdl_program_op_t *op)
{
    const pdl_program_node_t *node = &m->nodes[op->node];

    for (int j = 0; j < node->input_count; j++)
        if (!holds(m, op->input[j], (cell_t){VALUE, m->root[node->input[j]], op->micro_batch, 0, 0})) return false;
    if (op->kind == PDL_OP_SEND) return true;
    if (node->kind == PDL_NODE_COMPUTE && !finds_buckets(m, op, false)) return false;
    write_cells(m, op->workspace, (cell_t){SCRATCH, op->node, op->micro_batch, 0, 0});
    write_cells(m, op->output, (cell_t){VALUE, op->node, op->micro_batch, 0, 0});
    write_cells(m, op->saved, (cell_t){SAVED, op->node, op->micro_batch, 0, 0});
    if (op->input_gradient[0] < 0) return true;
    over_input += op->input_gradient[0] == op->input[0];
    write_cells(m, op->input_gradient[0],
                (cell_t){GRADIENT, -1, op->micro_batch, 1 + (has_sum(node, 0) ? NOT_SUMMED : 0), 0});
    return node->gradient_in_forward;
}

/* Sides whose rows come back and are added to the gradient. */
static int gives(const pdl_program_node_t *node, int j)
{
    int sides = 0;

    for (int k = 0; node->side != NULL && j == 0 && k < 2; k++)
        sides += node->side[k].move[0].group && node->side[k].gives;
    return sides;
}

/* A gradient belongs to whichever nodes wait for it, so only its paths are looked at. */
static bool backward(machine_t *m, const pdl_program_op_t *op)
{
    const pdl_program_node_t *node = &m->nodes[op->node];
    double                    paths = node->loss ? 1 : paths_in(m, op->gradient[0]);

    if (op->gradient[1] >= 0) paths += paths_in(m, op->gradient[1]);
    if (paths != m->expected[op->node] || (op->gradient[1] >= 0 && !node->sums_gradients)) return false;
    if (op->kind == PDL_OP_DGRAD && !node->divides) return false;
    for (int j = 0; j < node->input_count; j++)
        if (node->keeps_inputs >> j & 1 &&
            !holds(m, op->input[j], (cell_t){VALUE, m->root[node->input[j]], op->micro_batch, 0, 0}))
            return false;
    if (node->keeps_output && !holds(m, op->output, (cell_t){VALUE, op->node, op->micro_batch, 0, 0})) return false;
    if (node->saved_bytes && !holds(m, op->saved, (cell_t){SAVED, op->node, op->micro_batch, 0, 0})) return false;
    if (!finds_buckets(m, op, false)) return false;
    cell_t scratch = {SCRATCH, op->node, op->micro_batch, 0, 0};
    if (op->kind == PDL_OP_WGRAD && op->workspace >= 0 && !holds(m, op->workspace, scratch)) return false;
    write_cells(m, op->workspace, scratch);
    if (op->kind != PDL_OP_DGRAD && !make_weights(m, op)) return false;
    for (int j = 0; j < node->input_count && op->kind != PDL_OP_WGRAD; j++) {
        if (!(node->input_gradients >> j & 1)) continue;
        if (op->input_gradient[j] < 0) return false;
        write_cells(m, op->input_gradient[j],
                    (cell_t){GRADIENT, -1, op->micro_batch,
                             paths + (has_sum(node, j) ? NOT_SUMMED : 0) + gives(node, j) * NOT_ADDED, 0});
    }
    return true;
}

/* What an operation that communicates leaves; `found` is what it read. */
static cell_t result_of(const machine_t *m, const pdl_program_op_t *op, cell_t found)
{
    const pdl_program_node_t *node = op->node < 0 ? NULL : &m->nodes[op->node];

    if (op->kind == PDL_OP_COLLECTIVE)
        return op->role == PDL_ROLE_WEIGHTS ? (cell_t){WHOLE_WEIGHTS, op->bucket, 0, 0, 0} : found;
    if (op->part > 0) return piece_of(op);
    if (op->kind == PDL_OP_RECV)
        return op->backward ? (cell_t){GRADIENT, -1, op->micro_batch, 1, 0}
                            : (cell_t){VALUE, op->node, op->micro_batch, 0, 0};
    bool summed = op->sums >= 0 && op->move + 1 < node->sum_count[op->sums];
    if (op->backward)
        return (cell_t){GRADIENT, -1, op->micro_batch, m->expected[op->node] + (summed ? NOT_SUMMED : 0), 0};
    if (op->move + 1 < node->move_count[PDL_FORWARD])
        return (cell_t){MOVED, op->node, op->micro_batch, op->move, 0};
    return (cell_t){VALUE, op->node, op->micro_batch, 0, 0};
}

static int overlapped; /* operations between the issue of a redistribution and the wait for it, in all trials */

/* Something that communicates begins: it reads, and nobody may look at what it writes. */
static bool issue(machine_t *m, int i)
{
    const pdl_program_op_t   *op = &m->program->op[i];
    const pdl_program_node_t *node = op->node < 0 ? NULL : &m->nodes[op->node];

    if (op->input[0] >= 0) m->source[i] = cell_at(m, op->input[0]);
    if (op->part > 0 && op->input[0] >= 0 && !is_piece(m, op->input[0], op)) return false;
    if (op->kind == PDL_OP_REDISTRIBUTE && !op->backward && op->part == 0) {
        cell_t wanted = {VALUE, m->root[node->input[0]], op->micro_batch, 0, 0};
        if (op->move > 0) wanted = (cell_t){MOVED, op->node, op->micro_batch, op->move - 1, 0};
        if (op->input[0] >= 0 ? !holds(m, op->input[0], wanted) : op->move == 0) return false;
    }
    if (op->kind == PDL_OP_REDISTRIBUTE && op->backward && op->part == 0) {
        double paths = m->expected[op->node] + (op->sums >= 0 ? NOT_SUMMED : 0);
        if (op->input[0] >= 0 ? paths_in(m, op->input[0]) != paths : op->move == 0) return false;
    }
    if (op->kind == PDL_OP_COLLECTIVE && op->input[0] >= 0 && m->source[i].kind != WHOLE_GRADIENTS) return false;
    m->pending[i] = true;
    if (op->output != op->input[0]) write_cells(m, op->output, (cell_t){IN_FLIGHT, i, 0, 0, 0});
    return true;
}

static bool complete(machine_t *m, int i)
{
    const pdl_program_op_t *op = &m->program->op[i];
    const graph_t          *g = m->graph;

    if (!m->pending[i]) return false;
    m->pending[i] = false;
    if (op->input[0] >= 0 && !same(cell_at(m, op->input[0]), m->source[i])) return false;
    if (op->output >= 0 && op->output != op->input[0] && !holds(m, op->output, (cell_t){IN_FLIGHT, i, 0, 0, 0}))
        return false;
    if (op->kind == PDL_OP_COLLECTIVE && op->role == PDL_ROLE_GRADIENTS && op->output < 0)
        for (int k = g->bucket[op->bucket].first; k < g->bucket[op->bucket].last; k++)
            m->exchanged[op->bucket] += m->added[k];
    write_cells(m, op->output, result_of(m, op, m->source[i]));
    return true;
}

/* All gradients of all buckets are in the sums. */
static bool update(machine_t *m)
{
    const graph_t *g = m->graph;

    for (int b = 0; b < g->update.bucket_count; b++) {
        int added = 0;
        for (int k = g->bucket[b].first; k < g->bucket[b].last; k++) added += m->added[k];
        if (added != m->exchanged[b]) return false;
    }
    for (int i = 0; i < m->program->op_count; i++)
        if (m->pending[i]) return false;
    m->updated = true;
    return true;
}

/* Buckets are cleared, or what has come is kept. */
static bool handle_bucket(machine_t *m, const pdl_program_op_t *op)
{
    if (op->output >= 0) {
        write_cells(m, op->output, (cell_t){WHOLE_GRADIENTS, op->bucket, 0, 0, 0});
        for (int k = m->graph->bucket[op->bucket].first; k < m->graph->bucket[op->bucket].last; k++)
            m->written[k] = false;
        return true;
    }
    if (!holds(m, op->input[0], (cell_t){WHOLE_GRADIENTS, op->bucket, 0, 0, 0})) return false;
    if ((op->kind == PDL_OP_SUM) != (m->exchanged[op->bucket] > 0)) return false;
    m->exchanged[op->bucket] += (int)cell_at(m, op->input[0]).paths;
    return true;
}

static bool execute_one(machine_t *m, int i)
{
    const pdl_program_op_t *op = &m->program->op[i];

    if (op->part > 0 && op->kind == PDL_OP_COPY) return copy_boxes(m, op);
    if (op->part > 0 && op->kind == PDL_OP_SUM)
        return is_piece(m, op->input[0], op) && is_piece(m, op->input[1], op);
    if (op->part > 0 && op->kind != PDL_OP_REDISTRIBUTE) return compute_side(m, op);
    switch (op->kind) {
    case PDL_OP_LOAD: write_cells(m, op->input[0], (cell_t){VALUE, 0, op->micro_batch, 0, 0}); return true;
    case PDL_OP_FORWARD:
    case PDL_OP_RECOMPUTE: return forward(m, op);
    case PDL_OP_BACKWARD:
    case PDL_OP_DGRAD:
    case PDL_OP_WGRAD: return backward(m, op);
    case PDL_OP_SEND: return op->backward ? paths_in(m, op->input[0]) == m->expected[op->node] : forward(m, op);
    case PDL_OP_CONVERT:
        if (op->node < 0) return m->updated;
        if (!op->backward) return forward(m, op);
        if (paths_in(m, op->input[0]) != m->expected[op->node]) return false;
        write_cells(m, op->output, (cell_t){GRADIENT, -1, op->micro_batch, m->expected[op->node], 0});
        return true;
    case PDL_OP_SUM:
    case PDL_OP_COPY:
        if (op->bucket >= 0) return handle_bucket(m, op);
        write_cells(m, op->output,
                    (cell_t){GRADIENT, -1, op->micro_batch, paths_in(m, op->input[0]) + paths_in(m, op->input[1]),
                             0});
        return true;
    case PDL_OP_UPDATE: return update(m);
    case PDL_OP_RESULT: return true;
    default: return issue(m, i) && (pdl_program_op_in_flight(op) || complete(m, i));
    }
}

static bool execute(machine_t *m)
{
    for (int i = 0; i < m->program->op_count; i++) {
        const pdl_program_op_t *op = &m->program->op[i];
        m->now = i;
        for (int k = 0; k < op->wait_count; k++) {
            int issued = m->program->wait[op->first_wait + k];
            overlapped += m->program->op[issued].kind == PDL_OP_REDISTRIBUTE && i > issued + 1;
            if (issued >= i || !complete(m, issued)) return false;
        }
        if (!execute_one(m, i)) return false;
    }
    return true;
}

/* The latest node up to i that has an output. */
static int readable(const pdl_program_node_t *nodes, int i)
{
    while (nodes[i].loss) i--;
    return i;
}

/* One to four moves, most of them with other ranks. */
static int draw_moves(pdl_program_move_t *moves)
{
    int count = below(3) == 0 ? 1 + below(MAX_MOVES) : 1;

    for (int k = 0; k < count; k++)
        moves[k] =
            (pdl_program_move_t){.group = below(4) ? 1 + (unsigned)below(3) : 0, .bytes = 64 * (size_t)below(20)};
    return count;
}

static void draw_redistribution(graph_t *g, int i)
{
    pdl_program_node_t *node = &g->nodes[i];

    node->kind = PDL_NODE_REDISTRIBUTE;
    node->input_count = 1;
    if (below(2)) node->input[0] = readable(g->nodes, below(i));
    node->input_gradients = node->input[0] > 0;
    node->keeps_inputs = 0;
    node->keeps_output = node->inplace = node->divides = node->sums_gradients = false;
    node->sum_count[0] = 0;
    node->saved_bytes = node->workspace_bytes = 0;
    node->gradient[0] = PDL_GRADIENT_OWN;
    for (int way = 0; way < PDL_DIRECTIONS; way++) {
        node->move[way] = g->moves[i][way];
        node->move_count[way] = draw_moves(g->moves[i][way]);
    }
}

/* Sums over ranks of the gradient of an input: two moves each. */
static void draw_sum(graph_t *g, int i)
{
    pdl_program_node_t *node = &g->nodes[i];

    if (node->gradient[0] == PDL_GRADIENT_PASSED) return;
    node->sum[0] = g->moves[i][0];
    node->sum_count[0] = 2 + 2 * below(2);
    for (int k = 0; k < node->sum_count[0]; k++)
        g->moves[i][0][k] = (pdl_program_move_t){.group = 1, .bytes = 64 * (size_t)(1 + below(4))};
}

/* A convolution with a halo: a rank may lack nothing on a side, or give nothing. */
static void draw_sides(graph_t *g, int i)
{
    pdl_program_node_t *node = &g->nodes[i];

    node->input_count = 1;
    node->inplace = node->loss = false;
    node->gradient[0] = PDL_GRADIENT_OWN;
    node->input_gradients &= 1;
    node->keeps_inputs &= 1;
    node->sum_count[0] = 0;
    node->side = g->sides[i];
    node->trains = true;
    for (int k = 0; k < 2; k++) {
        pdl_program_side_t *side = &g->sides[i][k];
        if (below(4) == 0) continue;
        *side = (pdl_program_side_t){.computes = below(3) > 0,
                                     .keeps_output = node->keeps_output,
                                     .gives = below(3) ? 64 : 0,
                                     .workspace = below(2) ? 128 : 0};
        if (side->computes) side->strip = side->border = 128;
        for (int way = 0; way < PDL_DIRECTIONS; way++)
            side->move[way] = (pdl_program_move_t){.primitive = PDL_HALO, .group = 1};
        side->move[PDL_FORWARD].bytes = side->computes ? 64 : 0;
        side->move[PDL_BACKWARD].bytes = side->gives;
    }
}

/* Node 0 is the source, the last one the loss; every node reads one to three earlier ones. */
static void draw_graph(graph_t *g, int count, bool recompute)
{
    pdl_program_node_t *nodes = g->nodes;

    memset(g, 0, sizeof(*g));
    g->count = count;
    nodes[0] = (pdl_program_node_t){.kind = PDL_NODE_SOURCE, .out_bytes = 1000};
    for (int i = 1; i < count; i++) {
        pdl_program_node_t *node = &nodes[i];
        bool                loss = i == count - 1, passes = !loss && below(4) == 0;
        node->input_count = 1 + below(3);
        node->out_bytes = below(2) ? 1000 : 64 * (size_t)(1 + below(40));
        node->backward = true;
        node->loss = loss;
        node->saved_bytes = below(2) ? 100 : 0;
        node->workspace_bytes = below(2) ? 500 : 0;
        node->keeps_output = below(2);
        node->inplace = below(2);
        node->sums_gradients = below(2);
        node->recompute = recompute && !loss && below(2);
        for (int j = 0; j < node->input_count; j++) {
            node->input[j] = readable(nodes, j == 0 ? i - 1 : below(i));
            if (below(2)) node->keeps_inputs |= 1u << j;
            if (node->input[j] > 0) node->input_gradients |= 1u << j;
            node->gradient[j] = below(3) == 0 ? PDL_GRADIENT_INPLACE : PDL_GRADIENT_OWN;
            if (passes && nodes[node->input[j]].out_bytes == node->out_bytes)
                node->gradient[j] = PDL_GRADIENT_PASSED;
        }
        node->divides = below(2);
        if (loss && below(2)) {
            node->gradient_in_forward = true;
            node->input_count = 1;
            node->input_gradients &= 1;
            node->keeps_inputs = 0;
            node->keeps_output = false;
        }
        if (below(6) == 0) draw_sum(g, i);
        if (!loss && below(4) == 0)
            draw_redistribution(g, i);
        else if (!loss && below(4) == 0)
            draw_sides(g, i);
        if (!loss && below(6) == 0) { /* a view */
            *node =
                (pdl_program_node_t){.kind = PDL_NODE_VIEW, .backward = i > 1, .input = {i - 1}, .input_count = 1};
            node->out_bytes = nodes[i - 1].out_bytes;
            node->input_gradients = i > 1;
        } else if (!loss && below(6) == 0) {
            *node = (pdl_program_node_t){.kind = PDL_NODE_CONVERT,
                                         .backward = true,
                                         .input = {node->input[0]},
                                         .input_count = 1,
                                         .out_bytes = node->out_bytes,
                                         .input_gradients = node->input[0] > 0};
        }
    }
}

/* Weights of the layers, some of them shared, in buckets of a few. */
static void draw_weights(graph_t *g)
{
    int uses = 0, sets = 1 + below(2);

    for (int i = 0; i < g->count; i++) {
        g->first_use[i] = uses;
        if (g->nodes[i].kind != PDL_NODE_COMPUTE || g->nodes[i].gradient_in_forward || below(3) == 0) continue;
        g->use[uses++] = g->weights > 0 && below(5) == 0 ? below(g->weights) : g->weights++;
    }
    g->first_use[g->count] = uses;
    g->update = (pdl_program_update_t){.first_use = g->first_use,
                                       .use = g->use,
                                       .weight_count = g->weights,
                                       .bucket = g->bucket,
                                       .ties = below(3) == 0,
                                       .tie_group = 8,
                                       .sharding = (pdl_sharding_t)below(PDL_SHARDING_COUNT),
                                       .packs = below(2)};
    for (int from = below(2); from < g->weights;) {
        int set = below(sets), last = from + 1 + below(3);
        g->bucket[g->update.bucket_count] =
            (pdl_program_bucket_t){.set = set,
                                   .index = g->update.bucket_count,
                                   .first = from,
                                   .last = last < g->weights ? last : g->weights,
                                   .axes = 1u + (unsigned)set,
                                   .sharded = g->update.sharding != PDL_SHARDING_NONE && set == 0,
                                   .bytes = 640};
        from = g->bucket[g->update.bucket_count++].last;
    }
}

static void expect_paths(machine_t *m, int count)
{
    for (int i = 0; i < count; i++)
        m->root[i] = m->nodes[i].kind == PDL_NODE_VIEW ? m->root[m->nodes[i].input[0]] : i;
    for (int i = count - 1; i > 0; i--) {
        if (m->nodes[i].kind == PDL_NODE_VIEW) continue;
        double paths = m->nodes[i].loss ? 1 : m->expected[i];
        for (int j = 0; j < m->nodes[i].input_count; j++)
            if (m->nodes[i].input_gradients >> j & 1) m->expected[m->root[m->nodes[i].input[j]]] += paths;
    }
    for (int i = 0; i < count; i++)
        if (m->nodes[i].loss) m->expected[i] = 1;
}

/* Makes the program of a graph and executes it. */
static void check_program(const graph_t *g, pdl_program_options_t *options)
{
    pdl_program_t *program = NULL;
    char           name[64];

    options->update = below(2) ? &g->update : NULL;
    options->overlap = below(5) > 0;
    REQUIRE_OK(pdl_program_create(g->nodes, g->count, options, &program));
    machine_t m = {.graph = g,
                   .nodes = g->nodes,
                   .program = program,
                   .cells = calloc(program->arena_bytes / CELL + 1, sizeof(cell_t)),
                   .pending = calloc((size_t)program->op_count, sizeof(bool)),
                   .source = calloc((size_t)program->op_count, sizeof(cell_t))};
    graph_t   without = *g;
    without.update = (pdl_program_update_t){0};
    if (!options->update) m.graph = &without;
    expect_paths(&m, g->count);
    CHECK(execute(&m));
    CHECK(program->arena_bytes >= program->live_bytes);
    CHECK(m.updated == (options->training && options->update));
    /* Of layers that lead to the loss, each makes its weight gradients once a micro-batch. */
    for (int i = 1; i < g->count && options->training; i++)
        if (g->nodes[i].kind == PDL_NODE_COMPUTE)
            CHECK_INT(m.made[i],
                      m.expected[i] > 0 && !(g->nodes[i].gradient_in_forward && g->nodes[i].input_gradients)
                          ? options->micro_batches
                          : 0);
    for (int i = 0; i < program->op_count; i++)
        CHECK(strlen(pdl_program_op_name(program, i, name, sizeof(name))) > 0);
    free(m.cells);
    free(m.pending);
    free(m.source);
    pdl_program_destroy(program);
}

static void test_random_graphs(void)
{
    for (int trial = 0; trial < 2000; trial++) {
        graph_t               g;
        pdl_program_options_t options = {.micro_batches = 1 + below(3), .training = trial % 5 != 0};
        draw_graph(&g, 2 + below(MAX_NODES - 2), trial % 2);
        draw_weights(&g);
        check_program(&g, &options);
    }
}

/* Turns some nodes into ones that receive from or send to another stage, and puts those from `cut` on into a second chunk. */
static void cut_graph(pdl_program_node_t *nodes, int count, int cut)
{
    for (int i = 1; i < count; i++) {
        bool read = nodes[i].loss;
        for (int k = i + 1; k < count; k++)
            for (int j = 0; j < nodes[k].input_count; j++) read |= nodes[k].input[j] == i;
        nodes[i].chunk = i >= cut;
        if (nodes[i].kind == PDL_NODE_VIEW) continue;
        if (below(5) == 0 && !nodes[i].loss) {
            size_t bytes = nodes[i].out_bytes;
            nodes[i] = (pdl_program_node_t){.kind = PDL_NODE_RECEIVE,
                                            .backward = true,
                                            .out_bytes = bytes,
                                            .chunk = i >= cut};
        } else if (!read) {
            nodes[i] = (pdl_program_node_t){.kind = PDL_NODE_SEND,
                                            .input = {nodes[i].input[0]},
                                            .input_count = 1,
                                            .backward = true,
                                            .input_gradients = nodes[i].input[0] > 0,
                                            .loss = true,
                                            .chunk = i >= cut};
        }
    }
}

/* The order of a stage of a random pipeline. */
static int draw_order(int micro_batches, int chunks, bool training, pdl_program_pass_t *order)
{
    pdl_pipeline_t    pipeline = {.schedule = chunks > 1 ? PDL_SCHEDULE_INTERLEAVED
                                              : below(2) ? PDL_SCHEDULE_GPIPE
                                              : below(2) ? PDL_SCHEDULE_ZERO_BUBBLE
                                                         : PDL_SCHEDULE_1F1B,
                                  .stages = 1 + below(4),
                                  .chunks = chunks,
                                  .micro_batches = micro_batches,
                                  .training = training};
    pdl_pipeline_op_t ops[64];
    int               count = (int)pdl_pipeline_op_count(&pipeline);

    pdl_pipeline_order(&pipeline, below(pipeline.stages), ops);
    for (int k = 0; k < count; k++)
        order[k] = (pdl_program_pass_t){ops[k].backward, (int)ops[k].micro_batch, ops[k].chunk, ops[k].gradients};
    return count;
}

static void test_pipelines(void)
{
    for (int trial = 0; trial < 2000; trial++) {
        int                   count = 3 + below(MAX_NODES - 3), chunks = 1 + trial % 2;
        graph_t               g;
        pdl_program_pass_t    order[64];
        pdl_program_options_t options = {.micro_batches = 1 + below(6), .training = trial % 5 != 0, .order = order};
        draw_graph(&g, count, trial % 3 == 0);
        cut_graph(g.nodes, count, chunks > 1 ? 1 + below(count - 1) : count);
        draw_weights(&g);
        options.order_count = draw_order(options.micro_batches, chunks, options.training, order);
        check_program(&g, &options);
    }
}

/* A chain of equal layers that keep their inputs: all are alive at the end of forward, and nothing is lost between. */
static void test_chain_is_tight(void)
{
    pdl_program_node_t nodes[34] = {{.kind = PDL_NODE_SOURCE, .out_bytes = 6400}};

    for (int i = 1; i < 34; i++)
        nodes[i] = (pdl_program_node_t){.input = {i - 1},
                                        .input_count = 1,
                                        .backward = true,
                                        .input_gradients = i > 1,
                                        .out_bytes = 6400,
                                        .keeps_inputs = 1,
                                        .loss = i == 33};
    pdl_program_options_t options = {.micro_batches = 1, .training = true};
    pdl_program_t        *program;
    CHECK_INT(pdl_program_create(nodes, 34, &options, &program), PDL_OK);
    CHECK_INT(program->arena_bytes, program->live_bytes);
    size_t plain = program->arena_bytes;
    pdl_program_destroy(program);
    for (int i = 1; i < 33; i++) nodes[i].recompute = i % 6 != 0;
    CHECK_INT(pdl_program_create(nodes, 34, &options, &program), PDL_OK);
    CHECK(program->arena_bytes < plain / 2);
    pdl_program_destroy(program);
    options.training = false;
    CHECK_INT(pdl_program_create(nodes, 34, &options, &program), PDL_OK);
    CHECK_INT(program->arena_bytes, 2 * 6400);
    pdl_program_destroy(program);
    CHECK_INT(pdl_program_create(nodes, 0, &options, &program), PDL_ERR_INPUT);
}

static bool meet(const pdl_program_buffer_t *a, const pdl_program_buffer_t *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Puts buffer k into the smallest gap between those of [0, k) that it meets, the plain way: by going through all offsets at
   which something ends. */
static size_t best_gap(const pdl_program_buffer_t *b, int k)
{
    size_t best = SIZE_MAX, gap = SIZE_MAX;

    for (int i = -1; i < k; i++) {
        size_t at = i < 0 ? 0 : b[i].offset + b[i].bytes, next = SIZE_MAX;
        bool   taken = i >= 0 && !meet(&b[i], &b[k]);
        for (int j = 0; j < k && !taken; j++) {
            if (!meet(&b[j], &b[k])) continue;
            taken = b[j].offset <= at && at < b[j].offset + b[j].bytes;
            if (b[j].offset > at && b[j].offset < next) next = b[j].offset;
        }
        if (taken || next - at < b[k].bytes) continue;
        if (next == SIZE_MAX ? gap == SIZE_MAX : next - at < gap || (next - at == gap && at < best)) {
            best = at;
            gap = next == SIZE_MAX ? gap : next - at;
        }
    }
    return best;
}

static int larger_first(const void *a, const void *b)
{
    const pdl_program_buffer_t *x = a, *y = b;

    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->first != y->first ? x->first - y->first : x->last - y->last;
}

/* Many buffers of all lives: none overlaps another one, and the arena is that of placing the largest first, or smaller. */
static void test_many_intervals(void)
{
    enum { COUNT = 160, STEPS = 1500 };
    static pdl_program_buffer_t buffers[COUNT], plain[COUNT];

    for (int round = 0; round < 6; round++) {
        size_t arena, top = 0;
        for (int k = 0; k < COUNT; k++) {
            int first = below(STEPS), life = below(round % 2 == 0 || k % 8 == 0 ? STEPS : 40);
            buffers[k] = (pdl_program_buffer_t){.bytes = (size_t)CELL * (size_t)(1 + below(round < 3 ? 9 : 500)),
                                                .first = first,
                                                .last = first + life};
        }
        qsort(buffers, COUNT, sizeof(*buffers), larger_first);
        memcpy(plain, buffers, sizeof(plain));
        for (int k = 0; k < COUNT; k++) {
            plain[k].offset = best_gap(plain, k);
            if (plain[k].offset + plain[k].bytes > top) top = plain[k].offset + plain[k].bytes;
        }
        REQUIRE_OK(pdl_colour_intervals(buffers, COUNT, CELL, &arena));
        CHECK(arena <= top);
        for (int k = 0; k < COUNT; k++) {
            CHECK(buffers[k].offset + buffers[k].bytes <= arena);
            for (int j = 0; j < k; j++)
                CHECK(!meet(&buffers[j], &buffers[k]) ||
                      buffers[j].offset + buffers[j].bytes <= buffers[k].offset ||
                      buffers[k].offset + buffers[k].bytes <= buffers[j].offset);
        }
    }
}

int main(void)
{
    RUN(test_many_intervals);
    RUN(test_random_graphs);
    RUN(test_pipelines);
    CHECK(overlapped > 1000);
    CHECK(over_input > 0);
    RUN(test_chain_is_tight);
    return test_done();
}
