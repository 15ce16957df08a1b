/*
 * The program on random graphs, played on a memory of cells: every operation finds in its buffers exactly what should be
 * there, so nothing that is still needed was overwritten, and every gradient counts every path once.
 */
#include "random.h"
#include "test.h"
#include <math.h>
#include <paradl/plan/pipeline.h>
#include <paradl/program/program.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NODES 40
#define CELL      64

static int below(int limit)
{
    return (int)between(0, limit - 1);
}

/* What a buffer holds: which value of which node, or the sum of gradients that came over so many paths. */
typedef enum content { NOTHING, VALUE, SAVED, GRADIENT, SCRATCH } content_t;
typedef struct cell {
    content_t kind;
    int       node, micro_batch;
    double    paths; /* GRADIENT: the sum of what its readers passed back */
} cell_t;

typedef struct machine {
    const pdl_program_node_t *nodes;
    const pdl_program_t      *program;
    cell_t                   *cells;
    double                    expected[MAX_NODES]; /* gradient of each node's output: number of paths to the loss */
    int                       root[MAX_NODES];
    bool                      finished[MAX_NODES]; /* its weight gradients have been called final */
    int                       made[MAX_NODES];     /* micro-batches of which these have been computed */
} machine_t;

static void write_cells(machine_t *m, int buffer, cell_t content)
{
    if (buffer < 0) return;
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

static double paths_in(const machine_t *m, int buffer)
{
    return buffer < 0 ? 0 : m->cells[m->program->buffer[buffer].offset / CELL].paths;
}

/* Between an operation and its rest nobody writes to what it works with. */
static bool scratch_is_left(const machine_t *m, const pdl_program_op_t *op)
{
    return op->workspace < 0 || holds(m, op->workspace, (cell_t){SCRATCH, op->node, op->micro_batch, 0});
}

static bool forward(machine_t *m, const pdl_program_op_t *op)
{
    const pdl_program_node_t *node = &m->nodes[op->node];

    bool rest = op->kind == PDL_OP_FORWARD_REST;

    if (op->partly && (node->stepwise || !(node->moves & PDL_PROGRAM_THERE))) return false;
    for (int j = 0; j < node->input_count; j++)
        if (!holds(m, op->input[j], (cell_t){VALUE, m->root[node->input[j]], op->micro_batch, 0})) return false;
    if (rest && !scratch_is_left(m, op)) return false;
    write_cells(m, op->workspace, (cell_t){SCRATCH, op->node, op->micro_batch, 0});
    write_cells(m, op->output, (cell_t){op->partly ? SCRATCH : VALUE, op->node, op->micro_batch, 0});
    write_cells(m, op->saved, (cell_t){SAVED, op->node, op->micro_batch, 0});
    return true;
}

/* A gradient belongs to whichever nodes wait for it, so only its paths are looked at. */
static bool backward(machine_t *m, const pdl_program_op_t *op)
{
    const pdl_program_node_t *node = &m->nodes[op->node];
    double                    paths = node->loss ? 1 : paths_in(m, op->gradient[0]) + paths_in(m, op->gradient[1]);

    if (paths != m->expected[op->node] || m->finished[op->node]) return false;
    if (op->gradient[1] >= 0 && !node->sums_gradients) return false;
    if (op->partly && !(node->moves & PDL_PROGRAM_BACK) && !node->divides) return false;
    for (int j = 0; j < node->input_count; j++)
        if (node->keeps_inputs >> j & 1 &&
            !holds(m, op->input[j], (cell_t){VALUE, m->root[node->input[j]], op->micro_batch, 0}))
            return false;
    if (node->keeps_output && !holds(m, op->output, (cell_t){VALUE, op->node, op->micro_batch, 0})) return false;
    if (node->saved_bytes && !holds(m, op->saved, (cell_t){SAVED, op->node, op->micro_batch, 0})) return false;
    bool rest = op->kind == PDL_OP_BACKWARD_REST, moves = node->moves & PDL_PROGRAM_BACK;
    if (rest && !scratch_is_left(m, op)) return false;
    write_cells(m, op->workspace, (cell_t){SCRATCH, op->node, op->micro_batch, 0});
    m->made[op->node] += !op->partly;
    if (rest && !moves) return true;
    for (int j = 0; j < node->input_count; j++) {
        if (!(node->input_gradients >> j & 1)) continue;
        if (op->input_gradient[j] < 0) return false;
        write_cells(m, op->input_gradient[j],
                    (cell_t){GRADIENT, -1, op->micro_batch, op->partly && moves ? NAN : paths});
    }
    return true;
}

static int parts; /* operations that were divided, in all trials */

static bool play(machine_t *m, int micro_batches, int *done)
{
    for (int i = 0; i < m->program->op_count; i++) {
        const pdl_program_op_t *op = &m->program->op[i];
        bool                    right = op->micro_batch < micro_batches;
        if (op->kind == PDL_OP_LOAD) write_cells(m, op->input[0], (cell_t){VALUE, 0, op->micro_batch, 0});
        if (op->kind == PDL_OP_FORWARD || op->kind == PDL_OP_FORWARD_REST) right &= forward(m, op);
        if (op->kind == PDL_OP_BACKWARD || op->kind == PDL_OP_BACKWARD_REST) right &= backward(m, op);
        parts += op->partly;
        if (op->kind == PDL_OP_SUM)
            write_cells(m, op->output,
                        (cell_t){GRADIENT, -1, op->micro_batch,
                                 paths_in(m, op->gradient[0]) + paths_in(m, op->gradient[1])});
        if (op->kind == PDL_OP_GRADIENT_DONE) {
            right &= !m->finished[op->node] && m->made[op->node] == micro_batches;
            m->finished[op->node] = true;
            *done += 1;
        }
        if (!right) return false;
    }
    return true;
}

/* The latest node up to i that has an output. */
static int readable(const pdl_program_node_t *nodes, int i)
{
    while (nodes[i].loss) i--;
    return i;
}

/* Node 0 is the source, the last one the loss; every node reads one to three earlier ones. */
static void draw_graph(pdl_program_node_t *nodes, int count, bool recompute)
{
    memset(nodes, 0, (size_t)count * sizeof(*nodes));
    nodes[0] = (pdl_program_node_t){.source = true, .out_bytes = 1000};
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
        node->rearranges = below(3) == 0;
        if (!loss && below(4) == 0) { /* a move */
            node->input_count = 1;
            node->keeps_inputs = node->keeps_output = node->inplace = false;
            node->input_gradients &= 1;
            node->gradient[0] = PDL_GRADIENT_OWN;
            node->divides = node->rearranges = false;
            node->moves = (unsigned)below(4);
            node->stepwise = below(4) == 0;
        }
        if (!loss && below(6) == 0) { /* a view */
            *node = (pdl_program_node_t){.view = true, .backward = i > 1, .input = {i - 1}, .input_count = 1};
            node->out_bytes = nodes[i - 1].out_bytes;
            node->input_gradients = i > 1;
        }
    }
}

