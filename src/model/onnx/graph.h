/*
 * Reading an ONNX graph is an abstract interpretation: nodes are visited in order, and every tensor is given a
 * value that says what it is in terms of our layers. A value is
 *
 *   a constant     weights (a shape and the name of the initializer) and everything computed from shapes; numbers
 *                  are worked out while there are few of them, otherwise only the shape is known;
 *   an activation  the output of a layer, seen through reshapes and transposes (its view) and through element-wise
 *                  arithmetic that has not become a layer yet (its expression);
 *   scores         q k^T of an attention, possibly scaled and masked, and the probabilities after its softmax.
 *
 * The batch is fixed to the size in the file, or to 1 where the file leaves it open.
 *
 * Expressions are known by what they do to a few probe numbers. That recognises x * sigmoid(x), both GELUs and the
 * decomposed layer normalization (the probes then stand for the channels) however an exporter orders them.
 */
#ifndef PDL_MODEL_ONNX_GRAPH_H
#define PDL_MODEL_ONNX_GRAPH_H

#include "model/builder.h"
#include "onnx.pb-c.h"
#include <paradl/base/arena.h>
#include <paradl/model/model.h>

#define PDL__ONNX_MAX_RANK  8
#define PDL__ONNX_MAX_ATOMS 16
#define PDL__ONNX_PROBES    11

/* An atom is a factor of one axis of an activation: size elements, stride apart along that axis. Each dimension
   of the ONNX tensor is a run of atoms, outermost first; dimensions of one element have none. */
typedef enum pdl__onnx_axis { PDL__AXIS_BATCH, PDL__AXIS_CHANNEL, PDL__AXIS_SPACE } pdl__onnx_axis_t;

typedef struct pdl__onnx_atom {
    int     axis; /* PDL__AXIS_SPACE + i for the i-th extent */
    int64_t size, stride;
} pdl__onnx_atom_t;

typedef struct pdl__onnx_view {
    int              rank;
    int64_t          dims[PDL__ONNX_MAX_RANK];
    int              start[PDL__ONNX_MAX_RANK + 1]; /* atoms of dimension i: start[i] .. start[i + 1] - 1 */
    pdl__onnx_atom_t atoms[PDL__ONNX_MAX_ATOMS];
    int64_t          channel_begin; /* first channel seen, for parts of a layer's output */
} pdl__onnx_view_t;

typedef enum pdl__onnx_kind {
    PDL__ONNX_CONSTANT,
    PDL__ONNX_ACTIVATION,
    PDL__ONNX_SCORES,
    PDL__ONNX_PROBABILITIES
} pdl__onnx_kind_t;

typedef struct pdl__onnx_value pdl__onnx_value_t;

/* The constants that are the weights of a layer, by their names in our layers; NULL: it has none such. */
typedef enum pdl__onnx_part {
    PDL__PART_WEIGHT,
    PDL__PART_BIAS,
    PDL__PART_MEAN,
    PDL__PART_VAR,
    PDL__PART_TOKEN,
    PDL__PART_COUNT
} pdl__onnx_part_t;
typedef struct pdl__onnx_parts {
    const pdl__onnx_value_t *part[PDL__PART_COUNT];
    bool                     transposed; /* the weight is [inputs][outputs] */
} pdl__onnx_parts_t;

/* A layer that may still take a bias, a scale or a position vector from the nodes that follow. */
typedef struct pdl__onnx_pending {
    pdl__onnx_parts_t parts;
    pdl_layer_t       layer;  /* without name and inputs */
    int               input;  /* index of the producer */
    bool              scaled; /* norms: the scale has been seen */
    const char       *hint;   /* name of a weight or bias, or NULL */
} pdl__onnx_pending_t;

struct pdl__onnx_value {
    pdl__onnx_kind_t       kind;
    pdl__onnx_view_t       view; /* of a constant only rank and dims */
    const Onnx__NodeProto *node; /* that produced it, or NULL */
    int                    uses; /* by nodes and as outputs of the graph */

    /* constants */
    const Onnx__TensorProto *tensor;  /* an initializer whose numbers have not been needed yet */
    double                  *data;    /* NULL: only the shape is known */
    const char              *origin;  /* initializer it comes from, or NULL */
    const char              *label;   /* what the file calls that weight: exporters share equal initializers */
    bool                     real;    /* floating point */
    const Onnx__TensorProto *stored;  /* it has the numbers of this tensor, in its order, */
    bool                     flipped; /* or transposed; NULL: others */

