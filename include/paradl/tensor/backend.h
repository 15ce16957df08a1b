/*
 * A backend computes layers: it is a table of operations, and nothing above it knows which one it has. There is the
 * CPU backend (oneDNN and own kernels, fp32 and bf16), that of NVIDIA GPUs (cuDNN, cuBLASLt and own kernels), a slow,
 * obvious reference in double precision that the tests compare with, and a generic one that describes ops and computes none.
 *
 * A layer becomes an *op*: made once for given local shapes, after which it runs without allocating anything. Which
 * formats its tensors have and how much memory it wants is in its description, which is to be had without the op;
 * where that memory is, is the caller's business:
 *
 *     pdl_op_t *op;
 *     backend->ops->op_create(backend, &spec, &op);
 *     ... place op->description.out_bytes, .saved_bytes, .workspace_bytes, and the weights somewhere ...
 *     backend->ops->forward(op, stream, &run);
 *     backend->ops->backward(op, stream, &run, PDL_BACKWARD_DATA | PDL_BACKWARD_WEIGHT);
 *
 * Formats of tensors. PLAIN: images and volumes [n][c][s0][s1][s2], sequences [n][t][c], vectors [n][c]. BLOCKED: the
 * backend's own arrangement, kept from layer to layer (CPU: [n][c/B][space][B], channels padded with zeros to
 * a multiple of B). Sequences, vectors and token indices are always PLAIN. The gradient of a tensor has the format of the tensor.
 *
 * Elements are of the backend's type (`activation_type`); token indices and class labels are int32_t.
 */
#ifndef PARADL_BACKEND_H
#define PARADL_BACKEND_H

#include <paradl/base/status.h>
#include <paradl/model/model.h>
#include <paradl/tensor/device.h>
#include <paradl/tensor/image.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How an image or a volume is in memory. */
typedef enum pdl_format {
    PDL_FORMAT_PLAIN,   /* [n][c][space] */
    PDL_FORMAT_BLOCKED, /* see pdl_backend_block() */
    PDL_FORMAT_FOLDED /* [n][s0 / 2][s1 / 2][2][2][4]: an image of at most 4 channels with even extents, for reading only */
} pdl_format_t;

typedef struct pdl_backend pdl_backend_t;

/* Where this rank's piece is in the whole output tensor: dropout draws at global indices, so that every strategy
   drops the same elements. All of it is always filled in: where nothing is split, `whole` is the layer's output.

   Dropout: the element of sample n (global: first_sample + local), channel c and position p (both global; p counts
   row-major in the whole extents) has the index that it has in the whole plain tensor of the global batch,
       images, volumes, vectors  (n * whole channels + c) * whole positions + p
       sequences                 (n * whole positions + p) * whole channels + c
   u = pdl_random_fill(run->seed, pdl_random_stream("dropout", spec.id, run->step), index): the element is dropped when
   u < (float)rate, otherwise divided by 1 - rate. Attention drops probabilities likewise, from the stream
   "attention", at index ((n * H + h) * T + query) * T + key with T = whole.extent[0], H = whole.channels / head_dim
   and h = origin.channel / head_dim + local head. Dropped probabilities are not made up for by the others. */
typedef struct pdl_origin {
    pdl_shape_t whole;
    int64_t     channel, space[PDL_MAX_SPACE];
} pdl_origin_t;

