/*
 * Reading config.json: which family it is, and its fields.
 */
#include "model/config/config.h"
#include "model/internal.h"

#include "base/closest.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

static const struct {
    const char *type;
    void (*build)(pdl__config_t *);
} families[] = {
    {"bert", pdl__config_bert},
    {"deepseek_v2", pdl__config_deepseek},
    {"deepseek_v3", pdl__config_deepseek},
    {"gpt2", pdl__config_gpt2},
    {"gpt_oss", pdl__config_decoder},
    {"kimi_k2", pdl__config_deepseek},
    {"llama", pdl__config_decoder},
    {"mistral", pdl__config_decoder},
    {"mixtral", pdl__config_decoder},
    {"qwen2", pdl__config_decoder},
    {"qwen2_moe", pdl__config_decoder},
    {"qwen3", pdl__config_decoder},
    {"qwen3_moe", pdl__config_decoder},
    {"vit", pdl__config_vit},
};
#define FAMILIES (sizeof(families) / sizeof(families[0]))

void pdl__config_refuse(pdl__config_t *c, const char *field, const char *format, ...)
{
    char    what[300];
    va_list arguments;

    if (c->status) return;
    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    c->status = pdl_error(PDL_ERR_INPUT, "%s: field %s: %s", c->file, field, what);
}

void pdl__config_remark(pdl__config_t *c, const char *format, ...)
{
    char    line[400];
    va_list arguments;
    int     length = snprintf(line, sizeof(line), "%.150s: ", c->file);

    if (c->status) return;
    va_start(arguments, format);
    vsnprintf(line + length, sizeof(line) - (size_t)length, format, arguments);
    va_end(arguments);
    c->status = pdl__builder_remark(c->builder, line);
}

/* The field, where it is there and not null. */
static const pdl_json_value_t *given(const pdl__config_t *c, const char *field)
{
    const pdl_json_value_t *value = pdl_json_get(c->root, field);

    return value != NULL && value->kind != PDL_JSON_NULL ? value : NULL;
}

static void refuse_value(pdl__config_t *c, const char *field, const char *expected, const pdl_json_value_t *value)
{
    pdl__config_refuse(c, field, "expected %s, not %.*s", expected, (int)fmin((double)value->source_length, 40),
                       value->source);
}

int64_t pdl__config_int(pdl__config_t *c, const char *field, int64_t least, int64_t standard)
{
    const pdl_json_value_t *value = given(c, field);
    char                    expected[80];

    if (value == NULL) {
        if (standard < 0) pdl__config_refuse(c, field, "is missing, a model of type %.40s needs it", c->type);
        return standard < 0 ? least : standard;
    }
    if (value->kind == PDL_JSON_NUMBER && value->number >= (double)least && value->number <= PDL_MAX_ATTRIBUTE &&
        value->number == floor(value->number))
        return (int64_t)value->number;
    snprintf(expected, sizeof(expected), "a whole number from %lld to %lld", (long long)least,
             (long long)PDL_MAX_ATTRIBUTE);
    refuse_value(c, field, expected, value);
    return least;
}

double pdl__config_rate(pdl__config_t *c, const char *field, double standard)
{
    const pdl_json_value_t *value = given(c, field);

    if (value == NULL) return standard;
    if (value->kind == PDL_JSON_NUMBER && value->number >= 0 && value->number < 1) return value->number;
    refuse_value(c, field, "a number from 0 to 1", value);
    return standard;
}

double pdl__config_factor(pdl__config_t *c, const char *field, double standard)
{
    const pdl_json_value_t *value = given(c, field);

    if (value == NULL) return standard;
    if (value->kind == PDL_JSON_NUMBER && value->number >= 0 && value->number <= 65536) return value->number;
    refuse_value(c, field, "a number from 0 to 65536", value);
    return standard;
}

bool pdl__config_flag(pdl__config_t *c, const char *field, bool standard)
{
    const pdl_json_value_t *value = given(c, field);

    if (value == NULL) return standard;
    if (value->kind != PDL_JSON_BOOL) refuse_value(c, field, "true or false", value);
    return value->number != 0;
}

