/*
 * Streams of the sparse allreduce: a segment as pairs while these are smaller, as all values from then on.
 */
#include <paradl/coll/sparse.h>

#include <paradl/base/random.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int index_bytes(const pdl_sparse_format_t *format)
{
    return format != NULL && format->index_bytes > 0 ? format->index_bytes : 4;
}

static int value_bytes(const pdl_sparse_format_t *format)
{
    return format != NULL && format->value_bytes > 0 ? format->value_bytes : 4;
}

static bool should_be_dense(int64_t count, int64_t length, const pdl_sparse_format_t *format)
{
    return count * (index_bytes(format) + value_bytes(format)) >= length * value_bytes(format);
}

int64_t pdl_stream_bytes(const pdl_stream_t *stream, const pdl_sparse_format_t *format)
{
    int each = value_bytes(format) + (stream->dense ? 0 : index_bytes(format));
    return PDL_STREAM_HEADER + stream->count * each;
}

void pdl_stream_free(pdl_stream_t *stream)
{
    free(stream->index);
    free(stream->value);
    *stream = (pdl_stream_t){0};
}

/* An empty stream with room for `room` pairs or, when dense, zero everywhere. */
static pdl_status_t create(int64_t length, int64_t room, bool dense, pdl_stream_t *stream)
{
    pdl_stream_t made = {.length = length, .dense = dense, .count = dense ? length : 0};

    made.value = calloc((size_t)(dense ? length : room) + 1, sizeof(float));
    if (!dense) made.index = malloc(((size_t)room + 1) * sizeof(uint32_t));
    if (made.value == NULL || (!dense && made.index == NULL)) {
        pdl_stream_free(&made);
        return pdl_error(PDL_ERR_NOMEM, "out of memory for a stream of %lld elements", (long long)length);
    }
    *stream = made;
    return PDL_OK;
}

static void append(pdl_stream_t *stream, uint32_t index, float value)
{
    stream->index[stream->count] = index;
    stream->value[stream->count++] = value;
}

/* Adds a stream into the dense values of another, `offset` elements further on. */
static void add_into(const pdl_stream_t *stream, int64_t offset, float *values)
{
    for (int64_t k = 0; k < stream->count; k++) {
        values[offset + (stream->dense ? k : stream->index[k])] += stream->value[k];
    }
}

void pdl_stream_values(const pdl_stream_t *stream, float *values)
{
    memset(values, 0, (size_t)stream->length * sizeof(float));
    add_into(stream, 0, values);
}

pdl_status_t pdl_stream_from_values(const float *values, int64_t length, const pdl_sparse_format_t *format,
                                    pdl_stream_t *stream)
{
    int64_t      count = 0;
    pdl_status_t status;

    if (length < 0 || length > UINT32_MAX) {
        return pdl_error(PDL_ERR_LIMIT, "a stream of %lld elements; it can have up to 2^32 - 1", (long long)length);
    }
    for (int64_t k = 0; k < length; k++) count += values[k] != 0;
    status = create(length, count, should_be_dense(count, length, format), stream);
    if (status != PDL_OK) return status;
    if (stream->dense) {
        if (length > 0) memcpy(stream->value, values, (size_t)length * sizeof(float));
        return PDL_OK;
    }
    for (int64_t k = 0; k < length; k++) {
        if (values[k] != 0) append(stream, (uint32_t)k, values[k]);
    }
    return PDL_OK;
}

pdl_status_t pdl_stream_from_pairs(const uint32_t *index, const float *value, int64_t count, int64_t length,
                                   const pdl_sparse_format_t *format, pdl_stream_t *stream)
{
    pdl_status_t status;

    if (length < 0 || length > UINT32_MAX || count < 0 || count > length) {
        return pdl_error(PDL_ERR_INPUT, "a stream of %lld pairs in %lld elements", (long long)count,
                         (long long)length);
    }
    for (int64_t k = 0; k < count; k++) {
        if ((k > 0 && index[k] <= index[k - 1]) || index[k] >= length) {
            return pdl_error(PDL_ERR_INPUT, "index %lld of a stream is %u; indices increase and are below %lld",
                             (long long)k, index[k], (long long)length);
        }
    }
    status = create(length, count, should_be_dense(count, length, format), stream);
    for (int64_t k = 0; status == PDL_OK && k < count; k++) {
        if (stream->dense) {
            stream->value[index[k]] = value[k];
        } else {
            append(stream, index[k], value[k]);
        }
    }
    return status;
}

/* Pairs of a sparse stream with indices below `end`, from pair `from` on. */
static int64_t pairs_below(const pdl_stream_t *stream, int64_t from, int64_t end)
{
    int64_t low = from, high = stream->count;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (stream->index[middle] < end) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low - from;
}

static pdl_status_t cut(const pdl_stream_t *stream, int64_t first, int64_t length, int64_t *pair,
                        const pdl_sparse_format_t *format, pdl_stream_t *part)
{
    int64_t      count;
    pdl_status_t status;

    if (stream->dense) return pdl_stream_from_values(stream->value + first, length, format, part);
    count = pairs_below(stream, *pair, first + length);
    status = create(length, count, should_be_dense(count, length, format), part);
    for (int64_t k = *pair; status == PDL_OK && k < *pair + count; k++) {
        uint32_t index = (uint32_t)(stream->index[k] - first);
        if (part->dense) {
            part->value[index] = stream->value[k];
        } else {
            append(part, index, stream->value[k]);
        }
    }
    *pair += count;
    return status;
}

