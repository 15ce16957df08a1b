/*
 * The whole of an ONNX file: unpack, define inputs, read the nodes in order, close with the loss.
 */
#include "model/onnx/graph.h"
#include "model/onnx/input.h"
#include "model/onnx/onnx.h"
#include "model/onnx/weights.h"
#include "model/onnx/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NUMBER_BUDGET ((int64_t)1 << 23)

static const char *node_name(const Onnx__NodeProto *node)
{
    if (node->name != NULL && node->name[0] != '\0') return node->name;
    return node->n_output > 0 && node->output[0][0] != '\0' ? node->output[0] : "without a name";
}

const char *pdl__onnx_where(const pdl__onnx_t *o, char *buffer, size_t size)
{
    if (o->node == NULL)
        snprintf(buffer, size, "%.160s: outputs of the graph", o->file);
    else
        snprintf(buffer, size, "%.160s: node %.120s (%.60s)", o->file, node_name(o->node),
                 o->node->op_type != NULL ? o->node->op_type : "no operator");
    return buffer;
}

pdl_status_t pdl__onnx_fail(const pdl__onnx_t *o, pdl_status_t status, const char *format, ...)
{
    char    where[512], what[512];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return pdl_error(status, "%s: %s", pdl__onnx_where(o, where, sizeof where), what);
}

/* Layers that classifiers end with. */
static const bool gives_scores[PDL_LAYER_TYPE_COUNT] = {
    [PDL_LAYER_LINEAR] = true,  [PDL_LAYER_CONV] = true,     [PDL_LAYER_GLOBAL_AVG_POOL] = true,
    [PDL_LAYER_FLATTEN] = true, [PDL_LAYER_AVG_POOL] = true,
};

/* Outputs become layers. Class scores get the loss with which the network is trained; hidden states do not. */
static pdl_status_t finish_outputs(pdl__onnx_t *o)
{
    pdl__onnx_value_t *first = NULL;
    pdl_layer_t        loss = pdl__layer_default(PDL_LAYER_CROSS_ENTROPY);
    pdl_layer_type_t   type;
    int                added;
    pdl_status_t       st;

    o->node = NULL;
    for (size_t i = 0; i < o->graph->n_output; i++) {
        const char        *name = o->graph->output[i]->name != NULL ? o->graph->output[i]->name : "";
        pdl__onnx_value_t *value = pdl__onnx_find(o, name);

        if (value == NULL) return pdl_error(PDL_ERR_INPUT, "%s: no node computes output %s", o->file, name);
        if (value->kind == PDL__ONNX_CONSTANT) continue; /* a shape, or statistics that training updates */
        o->node = value->node;
        st = pdl__onnx_materialise(o, value);
        if (st) return st;
        if (first == NULL) first = value;
    }
    if (first == NULL) return pdl_error(PDL_ERR_INPUT, "%s: no output depends on the input", o->file);
    type = pdl__builder_layer(o->builder, first->layer)->type;
    if (!o->classifies && !gives_scores[type]) return PDL_OK;
    loss.name = "loss";
    return pdl__onnx_add(o, &loss, NULL, "loss", &first->layer, 1, &added);
}

static pdl_status_t read_graph(pdl__onnx_t *o)
{
    pdl_status_t st = pdl__onnx_table_create(o);

    if (!st) st = pdl__onnx_add_inputs(o);
    for (size_t i = 0; !st && i < o->graph->n_node; i++) {
        o->node = o->graph->node[i];
        st = pdl__onnx_run(o);
    }
    return st ? st : finish_outputs(o);
}

static pdl_status_t read_opset(pdl__onnx_t *o, const Onnx__ModelProto *proto)
{
    for (size_t i = 0; i < proto->n_opset_import; i++) {
        const Onnx__OperatorSetIdProto *set = proto->opset_import[i];

        if (set->domain == NULL || set->domain[0] == '\0' || strcmp(set->domain, "ai.onnx") == 0)
            o->opset = set->version;
    }
    /* Files of the first two formats do not name it. */
    if (o->opset == 0 && proto->has_ir_version && proto->ir_version > 0 && proto->ir_version < 3) o->opset = 1;
    if (o->opset == 0) return pdl_error(PDL_ERR_INPUT, "%s: not an ONNX model (no operator set is named)", o->file);
    if (o->opset < 1)
        return pdl_error(PDL_ERR_INPUT, "%s: there is no operator set %lld", o->file, (long long)o->opset);
    return PDL_OK;
}

