/*
 * Files of predictions: a row for every sample, as numbers (.npy), a table (.csv) or a document (.json).
 *
 *     pdl_predictions_spec_t spec = {.path = "out.csv", .shape = shape, .samples = 1000, .top_k = 5};
 *     pdl_predictions_open(&spec, &predictions);
 *     pdl_predictions_add(predictions, &rows);           // batch after batch
 *     pdl_predictions_close(predictions, PDL_OK);        // else the file is given up
 */
#ifndef PARADL_PREDICT_REPORT_H
#define PARADL_PREDICT_REPORT_H

#include <paradl/base/status.h>
#include <paradl/train/predict.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_predictions_spec {
    const char *path; /* the ending says the format; "-": a table to standard output */
    const char *model, *data;
    pdl_shape_t shape; /* of one sample's outputs */
    int64_t     samples;
    int64_t     top_k; /* instead of all outputs, so many classes and their probabilities; 0: outputs */
} pdl_predictions_spec_t;

typedef struct pdl_predictions pdl_predictions_t;
pdl_status_t pdl_predictions_open(const pdl_predictions_spec_t *spec, pdl_predictions_t **predictions);
pdl_status_t pdl_predictions_add(pdl_predictions_t *predictions, const pdl_predict_rows_t *rows);
/* Completes the file when `status` is PDL_OK, else gives it up; returns what went wrong first. NULL is allowed. */
pdl_status_t pdl_predictions_close(pdl_predictions_t *predictions, pdl_status_t status);

/* The k classes with the largest of `count` values, and their probabilities by a softmax; of equal ones the first come first. */
void pdl_top_classes(const float *values, int64_t count, int64_t k, int32_t *classes, double *probabilities);

#ifdef __cplusplus
}
#endif
#endif
