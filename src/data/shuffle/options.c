/*
 * Names, defaults and closed forms of shuffling.
 */
#include <paradl/base/units.h>
#include <paradl/data/shuffle.h>

#include "base/closest.h"

#include <stdio.h>
#include <string.h>

const char *const pdl_shuffle_names[PDL_SHUFFLE_COUNT] = {"global", "local", "partial", "paired"};
const char *const pdl_destination_names[PDL_DESTINATION_COUNT] = {"fisher-yates", "feistel", "shift"};
const char *const pdl_partition_names[PDL_PARTITION_COUNT] = {"random", "sorted", "shards"};
const char *const pdl_pair_score_names[PDL_SCORE_COUNT] = {"mean", "max", "kth", "sum"};
const char *const pdl_pair_samples_names[PDL_PAIR_COUNT] = {"extremes", "random", "top"};

void pdl_shuffle_defaults(pdl_shuffle_options_t *options)
{
    *options = (pdl_shuffle_options_t){.random_every = 4, .seed = 1};
}

static pdl_status_t refuse(const char *text)
{
    char   name[32], near[128];
    size_t length = strcspn(text, ":");

    snprintf(name, sizeof(name), "%.*s", (int)(length < sizeof(name) ? length : sizeof(name) - 1), text);
    if (pdl__closest_names(name, pdl_shuffle_names, PDL_SHUFFLE_COUNT, near, sizeof(near)))
        return pdl_error(PDL_ERR_INPUT, "\"%s\" is no way to shuffle; did you mean %s?", name, near);
    return pdl_error(PDL_ERR_INPUT, "\"%s\" is no way to shuffle: expected global, local, partial:Q or paired:Q",
                     name);
}

pdl_status_t pdl_shuffle_parse(const char *text, pdl_shuffle_options_t *options)
{
    const char        *colon = strchr(text, ':');
    const size_t       length = colon != NULL ? (size_t)(colon - text) : strlen(text);
    pdl_shuffle_kind_t kind = 0;
    double             fraction = 0;

    while (kind < PDL_SHUFFLE_COUNT &&
           !(strlen(pdl_shuffle_names[kind]) == length && strncmp(text, pdl_shuffle_names[kind], length) == 0))
        kind++;
    if (kind == PDL_SHUFFLE_COUNT) return refuse(text);
    if (kind == PDL_SHUFFLE_GLOBAL || kind == PDL_SHUFFLE_LOCAL) {
        if (colon != NULL) {
            return pdl_error(PDL_ERR_INPUT, "%s shuffling exchanges no fraction: write \"%s\"",
                             pdl_shuffle_names[kind], pdl_shuffle_names[kind]);
        }
    } else {
        if (colon == NULL) {
            return pdl_error(PDL_ERR_INPUT, "%s shuffling needs the fraction to exchange, such as %s:0.1",
                             pdl_shuffle_names[kind], pdl_shuffle_names[kind]);
        }
        if (pdl_parse_quantity(colon + 1, PDL_UNIT_NONE, &fraction) != PDL_OK ||
            !(fraction >= 0 && fraction <= 1)) {
            return pdl_error(PDL_ERR_INPUT, "\"%s\": the fraction to exchange is 0 to 1, such as %s:0.1", text,
                             pdl_shuffle_names[kind]);
        }
    }
    options->kind = kind;
    options->fraction = fraction;
    return PDL_OK;
}
