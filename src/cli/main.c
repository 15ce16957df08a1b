/*
 * paradl: finds the command that was asked for and turns its status into the exit status.
 */
#include "cli/commands.h"

#include <paradl/base/document.h>
#include <paradl/comm/launch.h>
#include <paradl/report/table.h>

#include "base/closest.h"

#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#define MAX_NAMES 32

char **pdl__arguments;
int    pdl__exit_status;

pdl_status_t pdl__finish_output(pdl_output_t *output, pdl_status_t status)
{
    if (!status) return pdl_output_close(output);
    pdl_output_discard(output);
    return status;
}

pdl_status_t pdl__lora_of(const pdl__lora_values_t *values, pdl_lora_t *lora)
{
    *lora = (pdl_lora_t){values->rank, (pdl_lora_layers_t)values->layers};
    if (values->rank > 0 || !values->layers_given) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "--lora-layers says which layers have adapters: give their rank with --lora");
}

pdl_status_t pdl__load_model(const char *name, int64_t sequence, const pdl_lora_t *lora, pdl_model_t **model)
{
    pdl_model_t *loaded, *made;
    pdl_status_t status = pdl_model_load(name, &loaded);

    if (!status && sequence > 0) {
        status = pdl_model_with_tokens(loaded, sequence, &made);
        pdl_model_destroy(loaded);
        loaded = made;
    }
    if (!status && lora->rank > 0) {
        status = pdl_model_adapt(loaded, lora, &made);
        pdl_model_destroy(loaded);
        loaded = made;
    }
    if (!status) *model = loaded;
    return status;
}

void pdl__print_remarks(const pdl_model_t *model)
{
    for (const char *const *line = pdl_model_remarks(model); *line != NULL && pdl_launch_speaks(); line++)
        fprintf(stderr, "paradl: warning: %s\n", *line);
}

static pdl_status_t print_usage(FILE *stream)
{
    static const pdl_column_t columns[] = {{"", PDL_LEFT}, {"", PDL_LEFT}};
    pdl_table_t              *table = pdl_table_create(columns, 2);
    pdl_status_t              status;

    fputs("usage: paradl VERB ... [--help]\n\n"
          "Decides how a deep network should be trained on a large machine.\n\n",
          stream);
    for (const pdl__verb_t *verb = pdl__verbs; verb->name != NULL; verb++) {
        for (const pdl__command_t *c = verb->commands; c->name != NULL; c++) {
            pdl_table_row(table, PDL_ROW_PLAIN);
            pdl_table_cell(table, "  paradl %s", c->name);
            pdl_table_cell(table, "%s", c->summary);
        }
    }
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    fputs("\nparadl VERB --help (or paradl help VERB) is complete; paradl --version names the build.\n"
          "A model, system, data set or topology is the name of a built-in description or the path of a file.\n",
          stream);
    return status;
}

/* The last word of "model show". */
static const char *action_of(const pdl__command_t *command)
{
    const char *space = strchr(command->name, ' ');

    return space != NULL ? space + 1 : NULL;
}

static pdl_status_t refuse_name(const char *what, const char *name, const char *const *names, size_t count)
{
    char hint[256], all[256];

    pdl__join_names(names, count, all, sizeof(all));
    if (name == NULL) return pdl_error(PDL_ERR_INPUT, "a %s is missing: expected %s", what, all);
    if (pdl__closest_names(name, names, count, hint, sizeof(hint)))
        return pdl_error(PDL_ERR_INPUT, "unknown %s \"%.60s\": did you mean %s?", what, name, hint);
    return pdl_error(PDL_ERR_INPUT, "unknown %s \"%.60s\": expected %s", what, name, all);
}

static pdl_status_t refuse_verb(const char *name)
{
    const char *names[MAX_NAMES];
    size_t      count = 0;

    for (; pdl__verbs[count].name != NULL && count < MAX_NAMES; count++) names[count] = pdl__verbs[count].name;
    return refuse_name("verb", name, names, count);
}

static pdl_status_t refuse_action(const pdl__verb_t *verb, const char *name)
{
    const char *names[MAX_NAMES];
    char        what[64];
    size_t      count = 0;

    for (const pdl__command_t *c = verb->commands; c->name != NULL && count < MAX_NAMES; c++)
        names[count++] = action_of(c);
    snprintf(what, sizeof(what), "%s command", verb->name);
    return refuse_name(what, name, names, count);
}

