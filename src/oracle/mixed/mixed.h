/*
 * Per-layer layouts on one inner axis (docs/oracle.md, "Mixed layouts"): tables of what every layer costs in every
 * mode, and the dynamic programme that chooses among them.
 *
 * An explicit mode fixes what a layer reads and writes, so its cost is a part that depends on the mode alone
 * plus one part per input that depends on the mode and on the placement in which that input arrives.
 */
#ifndef PDL_ORACLE_MIXED_H
#define PDL_ORACLE_MIXED_H

#include "oracle/internal.h"

/* PDL_BEAM: states kept after a layer; the result is certified while it does not bind. */
enum { PDL_MIXED_OPTIONS = PDL_MODE_COUNT, PDL_MIXED_PLACEMENTS = PDL_SPLIT_S0 + 1, PDL_BEAM = 256 };

/* One layer in one mode. */
typedef struct pdl_option {
    pdl_mode_t      mode;
    pdl_placement_t writes;
    pdl_sums_t      sums;    /* its gradients are read apart, because their price is not additive */
    double          seconds; /* of one iteration with all inputs replicated, gradient exchange left out */
    double          state_bytes, output_bytes; /* kept by a rank: weights and their state; the output */
    bool            wide, narrow; /* its gradient is summed over the inner axis too; over the data axis only */
} pdl_option_t;

/* What layers of one class have in common. */
typedef struct pdl_option_table {
    int          layer; /* the one it was made from */
    int          count;
    pdl_option_t option[PDL_MIXED_OPTIONS];
    double      *edge;   /* [option][input][placement]: seconds more than if that input were replicated */
    double      *copies; /* the same of bytes: copies made by gathering */
} pdl_option_table_t;

typedef struct pdl_options {
    const pdl_model_t  *model;
    pdl_option_table_t *table;
    int                 table_count;
    int                *of;    /* table of each layer */
    bool               *saved; /* whether the output of each layer is kept for backward */
} pdl_options_t;

/* Prices every layer of a plan in every allowed mode of `axis`. The plan's own modes on it do not matter. */
pdl_status_t pdl__options_create(pdl_oracle_t *oracle, const pdl_plan_t *plan, int axis, pdl_options_t *options);
void         pdl__options_free(pdl_options_t *options);

/* What one run of the dynamic programme minimises. */
typedef struct pdl_mixed_goal {
    pdl_sums_t exchange;    /* seconds per unit of each field of the sums */
    int        hidden_from; /* layers from here on pay a share of it, backward hides the rest */
    double     hidden_share;
    double     seconds_per_byte;   /* multiplier of memory */
    bool       no_wide, no_narrow; /* leave out modes whose gradients are exchanged this way */
} pdl_mixed_goal_t;

typedef struct pdl_mixed_result {
    bool       possible;
    bool       certified; /* no state was dropped */
    double     cost;
    pdl_sums_t sums; /* of the chosen options */
} pdl_mixed_result_t;

/* Whether a strategy splits all layers on one axis by a rule, with a data axis beside it or without. */
bool pdl__splits_layers_on(const pdl_strategy_t *strategy, bool data, bool pipeline);

/* Chooses a mode for every layer; writes them into `modes` on `axis` when possible. */
pdl_status_t pdl__mixed_run(const pdl_options_t *options, const pdl_mixed_goal_t *goal, int axis,
                            pdl_modes_t *modes, pdl_mixed_result_t *result);

/* Sums of doubles: *to += *from, and the product field by field. */
void   pdl__sums_add(pdl_sums_t *to, const pdl_sums_t *from);
double pdl__sums_dot(const pdl_sums_t *a, const pdl_sums_t *b);

#endif
