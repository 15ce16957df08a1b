/*
 * Samples, tokens and operations per second of a candidate (docs/oracle.md, "Rates").
 */
#include "report/plan/plan_rates.h"

#include <math.h>

int64_t pdl__sample_tokens(const pdl_model_t *model)
{
    const pdl_shape_t *sample = &pdl_model_layer(model, 0)->out;

    return sample->sequence ? sample->extent[0] : 0;
}

pdl__rates_t pdl__plan_rates(const pdl_plan_report_t *report, const pdl_candidate_t *c)
{
    const pdl_projection_t *p = &c->projection;
    pdl__rates_t            rates = {NAN, NAN, NAN, NAN};
    int64_t                 tokens = pdl__sample_tokens(report->model);

    if (p->total_s <= 0 || c->config.batch <= 0) return rates;
    rates.samples_per_s = (double)c->config.batch / p->total_s;
    if (tokens > 0) rates.tokens_per_s = rates.samples_per_s * (double)tokens;
    if (p->flop <= 0) return rates; /* the original formulas do not say */
    rates.flop_per_s = p->flop / p->total_s / (double)report->request->pe;
    rates.mfu = rates.flop_per_s /
                pdl_system_peak(report->system, c->config.part_order, report->request->pe, c->config.precision);
    return rates;
}
