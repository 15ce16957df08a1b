/*
 * Samples that no longer teach: what every sample's loss was when it was last seen, and which samples are hidden in the
 * next epoch because of it (KAKURENBO: Nguyen and others, NeurIPS 2023), with other ways to choose as controls.
 *
 *     pdl_hide_create(&options, samples, &hide);
 *     for (epoch ...) {
 *         pdl_hide_begin(hide, epoch, epochs, &scope);            // selects; never hides anything in epoch 0
 *         ... train on what is not in pdl_hide_bits(), with the learning rate times pdl_hide_rate() ...
 *         pdl_hide_note(hide, position, index, loss, ...);        // by-products of every forward pass
 *         ... forward only over the hidden samples where pdl_hide_refreshes() says so, noted as well ...
 *         pdl_hide_combine(hide, ranks);                          // all ranks know what each of them has noted
 *     }
 */
#ifndef PARADL_HIDE_H
#define PARADL_HIDE_H

#include <paradl/base/status.h>
#include <paradl/comm/ranks.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pdl_hide_method {
    PDL_HIDE_NONE,
    PDL_HIDE_LOSS,       /* lowest losses, wrong and unsure ones moved back: KAKURENBO */
    PDL_HIDE_RANDOM,     /* as many as that would hide, but any */
    PDL_HIDE_IMPORTANCE, /* draws with replacement, in proportion to the loss; nothing is hidden */
    PDL_HIDE_SELECTIVE,  /* keeps with probability CDF(loss)^beta: selective backprop */
    PDL_HIDE_UNBIASED,   /* hides some of those below the mean and weighs the others up: InfoBatch */
    PDL_HIDE_METHOD_COUNT
} pdl_hide_method_t;
extern const char
    *const pdl_hide_method_names[PDL_HIDE_METHOD_COUNT]; /* none loss random importance selective unbiased */

typedef enum pdl_hide_scope { PDL_HIDE_GLOBAL, PDL_HIDE_LOCAL, PDL_HIDE_SCOPE_COUNT } pdl_hide_scope_t;
extern const char *const pdl_hide_scope_names[PDL_HIDE_SCOPE_COUNT]; /* global local */

#define PDL_HIDE_MILESTONES 8

typedef struct pdl_hide_options {
    pdl_hide_method_t method;
    double            fraction;       /* F: at most this part is hidden; unbiased: the probability r */
    double            threshold;      /* tau: confidence below which a sample is moved back */
    bool              lowest;         /* HE */
    bool              move_back;      /* MB */
    bool              reduce;         /* RF: the fraction falls at the milestones */
    bool              rate;           /* LR: the learning rate makes up for missing steps */
    bool              rate_from_most; /* from F_e as the published program does, instead of from what was hidden */
    pdl_hide_scope_t  scope;
    int               milestone_count;                 /* 0: at 3/10, 6/10 and 8/10 of the run */
    int64_t           milestone[PDL_HIDE_MILESTONES];  /* epochs */
    double            factor[PDL_HIDE_MILESTONES + 1]; /* of F between them */
    /* Hidden samples are refreshed every so many epochs (k: in epochs k-1, 2k-1, ...); 0: never; -1: in every epoch, but
       never with unbiased. A sample that was hidden for so many epochs (never: for one) without being seen is trained on
       in the next, unless chance brings it back anyway (random, unbiased). */
    int64_t  refresh_every;
    double   trim;  /* also hides this part with the highest losses */
    double   beta;  /* selective */
    double   until; /* unbiased: hides in this first part of the run */
    uint64_t seed;
} pdl_hide_options_t;
/* Method none, F 0.3, tau 0.7, all four components, factors 1 0.8 0.6 0.4, global, refresh -1, no trim, beta 1, until 0.875,
   seed 1. */
void pdl_hide_defaults(pdl_hide_options_t *options);
/* PDL_ERR_INPUT names the option (as on the command line) and its range. */
pdl_status_t pdl_hide_check(const pdl_hide_options_t *options);

typedef struct pdl_hide pdl_hide_t;

