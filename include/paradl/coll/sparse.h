/*
 * Sparse allreduce with a mixed representation. A stream is a segment of a vector, either as pairs (index, value)
 * or, once these would take more room than all values, as all values. Streams are split, summed and joined on their
 * way, and change representation when it pays.
 *
 *     pdl_topk_t *topk;
 *     pdl_topk_create(&(pdl_topk_spec_t){.elements = n, .density = 0.01}, &topk);
 *     pdl_topk_select(topk, gradient, &format, &stream[rank]);   what is left out is added to the next gradient
 *     ...
 *     pdl_sparse_spec_t spec = {.algorithm = "sparse_ring_ring", .ranks = 16, .ranks_per_node = 4};
 *     pdl_sparse_run_t  run;
 *     pdl_sparse_allreduce(&spec, stream, result, &run);          every message and its size
 *     pdl_sparse_run_free(&run);
 *
 * The format of a message: uint32 count; if it is the length of the segment, that many values; else count pairs
 * with indices relative to the segment, strictly increasing.
 */
#ifndef PARADL_SPARSE_H
#define PARADL_SPARSE_H

#include <paradl/base/status.h>
#include <paradl/coll/coll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PDL_STREAM_HEADER 4 /* bytes */

/* Bytes of an index and of a value in a message. {0, 0} stands for {4, 4}. */
typedef struct pdl_sparse_format {
    int index_bytes, value_bytes;
} pdl_sparse_format_t;

typedef struct pdl_stream {
    int64_t   length; /* elements of the segment */
    int64_t   count;  /* pairs; the length when dense */
    bool      dense;
    uint32_t *index; /* [count], NULL when dense */
    float    *value; /* [count] */
} pdl_stream_t;

/* From all values of a segment (at most 2^32 - 1), zeros left out if that is smaller. */
pdl_status_t pdl_stream_from_values(const float *values, int64_t length, const pdl_sparse_format_t *format,
                                    pdl_stream_t *stream);
/* From pairs with strictly increasing indices. */
pdl_status_t pdl_stream_from_pairs(const uint32_t *index, const float *value, int64_t count, int64_t length,
                                   const pdl_sparse_format_t *format, pdl_stream_t *stream);
/* A support to be expected of a rank, values being 1: every element is kept with probability `density`; a share `common` of what is
   kept is the same at all ranks, the rest is drawn by each. */
pdl_status_t pdl_stream_draw(int64_t length, double density, double common, uint64_t seed, int rank,
                             const pdl_sparse_format_t *format, pdl_stream_t *stream);
void         pdl_stream_free(pdl_stream_t *stream);

/* Bytes of the message that carries a stream. */
int64_t pdl_stream_bytes(const pdl_stream_t *stream, const pdl_sparse_format_t *format);
/* Writes all `length` values, zeros included. */
void pdl_stream_values(const pdl_stream_t *stream, float *values);

/* Cuts a stream into `parts` of floor(length/parts) elements, the last with the rest. Each may change
   representation. */
pdl_status_t pdl_stream_split(const pdl_stream_t *stream, int parts, const pdl_sparse_format_t *format,
                              pdl_stream_t part[]);
/* The sum of two streams of the same length, written to *sum (none of the two). */
pdl_status_t pdl_stream_sum(const pdl_stream_t *a, const pdl_stream_t *b, const pdl_sparse_format_t *format,
                            pdl_stream_t *sum);
/* Joins consecutive segments. */
pdl_status_t pdl_stream_join(const pdl_stream_t *const part[], int parts, const pdl_sparse_format_t *format,
                             pdl_stream_t *stream);

/* Sparsification with error feedback: the largest magnitudes leave, the rest waits for the next call. */
typedef struct pdl_topk pdl_topk_t;

/* Momentum that a rank applies to its own gradients before it chooses from them (Lin et al., Deep Gradient Compression, ICLR 2018):
   then all of it is late by the same time, and the sum needs none. */
typedef struct pdl_topk_momentum {
    double factor; /* 0: none */
    bool   nesterov;
    bool   masked; /* is forgotten where an element leaves */
} pdl_topk_momentum_t;

/* Keeps ceil(density * elements) values, the lower index first where magnitudes are equal. With sample > 0 it
   keeps those not below a threshold estimated from so many evenly spaced values instead: faster, and the number
   varies. */
typedef struct pdl_topk_spec {
    int64_t             elements, sample;
    double              density; /* the largest, where it changes */
    pdl_topk_momentum_t momentum;
} pdl_topk_spec_t;
pdl_status_t pdl_topk_create(const pdl_topk_spec_t *spec, pdl_topk_t **topk);
void         pdl_topk_destroy(pdl_topk_t *topk);
/* From now on; above 0 and at most that of the spec. */
void         pdl_topk_thin(pdl_topk_t *topk, double density);
pdl_status_t pdl_topk_select(pdl_topk_t *topk, const float *gradient, const pdl_sparse_format_t *format,
                             pdl_stream_t *stream);
