/*
 * Model files, `paradl: model/1`: parameters, block templates, repetitions and extension of another model are
 * expanded into a flat graph. In short:
 *
 *     paradl: model/1
 *     name: tiny
 *     input: {channels: 3, size: [32, 32]}
 *     parameters: {width: 16}
 *     blocks:
 *       residual:
 *         parameters: {channels}
 *         layers:
 *           - conv: {name: conv1, out: channels, kernel: 3, pad: 1}
 *           - relu
 *           - conv: {name: conv2, out: channels, kernel: 3, pad: 1}
 *           - add: [conv2, in]
 *     layers:
 *       - conv: {out: width, kernel: 1}
 *       - {block: residual, name: body, repeat: 4, with: {channels: width}}
 *       - global_avg_pool
 *       - linear: 10
 *       - cross_entropy
 *
 * Names inside a block get its name in front: body.0.conv1. A layer reads the one before it unless `from` says
 * otherwise; in a block `in` is the block's input, and names are looked for in the block first.
 */
#include "model/yaml/layer.h"

#include "model/internal.h"

#include <paradl/base/share.h>

#include <stdlib.h>
#include <string.h>

#define MAX_BLOCK_DEPTH   16
#define MAX_EXTENDS_DEPTH 8
#define MAX_ENTRIES       (4 * PDL_MAX_LAYERS) /* blocks may be empty, so layers alone do not bound the work */

/* A file and, behind it, the files that extend it, whose parameters replace its own. */
typedef struct document {
    const struct document *extended_by; /* or NULL: the file that was asked for */
    const pdl_yaml_t      *root;
    const char            *file;
    pdl__scope_t           overrides; /* of this file; its parent is that of the file that extends it */
    int                    depth;
} document_t;

static pdl_status_t expand_list(pdl__yaml_reader_t *reader, pdl__yaml_frame_t *frame, const pdl_yaml_t *list);

static pdl_status_t declare(pdl__scope_t *scope, const pdl_yaml_t *node, const char *name, pdl__value_t value)
{
    if (scope->count == PDL__MAX_PARAMETERS)
        return pdl_yaml_error(node, "more than %d parameters", PDL__MAX_PARAMETERS);
    scope->names[scope->count] = name;
    scope->values[scope->count++] = value;
    return PDL_OK;
}

/* Parameters that a block declares, from `with` where given there, else their defaults. */
static pdl_status_t bind_parameters(const pdl_yaml_t *entry, const pdl_yaml_t *declared, const pdl_yaml_t *with,
                                    const pdl__scope_t *outer, pdl__scope_t *inner)
{
    for (size_t i = 0; declared != NULL && i < pdl_yaml_size(declared); i++) {
        const char       *name = pdl_yaml_key(declared, i);
        const pdl_yaml_t *given = with ? pdl_yaml_find(with, name) : NULL, *value = pdl_yaml_value(declared, i);
        const char       *text = pdl_yaml_text(value);
        pdl__value_t      result;
        pdl_status_t      status;

        if (given == NULL && text != NULL && text[0] == '\0')
            return pdl_yaml_error(entry, "the block needs a value for %.60s, under with:", name);
        status = given ? pdl__yaml_value(given, outer, &result) : pdl__yaml_value(value, inner, &result);
        if (!status) status = declare(inner, value, name, result);
        if (status) return status;
    }
    for (size_t i = 0; with != NULL && i < pdl_yaml_size(with); i++)
        if (declared == NULL || pdl_yaml_find(declared, pdl_yaml_key(with, i)) == NULL)
            return pdl_yaml_error(pdl_yaml_value(with, i), "the block has no parameter %.60s",
                                  pdl_yaml_key(with, i));
    return PDL_OK;
}

typedef struct block_use {
    const pdl_yaml_t *entry, *layers, *declared, *with;
    const char       *name;
    bool              numbered;
    int64_t           repeat, start;
} block_use_t;

