/*
 * Projecting measured rows and summing up how well it went.
 */
#include "validate/fit/validation.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum quantity {
    COMPUTE,
    COMM,
    TOTAL,
    FORWARD,
    BACKWARD,
    UPDATE,
    GRADIENT,
    STAGE,
    WITH_IO,
    CONV,
    LAYER_ALLREDUCE,
    LAYER_GATHER,
    STAGING
} quantity_t;

static const struct {
    const char *name;
    quantity_t  quantity;
} quantities[] = {
    {"compute", COMPUTE},
    {"comm", COMM},
    {"total", TOTAL},
    {"compute_total", COMPUTE},
    {"compute_fw", FORWARD},
    {"compute_bw", BACKWARD},
    {"compute_wu", UPDATE},
    {"comm_gradient_allreduce", GRADIENT},
    {"compute_conv", CONV},
    {"comm_fb_allreduce", LAYER_ALLREDUCE},
    {"comm_fb_allgather", LAYER_GATHER},
    {"io_staging", STAGING},
    {"comm_fb_p2p", STAGE},
    {"total_with_io", WITH_IO},
    {"total_with_io_best", WITH_IO},
    {"total_throughput_inverse", WITH_IO},
};

int pdl__quantity(const char *name)
{
    for (size_t i = 0; i < sizeof(quantities) / sizeof(quantities[0]); i++)
        if (strcmp(quantities[i].name, name) == 0) return (int)quantities[i].quantity;
    return -1;
}

double pdl__row_seconds(const pdl_projection_t *p, int quantity)
{
    switch ((quantity_t)quantity) {
    case COMPUTE: return p->compute_s + p->bubble_s;
    case COMM: return p->comm_s;
    case FORWARD: return p->forward_s;
    case BACKWARD: return p->backward_s;
    case UPDATE: return p->update_s;
    case GRADIENT: return p->comm[PDL_COMM_GRADIENT];
    case STAGE: return p->comm[PDL_COMM_STAGE];
    case CONV: return p->matrix_s;
    case LAYER_ALLREDUCE: return p->layer_allreduce_s;
    case LAYER_GATHER: return p->comm[PDL_COMM_LAYER] - p->layer_allreduce_s;
    case STAGING: return p->staging_s;
    case TOTAL: return p->total_s - p->io_s;
    default: return p->total_s;
    }
}

pdl_status_t pdl__validation_runs(pdl_validation_t *v, const pdl_parameters_t *parameters, const bool *use)
{
    bool *needed = calloc((size_t)v->run_count + 1, sizeof(*needed));

    if (!needed) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < v->row_count; i++)
        if (v->rows[i].run >= 0 && (!use || use[i])) needed[v->rows[i].run] = true;
    pdl_status_t status = PDL_OK;
    for (int i = 0; i < v->run_count && !status; i++) {
        pdl_run_t       *run = &v->runs[i];
        pdl_parameters_t p = *parameters;
        if (!needed[i]) continue;
        if (run->strategy->switches) status = pdl_parameters_read_switches(run->strategy->switches, &p);
        if (status) break;
        pdl_oracle_set_parameters(run->oracle, &p);
        if (pdl_oracle_evaluate(run->oracle, &run->config, run->dataset, &run->projection))
            run->projection.total_s = -1; /* its rows say why */
    }
    free(needed);
    return status;
}

static double relative_width(const pdl_projection_t *p, const pdl_parameters_t *parameters, int quantity)
{
    double z = parameters->interval_width, least = p->estimated ? parameters->estimate_width : 0;

    switch ((quantity_t)quantity) {
    case COMPUTE:
    case FORWARD:
    case BACKWARD:
    case CONV:
    case UPDATE: return fmax(least, z * parameters->compute_deviation);
    case COMM:
    case GRADIENT:
    case LAYER_ALLREDUCE:
    case LAYER_GATHER:
    case STAGE: return fmax(least, z * parameters->comm_deviation);
    default: return log(p->high_s / p->total_s);
    }
}

static void fill_row(pdl_validation_t *v, pdl_row_t *row, const pdl_parameters_t *parameters)
{
    pdl_measured_row_t     *r = &row->public_row;
    const pdl_projection_t *p = &v->runs[row->run].projection;

    r->expressed = p->total_s > 0;
    if (!r->expressed) {
        snprintf(r->reason, sizeof(r->reason), "not possible on %lld devices", (long long)r->pe);
        return;
    }
    double width = relative_width(p, parameters, row->quantity);
    r->projected_s = pdl__row_seconds(p, row->quantity) * row->iterations;
    r->low_s = r->projected_s * exp(-width);
    r->high_s = r->projected_s * exp(width);
}