/* What layers compute is what PyTorch computes, where it has them. Besides:
   - Weights come in the order named here. conv: weight [F][C/g][k..], bias [F]. conv_transpose: weight [C][F/g][k..],
     bias [F]. linear: weight [F][C], bias. Norms: weight [C], bias [C] (if any; RMS norm has none); batch norm then
     running_mean, running_var. embedding: weight [V][C]. position: weight [tokens out][C], with a class token then
     class_token [C], which becomes token 0 before the weight is added. moe: router [E][C], gate [E][H][C] if gated,
     up [E][H][C], down [E][F][H].
   - Batch norm: running_var takes the unbiased variance (of one value: the value itself).
   - Layer, RMS norm and softmax work on the channels of each position; group norm on positions and channels of a group.
   - Average pooling divides by the whole window when count_padding, otherwise by its elements inside the input. Max
     pooling hands the gradient to the first of equal maxima, in row-major order. A window wholly in the
     padding gives 0.
   - Upsample: nearest takes floor(i * in / out) in integers; bilinear (any rank) does not align corners.
   - flatten puts channels outermost, of sequences too. mul: a factor of one position scales whole channels.
   - attention: channels are all of q, then k, then v, head by head; query head h reads key/value head
     h / (heads / kv_heads); scores are divided by sqrt(head_dim). Rotary: with half = head_dim / 2, elements i and i + half
     of q and k are turned by the angle position * 10000^(-i / half): (a, b) -> (a cos - b sin, b cos + a sin).
   - moe: per token, the top_k experts with the largest router logits (of equal ones the first), weighted by the softmax
     over the chosen logits. An expert is down(silu(gate x) * (up x)) when gated, else down(gelu(up x)).
   - GELU is the exact one (erf); GELU_TANH is x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2. Cross-entropy counts the first of equal maxima as the prediction; smoothing as in
     PyTorch. A sample with no class left has loss 0. MSE is the mean over all elements of the sample. */

/* What is computed together with a layer, in this order: layer, + a second tensor, activation. */
typedef struct pdl_fusion {
    bool             add;        /* the tensor added is the op's last input */
    pdl_layer_type_t activation; /* or PDL_NO_ACTIVATION */
} pdl_fusion_t;
#define PDL_NO_ACTIVATION PDL_LAYER_INPUT

struct pdl_op_description;

typedef struct pdl_op_spec {
    const pdl_layer_t  *layer;  /* with the local shapes in `in` and `out`; borrowed until the op is destroyed */
    const pdl_shape_t  *inputs; /* local shape of every input; the added one included */
    const pdl_format_t *given;  /* their format now; the op may ask for another */
    int                 input_count;
    int64_t             samples; /* of one micro-batch, on this rank */
    pdl_fusion_t        fusion;
    bool                training;       /* otherwise only forward will run, with running statistics */
    bool                input_gradient; /* backward to the inputs is wanted */
    bool                accumulates;    /* weight gradients may be added to what is there (run.accumulate) */
    /* A loss: forward in training may make the gradient of its input (run.input_gradient[0]), and backward is not called. */
    bool         gradient_in_forward;
    bool         plain_weights; /* its weight is stored plain: another op uses it too, or ranks with other shapes */
    uint64_t     id;            /* of the layer in the model: makes its random streams distinct */
    pdl_origin_t origin;
    double       share;  /* global pooling: the positions of this rank over all; 0 stands for 1. The output, and
                                  with it the gradient, is multiplied by it: a partial sum */
    bool         shared; /* batch norm: statistics are those of several ranks, which meet while training */
    /* Embedding and cross-entropy of which this rank has a part of the vocabulary: `layer` has that part only.
       An embedding gives zeros for tokens of others, a partial sum. Ranks of a cross-entropy meet and come to the same
       results. */
    int64_t first_class; /* of this rank: row of the table, channel of the logits */
    int64_t classes;     /* all of them; 0: not split */
    /* A mixture whose experts are on several ranks: `layer` has those of this rank only, the router all of them.
       Tokens are shared out; those of other ranks come to be answered here and go back. The router's
       gradient is that of the own tokens. */
    const int64_t *expert_first; /* [expert_ranks + 1]: where those of every rank begin; NULL: all are here */
    int            expert_rank, expert_ranks;
    int64_t        expert_rows; /* tokens of all these ranks */
    /* Generation: the op computes new tokens (in.extent[0] of every sample) that follow earlier ones, in sequences of at most
       `context` tokens; see `past` in pdl_op_run_t. 0: whole sequences. Of use to attention, which has to be causal, and to
       position, whose weight is [context][C] then. Not for training. */
    int64_t context;
    /* Convolutions: what an op of the same layer for other extents is, or NULL. Input, output and weights are to have
       its formats. */
    const struct pdl_op_description *like;
} pdl_op_spec_t;

/* One weight or persistent statistic of an op. Masters and gradients are float (the reference: double), in an order that only the
   backend knows; weight_import and weight_export translate from and to the plain order of PyTorch. Padding in the
   storage is zero in weights and gradients. */