static pdl_status_t find_block(const pdl__yaml_reader_t *reader, const pdl__scope_t *scope, const pdl_yaml_t *entry,
                               block_use_t *use)
{
    static const char *const keys[] = {"block", "name", "repeat", "start", "with", "from", NULL};

    const pdl_yaml_t *block, *repeat = pdl_yaml_find(entry, "repeat"), *start = pdl_yaml_find(entry, "start");
    const char       *name = "";
    pdl_status_t      status = pdl_yaml_check_keys(entry, keys);

    *use = (block_use_t){.entry = entry, .repeat = 1, .with = pdl_yaml_find(entry, "with")};
    if (!status) status = pdl_yaml_get_string(entry, "block", PDL_REQUIRED, &name);
    use->name = name;
    if (!status) status = pdl_yaml_get_string(entry, "name", PDL_OPTIONAL, &use->name);
    if (!status && repeat != NULL) status = pdl__yaml_integer(repeat, scope, 0, PDL_MAX_LAYERS, &use->repeat);
    if (!status && start != NULL) status = pdl__yaml_integer(start, scope, 0, PDL_MAX_LAYERS, &use->start);
    if (!status && use->with != NULL)
        status = pdl_yaml_expect(use->with, PDL_YAML_MAPPING, "parameters of the block");
    if (status) return status;
    use->numbered = repeat != NULL || start != NULL;
    block = reader->blocks ? pdl_yaml_find(reader->blocks, name) : NULL;
    if (block == NULL) return pdl_yaml_error(entry, "no block %.60s under blocks:", name);
    use->layers = pdl_yaml_find(block, "layers");
    use->declared = pdl_yaml_find(block, "parameters");
    return PDL_OK;
}

/* Entries and instances of blocks both count, so that no nesting of repetitions takes long. */
static pdl_status_t count_entry(pdl__yaml_reader_t *reader, const pdl_yaml_t *entry)
{
    if (++reader->entries > MAX_ENTRIES)
        return pdl_yaml_error(entry, "blocks and repetitions expand to more than %d entries", MAX_ENTRIES);
    return PDL_OK;
}

static pdl_status_t expand_instance(pdl__yaml_reader_t *reader, pdl__yaml_frame_t *frame, const block_use_t *use,
                                    int64_t number, const pdl__scope_t *scope)
{
    char              prefix[PDL__MAX_PREFIX];
    int               length;
    pdl_status_t      status;
    pdl__yaml_frame_t inner = {.parent = frame,
                               .prefix = prefix,
                               .scope = scope,
                               .in = frame->previous,
                               .previous = frame->previous,
                               .before = frame->last_in >= 0 ? frame->last_in : frame->previous,
                               .last_in = -1,
                               .depth = frame->depth + 1};

    if (use->numbered)
        length = snprintf(prefix, sizeof(prefix), "%s%s.%lld.", frame->prefix, use->name, (long long)number);
    else
        length = snprintf(prefix, sizeof(prefix), "%s%s.", frame->prefix, use->name);
    if (length < 0 || (size_t)length >= sizeof(prefix)) return pdl_yaml_error(use->entry, "the name is too long");
    status = count_entry(reader, use->entry);
    if (!status) status = expand_list(reader, &inner, use->layers);
    frame->previous = inner.previous;
    frame->last_in = inner.in;
    return status;
}

static pdl_status_t expand_block(pdl__yaml_reader_t *reader, pdl__yaml_frame_t *frame, const pdl_yaml_t *entry)
{
    const pdl_yaml_t *from = pdl_yaml_find(entry, "from");
    pdl__scope_t      scope;
    block_use_t       use;
    pdl_status_t      status = find_block(reader, frame->scope, entry, &use);

    if (status) return status;
    if (frame->depth == MAX_BLOCK_DEPTH)
        return pdl_yaml_error(entry, "blocks are nested deeper than %d; does %.60s contain itself?",
                              MAX_BLOCK_DEPTH, use.name);
    scope.parent = &reader->parameters;
    scope.count = 0;
    status = bind_parameters(entry, use.declared, use.with, frame->scope, &scope);
    if (!status && from != NULL) status = pdl__yaml_resolve(reader, frame, from, &frame->previous);
    for (int64_t i = 0; i < use.repeat && !status; i++)
        status = expand_instance(reader, frame, &use, use.start + i, &scope);
    return status;
}

