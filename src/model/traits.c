/*
 * The table of layer types. A row says only what is not zero or false; families of rows share macros.
 */
#include <paradl/model/traits.h>

#define FLOP_PER(what, y, dx, dw) .flop = {PDL_FLOP_PER_##what, y, dx, dw}

/* Kernels of matrices; backward reads the input again. */
#define MATRIX                                                                                         \
    .kernel = PDL_KERNEL_MATRIX, .bias = true, .channels = PDL_CHANNELS_FILTERS, .keeps_inputs = true, \
    .work = PDL_WORK_MATRIX, .linear = true

/* A scale and a shift. Statistics first, then the values: two reads and a write; backward three reads of x and dy and
   a write. A row of channels fits the registers: one read and one write. */
#define NORM      .norm = true, .kernel = PDL_KERNEL_SCALE, .initial = PDL_INITIAL_ONE, .keeps_inputs = true
#define TWO_READS .passes = {.forward_y = 3, .backward_y = 5}
#define ONE_READ  .passes = {.forward_y = 2, .backward_y = 4}

#define ALONE        .positions = PDL_POSITIONS_ALONE, .channels = PDL_CHANNELS_ALONE
#define ELEMENT_WISE ALONE, FLOP_PER(OUTPUT, 1, 1, 0), .passes = {.forward_y = 2, .backward_y = 3}

/* Those with parameters of their own are not computed along with another layer. */
#define ACTIVATION ELEMENT_WISE, .activation = true

#define POOL                                                \
    .channels = PDL_CHANNELS_ALONE, FLOP_PER(TAP, 1, 1, 0), \
    .passes = {.forward_y = 1, .backward_y = 1, .forward_x = 1, .backward_x = 2}

#define LOSS .positions = PDL_POSITIONS_SUMMED, .keeps_inputs = true, .passes = {.forward_x = 2, .backward_x = 2}