    /* activations */
    int                  layer; /* whose output this is; -1 while `pending` */
    pdl__onnx_pending_t *pending;
    int64_t              pad_low[PDL_MAX_SPACE], pad_high[PDL_MAX_SPACE]; /* waits for a window */
    double               pad_value;                                       /* that fills it */
    bool                 padded;
    bool                 expression; /* f(layer) and not the layer itself */
    bool                 normalises; /* a mean over channels took part */
    bool                 reduced;    /* one number per position */
    int                  depth;
    double               probe[PDL__ONNX_PROBES];
    double               parameter[2]; /* of the operator at the top of the expression */
    pdl__onnx_value_t   *operand[2];

    /* scores and probabilities: operands are q and k */
    bool   causal;
    double scale; /* of q k^T */
};

/* What is worth a remark to the user: see onnx_remark.c. */
typedef struct pdl__onnx_tally {
    int convolutions, biased, depthwise;
    int folded; /* kernel and bias are both named as constants are that an exporter worked out */
    int paired; /* bias named as the kernel is: x.weight, x.bias */
    struct {
        const char *name;
        int         count;
    } functions[4];          /* that the layers come close to */
    const char *prepares[2]; /* operators on the input that belong to the data set */
} pdl__onnx_tally_t;

/* The weights of a layer that has been added. */
typedef struct pdl__onnx_bound {
    int               layer;
    pdl__onnx_parts_t parts;
} pdl__onnx_bound_t;

typedef struct pdl__onnx {
    const char            *file;
    pdl_arena_t           *arena;
    pdl_model_builder_t   *builder;
    Onnx__GraphProto      *graph;
    const Onnx__NodeProto *node;   /* being read */
    pdl__onnx_value_t     *second; /* stands for operand 1 of the node, or NULL */
    int64_t                opset;
    int64_t                number_budget; /* constants that may still be worked out */
    bool                   integer_input; /* tokens */
    bool                   classifies;    /* the output went through a softmax, which the loss contains */
    pdl__onnx_tally_t      tally;
    pdl__onnx_bound_t     *bound; /* in the arena */
    int                    bound_count, bound_room;
    struct {
        const char        *name;
        pdl__onnx_value_t *value;
        int                uses;
    } * slots; /* open addressing, by tensor name */
    size_t slot_count;
} pdl__onnx_t;

/* Fails with "FILE: node NAME (OPERATOR): ..." for the node being read. */
pdl_status_t pdl__onnx_fail(const pdl__onnx_t *o, pdl_status_t status, const char *format, ...) PDL_PRINTF(3, 4);
/* "FILE: node NAME (OPERATOR)" */
const char *pdl__onnx_where(const pdl__onnx_t *o, char *buffer, size_t size);

/* onnx_table.c: tensors by name. */
pdl_status_t       pdl__onnx_table_create(pdl__onnx_t *o);
pdl__onnx_value_t *pdl__onnx_find(const pdl__onnx_t *o, const char *name); /* NULL when unknown */
pdl_status_t       pdl__onnx_define(pdl__onnx_t *o, const char *name, pdl__onnx_value_t *value);
int                pdl__onnx_uses(const pdl__onnx_t *o, const char *name); /* by nodes and as outputs */
/* Operand i of the node being read; NULL when it is left out. */
pdl__onnx_value_t *pdl__onnx_input(const pdl__onnx_t *o, size_t i);
/* Makes `value` output i of the node being read; nothing happens where the node names no such output. */
pdl_status_t pdl__onnx_output(pdl__onnx_t *o, size_t i, pdl__onnx_value_t *value);
/* A new value, or a copy of `from`; NULL when memory is out. */
pdl__onnx_value_t *pdl__onnx_new(pdl__onnx_t *o, pdl__onnx_kind_t kind);
pdl__onnx_value_t *pdl__onnx_copy(pdl__onnx_t *o, const pdl__onnx_value_t *from);

/* onnx_attribute.c: attributes of the node being read; the default when absent. */
const Onnx__AttributeProto *pdl__onnx_attribute(const pdl__onnx_t *o, const char *name);
int64_t                     pdl__onnx_int(const pdl__onnx_t *o, const char *name, int64_t otherwise);
double                      pdl__onnx_float(const pdl__onnx_t *o, const char *name, double otherwise);
/* The default when absent; NULL when memory is out. */
const char *pdl__onnx_string(pdl__onnx_t *o, const char *name, const char *otherwise);
bool        pdl__onnx_string_is(const pdl__onnx_t *o, const char *name, const char *text);
/* Refuses attributes that are not in `known`, "name:types name:types ...", or not of one of these types: i f s t for
   an integer, a number, a string, a tensor, I F for several. What is not listed would be ignored in silence. */