typedef struct pdl_weight {
    const char *name; /* weight, bias, running_mean, running_var; experts: router, gate, up, down */
    int         rank;
    int64_t     dims[5];  /* plain; convolution [F][C/g][k..], linear [F][C], embedding [V][C] */
    int64_t     elements; /* of the storage, padding included */
    bool        trainable;
    bool   copied;    /* packed memory has a copy of the storage, in the activation type: an update may write it, */
    size_t copied_at; /* at this place in bytes, and `refresh` need not */
} pdl_weight_t;
#define PDL_MAX_WEIGHTS 6

/* How backward treats the gradient of an input. */
typedef enum pdl_gradient_use {
    PDL_GRADIENT_OWN,    /* written to a buffer of its own */
    PDL_GRADIENT_PASSED, /* is the gradient of the output itself: nothing is written (add) */
    PDL_GRADIENT_INPLACE /* may be written over the gradient of the output */
} pdl_gradient_use_t;
#define PDL_MAX_INPUTS 8

/* An op that needs other ranks runs in phases: forward or backward is called with run.phase 0, 1, ..., and between two
   phases stands a meeting, a collective that the caller performs on memory of the op. In a workspace that all phases of a run
   share: SUM and MAX take `count` doubles, of which the last `smoothed` are of use with label smoothing only. ROUTE takes
   bytes from every rank to every other, in the order of the ranks, those for this rank itself too; how many they are is
   found in two arrays of int64_t, one number of every rank. */
typedef enum pdl_meeting_kind { PDL_MEETING_SUM, PDL_MEETING_MAX, PDL_MEETING_ROUTE } pdl_meeting_kind_t;
typedef struct pdl_meeting {
    pdl_meeting_kind_t kind;
    size_t             at; /* of the numbers, or of what is sent */
    int64_t            count, smoothed;
    size_t             to, from;   /* ROUTE: of the bytes that are sent and received, */
    size_t             receive;    /* and of the place where they arrive, */
    bool               into_saved; /* which is in saved memory instead */
} pdl_meeting_t;
#define PDL_MAX_MEETINGS 3

/* What an op is before any kernel is prepared: from shapes, formats and the precision alone. */
typedef struct pdl_op_description {
    pdl_format_t in_format[PDL_MAX_INPUTS], out_format;
    size_t       out_bytes;
    size_t       saved_bytes;     /* from forward to backward, besides inputs and output: masks, statistics */
    size_t       workspace_bytes; /* scratch while forward or backward runs; content is lost between */
    size_t       packed_bytes;    /* persistent copies of the weights made by `refresh` (bf16); else 0 */
    size_t       cache_bytes;     /* attention with a context: run.cache; else 0 */
    unsigned     keeps_inputs;    /* bit per input that backward reads again */
    bool         keeps_output;    /* backward reads the output again */
    bool         from_saved;      /* forward can be repeated from inputs and what it has saved: run.from_saved */
    bool
        gradient_in_forward; /* where the spec allows it: forward with run.input_gradient[0] writes that, which may be
                                 input 0 itself; backward is not called, and nothing is kept for it */
    bool               inplace;        /* the output may be written over input 0 when nobody else wants that */
    bool               sums_gradients; /* backward takes two gradients of the output and adds them itself */
    bool               adds_gradient;  /* backward adds a gradient that others have made of input 0 to its own */
    bool               divides;        /* dgrad and wgrad are kernels of their own and lose little by being apart */
    pdl_gradient_use_t gradient_use[PDL_MAX_INPUTS];
    int                weight_count;
    pdl_weight_t       weight[PDL_MAX_WEIGHTS];
    int                meetings[2]; /* forward and backward: 0 for most */
    pdl_meeting_t      meeting[2][PDL_MAX_MEETINGS];
    double             flop[3]; /* forward, dgrad, wgrad; of all samples; 0 where it will not run */
    int                kernel;  /* which of the backend's ways of computing the layer: its own numbers */
} pdl_op_description_t;

typedef struct pdl_op {
    pdl_backend_t       *backend;
    pdl_op_spec_t        spec; /* the pointers inside it need not outlive op_create, but for `layer` */
    pdl_op_description_t description;
    void                *private_data;
} pdl_op_t;

/* The buffers of one run. Those that forward does not need may be NULL in forward, and the other way round. */
/* What differs from step to step, in memory of the device: work of a stream may be kept and done again (device.h), and numbers
   that were given with a call would stay what they were. */
