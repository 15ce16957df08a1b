/*
 * The table of strategies and the meshes that each allows.
 */
#include <paradl/plan/strategy.h>
#include <stdio.h>
#include <string.h>

/* In order of simplicity, by which ties are broken. */
typedef enum row {
    SERIAL,
    DATA,
    SPATIAL,
    FILTER,
    CHANNEL,
    PIPELINE,
    TENSOR,
    CONTEXT,
    DATA_FILTER,
    DATA_CHANNEL,
    DATA_SPATIAL,
    DATA_TENSOR,
    DATA_CONTEXT,
    DATA_PIPELINE,
    THREE_D,
    THREE_D_CONTEXT,
    DATA_TENSOR_CONTEXT,
    FOUR_D,
    MIXED,
    ROW_COUNT
} row_t;

enum { MOST_GROUP = 1024, MOST_TENSOR_3D = 64 };

#define BIT(kind) (1u << PDL_AXIS_##kind)

static const pdl_strategy_t rows[ROW_COUNT];
static const pdl_strategy_t rows[ROW_COUNT] = {
    [SERIAL] = {"serial", "runs on one device", 0, .family = &rows[DATA_PIPELINE]},
    [DATA] = {"data", "splits the samples of a batch", BIT(DATA), .family = &rows[DATA_PIPELINE]},
    [SPATIAL] = {"spatial", "splits images and volumes in space", BIT(SPATIAL), .family = &rows[DATA_SPATIAL]},
    [FILTER] = {"filter", "splits the output channels of every layer", BIT(TENSOR), PDL_WIDTH_FILTER,
                .family = &rows[DATA_FILTER]},
    [CHANNEL] = {"channel", "splits the input channels of every layer", BIT(TENSOR), PDL_WIDTH_CHANNEL,
                 .family = &rows[DATA_CHANNEL]},
    [PIPELINE] = {"pipeline", "gives every device consecutive layers", BIT(PIPELINE),
                  .family = &rows[DATA_PIPELINE]},
    [TENSOR] = {"tensor", "splits output and input channels of layers in turn", BIT(TENSOR), PDL_WIDTH_PAIRS,
                .family = &rows[THREE_D]},
    [CONTEXT] = {"context", "splits the tokens of a sequence, and heads in attention", BIT(SPATIAL),
                 PDL_WIDTH_TOKENS, .family = &rows[THREE_D_CONTEXT]},
    [DATA_FILTER] = {"data+filter", "splits samples over groups, output channels within a group",
                     BIT(DATA) | BIT(TENSOR), PDL_WIDTH_FILTER, .most_inner = MOST_GROUP,
                     .family = &rows[DATA_FILTER]},
    [DATA_CHANNEL] = {"data+channel", "splits samples over groups, input channels within a group",
                      BIT(DATA) | BIT(TENSOR), PDL_WIDTH_CHANNEL, .most_inner = MOST_GROUP,
                      .family = &rows[DATA_CHANNEL]},
    [DATA_SPATIAL] = {"data+spatial", "splits samples over groups, each of them in space within a group",
                      BIT(DATA) | BIT(SPATIAL), .most_inner = MOST_GROUP, .family = &rows[DATA_SPATIAL]},
    [DATA_TENSOR] = {"data+tensor", "splits samples over groups, channels of layers in turn within a group",
                     BIT(DATA) | BIT(TENSOR), PDL_WIDTH_PAIRS, .most_inner = MOST_GROUP, .family = &rows[THREE_D]},
    [DATA_CONTEXT] = {"data+context", "splits samples over groups, tokens and heads within a group",
                      BIT(DATA) | BIT(SPATIAL), PDL_WIDTH_TOKENS, .most_inner = MOST_GROUP,
                      .family = &rows[THREE_D_CONTEXT]},
    [DATA_PIPELINE] = {"data+pipeline", "splits samples over groups, each of which is a pipeline",
                       BIT(DATA) | BIT(PIPELINE), .family = &rows[DATA_PIPELINE]},
    [THREE_D] = {"3d", "splits samples over pipelines whose stages split channels in turn",
                 BIT(DATA) | BIT(PIPELINE) | BIT(TENSOR), PDL_WIDTH_PAIRS, .most_inner = MOST_TENSOR_3D,
                 .family = &rows[THREE_D]},
    [THREE_D_CONTEXT] = {"3d-context", "splits samples over pipelines whose stages split tokens and heads",
                         BIT(DATA) | BIT(PIPELINE) | BIT(SPATIAL), PDL_WIDTH_TOKENS, .most_inner = MOST_TENSOR_3D,
                         .family = &rows[THREE_D_CONTEXT]},
    [DATA_TENSOR_CONTEXT] = {"data+tensor+context",
                             "splits samples over groups, tokens within a group, and channels of layers in turn",
                             BIT(DATA) | BIT(SPATIAL) | BIT(TENSOR), PDL_WIDTH_PAIRS, .most_inner = MOST_TENSOR_3D,
                             .family = &rows[FOUR_D]},
    [FOUR_D] = {"4d", "splits samples over pipelines whose stages split tokens, and channels in turn",
                BIT(DATA) | BIT(PIPELINE) | BIT(SPATIAL) | BIT(TENSOR), PDL_WIDTH_PAIRS,
                .most_inner = MOST_TENSOR_3D, .family = &rows[FOUR_D]},
    [MIXED] = {"mixed",
               "splits samples over groups or pipelines of them, and every layer in its own way within a group",
               BIT(DATA) | BIT(PIPELINE) | BIT(TENSOR), .per_layer = true},
};