pdl_status_t pdl__onnx_check_attributes(const pdl__onnx_t *o, const char *known);
/* At most `limit` integers of an attribute, or of operand `input` (newer operator sets moved many there; -1: none).
   *count is -1 when neither is given. */
pdl_status_t pdl__onnx_ints(pdl__onnx_t *o, const char *name, int input, int64_t *values, int limit, int *count);
/* Turns an axis that may count from the end into 0 .. rank - 1. */
pdl_status_t pdl__onnx_normal_axis(const pdl__onnx_t *o, int64_t axis, int rank, int *normal);

/* onnx_constant.c, onnx_fold.c: constants. */
int64_t pdl__onnx_elements(const pdl__onnx_view_t *view);
/* Numbers of a constant, decoded on first use; NULL when they are not in the file or too many. */
const double *pdl__onnx_numbers(pdl__onnx_t *o, pdl__onnx_value_t *value);
bool          pdl__onnx_scalar(pdl__onnx_t *o, pdl__onnx_value_t *value, double *scalar);
int64_t       pdl__onnx_to_int(double number);
/* The numbers of a tensor that the file holds; false when there are not so many. */
bool pdl__onnx_decode(const Onnx__TensorProto *tensor, int64_t count, double *numbers);
/* Bytes of an element where it is stored raw; 0: not known. */
size_t       pdl__onnx_raw_size(int32_t type);
double       pdl__onnx_raw_number(const uint8_t *bytes, int32_t type);
pdl_status_t pdl__onnx_from_tensor(pdl__onnx_t *o, const Onnx__TensorProto *tensor, pdl__onnx_value_t **value);
/* Room for the numbers of a new constant; leaves data NULL when there are too many to work out. */
pdl_status_t pdl__onnx_make_room(pdl__onnx_t *o, pdl__onnx_value_t *value);
/* The shape two operands broadcast to. */
pdl_status_t pdl__onnx_broadcast(const pdl__onnx_t *o, const pdl__onnx_view_t *a, const pdl__onnx_view_t *b,
                                 pdl__onnx_view_t *out);
/* Offset into a constant of shape `view` of the element with this index in the broadcast shape of `rank`. */
int64_t pdl__onnx_offset(const pdl__onnx_view_t *view, const int64_t *index, int rank);
/* Steps an index to the next element, last dimension fastest. */
void pdl__onnx_next(const pdl__onnx_view_t *view, int64_t *index);

/* onnx_math.c: scalar functions by operator name. */
typedef struct pdl__onnx_unary {
    const char *op;
    double (*plain)(double x);
    double (*with_parameters)(double x, const double *parameter); /* when `plain` is NULL */
} pdl__onnx_unary_t;
typedef double (*pdl__onnx_binary_fn_t)(double x, double y);
const pdl__onnx_unary_t *pdl__onnx_unary(const char *op);
double                   pdl__onnx_apply(const pdl__onnx_unary_t *unary, double x, const double *parameter);
pdl__onnx_binary_fn_t    pdl__onnx_binary(const char *op);
extern const double      pdl__onnx_probe[PDL__ONNX_PROBES];
/* The nearest number of so many decimal digits: what was meant by a float that reads 9.99999974e-06. */
double pdl__onnx_decimal(double number, int digits);

typedef enum pdl__onnx_form {
    PDL__FORM_UNKNOWN,
    PDL__FORM_IDENTITY,
    PDL__FORM_SCALE, /* c x */
    PDL__FORM_LAYER  /* what the layer type says */
} pdl__onnx_form_t;
/* What an expression computes: fills type, slope and epsilon of `layer`. */
pdl__onnx_form_t pdl__onnx_recognise(const pdl__onnx_value_t *value, pdl_layer_t *layer);
/* Where the layer that is recognised computes another function, close to what the file says: that one's name. */
const char *pdl__onnx_other_function(const pdl__onnx_value_t *value);
bool        pdl__onnx_is_sum(const char *op);

