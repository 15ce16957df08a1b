/*
 * The program of one rank of a plan, from the plan and what a backend says of ops. It needs no other ranks, no memory for
 * tensors and no kernels, so any rank of any plan can be looked at anywhere.
 *
 *     pdl_program_spec_t spec = {.plan = plan, .backend = backend, .rank = 5, .training = true, .overlap = true};
 *     pdl_program_t     *program;
 *     pdl_program_compile(&spec, &program);
 *     printf("%zu bytes of activations\n", program->arena_bytes);
 *     pdl_program_destroy(program);
 */
#ifndef PARADL_PROGRAM_COMPILE_H
#define PARADL_PROGRAM_COMPILE_H

#include <paradl/plan/plan.h>
#include <paradl/program/program.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_program_spec {
    const pdl_plan_t *plan;
    pdl_backend_t    *backend;
    int64_t           rank;
    int64_t           samples;       /* of one micro-batch, over all ranks; 0: as the plan says */
    int               micro_batches; /* 0: as the plan says */
    bool              training;
    bool              separate;     /* replicas update each for itself: statistics are not shared over data axes */
    bool              overlap;      /* communication is in flight while something else is computed */
    bool              unplaced;     /* only operations are asked for: buffers get no places */
    size_t            bucket_bytes; /* of gradients that are exchanged together; 0: PDL_BUCKET_BYTES */
    bool              smooths;      /* the loss smooths labels */
    bool              clips, tensor_norms; /* an update needs the norm of all gradients; of every tensor */
} pdl_program_spec_t;
#define PDL_BUCKET_BYTES ((size_t)8 << 20)

/* PDL_ERR_LIMIT or PDL_ERR_UNSUPPORTED where the plan cannot be run so, the message says why. */
pdl_status_t pdl_program_compile(const pdl_program_spec_t *spec, pdl_program_t **program);

/* One rank of every class of ranks that have the same program, stage after stage; to be freed. */
pdl_status_t pdl_program_ranks(const pdl_plan_t *plan, int64_t **ranks, int *count);

/* Bytes of buffers that live from the forward to the backward pass of the first micro-batch; 0 without one. */
size_t pdl_program_saved_bytes(const pdl_program_t *program);

#ifdef __cplusplus
}
#endif
#endif
