/*
 * The fastest plan for a graph. The library's heuristics propose some; those that want too much memory, change bits from run to
 * run or lose some of them are left out; the others are timed on random numbers. What was chosen is kept under its engine
 * and knobs, because a choice made anew may differ, and with it the last digits.
 *
 * Measured on an H200 over all convolutions of ResNet-50: best of about 16 plans 13.95 ms, the first one 14.8; WRN-28-10 28.2
 * against 32.5.
 */
#include "tensor/plugin/cuda/conv/cudnn_plan.h"

#include "tensor/plugin/cuda/choices.h"
#include "tensor/plugin/cuda/matmul/matmul.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESULTS    64 /* of each heuristic */
#define PROPOSALS  8  /* taken of them */
#define CANDIDATES (2 * PROPOSALS)
#define KNOBS      32
#define WARM_UPS   2 /* after the first run */
#define TIMED_RUNS 6
#define HOPELESS   3.0  /* times slower than the best: not timed any further, */
#define NEVER      30.0 /* or in the first run, which may load the kernel */

typedef pdl__cudnn_descriptor_t descriptor_t;

typedef struct search {
    pdl__cudnn_graph_t      *graph;
    const pdl__cudnn_wish_t *wish;
    descriptor_t             operations; /* the whole graph */
    pdl__cudnn_plan_t       *found[CANDIDATES];
    int                      count;
} search_t;

/* ---- names of plans: "12 1=3 5=0", engine and knobs ---- */

static bool get(const pdl__cudnn_t *library, descriptor_t from, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t most, int64_t *count, void *values)
{
    *count = 0;
    return library->BackendGetAttribute(from, name, type, most, count, values) == CUDNN_STATUS_SUCCESS;
}

static bool append_knob(const pdl__cudnn_t *library, descriptor_t knob, char *name, size_t size)
{
    cudnnBackendKnobType_t type;
    int64_t                value, count;
    size_t                 at = strlen(name);

    if (!get(library, knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &count, &type) ||
        !get(library, knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &count, &value))
        return false;
    return (size_t)snprintf(name + at, size - at, " %d=%lld", (int)type, (long long)value) < size - at;
}

/* An engine as the library proposes it, and what is known of it. */
typedef struct engine {
    int64_t  index;
    char     name[sizeof(((pdl__cudnn_plan_t *)0)->name)];
    unsigned notes; /* bits of cudnnBackendNumericalNote_t */
} engine_t;

