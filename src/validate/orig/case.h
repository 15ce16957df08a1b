/*
 * What the files behind paradl/orig.h share: a question made ready for the formulas. They are in docs/oracle.md,
 * "The original formulas", with the letters used here and the faults that the comments name.
 */
#ifndef PDL_ORACLE_ORIG_CASE_H
#define PDL_ORACLE_ORIG_CASE_H

#include <paradl/model/traits.h>
#include <paradl/validate/orig.h>

#define PDL__ORIG_ITEM_BYTES 4.0 /* delta: the program computes in single precision */

typedef struct pdl__orig_layer {
    const pdl_layer_t *layer;
    double             x, y, w; /* items; x and y of one sample */
    double             seconds; /* forward and backward of one sample */
    bool               split;
    int                stage; /* of a pipeline */
} pdl__orig_layer_t;

typedef struct pdl__orig {
    const pdl_system_t *system;
    pdl__orig_layer_t  *layers;
    int                 count;      /* G */
    int                 last_split; /* index of the last split layer, -1 when there is none */
    int64_t             pe, p1, p2; /* p = p1 p2: samples are divided by p1, the model or a sample by p2 */
    int64_t             batch, segments, max_pe;
    int                 stages;     /* a pipeline could be cut into; equals p2 when it could be cut at all */
    double              D, b;       /* samples of an epoch; of a group: B / p1 */
    double              I;          /* iterations: ceil(D / B) */
    double              seconds, w; /* sums over all layers */
    double              divisor;
    double              memory_bytes; /* of a device */
} pdl__orig_t;

typedef struct pdl__orig_link {
    double alpha, beta;
} pdl__orig_link_t;

/* Between devices of a communicator that spans `span` of them, directly or through the memory of the host. */
pdl__orig_link_t pdl__orig_link(const pdl_system_t *system, int64_t span);
pdl__orig_link_t pdl__orig_host_link(const pdl_system_t *system, int64_t span);

/* Items of a layer's weights: kernels only, the tables have neither biases nor norm parameters. */
double pdl__orig_weights(const pdl_layer_t *layer);

/* Memory grows with the samples: 2 delta (samples * per_sample + fixed) bytes. */
typedef struct pdl__orig_footprint {
    double per_sample, fixed;
} pdl__orig_footprint_t;

/* Whether the program looks at memory: not at all, whether one sample fits, or whether the batch does. */
typedef enum pdl__orig_memory_check {
    PDL__ORIG_NEVER,
    PDL__ORIG_ONE_SAMPLE,
    PDL__ORIG_BATCH
} pdl__orig_memory_check_t;

/* Which of p1 and p2 the devices make up. */
typedef enum pdl__orig_mesh { PDL__ORIG_SAMPLES, PDL__ORIG_MODEL, PDL__ORIG_BOTH } pdl__orig_mesh_t;

typedef struct pdl__orig_strategy {
    const char              *name;
    pdl__orig_mesh_t         mesh;
    pdl__orig_memory_check_t memory_check;
    /* Puts the reason into the result when the case exceeds a limit. */
    void (*limit)(const pdl__orig_t *orig, pdl_orig_result_t *result);
    pdl__orig_footprint_t (*memory)(const pdl__orig_t *orig);
    /* compute_s and the parts of comm_s; samples_fit is set already. */
    void (*time)(const pdl__orig_t *orig, pdl_orig_result_t *result);
} pdl__orig_strategy_t;

void pdl__orig_refuse(pdl_orig_result_t *result, const char *format, ...) PDL_PRINTF(2, 3);

void pdl__orig_limit_serial(const pdl__orig_t *orig, pdl_orig_result_t *result);
void pdl__orig_limit_data(const pdl__orig_t *orig, pdl_orig_result_t *result);
void pdl__orig_limit_spatial(const pdl__orig_t *orig, pdl_orig_result_t *result);
void pdl__orig_limit_filter(const pdl__orig_t *orig, pdl_orig_result_t *result);
void pdl__orig_limit_channel(const pdl__orig_t *orig, pdl_orig_result_t *result);
void pdl__orig_limit_pipeline(const pdl__orig_t *orig, pdl_orig_result_t *result);
void pdl__orig_limit_data_filter(const pdl__orig_t *orig, pdl_orig_result_t *result);
void pdl__orig_limit_data_spatial(const pdl__orig_t *orig, pdl_orig_result_t *result);

pdl__orig_footprint_t pdl__orig_memory_whole(const pdl__orig_t *orig); /* serial, data */
pdl__orig_footprint_t pdl__orig_memory_spatial(const pdl__orig_t *orig);
pdl__orig_footprint_t pdl__orig_memory_filter(const pdl__orig_t *orig);
pdl__orig_footprint_t pdl__orig_memory_pipeline(const pdl__orig_t *orig);
pdl__orig_footprint_t pdl__orig_memory_data_filter(const pdl__orig_t *orig);
pdl__orig_footprint_t pdl__orig_memory_data_spatial(const pdl__orig_t *orig);

void pdl__orig_time_data(const pdl__orig_t *orig, pdl_orig_result_t *result); /* serial too */
void pdl__orig_time_spatial(const pdl__orig_t *orig, pdl_orig_result_t *result);
void pdl__orig_time_filter(const pdl__orig_t *orig, pdl_orig_result_t *result);
void pdl__orig_time_pipeline(const pdl__orig_t *orig, pdl_orig_result_t *result);
void pdl__orig_time_data_filter(const pdl__orig_t *orig, pdl_orig_result_t *result);
void pdl__orig_time_data_spatial(const pdl__orig_t *orig, pdl_orig_result_t *result);

#endif
