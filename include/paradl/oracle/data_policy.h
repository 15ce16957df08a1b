/*
 * What a data policy costs and saves: reading, exchange of samples between workers, hiding of samples, storage, and
 * how far samples mix. docs/data_policy.md has the formulas and says what is measured and what is assumed.
 *
 *     pdl_policy_question_t question = {.policy = policy, .dataset = &dataset, .pe = 512, .workers = 512,
 *                                       .batch = 16384, .projection = &projection, .epochs = 90};
 *     pdl_policy_projection_t answer;
 *     pdl_oracle_policy(oracle, &question, &answer);
 *     printf("%g s per epoch, of which %g s wait for input\n", answer.epoch_s, answer.io_s);
 *
 * Letters: N samples of s bytes, M workers, I iterations per epoch, Q exchanged and F hidden fraction.
 */
#ifndef PARADL_DATA_POLICY_H
#define PARADL_DATA_POLICY_H

#include <paradl/oracle/oracle.h>

#ifdef __cplusplus
extern "C" {
#endif

/* (N/M) s / min(client, shared/M): an epoch's reading by each of M clients of a file system. Rates of 0 are not
   described and bound nothing. */
double pdl_policy_read_seconds(double samples, double sample_bytes, double clients, double client_bytes_per_s,
                               double shared_bytes_per_s);
/* k = round(Q floor(N/M)): samples that every worker sends, and receives, in an epoch. */
double pdl_policy_exchanged(double exchange, double samples, double workers);
/* messages * alpha + V/rate; a rate of 0 costs nothing. */
double pdl_policy_exchange_seconds(double messages, double startup_s, double bytes, double bytes_per_s);
/* What an exchange sliced over `iterations` adds to each of them: max(0, T_x/I - (t_fw + t_bw)). */
double pdl_policy_stall_seconds(double exchange_s, double iterations, double pass_s);
/* Expected share of the data set that a worker has trained on after E epochs, and probability that a sample never
   left its first worker. */
double pdl_policy_seen(double exchange, double workers, double epochs);
double pdl_policy_never_left(double exchange, double epochs);

/* Mean over a run of F times the factor of each epoch; factor[i] holds from milestone[i-1] on, so that there is one
   more of them than of milestones. */
double pdl_hiding_mean(double fraction, int64_t epochs, const int64_t *milestone, int count, const double *factor);
/* Share of an epoch's time that hiding a fraction f saves. t_f_s and t_b_s: forward and backward per sample; t_c_s:
   gradient exchange and update per step of `batch` samples; t_sel_s: selection and combination of an epoch per
   sample of the data set. All of them of the whole machine, so of M workers the time of one over M. Negative when
   selecting costs more than hiding saves. */
double pdl_hiding_saving(double t_f_s, double t_b_s, double t_c_s, double batch, double fraction, double t_sel_s,
                         int64_t refresh_every);

/* Rate at which a worker can send when all of them send to random others: the narrowest of the levels, of which
   each carries the part of the traffic that leaves its groups. `workers` are spread evenly over `pe` devices. INFINITY
   for one worker. */
double pdl_policy_exchange_rate(const pdl_system_t *system, const pdl_parameters_t *parameters, int64_t pe,
                                int64_t workers);

typedef struct pdl_policy_question {
    pdl_data_policy_t       policy;
    const pdl_dataset_t    *dataset; /* of known size */
    int64_t                 pe, workers, batch;
    const pdl_projection_t *projection;           /* of one iteration of the plan */
    double                  exchange_bytes_per_s; /* of a worker, simulated or measured; 0: by the closed form */
    double                  epochs;               /* after which mixing is looked at; 0: 90 */
} pdl_policy_question_t;

/* Of a plan: workers are the replicas of its data axes. */
pdl_policy_question_t pdl_policy_question_of_plan(const pdl_plan_t *plan, const pdl_dataset_t *dataset,
                                                  const pdl_projection_t *projection);

/* One epoch, all seconds of one worker. epoch_s = pass_s + sync_s + io_s + exchange_s + select_s. */
typedef struct pdl_policy_projection {
    double iterations;            /* of training; hiding makes them fewer */
    double hidden;                /* mean share of the samples that is hidden */
    double pass_s;                /* FW+BW with what they exchange in layers; the refresh pass included */
    double sync_s;                /* GE+WU: gradients that the passes do not hide, and the update */
    double read_s, input_s, io_s; /* reading; that or decoding, whichever is slower; what is not hidden of it */
    double exchange_total_s;      /* T_x */
    double stall_s, tail_s,
        exchange_s; /* per iteration; the last slice, that nothing hides; exposed in the epoch */
    double select_s;
    double epoch_s;
    double saving; /* of the time by hiding, by pdl_hiding_saving() */
    double exchange_samples, exchange_bytes, exchange_bytes_per_s, startup_s;
    double stored_share, stored_bytes; /* of a worker, as a share of the data set and in bytes ... */
    double node_bytes, capacity_bytes; /* ... of a node, and what it holds; 0: not described */
    bool   fits, shared_limits;        /* in the node; the file system is slower than its clients together */
    double epochs, seen, never_left;
} pdl_policy_projection_t;

pdl_status_t pdl_oracle_policy(const pdl_oracle_t *oracle, const pdl_policy_question_t *question,
                               pdl_policy_projection_t *answer);

/* Policies worth comparing: global from the file system and from a copy on every node, local, partial with 0.03, 0.1
   and 0.3, paired with 0.1, then the same with 0.3 hidden. */
#define PDL_POLICY_LIST_COUNT 14
void pdl_policy_list(pdl_data_policy_t list[PDL_POLICY_LIST_COUNT]);

typedef struct pdl_policy_row {
    pdl_data_policy_t       policy;
    pdl_policy_projection_t projection;
} pdl_policy_row_t;

/* Where the difference between a policy and another comes from: sentences, one per line. */
void pdl_policy_explain(const pdl_policy_row_t *row, const pdl_policy_row_t *base, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