static bool read_engine(pdl__cudnn_graph_t *graph, descriptor_t config, engine_t *engine)
{
    const pdl__cudnn_t         *library = graph->library;
    descriptor_t                part = pdl__cudnn_make(graph, CUDNN_BACKEND_ENGINE_DESCRIPTOR), knob[KNOBS];
    cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t                     count, index = 0;
    int                         made = graph->made_count;
    bool                        known;

    *engine = (engine_t){.notes = 0};
    known = get(library, config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &part) &&
            get(library, part, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count, &index);
    if (known && get(library, part, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                     CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, note))
        for (int64_t i = 0; i < count; i++) engine->notes |= 1u << note[i];
    engine->index = index;
    snprintf(engine->name, sizeof(engine->name), "%lld", (long long)index);
    for (int i = 0; i < KNOBS; i++) knob[i] = pdl__cudnn_make(graph, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    if (known && graph->status == PDL_OK &&
        get(library, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, KNOBS, &count, knob))
        for (int64_t i = 0; i < count; i++)
            known = known && append_knob(library, knob[i], engine->name, sizeof(engine->name));
    while (graph->made_count > made) (void)library->BackendDestroyDescriptor(graph->made[--graph->made_count]);
    return known && graph->status == PDL_OK;
}

/* The configuration that a name stands for; NULL: this library has no such one. */
static descriptor_t find_engine(search_t *search, const char *name)
{
    pdl__cudnn_graph_t *graph = search->graph;
    descriptor_t        engine = pdl__cudnn_make(graph, CUDNN_BACKEND_ENGINE_DESCRIPTOR), config, knob[KNOBS];
    char               *rest;
    int64_t             index = strtoll(name, &rest, 10), count = 0;

    pdl__cudnn_refer(graph, engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, search->operations);
    pdl__cudnn_set(graph, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
    if (graph->library->device != NULL)
        pdl__cudnn_refer(graph, engine, CUDNN_ATTR_ENGINE_DEVICEPROP, graph->library->device);
    pdl__cudnn_finish(graph, engine, "engine");
    for (; *rest == ' ' && count < KNOBS; count++) {
        int     type = (int)strtol(rest, &rest, 10);
        int64_t value = *rest == '=' ? strtoll(rest + 1, &rest, 10) : 0;

        knob[count] = pdl__cudnn_make(graph, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        pdl__cudnn_set(graph, knob[count], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1,
                       &(cudnnBackendKnobType_t){(cudnnBackendKnobType_t)type});
        pdl__cudnn_set(graph, knob[count], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value);
        pdl__cudnn_finish(graph, knob[count], "knob");
    }
    config = pdl__cudnn_make(graph, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    pdl__cudnn_refer(graph, config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    if (count > 0)
        pdl__cudnn_set(graph, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
                       knob);
    pdl__cudnn_finish(graph, config, "engine");
    return graph->status == PDL_OK ? config : NULL;
}

/* ---- plans ---- */

/* NULL: it cannot be, or wants more memory than there is. */
static pdl__cudnn_plan_t *make_plan(const search_t *search, descriptor_t config, const char *name)
{
    pdl__cudnn_t      *library = search->graph->library;
    pdl__cudnn_plan_t *plan = calloc(1, sizeof(*plan));
    int64_t            bytes = 0, count;
    cudnnStatus_t      error;

    if (plan == NULL) return NULL;
    plan->library = library;
    snprintf(plan->name, sizeof(plan->name), "%s", name);
    error = library->BackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan->plan);
    if (error == CUDNN_STATUS_SUCCESS)
        error = library->BackendSetAttribute(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
    if (error == CUDNN_STATUS_SUCCESS && library->device != NULL)
        error = library->BackendSetAttribute(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &library->device);
    if (error == CUDNN_STATUS_SUCCESS) error = library->BackendFinalize(plan->plan);
    if (error == CUDNN_STATUS_SUCCESS &&
        get(library, plan->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes) &&
        (size_t)bytes <= search->wish->workspace) {
        plan->bytes = (size_t)bytes;
        return plan;
    }
    pdl__cudnn_destroy(plan);
    return NULL;
}

static bool is_wished(const pdl__cudnn_wish_t *wish, const engine_t *engine)
{
    if (wish->refused > 0 && engine->index == wish->refused) return false;
    return !wish->repeatable || (engine->notes >> CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC & 1) == 0;
}

static bool is_known(const search_t *search, const char *name)
{
    for (int i = 0; i < search->count; i++)
        if (strcmp(search->found[i]->name, name) == 0) return true;
    return false;
}

/* The plans of one heuristic that are wished. */
static void propose(search_t *search, cudnnBackendHeurMode_t mode)
{
    pdl__cudnn_graph_t *graph = search->graph;
    descriptor_t        heuristic = pdl__cudnn_make(graph, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), config[RESULTS];
    int64_t             count = 0;
    int                 taken = 0, most = search->wish->most > 0 ? search->wish->most : CANDIDATES;

    pdl__cudnn_refer(graph, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, search->operations);
    pdl__cudnn_set(graph, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (graph->library->device != NULL)
        pdl__cudnn_refer(graph, heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, graph->library->device);
    pdl__cudnn_finish(graph, heuristic, "heuristic");
    for (int i = 0; i < RESULTS; i++) config[i] = pdl__cudnn_make(graph, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (graph->status == PDL_OK)
        (void)get(graph->library, heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, RESULTS,
                  &count, config);
    for (int64_t i = 0; i < count && taken < PROPOSALS && search->count < most; i++) {
        engine_t           engine;
        pdl__cudnn_plan_t *plan;

        if (!read_engine(graph, config[i], &engine) || !is_wished(search->wish, &engine) ||
            is_known(search, engine.name))
            continue;
        plan = make_plan(search, config[i], engine.name);
        if (plan == NULL) continue;
        search->found[search->count++] = plan;
        taken++;
    }
    /* A heuristic that has nothing to say is no error. */
    if (graph->status == PDL_ERR_UNSUPPORTED) graph->status = PDL_OK;
}

/* ---- trials ---- */

typedef struct trial {
    const search_t      *search;
    pdl__gpu_t          *gpu;
    pdl_tensor_stream_t *stream;
    pdl_tensor_event_t  *from, *to;
    void                *address[PDL__CUDNN_TENSORS], *workspace;
} trial_t;

static void end_trial(trial_t *trial)
{
    const pdl__cuda_runtime_t *runtime = &pdl__cuda_runtime;

    for (int i = 0; i < trial->search->wish->tensors; i++)
        if (trial->search->wish->value[i] == NULL)
            runtime->release(trial->gpu, PDL_SPACE_DEVICE, trial->address[i]);
    runtime->release(trial->gpu, PDL_SPACE_DEVICE, trial->workspace);
    if (trial->from != NULL) runtime->event_destroy(trial->gpu, trial->from);
    if (trial->to != NULL) runtime->event_destroy(trial->gpu, trial->to);
    if (trial->stream != NULL) runtime->stream_destroy(trial->gpu, trial->stream);
}

/* Random numbers everywhere: zeros take less power and are faster. */
static pdl_status_t begin_trial(const search_t *search, trial_t *trial)
{
    const pdl__cuda_runtime_t *runtime = &pdl__cuda_runtime;
    const pdl__cudnn_wish_t   *wish = search->wish;
    pdl__gpu_t                *gpu = search->graph->library->gpu;
    pdl_status_t               status;

    *trial = (trial_t){.search = search, .gpu = gpu};
    status = runtime->stream_create(gpu, &trial->stream);
    if (status == PDL_OK) status = runtime->event_create(gpu, &trial->from);
    if (status == PDL_OK) status = runtime->event_create(gpu, &trial->to);
    if (status == PDL_OK) status = runtime->alloc(gpu, PDL_SPACE_DEVICE, wish->workspace, &trial->workspace);
    for (int i = 0; i < wish->tensors && status == PDL_OK; i++) {
        if (wish->value[i] != NULL) {
            trial->address[i] = wish->value[i];
            continue;
        }
        status = runtime->alloc(gpu, PDL_SPACE_DEVICE, wish->bytes[i], &trial->address[i]);
        if (status == PDL_OK)
            status = pdl__cuda_fill_random(gpu, trial->stream, wish->type, trial->address[i],
                                           (int64_t)(wish->bytes[i] / (wish->type == PDL_DTYPE_BF16 ? 2 : 4)));
    }
    return status;
}

/* Seconds of a run; negative: it does not run. */
static double time_plan(const trial_t *trial, pdl__cudnn_plan_t *plan, int runs)
{
    const pdl__cuda_runtime_t *runtime = &pdl__cuda_runtime;
    const pdl__cudnn_wish_t   *wish = trial->search->wish;
    pdl_status_t               status = runtime->record(trial->gpu, trial->stream, trial->from);

    for (int i = 0; status == PDL_OK && i < runs; i++)
        status = pdl__cudnn_run(plan, trial->stream, wish->tensors, wish->id, trial->address, trial->workspace);
    if (status == PDL_OK) status = runtime->record(trial->gpu, trial->stream, trial->to);
    if (status == PDL_OK) status = runtime->synchronise(trial->gpu, trial->stream);
    return status == PDL_OK ? runtime->elapsed(trial->gpu, trial->from, trial->to) / runs : -1;
}

/* A plan that fails may leave a GPU that nothing runs on any more. */
static pdl_status_t check_gpu(const trial_t *trial, const pdl__cudnn_plan_t *plan)
{
    pdl_status_t status = pdl__cuda_runtime.synchronise(trial->gpu, trial->stream);

    if (status == PDL_OK) return PDL_OK;
    return pdl_error(status, "cuDNN: plan %s fails, and the GPU with it: %s", plan->name, trial->search->wish->key);
}

/* -1: none runs. */
static pdl_status_t find_fastest(const trial_t *trial, int *chosen)
{
    double       best = -1;
    pdl_status_t status = PDL_OK;

    *chosen = -1;
    for (int i = 0; i < trial->search->count; i++) {
        pdl__cudnn_plan_t *plan = trial->search->found[i];
        double             time = time_plan(trial, plan, 1);

        if (time < 0) status = check_gpu(trial, plan);
        if (status != PDL_OK) return status;
        if (time < 0 || (best > 0 && time > NEVER * best)) continue;
        time = time_plan(trial, plan, WARM_UPS);
        if (time < 0 || (best > 0 && time > HOPELESS * best)) continue;
        time = time_plan(trial, plan, TIMED_RUNS);
        if (time < 0 || (best > 0 && time >= best)) continue;
        best = time;
        *chosen = i;
    }
    return PDL_OK;
}

/* The one that is kept; where memory for a trial is missing, the first. */
static pdl_status_t choose(search_t *search, pdl__cudnn_plan_t **plan)
{
    pdl__gpu_t  *gpu = search->graph->library->gpu;
    trial_t      trial;
    pdl_status_t status = PDL_OK;
    int          chosen = 0;
    bool         timed = gpu != NULL && search->count > 1 && search->wish->tensors > 0;

    if (timed) {
        status = begin_trial(search, &trial);
        if (status == PDL_OK) status = find_fastest(&trial, &chosen);
        end_trial(&trial);
        timed = status == PDL_OK;
        if (status == PDL_ERR_NOMEM) status = PDL_OK;
    }
    if (status == PDL_OK && chosen < 0)
        status = pdl_error(PDL_ERR_UNSUPPORTED, "cuDNN has no plan that runs for %s", search->wish->key);
    if (status == PDL_OK && timed)
        status = pdl__choices_add(gpu->choices, search->wish->key, search->found[chosen]->name);
    if (status == PDL_OK) {
        *plan = search->found[chosen];
        search->found[chosen] = NULL;
    }
    return status;
}

/* What was chosen before, if it still can be. */
static pdl__cudnn_plan_t *remember(search_t *search)
{
    pdl__gpu_t        *gpu = search->graph->library->gpu;
    const char        *name = search->wish->name;
    descriptor_t       config;
    pdl__cudnn_plan_t *plan;

    if (name == NULL && gpu != NULL) name = pdl__choices_find(gpu->choices, search->wish->key);
    config = name != NULL ? find_engine(search, name) : NULL;
    plan = config != NULL ? make_plan(search, config, name) : NULL;
    search->graph->status = PDL_OK;
    return plan;
}

static void join_operations(search_t *search)
{
    pdl__cudnn_graph_t *graph = search->graph;

    search->operations = pdl__cudnn_make(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    pdl__cudnn_set(graph, search->operations, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                   graph->operation_count, graph->operation);
    if (graph->library->handle != NULL)
        pdl__cudnn_set(graph, search->operations, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
                       &graph->library->handle);
    pdl__cudnn_finish(graph, search->operations, "graph");
}

pdl_status_t pdl__cudnn_choose(pdl__cudnn_graph_t *graph, const pdl__cudnn_wish_t *wish, pdl__cudnn_plan_t **plan)
{
    search_t     search = {.graph = graph, .wish = wish};
    pdl_status_t status;

    join_operations(&search);
    if (graph->status != PDL_OK) return graph->status;
    *plan = remember(&search);
    if (*plan != NULL) return PDL_OK;
    if (wish->name != NULL)
        return pdl_error(PDL_ERR_UNSUPPORTED, "cuDNN has no plan %s for %s", wish->name, wish->key);
    propose(&search, CUDNN_HEUR_MODE_A);
    propose(&search, CUDNN_HEUR_MODE_B);
    if (search.count < 2) propose(&search, CUDNN_HEUR_MODE_FALLBACK); /* one may be the slowest of all */
    if (graph->status != PDL_OK)
        status = graph->status;
    else if (search.count == 0)
        status = pdl_error(PDL_ERR_UNSUPPORTED, "cuDNN has no plan for %s", wish->key);
    else
        status = choose(&search, plan);
    for (int i = 0; i < search.count; i++) pdl__cudnn_destroy(search.found[i]);
    return status;
}
