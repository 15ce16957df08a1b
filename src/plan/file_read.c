/*
 * Reads a plan file: everything it says is checked here against the format and the model; then
 * pdl_plan_check() sees whether the plan makes sense as a whole.
 */
#include "plan/blocks.h"
#include "plan/file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pdl_status_t read_name(const pdl_yaml_t *mapping, const char *key, pdl_need_t need, char *name, size_t size)
{
    const char  *text = "";
    pdl_status_t st = pdl_yaml_get_string(mapping, key, need, &text);

    if (st != PDL_OK) return st;
    if (strlen(text) >= size) {
        return pdl_yaml_error(pdl_yaml_find(mapping, key), "%s: expected at most %zu characters, found %zu", key,
                              size - 1, strlen(text));
    }
    memcpy(name, text, strlen(text) + 1);
    return PDL_OK;
}

/* A path in a plan is relative to the plan. Plans of the first version had paths relative to the folder in which the
   command ran: what is not beside the plan, but there, is taken with a note. A word without a slash is a name, unless it has
   a dot and there is such a file. */
static void resolve(const char *plan, char *name, size_t size, pdl_plan_file_t *file)
{
    const char *slash = plan != NULL ? strrchr(plan, '/') : NULL;
    char        beside[2048];
    int         length;

    if (slash == NULL || name[0] == '/' || (strchr(name, '/') == NULL && strchr(name, '.') == NULL)) return;
    length = snprintf(beside, sizeof(beside), "%.*s/%s", (int)(slash - plan), plan, name);
    if (length < 0 || (size_t)length >= size) return;
    if (access(beside, F_OK) != 0) {
        bool here = access(name, F_OK) == 0;
        if (here)
            snprintf(file->note, sizeof(file->note), "%.160s names %.160s, which is not beside it: taken from here",
                     plan, name);
        if (here || strchr(name, '/') == NULL) return;
    }
    memcpy(name, beside, (size_t)length + 1);
}

/* An enumeration is as wide as the compiler likes, so it is read as int and assigned by the caller. */
static pdl_status_t read_choice(const pdl_yaml_t *mapping, const char *key, const char *const *names, int count,
                                int *choice)
{
    return pdl_yaml_get_enum(mapping, key, names, count, PDL_OPTIONAL, choice);
}

static pdl_status_t check_hash(const pdl_yaml_t *root, const pdl_plan_file_t *file)
{
    const pdl_yaml_t *node = pdl_yaml_find(root, "model_hash");
    const char       *text = NULL;
    char              hash[17];
    pdl_status_t      st = pdl_yaml_get_string(root, "model_hash", PDL_OPTIONAL, &text);

    if (st != PDL_OK || text == NULL) return st;
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) {
        return pdl_yaml_error(node, "model_hash: expected 16 hexadecimal digits, found \"%.60s\"", text);
    }
    snprintf(hash, sizeof(hash), "%016" PRIx64, pdl_model_hash(file->model));
    if (strcmp(hash, text) == 0) return PDL_OK;
    return pdl_yaml_error(node,
                          "model %s changed since the plan was made (its hash was %s and is %s): plan again, or "
                          "remove model_hash if the plan still fits",
                          file->model_name, text, hash);
}

/* lora: {rank: 16, layers: attention} */
static pdl_status_t read_lora(const pdl_yaml_t *root, pdl_plan_file_t *file)
{
    static const char *const keys[] = {"rank", "layers", NULL};
    const pdl_yaml_t        *node = pdl_yaml_find(root, "lora");
    pdl_model_t             *adapted;
    pdl_lora_t               lora = {0};
    int                      layers = PDL_LORA_ATTENTION;
    pdl_status_t             st;

    if (node == NULL) return PDL_OK;
    st = pdl_yaml_check_keys(node, keys);
    if (st == PDL_OK) st = pdl_yaml_get_int(node, "rank", 1, INT32_MAX, PDL_REQUIRED, &lora.rank);
    if (st == PDL_OK) st = read_choice(node, "layers", pdl_lora_layers_names, PDL_LORA_LAYERS_COUNT, &layers);
    if (st != PDL_OK) return st;
    lora.layers = (pdl_lora_layers_t)layers;
    st = pdl__plan_add_place(node, pdl_model_adapt(file->model, &lora, &adapted));
    if (st != PDL_OK) return st;
    pdl_model_destroy(file->model);
    file->model = adapted;
    return PDL_OK;
}

