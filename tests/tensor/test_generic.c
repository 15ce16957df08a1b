/*
 * The generic backend says of weights and outputs what the reference does, keeps nothing that the reference does not,
 * and computes nothing.
 */
#include "op_cases.h"
#include "test.h"

static pdl_backend_t *reference, *generic;

static void check_case(const op_case_t *c)
{
    op_bench_t           bench = {.c = c, .backend = reference};
    pdl_op_description_t d;
    pdl_op_t            *op = NULL;

    REQUIRE_OK(op_make(&bench));
    const pdl_op_description_t *r = &bench.op->description;
    CHECK_OK(generic->ops->op_describe(generic, &bench.op->spec, &d));
    CHECK(d.out_bytes * sizeof(double) == r->out_bytes * sizeof(float));
    CHECK((d.keeps_inputs & ~r->keeps_inputs) == 0 && (!d.keeps_output || r->keeps_output));
    CHECK(d.workspace_bytes == 0 && d.packed_bytes == 0 && d.out_format == PDL_FORMAT_PLAIN);
    CHECK(d.weight_count == r->weight_count && d.divides == r->divides && d.flop[0] == r->flop[0]);
    for (int k = 0; k < d.weight_count && k < r->weight_count; k++)
        CHECK(op_same_weight(&d.weight[k], &r->weight[k]));
    CHECK_ERROR(generic->ops->op_create(generic, &bench.op->spec, &op), "describes");
    op_clear(&bench);
}

static void describes_what_the_reference_is(void)
{
    for (int i = 0; i < OP_CASE_COUNT; i++) {
        op_case_t c = op_cases[i];
        c.fusion = (pdl_fusion_t){false, PDL_LAYER_INPUT};
        check_case(&c);
    }
}

int main(void)
{
    pdl_generic_options_t options = {.precision = PDL_DTYPE_F32};

    REQUIRE_OK(pdl_backend_create_reference(&reference));
    REQUIRE_OK(pdl_backend_create_generic(&options, &generic));
    RUN(describes_what_the_reference_is);
    pdl_backend_destroy(reference);
    pdl_backend_destroy(generic);
    return test_done();
}