static pdl_status_t expand_entry(pdl__yaml_reader_t *reader, pdl__yaml_frame_t *frame, const pdl_yaml_t *entry)
{
    if (count_entry(reader, entry)) return PDL_ERR_INPUT;
    switch (pdl_yaml_kind(entry)) {
    case PDL_YAML_SCALAR: return pdl__yaml_add_layer(reader, frame, entry, pdl_yaml_text(entry), NULL);
    case PDL_YAML_MAPPING:
        if (pdl_yaml_find(entry, "block") != NULL) return expand_block(reader, frame, entry);
        if (pdl_yaml_size(entry) == 1)
            return pdl__yaml_add_layer(reader, frame, entry, pdl_yaml_key(entry, 0), pdl_yaml_value(entry, 0));
        break;
    case PDL_YAML_SEQUENCE: break;
    }
    return pdl_yaml_error(entry, "a layer is one type with its attributes, like conv: {out: 64, kernel: 3}");
}

static pdl_status_t expand_list(pdl__yaml_reader_t *reader, pdl__yaml_frame_t *frame, const pdl_yaml_t *list)
{
    pdl_status_t status = PDL_OK;

    for (size_t i = 0; i < pdl_yaml_size(list) && !status; i++)
        status = expand_entry(reader, frame, pdl_yaml_item(list, i));
    return status;
}

static pdl_status_t check_blocks(const pdl_yaml_t *blocks)
{
    static const char *const keys[] = {"parameters", "layers", NULL};

    pdl_status_t status = blocks ? pdl_yaml_expect(blocks, PDL_YAML_MAPPING, "blocks by name") : PDL_OK;

    for (size_t i = 0; blocks != NULL && !status && i < pdl_yaml_size(blocks); i++) {
        const pdl_yaml_t *block = pdl_yaml_value(blocks, i), *layers, *parameters;

        status = pdl_yaml_expect(block, PDL_YAML_MAPPING, "parameters and layers of a block");
        if (!status) status = pdl_yaml_check_keys(block, keys);
        if (status) return status;
        layers = pdl_yaml_find(block, "layers");
        parameters = pdl_yaml_find(block, "parameters");
        if (layers == NULL) return pdl_yaml_error(block, "block %.60s has no layers", pdl_yaml_key(blocks, i));
        status = pdl_yaml_expect(layers, PDL_YAML_SEQUENCE, "a list of layers");
        if (!status && parameters != NULL)
            status = pdl_yaml_expect(parameters, PDL_YAML_MAPPING, "parameters by name");
    }
    return status;
}

/* The base file's parameters in order, each replaced where a file that extends it says so. */
static pdl_status_t read_parameters(const document_t *document, const pdl_yaml_t *parameters, pdl__scope_t *scope)
{
    const pdl__scope_t *overrides = document->extended_by ? &document->extended_by->overrides : NULL;

    for (size_t i = 0; parameters != NULL && i < pdl_yaml_size(parameters); i++) {
        const char         *name = pdl_yaml_key(parameters, i);
        const pdl__value_t *given = pdl__scope_find(overrides, name, strlen(name));
        pdl__value_t        value;
        pdl_status_t        status = PDL_OK;

        if (given != NULL)
            value = *given;
        else
            status = pdl__yaml_value(pdl_yaml_value(parameters, i), scope, &value);
        if (!status) status = declare(scope, pdl_yaml_value(parameters, i), name, value);
        if (status) return status;
    }
    for (const document_t *d = document->extended_by; d != NULL; d = d->extended_by) {
        const pdl_yaml_t *given = pdl_yaml_find(d->root, "parameters");

        for (size_t i = 0; given != NULL && i < pdl_yaml_size(given); i++)
            if (parameters == NULL || pdl_yaml_find(parameters, pdl_yaml_key(given, i)) == NULL)
                return pdl_yaml_error(pdl_yaml_value(given, i), "%s has no parameter %.60s", document->file,
                                      pdl_yaml_key(given, i));
    }
    return PDL_OK;
}

