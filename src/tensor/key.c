/*
 * The name of an op by what decides its time: kernels that were timed are found again by it.
 */
#include <paradl/model/traits.h>
#include <paradl/tensor/backend.h>
#include <stdarg.h>
#include <stdio.h>

typedef struct text {
    char  *at;
    size_t size, length;
} text_t;

PDL_PRINTF(2, 3) static void say(text_t *t, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int count = vsnprintf(t->at + t->length, t->size - t->length, format, arguments);
    va_end(arguments);
    if (count > 0) t->length += (size_t)count < t->size - t->length ? (size_t)count : t->size - t->length - 1;
}

static void say_shape(text_t *t, const pdl_shape_t *shape, pdl_format_t format)
{
    say(t, " %lld", (long long)shape->channels);
    for (int k = 0; k < shape->rank; k++) say(t, "x%lld", (long long)shape->extent[k]);
    if (format != PDL_FORMAT_PLAIN) say(t, format == PDL_FORMAT_BLOCKED ? "b" : "f");
}

static void say_extents(text_t *t, const char *what, const int64_t *values, int rank)
{
    for (int k = 0; k < rank; k++) say(t, "%s%lld", k == 0 ? what : "x", (long long)values[k]);
}

static void say_window(text_t *t, const pdl_layer_t *layer)
{
    int rank = layer->in.rank;

    if (layer->kernel[0] == 0 && layer->stride[0] == 0) return;
    say_extents(t, " kernel ", layer->kernel, rank);
    say_extents(t, " stride ", layer->stride, rank);
    say_extents(t, " pad ", layer->pad_low, rank);
    say_extents(t, "+", layer->pad_high, rank);
    for (int k = 0; k < rank; k++)
        if (layer->dilation[k] > 1) say(t, " dilation %lld in %d", (long long)layer->dilation[k], k);
    if (layer->groups > 1) say(t, " groups %lld", (long long)layer->groups);
}

static void say_number(text_t *t, const char *what, int64_t value)
{
    if (value != 0) say(t, " %s %lld", what, (long long)value);
}

static void say_flag(text_t *t, const char *what, bool is)
{
    if (is) say(t, " %s", what);
}

void pdl_op_key(const pdl_op_spec_t *spec, char *text, size_t size)
{
    const pdl_layer_t *layer = spec->layer;
    text_t             t = {text, size, 0};

    say(&t, "%s", pdl_layer_type_name(layer->type));
    for (int k = 0; k < spec->input_count; k++) say_shape(&t, &spec->inputs[k], spec->given[k]);
    say(&t, " to");
    say_shape(&t, &layer->out, PDL_FORMAT_PLAIN);
    say_window(&t, layer);
    say_number(&t, "heads", layer->heads);
    say_number(&t, "of", layer->kv_heads);
    say_number(&t, "vocabulary", layer->vocabulary);
    if (layer->experts > 0) {
        say_number(&t, "experts", layer->experts);
        say_number(&t, "top", layer->top_k);
        say_number(&t, "hidden", layer->expert_hidden);
    }
    if (layer->type == PDL_LAYER_LOCAL_RESPONSE_NORM) say_number(&t, "window", layer->lrn_size);
    say_number(&t, "classes", spec->classes);
    say_flag(&t, "bias", layer->bias);
    say_flag(&t, "causal", layer->causal);
    say_flag(&t, "rotary", layer->rotary);
    say_flag(&t, "gated", layer->gated);
    say_flag(&t, "frozen", layer->frozen && spec->training);
    say_flag(&t, "bilinear", layer->bilinear);
    say_flag(&t, "dropout", layer->rate > 0 && spec->training);
    say_flag(&t, "add", spec->fusion.add);
    if (spec->fusion.activation != PDL_NO_ACTIVATION) say(&t, " %s", pdl_layer_type_name(spec->fusion.activation));
    say_flag(&t, "forward", !spec->training);
    say_flag(&t, "first", spec->training && !spec->input_gradient);
    say_flag(&t, "shared", spec->shared);
    say_number(&t, "context", spec->context);
}

void pdl_convert_key(const pdl_shape_t *shape, pdl_format_t from, pdl_format_t to, char *text, size_t size)
{
    text_t t = {text, size, 0};

    say(&t, "convert");
    say_shape(&t, shape, from);
    say(&t, " to");
    say_shape(&t, shape, to);
}

void pdl_load_key(const pdl_shape_t *shape, pdl_format_t format, bool tokens, char *text, size_t size)
{
    text_t t = {text, size, 0};

    say(&t, tokens ? "load tokens" : "load");
    say_shape(&t, shape, format);
}