typedef struct pdl_step_numbers {
    double   lr, correction1, correction2; /* of pdl_update_t */
    uint64_t step;                         /* of random numbers */
} pdl_step_numbers_t;

typedef struct pdl_op_run {
    const void *input[PDL_MAX_INPUTS];
    void       *output;
    void       *saved, *workspace, *packed;
    void       *weight[PDL_MAX_WEIGHTS];
    void       *weight_gradient[PDL_MAX_WEIGHTS]; /* NULL entries: not wanted */
    bool        accumulate;                       /* add to the weight gradients instead of writing them */
    const void *output_gradient[2];               /* the second is NULL unless the op sums_gradients, */
    const void *added_gradient; /* and this unless it adds_gradient: of input 0, added to its gradient */
    void       *input_gradient[PDL_MAX_INPUTS]; /* NULL entries: not wanted; written, never added to */
    bool        training;                       /* dropout and batch statistics are active */
    bool        again;                          /* forward is repeated for backward: running statistics stay */
    bool        from_saved;                     /* repeated so: `saved` is read, and no ranks meet */
    int         phase;                          /* of an op whose ranks meet; else 0 */
    /* Ops with a context. past: int32_t [samples], of the device, read when the op runs: token t of sample n of this run is at
       position past[n] + t of its sequence, 0 <= past[n] <= context. Samples need not be equally long: the caller goes on from
       what counts, and tokens beyond that are overwritten by the next run. A token at position `context` or later is not stored,
       and its output has no meaning (but is finite).
       cache: cache_bytes of the device, kept from run to run. Attention writes keys and values of the new tokens to it, then query t
       reads positions 0 .. past[n] + t. Layout and type are the backend's own and follow from layer, samples and context alone: ops of
       one layer for other numbers of new tokens go on with the same memory. (CPU and reference: keys, then values, each
       [samples][context][kv_heads][head_dim] in float or double, keys turned by their rotary angles.) */
    const int32_t            *past;
    void                     *cache;
    uint64_t                  seed, step;    /* of random numbers */
    const pdl_step_numbers_t *numbers;       /* NULL, or where `step` is on the device */
    int64_t                   first_sample;  /* index in the global batch of this rank's first sample */
    int64_t                   total_samples; /* batch norm: over the ranks that share statistics */
    int64_t total_values; /* of one channel over these ranks; 0: total_samples times the positions */
    /* Loss layers. Their output is float[3][samples] (reference: double): the loss of each sample (mean over its
       positions), the share of its positions predicted right (MSE: 0), and the probability given to the right
       class (mean over positions; MSE: 0). Their input gradient is that of sum over samples of scale * sample_weight * loss. */
    const void  *target; /* int32_t [n][positions]; MSE: elements of the activation type as the prediction, plain.
                                  A class below 0 is left out of loss and mean */
    const float *sample_weight; /* [samples]; NULL: all 1 */
    double       loss_scale;    /* usually 1 / samples of the global batch */
    double       label_smoothing;
} pdl_op_run_t;

#define PDL_BACKWARD_DATA   1u
#define PDL_BACKWARD_WEIGHT 2u
#define PDL_BACKWARD_AGAIN  4u /* after another call for the same run, which has left the workspace as it is */

