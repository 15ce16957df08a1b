/*
 * What computes: the value of --device.
 */
#ifndef PDL_CLI_DEVICE_H
#define PDL_CLI_DEVICE_H

#include <paradl/comm/ranks.h>
#include <paradl/system/system.h>
#include <paradl/tensor/backend.h>

typedef enum pdl__device_kind {
    PDL__DEVICE_CPU,
    PDL__DEVICE_CUDA,
    PDL__DEVICE_AUTO /* a GPU where there is one, which is said */
} pdl__device_kind_t;

typedef struct pdl__device {
    pdl__device_kind_t kind;
    int                number; /* of the GPU; -1: ranks of a node take them in turn */
    bool               dry;    /* nothing computes */
    bool               tf32;   /* products in fp32 may round their factors to 10 bits; GPUs alone can */
} pdl__device_t;

/* What --precision says. */
enum { PDL__PRECISIONS_HERE = 3 };
extern const char *const     pdl__precision_names[PDL__PRECISIONS_HERE]; /* fp32 bf16 tf32 */
extern const pdl_precision_t pdl__precisions[PDL__PRECISIONS_HERE];

/* Of "cpu", "cuda", "cuda:N", "auto"; with `dry` also "dry" and "dry:cuda". */
pdl_status_t pdl__device_read(const char *text, bool dry, pdl__device_t *device);

/* AUTO becomes what it comes to here. All ranks of a node come to the same. */
pdl_status_t pdl__device_settle(pdl__device_t *device, const pdl_ranks_t *ranks);

/* The backend of this rank, on a device that is settled. */
pdl_status_t pdl__device_create(const pdl__device_t *device, const pdl_ranks_t *ranks,
                                const pdl_cpu_options_t *options, pdl_backend_t **backend);

/* The built-in system that was calibrated on a GPU of this name; "local" where the processor computes, and for a GPU that no
   system describes: `*described` is false then. */
const char *pdl__device_system(const pdl_backend_t *backend, char *name, size_t size, bool *described);

/* Whether the processor takes the part of GPUs, as tests want it: PARADL_CUDA_EMULATED. */
bool pdl__device_emulated(void);

#endif