pdl_status_t pdl_hide_create(const pdl_hide_options_t *options, int64_t samples, pdl_hide_t **hide);
void         pdl_hide_destroy(pdl_hide_t *hide); /* NULL is allowed */

/* What a choice depends on besides the state. */
typedef struct pdl_hide_workers {
    int64_t      batch; /* of one step, over all ranks: as many samples stay at least */
    pdl_ranks_t *ranks; /* of this session, borrowed; the choice is shared out and agreed on */
    /* Local scope: the partitions of this rank's workers. */
    int64_t               count;
    const int64_t *const *partition;
    const int64_t        *sizes;
    bool                  reports; /* local scope: this rank counts for its place (others have the same workers) */
} pdl_hide_workers_t;

/* Collective over `ranks`. Hides less than asked for where less than a batch would stay; fewer samples than that are
   refused. What ranks have noted has been combined. */
pdl_status_t pdl_hide_begin(pdl_hide_t *hide, int64_t epoch, int64_t epochs, const pdl_hide_workers_t *workers);

const uint64_t *pdl_hide_bits(const pdl_hide_t *hide); /* bit i: sample i is hidden; NULL: none */
const int64_t  *pdl_hide_drawn(const pdl_hide_t *hide,
                               int64_t          *count); /* importance: the epoch's samples; else NULL */
float           pdl_hide_weight(const pdl_hide_t *hide, int64_t index); /* of a sample's loss in this epoch */
bool            pdl_hide_weighs(const pdl_hide_t *hide);                /* whether some are not 1 */
double          pdl_hide_rate(const pdl_hide_t *hide);                  /* factor of the learning rate */
bool            pdl_hide_refreshes(const pdl_hide_t *hide);             /* in this epoch */

typedef struct pdl_hide_report {
    int64_t candidates, moved_back, hidden; /* of this epoch, over all ranks; the first is the sum of the others */
    double  most, fraction;                 /* F_e (with what is trimmed) and F*_e */
    double  select_s;                       /* time of begin and combine on this rank */
    double  threshold_loss; /* the largest loss among candidates but those trimmed; 0 when there are none */
} pdl_hide_report_t;
void pdl_hide_report(const pdl_hide_t *hide, pdl_hide_report_t *report);

/* Results of samples in the order of the global batch: `position` is that of the first, counted from the epoch's start.
   A sample that comes twice keeps what the lower position said; index -1 is no sample. */
void pdl_hide_note(pdl_hide_t *hide, int64_t position, const int64_t *index, const float *loss,
                   const float *correct, const float *confidence, int64_t count);
/* Collective. Afterwards every rank holds what all have noted. */
pdl_status_t pdl_hide_combine(pdl_hide_t *hide, pdl_ranks_t *ranks);

/* Loss of every sample when it was last seen; 1 before. */
const float *pdl_hide_loss(const pdl_hide_t *hide);

/* The state as bytes of known size, after combine, for a checkpoint; hidden samples of the epoch at hand included. */
int64_t pdl_hide_state_bytes(const pdl_hide_t *hide);
void    pdl_hide_save(const pdl_hide_t *hide, void *bytes);
/* With `inside` the next begin is of the epoch that was at hand, and keeps its hidden samples. */
pdl_status_t pdl_hide_restore(pdl_hide_t *hide, const void *bytes, int64_t count, bool inside);

/* The `count` smallest of `total` losses in the order (loss, index) are those for which pdl_below() holds; NaN counts
   as infinite and is never among them. O(total). With ranks, each gives a part of the losses, whose indices begin with
   `first`, and all learn the same boundary. */
typedef struct pdl_boundary {
    uint32_t key;   /* of the loss: ordered as the losses are */
    int64_t  index; /* with this key, indices below this one */
} pdl_boundary_t;
pdl_status_t pdl_select_smallest(const float *loss, int64_t total, int64_t first, int64_t count, pdl_ranks_t *ranks,
                                 pdl_boundary_t *boundary);
bool         pdl_below(const pdl_boundary_t *boundary, float loss, int64_t index);

#ifdef __cplusplus
}
#endif
#endif