/* onnx_view.c */
void         pdl__onnx_view_of(const pdl_shape_t *shape, int64_t batch, bool channels_last, pdl__onnx_view_t *view);
pdl_status_t pdl__onnx_view_reshape(const pdl__onnx_t *o, pdl__onnx_view_t *view, const int64_t *dims, int rank);
void         pdl__onnx_view_transpose(pdl__onnx_view_t *view, const int *order);
/* Keeps `count` elements of a dimension from `begin` on. Only channels can be cut; false when others are. */
bool pdl__onnx_view_cut(pdl__onnx_view_t *view, int dim, int64_t begin, int64_t count);
void pdl__onnx_view_drop(pdl__onnx_view_t *view, int dim); /* removes a dimension of one element */
void pdl__onnx_view_insert(pdl__onnx_view_t *view, int dim);
bool pdl__onnx_view_equal(const pdl__onnx_view_t *a, const pdl__onnx_view_t *b);
/* Whether a dimension holds all channels and nothing else. */
bool    pdl__onnx_dim_is_channels(const pdl__onnx_view_t *view, int dim, int64_t channels);
bool    pdl__onnx_dim_is_axis(const pdl__onnx_view_t *view, int dim, int axis, int64_t size);
int64_t pdl__onnx_view_batch(const pdl__onnx_view_t *view);
/* Replaces what a dimension holds by one whole axis. */
void pdl__onnx_view_set(pdl__onnx_view_t *view, int dim, int axis, int64_t size);

/* onnx_emit.c: from values to layers. */
const char *pdl__onnx_name(pdl__onnx_t *o, const Onnx__NodeProto *node, const char *hint, pdl_layer_type_t type);
/* Adds a layer with these producers; the name comes from `hint` (a weight) or from the node. */
pdl_status_t pdl__onnx_add(pdl__onnx_t *o, pdl_layer_t *layer, const Onnx__NodeProto *node, const char *hint,
                           const int *inputs, int input_count, int *index);
/* Remembers which constants are the weights of a layer. */
pdl_status_t pdl__onnx_bind(pdl__onnx_t *o, int layer, const pdl__onnx_parts_t *parts);
/* Settled: a layer exists, an expression may be on top of it. Materialised: the value is a layer's output. */
pdl_status_t pdl__onnx_settle(pdl__onnx_t *o, pdl__onnx_value_t *value);
pdl_status_t pdl__onnx_materialise(pdl__onnx_t *o, pdl__onnx_value_t *value);
/* Materialised and seen as [batch, channels, extents...]. */
pdl_status_t pdl__onnx_as_image(pdl__onnx_t *o, pdl__onnx_value_t *value);
/* Materialised with the channels in the last dimension; flattens or makes a sequence where the view did. */
pdl_status_t pdl__onnx_as_rows(pdl__onnx_t *o, pdl__onnx_value_t *value);
/* Output 0 of the node: the layer as an image of this batch. */
pdl_status_t pdl__onnx_output_image(pdl__onnx_t *o, int layer, int64_t batch);
/* Output 0 of the node: the layer, seen through `view`. */
pdl_status_t       pdl__onnx_output_view(pdl__onnx_t *o, int layer, const pdl__onnx_view_t *view);
const pdl_shape_t *pdl__onnx_shape(const pdl__onnx_t *o, const pdl__onnx_value_t *value);

/* onnx_remark.c: what a user should know about a file that is read. Each tallies one occurrence. */
void pdl__onnx_note_conv(pdl__onnx_t *o, const pdl_layer_t *layer, const pdl__onnx_value_t *weight,
                         const pdl__onnx_value_t *bias);
void pdl__onnx_note_function(pdl__onnx_t *o, const char *name); /* NULL: nothing */
void pdl__onnx_note_preparation(pdl__onnx_t *o);
/* Gives the model its remarks. */
pdl_status_t pdl__onnx_remark(const pdl__onnx_t *o, const char *producer);

/* The operators, one file per family; `pdl__onnx_run` picks the one for the node being read. */
pdl_status_t pdl__onnx_run(pdl__onnx_t *o);
/* Before operator set 7: `axis` says where the second operand of the node begins in the first. */
pdl_status_t pdl__onnx_align_second(pdl__onnx_t *o);
pdl_status_t pdl__onnx_binary_value(pdl__onnx_t *o);
pdl_status_t pdl__onnx_unary_value(pdl__onnx_t *o);
pdl_status_t pdl__onnx_clip(pdl__onnx_t *o);
pdl_status_t pdl__onnx_pass(pdl__onnx_t *o);
pdl_status_t pdl__onnx_cast(pdl__onnx_t *o);
pdl_status_t pdl__onnx_dropout(pdl__onnx_t *o);
pdl_status_t pdl__onnx_reduce_mean(pdl__onnx_t *o);
pdl_status_t pdl__onnx_where_value(pdl__onnx_t *o);
pdl_status_t pdl__onnx_is_nan(pdl__onnx_t *o);

