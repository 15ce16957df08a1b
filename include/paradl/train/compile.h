/*
 * A search whose memory is counted by compiling the plans, not modelled.
 *
 *     pdl_search_run(oracle, &request, &search);
 *     pdl_compile_options_t options = {.capacity = 4e9, .threads = 1};
 *     pdl_search_compile(oracle, &request, &options, search);
 */
#ifndef PARADL_COMPILE_H
#define PARADL_COMPILE_H

#include <paradl/oracle/search.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The candidates of a search as this trainer would run them, on processor cores: of those that are shown, memory is
   counted instead of modelled (projection.compiled). One that turns out not to fit is cut into more micro-batches,
   recomputed, or given fewer samples where their number is free; and so is one that the model, but not the trainer,
   finds too large. What does not fit then is not possible, and the next takes its place. */
typedef struct pdl_compile_options {
    double  capacity; /* bytes of a PE that the trainer may use */
    int     threads;  /* of a rank */
    int64_t top;      /* possible candidates that are shown; 0: all */
    bool    rescue;   /* looks at those that the model finds too large */
} pdl_compile_options_t;
pdl_status_t pdl_search_compile(pdl_oracle_t *oracle, const pdl_request_t *request,
                                const pdl_compile_options_t *options, pdl_search_t *search);

#ifdef __cplusplus
}
#endif
#endif
