/*
 * Equal messages between stages, run once for every pattern.
 */
#include "oracle/cost/transfers.h"
#include "base/memory.h"
#include <math.h>
#include <paradl/topo/contention.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1024, FULL = 768 };

typedef struct slot {
    int64_t ranks, stride;
    int     stages;
    int    *to;
    double *per_byte;
} slot_t;

struct pdl__sends_cache {
    slot_t slots[SLOTS]; /* open addressing */
    int    count;
};

int pdl__sends_level(const pdl_system_t *system, int64_t from, int64_t to)
{
    int level = 0;

    while (level + 1 < system->level_count &&
           from / pdl_system_group_size(system, level) != to / pdl_system_group_size(system, level))
        level++;
    return level;
}

static uint64_t hash(const pdl__sends_t *sends)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    h = (h ^ (uint64_t)sends->ranks) * UINT64_C(0x100000001b3);
    h = (h ^ (uint64_t)sends->stride) * UINT64_C(0x100000001b3);
    for (int s = 0; s < sends->stages; s++) h = (h ^ (uint64_t)(sends->to[s] + 1)) * UINT64_C(0x100000001b3);
    return h ^ h >> 29;
}

static bool same(const slot_t *slot, const pdl__sends_t *sends)
{
    return slot->ranks == sends->ranks && slot->stride == sends->stride && slot->stages == sends->stages &&
           memcmp(slot->to, sends->to, (size_t)sends->stages * sizeof(*slot->to)) == 0;
}

pdl__sends_share_t pdl__sends_share(const pdl_system_t *system, int64_t ranks, int64_t stride, int stages)
{
    int64_t            span = stages * stride;
    int                level = pdl_system_level_of_span(system, span);
    int64_t            unit = pdl_system_group_size(system, level);
    int64_t            below = level > 0 ? pdl_system_group_size(system, level - 1) : 0;
    pdl__sends_share_t share = {ranks, stride, false};

    /* On a network of any kind no group stands for the others. */
    if (system->network != NULL && level == system->level_count - 1) return share;
    /* Pipelines that stay inside one group of the machine meet only each other there, and all such groups are alike. */
    if (unit % span == 0 && ranks % unit == 0) share.extent = unit;
    /* Stages made of whole groups below that level: each such group has its ways out and in for itself. */
    if (below > 0 && stride % below == 0) share = (pdl__sends_share_t){span, below, true};
    return share;
}

static int list_messages(const pdl_system_t *system, const pdl__sends_t *sends, pdl_message_t *messages,
                         pdl__sends_share_t *share)
{
    int count = 0;

    *share = pdl__sends_share(system, sends->ranks, sends->stride, sends->stages);
    for (int64_t r = 0; r < share->extent; r++) {
        int stage = (int)(r / sends->stride % sends->stages), to = sends->to[stage];

        if (share->apart && count > 0 && r / sends->stride != messages[0].from / sends->stride) break;
        if (to >= 0 && r % sends->stride < share->width)
            messages[count++] = (pdl_message_t){r, r + (to - stage) * sends->stride, 1};
    }
    return count;
}

/* What one stage has found out holds for all. */
static void spread(const pdl__sends_t *sends, int known, double *per_byte)
{
    size_t size = PDL_MAX_LEVELS * sizeof(*per_byte);

    for (int s = 0; s < sends->stages; s++)
        if (s != known && sends->to[s] >= 0)
            memcpy(&per_byte[s * PDL_MAX_LEVELS], &per_byte[known * PDL_MAX_LEVELS], size);
}

static pdl_status_t run(const pdl_system_t *system, const pdl__sends_t *sends, double *per_byte)
{
    pdl_message_t     *messages = malloc((size_t)sends->ranks * sizeof(*messages));
    double            *finish_s = malloc((size_t)sends->ranks * sizeof(*finish_s));
    double            *latency_s = &per_byte[sends->stages * PDL_MAX_LEVELS];
    pdl__sends_share_t share = {0, 0, false};
    int                count = messages && finish_s ? list_messages(system, sends, messages, &share) : 0, stage = 0;
    pdl_status_t       status = messages && finish_s ? PDL_OK : pdl__no_memory("for transfers between stages");

    if (!status) status = pdl_contention_run(system, false, messages, count, finish_s, NULL);
    for (int i = 0; i < sends->stages * PDL_MAX_LEVELS; i++) per_byte[i] = -1;
    for (int s = 0; s < sends->stages; s++) latency_s[s] = 0;
    for (int i = 0; i < count && !status; i++) {
        double way_s;

        stage = (int)(messages[i].from / sends->stride % sends->stages);
        status = pdl_contention_latency(system, messages[i].from, messages[i].to, &way_s);
        latency_s[stage] = fmax(latency_s[stage], way_s);
        double *most =
            &per_byte[stage * PDL_MAX_LEVELS + pdl__sends_level(system, messages[i].from, messages[i].to)];

        *most = fmax(*most, finish_s[i]);
    }
    if (share.apart) spread(sends, stage, per_byte);
    free(messages);
    free(finish_s);
    return status;
}

static void empty(pdl__sends_cache_t *cache)
{
    for (int i = 0; i < SLOTS; i++) {
        free(cache->slots[i].to);
        free(cache->slots[i].per_byte);
    }
    memset(cache, 0, sizeof(*cache));
}

static pdl_status_t fill(slot_t *slot, const pdl_system_t *system, const pdl__sends_t *sends)
{
    size_t stages = (size_t)sends->stages;

    *slot = (slot_t){sends->ranks, sends->stride, sends->stages, malloc(stages * sizeof(int)),
                     malloc(stages * (PDL_MAX_LEVELS + 1) * sizeof(double))};
    pdl_status_t status = slot->to && slot->per_byte ? run(system, sends, slot->per_byte)
                                                     : pdl__no_memory("for transfers between stages");
    if (!status) {
        memcpy(slot->to, sends->to, stages * sizeof(int));
        return PDL_OK;
    }
    free(slot->to);
    free(slot->per_byte);
    *slot = (slot_t){.to = NULL};
    return status;
}

pdl_status_t pdl__sends_find(pdl__sends_cache_t **cache, const pdl_system_t *system, const pdl__sends_t *sends,
                             const double **per_byte)
{
    if (!*cache) *cache = calloc(1, sizeof(**cache));
    if (!*cache) return pdl__no_memory("for transfers between stages");
    if ((*cache)->count >= FULL) empty(*cache);
    for (uint64_t i = hash(sends);; i++) {
        slot_t *slot = &(*cache)->slots[i % SLOTS];

        if (slot->to && !same(slot, sends)) continue;
        if (!slot->to) {
            pdl_status_t status = fill(slot, system, sends);
            if (status) return status;
            (*cache)->count++;
        }
        *per_byte = slot->per_byte;
        return PDL_OK;
    }
}

void pdl__sends_free(pdl__sends_cache_t *cache)
{
    if (!cache) return;
    empty(cache);
    free(cache);
}