pdl_layer_type_t pdl__config_activation(pdl__config_t *c, const char *field, const char *standard)
{
    static const struct {
        const char      *name;
        pdl_layer_type_t type;
    } known[] = {
        {"silu", PDL_LAYER_SILU},           {"swish", PDL_LAYER_SILU},
        {"gelu", PDL_LAYER_GELU},           {"gelu_new", PDL_LAYER_GELU_TANH},
        {"gelu_fast", PDL_LAYER_GELU_TANH}, {"gelu_pytorch_tanh", PDL_LAYER_GELU_TANH},
        {"relu", PDL_LAYER_RELU},
    };
    const pdl_json_value_t *value = given(c, field);
    const char             *name = value != NULL && value->kind == PDL_JSON_STRING ? value->text : standard;

    if (value != NULL && value->kind != PDL_JSON_STRING) refuse_value(c, field, "the name of an activation", value);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].name, name) == 0) return known[i].type;
    pdl__config_refuse(c, field, "%.40s is none of silu, gelu, gelu_new, gelu_pytorch_tanh and relu", name);
    return PDL_LAYER_GELU;
}

static pdl_status_t refuse_type(const char *file, const char *type)
{
    const char *names[FAMILIES];
    char        all[300];

    for (size_t i = 0; i < FAMILIES; i++) names[i] = families[i].type;
    pdl__join_names(names, FAMILIES, all, sizeof(all));
    if (type == NULL)
        return pdl_error(PDL_ERR_INPUT, "%s: field model_type: is missing; it names one of %s", file, all);
    return pdl_error(PDL_ERR_INPUT, "%s: field model_type: %.60s is an unknown architecture; known are %s", file,
                     type, all);
}

/* "Llama-2-7b/config.json" is called by its folder, "small.json" by itself. */
static void name_model(const char *file, char *name, size_t size)
{
    const char *base = strrchr(file, '/'), *begin = base != NULL ? base + 1 : file;
    size_t      length = strlen(begin);

    if (base != NULL && base > file && strcmp(begin, "config.json") == 0) {
        for (begin = base; begin > file && begin[-1] != '/';) begin--;
        length = (size_t)(base - begin);
        if (length > 0 && begin[0] != '.') {
            snprintf(name, size, "%.*s", (int)length, begin);
            return;
        }
        begin = base + 1;
        length = strlen(begin);
    }
    if (length > 5 && strcmp(begin + length - 5, ".json") == 0) length -= 5;
    snprintf(name, size, "%.*s", (int)length, begin);
}

static pdl_status_t build(const pdl_json_value_t *root, const char *file, pdl_model_t **model)
{
    pdl__config_t c = {.root = root, .file = file, .type = pdl_json_text_of(root, "model_type")};
    char          name[128], description[160];
    size_t        family = 0;

    while (family < FAMILIES && (c.type == NULL || strcmp(families[family].type, c.type) != 0)) family++;
    if (family == FAMILIES) return refuse_type(file, c.type);
    name_model(file, name, sizeof(name));
    snprintf(description, sizeof(description), "%s of Hugging Face", families[family].type);
    c.builder = pdl__builder_create(name, description);
    if (c.builder == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", file);
    c.std = pdl__config_rate(&c, "initializer_range", 0.02);
    families[family].build(&c);
    if (!c.status) return pdl__builder_finish(c.builder, model);
    pdl__builder_destroy(c.builder);
    return c.status;
}

pdl_status_t pdl_model_read_config_memory(const char *text, size_t length, const char *name, pdl_model_t **model)
{
    pdl_arena_t      *arena = pdl_arena_create();
    pdl_json_value_t *root;
    pdl_status_t      status = arena != NULL ? pdl_json_read(arena, text, length, name, 1, &root)
                                             : pdl_error(PDL_ERR_NOMEM, "%s: out of memory", name);

    if (!status && root->kind != PDL_JSON_OBJECT)
        status = pdl_error(PDL_ERR_INPUT, "%s: no config.json: expected an object with model_type", name);
    if (!status) status = build(root, name, model);
    pdl_arena_destroy(arena);
    return status;
}