/* Elements that are kept, each with probability `share`, in their order. */
typedef struct draws {
    double   share;
    uint64_t seed, stream, count;
    int64_t  at; /* the latest; -1: none yet, the length: no more */
} draws_t;

static void draw_next(draws_t *draws, int64_t length)
{
    double skip = draws->share > 0 ? 0 : INFINITY;

    if (draws->share > 0 && draws->share < 1)
        skip = floor(log1p(-pdl_random_uniform(draws->seed, draws->stream, draws->count++)) / log1p(-draws->share));
    draws->at = skip < (double)(length - 1 - draws->at) ? draws->at + 1 + (int64_t)skip : length;
}

pdl_status_t pdl_stream_draw(int64_t length, double density, double common, uint64_t seed, int rank,
                             const pdl_sparse_format_t *format, pdl_stream_t *stream)
{
    double       fixed = density * common, most = (double)length * density;
    draws_t      all = {fixed, seed, pdl_random_stream("common support", 0, 0), 0, -1};
    draws_t      own = {fixed < 1 ? (density - fixed) / (1 - fixed) : 0, seed,
                   pdl_random_stream("support", (uint64_t)rank, 0), 0, -1};
    int64_t      room = (int64_t)(most + 10 * sqrt(most)) + 64, count = 0;
    uint32_t    *index;
    float       *value;
    pdl_status_t status;

    if (length < 0 || length > UINT32_MAX || !(density >= 0 && density <= 1) || !(common >= 0 && common <= 1))
        return pdl_error(PDL_ERR_INPUT, "a support of density %g, %g in common, of %lld elements cannot be drawn",
                         density, common, (long long)length);
    if (room > length) room = length;
    index = malloc(((size_t)room + 1) * sizeof(*index));
    value = malloc(((size_t)room + 1) * sizeof(*value));
    if (index == NULL || value == NULL) {
        free(index);
        free(value);
        return pdl_error(PDL_ERR_NOMEM, "out of memory for a stream of %lld elements", (long long)length);
    }
    draw_next(&all, length);
    draw_next(&own, length);
    while (count < room && (all.at < length || own.at < length)) {
        int64_t next = all.at < own.at ? all.at : own.at;

        value[count] = 1;
        index[count++] = (uint32_t)next;
        if (all.at == next) draw_next(&all, length);
        if (own.at == next) draw_next(&own, length);
    }
    status = pdl_stream_from_pairs(index, value, count, length, format, stream);
    free(index);
    free(value);
    return status;
}

pdl_status_t pdl_stream_split(const pdl_stream_t *stream, int parts, const pdl_sparse_format_t *format,
                              pdl_stream_t part[])
{
    int64_t each = stream->length / parts, pair = 0;

    for (int k = 0; k < parts; k++) {
        int64_t      length = k + 1 < parts ? each : stream->length - each * (parts - 1);
        pdl_status_t status = cut(stream, k * each, length, &pair, format, &part[k]);

        if (status != PDL_OK) {
            while (k-- > 0) pdl_stream_free(&part[k]);
            return status;
        }
    }
    return PDL_OK;
}

static void merge(const pdl_stream_t *a, const pdl_stream_t *b, pdl_stream_t *sum)
{
    int64_t i = 0, j = 0;

    while (i < a->count || j < b->count) {
        if (j == b->count || (i < a->count && a->index[i] < b->index[j])) {
            append(sum, a->index[i], a->value[i]);
            i++;
        } else if (i == a->count || b->index[j] < a->index[i]) {
            append(sum, b->index[j], b->value[j]);
            j++;
        } else {
            append(sum, a->index[i], a->value[i] + b->value[j]);
            i++;
            j++;
        }
    }
}

/* Two sparse streams become a dense one as soon as their pairs together might need it: no second look is needed
   then. */
pdl_status_t pdl_stream_sum(const pdl_stream_t *a, const pdl_stream_t *b, const pdl_sparse_format_t *format,
                            pdl_stream_t *sum)
{
    bool         dense = a->dense || b->dense || should_be_dense(a->count + b->count, a->length, format);
    pdl_status_t status;

    if (a->length != b->length) {
        return pdl_error(PDL_ERR_INPUT, "cannot add streams of %lld and %lld elements", (long long)a->length,
                         (long long)b->length);
    }
    status = create(a->length, a->count + b->count, dense, sum);
    if (status != PDL_OK) return status;
    if (dense) {
        add_into(a, 0, sum->value);
        add_into(b, 0, sum->value);
    } else {
        merge(a, b, sum);
    }
    return PDL_OK;
}

pdl_status_t pdl_stream_join(const pdl_stream_t *const part[], int parts, const pdl_sparse_format_t *format,
                             pdl_stream_t *stream)
{
    int64_t      length = 0, count = 0, offset = 0;
    pdl_status_t status;

    for (int k = 0; k < parts; k++) {
        length += part[k]->length;
        count += part[k]->count;
    }
    if (length > UINT32_MAX) {
        return pdl_error(PDL_ERR_LIMIT, "a stream of %lld elements; it can have up to 2^32 - 1", (long long)length);
    }
    status = create(length, count, should_be_dense(count, length, format), stream);
    for (int k = 0; status == PDL_OK && k < parts; offset += part[k++]->length) {
        if (stream->dense) {
            add_into(part[k], offset, stream->value);
            continue;
        }
        for (int64_t j = 0; j < part[k]->count; j++) {
            append(stream, (uint32_t)(offset + (part[k]->dense ? j : part[k]->index[j])), part[k]->value[j]);
        }
    }
    return status;
}
