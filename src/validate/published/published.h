/*
 * From a row of a table of published runs to a configuration: the rules, the cells, the recipe.
 */
#ifndef PDL_ORACLE_PUBLISHED_H
#define PDL_ORACLE_PUBLISHED_H

#include <paradl/base/csv.h>
#include <paradl/base/yaml.h>
#include <paradl/oracle/framework.h>
#include <paradl/validate/published.h>

typedef struct pdl_published_rules {
    pdl_yaml_doc_t   *doc;
    const char       *parameters, *prior;
    int64_t           vocabulary; /* where the row has none */
    const pdl_yaml_t *accelerators, *precisions, *frameworks, *interleaved, *models;
    pdl_framework_t  *framework; /* of every entry of `frameworks`, then of `interleaved` */
} pdl_published_rules_t;

/* Sizes of a transformer; 0 where nothing says. */
typedef struct pdl_dimensions {
    int64_t layers, hidden, heads, kv_heads, head_dim, ffn, tokens, vocabulary, experts, top_k;
    int64_t most_nodes;      /* that the experts of a token are on; 0: any */
    int64_t expert_products; /* of a layer of experts: 3 where they are gated, else 2 */
} pdl_dimensions_t;

pdl_status_t pdl__published_rules_load(const char *name, pdl_published_rules_t *rules);
void         pdl__published_rules_free(pdl_published_rules_t *rules);
/* The entry of a map whose key the text begins with, whatever their case and separators; NULL when there is none. */
const pdl_yaml_t *pdl__published_match(const pdl_yaml_t *map, const char *text);
/* The framework that a program's name stands for; NULL when no entry matches. */
const pdl_framework_t *pdl__published_framework(const pdl_published_rules_t *rules, const char *program);
/* The one that stands for its runs of mixtures of experts with interleaved stages. */
const pdl_framework_t *pdl__published_interleaved(const pdl_published_rules_t *rules,
                                                  const pdl_framework_t       *framework);
/* Samples of runs that measured memory alone, where the entry says so. */
pdl_status_t pdl__published_memory_batch(const pdl_yaml_t *entry, int64_t *samples);
/* Positions that are computed of a sequence of this length: fewer where its padding is skipped. */
pdl_status_t pdl__published_positions(const pdl_yaml_t *entry, int64_t *tokens);
/* Fills in sizes that are 0 from the shape of a model's entry, and its file (NULL: none). */
pdl_status_t pdl__published_shape(const pdl_yaml_t *entry, pdl_dimensions_t *d, const char **file);

/* zoo.c: whether a name begins with another, whatever their case and separators: "LLAMA3_8B" and "llama3-8b". */
bool pdl__published_begins(const char *text, const char *key);
/* The longest name of a model of the zoo that this one begins with; false when there is none. */
bool pdl__published_zoo_name(const char *model, char *name, size_t size);
/* Fills in sizes that are 0 from the layers of a transformer. */
void pdl__published_sizes(const pdl_model_t *model, pdl_dimensions_t *d);

/* Everything the oracle needs of one row. */
typedef struct pdl_recipe {
    char                   yaml[512]; /* of the model */
    const char            *system;
    int64_t                devices, per_node;       /* 0: as the system says */
    double                 ports, port_bytes_per_s; /* between nodes; 0: as the system says */
    double                 memory_bytes;            /* of a device; 0: as the system says */
    const pdl_framework_t *framework;
    pdl_config_t           config;
    bool                   choose_micro_batch, choose_recompute, choose_batch;
    int64_t                steps;          /* micro-batches of an update; 0: the row does not say */
    bool                   wide_sums;      /* gradients are summed up in 32 bits beside those in 16 */
    bool                   keeps_products; /* "selective_op": every other product is kept, the rest is made again */
    bool                   tensors_only;   /* memory is that of tensors, without the context of the device */
    bool                   adapters;       /* fine-tuning of small matrices beside frozen weights */
    bool                   weights_on_host;
    int64_t                micro_batch;
    int64_t                stage_blocks[64]; /* of every stage, where the source says; else all 0 */
    int64_t                experts_over;     /* ranks that share the experts out; 1: none */
    pdl_dimensions_t       size;
    char part[PDL_MAX_PARTS][PDL_PART_NAME]; /* nodes with different devices, in the order of ranks */
    int  part_count;                         /* 0: all devices are alike */
} pdl_recipe_t;

typedef struct pdl_published_line {
    pdl_published_row_t row;
    pdl_recipe_t        recipe;
    int                 machine; /* index of the oracle; -1: not expressed */
    double              tflops;  /* per device, of the model's operations; 0: none */
    double              rate;    /* samples per second; 0: none */
    bool                timed;   /* the table has a time, not only a throughput */
    int64_t             batch;   /* that was projected */
    pdl_projection_t    projection;
} pdl_published_line_t;

/* Rows of one model on one machine with one framework share an oracle. */
typedef struct pdl_machine {
    pdl_model_t        *model;
    pdl_system_t        system; /* a copy adapted to the row; strings are the loaded one's */
    pdl_oracle_t       *oracle;
    const pdl_recipe_t *recipe; /* of the first row */
} pdl_machine_t;

typedef struct pdl_loaded_system {
    const char         *name;
    const pdl_system_t *system;
} pdl_loaded_system_t;

struct pdl_published {
    pdl_csv_t            *csv;
    pdl_published_rules_t rules;
    pdl_published_line_t *lines;
    size_t                line_count;
    pdl_machine_t        *machines;
    int                   machine_count;
    pdl_loaded_system_t   systems[32];
    int                   system_count;
};

/* parts.c: on which devices stages are, by the remarks; false where these are not nodes of as many devices each. */
bool pdl__published_parts(const char *notes, pdl_recipe_t *recipe);
/* The system with these nodes alone. */
pdl_status_t pdl__published_take_parts(const pdl_recipe_t *recipe, pdl_system_t *system);

/* Reads the cells of row i; a row that cannot be expressed says why and keeps `expressed` false. */
pdl_status_t pdl__published_cells(pdl_published_t *runs, size_t i, pdl_published_line_t *line);

/* Projects the lines with use[i] set (NULL: all). */
pdl_status_t pdl__published_run(pdl_published_t *runs, const pdl_parameters_t *parameters, const bool *use);

#endif
