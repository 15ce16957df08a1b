/*
 * Remarks on a file: what was read as the file says and is still not what the user means. First of all a network
 * that was exported for inference: exporters then fold batch norms into the convolutions before them and leave dropout
 * out, so that it is faster, smaller and trains otherwise than the network it was made from.
 *
 * PyTorch numbers constants that it worked out (onnx::Conv_193; before 1.12 only 193), and keeps the names of
 * parameters. A kernel and a bias that both have numbers were folded. Files of other exporters are suspected when no
 * convolution is without a bias, none is followed by a norm, there is no dropout, and the network has residual sums or
 * depthwise convolutions, which without norms hardly anyone trains; a bias that is named as its kernel is (x.weight,
 * x.bias) was a parameter.
 */
#include "model/onnx/graph.h"

#include <stdio.h>
#include <string.h>

#define SUSPECTED_FROM 8 /* convolutions */

/* The name that the node uses: equal weights are stored once, under the name of any of them. */
static bool is_numbered(const char *name)
{
    if (strncmp(name, "onnx::", 6) == 0) {
        name = strrchr(name, '_');
        if (name == NULL) return false;
        name++;
    }
    return name[0] != '\0' && name[strspn(name, "0123456789")] == '\0';
}

/* Whether two names differ by "weight" and "bias" only; "kernel" and "W", "b" stand for them too. */
static bool are_paired(const pdl__onnx_value_t *weight, const pdl__onnx_value_t *bias)
{
    static const char *const pairs[][2] = {{"weight", "bias"}, {"kernel", "bias"}, {"W", "b"}, {"w", "b"}};

    if (weight->label == NULL || bias->label == NULL) return false;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const char *at = strstr(weight->label, pairs[i][0]);
        size_t      before = at != NULL ? (size_t)(at - weight->label) : 0;

        if (at != NULL && strncmp(weight->label, bias->label, before) == 0 &&
            strcmp(bias->label + before, pairs[i][1]) == 0)
            return true;
    }
    return false;
}

void pdl__onnx_note_conv(pdl__onnx_t *o, const pdl_layer_t *layer, const pdl__onnx_value_t *weight,
                         const pdl__onnx_value_t *bias)
{
    pdl__onnx_tally_t *tally = &o->tally;

    tally->convolutions++;
    tally->depthwise += layer->groups > 1 && layer->groups == layer->out.channels;
    if (bias == NULL) return;
    tally->biased++;
    tally->folded += is_numbered(o->node->input[1]) && is_numbered(o->node->input[2]);
    tally->paired += are_paired(weight, bias);
}

void pdl__onnx_note_function(pdl__onnx_t *o, const char *name)
{
    size_t room = sizeof o->tally.functions / sizeof o->tally.functions[0];

    for (size_t i = 0; name != NULL && i < room; i++) {
        if (o->tally.functions[i].name != NULL && strcmp(o->tally.functions[i].name, name) != 0) continue;
        o->tally.functions[i].name = name;
        o->tally.functions[i].count++;
        return;
    }
}

void pdl__onnx_note_preparation(pdl__onnx_t *o)
{
    if (o->tally.prepares[0] == NULL)
        o->tally.prepares[0] = o->node->op_type;
    else
        o->tally.prepares[1] = o->node->op_type;
}

static bool is_suspect(const pdl__onnx_t *o)
{
    const pdl__onnx_tally_t *tally = &o->tally;
    int                      sums = 0;

    for (int i = 0; i < pdl__builder_count(o->builder); i++) {
        const pdl_traits_t *traits = pdl_layer_traits(pdl__builder_layer(o->builder, i));
        if (traits->norm || traits->drops) return false;
        sums += traits->combine == PDL_COMBINE_SUM;
    }
    return tally->convolutions >= SUSPECTED_FROM && tally->biased == tally->convolutions && tally->paired == 0 &&
           (tally->depthwise > 0 || sums > 1);
}

#define REMEDY "torch.onnx.export(..., training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)"

static pdl_status_t remark_on_norms(const pdl__onnx_t *o, bool pytorch)
{
    char text[512];

    if (pytorch && o->tally.folded > 0)
        snprintf(
            text, sizeof text,
            "%.120s: the file was exported for inference: batch norms are folded into %d of %d convolutions, and "
            "dropout is gone; for training and for planning it, export with " REMEDY,
            o->file, o->tally.folded, o->tally.convolutions);
    else if (is_suspect(o))
        snprintf(text, sizeof text,
                 "%.120s: all %d convolutions have a bias and there are neither norms nor dropout: was the file "
                 "exported for inference? For training, export with " REMEDY,
                 o->file, o->tally.convolutions);
    else
        return PDL_OK;
    return pdl__builder_remark(o->builder, text);
}

pdl_status_t pdl__onnx_remark(const pdl__onnx_t *o, const char *producer)
{
    size_t       room = sizeof o->tally.functions / sizeof o->tally.functions[0];
    char         text[512];
    pdl_status_t st = remark_on_norms(o, producer != NULL && strcmp(producer, "pytorch") == 0);

    for (size_t i = 0; !st && i < room && o->tally.functions[i].name != NULL; i++) {
        snprintf(text, sizeof text, "%.120s: %s (%d times) is read as %s, which is close to it", o->file,
                 o->tally.functions[i].name, o->tally.functions[i].count,
                 strcmp(o->tally.functions[i].name, "relu6") == 0 ? "relu" : "gelu");
        st = pdl__builder_remark(o->builder, text);
    }
    if (!st && o->tally.prepares[0] != NULL) {
        snprintf(text, sizeof text, "%.120s: %s%s%s on the input is left to the data set, which normalises samples",
                 o->file, o->tally.prepares[0], o->tally.prepares[1] != NULL ? " and " : "",
                 o->tally.prepares[1] != NULL ? o->tally.prepares[1] : "");
        st = pdl__builder_remark(o->builder, text);
    }
    return st;
}
