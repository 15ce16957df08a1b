/*
 * What hiding keeps of the samples, and how its parts see it.
 *
 * State of a sample: loss and confidence in four bytes each, and one byte of flags. During an epoch four more bytes
 * hold the position at which it was noted, and a bit each says that it is hidden, noted here, and noted by anyone.
 */
#ifndef PDL_DATA_HIDE_STATE_H
#define PDL_DATA_HIDE_STATE_H

#include <paradl/data/hide.h>
#include <stddef.h>

#define PDL__HIDE_CORRECT \
    1u /* flags: the latest answer was right; above it, epochs hidden since it was last seen */
#define PDL__HIDE_AGES    127u /* the age stays at this */
#define PDL__HIDE_NO_AGE  255u /* of a limit: none */
#define PDL__HIDE_REFRESH 100  /* the most epochs between two refreshes, below the ages */

typedef struct pdl__hide_tally {
    int64_t candidates, hidden;
    double  threshold_loss; /* -infinity without candidates */
} pdl__hide_tally_t;

/* Samples among which a method chooses: all of them, or those of one worker, in ascending order. */
typedef struct pdl__hide_view {
    int64_t        count, most_hidden;
    const float   *loss, *confidence;
    const float   *draws; /* uniforms in [0, 1) of the samples; NULL unless the method draws */
    const uint8_t *flags;
    uint64_t      *hidden, *heavy; /* bits, zero at first; `heavy` is NULL unless samples are weighed */
    pdl_ranks_t   *ranks;          /* that share the counting, all having the same view; NULL: nobody */
} pdl__hide_view_t;

/* Copies of the samples of one worker. */
typedef struct pdl__hide_room {
    int64_t   count; /* for so many */
    float    *loss, *confidence, *draws;
    uint8_t  *flags;
    uint64_t *hidden, *heavy;
    int64_t  *ids;
} pdl__hide_room_t;

struct pdl_hide {
    pdl_hide_options_t options;
    int64_t            samples, words; /* words of 64 bits */
    float             *loss, *confidence;
    uint8_t           *flags;
    uint32_t          *position;   /* of a sample whose bit is in `mine` or `noted` */
    uint64_t          *mine;       /* noted here since the latest combine */
    uint64_t          *noted;      /* noted by any rank in this epoch, as of the latest combine */
    uint64_t          *hidden;     /* of this rank's workers */
    uint64_t          *hidden_all; /* of all ranks; the same array in global scope */
    uint64_t          *heavy;      /* kept although below the mean; unbiased only */
    float             *draws;      /* random, selective and unbiased only */
    float             *share;      /* importance only: a sample's own share of its place among the draws, */
    uint32_t          *alias;      /* whose place the rest is, */
    int64_t           *drawn;      /* and the samples of this epoch */
    uint64_t          *members;    /* local scope only, as the next */
    pdl__hide_room_t   room;
    int64_t            epoch;       /* at hand; -1 before the first */
    int64_t            mine_count;  /* of notes in `mine` */
    int64_t            hidden_here; /* bits in `hidden` */
    int64_t            share_from;  /* from so many samples on, ranks share the counting in global scope */
    bool               resumed;     /* the next begin is of the same epoch */
    pdl_hide_report_t  report;
};

static inline bool pdl__bit(const uint64_t *bits, int64_t i)
{
    return bits[i >> 6] >> (i & 63) & 1;
}

static inline void pdl__bit_set(uint64_t *bits, int64_t i)
{
    bits[i >> 6] |= UINT64_C(1) << (i & 63);
}

int64_t pdl__bits_count(const uint64_t *bits, int64_t words);

/* Epochs between refreshes, 0 for never. */
int64_t pdl__hide_refresh_every(const pdl_hide_options_t *options);
/* F of an epoch: without what is trimmed. */
double pdl__hide_fraction(const pdl_hide_options_t *options, int64_t epoch, int64_t epochs);

/* Methods. `fraction` is F of the epoch. They set bits of the view and add to the tally. */
pdl_status_t pdl__hide_lowest(const pdl_hide_options_t *options, double fraction, const pdl__hide_view_t *view,
                              pdl__hide_tally_t *tally);
pdl_status_t pdl__hide_random(const pdl_hide_options_t *options, double fraction, const pdl__hide_view_t *view,
                              pdl__hide_tally_t *tally);
void pdl__hide_selective(const pdl_hide_options_t *options, const pdl__hide_view_t *view, pdl__hide_tally_t *tally);
void pdl__hide_unbiased(const pdl_hide_options_t *options, const pdl__hide_view_t *view, pdl__hide_tally_t *tally);
/* As many draws as samples, in proportion to their losses. */
void pdl__hide_draw(pdl_hide_t *hide, int64_t epoch);

/* Local scope: each worker's samples by themselves, and what all ranks have hidden in `hidden_all`. */
pdl_status_t pdl__hide_local(pdl_hide_t *hide, double fraction, const pdl_hide_workers_t *workers,
                             pdl__hide_tally_t *tally);
void         pdl__hide_room_free(pdl__hide_room_t *room);
/* Local scope after a restart inside an epoch: of what all have hidden, this rank's. */
pdl_status_t pdl__hide_local_resume(pdl_hide_t *hide, const pdl_hide_workers_t *workers);
/* The method of the options on one view. */
pdl_status_t pdl__hide_choose(const pdl_hide_t *hide, double fraction, const pdl__hide_view_t *view,
                              pdl__hide_tally_t *tally);

/*
 * Items of all ranks to all of them, in rounds of bounded size. `pack` writes up to `room` items and says how many; 0 is
 * the end. `take` gets those of every rank, this one's included. Collective; both must not fail.
 */
typedef int64_t (*pdl__hide_pack_fn_t)(void *context, int64_t room, void *items);
typedef void (*pdl__hide_take_fn_t)(void *context, const void *items, int64_t count);
pdl_status_t pdl__hide_exchange(pdl_ranks_t *ranks, size_t item_bytes, pdl__hide_pack_fn_t pack,
                                pdl__hide_take_fn_t take, void *context);

#endif