static void expect_paths(machine_t *m, int count)
{
    for (int i = 0; i < count; i++) m->root[i] = m->nodes[i].view ? m->root[m->nodes[i].input[0]] : i;
    for (int i = count - 1; i > 0; i--) {
        if (m->nodes[i].view) continue;
        double paths = m->nodes[i].loss ? 1 : m->expected[i];
        for (int j = 0; j < m->nodes[i].input_count; j++)
            if (m->nodes[i].input_gradients >> j & 1) m->expected[m->root[m->nodes[i].input[j]]] += paths;
    }
    for (int i = 0; i < count; i++)
        if (m->nodes[i].loss) m->expected[i] = 1;
}

static void test_random_graphs(void)
{
    for (int trial = 0; trial < 2000; trial++) {
        int                count = 2 + below(MAX_NODES - 2), done = 0;
        pdl_program_node_t nodes[MAX_NODES];
        int                micro_batches = 1 + below(3);
        draw_graph(nodes, count, trial % 2);
        pdl_program_options_t options = {.micro_batches = micro_batches, .training = trial % 5 != 0};
        pdl_program_t        *program;
        CHECK_INT(pdl_program_create(nodes, count, &options, &program), PDL_OK);
        machine_t m = {.nodes = nodes,
                       .program = program,
                       .cells = calloc(program->arena_bytes / CELL + 1, sizeof(cell_t))};
        expect_paths(&m, count);
        CHECK(play(&m, micro_batches, &done));
        CHECK(program->arena_bytes >= program->live_bytes);
        if (options.training) CHECK(done > 0);
        free(m.cells);
        pdl_program_destroy(program);
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
        if (nodes[i].view) continue;
        if (below(5) == 0 && !nodes[i].loss) {
            size_t bytes = nodes[i].out_bytes;
            nodes[i] = (pdl_program_node_t){.backward = true, .out_bytes = bytes, .chunk = i >= cut};
        } else if (!read) {
            nodes[i] = (pdl_program_node_t){.input = {nodes[i].input[0]},
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
                                                         : PDL_SCHEDULE_1F1B,
                                  .stages = 1 + below(4),
                                  .chunks = chunks,
                                  .micro_batches = micro_batches,
                                  .training = training};
    pdl_pipeline_op_t ops[64];
    int               count = (int)pdl_pipeline_op_count(&pipeline);

    pdl_pipeline_order(&pipeline, below(pipeline.stages), ops);
    for (int k = 0; k < count; k++)
        order[k] = (pdl_program_pass_t){ops[k].backward, (int)ops[k].micro_batch, ops[k].chunk};
    return count;
}

static void test_pipelines(void)
{
    for (int trial = 0; trial < 2000; trial++) {
        int                count = 3 + below(MAX_NODES - 3), done = 0, chunks = 1 + trial % 2;
        pdl_program_node_t nodes[MAX_NODES];
        pdl_program_pass_t order[64];
        int                micro_batches = 1 + below(6);
        draw_graph(nodes, count, trial % 3 == 0);
        cut_graph(nodes, count, chunks > 1 ? 1 + below(count - 1) : count);
        pdl_program_options_t options = {.micro_batches = micro_batches,
                                         .training = trial % 5 != 0,
                                         .order = order};
        options.order_count = draw_order(micro_batches, chunks, options.training, order);
        pdl_program_t *program;
        CHECK_INT(pdl_program_create(nodes, count, &options, &program), PDL_OK);
        machine_t m = {.nodes = nodes,
                       .program = program,
                       .cells = calloc(program->arena_bytes / CELL + 1, sizeof(cell_t))};
        expect_paths(&m, count);
        CHECK(play(&m, micro_batches, &done));
        for (int i = 1; i < count && options.training; i++)
            CHECK(m.finished[i] == (!nodes[i].view && m.expected[i] > 0));
        free(m.cells);
        pdl_program_destroy(program);
    }
}

/* A chain of equal layers that keep their inputs: all are alive at the end of forward, and nothing is lost between. */
static void test_chain_is_tight(void)
{
    pdl_program_node_t nodes[34] = {{.source = true, .out_bytes = 6400}};

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

int main(void)
{
    RUN(test_random_graphs);
    RUN(test_pipelines);
    CHECK(parts > 1000);
    RUN(test_chain_is_tight);
    return test_done();
}
