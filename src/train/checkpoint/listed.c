/*
 * The list of all weights and statistics of a model, whichever stage of the pipeline holds them: what a checkpoint consists of.
 */
#include "base/memory.h"
#include "train/exec/session.h"
#include <stdlib.h>
#include <string.h>

bool pdl__session_keeps(const pdl_session_t *s, pdl_session_array_t array)
{
    int moments = pdl_optimizer_moments(&s->spec.optimizer);

    switch (array) {
    case PDL_ARRAY_WEIGHT: return true;
    case PDL_ARRAY_GRADIENT: return s->spec.training && !s->graph->weights->gradients_pass;
    case PDL_ARRAY_MOMENT1: return s->spec.training && moments >= 1;
    case PDL_ARRAY_MOMENT2: return s->spec.training && moments >= 2;
    case PDL_ARRAY_EMA: return s->spec.training && s->spec.optimizer.ema != 0;
    case PDL_ARRAY_COUNT: break;
    }
    return false;
}

/* What this stage has to list: a weight of another stage's layer is listed there. */
static bool is_own(const pdl_session_t *s, const pdl__trace_entry_t *entry)
{
    return pdl__pipe_stage_of(s->layouts->stages, entry->owner) == s->layouts->stages->at;
}

static void count_own(const pdl_session_t *s, int64_t *count, int64_t *text)
{
    *count = *text = 0;
    for (int i = 0; i < s->weights.entry_count; i++) {
        if (!is_own(s, &s->weights.entry[i])) continue;
        *count += 1;
        *text += (int64_t)strlen(s->weights.entry[i].info.name) + 1;
    }
}

/* Writes what this stage lists; names follow each other in `text`. */
static void list_own(const pdl_session_t *s, pdl__listed_t *listed, char *text)
{
    for (int i = 0; i < s->weights.entry_count; i++) {
        const pdl__trace_entry_t *entry = &s->weights.entry[i];
        if (!is_own(s, entry)) continue;
        *listed++ = (pdl__listed_t){.info = entry->info, .stage = s->layouts->stages->at, .entry = i};
        memcpy(text, entry->info.name, strlen(entry->info.name) + 1);
        text += strlen(text) + 1;
    }
}

/* Every stage tells the others its part of the list. */
static pdl_status_t share_list(pdl_session_t *s, const int64_t (*size)[2])
{
    const pdl__pipe_t *stages = s->layouts->stages;
    pdl__listed_t     *part = s->weights.listed;
    char              *text = s->weights.listed_names;
    pdl_status_t       status = PDL_OK;

    for (int k = 0; k < stages->count && !status; part += size[k][0], text += size[k][1], k++) {
        if (k == stages->at) list_own(s, part, text);
        if (stages->count > 1 && size[k][0] > 0) {
            status = pdl_ranks_broadcast(s->groups->stages, part, size[k][0] * (int64_t)sizeof(*part), k);
            if (!status) status = pdl_ranks_broadcast(s->groups->stages, text, size[k][1], k);
        }
        const char *name = text;
        for (int64_t i = 0; i < size[k][0] && !status; i++, name += strlen(name) + 1) part[i].info.name = name;
    }
    return status;
}

pdl_status_t pdl__session_list(pdl_session_t *s)
{
    const pdl__pipe_t *stages = s->layouts->stages;
    int64_t(*size)[2] = calloc((size_t)stages->count, sizeof(*size));
    int64_t      count = 0, text = 0;
    pdl_status_t status = size ? PDL_OK : pdl__no_memory("while listing the weights");

    if (!status) count_own(s, &size[stages->at][0], &size[stages->at][1]);
    for (int k = 0; k < stages->count && !status; k++) {
        if (stages->count > 1) status = pdl_ranks_broadcast(s->groups->stages, size[k], sizeof(size[k]), k);
        count += size[k][0];
        text += size[k][1];
    }
    if (!status) {
        s->weights.listed = calloc((size_t)count + 1, sizeof(*s->weights.listed));
        s->weights.listed_names = calloc((size_t)text + 1, 1);
        s->weights.listed_count = (int)count;
        status = s->weights.listed && s->weights.listed_names ? share_list(s, (const int64_t(*)[2])size)
                                                              : pdl__no_memory("while listing the weights");
    }
    free(size);
    return status;
}

int pdl__session_entry_of(const pdl_session_t *s, int listed)
{
    if (s->weights.listed[listed].stage == s->layouts->stages->at) return s->weights.listed[listed].entry;
    return pdl_session_find(s, s->weights.listed[listed].info.name);
}

void pdl__session_free_list(pdl_session_t *s)
{
    free(s->weights.listed);
    free(s->weights.listed_names);
}
