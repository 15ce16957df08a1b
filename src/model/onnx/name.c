/*
 * Names of layers: from their weights ("layer1.0.conv1.weight"), else from the scope that exporters write into
 * node names ("/layer1/layer1.0/relu/Relu"), else from their type.
 */
#include "model/onnx/graph.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define NAME_LIMIT 160

static bool all_digits(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* Keeps what may stand in a name unquoted. */
static void sanitise(char *text)
{
    for (; *text != '\0'; text++)
        if (!isalnum((unsigned char)*text) && strchr("._-", *text) == NULL) *text = '_';
}

static bool from_weight(const char *hint, char *name)
{
    static const char *const suffixes[] = {".weight", ".bias", "_weight", "_bias", "_gamma", "_beta"};
    size_t                   length;

    if (hint == NULL || strncmp(hint, "onnx::", 6) == 0 || all_digits(hint)) return false;
    snprintf(name, NAME_LIMIT, "%s", hint);
    length = strlen(name);
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        size_t n = strlen(suffixes[i]);

        if (length > n && strcmp(name + length - n, suffixes[i]) == 0) {
            name[length - n] = '\0';
            break;
        }
    }
    return name[0] != '\0';
}

/* "/layer1/layer1.0/relu/Relu": the last part is the operator, and a part that the next one repeats is left out. */
static bool from_scope(const char *path, char *name)
{
    size_t used = 0;

    name[0] = '\0';
    if (path[0] != '/') return false;
    while (*path == '/') {
        const char *part = path + 1, *next;
        size_t      length = strcspn(part, "/");
        bool        repeated;

        next = part + length;
        if (*next != '/') break;
        repeated = strncmp(next + 1, part, length) == 0 && next[1 + length] == '.';
        if (!repeated && length > 0 && used + length + 2 < NAME_LIMIT)
            used +=
                (size_t)snprintf(name + used, NAME_LIMIT - used, "%s%.*s", used > 0 ? "." : "", (int)length, part);
        path = next;
    }
    return used > 0;
}

static bool scope_says_type(const char *scope, const Onnx__NodeProto *node, pdl_layer_type_t type)
{
    const pdl_traits_t *traits = pdl_type_traits(type);
    const char         *last = strrchr(scope, '.');
    const char         *text = traits->name;

    last = last != NULL ? last + 1 : scope;
    if (type == PDL_LAYER_LINEAR) return true;
    if (all_digits(last)) return !traits->functional && pdl__onnx_binary(node->op_type) == NULL;
    if (type == PDL_LAYER_GLOBAL_AVG_POOL) text = "avg";
    return strncmp(last, text, 3) == 0;
}

static void make_unique(const pdl__onnx_t *o, char *name)
{
    size_t length = strlen(name);

    for (int i = 2; pdl__builder_find(o->builder, name) >= 0; i++) {
        /* Beyond a few copies the layer's own number ends the search at once. */
        int suffix = i < 10 ? i : pdl__builder_count(o->builder) + i;

        snprintf(name + length, 16, "_%d", suffix);
    }
}

const char *pdl__onnx_name(pdl__onnx_t *o, const Onnx__NodeProto *node, const char *hint, pdl_layer_type_t type)
{
    const char *text = pdl_layer_type_name(type), *path = node != NULL && node->name != NULL ? node->name : "";
    char        name[NAME_LIMIT + 48];

    if (!from_weight(hint, name)) {
        if (from_scope(path, name)) {
            if (!scope_says_type(name, node, type)) {
                size_t length = strlen(name);
                snprintf(name + length, sizeof name - length, ".%s", text);
            }
        } else {
            snprintf(name, sizeof name, "%s", text);
        }
    }
    sanitise(name);
    if (strcmp(name, "in") == 0) snprintf(name, sizeof name, "%s", text);
    make_unique(o, name);
    return pdl_arena_strdup(o->arena, name);
}