static pdl_status_t read_model(const pdl_yaml_t *root, const char *plan, pdl_plan_file_t *file)
{
    pdl_status_t st = read_name(root, "model", PDL_REQUIRED, file->model_name, sizeof(file->model_name));

    if (st != PDL_OK) return st;
    resolve(plan, file->model_name, sizeof(file->model_name), file);
    st = pdl__plan_add_place(pdl_yaml_find(root, "model"), pdl_model_load(file->model_name, &file->model));
    if (st == PDL_OK) st = read_lora(root, file);
    return st == PDL_OK ? check_hash(root, file) : st;
}

/* Kind and extent from the name of an axis. Numbers of axes that share a name are checked when all are known. */
static pdl_status_t parse_axis(const char *name, const pdl_yaml_t *node, pdl_axis_t *axis)
{
    for (int k = 0; k < PDL_AXIS_KIND_COUNT; k++) {
        size_t length = strlen(pdl_axis_names[k]);

        if (strncmp(name, pdl_axis_names[k], length) != 0) continue;
        if (name[length] != '\0' && name[length] != '_') continue;
        axis->kind = (pdl_axis_kind_t)k;
        axis->dim = 0;
        if (k != PDL_AXIS_SPATIAL || name[length] == '\0') return PDL_OK;
        if (name[length + 1] < '0' || name[length + 1] >= '0' + PDL_MAX_SPACE) break;
        axis->dim = name[length + 1] - '0';
        return PDL_OK;
    }
    return pdl_yaml_error(node,
                          "unknown axis \"%.60s\": expected pipeline, data, spatial_0, spatial_1, spatial_2 or "
                          "tensor",
                          name);
}

static pdl_status_t read_axis(const pdl_yaml_t *item, pdl_axis_t *axis)
{
    pdl_status_t st = pdl_yaml_expect(item, PDL_YAML_MAPPING, "an axis such as {data: 4}");

    if (st != PDL_OK) return st;
    if (pdl_yaml_size(item) != 1) {
        return pdl_yaml_error(item,
                              "expected one axis such as {data: 4}, found %zu: the axes are a list, as their "
                              "order matters",
                              pdl_yaml_size(item));
    }
    st = parse_axis(pdl_yaml_key(item, 0), item, axis);
    if (st != PDL_OK) return st;
    return pdl_yaml_int(pdl_yaml_value(item, 0), 1, PDL__PLAN_MAX_RANKS, &axis->size);
}

/* Every axis must have the name by which modes and collectives will call it. */
static pdl_status_t check_axis_names(const pdl_yaml_t *list, const pdl_mesh_t *mesh)
{
    char name[PDL__AXIS_NAME_SIZE];

    for (int a = 0; a < mesh->axis_count; a++) {
        const pdl_yaml_t *item = pdl_yaml_item(list, (size_t)a);

        if (pdl__axis_find(mesh, pdl_yaml_key(item, 0)) == a) continue;
        pdl__axis_name(mesh, a, name);
        return pdl_yaml_error(item, "axis \"%.60s\" must be called %s here", pdl_yaml_key(item, 0), name);
    }
    return PDL_OK;
}

