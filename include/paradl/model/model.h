/*
 * A model is a graph of layers with shapes, parameters, operation and byte counts: complete enough to plan
 * with and to train from.
 *
 *     pdl_model_t *model;
 *     if (pdl_model_load("resnet50", &model)) return ...;      // a built-in name, .yaml, .onnx or .net
 *     for (int i = 0; i < pdl_model_layer_count(model); i++) {
 *         const pdl_layer_t *layer = pdl_model_layer(model, i);
 *         printf("%s %lld\n", layer->name, (long long)layer->weights);
 *     }
 *     pdl_model_destroy(model);
 *
 * Layers are in topological order; layer 0 is the input. Repeated blocks (`repeat: 96`) are written once in
 * the file, expanded here, and remembered: layers with equal `class_id` have the same type, attributes,
 * shapes and position in their block, so that cost models evaluate each class once.
 */
#ifndef PARADL_MODEL_H
#define PARADL_MODEL_H

#include <paradl/base/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What each is like is in paradl/model/traits.h. */
typedef enum pdl_layer_type {
    PDL_LAYER_INPUT,
    PDL_LAYER_CONV, /* 1-, 2-, 3-D, stride, padding, dilation, groups */
    PDL_LAYER_CONV_TRANSPOSE,
    PDL_LAYER_LINEAR, /* over channels; per position of a sequence */
    PDL_LAYER_BATCH_NORM,
    PDL_LAYER_LAYER_NORM,
    PDL_LAYER_RMS_NORM,
    PDL_LAYER_GROUP_NORM,
    PDL_LAYER_LOCAL_RESPONSE_NORM,
    PDL_LAYER_RELU,
    PDL_LAYER_LEAKY_RELU,
    PDL_LAYER_GELU,
    PDL_LAYER_SILU,
    PDL_LAYER_TANH,
    PDL_LAYER_SIGMOID,
    PDL_LAYER_SOFTMAX, /* over channels */
    PDL_LAYER_MAX_POOL,
    PDL_LAYER_AVG_POOL,
    PDL_LAYER_GLOBAL_AVG_POOL, /* all positions to one */
    PDL_LAYER_ADD,
    PDL_LAYER_MUL,
    PDL_LAYER_CONCAT,   /* along channels */
    PDL_LAYER_UPSAMPLE, /* nearest or bilinear, integer factor or given size */
    PDL_LAYER_DROPOUT,
    PDL_LAYER_FLATTEN,       /* channels and space to channels, channels outermost */
    PDL_LAYER_TO_SEQUENCE,   /* space to sequence positions (vision transformer) */
    PDL_LAYER_SELECT,        /* one position of a sequence */
    PDL_LAYER_EMBEDDING,     /* token index to vector */
    PDL_LAYER_POSITION,      /* adds a learned vector per position; may prepend a class token */
    PDL_LAYER_ATTENTION,     /* input: q, k, v concatenated along channels */
    PDL_LAYER_MOE,           /* router and expert feed-forward networks */
    PDL_LAYER_CROSS_ENTROPY, /* softmax + negative log likelihood over channels, per position */
    PDL_LAYER_MSE,
    PDL_LAYER_HARD_SWISH, /* from here on in the order of arrival: the numbers are part of a model's hash */
    PDL_LAYER_GELU_TANH,  /* the approximation of GPT-2 */
    PDL_LAYER_TYPE_COUNT
} pdl_layer_type_t;

#define PDL_MAX_SPACE 3

/* One sample of an activation: channels x extents. A sequence has rank 1, its extent being the tokens. */
typedef struct pdl_shape {
    int64_t channels;
    int64_t extent[PDL_MAX_SPACE]; /* 1 beyond the rank */
    int     rank;                  /* 0 (a vector) to 3 */
    bool    sequence;
} pdl_shape_t;

typedef enum pdl_init {
    PDL_INIT_DEFAULT,
    PDL_INIT_HE,
    PDL_INIT_XAVIER,
    PDL_INIT_NORMAL,
    PDL_INIT_ZERO,
    PDL_INIT_ONE
} pdl_init_t;

