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

/* Tells, once under mpirun, what a user should know about the file of a model. */
/* pdl_model_load(); with sequences of another length where `sequence` is above 0. */
pdl_status_t pdl__load_model(const char *name, int64_t sequence, pdl_model_t **model);
void         pdl__print_remarks(const pdl_model_t *model);

/* Completes the file when `status` is PDL_OK, else gives it up; returns what went wrong first. */
pdl_status_t pdl__finish_output(pdl_output_t *output, pdl_status_t status);

#endif
