/*
 * Which collectives a plan has, whose schedules they take, and which names are refused.
 */
#include "test.h"

#include <paradl/plan/collectives.h>

#include <stdlib.h>
#include <string.h>

static pdl_model_t *resnet50;

static pdl_plan_t *make_plan(const char *preset, pdl_mesh_t mesh, int64_t batch)
{
    pdl_plan_t *plan = NULL;

    REQUIRE_OK(pdl_plan_create(resnet50, &mesh, batch, &plan));
    CHECK_OK(pdl_plan_apply_preset(plan, preset, NULL));
    return plan;
}

static void name(pdl_plan_t *plan, int axis, const char *algorithm)
{
    snprintf(plan->collective[axis].algorithm, sizeof(plan->collective[axis].algorithm), "%s", algorithm);
}

static const pdl_plan_use_t *find(const pdl_plan_uses_t *uses, unsigned axes, pdl_collective_t collective)
{
    for (int i = 0; i < uses->count; i++)
        if (uses->use[i].axes == axes && uses->use[i].collective == collective) return &uses->use[i];
    return NULL;
}

static void list(const pdl_plan_t *plan, pdl_plan_uses_t *uses)
{
    pdl_partition_t *partition = NULL;

    CHECK_OK(pdl_plan_check(plan));
    REQUIRE_OK(pdl_partition_create(plan, 8, &partition));
    pdl_plan_list_collectives(partition, uses);
    pdl_partition_destroy(partition);
}

static void gradients_are_listed(void)
{
    static pdl_plan_uses_t uses;
    pdl_plan_t            *plan = make_plan("data", (pdl_mesh_t){{{PDL_AXIS_DATA, 6, 0}}, 1}, 48);
    double                 weights = 0;

    for (int i = 0; i < pdl_model_layer_count(resnet50); i++)
        weights += (double)pdl_model_layer(resnet50, i)->weights;
    list(plan, &uses);
    CHECK_INT(uses.count, 1);
    CHECK(find(&uses, 1, PDL_COLL_ALLREDUCE) != NULL && uses.use[0].gradient);
    CHECK_INT(uses.use[0].ranks, 6);
    CHECK_NEAR(uses.use[0].elements, weights, 1e-3);
    plan->sharding = PDL_SHARDING_ZERO1;
    list(plan, &uses);
    CHECK_INT(uses.count, 2);
    CHECK(find(&uses, 1, PDL_COLL_REDUCE_SCATTER) != NULL && find(&uses, 1, PDL_COLL_ALLGATHER) != NULL);
    plan->run_mode = PDL_INFERENCE;
    list(plan, &uses);
    CHECK_INT(uses.count, 0);
    pdl_plan_destroy(plan);
}

/* Pieces of an image share all weights: one sum over both axes, by the schedule of the data axis. */
static void several_axes_have_one_schedule(void)
{
    static pdl_plan_uses_t uses;
    pdl_mesh_t             mesh = {{{PDL_AXIS_SPATIAL, 3, 0}, {PDL_AXIS_DATA, 2, 0}}, 2};
    pdl_plan_t            *plan = make_plan("data+spatial", mesh, 24);
    pdl_schedule_spec_t    spec;

    list(plan, &uses);
    const pdl_plan_use_t *both = find(&uses, 3, PDL_COLL_ALLREDUCE);
    CHECK(both != NULL && both->ranks == 6 && both->axis == 1 && both->gradient);
    name(plan, 0, "ring");
    name(plan, 1, "circulant");
    spec = pdl_plan_schedule(plan, 3, PDL_COLL_ALLREDUCE, 6);
    CHECK_STR(spec.algorithm, "circulant");
    CHECK_STR(pdl_plan_schedule(plan, 1, PDL_COLL_ALLREDUCE, 3).algorithm, "ring");
    CHECK_OK(pdl_plan_check(plan));
    name(plan, 1, "swing"); /* two would do, six do not */
    CHECK_ERROR(pdl_plan_check(plan), "on 6 ranks");
    pdl_plan_destroy(plan);
}

