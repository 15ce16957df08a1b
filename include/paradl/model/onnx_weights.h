/*
 * The weights that an ONNX file holds, under the names and in the order of ours: "conv1.weight" [F][C/g][k..],
 * "fc.weight" [F][C], whatever the file calls them and however it stores them.
 *
 *     pdl_onnx_weights_t *weights;
 *     pdl_onnx_weights_load("resnet50.onnx", &weights);
 *     for (int i = 0; i < pdl_onnx_weights_count(weights); i++) {
 *         const pdl_onnx_weight_t *weight = pdl_onnx_weights_at(weights, i);
 *         pdl_onnx_weights_read(weights, i, values);              // weight->elements of them
 *     }
 *     pdl_onnx_weights_free(weights);
 */
#ifndef PARADL_ONNX_WEIGHTS_H
#define PARADL_ONNX_WEIGHTS_H

#include <paradl/base/status.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PDL_ONNX_RANK 8

typedef struct pdl_onnx_weight {
    const char *name; /* of our layer and its weight */
    int         rank;
    int64_t     dims[PDL_ONNX_RANK]; /* a vector of channels may have ones around it */
    int64_t     elements;
} pdl_onnx_weight_t;

typedef struct pdl_onnx_weights pdl_onnx_weights_t;

/* Those whose numbers are stored; one that the file computes from others is left out. */
pdl_status_t             pdl_onnx_weights_load(const char *path, pdl_onnx_weights_t **weights);
void                     pdl_onnx_weights_free(pdl_onnx_weights_t *weights); /* NULL is allowed */
int                      pdl_onnx_weights_count(const pdl_onnx_weights_t *weights);
const pdl_onnx_weight_t *pdl_onnx_weights_at(const pdl_onnx_weights_t *weights, int i);
/* Also from the file beside it that has the data, where the ONNX file names one. */
pdl_status_t pdl_onnx_weights_read(const pdl_onnx_weights_t *weights, int i, float *values);

#ifdef __cplusplus
}
#endif
#endif
