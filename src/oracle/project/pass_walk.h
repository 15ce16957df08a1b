/*
 * The way of every stage through its passes, shared by what lists their steps and what replays them.
 */
#ifndef PDL_ORACLE_PASS_WALK_H
#define PDL_ORACLE_PASS_WALK_H

#include "oracle/project/passes.h"
#include "oracle/project/repeats.h"

/* Segments whose sharded weights are gathered before their turn, where that overlaps. */
#define PDL__GATHERS_AHEAD 2

/* Prices lie in one table: of a chunk, of a segment, of a stage, of a tie; the first is 0. Weights of a segment are gathered for
   one pass and ahead for the next, hence twice. */
enum {
    PDL__CHUNK_PASS = 0,
    PDL__CHUNK_SEND = PDL__CHUNK_PASS + PDL__PASS_COUNT,
    PDL__CHUNK_QUEUE = PDL__CHUNK_SEND + PDL_DIRECTIONS,
    PDL__CHUNK_PRICES = PDL__CHUNK_QUEUE + PDL__PASS_COUNT
};
enum {
    PDL__SEGMENT_PASS = 0,
    PDL__SEGMENT_EXCHANGE = PDL__SEGMENT_PASS + PDL__PASS_COUNT,
    PDL__SEGMENT_GATHER = PDL__SEGMENT_EXCHANGE + 1,
    PDL__SEGMENT_PRICES = PDL__SEGMENT_GATHER + 2
};
enum { PDL__STAGE_TAIL, PDL__STAGE_UPDATE, PDL__STAGE_GATHER, PDL__STAGE_PRICES };

typedef struct pdl__pass_walk pdl__pass_walk_t;

/* A pass of all layers of a chunk at once: input and computation, the host's queue, output. Tensors are those of the first
   micro-batch. */
typedef struct pdl__pass_steps {
    pdl__replay_step_t step[3];
    int                count;
} pdl__pass_steps_t;

/* The same where nothing else is in flight beside it: what it takes, where its input and its output are (negative: nowhere), and what
   the pass for gradients of weights takes that follows those of micro-batches from a number on. */
typedef struct pdl__plain_pass {
    double seconds, send_s, later_s;
    int    input, output;
} pdl__plain_pass_t;

/* Where one stage is in its passes. */
typedef struct pdl__stage_walk {
    pdl__lane_t          lane; /* first: the replay asks for more by it */
    pdl__pass_walk_t    *walk;
    int                  number;
    pdl_pipeline_walk_t  passes;
    int64_t              next;    /* number of the next one, those for gradients of weights not counted */
    bool                 started; /* the one before it was in steps, and is over when these are */
    bool                 ended;
    pdl__repeats_t       rounds;
    void                *room; /* for what follows */
    pdl__plain_pass_t   *plain;
    pdl__pass_steps_t   *whole; /* per chunk, forward and backward: a pass in one piece */
    pdl__replay_step_t  *steps; /* of one that is not */
    pdl__stage_replay_t *replay;
} pdl__stage_walk_t;

struct pdl__pass_walk {
    const pdl__pass_prices_t    *prices;
    const pdl__replay_options_t *options;
    pdl__stage_walk_t           *stages;
    int64_t                      count;             /* passes of a stage, likewise */
    double                      *seconds, *queue_s; /* the table */
    double                      *end_s;             /* of the latest step at each price */
    int                         *wait;              /* every price by itself */
    double                      *sent_s;
    /* State that is sharded for the update only is gathered ahead of the first forward pass, as it would be after the
       update before; weights that are sharded, for every pass. */
    bool gathers_first, gathers_always;
    /* The micro-batch beside whose passes gradients go out or weights come in; forward, backward; negative: none. */
    int64_t with_segments[2];
    bool    skips; /* rounds that are alike, once */
    /* Every pass is in steps: weights come in beside it, a host queues it, or groups of micro-batches are not full. */
    bool in_steps;
};

static inline int pdl__chunk_price(const pdl__pass_walk_t *w, int stage, int chunk)
{
    return 1 + PDL__CHUNK_PRICES * (stage * w->prices->pipeline.chunks + chunk);
}

static inline int pdl__segment_price(const pdl__pass_walk_t *w, int segment)
{
    return pdl__chunk_price(w, w->prices->pipeline.stages, 0) + PDL__SEGMENT_PRICES * segment;
}

static inline int pdl__stage_price(const pdl__pass_walk_t *w, int stage)
{
    return pdl__segment_price(w, w->prices->segment_count) + PDL__STAGE_PRICES * stage;
}

static inline int pdl__tie_price(const pdl__pass_walk_t *w, int tie)
{
    return pdl__stage_price(w, w->prices->pipeline.stages) + tie;
}

/* Inputs of the micro-batches of a virtual stage: an odd number of cache lines, as rows that are a power of two apart would have to
   share few of them. */
static inline int64_t pdl__input_row(const pdl_pipeline_t *p)
{
    return ((p->micro_batches + 7) / 8 | 1) * 8;
}

/* The input of the pass of the first micro-batch; those of others follow. */
static inline int pdl__input_of(const pdl_pipeline_t *p, bool backward, int stage, int chunk)
{
    return (int)((((backward ? p->stages : 0) + stage) * (int64_t)p->chunks + chunk) * pdl__input_row(p));
}

static inline int pdl__input_count(const pdl_pipeline_t *p)
{
    return pdl__input_of(p, true, p->stages, 0);
}

/* Micro-batches that a stage takes up in a round of its steady phase, one backward pass after one forward pass: one, or with
   several chunks as many as there are stages. */
static inline int64_t pdl__round_micro_batches(const pdl_pipeline_t *p)
{
    return p->chunks > 1 ? p->stages : 1;
}

/* A pass of the first micro-batch in one piece. */
pdl__pass_steps_t pdl__whole_pass(pdl__stage_walk_t *stage, int chunk, bool backward);
pdl__plain_pass_t pdl__plain_pass(const pdl__stage_walk_t *stage, int chunk, bool backward);
/* The steady phase of a stage, in its rounds. */
void pdl__find_rounds(pdl__stage_walk_t *stage);
/* The steps of the next pass of a stage, which begins with its lane. */
pdl__more_t pdl__next_pass(pdl__lane_t *lane, bool *moved);

#endif