typedef struct pdl_layer {
    const char      *name; /* unique, dotted by block: "layer1.0.conv2" */
    pdl_layer_type_t type;
    const int       *inputs; /* indices of producers, all smaller than this layer's */
    int              input_count;
    pdl_shape_t      in;  /* shape of the first input */
    pdl_shape_t      out; /* one sample */

    /* windows: convolution and pooling */
    int64_t kernel[PDL_MAX_SPACE], stride[PDL_MAX_SPACE], dilation[PDL_MAX_SPACE];
    int64_t pad_low[PDL_MAX_SPACE], pad_high[PDL_MAX_SPACE];
    int64_t groups;        /* 1: ordinary; channels: depthwise */
    bool    count_padding; /* average pooling */
    bool    bias;          /* convolution, linear, norms (shift) */

    /* transformers */
    int64_t heads, kv_heads, head_dim; /* attention */
    int64_t value_dim;                 /* of a head's values, where it is not head_dim */
    int64_t shared_dim;                /* of a key, the last elements, which all heads share (latent attention) */
    int64_t window;                    /* the last tokens that a query looks at; 0: all */
    bool    qk_norm;                   /* RMS norms over the heads of queries and of keys */
    bool    causal, rotary;
    int64_t vocabulary; /* embedding */
    int64_t experts, top_k, expert_hidden;
    double  capacity_factor; /* room of an expert over its even share of the tokens; 0: for all that choose it */
    bool    gated;           /* MoE experts with a gate (three matrices) */
    bool    class_token;     /* position */
    int64_t rows;            /* position: of its table; 0: one a position */
    int64_t index;           /* select: the position taken; negative counts from the end */

    /* scalars */
    double     epsilon, momentum; /* norms */
    double     rate;              /* dropout; attention: dropout of its probabilities */
    double     slope;             /* leaky ReLU */
    bool       bilinear;          /* upsample; its factor is in stride, 0 when a size was asked for */
    int64_t    lrn_size;          /* local response norm: channels in the window, then its three constants */
    double     lrn_alpha, lrn_beta, lrn_k;
    pdl_init_t init;
    double     init_std; /* PDL_INIT_NORMAL */

    bool frozen;  /* its weights are not trained: no gradients, no exchange, no optimizer state */
    int  tied_to; /* layer whose weights this one uses (transposed for linear <- embedding), or -1 */

    /* derived by pdl_model_finish */
    int64_t weights;      /* elements, bias included, frozen or not; when tied only the bias, if there is one */
    int64_t bias_weights; /* of these, the bias or shift */
    int64_t flop_forward, flop_backward_data, flop_backward_weight; /* per sample, multiply and add counted apart */
    int64_t x_elements, y_elements;                                 /* per sample; x over all inputs */
    bool    needs_input_gradient;                                   /* false for the first layers with weights */
    int     consumer_count;
    int     class_id;   /* see above; 0 .. pdl_model_class_count-1 */
    double  measured_s; /* .net files: seconds per sample forward and backward; else 0 */
} pdl_layer_t;

typedef struct pdl_model pdl_model_t;

/* MODEL of the command line: a built-in name or the path of a .yaml, .onnx or .net file, or of a config.json. */
pdl_status_t pdl_model_load(const char *name_or_path, pdl_model_t **model);
pdl_status_t pdl_model_read_yaml_memory(const char *text, size_t length, const char *name, pdl_model_t **model);
pdl_status_t pdl_model_read_onnx_memory(const void *data, size_t length, const char *name, pdl_model_t **model);
/* config.json of Hugging Face: the fields of a network whose architecture its model_type names. */
pdl_status_t pdl_model_read_config_memory(const char *text, size_t length, const char *name, pdl_model_t **model);
pdl_status_t pdl_model_read_net_memory(const char *text, size_t length, const char *name, pdl_model_t **model);
void         pdl_model_destroy(pdl_model_t *model);

/* Reads a .lc file: one line `name|flag` a layer, in the order of the model's layers after the input, as in the
   .net file it belongs to. flags[i] says whether layer i is split; there are pdl_model_layer_count of them. */
pdl_status_t pdl_model_read_lc(const char *path, const pdl_model_t *model, bool *flags);

/* Writes the model as YAML (flat, one entry a layer), such that reading it gives an equal model. */
pdl_status_t pdl_model_write_yaml(const pdl_model_t *model, FILE *stream);

const char *pdl_model_name(const pdl_model_t *model);
const char *pdl_model_description(const pdl_model_t *model); /* one line; may be "" */
/* Lines about the file it was read from that a user should see, ended by NULL: an ONNX file that was exported for
   inference, functions that are read as others. Most models have none. */
