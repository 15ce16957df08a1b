/*
 * The parts of calibration.
 */
#ifndef PDL_TRAIN_CALIBRATE_H
#define PDL_TRAIN_CALIBRATE_H

#include <paradl/plan/plan.h>
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

enum { PDL__PRECISIONS = 2 };

/* An update of a network on one rank of a device, as long as it took. */
typedef struct pdl__whole {
    const pdl_model_t *model;
    pdl_precision_t    precision;
    int64_t            batch;
    double             step_s;
} pdl__whole_t;
#define PDL__WHOLES 64

typedef struct pdl__calibrate {
    const pdl_calibration_options_t *options;
    pdl_calibration_t               *result;
    pdl_ranks_t                     *ranks, *alone;            /* all; this one by itself */
    pdl_backend_t                   *backend[PDL__PRECISIONS]; /* fp32, bf16; NULL: not measured */
    bool                             queues; /* the host queues work for a device, which has memory of its own */
    bool                             shared; /* several ranks have one device */
    const char                      *name[PDL_CALIBRATION_MODELS + 6];
    pdl_model_t                     *model[PDL_CALIBRATION_MODELS + 6];
    int                              model_count;
    int                             *times_measured; /* per row: layers alike are averaged */
    pdl__line_t                      products[PDL__PRECISIONS], passes, messages;
    pdl__whole_t                     whole[PDL__WHOLES];
    int                              whole_count;
    double                           start_s;
} pdl__calibrate_t;

/* One line of progress, from the first rank. */
PDL_PRINTF(2, 3) void pdl__calibrate_say(const pdl__calibrate_t *c, const char *format, ...);

/* machine.c: processor, memory, storage, samples. */
pdl_status_t pdl__calibrate_machine(pdl__calibrate_t *c);
/* device.c: memory and products of a device that the host queues work for, and what queueing takes; link.c: copies to and from
   the host. */
pdl_status_t pdl__calibrate_device(pdl__calibrate_t *c);
pdl_status_t pdl__calibrate_link(pdl__calibrate_t *c);
/* stall.c: work for a stream that takes so long that the host can queue more behind it. */
typedef struct pdl__stall {
    pdl_tensor_device_t *device;
    void                *memory;
    size_t               bytes;
    double               fill_s;
} pdl__stall_t;
pdl_status_t pdl__stall_create(pdl_tensor_device_t *device, pdl__stall_t *stall);
void         pdl__stall_free(pdl__stall_t *stall);
pdl_status_t pdl__stall(const pdl__stall_t *stall, pdl_tensor_stream_t *stream, double seconds);
void         pdl__calibrate_topology(pdl_calibration_t *result, const pdl_calibration_device_t *device);
/* messages.c: between ranks. */
pdl_status_t pdl__calibrate_messages(pdl__calibrate_t *c);
/* copy.c: pieces of tensors on one rank. */
pdl_status_t pdl__calibrate_copy(pdl__calibrate_t *c);
/* layers.c: the layers of all models, whole and in parts, as many as there is time for. */
pdl_status_t pdl__calibrate_layers(pdl__calibrate_t *c);
/* Rows of the layers of a plan, forward and backward; negative: the layer is no operation. */
pdl_status_t pdl__keep_layers(pdl__calibrate_t *c, const pdl_plan_t *plan, double samples,
                              const double (*layer_s)[2]);
/* operations.c: those of all models one by one, on a device that the host queues work for. */
pdl_status_t pdl__calibrate_operations(pdl__calibrate_t *c);
/* rest.c: what updates of such a device take besides operations. On the first rank. */
pdl_status_t pdl__calibrate_rest(pdl__calibrate_t *c);

#endif
