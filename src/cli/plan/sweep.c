/*
 * paradl plan --devices A..B: the best plan at A, twice as many, and so on up to B.
 */
#include "cli/plan/plan.h"

#include <paradl/report/scaling.h>
#include <paradl/train/dry.h>

#include <stdlib.h>
#include <string.h>

#define MOST_POINTS 64 /* doublings of a 64-bit number */

typedef struct sweep {
    int64_t           devices[MOST_POINTS];
    pdl_request_t     requests[MOST_POINTS];
    pdl_search_t     *searches[MOST_POINTS];
    pdl_plan_report_t reports[MOST_POINTS];
    pdl_ownership_t   costs[MOST_POINTS];
    int               count;
} sweep_t;

/* The last number is among them, also where no doubling meets it. */
static void list_devices(sweep_t *s, const int64_t range[2])
{
    int64_t n = range[0];

    s->count = 0;
    for (; n<range[1]; n = n> INT64_MAX / 2 ? range[1] : 2 * n) s->devices[s->count++] = n;
    s->devices[s->count++] = range[1];
}

/* As for one number of devices: the answers are the same. */
static pdl_status_t search_at(const pdl__plan_asked_t *v, sweep_t *s, int point, pdl__plan_question_t *q,
                              pdl_oracle_t *oracle)
{
    pdl_exact_options_t   exact;
    pdl_request_t        *request = &s->requests[point];
    pdl_memory_counter_t *counter = NULL;
    pdl_status_t          status = pdl_memory_counter_create(q->system, s->devices[point], &counter);

    *request = q->request;
    request->pe = s->devices[point];
    request->top = 1;
    request->memory = pdl_memory_counter_count;
    request->memory_context = counter;
    if (!status) status = pdl__plan_search(v, q->system, oracle, request, &exact, &s->searches[point]);
    request->exact = NULL;
    pdl_memory_counter_destroy(counter);
    return status;
}

static pdl_status_t write_plot(const pdl_scaling_t *scaling, const char *path)
{
    pdl_output_t *output;
    pdl_status_t  status = pdl_output_open(path, &output);

    if (status) return status;
    status = pdl_report_scaling_svg(scaling, pdl_output_stream(output));
    return pdl__finish_output(output, status);
}

static pdl_status_t show(const pdl__plan_asked_t *v, const pdl_scaling_t *scaling)
{
    pdl_status_t status = v->plot != NULL ? write_plot(scaling, v->plot) : PDL_OK;
    bool         possible = false;

    for (int p = 0; p < scaling->count; p++) possible = possible || pdl_scaling_rate(scaling, p) > 0;
    if (status) return status;
    if (v->json) return pdl_report_scaling_json(scaling, stdout);
    status = pdl_report_scaling(scaling, stdout);
    if (!status && !possible)
        return pdl_error(PDL_ERR_LIMIT, "no plan is possible on any of these numbers of devices");
    if (status || scaling->count < 2) return status;
    putchar('\n');
    return pdl_report_scaling_text(scaling, stdout);
}

static pdl_status_t run_points(const pdl__plan_asked_t *v, pdl__plan_question_t *q, pdl_oracle_t *oracle,
                               sweep_t *s)
{
    pdl_scaling_t scaling = {.points = s->reports, .count = s->count, .fixed_batch = v->batch > 0};
    pdl_status_t  status = PDL_OK;

    for (int p = 0; p < s->count && !status; p++) {
        status = search_at(v, s, p, q, oracle);
        s->reports[p] = (pdl_plan_report_t){.model = q->model,
                                            .model_name = v->model,
                                            .system = q->system,
                                            .dataset = q->request.dataset,
                                            .request = &s->requests[p],
                                            .search = s->searches[p],
                                            .formulas = "paradl",
                                            .parameters = q->parameters.name,
                                            .framework = q->parameters.framework,
                                            .training = q->training};
        if (!status) s->reports[p].ownership = pdl__plan_own(q, s->searches[p], &s->costs[p]);
        /* Who ends a search does not want the next. */
        if (!status && s->searches[p]->stopped) scaling.count = s->count = p + 1;
    }
    return status ? status : show(v, &scaling);
}

pdl_status_t pdl__plan_sweep(const pdl__plan_asked_t *v, pdl__plan_question_t *q)
{
    sweep_t      *s = calloc(1, sizeof(*s));
    pdl_oracle_t *oracle = NULL;
    pdl_status_t  status = s != NULL ? pdl_oracle_create(q->model, q->system, &q->parameters, &oracle)
                                     : pdl_error(PDL_ERR_NOMEM, "out of memory");

    if (!status) {
        list_devices(s, v->range);
        status = run_points(v, q, oracle, s);
        for (int p = 0; p < s->count; p++) pdl_search_destroy(s->searches[p]);
    }
    pdl_oracle_destroy(oracle);
    free(s);
    return status;
}
