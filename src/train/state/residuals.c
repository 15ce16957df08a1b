/*
 * Sparse sums of gradients: when they can be, how sparse they are, and what ranks have not sent yet, which a checkpoint
 * has to keep.
 */
#include "train/exec/session.h"
#include <math.h>
#include <paradl/plan/collectives.h>
#include <stdlib.h>
#include <string.h>

double pdl__plan_thins(const pdl_plan_t *plan)
{
    double density = 0;

    for (int a = 0; a < plan->mesh.axis_count; a++)
        if (plan->mesh.axis[a].size > 1 && plan->collective[a].density > 0) density = plan->collective[a].density;
    return density;
}

pdl_status_t pdl__residuals_check(const pdl_session_spec_t *spec)
{
    const pdl_optimizer_options_t *o = &spec->optimizer;
    bool                           norms = o->method == PDL_METHOD_LARS || o->method == PDL_METHOD_LAMB;

    if (spec->training && pdl__plan_thins(spec->plan) == 0 && o->momentum_of != PDL_MOMENTUM_SUMMED)
        return pdl_error(PDL_ERR_INPUT,
                         "%s momentum is for sparse sums of gradients: add --gradient-sparsity and ranks, or leave "
                         "out --sparse-momentum",
                         pdl_momentum_names[o->momentum_of]);
    if (!spec->training || pdl__plan_thins(spec->plan) == 0) return PDL_OK;
    if (norms)
        return pdl_error(PDL_ERR_INPUT,
                         "%s scales a tensor by the norm of its dense gradient, and sums of gradients are sparse: "
                         "use --optimizer sgd or adamw, or dense sums",
                         o->method == PDL_METHOD_LARS ? "lars" : "lamb");
    if (o->clip_norm > 0)
        return pdl_error(PDL_ERR_INPUT, "--clip limits the norm of dense gradients, and sums of gradients are "
                                        "sparse: leave it out, or use dense sums");
    if (spec->separate || spec->workers > 1)
        return pdl_error(PDL_ERR_INPUT,
                         "sums of gradients are sparse, which is for a rank a worker that meet after "
                         "every step: leave out --workers and --aggregate, or use dense sums");
    return PDL_OK;
}

/* The densities of a warm-up, Lin et al. section 3.3, which has steps of a factor of four: from a quarter on by a constant factor. */
#define FIRST_DENSITY 0.25

double pdl__first_density(const pdl_session_t *s, double density)
{
    return s->spec.sparse_warmup > 0 && density < FIRST_DENSITY ? FIRST_DENSITY : density;
}

/* Of the next update. Dense buckets do not mind. */
void pdl__residuals_thin(pdl_session_t *s)
{
    double done = (double)s->updates / (double)s->spec.sparse_warmup;

    for (int g = 0;
         s->spec.sparse_warmup > 0 && s->updates <= s->spec.sparse_warmup && g < s->exchange.bucket_groups; g++) {
        const pdl__buckets_t *group = &s->exchange.buckets[g];
        double                density = group->exchange ? pdl_plan_density(s->spec.plan, group->axes) : 0;
        double                first = pdl__first_density(s, density);

        if (density > 0) pdl_exchange_thin(group->exchange, first * pow(density / first, done));
    }
}

/* What copies between the residuals of all buckets and one vector. */
typedef struct cursor {
    float  *vector; /* NULL: elements are counted only */
    int64_t count;
    bool    back; /* to the residuals */
} cursor_t;

static void go_through(const pdl_session_t *s, cursor_t *c)
{
    c->count = 0;
    for (int g = 0; g < s->exchange.bucket_groups; g++) {
        const pdl__buckets_t *group = &s->exchange.buckets[g];

        for (int b = 0; group->exchange != NULL && b < group->count; b++) {
            int64_t count;
            float  *residual = pdl_exchange_residual(group->exchange, b, &count);

            if (residual == NULL) continue;
            if (c->vector != NULL && c->back)
                memcpy(residual, c->vector + c->count, (size_t)count * sizeof(*residual));
            else if (c->vector != NULL)
                memcpy(c->vector + c->count, residual, (size_t)count * sizeof(*residual));
            c->count += count;
        }
    }
}

pdl_status_t pdl__residuals_gather(pdl_session_t *s, void **all, int64_t *bytes)
{
    int          ranks = pdl_ranks_size(s->spec.ranks);
    cursor_t     own = {0};
    int64_t     *sizes = calloc((size_t)ranks, sizeof(*sizes));
    pdl_status_t status = PDL_OK;

    *all = NULL;
    *bytes = 0;
    go_through(s, &own);
    own.vector = malloc((size_t)own.count * sizeof(float) + 1);
    *all = malloc((size_t)(own.count * ranks) * sizeof(float) + 1);
    if (sizes == NULL || own.vector == NULL || *all == NULL) status = pdl_error(PDL_ERR_NOMEM, "out of memory");
    status = pdl_ranks_agree(s->spec.ranks, status);
    if (!status && own.count > 0) {
        go_through(s, &own);
        status = pdl_ranks_gather_all(s->spec.ranks, own.vector, own.count * (int64_t)sizeof(float), *all, sizes);
        *bytes = own.count * ranks * (int64_t)sizeof(float);
    }
    free(own.vector);
    free(sizes);
    return status;
}

/* What old rank r had goes to r modulo the ranks there are now: nothing is lost. */
pdl_status_t pdl__residuals_scatter(pdl_session_t *s, const void *all, int64_t bytes)
{
    int64_t  ranks = pdl_ranks_size(s->spec.ranks), before, size;
    cursor_t own = {.back = true};

    go_through(s, &own);
    size = own.count * (int64_t)sizeof(float);
    if (size == 0) return PDL_OK;
    if (bytes % size != 0)
        return pdl_error(PDL_ERR_INPUT,
                         "the checkpoint has residuals of gradients that were divided otherwise: resume "
                         "with the same plan");
    own.vector = calloc((size_t)own.count, sizeof(float));
    if (own.vector == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    before = bytes / size;
    for (int64_t r = pdl_ranks_rank(s->spec.ranks); r < before; r += ranks)
        for (int64_t i = 0; i < own.count; i++) {
            float value; /* tensors of a file are not aligned */

            memcpy(&value, (const char *)all + r * size + i * (int64_t)sizeof(value), sizeof(value));
            own.vector[i] += value;
        }
    go_through(s, &own);
    free(own.vector);
    return PDL_OK;
}
