/*
 * Rows that name a public model and leave its shape out: the model of the zoo that has this name.
 */
#include "validate/published/published.h"
#include <ctype.h>
#include <paradl/base/share.h>
#include <paradl/model/traits.h>
#include <stdio.h>
#include <string.h>

static void fold(const char *text, char *folded, size_t size)
{
    size_t used = 0;

    for (; *text && used + 1 < size; text++)
        if (isalnum((unsigned char)*text) || *text == '.') folded[used++] = (char)tolower((unsigned char)*text);
    folded[used] = '\0';
}

bool pdl__published_begins(const char *text, const char *key)
{
    char a[256], b[256];

    fold(text, a, sizeof(a));
    fold(key, b, sizeof(b));
    return b[0] != '\0' && strncmp(a, b, strlen(b)) == 0;
}

/* "qwen3_32b cut to 4 layers" is qwen3-32b: of several names that it begins with the longest. "Qwen3_30B" is qwen3-30b-a3b, the only
   one that begins so. */
bool pdl__published_zoo_name(const char *model, char *name, size_t size)
{
    static const char *const extensions[] = {".yaml", NULL};
    char                   **names = NULL;
    const char              *best = NULL, *only = NULL;
    size_t                   count = 0;
    int                      longer = 0;

    if (pdl_share_list("models", extensions, &names, &count)) return false;
    for (size_t i = 0; i < count; i++) {
        if (pdl__published_begins(model, names[i]) && (best == NULL || strlen(names[i]) > strlen(best)))
            best = names[i];
        if (pdl__published_begins(names[i], model)) {
            only = names[i];
            longer++;
        }
    }
    if (best == NULL && longer == 1) best = only;
    if (best != NULL) snprintf(name, size, "%s", best);
    pdl_share_free_list(names, count);
    return best != NULL;
}

static void fill(int64_t *slot, int64_t value)
{
    if (*slot == 0) *slot = value;
}

/* Products that end a block in front of the sum, but for those behind attention: as wide as what is inside. */
static bool ends_feed_forward(const pdl_model_t *model, const pdl_layer_t *layer, int64_t hidden)
{
    if (pdl_layer_traits(layer)->work != PDL_WORK_MATRIX || layer->out.channels != hidden) return false;
    return pdl_layer_traits(pdl_model_layer(model, layer->inputs[0]))->work != PDL_WORK_ATTENTION;
}

static void fill_attention(const pdl_layer_t *attention, pdl_dimensions_t *d)
{
    fill(&d->heads, attention->heads);
    fill(&d->kv_heads, attention->kv_heads);
    fill(&d->head_dim, attention->head_dim);
    fill(&d->tokens, attention->in.extent[0]);
}

static void fill_experts(const pdl_layer_t *experts, pdl_dimensions_t *d)
{
    fill(&d->experts, experts->experts);
    fill(&d->top_k, experts->top_k);
    fill(&d->ffn, experts->expert_hidden);
    fill(&d->expert_products, experts->gated ? 3 : 2);
}

void pdl__published_sizes(const pdl_model_t *model, pdl_dimensions_t *d)
{
    int64_t blocks = 0, widest = 0;

    for (int i = 1; i < pdl_model_layer_count(model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);

        if (layer->vocabulary > 0) {
            fill(&d->hidden, layer->out.channels);
            fill(&d->vocabulary, layer->vocabulary);
        }
        if (pdl_layer_traits(layer)->work == PDL_WORK_ATTENTION) {
            fill_attention(layer, d);
            blocks++;
        } else if (pdl_layer_traits(layer)->work == PDL_WORK_EXPERTS) {
            fill_experts(layer, d);
        } else if (ends_feed_forward(model, layer, d->hidden) && layer->in.channels > widest) {
            widest = layer->in.channels;
        }
    }
    fill(&d->layers, blocks);
    fill(&d->ffn, widest);
}
