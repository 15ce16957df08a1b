/*
 * A network with its weights, as eval and predict take it.
 */
#ifndef PDL_CLI_TRAINED_H
#define PDL_CLI_TRAINED_H

#include <paradl/train/train.h>

typedef struct pdl__network {
    const char         *path;       /* what messages call it */
    pdl_checkpoint_t   *checkpoint; /* of ours; or */
    pdl_initial_file_t *initial;    /* weights of a file */
    pdl_model_t        *model;
} pdl__trained_t;

/* Collective. `path`: a folder of checkpoints, one of them, a file of weights, or an ONNX file; NULL: weights are those of `init`. `model` is wanted
   where the path does not name it. */
pdl_status_t pdl__trained_open(pdl_ranks_t *ranks, const char *path, const char *model, const char *init,
                               pdl__trained_t *network);
void         pdl__trained_close(pdl__trained_t *network);
/* A session with these weights. `averaged`: those of the EMA. */
pdl_status_t pdl__trained_session(const pdl__trained_t *network, pdl_session_spec_t *spec, bool averaged,
                                  pdl_session_t **session);

#endif