pdl_status_t pdl_validation_project(pdl_validation_t *v, const pdl_parameters_t *parameters)
{
    pdl_status_t status = pdl__validation_runs(v, parameters, NULL);

    for (size_t i = 0; i < v->row_count && !status; i++)
        if (v->rows[i].run >= 0) fill_row(v, &v->rows[i], parameters);
    return status;
}

const char *pdl_validation_parameters(const pdl_validation_t *v)
{
    return v->experiment.parameters;
}

size_t pdl_validation_count(const pdl_validation_t *v)
{
    return v->row_count;
}

const pdl_measured_row_t *pdl_validation_row(const pdl_validation_t *v, size_t i)
{
    return &v->rows[i].public_row;
}

double pdl_row_accuracy(const pdl_measured_row_t *row)
{
    return 1.0 - fabs(row->projected_s - row->measured_s) / row->measured_s;
}

static const char *key_of(const pdl_measured_row_t *row, pdl_row_key_t key, char number[24])
{
    switch (key) {
    case PDL_BY_SOURCE: return row->source;
    case PDL_BY_STRATEGY: return row->strategy;
    case PDL_BY_MODEL: return row->model;
    case PDL_BY_QUANTITY: return row->quantity;
    case PDL_BY_PE: snprintf(number, 24, "%lld", (long long)row->pe); return number;
    default: return "";
    }
}

pdl_accuracy_t pdl_validation_accuracy(const pdl_validation_t *v, pdl_row_key_t key, const char *value,
                                       const char *quantity, bool core_only)
{
    pdl_accuracy_t a = {0, 0, INFINITY, 0, 0};
    char           number[24];

    for (size_t i = 0; i < v->row_count; i++) {
        const pdl_measured_row_t *row = &v->rows[i].public_row;
        if (!row->expressed || (core_only && !row->core)) continue;
        if (quantity && strcmp(row->quantity, quantity) != 0) continue;
        if (value && strcmp(key_of(row, key, number), value) != 0) continue;
        double accuracy = pdl_row_accuracy(row);
        a.rows++;
        a.mean += accuracy;
        if (accuracy < a.minimum) a.minimum = accuracy;
        a.above_90 += accuracy > 0.9;
        a.covered += row->measured_s >= row->low_s && row->measured_s <= row->high_s;
    }
    if (a.rows) {
        a.mean /= a.rows;
        a.above_90 /= a.rows;
        a.covered /= a.rows;
    }
    return a;
}

/* Seconds per sample, so that runs with different batches compare. */
static double per_sample(const pdl_validation_t *v, const pdl_row_t *row, double seconds)
{
    return seconds / row->iterations / (double)v->runs[row->run].config.batch;
}

static bool comparable(const pdl_measured_row_t *a, const pdl_measured_row_t *b)
{
    return a->expressed && b->expressed && a->core && b->core && a->pe == b->pe &&
           strcmp(a->model, b->model) == 0 && strcmp(a->source, b->source) == 0 &&
           strcmp(a->strategy, b->strategy) != 0 && strcmp(a->quantity, "total") == 0 &&
           strcmp(b->quantity, "total") == 0;
}

pdl_ranking_t pdl_validation_ranking(const pdl_validation_t *v)
{
    static const double TIE = 0.01;
    pdl_ranking_t       r = {0, 0, 0, 1.0};

    for (size_t i = 0; i < v->row_count; i++)
        for (size_t j = i + 1; j < v->row_count; j++) {
            const pdl_measured_row_t *a = &v->rows[i].public_row, *b = &v->rows[j].public_row;
            if (!comparable(a, b)) continue;
            double measured = per_sample(v, &v->rows[i], a->measured_s) / per_sample(v, &v->rows[j], b->measured_s);
            double projected =
                per_sample(v, &v->rows[i], a->projected_s) / per_sample(v, &v->rows[j], b->projected_s);
            if (fabs(measured - 1) < TIE) {
                r.ties++;
                continue;
            }
            r.pairs++;
            r.right += (measured > 1) == (projected > 1);
        }
    if (r.pairs) r.share = (double)r.right / r.pairs;
    return r;
}
