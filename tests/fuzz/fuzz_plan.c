/*
 * Any bytes given to the reader of plans yield an error that names the file, or a plan that passes its check
 * and comes out the same when it is written and read again.
 */
#include <paradl/plan/plan.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Holds in every build, unlike assert(). */
static void require(bool condition)
{
    if (!condition) abort();
}

static const char *or_null(const char *name)
{
    return name[0] != '\0' ? name : NULL;
}

static char *write_again(const pdl_plan_file_t *file, size_t *length)
{
    const pdl_plan_projection_t *projection = file->has_projection ? &file->projection : NULL;
    char                        *text = NULL;
    FILE                        *stream = open_memstream(&text, length);

    require(stream != NULL);
    require(pdl_plan_write(file->plan, file->model_name, or_null(file->system_name), or_null(file->data_name),
                           projection, stream) == PDL_OK);
    fclose(stream);
    return text;
}

static void require_same_policy(const pdl_data_policy_t *p, const pdl_data_policy_t *q)
{
    require(p->given == q->given && p->shuffle == q->shuffle && p->store == q->store);
    require(p->exchange == q->exchange && p->hide == q->hide && p->refresh_every == q->refresh_every);
    require(p->hide_mean == q->hide_mean);
}

static void require_same(const pdl_plan_file_t *a, const pdl_plan_file_t *b)
{
    const pdl_plan_t *p = a->plan, *q = b->plan;
    int               layers = pdl_model_layer_count(a->model);
    int64_t           stages = pdl_plan_stage_count(p);

    require(layers == pdl_model_layer_count(b->model));
    require(memcmp(p->modes, q->modes, (size_t)layers * sizeof(*p->modes)) == 0);
    require(p->virtual_stages == q->virtual_stages);
    require(memcmp(p->stage_first, q->stage_first, (size_t)(stages + 1) * sizeof(*p->stage_first)) == 0);
    for (int i = 0; i < p->mesh.axis_count; i++) {
        require(strcmp(p->collective[i].algorithm, q->collective[i].algorithm) == 0);
        require(p->collective[i].ranks_per_node == q->collective[i].ranks_per_node);
    }
    require(p->batch == q->batch && p->micro_batches == q->micro_batches);
    require(p->schedule == q->schedule);
    require(p->recompute == q->recompute && p->sharding == q->sharding && p->optimizer == q->optimizer);
    require(p->block_count == q->block_count);
    for (int k = 0; k < p->block_count; k++)
        require(p->block[k].last == q->block[k].last && p->block[k].policy == q->block[k].policy);
    require(p->precision == q->precision && p->run_mode == q->run_mode && p->stages_given == q->stages_given);
    require(a->has_projection == b->has_projection);
    require(a->projection.iteration_s == b->projection.iteration_s);
    require(a->projection.memory_bytes == b->projection.memory_bytes);
    require(strcmp(a->system_name, b->system_name) == 0 && strcmp(a->data_name, b->data_name) == 0);
    require(strcmp(p->strategy, q->strategy) == 0);
    require_same_policy(&p->data_policy, &q->data_policy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_plan_file_t file, again;
    char           *text;
    size_t          length;

    if (pdl_plan_read_memory((const char *)data, size, "fuzz.yaml", &file) != PDL_OK) {
        require(strstr(pdl_error_message(), "fuzz.yaml") != NULL);
        return 0;
    }
    require(pdl_plan_check(file.plan) == PDL_OK);
    text = write_again(&file, &length);
    require(pdl_plan_read_memory(text, length, "again.yaml", &again) == PDL_OK);
    pdl_plan_drop_unit_axes(file.plan); /* they are not written */
    require_same(&file, &again);
    pdl_plan_file_free(&again);
    pdl_plan_file_free(&file);
    free(text);
    return 0;
}