const char *const *pdl_model_remarks(const pdl_model_t *model);
uint64_t           pdl_model_hash(const pdl_model_t *model); /* of everything but names and description */
int                pdl_model_layer_count(const pdl_model_t *model);
const pdl_layer_t *pdl_model_layer(const pdl_model_t *model, int i);
int                pdl_model_find_layer(const pdl_model_t *model, const char *name); /* -1 when absent */
/* The same for a name that a user gave: the error of an unknown one names the closest. */
pdl_status_t pdl_model_seek_layer(const pdl_model_t *model, const char *name, int *layer);
int          pdl_model_class_count(const pdl_model_t *model);
pdl_shape_t  pdl_model_input(const pdl_model_t *model);
bool         pdl_model_trainable(const pdl_model_t *model);     /* false for layer tables without a graph */
int64_t      pdl_model_table_samples(const pdl_model_t *model); /* samples of the data set that a .net table
                                                                         is about; 0 for other models */

typedef struct pdl_model_totals {
    int64_t weights; /* parameters */
    int64_t trained; /* of these, those that are not frozen */
    int64_t macs;    /* multiply-accumulates of convolutions, linear layers and attention, as papers count */
    int64_t flop_forward, flop_backward;
    int64_t y_elements;     /* activations per sample, all layers */
    int     weight_tensors; /* kernels, biases, scales and shifts counted apart */
} pdl_model_totals_t;
void pdl_model_totals(const pdl_model_t *model, pdl_model_totals_t *totals);

/* A language model for sequences of another length; its table of positions is that of `tokens` then. Layers that join positions other
   than by causal attention are refused by name: their results would depend on the length. */
pdl_status_t pdl_model_with_tokens(const pdl_model_t *model, int64_t tokens, pdl_model_t **other);

/* Low-rank adaptation (LoRA): beside chosen linear layers stand adapters of two smaller ones, and all weights but theirs are frozen. */
typedef enum pdl_lora_layers {
    PDL_LORA_ATTENTION, /* projections to queries, keys and values, and of what attention answers */
    PDL_LORA_QKV,       /* of these, those to queries, keys and values */
    PDL_LORA_ALL,       /* all linear layers but the last */
    PDL_LORA_LAYERS_COUNT
} pdl_lora_layers_t;
extern const char *const pdl_lora_layers_names[PDL_LORA_LAYERS_COUNT];
typedef struct pdl_lora {
    int64_t           rank; /* 0: none */
    pdl_lora_layers_t layers;
} pdl_lora_t;
pdl_status_t pdl_model_adapt(const pdl_model_t *model, const pdl_lora_t *lora, pdl_model_t **adapted);
/* What a model was adapted by. */
pdl_lora_t pdl_model_lora(const pdl_model_t *model);

/* The network whose `nets` copies have about the weights and operations of this one: hidden widths over sqrt(nets),
   dropout and groups over nets, classes as before. Of networks of convolutions and linear layers; others are
   refused. A Wide ResNet, known by residual sums and a narrow stem of which all other widths are multiples, has its
   widening factor k divided, to the whole part of max(k / sqrt(nets) + 0.4, 1), and keeps its stem. */
pdl_status_t pdl_model_divide(const pdl_model_t *model, int64_t nets, pdl_model_t **divided);
/* The layer after which FedDCT cuts a network: up to here its stem, the first pooling or what the first residual
   block begins with. The layer before the last where there is neither. */
int pdl_model_cut(const pdl_model_t *model);

/* Multiply-accumulates of one layer per sample (0 for element-wise layers and pooling). */
int64_t pdl_layer_macs(const pdl_layer_t *layer);
/* Operations per sample of a layer with the shapes in `in` and `out`: forward, input gradient, weight gradient. */
void pdl_layer_flop(const pdl_layer_t *layer, double flop[3]);
/* Rows that experts have room for and compute, per token: its top_k, or its share of the capacity of all experts, full or not. */
double pdl_layer_expert_rows(const pdl_layer_t *layer);
/* Number of weight tensors of a layer: kernel, bias, scale, shift. */
int pdl_layer_weight_tensors(const pdl_layer_t *layer);
/* Elements of its weights that training changes. */
int64_t     pdl_layer_trained(const pdl_layer_t *layer);
const char *pdl_layer_type_name(pdl_layer_type_t type);
int64_t     pdl_shape_elements(const pdl_shape_t *shape);
int64_t     pdl_shape_positions(const pdl_shape_t *shape); /* product of the extents */
/* "64x56x56", "1024 tokens x 768" */
char *pdl_shape_format(const pdl_shape_t *shape, char *buffer, size_t size);

#ifdef __cplusplus
}
#endif
#endif