/* One step of an optimizer; which of the state arrays are used depends on the kind. */
typedef enum pdl_update_kind {
    PDL_UPDATE_SGD,      /* w -= lr (g + decay w) */
    PDL_UPDATE_MOMENTUM, /* m = momentum m + g + decay w; w -= lr m */
    PDL_UPDATE_NESTEROV, /* m = momentum m + d, d = g + decay w; w -= lr (d + momentum m) */
    PDL_UPDATE_ADAMW,    /* decoupled: w -= lr decay w, then the Adam step with bias correction */
    PDL_UPDATE_LAMB_STATE /* only m and v change; the sum of squares of the direction, Adam's + decay w, goes to `sums` */
    ,
    PDL_UPDATE_LAMB_APPLY /* w -= lr |w| / |direction| (direction + decay w) */
} pdl_update_kind_t;
typedef struct pdl_update {
    pdl_update_kind_t kind;
    double            lr, momentum, beta1, beta2, epsilon, decay;
    double            correction1, correction2; /* 1 - beta^t */
    double            trust; /* LARS, else 0: gradients and decay are multiplied by the local rate
                                lr trust |w| / (|g| + decay |w|), and then lr is 1 */
    /* Of the device. *scale (NULL: 1) multiplies gradients first (clipping); where it is not finite nothing is written. */
    const double *scale;
    double *sums; /* LARS, LAMB: of squares of every range, [2][ranges]: of weights, and of gradients or directions.
                           A range without decay, or with a norm of 0, has a local rate of lr */
    void   *weights, *moment[2];
    const void               *gradients;
    void                     *packed;  /* copies of weights in the activation type, or NULL */
    const pdl_step_numbers_t *numbers; /* NULL, or where lr and corrections are on the device */
    int64_t
        *not_finite; /* NULL, or becomes 1 when a weight or second moment that was written is not finite, else it
                                 stays. (A first moment that is not finite makes its weight the same.) */
} pdl_update_t;

/* Elements of these arrays that are treated alike. */
typedef struct pdl_update_range {
    int64_t elements;
    int64_t weights, gradients, state; /* where they begin */
    int64_t packed;                    /* of the copy; -1: there is none */
    bool    decays;                    /* weight decay and layer-wise rates apply */
} pdl_update_range_t;

typedef struct pdl_slice {
    int64_t at, elements; /* of an array */
} pdl_slice_t;

typedef struct pdl_backend_ops {
    const char *name;
    /* Whether this layer with these attachments is one op. */
    bool (*fuses)(pdl_backend_t *backend, const pdl_layer_t *layer, const pdl_fusion_t *fusion);
    size_t (*tensor_bytes)(pdl_backend_t *backend, const pdl_shape_t *shape, int64_t samples, pdl_format_t format);
    /* What the op will be: takes no memory that outlives the call and prepares no kernel. The same spec is always
       described alike, and op_create makes what op_describe says. `spec->like` may be NULL or a description. */
    pdl_status_t (*op_describe)(pdl_backend_t *backend, const pdl_op_spec_t *spec,
                                pdl_op_description_t *description);
    pdl_status_t (*op_create)(pdl_backend_t *backend, const pdl_op_spec_t *spec, pdl_op_t **op);
    void (*op_destroy)(pdl_op_t *op); /* NULL is allowed */
    /* What follows is work of a stream (NULL: done when it returns) on memory of the device, except that plain floats
       may be the host's. Numbers for the host are written to the device too, and come home by a copy. */
    pdl_status_t (*forward)(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run);
    pdl_status_t (*backward)(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run, unsigned what);
    /* Makes the packed copies again after the weights have changed. Ops with packed_bytes 0 need none. */
    pdl_status_t (*refresh)(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run);
    /* One activation tensor from one format to another. */
    pdl_status_t (*convert)(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_shape_t *shape,
                            int64_t samples, pdl_format_t from, const void *source, pdl_format_t to, void *target);
    /* Plain float values to and from the activation type. */
    pdl_status_t (*from_float)(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const float *source,
                               int64_t count, void *target);
    pdl_status_t (*to_float)(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *source, int64_t count,
                             float *target);
    /* Images of bytes, [n][c][positions] with values byte / 255, each with changes of its own, as a tensor of activations in
       a format: plain, or any where the backend loads formats. Bytes and changes are the device's; `scale` is the host's, and
       read before the call returns. */
    pdl_status_t (*load_images)(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_shape_t *shape,
                                int64_t samples, const uint8_t *bytes, const pdl_image_change_t *changes,
                                const pdl_image_scale_t *scale, pdl_format_t format, void *target);
    /* Likewise plain float values, of the device. */
    pdl_status_t (*load_values)(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_shape_t *shape,
                                int64_t samples, const float *values, pdl_format_t format, void *target);
    /* Vectors of activations, bytes a multiple of the element size: sum = a + b; `sum` may be a. */
    pdl_status_t (*add)(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *a, const void *b,
                        size_t bytes, void *sum);
    /* Of every row of `count` activations, at `stride` from each other: the first of its largest. A NaN in front of all stays. `index` is
       the device's, or pinned. NULL where the host is as fast. */
    pdl_status_t (*largest)(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *values, int64_t rows,
                            int64_t count, int64_t stride, int32_t *index);
    /* *index: the first element that is not finite, or -1. */
    pdl_status_t (*find_not_finite)(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *data,
                                    size_t bytes, int64_t *index);
    /* *flag becomes 1 when one of `count` results of a loss (weight_type) is not finite and its weight (NULL: 1) is not 0;
       else it stays as it was. */
    pdl_status_t (*check_results)(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *results,
                                  const float *sample_weight, int64_t count, int64_t *flag);
    /* Which kernels were found fastest by timing, as text, to be freed; and takes over what another rank found, so that all have
       the same bits. NULL where nothing is timed. */
    pdl_status_t (*choices)(pdl_backend_t *backend, char **text);
    pdl_status_t (*learn)(pdl_backend_t *backend, const char *text);
    /* Weights, gradients and optimizer state. Slices and ranges are the host's, and read before the call returns. */
    pdl_status_t (*sum_squares)(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *values,
                                const pdl_slice_t *slices, int count, double *sums);
    /* What multiplies gradients: clip[0] = norm = sqrt(sum of `count` sums), clip[1] = min(1, allowed / (norm + 1e-6)), or
       1 where `allowed` is 0; NAN where the norm is not finite or *flag (NULL: 0) is not 0. */
    pdl_status_t (*clip)(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const double *sums, int count,
                         double allowed, const int64_t *flag, double clip[2]);
    pdl_status_t (*update)(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_update_t *update,
                           const pdl_update_range_t *ranges, int count);
    /* ema = keep ema + (1-keep) w */
    pdl_status_t (*average)(pdl_backend_t *backend, pdl_tensor_stream_t *stream, double keep, int64_t count,
                            void *ema, const void *w);
    /* Plain float order of PyTorch in host memory from and to the storage of weight k (also of its gradient or moments),
       which is the device's. At once: no stream uses it. */
    pdl_status_t (*weight_import)(pdl_op_t *op, int k, const float *plain, void *storage);
    pdl_status_t (*weight_export)(pdl_op_t *op, int k, const void *storage, float *plain);
    void (*destroy)(pdl_backend_t *backend);
} pdl_backend_ops_t;

