/*
 * Options of a command as a table: it parses the command line and produces --help. Both `--name value` and
 * `--name=value` are understood, options and operands may be mixed, and "--" ends the options.
 *
 * Options stand in groups of one purpose. Where a command has more than fit a screen, --help shows those that people
 * use first, and --help-all shows all.
 */
#ifndef PDL_CLI_OPTIONS_H
#define PDL_CLI_OPTIONS_H

#include <paradl/base/status.h>
#include <paradl/base/units.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum pdl__option_kind {
    PDL__OPTION_FLAG,     /* bool */
    PDL__OPTION_TEXT,     /* const char * */
    PDL__OPTION_INT,      /* int64_t from `least` up */
    PDL__OPTION_RANGE,    /* two of them: "64", which is both, or "64..4096" */
    PDL__OPTION_QUANTITY, /* double in `unit`; above zero if `positive` */
    PDL__OPTION_CHOICE,   /* int: index of one of `choices` */
    PDL__OPTION_CHOICES,  /* pdl__chosen_t: one or several of `choices`, "bf16,fp8" */
    PDL__OPTION_LIST      /* pdl__texts_t: may be given again and again */
} pdl__option_kind_t;

#define PDL__MOST_CHOSEN 8
typedef struct pdl__chosen {
    int index[PDL__MOST_CHOSEN], count; /* as they were named, none twice */
} pdl__chosen_t;

#define PDL__MOST_TEXTS 32
typedef struct pdl__texts {
    const char *text[PDL__MOST_TEXTS];
    int         count;
} pdl__texts_t;

typedef struct pdl__option {
    const char        *name;     /* after "--" */
    const char        *argument; /* what --help calls its value; NULL for a flag */
    const char        *standard; /* parsed like a value that was given; NULL: zero */
    const char        *help;
    pdl__option_kind_t kind;
    size_t             offset; /* of the value in the struct of the command's values */
    int64_t            least;
    pdl_unit_t         unit;
    const char *const *choices;
    int                choice_count;
    bool               required; /* unless an optional operand is given, which says the same */
    bool               writes;   /* names a file that is written; "-" is standard output */
    bool               instead;  /* of an optional operand, which says the same */
    char               letter;   /* after "-"; 0: none */
    const char        *also;     /* another name of it, or NULL */
    const char        *group;    /* title of the group that begins with it; NULL: as the one before */
    bool               first;    /* among those that --help shows where there is a --help-all */
    bool               positive; /* zero means that it was not given, so nobody may give it */
    size_t             noted;    /* offset of a bool that is set when the option is given; 0: nobody asks */
} pdl__option_t;

/* The end of an entry: what kind of value it has and which field of the struct `values` takes it. */
#define PDL__FLAG(values, field)        .kind = PDL__OPTION_FLAG, .offset = offsetof(values, field)
#define PDL__TEXT(values, field)        .kind = PDL__OPTION_TEXT, .offset = offsetof(values, field)
#define PDL__LIST(values, field)        .kind = PDL__OPTION_LIST, .offset = offsetof(values, field)
#define PDL__INT(values, field, low)    .kind = PDL__OPTION_INT, .offset = offsetof(values, field), .least = (low)
#define PDL__RANGE(values, field, low)  .kind = PDL__OPTION_RANGE, .offset = offsetof(values, field), .least = (low)
#define PDL__QUANTITY(values, field, u) .kind = PDL__OPTION_QUANTITY, .offset = offsetof(values, field), .unit = (u)
#define PDL__POSITIVE(values, field, u) PDL__QUANTITY(values, field, u), .positive = true
#define PDL__CHOICE(values, field, names, count) \
    .kind = PDL__OPTION_CHOICE, .offset = offsetof(values, field), .choices = (names), .choice_count = (count)
#define PDL__CHOICES(values, field, names, count) \
    .kind = PDL__OPTION_CHOICES, .offset = offsetof(values, field), .choices = (names), .choice_count = (count)

typedef struct pdl__operands {
    char **text;
    int    count;
} pdl__operands_t;

/* One command, such as "model show": its words, how it is used, its options and what runs it. */
typedef struct pdl__command {
    const char          *name;
    const char          *usage;    /* after the name */
    const char          *summary;  /* one line */
    const char          *notes;    /* further lines of --help, or NULL */
    const pdl__option_t *options;  /* ended by a NULL name; NULL: none */
    size_t               values;   /* bytes of its struct of values */
    int                  operands; /* how many it takes */
    int                  optional; /* how many more it may take; with one of them no option is required */
    pdl_status_t (*run)(const void *values, const pdl__operands_t *operands);
} pdl__command_t;

/* Which help was asked for. */
typedef enum pdl__help { PDL__HELP_NONE, PDL__HELP_FIRST, PDL__HELP_ALL } pdl__help_t;

/* Fills `values` with defaults and then from the arguments; operands are moved to the front of `arguments`.
   *help is set when --help or --help-all was among them, and then nothing is required. */
pdl_status_t pdl__options_parse(const pdl__command_t *command, int count, char **arguments, void *values,
                                pdl__operands_t *operands, pdl__help_t *help);
pdl_status_t pdl__options_help(const pdl__command_t *command, pdl__help_t help, FILE *stream);

/* Whether an option of the table has another value than its default; it then was given. */
bool pdl__option_changed(const pdl__option_t *options, const char *name, const void *values);

/* Sets an option of the table as if it had been given; refuses names that it does not have. */
pdl_status_t pdl__option_set(const pdl__option_t *options, const char *name, const char *text, void *values);

/* Keeps standard output for the one file that is written to it, if any; --json and a second one exclude that. */
pdl_status_t pdl__options_reserve(const pdl__command_t *command, const void *values);

/* Calls `each` with every part of a list that commas divide. */
pdl_status_t pdl__split_list(const char *list, pdl_status_t (*each)(const char *, void *), void *context);

#endif
