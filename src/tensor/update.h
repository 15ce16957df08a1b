/*
 * What updates are on backends whose memory is the host's.
 */
#ifndef PDL_TENSOR_UPDATE_H
#define PDL_TENSOR_UPDATE_H

#include "tensor/rates.h"

/* Of range i of `count`. False: nothing is to be written. */
bool pdl__host_update_rates(const pdl_update_t *update, const pdl_update_range_t *ranges, int count, int i,
                            pdl__update_rates_t *rates);

/* Entries of the table of a backend. */
pdl_status_t pdl__host_check_results(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *results,
                                     const float *sample_weight, int64_t count, int64_t *flag);
pdl_status_t pdl__host_clip(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const double *sums, int count,
                            double allowed, const int64_t *flag, double clip[2]);

#endif