struct pdl_backend {
    const pdl_backend_ops_t *ops;
    pdl_tensor_device_t     *device;          /* where its memory is */
    pdl_dtype_t              activation_type; /* of activations and their gradients */
    pdl_dtype_t              weight_type;     /* of masters, gradients, moments: F32, the reference F64 */
    int                      threads;
    int64_t                  block; /* of BLOCKED tensors, see pdl_backend_block(); 1: there is no such format */
    bool                     loads_formats; /* samples are loaded in any format; else plain */
};

/* Channels that are together at every position of a BLOCKED tensor, as the innermost dimension:
   [n][c/block][space][block]. GPUs have all channels of a tensor in one block. */
int64_t pdl_backend_block(const pdl_backend_t *backend, int64_t channels);

typedef struct pdl_cpu_options {
    int         threads;   /* 0: one per core this process may use */
    pdl_dtype_t precision; /* PDL_DTYPE_F32 or PDL_DTYPE_BF16 */
    bool        bind;      /* bind threads to cores (hwloc) */
    bool        direct;    /* no Winograd: 3x3 convolutions exact to rounding (else a few 1e-6), and slower */
    bool        describes; /* ops are described and none is made: no threads are started */
} pdl_cpu_options_t;

typedef struct pdl_cuda_options {
    int         device;    /* number of the GPU */
    pdl_dtype_t precision; /* PDL_DTYPE_F32 or PDL_DTYPE_BF16 */
    bool        tf32;      /* products in fp32 may round their factors to 10 bits */
    bool        any_order; /* sums need not have the same order, and bits, in every run */
    bool        describes; /* ops are described and none is made: no GPU is needed */
    bool        emulated;  /* for tests: the processor takes the part of a GPU, slowly */
    bool        launches;  /* kernels are always launched one by one, never replayed as a graph */
    const char *choices;   /* file that keeps which kernels were chosen; NULL: they are chosen anew */
} pdl_cuda_options_t;

