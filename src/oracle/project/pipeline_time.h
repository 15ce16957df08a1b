/*
 * What a pipeline takes by closed form: the longest of a few chains of passes that wait for each other.
 */
#ifndef PDL_ORACLE_PIPELINE_TIME_H
#define PDL_ORACLE_PIPELINE_TIME_H

#include "oracle/internal.h"

/* Seconds of one micro-batch in run k of the layers, which belongs to chunk k / stages of stage k % stages. */
typedef struct pdl__runs {
    const pdl_oracle_t  *oracle; /* with what devices wait for their hosts; NULL: as if they never did */
    const pdl_case_t    *c;
    const pdl_profile_t *profile;
    const pdl_stages_t  *cut;            /* into stages times chunks */
    double               step_s, byte_s; /* of a transfer to the next run or back: start-up, and of every byte */
    bool                 held;           /* transfers hold up the sender */
    double
        enough_s; /* a chain that takes longer tells enough: none that takes longer still is looked for; 0: all are */
} pdl__runs_t;

/* Until the last backward pass (inference: forward pass) of the first stage is over. Replaying the passes never takes less; it
   takes as much where stages are even and transfers take no time, and for GPipe always (docs/oracle.md, "Pipeline").
   bare_s: as if transfers took no time; sent_s may be NULL. */
pdl_status_t pdl__pipeline_seconds(const pdl__runs_t *runs, double *bare_s, double *sent_s);

/* What the passes of all micro-batches take at the least, given those of one through all layers and however these are cut into
   stages (docs/oracle.md, "Exact search"). */
double pdl__least_passes(double pass_s, double micro_batches, double stages, bool interleaved);

/* From the end of what a stage does backward until then, as if transfers took no time. */
double pdl__pipeline_drain(const pdl__runs_t *runs, int64_t stage);

#endif