static pdl_status_t read_mesh(const pdl_yaml_t *root, pdl_mesh_t *mesh)
{
    const pdl_yaml_t *list = pdl_yaml_find(root, "mesh");
    int64_t           size = 1;
    pdl_status_t      st;

    if (list == NULL) return pdl_yaml_error(root, "key \"mesh\" is missing");
    st = pdl_yaml_expect(list, PDL_YAML_SEQUENCE, "a list of axes such as [{data: 4}, {tensor: 2}]");
    if (st != PDL_OK) return st;
    if (pdl_yaml_size(list) > PDL_MAX_AXES) {
        return pdl_yaml_error(list, "expected at most %d axes, found %zu", PDL_MAX_AXES, pdl_yaml_size(list));
    }
    for (size_t i = 0; i < pdl_yaml_size(list); i++) {
        pdl_axis_t *axis = &mesh->axis[i];

        st = read_axis(pdl_yaml_item(list, i), axis);
        if (st != PDL_OK) return st;
        if (axis->size > PDL__PLAN_MAX_RANKS / size) {
            return pdl_yaml_error(pdl_yaml_item(list, i), "the mesh has more than %d ranks", PDL__PLAN_MAX_RANKS);
        }
        size *= axis->size;
        mesh->axis_count++;
    }
    return check_axis_names(list, mesh);
}

static pdl_status_t read_data(const pdl_yaml_t *root, const char *plan, pdl_plan_file_t *file, int64_t *batch)
{
    static const char *const keys[] = {"set", "batch", NULL};
    const pdl_yaml_t        *data = pdl_yaml_find(root, "data");
    pdl_status_t             st;

    if (data == NULL)
        return pdl_yaml_error(root, "key \"data\" is missing: expected one such as data: {batch: 256}");
    st = pdl_yaml_check_keys(data, keys);
    if (st == PDL_OK) st = read_name(data, "set", PDL_OPTIONAL, file->data_name, sizeof(file->data_name));
    if (st == PDL_OK) resolve(plan, file->data_name, sizeof(file->data_name), file);
    if (st == PDL_OK) st = pdl_yaml_get_int(data, "batch", 1, PDL__PLAN_MAX_BATCH, PDL_REQUIRED, batch);
    return st;
}

/* One stage begins at the layer named by a list item, after where the stage before it begins. */
static pdl_status_t read_stage(const pdl_yaml_t *item, pdl_plan_t *plan, size_t stage)
{
    const char  *name;
    pdl_status_t st = pdl_yaml_string(item, &name);
    int          layer;

    if (st != PDL_OK) return st;
    layer = pdl_model_find_layer(plan->model, name);
    if (layer < 0) {
        return pdl_yaml_error(item, "model %.100s has no layer \"%.100s\" for a stage to begin with",
                              pdl_model_name(plan->model), name);
    }
    if (stage == 0 && layer != 0) {
        return pdl_yaml_error(item, "the first stage must begin with the first layer, \"%.100s\", not \"%.100s\"",
                              pdl_model_layer(plan->model, 0)->name, name);
    }
    if (stage > 0 && layer <= plan->stage_first[stage - 1]) {
        return pdl_yaml_error(item,
                              "stage %zu begins with \"%.100s\", which does not come after the beginning of the "
                              "stage before it",
                              stage, name);
    }
    plan->stage_first[stage] = layer;
    return PDL_OK;
}

/* Files of earlier versions have the stages of ranks also where ranks have several virtual stages each. */
static bool is_older_list(const pdl_yaml_t *node, const pdl_plan_t *plan)
{
    return plan->virtual_stages > 1 &&
           pdl_yaml_size(node) == (size_t)pdl_mesh_extent(&plan->mesh, PDL_AXIS_PIPELINE);
}

