/*
 * Transfers between the stages of a pipeline, all of them at once and equally large: kept between replays.
 */
#ifndef PDL_ORACLE_TRANSFERS_H
#define PDL_ORACLE_TRANSFERS_H

#include <paradl/base/status.h>
#include <paradl/system/system.h>
#include <stdint.h>

/* One message of each rank of stage s to its peer of stage to[s]; negative: none. Ranks of a stage are those with
   rank / stride % stages == s. */
typedef struct pdl__sends {
    int64_t    ranks, stride;
    int        stages;
    const int *to;
} pdl__sends_t;

typedef struct pdl__sends_cache pdl__sends_cache_t;

/* per_byte[stage * PDL_MAX_LEVELS + level]: seconds that a byte of the slowest message of the stage takes which crosses this
   level and none above it, on links at full speed; negative where there is no such message. per_byte[stages * PDL_MAX_LEVELS + stage]:
   latency of the stage's longest way over a network that is not a tree. *cache is made when it is NULL; what is returned belongs
   to it. */
pdl_status_t pdl__sends_find(pdl__sends_cache_t **cache, const pdl_system_t *system, const pdl__sends_t *sends,
                             const double **per_byte);
void         pdl__sends_free(pdl__sends_cache_t *cache);

/* Ranks whose messages stand for all: those below `extent` whose place in their stage is below `width`. Then the messages of
   a stage meet only each other where `apart` is set, and those of all stages look the same. */
typedef struct pdl__sends_share {
    int64_t extent, width;
    bool    apart;
} pdl__sends_share_t;
pdl__sends_share_t pdl__sends_share(const pdl_system_t *system, int64_t ranks, int64_t stride, int stages);

/* The highest level that a message between two devices crosses. */
int pdl__sends_level(const pdl_system_t *system, int64_t from, int64_t to);

#endif
