/*
 * Copies of an update in time: a small program with swapped tensors, whose operations are complete at times given here.
 */
#include "test.h"

#include <paradl/program/copies.h>
#include <stdlib.h>

/* A chain of four layers of 100 bytes each, of which the first two are swapped. */
static pdl_program_t *make_chain(void)
{
    pdl_program_node_t    node[4] = {{.kind = PDL_NODE_SOURCE, .out_bytes = 100}};
    pdl_program_options_t options = {.micro_batches = 1, .training = true, .overlap = true};
    pdl_program_t        *program = NULL;

    for (int i = 1; i < 4; i++)
        node[i] = (pdl_program_node_t){.kind = PDL_NODE_COMPUTE,
                                       .layer = i,
                                       .tail = i,
                                       .input = {i - 1},
                                       .input_count = 1,
                                       .backward = true,
                                       .keeps_output = true,
                                       .input_gradients = i > 1,
                                       .swap = i < 3,
                                       .release_after = 1,
                                       .prefetch = 1,
                                       .block = i,
                                       .policy_block = i,
                                       .wanted_by = i,
                                       .loss = i == 3,
                                       .out_bytes = 100};
    CHECK_OK(pdl_program_create(node, 4, &options, &program));
    return program;
}

/* Everything takes 1 s but copies in, which take 5: backward of the layers waits for them. */
static void stalls_are_those_of_copies(void)
{
    pdl_program_t       *program = make_chain();
    pdl_program_copies_t copies;
    double               end[64] = {0}, computed = 0, link[2] = {0, 0}, stall = 0;

    REQUIRE(program != NULL && program->op_count <= 64);
    for (int i = 0; i < program->op_count; i++) {
        const pdl_program_op_t *op = &program->op[i];
        bool                    in = op->kind == PDL_OP_COPY_IN;
        if (in || op->kind == PDL_OP_COPY_OUT) {
            end[i] = link[in] = fmax(link[in], computed) + (in ? 5 : 1);
            continue;
        }
        double start = computed;
        for (int k = 0; k < op->wait_count; k++) start = fmax(start, end[program->wait[op->first_wait + k]]);
        stall += start - computed;
        end[i] = computed = start + 1;
    }
    CHECK_OK(pdl_program_count_copies(program, end, &copies));
    CHECK_NEAR(copies.swapped_bytes, 200, 0);
    CHECK_NEAR(copies.state_bytes, 0, 0);
    CHECK_NEAR(copies.out_s, 2, 1e-12);
    CHECK_NEAR(copies.in_s, 10, 1e-12);
    CHECK(stall > 4);
    CHECK_NEAR(copies.stall_s, stall, 1e-12);
    CHECK(copies.worst_layer == 1 || copies.worst_layer == 2);
    CHECK(copies.worst_s > 0 && copies.worst_s <= stall);
    CHECK_OK(pdl_program_count_copies(program, NULL, &copies));
    CHECK_NEAR(copies.stall_s, 0, 0);
    CHECK_INT(copies.worst_layer, -1);
    pdl_program_destroy(program);
}

int main(void)
{
    RUN(stalls_are_those_of_copies);
    return test_done();
}
