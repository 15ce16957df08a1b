/*
 * The parts of calibration.
 */
#ifndef PDL_TRAIN_CALIBRATE_H
#define PDL_TRAIN_CALIBRATE_H

#include <paradl/tensor/backend.h>
#include <paradl/train/calibrate.h>

/* A line a + b x through times, fitted for the smallest sum of squared relative errors. */
typedef struct pdl__line {
    double u, v, uu, uv, vv;
    int    points;
} pdl__line_t;
void pdl__line_add(pdl__line_t *line, double x, double seconds);
/* Neither is negative. */
void pdl__line_fit(const pdl__line_t *line, double *a, double *b);

typedef struct pdl__calibrate {
    const pdl_calibration_options_t *options;
    pdl_calibration_t               *result;
    pdl_ranks_t                     *ranks, *alone; /* all; this one by itself */
    pdl_backend_t                   *backend;
    const char                      *name[PDL_CALIBRATION_MODELS + 4];
    pdl_model_t                     *model[PDL_CALIBRATION_MODELS + 4];
    int                              model_count;
    int                             *times_measured; /* per row: layers alike are averaged */
    pdl__line_t                      products, passes, messages;
    double                           start_s;
} pdl__calibrate_t;

/* One line of progress, from the first rank. */
PDL_PRINTF(2, 3) void pdl__calibrate_say(const pdl__calibrate_t *c, const char *format, ...);

/* calibrate_machine.c: processor, memory, storage, samples. */
pdl_status_t pdl__calibrate_machine(pdl__calibrate_t *c);
void         pdl__calibrate_topology(pdl_calibration_t *result);
/* calibrate_messages.c: between ranks. */
pdl_status_t pdl__calibrate_messages(pdl__calibrate_t *c);
/* copy.c: pieces of tensors on one rank. */
pdl_status_t pdl__calibrate_copy(pdl__calibrate_t *c);
/* calibrate_layers.c: the layers of all models, whole and in parts, as many as there is time for. */
pdl_status_t pdl__calibrate_layers(pdl__calibrate_t *c);

#endif
