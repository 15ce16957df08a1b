/*
 * The commands, one table of them per verb, each ended by a NULL name.
 */
#ifndef PDL_CLI_COMMANDS_H
#define PDL_CLI_COMMANDS_H

#include "cli/options.h"

#include <paradl/base/output.h>
#include <paradl/model/model.h>

/* A verb and its commands. */
typedef struct pdl__verb {
    const char           *name;
    const pdl__command_t *commands;
} pdl__verb_t;

/* All verbs, ended by a NULL name: verbs.c has those of the command; a page has some of them. */
extern const pdl__verb_t pdl__verbs[];

extern const pdl__command_t pdl__model_commands[];
extern const pdl__command_t pdl__system_commands[];
extern const pdl__command_t pdl__data_commands[];
extern const pdl__command_t pdl__plan_commands[];
extern const pdl__command_t pdl__validate_commands[];
extern const pdl__command_t pdl__coll_commands[];
extern const pdl__command_t pdl__topo_commands[];
extern const pdl__command_t pdl__simulate_commands[];
extern const pdl__command_t pdl__train_commands[];
extern const pdl__command_t pdl__eval_commands[];
extern const pdl__command_t pdl__predict_commands[];
extern const pdl__command_t pdl__calibrate_commands[];
extern const pdl__command_t pdl__report_commands[];

/* The words of the command line as the program was started with them, for starting it again as several ranks. */
extern char **pdl__arguments;
/* The program ends with this although nothing failed here: what failed has been reported by the ranks. */
extern int pdl__exit_status;

/* Runs the words of a command line behind the name of the program. */
pdl_status_t pdl__run(int count, char **arguments);

/* Versions of the program, of its build and of what it was built with. */
pdl_status_t pdl__print_version(FILE *stream);

/* pdl_model_load(); with sequences of another length where `sequence` is above 0, and with adapters where their rank is. */
pdl_status_t pdl__load_model(const char *name, int64_t sequence, const pdl_lora_t *lora, pdl_model_t **model);
/* Tells, once under mpirun, what a user should know about the file of a model. */
void pdl__print_remarks(const pdl_model_t *model);

/* --lora and --lora-layers, as several verbs have them. */
typedef struct pdl__lora_values {
    int64_t rank;
    int     layers;
    bool    layers_given;
} pdl__lora_values_t;
#define PDL__LORA_OPTIONS(TYPE, ...)                                                                     \
    {"lora",                                                                                             \
     "RANK",                                                                                             \
     NULL,                                                                                               \
     "freezes the weights and trains adapters of this rank beside linear layers (LoRA)",                 \
     PDL__INT(TYPE, lora.rank, 1),                                                                       \
     __VA_ARGS__},                                                                                       \
    {                                                                                                    \
        "lora-layers", "WHICH", "attention",                                                             \
            "layers that have adapters: projections of attention, those before it, or all but the last", \
            PDL__CHOICE(TYPE, lora.layers, pdl_lora_layers_names, PDL_LORA_LAYERS_COUNT),                \
            .noted = offsetof(TYPE, lora.layers_given), __VA_ARGS__                                      \
    }
/* What they come to; refuses --lora-layers alone. */
pdl_status_t pdl__lora_of(const pdl__lora_values_t *values, pdl_lora_t *lora);

/* Completes the file when `status` is PDL_OK, else gives it up; returns what went wrong first. */
pdl_status_t pdl__finish_output(pdl_output_t *output, pdl_status_t status);

#endif
