/*
 * What the writers of exports share: the settings of a plan as numbers, options that are collected and then written in the
 * format of the framework, and a list of what it cannot express.
 */
#ifndef PDL_REPORT_EXPORT_H
#define PDL_REPORT_EXPORT_H

#include <paradl/report/export.h>

/* A transformer as frameworks describe it; layers 0: the network is none. */
typedef struct pdl__export_network {
    int64_t layers, hidden, ffn, heads, kv_heads, head_dim, value_dim, shared_dim, tokens, vocabulary, window;
    int64_t experts, top_k, expert_ffn, shared_ffn, first_experts; /* first_experts: layer that has them first */
    int64_t query_rank, key_rank;                                  /* latent attention */
    bool    rms, gated, rotary, causal, tied, qkv_bias, bias, qk_norm;
    double  epsilon, dropout, attention_dropout, capacity_factor;
    pdl_layer_type_t activation;
} pdl__export_network_t;
pdl__export_network_t pdl__export_network(const pdl_model_t *model);

typedef enum pdl__option_is { PDL__IS_NUMBER, PDL__IS_TEXT, PDL__IS_BOOL, PDL__IS_FLAG } pdl__option_is_t;

typedef struct pdl__export_option {
    char             key[72], value[256];
    pdl__option_is_t is;
} pdl__export_option_t;

#define PDL__MOST_OPTIONS 96
#define PDL__MOST_NOTES   24

typedef struct pdl__exported {
    const pdl_export_t   *what;
    const pdl_plan_t     *plan;
    const char           *framework, *folder;
    pdl__export_network_t net;
    int64_t               data, tensor, pipeline, micro, nodes, per_node; /* micro: samples of a micro-batch */
    int64_t               context; /* ranks that share the tokens of a sequence */
    int64_t experts; /* that share out experts: tensor ranks, and of context ranks and replicas those that do */
    bool    outer;   /* the pipeline is outside of the data axis */
    pdl_recompute_t      recompute;         /* of all blocks, or of some */
    int64_t              recomputed_blocks; /* of a transformer: the first so many of every virtual stage; 0: all */
    bool                 overlaps;          /* gradients are exchanged behind backward, as it was projected */
    bool                 overlaps_layers;   /* so are collectives of tensor ranks, beside products */
    bool                 overlaps_experts;  /* tokens go to experts of other ranks beside computation, likewise */
    pdl__export_option_t option[PDL__MOST_OPTIONS];
    int                  options;
    char                 note[PDL__MOST_NOTES][240]; /* what is not expressed, or has to be seen to */
    int                  notes;
    FILE                *list; /* of the files that were written */
} pdl__exported_t;

void pdl__export_number(pdl__exported_t *x, const char *key, double value);
void pdl__export_text(pdl__exported_t *x, const char *key, const char *format, ...) PDL_PRINTF(3, 4);
void pdl__export_bool(pdl__exported_t *x, const char *key, bool value);
void pdl__export_flag(pdl__exported_t *x, const char *key, bool wanted); /* there, or not */
void pdl__export_note(pdl__exported_t *x, const char *format, ...) PDL_PRINTF(2, 3);

/* Writes a file of the folder and adds it to the list. */
pdl_status_t pdl__export_file(pdl__exported_t *x, const char *name, void (*write)(const pdl__exported_t *, FILE *));

/* Formats. Dots in keys are nesting, sections or groups. */
void pdl__write_shell(const pdl__exported_t *x, FILE *stream); /* ARGS=(--key value ...) */
void pdl__write_json(const pdl__exported_t *x, FILE *stream);
void pdl__write_toml(const pdl__exported_t *x, FILE *stream);
void pdl__write_yaml(const pdl__exported_t *x, FILE *stream);
/* One call's arguments: those whose key begins with "GROUP.". */
void pdl__write_python(const pdl__exported_t *x, const char *group, FILE *stream);

/* Layers of every virtual stage, such as "Ettt|tttL"; false where all stages have as many. */
bool pdl__stage_layout(const pdl_plan_t *plan, char *text, size_t size);
/* A note where a framework recomputes all blocks though the plan does some. */
void pdl__export_all_blocks(pdl__exported_t *x);
/* Notes on what no framework here expresses: layouts per layer, policies per block, schedules of collectives. */
void         pdl__export_common(pdl__exported_t *x);
pdl_status_t pdl__export_needs_transformer(const pdl__exported_t *x);

/* job.slurm and first_iterations.txt. */
void pdl__write_job(const pdl__exported_t *x, FILE *stream);
void pdl__write_checks(const pdl__exported_t *x, FILE *stream);

/* Frameworks: collect options and write their file. */
typedef struct pdl__exporter {
    const char *name;
    pdl_status_t (*write)(pdl__exported_t *x);
    const char *launch;        /* what a node runs, a line of the job */
    const char *setup;         /* lines before it */
    const char *log;           /* where the framework says how long an iteration takes, and how much memory */
    bool        task_per_rank; /* else one a node, which starts the ranks */
    bool        zero_bubble;   /* it runs such pipelines */
} pdl__exporter_t;
extern const pdl__exporter_t pdl__exporters[PDL_EXPORT_COUNT];
const pdl__exporter_t       *pdl__exporter_find(const char *name);

pdl_status_t pdl__export_megatron(pdl__exported_t *x);
pdl_status_t pdl__export_deepspeed(pdl__exported_t *x);
pdl_status_t pdl__export_torchtitan(pdl__exported_t *x);
pdl_status_t pdl__export_fsdp(pdl__exported_t *x);
pdl_status_t pdl__export_nemo(pdl__exported_t *x);
pdl_status_t pdl__export_slurm(pdl__exported_t *x);

#endif