static pdl_status_t read_graph(pdl__yaml_reader_t *reader, const document_t *document)
{
    const pdl_yaml_t *root = document->root, *input = pdl_yaml_find(root, "input");
    const pdl_yaml_t *layers = pdl_yaml_find(root, "layers");
    pdl__yaml_frame_t frame = {.prefix = "", .scope = &reader->parameters, .in = 0, .last_in = -1};
    pdl_status_t      status;

    if (input == NULL) return pdl_yaml_error(root, "a model needs input:, like {channels: 3, size: [224, 224]}");
    if (layers == NULL) return pdl_yaml_error(root, "a model needs layers: or extends:");
    reader->blocks = pdl_yaml_find(root, "blocks");
    status = check_blocks(reader->blocks);
    if (!status) status = pdl_yaml_expect(layers, PDL_YAML_SEQUENCE, "a list of layers");
    if (!status) status = pdl_yaml_expect(input, PDL_YAML_MAPPING, "channels and size, or tokens");
    if (!status) status = read_parameters(document, pdl_yaml_find(root, "parameters"), &reader->parameters);
    if (!status) status = pdl__yaml_add_input(reader, &frame, input);
    if (!status) status = expand_list(reader, &frame, layers);
    if (!status && pdl__builder_count(reader->builder) < 2) status = pdl_yaml_error(layers, "there are no layers");
    return status;
}