static pdl_status_t read_stages(const pdl_yaml_t *node, pdl_plan_file_t *file)
{
    pdl_plan_t *plan = file->plan;
    size_t      stages = (size_t)pdl_plan_stage_count(plan);

    if (pdl_yaml_kind(node) == PDL_YAML_SCALAR && strcmp(pdl_yaml_text(node), "auto") == 0) return PDL_OK;
    if (pdl_yaml_kind(node) != PDL_YAML_SEQUENCE) {
        return pdl_yaml_error(node,
                              "stages: expected auto or a list with the name of the first layer of each stage");
    }
    if (is_older_list(node, plan)) {
        snprintf(file->note, sizeof(file->note),
                 "pipeline.stages names the %zu stages of ranks, not their %zu virtual stages: these are cut here",
                 pdl_yaml_size(node), stages);
        return PDL_OK;
    }
    if (pdl_yaml_size(node) != stages) {
        return pdl_yaml_error(node, "stages: expected %zu names, one for each %s of the pipeline axis, found %zu",
                              stages, plan->virtual_stages > 1 ? "virtual stage" : "rank", pdl_yaml_size(node));
    }
    for (size_t s = 0; s < stages; s++) {
        pdl_status_t st = read_stage(pdl_yaml_item(node, s), plan, s);

        if (st != PDL_OK) return st;
    }
    plan->stages_given = true;
    return PDL_OK;
}

static pdl_status_t read_pipeline(const pdl_yaml_t *root, pdl_plan_file_t *file)
{
    pdl_plan_t              *plan = file->plan;
    static const char *const keys[] = {"schedule", "micro_batches", "virtual_stages", "stages", NULL};
    const pdl_yaml_t        *node = pdl_yaml_find(root, "pipeline"), *stages;
    int64_t                  chunks = plan->virtual_stages;
    int64_t      most = (pdl_model_layer_count(plan->model) - 1) / pdl_mesh_extent(&plan->mesh, PDL_AXIS_PIPELINE);
    int          schedule = (int)plan->schedule;
    pdl_status_t st;

    if (node == NULL) return PDL_OK;
    st = pdl_yaml_check_keys(node, keys);
    if (st == PDL_OK) st = read_choice(node, "schedule", pdl_schedule_names, PDL_SCHEDULE_COUNT, &schedule);
    if (st == PDL_OK) {
        st = pdl_yaml_get_int(node, "micro_batches", 1, PDL__PLAN_MAX_BATCH, PDL_OPTIONAL, &plan->micro_batches);
    }
    /* Every chunk of every rank needs a layer. */
    if (st == PDL_OK) st = pdl_yaml_get_int(node, "virtual_stages", 1, most, PDL_OPTIONAL, &chunks);
    if (st != PDL_OK) return st;
    plan->schedule = (pdl_pipeline_schedule_t)schedule;
    st = pdl_plan_set_virtual_stages(plan, chunks);
    stages = pdl_yaml_find(node, "stages");
    return st == PDL_OK && stages != NULL ? read_stages(stages, file) : st;
}

static pdl_status_t read_memory(const pdl_yaml_t *root, pdl_plan_t *plan)
{
    static const char *const keys[] = {"recompute", "sharding", "sequence_parallel",
                                       "optimizer", "weights",  "update",
                                       "blocks",    NULL};
    const pdl_yaml_t        *node = pdl_yaml_find(root, "memory");
    int recompute = (int)plan->recompute, sharding = (int)plan->sharding, optimizer = (int)plan->optimizer_tier;
    int weights = (int)plan->weights_tier, update = (int)plan->update_tier;
    pdl_status_t st;

    if (node == NULL) return PDL_OK;
    st = pdl_yaml_check_keys(node, keys);
    if (st == PDL_OK) st = read_choice(node, "recompute", pdl_recompute_names, PDL_RECOMPUTE_COUNT, &recompute);
    if (st == PDL_OK) st = read_choice(node, "sharding", pdl_sharding_names, PDL_SHARDING_COUNT, &sharding);
    if (st == PDL_OK) st = read_choice(node, "optimizer", pdl_tier_names, PDL_TIER_COUNT, &optimizer);
    if (st == PDL_OK) st = read_choice(node, "weights", pdl_tier_names, PDL_TIER_DISK, &weights);
    if (st == PDL_OK) st = read_choice(node, "update", pdl_tier_names, PDL_TIER_DISK, &update);
    if (st == PDL_OK) st = pdl_yaml_get_bool(node, "sequence_parallel", PDL_OPTIONAL, &plan->sequence_parallel);
    if (st != PDL_OK) return st;
    if (weights == PDL_TIER_HOST && pdl_yaml_find(node, "optimizer") == NULL) optimizer = PDL_TIER_HOST;
    plan->weights_tier = (pdl_tier_t)weights;
    plan->update_tier = (pdl_tier_t)update;
    plan->recompute = (pdl_recompute_t)recompute;
    plan->sharding = (pdl_sharding_t)sharding;
    plan->optimizer_tier = (pdl_tier_t)optimizer;
    return PDL_OK;
}