static pdl_status_t run_command(const pdl__command_t *command, int count, char **arguments)
{
    void           *values = calloc(1, command->values > 0 ? command->values : 1);
    pdl__operands_t operands;
    pdl__help_t     help = PDL__HELP_NONE;
    pdl_status_t    status;

    if (values == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    status = pdl__options_parse(command, count, arguments, values, &operands, &help);
    if (!status && help) {
        status = pdl__options_help(command, help, stdout);
    } else if (!status) {
        status = pdl__options_reserve(command, values);
        if (!status) status = command->run(values, &operands);
    }
    free(values);
    return status;
}

static bool asks_help(const char *text)
{
    return strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0;
}

static pdl_status_t help_verb(const pdl__verb_t *verb)
{
    pdl_status_t status = PDL_OK;

    for (const pdl__command_t *c = verb->commands; !status && c->name != NULL; c++) {
        if (c != verb->commands) fputs("\n", stdout);
        status = pdl__options_help(c, PDL__HELP_FIRST, stdout);
    }
    return status;
}

static pdl_status_t run_verb(const pdl__verb_t *verb, int count, char **arguments)
{
    if (action_of(verb->commands) == NULL) return run_command(verb->commands, count, arguments);
    if (count == 0) return refuse_action(verb, NULL);
    if (asks_help(arguments[0])) return help_verb(verb);
    for (const pdl__command_t *c = verb->commands; c->name != NULL; c++) {
        if (strcmp(action_of(c), arguments[0]) == 0) return run_command(c, count - 1, arguments + 1);
    }
    return refuse_action(verb, arguments[0]);
}

static const pdl__verb_t *find_verb(const char *name)
{
    for (const pdl__verb_t *verb = pdl__verbs; verb->name != NULL; verb++)
        if (strcmp(verb->name, name) == 0) return verb;
    return NULL;
}

/* paradl help [VERB [COMMAND]] */
static pdl_status_t help(int count, char **arguments)
{
    const pdl__verb_t *verb = count > 0 ? find_verb(arguments[0]) : NULL;

    if (count == 0) return print_usage(stdout);
    if (verb == NULL) return refuse_verb(arguments[0]);
    if (count == 1) return help_verb(verb);
    for (const pdl__command_t *c = verb->commands; c->name != NULL && action_of(c) != NULL; c++)
        if (strcmp(action_of(c), arguments[1]) == 0) return pdl__options_help(c, PDL__HELP_FIRST, stdout);
    if (action_of(verb->commands) != NULL) return refuse_action(verb, arguments[1]);
    return pdl_error(PDL_ERR_INPUT, "unexpected \"%.60s\"; usage: paradl help [VERB]", arguments[1]);
}

pdl_status_t pdl__run(int count, char **arguments)
{
    const pdl__verb_t *verb;

    if (count == 0) return refuse_verb(NULL);
    if (asks_help(arguments[0])) return print_usage(stdout);
    if (strcmp(arguments[0], "--version") == 0 || strcmp(arguments[0], "-V") == 0)
        return pdl__print_version(stdout);
    if (strcmp(arguments[0], "help") == 0) return help(count - 1, arguments + 1);
    verb = find_verb(arguments[0]);
    return verb != NULL ? run_verb(verb, count - 1, arguments + 1) : refuse_verb(arguments[0]);
}

int main(int argc, char **argv)
{
#ifdef __GLIBC__
    /* A search makes and drops cost profiles of some 100 kB; giving their pages back each time takes as long as
       filling them. */
    mallopt(M_MMAP_THRESHOLD, 1 << 29);
    mallopt(M_TRIM_THRESHOLD, 1 << 29);
#endif
    /* Parsing moves the operands to the front; ranks and documents want the words as they were. */
    pdl__arguments = malloc(((size_t)argc + 1) * sizeof(*argv));
    if (pdl__arguments == NULL) {
        fputs("paradl: out of memory\n", stderr);
        return pdl_status_exit(PDL_ERR_NOMEM);
    }
    memcpy(pdl__arguments, argv, ((size_t)argc + 1) * sizeof(*argv));
    pdl_document_set_command((const char *const *)pdl__arguments);
    pdl_output_clean_up_on_signals();
    pdl_status_t status = pdl__run(argc > 0 ? argc - 1 : 0, argv + 1);

    /* What was printed comes before what is said about it, in a file too. The message of a failure stays. */
    if (!status)
        status = pdl_output_flush(stdout, "standard output");
    else
        fflush(stdout);
    /* Under mpirun or srun every rank meets the same error; one tells it. */
    if (status && pdl_launch_speaks())
        fprintf(stderr, "paradl: %s\n", pdl_error_message());
    else if (status)
        pdl_launch_let_speak();
    return status ? pdl_status_exit(status) : pdl__exit_status;
}