/* By name: "cpu", or "reference", which has no options. PDL_ERR_UNSUPPORTED where it cannot be had, the message says why. */
pdl_status_t pdl_backend_create(const char *name, const pdl_cpu_options_t *options, pdl_backend_t **backend);
/* One that only describes ops, "cpu" or "cuda" (NULL or another: generic), for plans that this process does not run. */
pdl_status_t pdl_backend_create_describing(const char *name, int threads, pdl_dtype_t precision,
                                           pdl_backend_t **backend);
/* PDL_ERR_UNSUPPORTED when the processor cannot do it, the message says what it can. */
pdl_status_t pdl_backend_create_cpu(const pdl_cpu_options_t *options, pdl_backend_t **backend);
/* Whether it has oneDNN, without which convolutions are slower and there is no bf16. */
bool pdl_cpu_uses_onednn(const pdl_backend_t *backend);
/* A GPU of NVIDIA. BLOCKED tensors are [n][space][c], with c padded to a multiple of 8. */
pdl_status_t pdl_backend_create_cuda(const pdl_cuda_options_t *options, pdl_backend_t **backend);
/* How many GPUs this process can use; where there is none it fails, and the message says why. */
pdl_status_t pdl_gpu_count(bool emulated, int *count);
typedef struct pdl_gpu_info {
    char   name[128], versions[160]; /* of the GPU; of driver and libraries */
    int    multiprocessors;
    double memory_bytes, free_bytes;
} pdl_gpu_info_t;
pdl_status_t pdl_gpu_info(bool emulated, int device, pdl_gpu_info_t *info);
/* Double precision, one thread, plain tensors only, no fusions. */
pdl_status_t pdl_backend_create_reference(pdl_backend_t **backend);
/* For tests: the CPU, with memory that only calls of the device may touch and a thread for every stream. `lazy`: streams do
   nothing until somebody waits for them. */
pdl_status_t pdl_backend_create_guard(const pdl_cpu_options_t *options, bool lazy, pdl_backend_t **backend);

/* Of machines for which there is no backend of ours: describes ops and computes none. */
typedef struct pdl_generic_options {
    pdl_dtype_t precision;    /* of activations */
    bool        keeps_scores; /* attention keeps its scores for backward: it is not one fused kernel */
} pdl_generic_options_t;
pdl_status_t pdl_backend_create_generic(const pdl_generic_options_t *options, pdl_backend_t **backend);
void         pdl_backend_destroy(pdl_backend_t *backend); /* NULL is allowed */

/* The meetings of a run, which has one phase more. Batch norm that evaluates has none. */
int pdl_op_meetings(const pdl_op_t *op, const pdl_op_run_t *run, bool backward);
/* Refuses the first label that is no class; the first of these samples is number `first` of the batch. Where the host cannot see labels when
   an op runs, one that is no class makes its loss NaN, and this says why. */
pdl_status_t pdl_check_labels(const pdl_layer_t *layer, const int32_t *labels, int64_t samples, int64_t positions,
                              int64_t classes, int64_t first);

/* What decides the time of an op besides precision and number of samples: the layer with its local shapes and formats, what is fused
   with it and which passes run. Of a conversion and of samples that are loaded likewise. */
#define PDL_KEY_SIZE 256
void pdl_op_key(const pdl_op_spec_t *spec, char *text, size_t size);
void pdl_convert_key(const pdl_shape_t *shape, pdl_format_t from, pdl_format_t to, char *text, size_t size);
void pdl_load_key(const pdl_shape_t *shape, pdl_format_t format, bool tokens, char *text, size_t size);

/* FLOP/s of fused multiply-adds on the registers of the calling thread, the most it can do in 32 bits, found out in so
   many seconds of its time; *vectors (may be NULL) names the instructions. */
double pdl_cpu_fma_speed(double seconds, const char **vectors);

/* The name of the processor, and a line about packages, cores and caches, as far as they are known. */
void pdl_cpu_describe(char *processor, size_t processor_size, char *topology, size_t topology_size);

/* Memory for tensors: page-aligned, huge pages where there are any, every page touched once. NULL when out of memory. */
void *pdl_memory_take(size_t bytes);
void  pdl_memory_give(void *memory, size_t bytes);
/* Bytes that this process has taken and not given back. */
size_t pdl_memory_held(void);

#ifdef __cplusplus
}
#endif
#endif
