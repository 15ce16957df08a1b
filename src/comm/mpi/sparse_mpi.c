/*
 * The sparse allreduce over MPI (coll/sparse.c has it in memory): every rank sends the elements of largest magnitude
 * of its gradients and keeps the others for the next time.
 *
 * A rank goes through the steps of pdl_sparse_steps(), with one message out and one in. While rings reduce, what
 * arrives is added to the rank's own elements of that part, and sent on in the next step; where all parts go to
 * their owners directly it is added to the vector. When all is reduced the vector is zero but for the part that
 * this rank has. Then parts that arrive are written to the vector and sent on as they came. Parts are those of the
 * dense ring, so that where every element is sent the same additions are made.
 */
#include "comm/mpi/sparse.h"

#include "comm/dry.h"
#include "comm/mpi/check.h"

#include <paradl/coll/sparse.h>

#include <stdlib.h>
#include <string.h>

enum { SEND, RECEIVE, DIRECTIONS };

typedef struct sparse {
    pdl__reduction_t   base; /* first: a pdl__reduction_t is cast to this */
    MPI_Comm           comm;
    MPI_Request        request[DIRECTIONS];
    double            *counted;
    int                rank, words; /* the latter of the longest message */
    int64_t            elements, messages;
    pdl_topk_t        *topk;
    pdl_sparse_step_t *step;
    int                step_count;
    uint32_t          *own, *out, *in;
    float             *data;
    bool               pairwise;
    /* Where a run stands. */
    int     at, ring_step;
    int64_t low, length; /* the elements over which the ring goes; `own` has them */
    bool    in_flight;
} sparse_t;

/* Of the ring at hand: where part p begins, in its elements. */
static int64_t part_first(const sparse_t *s, int p)
{
    int size = s->step[s->at].size;

    return s->length / size * p + s->length % size * p / size;
}

static int64_t part_length(const sparse_t *s, int p)
{
    return part_first(s, p + 1) - part_first(s, p);
}

static float *part_data(const sparse_t *s, int p)
{
    return s->data + s->low + part_first(s, p);
}

static int place_in_ring(const sparse_t *s)
{
    return s->rank / s->step[s->at].stride % s->step[s->at].size;
}

/* The part that is sent, or received, in the step at hand. */
static int part_of(const sparse_t *s, int direction)
{
    const pdl_sparse_step_t *step = &s->step[s->at];
    int                      place = place_in_ring(s), back = s->ring_step + direction + step->reduced;

    if (step->reduced && s->pairwise) return direction == SEND ? (place + step->back) % step->size : place;
    return (place + 2 * step->size - back) % step->size;
}

/* This rank's own elements of a part, and those of `more`, as the message that goes out. */
static void prepare(sparse_t *s, int part, const uint32_t *more)
{
    pdl_message_sum(s->own, s->length, part_first(s, part), part_length(s, part), more, s->out);
}

static pdl_status_t begin_step(sparse_t *s)
{
    const pdl_sparse_step_t *step = &s->step[s->at];
    int                      part = part_of(s, SEND), count, to = pdl_sparse_peer(s->rank, step, -step->back);
    pdl_status_t             status;

    if (step->reduced && (s->pairwise || s->ring_step == 0)) prepare(s, part, NULL);
    count = (int)pdl_message_words(s->out, part_length(s, part));
    s->base.bytes += count * (int64_t)sizeof(uint32_t);
    *s->counted += count * (double)sizeof(uint32_t);
    s->messages++;
    s->in_flight = true;
    status = PDL_MPI(pdl__mpi->Irecv(s->in, s->words, pdl__mpi->float32, pdl_sparse_peer(s->rank, step, step->back),
                                     0, s->comm, &s->request[RECEIVE]));
    if (status) return status;
    return PDL_MPI(pdl__mpi->Isend(s->out, count, pdl__mpi->float32, to, 0, s->comm, &s->request[SEND]));
}

/* What this rank has of the sum when a ring has reduced: its elements of the next one, or its part of the vector. */
static void keep_reduced(sparse_t *s)
{
    int     place = place_in_ring(s);
    int64_t first = part_first(s, place), length = part_length(s, place);

    if (s->step[s->at + 1].reduced) {
        memcpy(s->own, s->out, (size_t)pdl_message_words(s->out, length) * sizeof(*s->own));
        s->low += first;
        s->length = length;
        return;
    }
    if (!s->pairwise) pdl_message_add(s->out, length, part_data(s, place));
    /* Sums of pairs become dense when they might have to: now the zeros are known. */
    pdl_message_values(part_data(s, place), length, s->out);
}

static void end_step(sparse_t *s)
{
    bool reduced = s->step[s->at].reduced, last = s->ring_step == s->step[s->at].size - 2;
    int  part = part_of(s, RECEIVE);

    if (reduced && !s->pairwise) {
        prepare(s, part, s->in);
    } else {
        pdl_message_add(s->in, part_length(s, part), part_data(s, part));
    }
    if (!reduced) {
        uint32_t *arrived = s->in;
        s->in = s->out;
        s->out = arrived;
    }
    if (last && reduced) keep_reduced(s);
    s->in_flight = false;
    s->ring_step = last ? 0 : s->ring_step + 1;
    s->at++;
    if (!last || reduced || s->at == s->step_count) return;
    /* The next ring gathers what this one has put together. */
    s->low = 0;
    s->length = s->elements;
    pdl_message_values(part_data(s, place_in_ring(s)), part_length(s, place_in_ring(s)), s->out);
}