/* The same as a message (below) of all elements, without taking memory. */
void pdl_topk_message(pdl_topk_t *topk, const float *gradient, uint32_t *message);
/* What has not left yet, [elements], and behind it the momentum, if there is any; may be set. `count` is of both. */
float *pdl_topk_residual(const pdl_topk_t *topk, int64_t *count);
/* Bytes that it holds. */
size_t pdl_topk_bytes(const pdl_topk_spec_t *spec);

/* Messages as they are sent, in words of four bytes, with indices and values of four bytes each. One of a segment of `length`
   elements has up to length + 1 words. Nothing here takes memory. */
int64_t pdl_message_words(const uint32_t *message, int64_t length);
void pdl_message_pairs(const uint32_t *index, const float *value, int64_t count, int64_t length, uint32_t *message);
/* Zeros are left out if that is smaller. */
void pdl_message_values(const float *values, int64_t length, uint32_t *message);
/* The elements [first, first + count) of a message, and those of `more` (of count elements; NULL: none), summed. */
void pdl_message_sum(const uint32_t *message, int64_t length, int64_t first, int64_t count, const uint32_t *more,
                     uint32_t *sum);
/* Adds the elements of a message to values. */
void pdl_message_add(const uint32_t *message, int64_t length, float *values);

typedef struct pdl_sparse_spec {
    const char         *algorithm; /* sparse_ring, sparse_ring_ring, sparse_pairwise */
    int64_t             ranks;
    int64_t             ranks_per_node; /* sparse_ring_ring; 0: 1 */
    pdl_sparse_format_t format;
} pdl_sparse_spec_t;

typedef struct pdl_sparse_message {
    int    step, from, to;
    bool   reduced; /* added on arrival */
    double bytes;
} pdl_sparse_message_t;

/* The messages of a run in the order of their steps: a schedule whose sizes depend on the data. */
typedef struct pdl_sparse_run {
    pdl_sparse_message_t *message;
    int64_t               message_count, message_room;
    int                   steps;
} pdl_sparse_run_t;

void pdl_sparse_run_free(pdl_sparse_run_t *run);

/* Names of the algorithms; NULL ends the list. */
extern const char *const pdl_sparse_algorithms[];
bool                     pdl_sparse_named(const char *algorithm);

/* One step, in which every rank gets a message from the rank `back` places before it in a ring of `size` ranks, `stride`
   apart. The bytes are those to expect when every rank keeps a random share `density` of `elements`, of which a share
   `common` is the same at all ranks and the rest independent. */
typedef struct pdl_sparse_step {
    int    stride, size, back;
    bool   reduced; /* added on arrival */
    double bytes;
} pdl_sparse_step_t;

/* All steps, to be freed. */
pdl_status_t pdl_sparse_steps(const pdl_sparse_spec_t *spec, double elements, double density, double common,
                              pdl_sparse_step_t **steps, int *count);
/* Bytes that a rank is expected to send, supports being independent. */
pdl_status_t pdl_sparse_sent(const pdl_sparse_spec_t *spec, double elements, double density, double *bytes);
/* The rank `back` places before `rank` in such a ring; with a negative number, behind it. */
int pdl_sparse_peer(int rank, const pdl_sparse_step_t *step, int back);

/* Sums one stream of each rank in memory. `result` receives the sum as [ranks][length] values as each rank has
   it, or is NULL. */
pdl_status_t pdl_sparse_allreduce(const pdl_sparse_spec_t *spec, const pdl_stream_t input[], float *result,
                                  pdl_sparse_run_t *run);

/* The same messages with the sizes to expect, as in pdl_sparse_steps(). */
pdl_status_t pdl_sparse_expect(const pdl_sparse_spec_t *spec, double elements, double density, double common,
                               pdl_sparse_run_t *run);

/* These messages as a schedule of `ranks` ranks, to be simulated: it has no vector, and cannot be verified or executed. */
pdl_status_t pdl_sparse_schedule(const pdl_sparse_run_t *run, const char *name, int64_t ranks,
                                 pdl_schedule_t **schedule);

/* The schedule of the messages to expect, as in pdl_sparse_expect(), generated when asked for; for the same uses. */
pdl_status_t pdl_sparse_expected(const pdl_sparse_spec_t *spec, double elements, double density, double common,
                                 pdl_schedule_t **schedule);

/* Density after the sum of s contributions, and bytes of a message of so many elements. */
double pdl_sparse_density(double density, double common, double contributions);
double pdl_sparse_bytes(double elements, double density, const pdl_sparse_format_t *format);

#ifdef __cplusplus
}
#endif
#endif
