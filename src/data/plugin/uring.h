/*
 * Reads and writes of a store by io_uring, several at once. Internal to the module.
 */
#ifndef PDL_DATA_PLUGIN_URING_H
#define PDL_DATA_PLUGIN_URING_H

#include <stdbool.h>
#include <stdint.h>

/* A transfer that is in flight. */
typedef struct pdl__transfer {
    uint8_t *data;
    int64_t  bytes, done, offset;
    bool     writes;
} pdl__transfer_t;

typedef struct pdl__ring pdl__ring_t;

typedef struct pdl__uring {
    /* NULL where the system has no rings (containers may forbid them), which is no error. */
    pdl__ring_t *(*open)(int depth);
    void (*close)(pdl__ring_t *ring); /* NULL is allowed */
    /* Submits a transfer. There are never more than `depth` in flight. */
    int (*start)(pdl__ring_t *ring, int file, pdl__transfer_t *transfer);
    /* Waits for one to end; 0, or the errno of what went wrong. A transfer may end before all of it is done. */
    int (*wait)(pdl__ring_t *ring, pdl__transfer_t **ended, int64_t *moved);
} pdl__uring_t;

#endif
