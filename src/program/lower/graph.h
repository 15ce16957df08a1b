/*
 * A model lowered to what a backend computes: units, each one op with the layers fused into it, conversions
 * between formats where two ops do not agree, and views.
 */
#ifndef PDL_PROGRAM_GRAPH_H
#define PDL_PROGRAM_GRAPH_H

#include "program/lower/dispatch.h"
#include "program/lower/edge.h"
#include "program/lower/halo.h"
#include "program/lower/weights.h"
#include <paradl/plan/plan.h>
#include <paradl/program/program.h>
#include <paradl/tensor/backend.h>

typedef enum pdl__unit_kind {
    PDL__UNIT_SOURCE,
    PDL__UNIT_OP,
    PDL__UNIT_CONVERT,
    PDL__UNIT_VIEW,
    PDL__UNIT_EDGE,
    PDL__UNIT_RECEIVE, /* the output of a layer of another stage; its gradient goes back there */
    PDL__UNIT_SEND     /* the other end: no output, and a gradient for its input */
} pdl__unit_kind_t;

/* Messages between this rank and the one of another stage: the same tensor of one micro-batch after the other. */
typedef struct pdl__stage_link {
    int    peer, tag;
    size_t bytes; /* of a message; 0: there are none */
    int    slots; /* messages that may be in flight */
} pdl__stage_link_t;

typedef struct pdl__unit {
    pdl__unit_kind_t kind;
    int              layer;  /* of the model: the first of the layers fused */
    int              tail;   /* the last; the unit's output is its output */
    int              reader; /* PDL__UNIT_EDGE: the layer that it is for */
    pdl_shape_t      shape;  /* of the output, on this rank */
    pdl_format_t     format; /* of the output */
    int              input[PDL_MAX_INPUTS];
    int              input_count;
    /* PDL__UNIT_OP: what it is asked for, where pointers are those of pdl__unit_spec(), and what it is then */
    pdl_op_spec_t        spec;
    pdl_shape_t          reads[PDL_MAX_INPUTS];
    pdl_format_t         given[PDL_MAX_INPUTS];
    pdl_op_description_t description;
    pdl_region_t         region; /* the part of the whole output that this rank has */
    pdl_layer_t         *local;  /* the layer as this rank computes it, where that is a part; owned */
    pdl__edge_t         *edge;   /* PDL__UNIT_EDGE; owned */
    pdl__halo_t         *halo;   /* PDL__UNIT_OP: what it lacks of its input, or NULL; owned */
    pdl__edge_t         *after[PDL_MAX_INPUTS]; /* sums of input gradients over ranks; owned */
    bool                 divides;               /* weight gradients are made while input gradients are in flight */
    pdl__dispatch_t     *routes;                /* of tokens to experts on several ranks; owned; or NULL */
    unsigned          statistic_axes; /* of ranks with other values of the channels (batch norm) or other classes */
    bool              zero_bias;      /* another rank adds the bias */
    int               tied_to;        /* unit whose weight 0 it uses as its own, or -1 */
    int               weight[PDL_MAX_WEIGHTS]; /* in the list of the graph */
    pdl__stage_link_t there, back; /* PDL__UNIT_RECEIVE and _SEND: of values, and of gradients or of 0 bytes */
    int               chunk;
    bool              loss;
    bool              gradient; /* its output gets a gradient */
    int               readers;  /* units that give one back */
    /* What a runtime makes of it, and keeps here: */
    pdl_op_t            *op;
    struct pdl_ranks    *statistics;
    struct pdl__channel *there_channel, *back_channel;
} pdl__unit_t;

/* The spec of the unit's op; valid as long as the unit is where it is. */
pdl_op_spec_t pdl__unit_spec(const pdl__unit_t *unit);

typedef struct pdl__graph_spec {
    const pdl_plan_t     *plan;
    const pdl__layouts_t *layouts;
    pdl_backend_t        *backend;
    bool                  training;
    bool                  separate;     /* statistics are not shared over data axes */
    bool                  unplaced;     /* buffers of programs get no places */
    bool                  overlap;      /* tensors are in flight while something else is computed */
    int64_t               context;      /* generation: of pdl_op_spec_t; else 0 */
    bool                  shows_logits; /* somebody looks at the input of the loss before its gradient is made */
    size_t                bucket_bytes;
    bool                  smooths;             /* the loss smooths labels */
    bool                  clips, tensor_norms; /* an update needs the norm of all gradients; of every tensor */
    int                   state_arrays;        /* of the optimizer */
} pdl__graph_spec_t;

typedef struct pdl__graph {
    pdl_backend_t       *backend;
    pdl__unit_t         *unit;
    int                  unit_count, capacity;
    int                  source, loss; /* units, or -1 where another stage has them */
    int                  chunk;        /* of the layers being lowered */
    bool                 tokens;       /* the source holds indices */
    pdl_program_node_t  *node;         /* one per unit */
    pdl__rank_weights_t *weights;
} pdl__graph_t;

pdl_status_t pdl__graph_create(const pdl__graph_spec_t *spec, pdl__graph_t **graph);
void         pdl__graph_destroy(pdl__graph_t *graph);

/* compile.c: the program of a graph made from this spec; `training`: with backward and update, for which the graph must be. */
pdl_status_t pdl__graph_program(const pdl__graph_spec_t *spec, const pdl__graph_t *graph, int micro_batches,
                                bool training, pdl_program_t **program);

/* nodes.c: what a unit is timed as: an op, a conversion or samples that are loaded; "": none of these. */
void pdl__unit_key(const pdl__graph_t *graph, int unit, char *text, size_t size);
/* Gradients that backward of a unit takes: of its output where it sums them itself, of its first input where it adds to it. */
int pdl__unit_gradients(const pdl__graph_t *graph, int unit);
/* Makes graph->node. */
pdl_status_t pdl__graph_nodes(pdl__graph_t *graph);

/* head[i]: the first layer of the unit that ends at layer i, -1 when no unit ends there. */
pdl_status_t pdl__fuse_layers(const pdl__layouts_t *layouts, pdl_backend_t *backend, int *head);

/* What is fused behind `head` when the unit ends at `tail`. */
pdl_fusion_t pdl__fusion_of(const pdl_plan_t *plan, int head, int tail);

/* Whether a layer passes on what it reads: dropout of rate 0, and where nothing is trained all of it. */
bool pdl__changes_nothing(const pdl_plan_t *plan, int i);

/* The layer whose output layer i passes on through layers that change nothing. */
int pdl__behind_identities(const pdl_plan_t *plan, int i);

#endif