/* Name and description are those of the file that was asked for. */
static pdl_status_t build(const document_t *document, pdl_model_t **model)
{
    const document_t   *leaf = document;
    const char         *name = "", *description = "";
    pdl__yaml_reader_t *reader;
    pdl_status_t        status;

    while (leaf->extended_by != NULL) leaf = leaf->extended_by;
    status = pdl_yaml_get_string(leaf->root, "name", PDL_REQUIRED, &name);
    if (!status) status = pdl_yaml_get_string(leaf->root, "description", PDL_OPTIONAL, &description);
    if (status) return status;
    reader = calloc(1, sizeof(*reader));
    if (reader == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for model %.100s", name);
    reader->builder = pdl__builder_create(name, description);
    status = reader->builder ? PDL_OK : PDL_ERR_NOMEM;
    if (!status) status = pdl_yaml_get_bool(document->root, "table", PDL_OPTIONAL, &reader->table);
    if (!status && reader->table) pdl__builder_set_table(reader->builder);
    if (!status) status = read_graph(reader, document);
    if (status)
        pdl__builder_destroy(reader->builder);
    else
        status = pdl__builder_finish(reader->builder, model);
    free(reader->inputs);
    free(reader);
    return status;
}

static pdl_status_t read_document(const char *text, size_t length, const char *file, const document_t *extended_by,
                                  pdl_model_t **model);

/* A name without '/' or extension is built in; a path is relative to the file that names it. */
static pdl_status_t find_base(const document_t *document, const char *base, char *path, size_t size)
{
    static const char *const extensions[] = {".yaml", NULL};

    const char *slash = strrchr(document->file, '/'), *dot = strrchr(base, '.');
    bool        is_path = strchr(base, '/') != NULL || (dot != NULL && strcmp(dot, ".yaml") == 0);
    int         length;

    if (!is_path || base[0] == '/' || slash == NULL) return pdl_share_find("models", base, extensions, path, size);
    length = snprintf(path, size, "%.*s/%s", (int)(slash - document->file), document->file, base);
    return length >= 0 && (size_t)length < size ? PDL_OK
                                                : pdl_error(PDL_ERR_INPUT, "%s: the path is too long", base);
}

static pdl_status_t extend(document_t *document, const pdl_yaml_t *extends, pdl_model_t **model)
{
    static const char *const keys[] = {"paradl", "name", "description", "source", "extends", "parameters", NULL};

    const pdl_yaml_t *parameters = pdl_yaml_find(document->root, "parameters");
    char              path[4096], message[1024];
    const char       *base = "";
    char             *text;
    size_t            length;
    pdl_status_t      status = pdl_yaml_check_keys(document->root, keys);

    if (!status) status = pdl_yaml_string(extends, &base);
    if (status) return status;
    if (document->depth == MAX_EXTENDS_DEPTH)
        return pdl_yaml_error(extends, "more than %d models extend each other; is there a cycle?",
                              MAX_EXTENDS_DEPTH);
    for (size_t i = 0; parameters != NULL && i < pdl_yaml_size(parameters); i++) {
        const char         *name = pdl_yaml_key(parameters, i);
        const pdl__value_t *given = pdl__scope_find(document->overrides.parent, name, strlen(name));
        pdl__value_t        value;

        status = given ? PDL_OK : pdl__yaml_value(pdl_yaml_value(parameters, i), &document->overrides, &value);
        if (!status && given == NULL)
            status = declare(&document->overrides, pdl_yaml_value(parameters, i), name, value);
        if (status) return status;
    }
    status = find_base(document, base, path, sizeof(path));
    if (!status) status = pdl__read_file(path, &text, &length);
    if (status == PDL_ERR_INPUT || status == PDL_ERR_IO) {
        snprintf(message, sizeof(message), "%s", pdl_error_message());
        return pdl_yaml_error(extends, "%s", message);
    }
    if (status) return status;
    status = read_document(text, length, path, document, model);
    free(text);
    return status;
}

static pdl_status_t check_document(const pdl_yaml_t *root)
{
    static const char *const keys[] = {"paradl",     "name",   "description", "source", "extends", "input",
                                       "parameters", "blocks", "layers",      "table",  NULL};

    const pdl_yaml_t *parameters;
    const char       *source;
    pdl_status_t      status = pdl_yaml_check_format(root, "model");

    if (!status) status = pdl_yaml_check_keys(root, keys);
    if (!status) status = pdl_yaml_get_string(root, "source", PDL_OPTIONAL, &source);
    if (status) return status;
    parameters = pdl_yaml_find(root, "parameters");
    return parameters ? pdl_yaml_expect(parameters, PDL_YAML_MAPPING, "parameters by name") : PDL_OK;
}

static pdl_status_t read_document(const char *text, size_t length, const char *file, const document_t *extended_by,
                                  pdl_model_t **model)
{
    document_t        document;
    pdl_yaml_doc_t   *doc;
    const pdl_yaml_t *extends;
    pdl_status_t      status = pdl_yaml_read_memory(text, length, file, &doc);

    if (status) return status;
    document.extended_by = extended_by;
    document.root = pdl_yaml_root(doc);
    document.file = file;
    document.overrides.parent = extended_by ? &extended_by->overrides : NULL;
    document.overrides.count = 0;
    document.depth = extended_by ? extended_by->depth + 1 : 0;
    status = check_document(document.root);
    extends = status ? NULL : pdl_yaml_find(document.root, "extends");
    if (!status) status = extends ? extend(&document, extends, model) : build(&document, model);
    pdl_yaml_destroy(doc);
    return status;
}

pdl_status_t pdl_model_read_yaml_memory(const char *text, size_t length, const char *name, pdl_model_t **model)
{
    return read_document(text, length, name, NULL, model);
}