/* Which parts the machine has is known where the plan is timed. */
static pdl_status_t read_parts(const pdl_yaml_t *root, pdl_plan_t *plan)
{
    const pdl_yaml_t *list = pdl_yaml_find(root, "parts");
    pdl_status_t      st = PDL_OK;

    if (list == NULL) return PDL_OK;
    st = pdl_yaml_expect(list, PDL_YAML_SEQUENCE, "the parts of the machine, such as [a100, v100]");
    if (st == PDL_OK && (pdl_yaml_size(list) == 0 || pdl_yaml_size(list) > PDL_MAX_PARTS))
        st = pdl_yaml_error(list, "expected 1 to %d parts, found %zu", PDL_MAX_PARTS, pdl_yaml_size(list));
    for (size_t i = 0; st == PDL_OK && i < pdl_yaml_size(list); i++) {
        const char *name;

        st = pdl_yaml_string(pdl_yaml_item(list, i), &name);
        if (st == PDL_OK && (name[0] == '\0' || strlen(name) >= PDL_PART_NAME))
            st = pdl_yaml_error(pdl_yaml_item(list, i), "expected the name of a part, of 1 to %d characters",
                                PDL_PART_NAME - 1);
        if (st == PDL_OK) memcpy(plan->part[plan->part_count++], name, strlen(name) + 1);
    }
    return st;
}

static pdl_status_t read_settings(const pdl_yaml_t *root, pdl_plan_t *plan)
{
    int          precision = (int)plan->precision, optimizer = (int)plan->optimizer, mode = (int)plan->run_mode;
    pdl_status_t st = read_choice(root, "precision", pdl_precision_names, PDL_PRECISION_COUNT, &precision);

    if (st == PDL_OK) st = read_choice(root, "optimizer", pdl_optimizer_names, PDL_OPTIMIZER_COUNT, &optimizer);
    if (st == PDL_OK) st = read_choice(root, "mode", pdl__run_mode_names, 2, &mode);
    if (st == PDL_OK) st = pdl_yaml_get_bool(root, "sync_batch_norm", PDL_OPTIONAL, &plan->sync_batch_norm);
    if (st != PDL_OK) return st;
    plan->precision = (pdl_precision_t)precision;
    plan->optimizer = (pdl_optimizer_t)optimizer;
    plan->run_mode = (pdl_run_mode_t)mode;
    return PDL_OK;
}

static pdl_status_t read_projection(const pdl_yaml_t *root, pdl_plan_file_t *file)
{
    const pdl_yaml_t *node = pdl_yaml_find(root, "projected");
    const char       *keys[16] = {NULL};
    pdl_status_t      st;

    if (node == NULL) return PDL_OK;
    for (int k = 0; pdl__projection_keys[k].key != NULL; k++) keys[k] = pdl__projection_keys[k].key;
    st = pdl_yaml_check_keys(node, keys);
    for (const pdl__projection_key_t *k = pdl__projection_keys; st == PDL_OK && k->key != NULL; k++) {
        double *value = (double *)((char *)&file->projection + k->offset);

        st = pdl_yaml_get_number(node, k->key, k->unit, PDL_OPTIONAL, value);
    }
    file->has_projection = st == PDL_OK;
    return st;
}

