/*
 * A whole training run: epochs of updates with validation, checkpoints and a log, until it is done, stopped, or fails.
 *
 *     pdl_train_options_t options;
 *     pdl_train_defaults(&options);
 *     options.session.plan = plan; ...
 *     options.train = source;
 *     options.epochs = 5;
 *     pdl_train_run(&options, &summary);
 *
 * SIGINT, SIGTERM and SIGUSR1 end the run after the update at hand, with a checkpoint where one was asked for.
 */
#ifndef PARADL_TRAIN_H
#define PARADL_TRAIN_H

#include <paradl/base/status.h>
#include <paradl/data/data.h>
#include <paradl/data/hide.h>
#include <paradl/data/shuffle.h>
#include <paradl/program/copies.h>
#include <paradl/train/aggregate.h>
#include <paradl/train/checkpoint.h>
#include <paradl/train/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is known after one update, on every rank. */
typedef struct pdl_train_step {
    int64_t           update, updates; /* 1, 2, ...; of how many */
    int64_t           epoch, epochs;   /* 0, 1, ...; 0 epochs: only updates are counted */
    pdl_step_result_t result;
    double            step_s;        /* from the end of the update before, loading included */
    double            io_s;          /* of it, waiting for samples */
    double            samples_per_s; /* of the global batch */
    double            elapsed_s, left_s;
    /* Of a round, which is told as one step: what its mean was made of; otherwise NULL. */
    const pdl_mean_parts_t *mean;
} pdl_train_step_t;

/* How long ranks computed in updates `first`, `first + every`, ...: ranks wait for each other, and the slowest sets the pace. */
typedef struct pdl_rank_spread {
    double least_s, median_s, largest_s;
    int    slowest; /* rank */
} pdl_rank_spread_t;
typedef struct pdl_train_spread {
    int64_t            first, every, count;
    pdl_rank_spread_t *update;
} pdl_train_spread_t;

typedef struct pdl_train_epoch {
    int64_t              epoch; /* 0, 1, ... */
    double               train_loss, train_accuracy;
    bool                 validated;
    double               valid_loss, valid_accuracy, valid_s;
    double               epoch_s;          /* training, exchange and refresh; without validation */
    int64_t              steps;            /* updates */
    bool                 exchanges, hides; /* what follows has a meaning */
    pdl_shuffle_report_t shuffle;
    pdl_hide_report_t    hide;
    double               refresh_s; /* forward passes over hidden samples */
    /* Of several ranks, as long as the observer is called; otherwise NULL. */
    const pdl_train_spread_t *spread;
} pdl_train_epoch_t;

/* Called on every rank; entries may be NULL. A failure of one of the first two ends the run, on all ranks. */
typedef struct pdl_train_observer {
    void *context;
    pdl_status_t (*on_start)(void   *context,
                             int64_t updates); /* made before, by the run that goes on; 0: from the start */
    pdl_status_t (*on_save)(
        void *context); /* a checkpoint is about to be written: all of the log has to be on the disk */
    void (*on_begin)(void *context, const pdl_session_t *session, double start_up_s);
    void (*on_step)(void *context, const pdl_train_step_t *step);
    void (*on_epoch)(void *context, const pdl_train_epoch_t *epoch);
    void (*on_note)(void *context, const char *text);    /* a checkpoint was written, a run resumed */
    void (*on_warning)(void *context, const char *text); /* what has to be known also of a quiet run */
} pdl_train_observer_t;

/* Which samples are trained on, by whom, and with what weight. */
typedef struct pdl_sampling_options {
    int64_t               workers; /* that share every batch; 0: one for every rank with samples of its own */
    pdl_shuffle_options_t shuffle;
    const char           *store; /* where a rank keeps its samples: "none", "memory" or a folder; NULL: memory where
                                    several ranks have partitions, else none */
    pdl_hide_options_t    hide;
    bool                  batch_confidence; /* confidence as the published program of KAKURENBO computes it */
    bool                  refresh_training; /* the refresh pass in training mode, as there */
    bool                  check;            /* all invariants at the end of every epoch */
} pdl_sampling_options_t;

