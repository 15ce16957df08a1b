/*
 * What the files of shuffling share. Internal to the module.
 */
#ifndef PDL_DATA_SHUFFLE_H
#define PDL_DATA_SHUFFLE_H

#include <paradl/data/data.h>
#include <paradl/data/shuffle.h>

typedef struct pdl__exchange pdl__exchange_t;

/* Workers, and their samples, are numbered over all ranks; arrays begin with the first one of this rank. The samples of
   worker w are [w N / M, (w + 1) N / M) of the partition, so their number never changes. */
struct pdl_shuffle {
    pdl_shuffle_spec_t spec;
    pdl_ranks_t       *ranks;        /* a group of our own, so that messages meet no others */
    int64_t            first, count; /* workers of this rank */
    int64_t            base, held;   /* their samples: [base, base + held) of the partition */
    int64_t            slots;        /* k: samples that a worker sends and receives in an epoch */

    /* The partition; between epochs every worker's samples are in ascending order, so that what follows depends on
       which samples a worker has and on nothing else. */
    int64_t *list;     /* [held] */
    int64_t *spare;    /* [held], scratch */
    int64_t *training; /* [held]: without hidden samples, from the same place on */
    int64_t *trains;   /* [count]: how many of them */
    int64_t *hidden;   /* [held]: hidden samples */
    int64_t  hidden_count;
    int64_t  most_hidden; /* global: room */

    pdl_global_order_t order; /* global: the plain order, or */
    bool               plain;
    int64_t           *wrapped; /* the one that begins again where it ends */
    int64_t            wrapped_count, wrapped_room;

    bool    open;  /* between begin and end */
    int64_t epoch; /* at hand, or the last; -1: none yet */
    int64_t steps;

    int64_t *out;                       /* [count][slots] samples that leave */
    int64_t *received;                  /* [count][slots] samples that take their place; -1: not there yet */
    int64_t *target, *origin, *scratch; /* [count], [count] and [M]: of one slot */

    /* Paired. */
    double  *score;   /* [M] */
    int64_t *partner; /* [M]; oneself: keeps its samples */
    double  *key;     /* scratch: losses of one worker */
    bool     decided; /* partner and out were restored and are not decided again */

    pdl__exchange_t *exchange; /* NULL: nothing ever changes hands */
    uint64_t        *met;      /* [count][words]: bit v: has received from worker v */
    int64_t          words;

    bool                 restored; /* the next begin is of `epoch` */
    bool                 failed;   /* messages may be left over: nothing is waited for */
    double               exchange_s;
    pdl_shuffle_report_t making, report; /* of the epoch at hand, and of the last one */
};

/* ---- destinations.c ---- */

/* Targets and origins of workers [first, first + count) in a slot; `scratch` has room for all workers. */
void pdl__destinations(const pdl_shuffle_options_t *options, int64_t workers, int64_t epoch, int64_t slot,
                       int64_t first, int64_t count, int64_t *scratch, int64_t *target, int64_t *origin);

/* ---- partition.c ---- */

/* The first partition, of all workers: [samples]. */
pdl_status_t pdl__partition_make(const pdl_shuffle_spec_t *spec, int64_t *partition);
/* Where the samples of `worker` are in the partition. */
void pdl__partition_range(const pdl_shuffle_t *shuffle, int64_t worker, int64_t *low, int64_t *high);
void pdl__partition_sort(int64_t *list, int64_t count);
bool pdl__partition_has(const int64_t *sorted, int64_t count, int64_t id);
/* The rank that has `worker`. */
int pdl__partition_rank(const pdl_shuffle_t *shuffle, int64_t worker);

/* ---- shuffle_global.c ---- */

pdl_status_t pdl__global_begin(pdl_shuffle_t *shuffle, const pdl_shuffle_epoch_t *input, int64_t *steps);
pdl_status_t pdl__global_order(pdl_shuffle_t *shuffle, int64_t step, int64_t count, int64_t *indices);

/* ---- shuffle_pairs.c ---- */

/* Collective. Scores, partners and what leaves, from the losses (NULL: not known yet). */
pdl_status_t pdl__pairs_decide(pdl_shuffle_t *shuffle, const float *loss);
/* Mean and variance of the scores, for the report. */
void pdl__pairs_note(pdl_shuffle_t *shuffle);

/* ---- shuffle_exchange.c ---- */

pdl_status_t pdl__exchange_create(pdl_shuffle_t *shuffle, pdl__exchange_t **exchange);
void         pdl__exchange_destroy(pdl__exchange_t *exchange); /* NULL is allowed */
/* Slots [step k / steps, (step + 1) k / steps) make up a slice. */
pdl_status_t pdl__exchange_begin(pdl__exchange_t *exchange);
/* Posts slices before `slice` as far as there is room, and looks after those in flight. Never waits. */
pdl_status_t pdl__exchange_advance(pdl__exchange_t *exchange, int64_t slice);
/* Posts what is left, and waits until all has been sent and has arrived. */
pdl_status_t pdl__exchange_complete(pdl__exchange_t *exchange);
/* Samples that went to other ranks. */
const int64_t *pdl__exchange_gone(const pdl__exchange_t *exchange, int64_t *count);
double         pdl__exchange_bytes(const pdl__exchange_t *exchange); /* sent to other ranks */

/* ---- shuffle_report.c ---- */

/* Collective. After the exchange and before the commit. */
pdl_status_t pdl__report_make(pdl_shuffle_t *shuffle);
/* Collective. After the commit: whether everything is as it has to be. */
pdl_status_t pdl__report_check(pdl_shuffle_t *shuffle);

/* ---- shuffle.c ---- */

/* The samples of local worker `i`. */
int64_t *pdl__shuffle_list(const pdl_shuffle_t *shuffle, int64_t i, int64_t *count);
/* Collective. Loads the store with the samples of `list`. */
pdl_status_t pdl__shuffle_load(pdl_shuffle_t *shuffle);

#endif