static pdl_status_t sparse_start(pdl__reduction_t *base, float *data)
{
    sparse_t *s = (sparse_t *)base;

    pdl_topk_message(s->topk, data, s->own);
    memset(data, 0, (size_t)s->elements * sizeof(*data));
    s->data = data;
    s->at = s->ring_step = 0;
    s->low = 0;
    s->length = s->elements;
    s->base.bytes = 0;
    if (s->pairwise) {
        prepare(s, s->rank, NULL);
        pdl_message_add(s->out, part_length(s, s->rank), part_data(s, s->rank));
    }
    return begin_step(s);
}

static pdl_status_t sparse_test(pdl__reduction_t *base, bool *done)
{
    sparse_t    *s = (sparse_t *)base;
    pdl_status_t status = PDL_OK;

    *done = false;
    while (!status && s->at < s->step_count) {
        int arrived[DIRECTIONS] = {0};

        if (!s->in_flight) status = begin_step(s);
        for (int d = 0; d < DIRECTIONS && !status; d++)
            status = PDL_MPI(pdl__mpi->Test(&s->request[d], &arrived[d], MPI_STATUS_IGNORE));
        if (status || !arrived[SEND] || !arrived[RECEIVE]) return status;
        end_step(s);
    }
    *done = !status;
    return status;
}

static int64_t sparse_messages(const pdl__reduction_t *base)
{
    return ((const sparse_t *)base)->messages;
}

static float *sparse_residual(pdl__reduction_t *base, int64_t *count)
{
    return pdl_topk_residual(((sparse_t *)base)->topk, count);
}

static void sparse_thin(pdl__reduction_t *base, double density)
{
    pdl_topk_thin(((sparse_t *)base)->topk, density);
}

static void sparse_destroy(pdl__reduction_t *base)
{
    sparse_t *s = (sparse_t *)base;

    pdl_topk_destroy(s->topk);
    free(s->step);
    free(s->own);
    free(s->out);
    free(s->in);
    free(s);
}

static pdl_status_t prepare_run(sparse_t *s, const pdl__reduction_spec_t *spec)
{
    pdl_sparse_spec_t wanted = {.algorithm = spec->algorithm, .ranks_per_node = spec->ranks_per_node};
    pdl_topk_spec_t   topk = pdl__topk_of(spec);
    pdl__counted_t    counted;
    int               ranks;
    pdl_status_t      status = PDL_MPI(pdl__mpi->Comm_rank(s->comm, &s->rank));

    if (!status) status = PDL_MPI(pdl__mpi->Comm_size(s->comm, &ranks));
    if (status) return status;
    wanted.ranks = ranks;
    status = pdl__count_sparse(spec, ranks, &counted);
    if (!status)
        status = pdl_sparse_steps(&wanted, (double)spec->elements, spec->density, 0, &s->step, &s->step_count);
    if (!status) status = pdl__mpi_count(pdl__sparse_words(spec, ranks), &s->words);
    if (!status) status = pdl_topk_create(&topk, &s->topk);
    if (status) return status;
    pdl_topk_thin(s->topk, spec->density);
    s->base.bytes = counted.sent;
    s->base.held = counted.held;
    s->own = malloc(((size_t)spec->elements + 1) * sizeof(*s->own));
    s->out = malloc((size_t)s->words * sizeof(*s->out));
    s->in = malloc((size_t)s->words * sizeof(*s->in));
    if (s->own == NULL || s->out == NULL || s->in == NULL)
        return pdl_error(PDL_ERR_NOMEM, "out of memory for the messages of a sparse sum");
    return PDL_OK;
}

pdl_status_t pdl__sparse_create(MPI_Comm comm, double *counted, const pdl__reduction_spec_t *spec,
                                pdl__reduction_t **result)
{
    static const pdl__reduction_ops_t ops = {.start = sparse_start,
                                             .test = sparse_test,
                                             .messages = sparse_messages,
                                             .residual = sparse_residual,
                                             .thin = sparse_thin,
                                             .destroy = sparse_destroy};
    sparse_t                         *s = calloc(1, sizeof(*s));

    if (s == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    s->base.ops = &ops;
    s->comm = comm;
    s->counted = counted;
    s->elements = spec->elements;
    s->pairwise = strcmp(spec->algorithm, "sparse_pairwise") == 0;
    for (int d = 0; d < DIRECTIONS; d++) s->request[d] = pdl__mpi->request_null;
    pdl_status_t status = prepare_run(s, spec);
    if (status) {
        sparse_destroy(&s->base);
        return status;
    }
    *result = &s->base;
    return PDL_OK;
}