static const pdl_traits_t traits[PDL_LAYER_TYPE_COUNT] = {
    [PDL_LAYER_INPUT] = {.name = "input", .source = true},
    [PDL_LAYER_CONV] = {.name = "conv",
                        .original = "CONV",
                        MATRIX,
                        .window = true,
                        .positions = PDL_POSITIONS_WINDOW,
                        .fuses_head = true},
    [PDL_LAYER_CONV_TRANSPOSE] =
        {.name = "conv_transpose", .original = "CONV", MATRIX, .window = true, .transposed = true},
    [PDL_LAYER_LINEAR] = {.name = "linear",
                          .original = "FC",
                          MATRIX,
                          .main_attribute = "out",
                          .positions = PDL_POSITIONS_ALONE,
                          .fuses_head = true},
    [PDL_LAYER_BATCH_NORM] = {.name = "batch_norm",
                              .original = "BNORM",
                              NORM,
                              ALONE,
                              TWO_READS,
                              .bias = true,
                              .statistics = true,
                              .fuses_head = true,
                              .epsilon = 1e-5,
                              FLOP_PER(INPUT, 4, 4, 4)},
    [PDL_LAYER_LAYER_NORM] = {.name = "layer_norm",
                              NORM,
                              ONE_READ,
                              .bias = true,
                              .positions = PDL_POSITIONS_ALONE,
                              .epsilon = 1e-5,
                              FLOP_PER(INPUT, 4, 4, 4)},
    [PDL_LAYER_RMS_NORM] = {.name = "rms_norm",
                            NORM,
                            ONE_READ,
                            .positions = PDL_POSITIONS_ALONE,
                            .epsilon = 1e-6,
                            FLOP_PER(INPUT, 4, 4, 4)},
    [PDL_LAYER_GROUP_NORM] =
        {.name = "group_norm", NORM, TWO_READS, .bias = true, .epsilon = 1e-5, FLOP_PER(INPUT, 4, 4, 4)},
    [PDL_LAYER_LOCAL_RESPONSE_NORM] =
        {.name = "local_response_norm", TWO_READS, .norm = true, .keeps_inputs = true, FLOP_PER(INPUT, 4, 4, 0)},
    [PDL_LAYER_RELU] = {.name = "relu",
                        .original = "RELU",
                        ACTIVATION,
                        .keeps_output = true,
                        .fuses_tail = true,
                        .not_negative = true},
    [PDL_LAYER_LEAKY_RELU] =
        {.name = "leaky_relu", .original = "RELU", ACTIVATION, .keeps_output = true, .main_attribute = "slope"},
    [PDL_LAYER_GELU] = {.name = "gelu", ACTIVATION, .keeps_inputs = true, .fuses_tail = true},
    [PDL_LAYER_GELU_TANH] = {.name = "gelu_tanh", ACTIVATION, .keeps_inputs = true, .fuses_tail = true},
    [PDL_LAYER_SILU] = {.name = "silu", ACTIVATION, .keeps_inputs = true, .fuses_tail = true},
    [PDL_LAYER_HARD_SWISH] = {.name = "hard_swish", ACTIVATION, .keeps_inputs = true, .fuses_tail = true},
    [PDL_LAYER_TANH] = {.name = "tanh", ACTIVATION, .keeps_output = true, .fuses_tail = true},
    [PDL_LAYER_SIGMOID] = {.name = "sigmoid",
                           ACTIVATION,
                           .keeps_output = true,
                           .fuses_tail = true,
                           .moves_zero = true,
                           .not_negative = true},
    [PDL_LAYER_SOFTMAX] = {.name = "softmax",
                           .keeps_output = true,
                           .not_negative = true,
                           .passes = {.forward_x = 2, .backward_x = 2},
                           FLOP_PER(INPUT, 4, 4, 0)},
    [PDL_LAYER_MAX_POOL] = {.name = "max_pool",
                            .original = "MPOOL",
                            POOL,
                            .pool = true,
                            .window = true,
                            .positions = PDL_POSITIONS_WINDOW,
                            .main_attribute = "kernel",
                            .keeps_inputs = true},
    [PDL_LAYER_AVG_POOL] = {.name = "avg_pool",
                            .original = "APOOL",
                            POOL,
                            .pool = true,
                            .window = true,
                            .positions = PDL_POSITIONS_WINDOW,
                            .main_attribute = "kernel",
                            .linear = true},
    [PDL_LAYER_GLOBAL_AVG_POOL] =
        {.name = "global_avg_pool", .original = "APOOL", POOL, .positions = PDL_POSITIONS_SUMMED, .linear = true},
    [PDL_LAYER_ADD] = {.name = "add",
                       .original = "ADD",
                       ALONE,
                       .combine = PDL_COMBINE_SUM,
                       .functional = true,
                       .linear = true,
                       .fuses_tail = true,
                       .passes = {.forward_y = 3, .backward_y = 2},
                       FLOP_PER(TERM, 1, 1, 0)},
    [PDL_LAYER_MUL] = {.name = "mul",
                       ALONE,
                       .combine = PDL_COMBINE_PRODUCT,
                       .functional = true,
                       .keeps_inputs = true,
                       .passes = {.forward_y = 3, .backward_y = 2},
                       FLOP_PER(TERM, 1, 2, 0)},
    [PDL_LAYER_CONCAT] = {.name = "concat",
                          .combine = PDL_COMBINE_JOIN,
                          .functional = true,
                          .linear = true,
                          .positions = PDL_POSITIONS_ALONE,
                          .passes = {.forward_y = 3, .backward_y = 2}},
    [PDL_LAYER_UPSAMPLE] = {.name = "upsample",
                            .linear = true,
                            .main_attribute = "factor",
                            .positions = PDL_POSITIONS_SCALED,
                            .channels = PDL_CHANNELS_ALONE,
                            .passes = {.forward_y = 1, .backward_y = 1, .forward_x = 1, .backward_x = 2},
                            FLOP_PER(WEIGHT, 1, 1, 0)},
    [PDL_LAYER_DROPOUT] = {.name = "dropout",
                           .original = "DROPOUT",
                           ELEMENT_WISE,
                           .drops = true,
                           .linear = true,
                           .main_attribute = "rate",
                           .rate = 0.5},
    [PDL_LAYER_FLATTEN] = {.name = "flatten",
                           .view = PDL_VIEW_SAME,
                           .functional = true,
                           .linear = true,
                           .channels = PDL_CHANNELS_FOLDED},
    [PDL_LAYER_TO_SEQUENCE] = {.name = "to_sequence",
                               .view = PDL_VIEW_TURNED,
                               .functional = true,
                               .linear = true,
                               .positions = PDL_POSITIONS_ROWS,
                               .channels = PDL_CHANNELS_ALONE},
    [PDL_LAYER_SELECT] = {.name = "select",
                          .functional = true,
                          .linear = true,
                          .main_attribute = "index",
                          .channels = PDL_CHANNELS_ALONE},
    [PDL_LAYER_EMBEDDING] = {.name = "embedding",
                             .tokens = true,
                             .main_attribute = "out",
                             .kernel = PDL_KERNEL_TABLE,
                             .initial = PDL_INITIAL_NORMAL,
                             .initial_std = 1, /* as PyTorch draws */
                             .positions = PDL_POSITIONS_ALONE,
                             .channels = PDL_CHANNELS_FILTERS,
                             .shared = PDL_SHARED_VOCABULARY,
                             .passes = {.forward_y = 2, .backward_y = 2},
                             FLOP_PER(OUTPUT, 0, 0, 1)},
    [PDL_LAYER_POSITION] = {.name = "position",
                            ALONE,
                            .functional = true,
                            .linear = true,
                            .kernel = PDL_KERNEL_POSITIONS,
                            .initial = PDL_INITIAL_NORMAL,
                            .initial_std = 0.02, /* as the networks that use them draw; PyTorch has no such layer */
                            .passes = {.forward_y = 2, .backward_y = 3},
                            FLOP_PER(OUTPUT, 1, 0, 1)},
    [PDL_LAYER_ATTENTION] = {.name = "attention",
                             .functional = true,
                             .shared = PDL_SHARED_HEADS,
                             .keeps_inputs = true,
                             .keeps_output = true,
                             .work = PDL_WORK_ATTENTION},
    [PDL_LAYER_MOE] = {.name = "moe",
                       .kernel = PDL_KERNEL_EXPERTS,
                       .positions = PDL_POSITIONS_ALONE,
                       .shared = PDL_SHARED_EXPERTS,
                       .keeps_inputs = true,
                       .work = PDL_WORK_EXPERTS},
    [PDL_LAYER_CROSS_ENTROPY] = {.name = "cross_entropy",
                                 LOSS,
                                 .loss = PDL_LOSS_CLASSES,
                                 .shared = PDL_SHARED_VOCABULARY,
                                 FLOP_PER(INPUT, 4, 4, 0)},
    [PDL_LAYER_MSE] = {.name = "mse", LOSS, .loss = PDL_LOSS_VALUES, FLOP_PER(INPUT, 3, 3, 0)},
};

