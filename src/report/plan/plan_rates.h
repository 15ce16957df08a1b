/*
 * How fast a candidate is, in the measures in which runs are published.
 */
#ifndef PDL_REPORT_PLAN_RATES_H
#define PDL_REPORT_PLAN_RATES_H

#include <paradl/report/report.h>

/* NAN where it is not known. */
typedef struct pdl__rates {
    double samples_per_s, tokens_per_s; /* of the whole machine; tokens where samples are sequences */
    double flop_per_s;                  /* of a device: operations of the model, recomputation left out */
    double mfu;                         /* that, as a share of the peak of the precision */
} pdl__rates_t;
pdl__rates_t pdl__plan_rates(const pdl_plan_report_t *report, const pdl_candidate_t *c);

/* Samples of this model are sequences of so many tokens; 0: they are not. */
int64_t pdl__sample_tokens(const pdl_model_t *model);

#endif