/* "models/resnet50.onnx" is called resnet50. */
static void base_name(const char *path, char *name, size_t size)
{
    const char *slash = strrchr(path, '/');
    char       *dot;

    snprintf(name, size, "%s", slash != NULL && slash[1] != '\0' ? slash + 1 : path);
    dot = strrchr(name, '.');
    if (dot != NULL && dot != name) *dot = '\0';
}

static pdl_status_t read_model(const void *data, size_t length, const char *name, pdl__onnx_t *o,
                               Onnx__ModelProto **proto, pdl_model_t **model)
{
    char         short_name[128];
    pdl_status_t st = pdl__onnx_unpack(data, length, name, proto);

    if (!st) st = read_opset(o, *proto);
    if (!st && (*proto)->graph == NULL)
        st = pdl_error(PDL_ERR_INPUT, "%s: not an ONNX model (there is no graph in it)", name);
    if (st) return st;
    o->graph = (*proto)->graph;
    base_name(name, short_name, sizeof short_name);
    o->arena = pdl_arena_create();
    if (o->arena == NULL) return PDL_ERR_NOMEM;
    o->builder = pdl__builder_create(short_name, "imported from ONNX");
    if (o->builder == NULL) return PDL_ERR_NOMEM;
    st = read_graph(o);
    if (!st) st = pdl__onnx_remark(o, (*proto)->producer_name);
    if (st)
        pdl__builder_destroy(o->builder);
    else
        st = pdl__builder_finish(o->builder, model);
    o->builder = NULL;
    return st;
}

static pdl_status_t read_onnx(const void *data, size_t length, const char *name, pdl_model_t **model,
                              pdl_onnx_weights_t **weights)
{
    pdl__onnx_t       o = {.file = name, .number_budget = NUMBER_BUDGET};
    Onnx__ModelProto *proto = NULL;
    pdl_model_t      *read = NULL;
    pdl_status_t      st = read_model(data, length, name, &o, &proto, &read);

    /* These keep what they point into. */
    if (!st && weights != NULL) {
        st = pdl__onnx_keep(&o, proto, read, weights);
        if (!st) {
            o.arena = NULL;
            proto = NULL;
        }
    }
    if (o.arena != NULL) pdl_arena_destroy(o.arena);
    if (proto != NULL) pdl__onnx_free(proto);
    if (!st && model != NULL)
        *model = read;
    else
        pdl_model_destroy(read);
    return st;
}

pdl_status_t pdl_model_read_onnx_memory(const void *data, size_t length, const char *name, pdl_model_t **model)
{
    return read_onnx(data, length, name, model, NULL);
}

static pdl_status_t read_file(const char *path, pdl_model_t **model, pdl_onnx_weights_t **weights)
{
    struct stat  info;
    void        *data;
    pdl_status_t st;
    int          fd = open(path, O_RDONLY);

    if (fd < 0) return pdl_error(PDL_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return pdl_error(PDL_ERR_IO, "%s: not a regular file", path);
    }
    if (info.st_size == 0) {
        close(fd);
        return pdl_error(PDL_ERR_INPUT, "%s: not a readable ONNX model (the file is empty)", path);
    }
    data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (data == MAP_FAILED) return pdl_error(PDL_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    st = read_onnx(data, (size_t)info.st_size, path, model, weights);
    munmap(data, (size_t)info.st_size);
    return st;
}

pdl_status_t pdl__model_read_onnx_file(const char *path, pdl_model_t **model)
{
    return read_file(path, model, NULL);
}

pdl_status_t pdl_onnx_weights_load(const char *path, pdl_onnx_weights_t **weights)
{
    return read_file(path, NULL, weights);
}
