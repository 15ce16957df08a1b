/*
 * Named strategies as rows of a table: which axes a strategy has, what its layers do on them, which meshes it allows.
 * Plans, search, explanations and commands read the row. A new strategy is a row, and a rule in preset.c where its modes
 * are new.
 *
 *     const pdl_strategy_t *strategy = pdl_strategy_find("data+filter");
 *     pdl_strategy_mesh_t   mesh = {0};
 *     while (pdl_strategy_next_mesh(strategy, 64, INT64_MAX, &mesh)) consider(mesh.data, mesh.inner);
 */
#ifndef PARADL_STRATEGY_H
#define PARADL_STRATEGY_H

#include <paradl/plan/mesh.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The rule by which layers get their modes on a tensor axis; tokens: on a spatial axis, which splits images otherwise. Beside
   pairs on a tensor axis a spatial one splits tokens too. */
typedef enum pdl_width {
    PDL_WIDTH_NONE,
    PDL_WIDTH_FILTER,
    PDL_WIDTH_CHANNEL,
    PDL_WIDTH_PAIRS,
    PDL_WIDTH_TOKENS
} pdl_width_t;

typedef struct pdl_strategy {
    const char *name;
    const char *about;      /* one line, of the strategy: "splits ..." */
    unsigned    axes;       /* a bit per kind of axis that may be larger than 1 */
    pdl_width_t width;      /* pairs: a search also splits the tokens between them */
    bool        per_layer;  /* every layer has a mode of its own, which a search finds */
    int64_t     most_inner; /* beside another axis a search makes spatial and tensor axes no larger, each */
    const struct pdl_strategy *family; /* the widest strategy that sets the same modes; NULL: per_layer */
} pdl_strategy_t;

/* The row of this name; NULL, with an error recorded, when there is none. */
const pdl_strategy_t *pdl_strategy_find(const char *name);
/* Rows by simplicity: one axis before several, the better known first. NULL behind the last. */
const pdl_strategy_t *pdl_strategy_at(int place);
int                   pdl_strategy_place(const pdl_strategy_t *strategy);

bool pdl_strategy_has(const pdl_strategy_t *strategy, pdl_axis_kind_t kind);
/* Whether it has several axes, so that there is a choice of meshes. */
bool pdl_strategy_is_hybrid(const pdl_strategy_t *strategy);
/* Whether it splits nothing but samples, so that every layer can run. */
bool pdl_strategy_is_data(const pdl_strategy_t *strategy);
/* Whether its spatial axis shares out the tokens of sequences. */
bool pdl_strategy_splits_tokens(const pdl_strategy_t *strategy);
/* Whether it has a spatial axis beside a tensor axis, which lies inside of it. */
bool pdl_strategy_splits_twice(const pdl_strategy_t *strategy);
/* PDL_ERR_INPUT unless the strategy has every axis of the mesh that is larger than 1. */
pdl_status_t pdl_strategy_check_mesh(const pdl_strategy_t *strategy, const pdl_mesh_t *mesh);

/* Sizes of axes; inner is that of the spatial or tensor axis, 1 where the strategy has none. Of one that has both it is that of the
   tensor axis, and context that of the spatial one, which is of no meaning elsewhere. */
typedef struct pdl_strategy_mesh {
    int64_t pipeline, data, inner, context;
} pdl_strategy_mesh_t;
/* The next mesh of so many devices, after {0} the first; false: there is none left. A single axis has all devices. Of several
   axes the spatial, tensor and pipeline axes are larger than 1, and at least two are; pipelines of a hybrid have fewer
   than `layers` stages. */
bool pdl_strategy_next_mesh(const pdl_strategy_t *strategy, int64_t devices, int64_t layers,
                            pdl_strategy_mesh_t *mesh);

#ifdef __cplusplus
}
#endif
#endif