const pdl_traits_t *pdl_type_traits(pdl_layer_type_t type)
{
    return &traits[type];
}

const pdl_traits_t *pdl_layer_traits(const pdl_layer_t *layer)
{
    return &traits[layer->type];
}

const char *pdl_layer_type_name(pdl_layer_type_t type)
{
    return type >= 0 && type < PDL_LAYER_TYPE_COUNT ? traits[type].name : "unknown";
}

bool pdl_layer_is_convolution(const pdl_layer_t *layer)
{
    const pdl_traits_t *t = pdl_layer_traits(layer);

    return t->kernel == PDL_KERNEL_MATRIX && t->window && !t->transposed;
}

bool pdl_layer_is_linear(const pdl_layer_t *layer)
{
    const pdl_traits_t *t = pdl_layer_traits(layer);

    return t->kernel == PDL_KERNEL_MATRIX && !t->window;
}

bool pdl_layer_keeps_inputs(const pdl_layer_t *layer)
{
    const pdl_traits_t *t = pdl_layer_traits(layer);
    bool                product = t->kernel == PDL_KERNEL_MATRIX || t->kernel == PDL_KERNEL_TABLE;

    return t->keeps_inputs && !(layer->frozen && (product || !layer->needs_input_gradient));
}

bool pdl_layer_is_identity(const pdl_layer_t *layer)
{
    return pdl_layer_traits(layer)->drops && layer->rate == 0;
}
