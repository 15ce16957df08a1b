/*
 * Measured collectives as a table and as JSON, each algorithm beside the MPI library's own at the same size.
 */
#ifndef PARADL_BENCH_REPORT_H
#define PARADL_BENCH_REPORT_H

#include <paradl/comm/bench.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

pdl_status_t pdl_report_bench(const pdl_bench_t *bench, FILE *stream);
pdl_status_t pdl_report_bench_json(const pdl_bench_t *bench, FILE *stream);

#ifdef __cplusplus
}
#endif
#endif
