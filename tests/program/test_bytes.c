/*
 * What the programs of all ranks together send, against the arithmetic of docs/oracle.md ("Bytes"), where pieces are equal.
 */
#include "test.h"
#include <math.h>
#include <paradl/plan/partition.h>
#include <paradl/program/compile.h>

#define D(n)                \
    {                       \
        PDL_AXIS_DATA, n, 0 \
    }
#define T(n)                  \
    {                         \
        PDL_AXIS_TENSOR, n, 0 \
    }
#define P(n)                    \
    {                           \
        PDL_AXIS_PIPELINE, n, 0 \
    }

static pdl_backend_t *backend;

typedef struct divided {
    pdl_model_t *model;
    pdl_plan_t  *plan;
    double       sent[PDL_TRAFFIC_COUNT]; /* by all ranks */
    double       weights, data, micro_batches;
} divided_t;

static void add_rank(divided_t *d, int64_t rank)
{
    pdl_program_spec_t spec = {.plan = d->plan,
                               .backend = backend,
                               .rank = rank,
                               .training = true,
                               .overlap = true,
                               .bucket_bytes = 65536};
    pdl_program_t     *program = NULL;
    double             sent[PDL_TRAFFIC_COUNT];

    REQUIRE_OK(pdl_program_compile(&spec, &program));
    pdl_program_traffic(program, sent);
    for (int k = 0; k < PDL_TRAFFIC_COUNT; k++) d->sent[k] += sent[k];
    pdl_program_destroy(program);
}

static divided_t divide(const char *model, const char *strategy, pdl_mesh_t mesh, int64_t micro_batches,
                        pdl_sharding_t sharding)
{
    divided_t d = {.data = (double)pdl_mesh_extent(&mesh, PDL_AXIS_DATA), .micro_batches = (double)micro_batches};
    pdl_model_totals_t totals;

    REQUIRE_OK(pdl_model_load(model, &d.model));
    pdl_model_totals(d.model, &totals);
    d.weights = (double)totals.weights;
    REQUIRE_OK(pdl_plan_create(d.model, &mesh, 4 * micro_batches * (int64_t)d.data, &d.plan));
    d.plan->micro_batches = micro_batches;
    d.plan->sharding = sharding;
    CHECK_OK(pdl_plan_apply_preset(d.plan, strategy, NULL));
    for (int64_t r = 0; r < pdl_mesh_size(&mesh); r++) add_rank(&d, r);
    return d;
}

static void end(divided_t *d)
{
    pdl_plan_destroy(d->plan);
    pdl_model_destroy(d->model);
}

/* Every weight goes round a ring twice, or with parts once there and once for every gathering. */
static void gradients_of_replicas(void)
{
    static const pdl_sharding_t shardings[] = {PDL_SHARDING_NONE, PDL_SHARDING_ZERO1, PDL_SHARDING_ZERO2};

    for (int micro_batches = 1; micro_batches <= 3; micro_batches++)
        for (int s = 0; s < 3; s++)
            for (int64_t p = 2; p <= 5; p++) {
                divided_t d =
                    divide("gpt-char-small", "data", (pdl_mesh_t){{D(p)}, 1}, micro_batches, shardings[s]);
                double times = shardings[s] == PDL_SHARDING_ZERO2 ? d.micro_batches + 1 : 2;

                CHECK_NEAR(d.sent[PDL_TRAFFIC_GRADIENTS], times * (d.data - 1) * d.weights * 4, 1e-12);
                CHECK_NEAR(d.sent[PDL_TRAFFIC_RESULTS], d.data * (d.data - 1) * PDL_RESULT_SUMS * 8, 1e-12);
                CHECK_NEAR(d.sent[PDL_TRAFFIC_REDISTRIBUTION] + d.sent[PDL_TRAFFIC_STAGES], 0, 0);
                end(&d);
            }
}

/* Weights come twice in every micro-batch, but those that are still there. */
static void gathered_weights(void)
{
    divided_t d = divide("gpt-char-small", "data", (pdl_mesh_t){{D(4)}, 1}, 2, PDL_SHARDING_ZERO3);
    double    once = (d.data - 1) * d.weights * 4;

    CHECK(d.sent[PDL_TRAFFIC_GRADIENTS] <= 3 * d.micro_batches * once * 1.1);
    CHECK(d.sent[PDL_TRAFFIC_GRADIENTS] >= 3 * d.micro_batches * once * 0.8);
    end(&d);
}