static void impossible_names_are_refused(void)
{
    pdl_plan_t *plan = make_plan("data", (pdl_mesh_t){{{PDL_AXIS_DATA, 6, 0}}, 1}, 48);

    CHECK_STR(pdl_plan_schedule(plan, 1, PDL_COLL_ALLREDUCE, 6).algorithm, "ring");
    name(plan, 0, "shd_near");
    CHECK_ERROR(pdl_plan_check(plan), "collectives.data: allreduce shd_near does not support 6 ranks");
    CHECK_ERROR(pdl_plan_check(plan), "possible are auto, ring, hd_near");
    name(plan, 0, "shd_naer");
    CHECK_ERROR(pdl_plan_check(plan), "did you mean shd_near");
    name(plan, 0, "rdb");
    CHECK_OK(pdl_plan_check(plan));
    plan->sharding = PDL_SHARDING_ZERO2;
    CHECK_ERROR(pdl_plan_check(plan), "rdb does not exist for reduce-scatter");
    CHECK_ERROR(pdl_plan_check(plan), "possible are auto, ring, circulant");
    name(plan, 0, "hd_near");
    CHECK_ERROR(pdl_plan_check(plan), "power");
    name(plan, 0, "ring_ring");
    plan->collective[0].ranks_per_node = 4;
    CHECK_ERROR(pdl_plan_check(plan), "4 ranks per node do not divide 6 ranks");
    plan->collective[0].ranks_per_node = 3;
    CHECK_OK(pdl_plan_check(plan));
    CHECK_OK(pdl_plan_name_gradients(plan, "circulant"));
    CHECK_STR(plan->collective[0].algorithm, "circulant");
    CHECK_ERROR(pdl_plan_name_gradients(plan, "double_tree"), "does not exist for reduce-scatter");
    CHECK_OK(pdl_plan_name_gradients(plan, ""));
    CHECK_STR(plan->collective[0].algorithm, "");
    pdl_plan_destroy(plan);
}

static pdl_status_t read(const char *line, pdl_plan_file_t *file)
{
    char text[512];
    int  length =
        snprintf(text, sizeof(text),
                 "paradl: plan/1\nmodel: resnet50\ndata: {batch: 64}\nstrategy: data\nmesh: [{data: 8}]\n%s", line);

    return pdl_plan_read_memory(text, (size_t)length, "p.yaml", file);
}

static void files_name_schedules(void)
{
    pdl_plan_file_t file;
    char            text[64];

    REQUIRE_OK(read("collectives: {data: shd_near}\n", &file));
    CHECK_STR(file.plan->collective[0].algorithm, "shd_near");
    CHECK_STR(pdl_plan_format_collectives(file.plan, text, sizeof(text)), "data shd_near");
    pdl_plan_file_free(&file);
    REQUIRE_OK(read("collectives: {data: {algorithm: ring_rab, ranks_per_node: 4}}\n", &file));
    CHECK_STR(file.plan->collective[0].algorithm, "ring_rab");
    CHECK_INT(file.plan->collective[0].ranks_per_node, 4);
    pdl_plan_file_free(&file);
    REQUIRE_OK(read("collectives: {data: \"levels:ring/4,hd_far/2\"}\n", &file));
    char  *again = NULL;
    size_t size = 0;
    FILE  *stream = open_memstream(&again, &size);
    CHECK_OK(pdl_plan_write(file.plan, NULL, NULL, NULL, NULL, stream));
    fclose(stream);
    pdl_plan_file_free(&file);
    REQUIRE_OK(pdl_plan_read_memory(again, size, "again", &file));
    CHECK_STR(file.plan->collective[0].algorithm, "levels:ring/4,hd_far/2");
    free(again);
    pdl_plan_file_free(&file);
    REQUIRE_OK(read("collectives: {data: auto}\n", &file));
    CHECK_STR(file.plan->collective[0].algorithm, "");
    CHECK_STR(file.note, "");
    pdl_plan_file_free(&file);
    /* As earlier versions called it. */
    REQUIRE_OK(read("collectives: {data: {algorithm: hierarchical}}\n", &file));
    CHECK_STR(file.plan->collective[0].algorithm, "ring_ring");
    CHECK(strstr(file.note, "ring_ring") != NULL);
    pdl_plan_file_free(&file);
    CHECK_ERROR(read("collectives: {data: kautz}\n", &file), "p.yaml: collectives.data: ");
    CHECK_ERROR(read("collectives: {data: shd_naer}\n", &file), "p.yaml:6: there is no schedule");
}

int main(void)
{
    REQUIRE_OK(pdl_model_load("resnet50", &resnet50));
    RUN(gradients_are_listed);
    RUN(several_axes_have_one_schedule);
    RUN(impossible_names_are_refused);
    RUN(files_name_schedules);
    pdl_model_destroy(resnet50);
    return test_done();
}
