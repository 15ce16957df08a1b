/*
 * What a type of layer is like: one row per type, in src/model/traits.c. Rules of parallelism, memory, cost, fusion,
 * initial weights, readers and reports ask the row instead of listing types, so a new layer is a row here, a shape
 * where that is not the input's, a kernel per backend and a test case (docs/architecture.md, "What to touch for a new
 * layer").
 *
 *     if (pdl_layer_traits(layer)->loss) ...;                         // of a layer
 *     bool saved = pdl_type_traits(PDL_LAYER_GELU)->keeps_inputs;     // of a type
 *
 * A trait says what holds for the type whatever a backend does. What a backend can do is the backend's own affair: its
 * table of kernels says that.
 */
#ifndef PARADL_MODEL_TRAITS_H
#define PARADL_MODEL_TRAITS_H

#include <paradl/model/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the time goes into, and with it the formula of the cost model. */
typedef enum pdl_work {
    PDL_WORK_ELEMENTS, /* passes over memory */
    PDL_WORK_MATRIX,   /* one product each for the output and the two gradients */
    PDL_WORK_ATTENTION,
    PDL_WORK_EXPERTS
} pdl_work_t;

/* The main weight. F: output channels, C: input channels, K: window, V: vocabulary, T: tokens, E: experts, H: their
   hidden width. A bias or shift is [F]. */
typedef enum pdl_kernel {
    PDL_KERNEL_NONE,
    PDL_KERNEL_MATRIX,    /* [F][C / groups][K]; transposed: [C][F / groups][K] */
    PDL_KERNEL_SCALE,     /* [F], of a norm */
    PDL_KERNEL_TABLE,     /* [V][F] */
    PDL_KERNEL_POSITIONS, /* [T][F], and [F] for a class token */
    PDL_KERNEL_EXPERTS    /* router [E][C]; of every expert gate (where gated) and up [E][H][C], down [E][F][H] */
} pdl_kernel_t;

/* How outputs depend on positions: what a split of the positions over ranks means. */
typedef enum pdl_positions {
    PDL_POSITIONS_TOGETHER, /* no split */
    PDL_POSITIONS_ALONE,    /* every position by itself */
    PDL_POSITIONS_WINDOW,   /* a window of the input: a halo */
    PDL_POSITIONS_SUMMED,   /* all of them come to one: partial sums */
    PDL_POSITIONS_SCALED,   /* in proportion to the input's */
    PDL_POSITIONS_ROWS      /* the input's, row by row, in one sequence */
} pdl_positions_t;

/* How outputs depend on channels: what a split of the channels means. */
typedef enum pdl_channels {
    PDL_CHANNELS_TOGETHER, /* no split */
    PDL_CHANNELS_ALONE,    /* every channel by itself */
    PDL_CHANNELS_FOLDED,   /* every channel by itself, and becomes several */
    PDL_CHANNELS_FILTERS   /* a filter of the weight makes each; all input channels go into it */
} pdl_channels_t;

/* What else ranks can share out. */
typedef enum pdl_shared {
    PDL_SHARED_NOTHING,
    PDL_SHARED_HEADS,
    PDL_SHARED_VOCABULARY,
    PDL_SHARED_EXPERTS
} pdl_shared_t;

typedef enum pdl_combine { PDL_COMBINE_NONE, PDL_COMBINE_SUM, PDL_COMBINE_PRODUCT, PDL_COMBINE_JOIN } pdl_combine_t;

/* Layers that change no element. */
typedef enum pdl_view {
    PDL_VIEW_NONE,
    PDL_VIEW_SAME,  /* in the plain format the elements keep their order */
    PDL_VIEW_TURNED /* only where channels are innermost */
} pdl_view_t;

typedef enum pdl_loss { PDL_LOSS_NONE, PDL_LOSS_CLASSES, PDL_LOSS_VALUES } pdl_loss_t;

/* Initial values of the kernel, where the model does not choose; a bias follows the kernel's fan in, a shift is 0. */
typedef enum pdl_initial { PDL_INITIAL_FANS, PDL_INITIAL_ONE, PDL_INITIAL_NORMAL } pdl_initial_t;

/* Operations of a layer that is no product, per ... */
typedef enum pdl_flop_per {
    PDL_FLOP_PER_OUTPUT,
    PDL_FLOP_PER_INPUT,
    PDL_FLOP_PER_TAP,   /* element of the window, for every output */
    PDL_FLOP_PER_TERM,  /* input after the first, for every output */
    PDL_FLOP_PER_WEIGHT /* of an interpolation, for every output; none forward where there is none */
} pdl_flop_per_t;

typedef struct pdl_traits {
    const char *name;     /* in files */
    const char *original; /* in the published oracle, or NULL */

    /* what it is */
    bool          source; /* an input of the model: reads nothing */
    bool          tokens; /* reads indices, not numbers */
    bool          norm;
    bool          activation;   /* y = f(x), element by element */
    bool          window;       /* has kernel, stride and padding */
    bool          transposed;   /* its window is on the output */
    bool          pool;         /* a window without weights */
    bool          drops;        /* zeroes elements at random; with a rate of 0 it does nothing */
    bool          linear;       /* f(a + b) = f(a) + f(b), a bias or offset aside: partial sums may pass */
    bool          moves_zero;   /* of an activation, f(0) is not 0: fillings of a format would not stay 0 */
    bool          not_negative; /* no output is */
    bool          functional;   /* arithmetic inside a module of PyTorch, not a module of its own */
    pdl_combine_t combine;      /* two or more inputs; else one */
    pdl_view_t    view;
    pdl_loss_t    loss;
    const char   *main_attribute; /* that `type: value` sets, where one is what people mean */
    double        epsilon, rate;  /* where a file says nothing */

    /* weights */
    pdl_kernel_t  kernel;
    bool          bias;       /* may have one; a shift, of a norm */
    bool          statistics; /* of the batch, and running ones for evaluation */
    pdl_initial_t initial;
    double        initial_std; /* PDL_INITIAL_NORMAL */

    /* parallelism */
    pdl_positions_t positions;
    pdl_channels_t  channels;
    pdl_shared_t    shared;

    /* what backward reads again */
    bool keeps_inputs, keeps_output;

    /* what is computed together: head, then a sum, then an activation */
    bool fuses_head, fuses_tail;

    /* work */
    pdl_work_t work;
    struct {
        double forward_y, backward_y, forward_x, backward_x; /* in units of output and input */
    } passes;                                                /* over memory, of PDL_WORK_ELEMENTS */
    struct {
        pdl_flop_per_t per;
        int            forward, data, weight;
    } flop; /* of PDL_WORK_ELEMENTS */
} pdl_traits_t;

const pdl_traits_t *pdl_type_traits(pdl_layer_type_t type);
const pdl_traits_t *pdl_layer_traits(const pdl_layer_t *layer);

/* A matrix whose window slides over the input: neither linear nor transposed. */
/* Elements of a value of one head of attention. */
static inline int64_t pdl_attention_value_dim(const pdl_layer_t *layer)
{
    return layer->value_dim > 0 ? layer->value_dim : layer->head_dim;
}

bool pdl_layer_is_convolution(const pdl_layer_t *layer);
/* A matrix without a window. */
bool pdl_layer_is_linear(const pdl_layer_t *layer);
/* Whether backward reads its inputs again. Those of a product are read for the gradient of its weights alone. */
bool pdl_layer_keeps_inputs(const pdl_layer_t *layer);
/* Dropout of nothing. */
bool pdl_layer_is_identity(const pdl_layer_t *layer);

#ifdef __cplusplus
}
#endif
#endif