/* Elements that cross the borders of the stages in a micro-batch of 4 samples. */
static double crossing(const pdl_plan_t *plan, int64_t stages)
{
    double           borders[256], elements = 0;
    pdl_partition_t *partition = NULL;

    REQUIRE_OK(pdl_partition_create(plan, 4, &partition));
    REQUIRE(partition->layer_count < 256);
    pdl_partition_borders(partition, borders);
    for (int64_t k = 1; k < stages; k++) elements += borders[plan->stage_first[k]];
    pdl_partition_destroy(partition);
    return elements;
}

/* Borders are crossed both ways in each of the micro-batches; the word table is in the first and the last stage. */
static void stages_and_tied_weights(void)
{
    for (int64_t p = 2; p <= 4; p++) {
        divided_t d = divide("gpt-char-small", "pipeline", (pdl_mesh_t){{P(p)}, 1}, 4, PDL_SHARDING_NONE);
        double    tied = 0;

        for (int i = 0; i < pdl_model_layer_count(d.model); i++)
            if (pdl_model_layer(d.model, i)->tied_to >= 0)
                tied += (double)pdl_model_layer(d.model, pdl_model_layer(d.model, i)->tied_to)->weights;
        CHECK_NEAR(d.sent[PDL_TRAFFIC_STAGES], 2 * 4 * crossing(d.plan, p) * 4, 1e-12);
        CHECK_NEAR(d.sent[PDL_TRAFFIC_GRADIENTS], 2 * tied * 4, 1e-12);
        end(&d);
    }
}

/* What the members of all groups of an axis send: of a complete vector each all but its own part, sums twice that, all-to-alls that
   of their own part. */
static double redistributed(const divided_t *d)
{
    const pdl_mesh_t *mesh = &d->plan->mesh;
    pdl_partition_t  *partition = NULL;
    double            elements = 0;

    REQUIRE_OK(pdl_partition_create(d->plan, 4, &partition));
    for (int i = 0; i < partition->first_gradient; i++) {
        const pdl_transfer_t *t = &partition->transfers[i];
        double                n = t->input >= 0 ? (double)mesh->axis[t->axis].size : 0, groups;

        if (n == 0) continue;
        groups = (double)pdl_mesh_size(mesh) / n;
        if (t->primitive == PDL_ALLREDUCE) elements += groups * 2 * (n - 1) * t->elements;
        if (t->primitive == PDL_ALLGATHER || t->primitive == PDL_REDUCE_SCATTER)
            elements += groups * (n - 1) * t->elements;
        if (t->primitive == PDL_ALLTOALL) elements += groups * (n - 1) * t->elements / n;
    }
    pdl_partition_destroy(partition);
    return elements * d->micro_batches * 4;
}

static void redistributions(void)
{
    static const struct {
        const char *model, *strategy;
        pdl_mesh_t  mesh;
    } trials[] = {{"gpt-char-small", "tensor", {{T(2)}, 1}},
                  {"gpt-char-small", "tensor", {{T(4)}, 1}},
                  {"gpt-char-small", "data+tensor", {{D(2), T(2)}, 2}},
                  {"gpt-char-small", "data+context", {{D(2), {PDL_AXIS_SPATIAL, 2, 0}}, 2}},
                  {"gpt-char-small", "data+tensor+context", {{{PDL_AXIS_SPATIAL, 2, 0}, T(2)}, 2}},
                  {"gpt-char-small", "data+tensor+context", {{T(2), {PDL_AXIS_SPATIAL, 2, 0}}, 2}},
                  {"resnet-tiny", "filter", {{T(4)}, 1}},
                  {"resnet-tiny", "channel", {{T(4)}, 1}},
                  {"resnet-tiny", "data+filter", {{D(3), T(2)}, 2}}};

    for (size_t i = 0; i < sizeof(trials) / sizeof(trials[0]); i++) {
        divided_t d = divide(trials[i].model, trials[i].strategy, trials[i].mesh, 2, PDL_SHARDING_NONE);

        CHECK(d.sent[PDL_TRAFFIC_REDISTRIBUTION] > 0);
        CHECK_NEAR(d.sent[PDL_TRAFFIC_REDISTRIBUTION], redistributed(&d), 1e-12);
        end(&d);
    }
}

int main(void)
{
    pdl_generic_options_t options = {.precision = PDL_DTYPE_F32};

    REQUIRE_OK(pdl_backend_create_generic(&options, &backend));
    RUN(gradients_of_replicas);
    RUN(gathered_weights);
    RUN(stages_and_tied_weights);
    RUN(redistributions);
    pdl_backend_destroy(backend);
    return test_done();
}
