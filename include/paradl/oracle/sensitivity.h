/*
 * What every hardware number is worth to a plan: by how much the step would be shorter if it were better, and how much better
 * it had to be for a step that is a tenth shorter. The plan stays; only the number changes.
 *
 *     pdl_sensitivity_t s;
 *     pdl_search_sensitivity(oracle, &request, search, &s);
 *     printf("%s decides: %.0f %%\n", s.row[0].name, 100 * s.row[0].elasticity);
 */
#ifndef PARADL_SENSITIVITY_H
#define PARADL_SENSITIVITY_H

#include <paradl/base/units.h>
#include <paradl/oracle/search.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A step that is shorter by this share is what an upgrade is for. */
#define PDL_UPGRADE_GAIN 0.1
#define PDL_MOST_NUMBERS (10 + 2 * PDL_MAX_LEVELS)

typedef struct pdl_sensitivity_row {
    char       name[64]; /* "memory bandwidth", "bandwidth of a node" */
    pdl_unit_t unit;
    double     value;
    bool       smaller;    /* is better: a time */
    double     elasticity; /* percent of a step per percent of the number, 0 to about 1 */
    double     factor;     /* by which it had to be better for PDL_UPGRADE_GAIN; 0: none up to 64 does it */
} pdl_sensitivity_row_t;

typedef struct pdl_sensitivity {
    pdl_sensitivity_row_t row[PDL_MOST_NUMBERS]; /* what matters most first */
    int                   count;
    int                   cheapest; /* the row with the smallest factor; -1: none */
    double                memory_s; /* step of the best plan if devices had twice the memory; 0: not looked for */
    char                  memory_plan[100]; /* which plan that is */
    bool                  measured; /* some times are measured on this machine: they do not follow its numbers */
} pdl_sensitivity_t;

/* Of the best candidate. */
pdl_status_t pdl_search_sensitivity(pdl_oracle_t *oracle, const pdl_request_t *request, const pdl_search_t *search,
                                    pdl_sensitivity_t *sensitivity);

#ifdef __cplusplus
}
#endif
#endif