pdl_status_t pdl__onnx_conv(pdl__onnx_t *o);
pdl_status_t pdl__onnx_pool(pdl__onnx_t *o);
pdl_status_t pdl__onnx_global_pool(pdl__onnx_t *o);
pdl_status_t pdl__onnx_resize(pdl__onnx_t *o);
pdl_status_t pdl__onnx_pad(pdl__onnx_t *o);

pdl_status_t pdl__onnx_batch_norm(pdl__onnx_t *o);
pdl_status_t pdl__onnx_layer_norm(pdl__onnx_t *o);
pdl_status_t pdl__onnx_instance_norm(pdl__onnx_t *o);
pdl_status_t pdl__onnx_group_norm(pdl__onnx_t *o);
pdl_status_t pdl__onnx_lrn(pdl__onnx_t *o);
pdl_status_t pdl__onnx_softmax(pdl__onnx_t *o);

pdl_status_t pdl__onnx_gemm(pdl__onnx_t *o);
pdl_status_t pdl__onnx_matmul(pdl__onnx_t *o);
pdl_status_t pdl__onnx_gather(pdl__onnx_t *o);
pdl_status_t pdl__onnx_concat(pdl__onnx_t *o);
pdl_status_t pdl__onnx_concat_axis(const pdl__onnx_t *o, int rank, int *axis);
/* A learned vector per position, or per channel, added to or multiplied with an activation. */
pdl_status_t pdl__onnx_with_constant(pdl__onnx_t *o, pdl__onnx_value_t *x, pdl__onnx_value_t *constant, char sign);
pdl_status_t pdl__onnx_scores_product(pdl__onnx_t *o, pdl__onnx_value_t *q, pdl__onnx_value_t *k);
pdl_status_t pdl__onnx_attention_product(pdl__onnx_t *o, pdl__onnx_value_t *p, pdl__onnx_value_t *v);
/* Scores combined with one number; `first`: the number is the first operand. */
pdl_status_t pdl__onnx_scale_scores(pdl__onnx_t *o, pdl__onnx_value_t *scores, double number, bool first);
/* Scores combined with a tensor; `keeps`: Where takes the score where the mask is not zero. */
pdl_status_t pdl__onnx_mask(pdl__onnx_t *o, pdl__onnx_value_t *scores, pdl__onnx_value_t *mask, bool keeps);

pdl_status_t pdl__onnx_reshape(pdl__onnx_t *o);
pdl_status_t pdl__onnx_flatten(pdl__onnx_t *o);
pdl_status_t pdl__onnx_transpose(pdl__onnx_t *o);
pdl_status_t pdl__onnx_squeeze(pdl__onnx_t *o);
pdl_status_t pdl__onnx_unsqueeze(pdl__onnx_t *o);
pdl_status_t pdl__onnx_expand(pdl__onnx_t *o);
pdl_status_t pdl__onnx_slice(pdl__onnx_t *o);
pdl_status_t pdl__onnx_split(pdl__onnx_t *o);
pdl_status_t pdl__onnx_shape_of(pdl__onnx_t *o);

pdl_status_t pdl__onnx_fold_constant(pdl__onnx_t *o);
pdl_status_t pdl__onnx_fold_identity(pdl__onnx_t *o);
bool         pdl__onnx_integer_type(int64_t type); /* of tensors */
pdl_status_t pdl__onnx_cast_target(pdl__onnx_t *o, int64_t *type);
pdl_status_t pdl__onnx_fold_unary(pdl__onnx_t *o);
pdl_status_t pdl__onnx_fold_binary(pdl__onnx_t *o);
pdl_status_t pdl__onnx_fold_where(pdl__onnx_t *o);
pdl_status_t pdl__onnx_fold_gather(pdl__onnx_t *o);
pdl_status_t pdl__onnx_fold_concat(pdl__onnx_t *o);
pdl_status_t pdl__onnx_fold_range(pdl__onnx_t *o);
pdl_status_t pdl__onnx_fold_fill(pdl__onnx_t *o);
pdl_status_t pdl__onnx_fold_trilu(pdl__onnx_t *o);
pdl_status_t pdl__onnx_fold_reduce(pdl__onnx_t *o);
/* The elements of `from` whose index is origin + step * index, per dimension of `to` (equal ranks). */
pdl_status_t pdl__onnx_fold_pick(pdl__onnx_t *o, pdl__onnx_value_t *from, pdl__onnx_value_t *to, const int *order,
                                 const int64_t *origin, const int64_t *step);

#endif