const pdl_strategy_t *pdl_strategy_find(const char *name)
{
    char   names[320];
    size_t used = 0;

    for (int i = 0; i < ROW_COUNT; i++)
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    for (int i = 0; i < ROW_COUNT && used < sizeof(names); i++)
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
                                 i == 0               ? ""
                                 : i == ROW_COUNT - 1 ? " or "
                                                      : ", ",
                                 rows[i].name);
    pdl_error(PDL_ERR_INPUT, "unknown strategy \"%s\": use %s", name, names);
    return NULL;
}

const pdl_strategy_t *pdl_strategy_at(int place)
{
    return place >= 0 && place < ROW_COUNT ? &rows[place] : NULL;
}

int pdl_strategy_place(const pdl_strategy_t *strategy)
{
    return (int)(strategy - rows);
}

bool pdl_strategy_has(const pdl_strategy_t *strategy, pdl_axis_kind_t kind)
{
    return (strategy->axes & 1u << kind) != 0;
}

bool pdl_strategy_is_hybrid(const pdl_strategy_t *strategy)
{
    return (strategy->axes & (strategy->axes - 1)) != 0;
}

bool pdl_strategy_is_data(const pdl_strategy_t *strategy)
{
    return (strategy->axes & ~BIT(DATA)) == 0;
}

bool pdl_strategy_splits_tokens(const pdl_strategy_t *strategy)
{
    return pdl_strategy_has(strategy, PDL_AXIS_SPATIAL) &&
           (strategy->width == PDL_WIDTH_TOKENS || strategy->width == PDL_WIDTH_PAIRS);
}

bool pdl_strategy_splits_twice(const pdl_strategy_t *strategy)
{
    return pdl_strategy_has(strategy, PDL_AXIS_SPATIAL) && pdl_strategy_has(strategy, PDL_AXIS_TENSOR);
}

pdl_status_t pdl_strategy_check_mesh(const pdl_strategy_t *strategy, const pdl_mesh_t *mesh)
{
    for (int a = 0; a < mesh->axis_count; a++) {
        const pdl_axis_t *axis = &mesh->axis[a];
        if (axis->size > 1 && !pdl_strategy_has(strategy, axis->kind))
            return pdl_error(PDL_ERR_INPUT, "strategy %s has no %s axis, but the mesh has one of %lld",
                             strategy->name, pdl_axis_names[axis->kind], (long long)axis->size);
    }
    return PDL_OK;
}

/* The next size of an axis that divides the devices; 0: none. */
static int64_t next_size(bool has, int64_t devices, int64_t most, int64_t after)
{
    int64_t size = after + 1;

    if (!has) return after < 1 ? 1 : 0;
    while (size <= most && size <= devices && devices % size != 0) size++;
    return size <= most && size <= devices ? size : 0;
}

static bool allows(const pdl_strategy_t *s, bool inner, bool pipeline, int64_t devices,
                   const pdl_strategy_mesh_t *m)
{
    if (!pdl_strategy_is_hybrid(s)) return m->data == 1 || pdl_strategy_has(s, PDL_AXIS_DATA);
    return inner == (m->inner > 1) && pipeline == (m->pipeline > 1) &&
           pdl_strategy_splits_twice(s) == (m->context > 1) &&
           (m->data > 1 || (m->inner < devices && m->pipeline < devices));
}

/* The next sizes of the inner axes. */
static bool next_inner(const pdl_strategy_t *s, bool inner, int64_t devices, int64_t most, pdl_strategy_mesh_t *m)
{
    m->inner = next_size(inner, devices / m->context, most, m->inner);
    if (m->inner > 0) return true;
    m->context = next_size(pdl_strategy_splits_twice(s), devices, most, m->context);
    m->inner = 1;
    return m->context > 0;
}

bool pdl_strategy_next_mesh(const pdl_strategy_t *strategy, int64_t devices, int64_t layers,
                            pdl_strategy_mesh_t *mesh)
{
    bool    inner = (strategy->axes & (BIT(SPATIAL) | BIT(TENSOR))) != 0, hybrid = pdl_strategy_is_hybrid(strategy);
    bool    pipeline = pdl_strategy_has(strategy, PDL_AXIS_PIPELINE);
    int64_t most_inner = hybrid ? strategy->most_inner : devices, most_stages = hybrid ? layers - 1 : devices;

    if (strategy->axes == 0) devices = 1;
    if (mesh->inner == 0) mesh->inner = mesh->context = 1;
    do {
        mesh->pipeline = next_size(pipeline, devices / (mesh->inner * mesh->context), most_stages, mesh->pipeline);
        if (mesh->pipeline == 0) {
            if (!next_inner(strategy, inner, devices, most_inner, mesh)) return false;
            mesh->pipeline = 1;
        }
        mesh->data = devices / (mesh->inner * mesh->context) / mesh->pipeline;
    } while (!allows(strategy, inner, pipeline, devices, mesh));
    return true;
}
