#include "oracle/project/kept_replays.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT = 32 };

typedef struct kept {
    uint64_t             key;
    int                  stages; /* 0: nothing */
    double               total_s;
    pdl__stage_replay_t *replays;
} kept_t;

struct pdl__kept_replays {
    kept_t kept[KEPT];
    int    next;
};

/* Structs without padding, of 8 bytes and more. */
static uint64_t mix_words(uint64_t key, const void *words, size_t size)
{
    const char *at = words;

    for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, at + i, sizeof(word));
        key = pdl__mix(key, word);
    }
    return key;
}

uint64_t pdl__replay_key(const pdl__pass_prices_t *pp, const pdl__replay_options_t *options)
{
    const pdl_pipeline_t *p = &pp->pipeline;
    size_t                stages = (size_t)p->stages;
    uint64_t              key = pdl__mix(UINT64_C(0xcbf29ce484222325), (uint64_t)p->micro_batches);

    key = pdl__mix(key, stages);
    key = pdl__mix(key, (uint64_t)p->chunks * 4096 + (uint64_t)p->schedule * 256 + (uint64_t)pp->c.sharding * 16 +
                            p->training * 8u + pp->overlap * 4u + options->send * 2u + options->exchange);
    key = mix_words(key, pp->chunks, stages * (size_t)p->chunks * sizeof(*pp->chunks));
    key = mix_words(key, pp->segments, (size_t)pp->segment_count * sizeof(*pp->segments));
    key = mix_words(key, pp->update_s, stages * sizeof(*pp->update_s));
    key = mix_words(key, pp->tail_s, stages * sizeof(*pp->tail_s));
    key = mix_words(key, pp->gather_s, stages * sizeof(*pp->gather_s));
    return mix_words(key, pp->ties, (size_t)pp->tie_count * sizeof(*pp->ties));
}

bool pdl__replay_find(const pdl__kept_replays_t *kept, uint64_t key, int stages, pdl__stage_replay_t *replays,
                      double *total_s)
{
    for (int i = 0; i < KEPT && kept != NULL; i++) {
        const kept_t *entry = &kept->kept[i];

        if (entry->key != key || entry->stages != stages) continue;
        memcpy(replays, entry->replays, (size_t)stages * sizeof(*replays));
        *total_s = entry->total_s;
        return true;
    }
    return false;
}

void pdl__replay_keep(pdl__kept_replays_t **kept, uint64_t key, int stages, const pdl__stage_replay_t *replays,
                      double total_s)
{
    pdl__stage_replay_t *copy = malloc((size_t)stages * sizeof(*copy));

    if (*kept == NULL) *kept = calloc(1, sizeof(**kept));
    if (*kept == NULL || copy == NULL) {
        free(copy);
        return;
    }
    kept_t *entry = &(*kept)->kept[(*kept)->next++ % KEPT];
    memcpy(copy, replays, (size_t)stages * sizeof(*copy));
    free(entry->replays);
    *entry = (kept_t){key, stages, total_s, copy};
}

void pdl__kept_replays_free(pdl__kept_replays_t *kept)
{
    for (int i = 0; i < KEPT && kept != NULL; i++) free(kept->kept[i].replays);
    free(kept);
}