/* What the plan is made for: enough to create it. */
static pdl_status_t read_subject(const pdl_yaml_t *root, const char *plan, pdl_plan_file_t *file)
{
    pdl_mesh_t   mesh = {.axis_count = 0};
    int64_t      batch = 0;
    pdl_status_t st = read_model(root, plan, file);

    if (st == PDL_OK) st = read_name(root, "system", PDL_OPTIONAL, file->system_name, sizeof(file->system_name));
    if (st == PDL_OK) resolve(plan, file->system_name, sizeof(file->system_name), file);
    if (st == PDL_OK) st = read_data(root, plan, file, &batch);
    if (st == PDL_OK) st = read_mesh(root, &mesh);
    if (st != PDL_OK) return st;
    st = pdl__plan_add_place(pdl_yaml_find(root, "mesh"), pdl_plan_create(file->model, &mesh, batch, &file->plan));
    if (st != PDL_OK) return st;
    return read_name(root, "strategy", PDL_OPTIONAL, file->plan->strategy, sizeof(file->plan->strategy));
}

/* Memory comes before the modes because a preset looks at sequence_parallel, its blocks after the stages. */
static pdl_status_t read_plan(const pdl_yaml_t *root, const char *plan, pdl_plan_file_t *file)
{
    static const char *const keys[] = {"paradl",      "model",           "model_hash",  "system",
                                       "data",        "strategy",        "mesh",        "modes",
                                       "pipeline",    "memory",          "collectives", "precision",
                                       "optimizer",   "sync_batch_norm", "mode",        "projected",
                                       "data_policy", "parts",           "lora",        NULL};
    pdl_status_t             st = pdl_yaml_check_format(root, "plan");

    if (st == PDL_OK) st = pdl_yaml_check_keys(root, keys);
    if (st == PDL_OK) st = read_subject(root, plan, file);
    if (st == PDL_OK) st = read_memory(root, file->plan);
    if (st == PDL_OK) st = pdl__plan_read_modes(root, file->plan);
    if (st == PDL_OK) st = read_pipeline(root, file);
    if (st == PDL_OK) st = pdl__blocks_read(pdl_yaml_find(root, "memory"), file->plan);
    if (st == PDL_OK) st = pdl__plan_read_collectives(root, file);
    if (st == PDL_OK) st = read_settings(root, file->plan);
    if (st == PDL_OK) st = read_parts(root, file->plan);
    if (st == PDL_OK) st = pdl__data_policy_read(root, &file->plan->data_policy);
    if (st == PDL_OK) st = read_projection(root, file);
    return st;
}

/* Takes the document, whether it succeeds or not. `path`: where it is; NULL for one in memory. */
static pdl_status_t read_document(pdl_yaml_doc_t *doc, const char *name, const char *path, pdl_plan_file_t *file)
{
    pdl_plan_file_t made = {.model = NULL};
    pdl_status_t    st = read_plan(pdl_yaml_root(doc), path, &made);

    pdl_yaml_destroy(doc);
    if (st == PDL_OK) {
        st = pdl_plan_check(made.plan);
        if (st != PDL_OK) pdl_error(st, "%s: %s", name, pdl_error_message());
    }
    if (st != PDL_OK) {
        pdl_plan_file_free(&made);
        return st;
    }
    *file = made;
    return PDL_OK;
}

pdl_status_t pdl_plan_read(const char *path, pdl_plan_file_t *file)
{
    pdl_yaml_doc_t *doc;
    pdl_status_t    st = pdl_yaml_read_file(path, &doc);

    return st == PDL_OK ? read_document(doc, path, path, file) : st;
}

pdl_status_t pdl_plan_read_memory(const char *text, size_t length, const char *name, pdl_plan_file_t *file)
{
    pdl_yaml_doc_t *doc;
    pdl_status_t    st = pdl_yaml_read_memory(text, length, name, &doc);

    return st == PDL_OK ? read_document(doc, name, NULL, file) : st;
}

void pdl_plan_file_free(pdl_plan_file_t *file)
{
    pdl_plan_destroy(file->plan);
    pdl_model_destroy(file->model);
    memset(file, 0, sizeof(*file));
}