typedef struct pdl_train_options {
    pdl_session_spec_t      session;
    const char             *model_name;   /* as it was asked for, kept in checkpoints */
    pdl_source_t           *train;        /* borrowed */
    pdl_source_t           *valid;        /* borrowed; NULL: no validation */
    int64_t                 epochs;       /* either this ... */
    int64_t                 updates;      /* ... or this many updates; both: whatever comes first */
    bool                    only_initial; /* ... or none: the checkpoint gets the initial weights */
    int64_t                 valid_every;  /* updates between validations; 0: at the end of every epoch */
    int                     loader_threads, prefetch;
    bool                    normalise;
    pdl_augmentation_t      augmentation;
    pdl_sampling_options_t  sampling;
    pdl_aggregate_options_t aggregate;
    const char             *checkpoint;       /* folder, or NULL */
    int64_t                 checkpoint_every; /* updates; 0: at the end of every epoch */
    int                     keep;             /* checkpoints that stay */
    bool                    logged;           /* rank 0 keeps a log, which checkpoints must not run ahead of */
    bool                    resume;           /* goes on from the latest, if there is one */
    bool                    overwrite; /* replaces the checkpoints of another run, which are refused otherwise */
    const char             *trace;     /* file of rank 0 for all ranks, or NULL */
    pdl_train_observer_t    observer;
} pdl_train_options_t;
void pdl_train_defaults(pdl_train_options_t *options);

/* The clusters of the last round (cadis). */
#define PDL_SHOWN_CLUSTERS 16
typedef struct pdl_cluster_summary {
    int64_t clusters;                    /* 0: there are none */
    int64_t workers[PDL_SHOWN_CLUSTERS]; /* of the first of them */
    double  similarity[3], threshold, trust;
} pdl_cluster_summary_t;

typedef struct pdl_train_summary {
    int64_t           updates; /* of this run */
    int64_t           samples; /* per update */
    bool              stopped; /* by a signal */
    bool              initial; /* only the initial weights were written */
    double            elapsed_s, start_up_s;
    pdl_train_epoch_t last; /* epoch; validated at the end if there is a validation set */
    /* Of an update: means over the ranks and over the middle half of the updates by time, in rounds over all; the same on all
       ranks. step_s is work_s, comm_s, io_s and what is between operations. */
    double                step_s;
    double                work_s, comm_s, io_s; /* computation; exposed exchanges; waiting for samples */
    double                class_s[PDL_OP_CLASS_COUNT];
    pdl_program_copies_t  copies;      /* of an update of this rank, between device and host */
    double                most_work_s; /* of the busiest rank */
    int                   busiest_rank;
    double                least_comm_s; /* over the updates */
    double                operations;
    pdl_session_memory_t  memory;            /* of this rank */
    double                most_memory_bytes; /* of the rank that holds most */
    pdl_cluster_summary_t clusters;
    /* What exchanged gradients and sharded weights on this rank. */
    pdl_session_exchange_t exchange[PDL_MAX_EXCHANGES];
    int                    exchange_count;
    const char            *transport; /* pdl_session_transport() */
    int                    turns;     /* pdl_session_turns() */
    int64_t                replayed;  /* pdl_session_replayed(): updates and validation */
} pdl_train_summary_t;

/* What a session of a run has to know of its workers, before it is made, for those who make one by themselves; PDL_ERR_INPUT for
   numbers that do not go together. */
pdl_status_t pdl_train_prepare(const pdl_train_options_t *options, pdl_session_spec_t *session);
pdl_status_t pdl_train_run(const pdl_train_options_t *options, pdl_train_summary_t *summary);

/* Collective. The weights of a checkpoint into a session; `averaged`: those of the EMA. A checkpoint of another model is
   refused with the first difference. */
pdl_status_t pdl_session_take(pdl_session_t *session, const pdl_checkpoint_t *checkpoint, bool averaged);
/* The same of a path; pdl_checkpoint_open() says what it may be. */
pdl_status_t pdl_session_load(pdl_session_t *session, const char *path, bool averaged);

/* Scores a session on all samples of a source. */
typedef struct pdl_score {
    double loss, accuracy, samples, seconds;
    bool   stopped; /* the session was asked to stop: it is a score of the samples so far */
} pdl_score_t;
pdl_status_t pdl_evaluate(pdl_session_t *session, pdl_source_t *source, int loader_threads, bool normalise,
                          pdl_score_t *score);

#ifdef __cplusplus
}
#endif
#endif
