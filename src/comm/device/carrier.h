/*
 * Inside transports: what each of them does with a wire.
 */
#ifndef PDL_COMM_CARRIER_H
#define PDL_COMM_CARRIER_H

#include "comm/inside.h"
#include "comm/requests.h"

#include <paradl/comm/transport.h>

/* Tags of the library's own replies follow those of messages. */
#define PDL__REPLY_TAGS (PDL__MOVE_TAG + 1)

typedef struct pdl__carrier {
    const char *name;
    /* What the transport has beside its wires; NULL: nothing. */
    pdl_status_t (*open)(pdl_transport_t *transport);
    void (*close)(pdl_transport_t *transport);
    pdl_status_t (*join)(pdl_transport_t *transport, pdl_ranks_t *group);
    /* What a wire has beside its request; NULL: nothing. */
    pdl_status_t (*make)(pdl_wire_t *wire);
    void (*unmake)(pdl_wire_t *wire);
    /* Of the fields of a wire, which say what is sent or received. */
    pdl_status_t (*send)(pdl_wire_t *wire);
    pdl_status_t (*receive)(pdl_wire_t *wire);
    pdl_status_t (*test)(pdl_wire_t *wire, bool *done);
    pdl_status_t (*group)(pdl_transport_t *transport, bool begin); /* or NULL */
} pdl__carrier_t;

/* "library": the collective of the device's own library, in place; only of the transport nccl. */
pdl_status_t pdl__nccl_collective(pdl_transport_t *transport, pdl_ranks_t *group, pdl_tensor_stream_t *stream,
                                  pdl_library_collective_t collective, float *data, int64_t count);

extern const pdl__carrier_t pdl__carrier_mpi, pdl__carrier_host, pdl__carrier_ipc, pdl__carrier_nccl;

/* Memory that was given back. */
typedef struct pdl__kept {
    void             *memory;
    size_t            bytes;
    struct pdl__kept *next;
} pdl__kept_t;

struct pdl_transport {
    const pdl__carrier_t *carrier;
    pdl_tensor_device_t  *device;
    pdl_ranks_t          *ranks;
    pdl_ranks_t          *sharers; /* those with the same device; NULL: not known */
    bool             shares; /* with others, who compute in turn: no stream of this rank waits for another rank */
    pdl_transport_t *next;   /* of the job */
    pdl_wire_t      *active; /* go on when the transport is polled */
    pdl__kept_t     *kept;
    void            *state; /* the carrier's */
};

struct pdl_wire {
    pdl_transport_t     *transport;
    pdl_ranks_t         *group;
    pdl_sent_t           kind;
    int64_t              most_bytes;
    pdl_ranks_request_t *request;
    void                *state; /* the carrier's */
    bool                 moving;
    bool                 deferred; /* a receive that begins when somebody waits for it */
    pdl_wire_t          *next;     /* of those that are active */
    bool                 active;
    /* The message. */
    pdl_tensor_stream_t *stream;
    char                *data; /* only read where it is sent */
    bool                 sends;
    int64_t              bytes;
    int                  peer, tag;
};

/* Whether MPI uses the memory where it is. */
bool pdl__transport_direct(const pdl_transport_t *transport);
/* The wire goes on when its transport is polled, until its test says that it is done. */
void pdl__wire_activate(pdl_wire_t *wire);

#endif
