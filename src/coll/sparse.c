/*
 * Sparse allreduce in memory, and the sizes to expect of it. All three algorithms have the shape of the
 * multi-leader ring: g ranks per node and n nodes, rank i*g + c.
 *
 *     split into g; ring inside the node with sums; split the own segment into n; ring between the nodes with sums;
 *     ring between the nodes that forwards streams as they are; join; ring inside the node that forwards; join.
 *
 * The flat ring has one node; the pairwise exchange too, with the first ring replaced by direct messages to the
 * owners.
 */
#include "coll/internal.h"

#include <math.h>
#include <paradl/coll/sparse.h>
#include <stdlib.h>
#include <string.h>

const char *const pdl_sparse_algorithms[] = {"sparse_ring", "sparse_ring_ring", "sparse_pairwise", NULL};

bool pdl_sparse_named(const char *algorithm)
{
    for (int i = 0; pdl_sparse_algorithms[i] != NULL; i++)
        if (strcmp(algorithm, pdl_sparse_algorithms[i]) == 0) return true;
    return false;
}

typedef struct shape {
    int                 ranks, inside, nodes; /* ranks = inside * nodes */
    bool                pairwise;
    pdl_sparse_format_t format;
} shape_t;

void pdl_sparse_run_free(pdl_sparse_run_t *run)
{
    free(run->message);
    *run = (pdl_sparse_run_t){0};
}

static pdl_status_t find_shape(const pdl_sparse_spec_t *spec, shape_t *shape)
{
    const char *name = spec->algorithm != NULL ? spec->algorithm : "(none)";
    int64_t     inside = spec->ranks_per_node > 0 ? spec->ranks_per_node : 1;
    int         which = 0;

    while (pdl_sparse_algorithms[which] != NULL && strcmp(name, pdl_sparse_algorithms[which]) != 0) which++;
    if (pdl_sparse_algorithms[which] == NULL) {
        return pdl_error(PDL_ERR_INPUT,
                         "unknown sparse algorithm %s; there are: sparse_ring sparse_ring_ring sparse_pairwise",
                         name);
    }
    if (spec->ranks < 1 || spec->ranks > 1 << 20) {
        return pdl_error(PDL_ERR_LIMIT, "%s does not support %lld ranks; it takes 1 to %d", name,
                         (long long)spec->ranks, 1 << 20);
    }
    if (which != 1) inside = spec->ranks;
    if (spec->ranks % inside != 0) {
        return pdl_error(PDL_ERR_LIMIT, "%s: %lld ranks per node do not divide %lld ranks", name, (long long)inside,
                         (long long)spec->ranks);
    }
    *shape = (shape_t){.ranks = (int)spec->ranks,
                       .inside = (int)inside,
                       .nodes = (int)(spec->ranks / inside),
                       .pairwise = which == 2,
                       .format = spec->format};
    return PDL_OK;
}

