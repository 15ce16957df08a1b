/*
 * Search: every strategy at a number of devices and one batch, the best configuration of each, ranked by a goal, with
 * the reasons of those that are not possible.
 *
 *     pdl_request_t request = pdl_request_default();
 *     request.pe = 512;
 *     pdl_search_t *search;
 *     pdl_search_run(oracle, &request, &search);
 *     puts(search->candidates[0].config.strategy->name);
 *     pdl_search_destroy(search);
 */
#ifndef PARADL_SEARCH_H
#define PARADL_SEARCH_H

#include <paradl/oracle/oracle.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pdl_goal { PDL_GOAL_TIME, PDL_GOAL_MEMORY, PDL_GOAL_COST, PDL_GOAL_ENERGY, PDL_GOAL_COUNT } pdl_goal_t;
extern const char *const pdl_goal_names[PDL_GOAL_COUNT];

/* Counts the memory of a plan where it is known better than by the oracle's model: sets memory, memory_bytes and compiled of
   the projection, or leaves them where it cannot say. PDL_ERR_UNSUPPORTED, _LIMIT and _INPUT: the plan is not possible. */
typedef pdl_status_t (*pdl_memory_fn_t)(void *context, const pdl_plan_t *plan, pdl_projection_t *projection);

typedef struct pdl_request {
    const pdl_dataset_t   *dataset; /* NULL: time per sample decides instead of time per epoch */
    int64_t                pe;
    int64_t                batch;          /* over all devices; 0: by samples_per_pe */
    int64_t                samples_per_pe; /* the batch is so many times pe; 0: chosen (docs/oracle.md, "Search") */
    int64_t                micro_batches;  /* of a replica; 0: chosen */
    const pdl_strategy_t  *strategy;       /* NULL: all */
    bool                   named;          /* all but those that give every layer a layout of its own */
    pdl_goal_t             goal;
    pdl_optimizer_t        optimizer;
    pdl_precision_t        precision;
    const pdl_precision_t *precisions;      /* several of which one is chosen, in place of `precision` */
    int                    precision_count; /* 0: none are given */
    pdl_run_mode_t         run_mode;
    const char            *spatial_until;
    double                 max_memory; /* bytes of a device that may be used; 0: all that it has */
    int64_t                top;        /* candidates that are shown, whose memory is counted; 0: all */
    pdl_memory_fn_t        memory;     /* asked where the system names a backend; NULL: the model's figures */
    void                  *memory_context;
    const struct pdl_exact_options *exact; /* exact.h; NULL: only what the rules of the search try */
} pdl_request_t;
pdl_request_t pdl_request_default(void);

typedef struct pdl_candidate {
    bool                  possible;    /* within the limits of the strategy and in memory */
    char                  reason[224]; /* when not possible */
    const pdl_strategy_t *same_as;     /* the strategy of this answer that its best plan is; it is left out then */
    pdl_config_t          config;      /* strategy and best configuration */
    pdl_plan_t           *plan;        /* owned; NULL when not possible by the limits */
    pdl_projection_t      projection;
    double                epoch_s;       /* 0 without a data set */
    double                sample_s;      /* time per sample, whole machine */
    double                score;         /* what the goal minimises */
    int64_t               largest_batch; /* that fits in memory, other things equal; 0 unknown */
} pdl_candidate_t;

/* What a search for one of several precisions answers. */
typedef struct pdl_precision_answer {
    pdl_precision_t precision;
    bool            computed; /* by the device; else the reason of `best` says so */
    pdl_candidate_t best;     /* or, where none is possible, the one nearest to it; without plan */
    int64_t         configurations;
    bool            certified;
} pdl_precision_answer_t;

typedef struct pdl_search {
    pdl_candidate_t        *candidates; /* possible ones first, best first */
    int                     count, possible;
    pdl_precision_answer_t *precisions; /* best first; NULL: one was asked for */
    int                     precision_count;
    int64_t                 batch;             /* of all that are possible */
    char                    batch_reason[160]; /* where it comes from; "" when the request gave it */
    int64_t                 configurations;    /* evaluated */
    double                  seconds;
    int64_t                 not_replayed; /* of these, some that might have won */
    bool                    stopped;      /* ended with the best so far, before all was looked at */
    struct pdl_exact       *exact;        /* what the exact search found; NULL: there was none */
    /* All of what the rules try that might win was replayed; and by the closed form nothing is better than the best of `exact`. */
    bool certified;
    char not_certified[224]; /* why not */
} pdl_search_t;

/* Candidates whose scores differ by less than this share tie: no projection tells them apart. */
#define PDL_TIE 0.005
bool pdl_candidates_tie(const pdl_candidate_t *a, const pdl_candidate_t *b);
/* Puts the candidates in order, after their scores have changed: possible ones first, best first; of those that tie, the
   one with fewer axes, then the better known. */
void pdl_search_rank(pdl_search_t *search);

pdl_status_t pdl_search_run(pdl_oracle_t *oracle, const pdl_request_t *request, pdl_search_t **search);
void         pdl_search_destroy(pdl_search_t *search);

/* One plan of request->strategy for a run on request->pe ranks, which may be more than the system has devices: on the mesh
   that is given (or NULL), on that of data parallelism, or on the one that is projected to be fastest. Layers that are too
   small for the only mesh there is stay whole. `system` is needed where there is no mesh. */
pdl_status_t pdl_search_plan(const pdl_model_t *model, const pdl_system_t *system, const pdl_request_t *request,
                             const pdl_mesh_t *mesh, pdl_plan_t **plan);
/* pdl_oracle_settle() for such a run. */
pdl_status_t pdl_search_settle(const pdl_system_t *system, const pdl_parameters_t *parameters, pdl_plan_t *plan);

/* After a search that found nothing possible: which number of those asked for (micro-batches, batch, devices) leaves no plan, and by how much
   the closest that has one misses it; "" where no other number near it has one. */
pdl_status_t pdl_search_closest(pdl_oracle_t *oracle, const pdl_request_t *request, char *text, size_t size);

/* The best per-layer layouts on a mesh data x tensor (docs/oracle.md, "Mixed layouts"): dynamic programming over
   the layers, the layouts of open branches being part of the state. `config` gives mesh, batch and policies
   (strategy is ignored; pipeline and spatial must be 1); the plan has strategy "mixed". Never worse than a preset on the same
   mesh: what fits in memory comes first, then what is faster; when nothing fits, the fastest is returned and
   projection->fits is false. */
pdl_status_t pdl_search_mixed(pdl_oracle_t *oracle, const pdl_config_t *config, const pdl_dataset_t *dataset,
                              pdl_plan_t **plan, pdl_projection_t *projection);

/* Why the first candidate wins and what would have to change for the second to win: complete sentences, one
   per line. */
pdl_status_t pdl_search_explain(pdl_oracle_t *oracle, const pdl_request_t *request, const pdl_search_t *search,
                                char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
