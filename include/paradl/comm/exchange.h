/*
 * The exchange of gradients in data parallelism: a flat vector cut into buckets, each summed over the ranks as soon
 * as backward has filled it, while backward goes on with the rest.
 *
 *     pdl_exchange_spec_t spec = {.ranks = ranks, .data = gradients, .bound = bounds, .buckets = n,
 *                                 .algorithm = "ring", .overlap = true};
 *     pdl_exchange_create(&spec, &exchange);
 *     ... backward:  pdl_exchange_ready(exchange, b);  pdl_exchange_poll(exchange);  ...
 *     pdl_exchange_wait(exchange, b);   // bucket b holds the sum on every rank, and may be filled again
 *
 * Instead of the whole sum on every rank each may get a part of it (a reduce-scatter), and parts may be put
 * together again (an allgather): spec.collective, with the parts in spec.part.
 *
 * With the project's schedules the order of additions is fixed: the same ranks, sizes and algorithms give the same
 * bits in every run and on every rank. Of "library" MPI only advises that: the same bits on every rank are usual,
 * the same bits in the next run likely on the same machine. What "measure" has chosen is told by
 * pdl_exchange_algorithm(), and can be asked for again with `algorithms`.
 */
#ifndef PARADL_EXCHANGE_H
#define PARADL_EXCHANGE_H

#include <paradl/base/status.h>
#include <paradl/coll/coll.h>
#include <paradl/coll/sparse.h>
#include <paradl/comm/transport.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_exchange_spec {
    pdl_ranks_t   *ranks; /* borrowed */
    float         *data;  /* borrowed; NULL: pdl_exchange_place() says where every bucket is */
    const int64_t *bound; /* bucket b is [bound[b], bound[b+1]); borrowed during creation */
    int            buckets;
    /* PDL_COLL_ALLREDUCE, PDL_COLL_REDUCE_SCATTER or PDL_COLL_ALLGATHER. For the last two part[b * ranks + r] is
       the number of elements of bucket b that are rank r's, in the order of the ranks; borrowed during creation.
       After a reduce-scatter a rank's part of the bucket is the sum, and the rest is lost. */
    pdl_collective_t collective;
    const int64_t   *part;
    /* Of every bucket: one of the project's schedules, "library" for that of MPI or of the device, or for sums "measure" for the fastest of the
       common schedules and the library in a short trial. NULL: a ring, which measures for parts as well. */
    const char         *algorithm;
    const char *const  *algorithms; /* instead, one for each bucket; or NULL */
    double              density;    /* above 0: sums by a sparse schedule (coll/sparse.h), to which every rank gives
                                          this share of its elements; the others are added to the next ones */
    double              most_density;   /* of pdl_exchange_thin(); 0: the same */
    pdl_topk_momentum_t momentum;       /* of sparse sums */
    int64_t             ranks_per_node; /* for schedules that look at it; 0: 1 */
    int64_t             chunk_bytes;    /* messages are cut into such pieces; 0: default */
    bool                overlap;        /* false: nothing moves before wait */
    /* Which the ranks have joined; NULL: `data` is memory of the CPU. What the device does is done in `stream`, which the
       caller puts behind what fills a bucket before it is ready, and before what uses it after it has been waited for. */
    pdl_transport_t     *transport;
    pdl_tensor_stream_t *stream;
} pdl_exchange_spec_t;

typedef struct pdl_exchange pdl_exchange_t;

pdl_status_t pdl_exchange_create(const pdl_exchange_spec_t *spec, pdl_exchange_t **exchange); /* collective */
/* Collective. Every bucket has been waited for, and the host has waited for the stream, unless something failed. NULL is
   allowed. */
void pdl_exchange_destroy(pdl_exchange_t *exchange);
/* From now on bucket b is at `data`; it is not under way. */
pdl_status_t pdl_exchange_place(pdl_exchange_t *exchange, int b, float *data);
/* Bucket b is complete on this rank. Buckets become ready in the same order on every rank. */
pdl_status_t pdl_exchange_ready(pdl_exchange_t *exchange, int b);
/* Moves what can be moved; cheap. Messages are progressed by the calling thread and nowhere else. */
pdl_status_t pdl_exchange_poll(pdl_exchange_t *exchange);
pdl_status_t pdl_exchange_wait(pdl_exchange_t *exchange, int b);
/* The schedule by which a bucket is exchanged, or "library"; "none" where there is nothing to do. */
const char *pdl_exchange_algorithm(const pdl_exchange_t *exchange, int b);
/* Since creation: bytes sent by this rank ("library": those of a ring), seconds spent waiting, seconds spent in
   polls. */
void pdl_exchange_counters(const pdl_exchange_t *exchange, double *bytes, double *waited_s, double *polled_s);

/* Elements of all sums that are complete, since creation. */
double pdl_exchange_summed(const pdl_exchange_t *exchange);
/* Messages that this rank has sent since creation; those of "library" are not known. */
int64_t pdl_exchange_messages(const pdl_exchange_t *exchange);

/* Bytes this rank sends when every bucket is exchanged once ("library": those of a ring), and bytes of the places where
   messages arrive and of residuals. Of sparse sums what is to be expected. Also of dry ranks, for which "measure" stands for a
   ring. */
void pdl_exchange_bytes(const pdl_exchange_t *exchange, double *sent, size_t *held);
/* Of these, bytes sent each time bucket b is exchanged. */
double pdl_exchange_bucket_bytes(const pdl_exchange_t *exchange, int b);

/* From the next sums on every rank gives this share of its elements; those of sparse exchanges are not under way. */
void pdl_exchange_thin(pdl_exchange_t *exchange, double density);
/* Of a sparse sum: what this rank has not sent yet of bucket b, of all its elements, and behind it their momentum, if there is any;
   NULL: there is none. May be set between two sums. */
float *pdl_exchange_residual(const pdl_exchange_t *exchange, int b, int64_t *count);

#ifdef __cplusplus
}
#endif
#endif
