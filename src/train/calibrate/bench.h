/*
 * One operation of a program with memory of its own.
 */
#ifndef PDL_TRAIN_CALIBRATE_BENCH_H
#define PDL_TRAIN_CALIBRATE_BENCH_H

#include "train/calibrate/calibrate.h"
#include "train/exec/session.h"

/* Memory by what is in it: numbers that are read, results, weights, indices. */
typedef enum pdl__area {
    PDL__AREA_READ,
    PDL__AREA_WRITTEN,
    PDL__AREA_WEIGHTS,
    PDL__AREA_INDICES,
    PDL__AREAS
} pdl__area_t;

typedef struct pdl__bench {
    pdl__calibrate_t    *c;
    pdl_backend_t       *backend;
    pdl_precision_t      precision;
    pdl_tensor_stream_t *stream;
    pdl_tensor_event_t  *event[2];
    pdl__stall_t         stall;
    char                *area[PDL__AREAS];
    size_t               bytes[PDL__AREAS], used[PDL__AREAS];
    int64_t              indices; /* below which those of PDL__AREA_INDICES are */
    double               sum_s;   /* of the operations of the program at hand */
    bool                 split;   /* its layers are parts of those of the model */
} pdl__bench_t;

/* One pass of one unit. */
typedef struct pdl__bench_job {
    const pdl__graph_t *graph;
    const pdl__unit_t  *unit;
    pdl_op_t           *op;
    pdl_op_run_t        run;
    pdl_timed_pass_t    pass;
    const void         *from;
    void               *to;
} pdl__bench_job_t;

pdl_status_t pdl__bench_create(pdl__bench_t *bench);
void         pdl__bench_free(pdl__bench_t *bench);
/* Gives the buffers of a unit memory with numbers in it, where job->op is to run, or what is converted or loaded. PDL_ERR_LIMIT: it does
   not fit the device. */
pdl_status_t pdl__bench_place(pdl__bench_t *bench, pdl__bench_job_t *job);
/* Of tokens or classes. */
size_t pdl__index_bytes(const pdl_shape_t *shape, int64_t samples);

#endif