static pdl_status_t record(pdl_sparse_run_t *run, int from, int to, bool reduced, double bytes)
{
    if (run->message_count == run->message_room) {
        int64_t               room = run->message_room == 0 ? 256 : 2 * run->message_room;
        pdl_sparse_message_t *larger = realloc(run->message, (size_t)room * sizeof(*larger));

        if (larger == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
        run->message = larger;
        run->message_room = room;
    }
    run->message[run->message_count++] = (pdl_sparse_message_t){run->steps, from, to, reduced, bytes};
    return PDL_OK;
}

/* The rank `back` places before in the ring of ranks that differ in the digit of this stride. */
static int before(int rank, int stride, int size, int back)
{
    int digit = rank / stride % size;
    return rank + (pdl__mod(digit - back, size) - digit) * stride;
}

int pdl_sparse_peer(int rank, const pdl_sparse_step_t *step, int back)
{
    return before(rank, step->stride, step->size, back);
}

/* *into += from, and `from` is no longer needed. */
static pdl_status_t take(pdl_stream_t *into, pdl_stream_t *from, const pdl_sparse_format_t *format)
{
    pdl_stream_t sum;
    pdl_status_t status = pdl_stream_sum(into, from, format, &sum);

    if (status != PDL_OK) return status;
    pdl_stream_free(into);
    pdl_stream_free(from);
    *into = sum;
    return PDL_OK;
}

/*
 * Reduce-scatter of table[rank][size]. Ring: in step s a rank gets part d-2-s, d its digit, from the rank before;
 * what it sends is another part than what it gets, so the order inside a step does not matter. Pairwise: in step s
 * it gets its own part from the rank s+1 before.
 */
static pdl_status_t reduce(const shape_t *shape, bool pairwise, pdl_stream_t *table, int stride, int size,
                           pdl_sparse_run_t *run)
{
    pdl_status_t status = PDL_OK;

    for (int s = 0; s < size - 1; s++, run->steps++) {
        for (int rank = 0; status == PDL_OK && rank < shape->ranks; rank++) {
            int           digit = rank / stride % size, from = before(rank, stride, size, pairwise ? s + 1 : 1);
            int           part = pairwise ? digit : pdl__mod(digit - 2 - s, size);
            pdl_stream_t *sent = &table[(size_t)from * (size_t)size + (size_t)part];

            status = record(run, from, rank, true, (double)pdl_stream_bytes(sent, &shape->format));
            if (status == PDL_OK) {
                status = take(&table[(size_t)rank * (size_t)size + (size_t)part], sent, &shape->format);
            }
        }
    }
    return status;
}

/* Allgather of held[rank][size], where a rank has part d at first: in step s it gets part d-1-s from the rank
   before. */
static pdl_status_t gather(const shape_t *shape, const pdl_stream_t **held, int stride, int size,
                           pdl_sparse_run_t *run)
{
    pdl_status_t status = PDL_OK;

    for (int s = 0; s < size - 1; s++, run->steps++) {
        for (int rank = 0; status == PDL_OK && rank < shape->ranks; rank++) {
            int    from = before(rank, stride, size, 1), part = pdl__mod(rank / stride % size - 1 - s, size);
            size_t at = (size_t)from * (size_t)size + (size_t)part;

            held[(size_t)rank * (size_t)size + (size_t)part] = held[at];
            status = record(run, from, rank, false, (double)pdl_stream_bytes(held[at], &shape->format));
        }
    }
    return status;
}

typedef struct work {
    pdl_stream_t        *segment; /* [ranks][inside] */
    pdl_stream_t        *piece;   /* [ranks][nodes], of the own segment */
    pdl_stream_t        *joined;  /* [inside] */
    const pdl_stream_t **held;    /* [ranks][max(inside, nodes)] */
} work_t;

static void free_streams(pdl_stream_t *stream, size_t count)
{
    for (size_t k = 0; stream != NULL && k < count; k++) pdl_stream_free(&stream[k]);
    free(stream);
}

static pdl_status_t reduce_all(const shape_t *shape, const pdl_stream_t input[], work_t *work,
                               pdl_sparse_run_t *run)
{
    size_t       inside = (size_t)shape->inside, nodes = (size_t)shape->nodes;
    pdl_status_t status = PDL_OK;

    for (size_t r = 0; status == PDL_OK && r < (size_t)shape->ranks; r++) {
        status = pdl_stream_split(&input[r], shape->inside, &shape->format, &work->segment[r * inside]);
    }
    if (status == PDL_OK) status = reduce(shape, shape->pairwise, work->segment, 1, shape->inside, run);
    for (size_t r = 0; status == PDL_OK && r < (size_t)shape->ranks; r++) {
        pdl_stream_t *own = &work->segment[r * inside + r % inside];
        status = pdl_stream_split(own, shape->nodes, &shape->format, &work->piece[r * nodes]);
        if (status == PDL_OK) pdl_stream_free(own);
    }
    if (status == PDL_OK) status = reduce(shape, false, work->piece, shape->inside, shape->nodes, run);
    return status;
}

static pdl_status_t gather_all(const shape_t *shape, work_t *work, float *result, pdl_sparse_run_t *run)
{
    size_t       inside = (size_t)shape->inside, nodes = (size_t)shape->nodes;
    pdl_status_t status;

    for (size_t r = 0; r < (size_t)shape->ranks; r++) {
        work->held[r * nodes + r / inside] = &work->piece[r * nodes + r / inside];
    }
    status = gather(shape, work->held, shape->inside, shape->nodes, run);
    /* Ranks of equal place have the same: it is joined once. */
    for (size_t c = 0; status == PDL_OK && c < inside; c++) {
        status = pdl_stream_join(&work->held[c * nodes], shape->nodes, &shape->format, &work->joined[c]);
    }
    if (status != PDL_OK) return status;
    for (size_t r = 0; r < (size_t)shape->ranks; r++)
        work->held[r * inside + r % inside] = &work->joined[r % inside];
    status = gather(shape, work->held, 1, shape->inside, run);
    for (size_t r = 0; status == PDL_OK && result != NULL && r < (size_t)shape->ranks; r++) {
        pdl_stream_t all;
        status = pdl_stream_join(&work->held[r * inside], shape->inside, &shape->format, &all);
        if (status != PDL_OK) break;
        pdl_stream_values(&all, result + r * (size_t)all.length);
        pdl_stream_free(&all);
    }
    return status;
}

pdl_status_t pdl_sparse_allreduce(const pdl_sparse_spec_t *spec, const pdl_stream_t input[], float *result,
                                  pdl_sparse_run_t *run)
{
    pdl_sparse_run_t made = {0};
    work_t           work = {0};
    shape_t          shape;
    size_t           segments, pieces;
    pdl_status_t     status = find_shape(spec, &shape);

    if (status != PDL_OK) return status;
    for (int r = 1; r < shape.ranks; r++) {
        if (input[r].length == input[0].length) continue;
        return pdl_error(PDL_ERR_INPUT, "rank %d has %lld elements, rank 0 has %lld", r, (long long)input[r].length,
                         (long long)input[0].length);
    }
    segments = (size_t)shape.ranks * (size_t)shape.inside;
    pieces = (size_t)shape.ranks * (size_t)shape.nodes;
    work.segment = calloc(segments, sizeof(pdl_stream_t));
    work.piece = calloc(pieces, sizeof(pdl_stream_t));
    work.joined = calloc((size_t)shape.inside, sizeof(pdl_stream_t));
    work.held = calloc(segments > pieces ? segments : pieces, sizeof(*work.held));
    if (work.segment == NULL || work.piece == NULL || work.joined == NULL || work.held == NULL) {
        status = pdl_error(PDL_ERR_NOMEM, "out of memory");
    }
    if (status == PDL_OK) status = reduce_all(&shape, input, &work, &made);
    if (status == PDL_OK) status = gather_all(&shape, &work, result, &made);
    free_streams(work.segment, segments);
    free_streams(work.piece, pieces);
    free_streams(work.joined, (size_t)shape.inside);
    free(work.held);
    if (status != PDL_OK) {
        pdl_sparse_run_free(&made);
        return status;
    }
    *run = made;
    return PDL_OK;
}

/* A share `common` of the support is the same at all ranks and never grows; the rest spreads over the other
   elements. */
double pdl_sparse_density(double density, double common, double contributions)
{
    double fixed = density * common;

    if (fixed >= 1) return 1;
    return fixed + (1 - fixed) * (1 - pow(1 - density * (1 - common) / (1 - fixed), contributions));
}

double pdl_sparse_bytes(double elements, double density, const pdl_sparse_format_t *format)
{
    double index = format != NULL && format->index_bytes > 0 ? format->index_bytes : 4;
    double value = format != NULL && format->value_bytes > 0 ? format->value_bytes : 4;

    return PDL_STREAM_HEADER + fmin(elements * value, elements * density * (index + value));
}

typedef struct steps {
    const shape_t     *shape;
    double             density, common;
    pdl_sparse_step_t *step;
    int                count;
} steps_t;

/* One ring of `size` (or pairwise exchange) on parts of `elements`: step s carries the sum of `growth` * (s+1)
   contributions when reducing (one `growth` each when pairwise), all of them when gathering. */
static void add_ring(steps_t *steps, bool reduced, int stride, int size, double elements, double growth)
{
    const shape_t *shape = steps->shape;
    bool           pairwise = reduced && shape->pairwise;

    for (int s = 0; s < size - 1; s++) {
        double summed = !reduced ? shape->ranks : growth * (pairwise ? 1 : s + 1);
        double density = pdl_sparse_density(steps->density, steps->common, summed);

        steps->step[steps->count++] =
            (pdl_sparse_step_t){.stride = stride,
                                .size = size,
                                .back = pairwise ? s + 1 : 1,
                                .reduced = reduced,
                                .bytes = pdl_sparse_bytes(elements, density, &shape->format)};
    }
}

pdl_status_t pdl_sparse_steps(const pdl_sparse_spec_t *spec, double elements, double density, double common,
                              pdl_sparse_step_t **result, int *count)
{
    shape_t      shape;
    steps_t      steps = {&shape, density, common, NULL, 0};
    pdl_status_t status = find_shape(spec, &shape);

    if (status != PDL_OK) return status;
    if (!(elements >= 0) || !(density >= 0 && density <= 1) || !(common >= 0 && common <= 1)) {
        return pdl_error(PDL_ERR_INPUT,
                         "%g elements of density %g, %g in common; densities and shares must be between 0 and 1",
                         elements, density, common);
    }
    steps.step = malloc(2 * (size_t)(shape.inside + shape.nodes) * sizeof(*steps.step));
    if (steps.step == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    add_ring(&steps, true, 1, shape.inside, elements / shape.inside, 1);
    add_ring(&steps, true, shape.inside, shape.nodes, elements / shape.ranks, shape.inside);
    add_ring(&steps, false, shape.inside, shape.nodes, elements / shape.ranks, 0);
    add_ring(&steps, false, 1, shape.inside, elements / shape.inside, 0);
    *result = steps.step;
    *count = steps.count;
    return PDL_OK;
}

pdl_status_t pdl_sparse_sent(const pdl_sparse_spec_t *spec, double elements, double density, double *bytes)
{
    pdl_sparse_step_t *step;
    int                count;
    pdl_status_t       status = pdl_sparse_steps(spec, elements, density, 0, &step, &count);

    if (status != PDL_OK) return status;
    *bytes = 0;
    for (int s = 0; s < count; s++) *bytes += step[s].bytes;
    free(step);
    return PDL_OK;
}

pdl_status_t pdl_sparse_expect(const pdl_sparse_spec_t *spec, double elements, double density, double common,
                               pdl_sparse_run_t *run)
{
    pdl_sparse_run_t   made = {0};
    pdl_sparse_step_t *step;
    int                count;
    pdl_status_t       status = pdl_sparse_steps(spec, elements, density, common, &step, &count);

    if (status != PDL_OK) return status;
    for (; status == PDL_OK && made.steps < count; made.steps++) {
        const pdl_sparse_step_t *now = &step[made.steps];

        for (int rank = 0; status == PDL_OK && rank < (int)spec->ranks; rank++)
            status = record(&made, pdl_sparse_peer(rank, now, now->back), rank, now->reduced, now->bytes);
    }
    free(step);
    if (status != PDL_OK) {
        pdl_sparse_run_free(&made);
        return status;
    }
    *run = made;
    return PDL_OK;
}
