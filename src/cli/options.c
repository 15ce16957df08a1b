/*
 * Parses command lines by table.
 */
#include "cli/options.h"

#include <paradl/base/output.h>
#include <paradl/report/table.h>

#include "base/closest.h"

#include <stdlib.h>
#include <string.h>

#define MAX_OPTIONS 128
#define MAX_NAME    40

static void *destination(const pdl__option_t *option, void *values)
{
    return (char *)values + option->offset;
}

static pdl_status_t store_choice(const pdl__option_t *option, const char *text, int *index)
{
    char all[512];

    for (int i = 0; i < option->choice_count; i++) {
        if (strcmp(option->choices[i], text) != 0) continue;
        *index = i;
        return PDL_OK;
    }
    pdl__join_names(option->choices, (size_t)option->choice_count, all, sizeof(all));
    return pdl_error(PDL_ERR_INPUT, "expected %s, found \"%.60s\"", all, text);
}

/* Names between commas. */
static pdl_status_t store_choices(const pdl__option_t *option, const char *text, pdl__chosen_t *chosen)
{
    char         name[64];
    int          index;
    pdl_status_t status = PDL_OK;

    *chosen = (pdl__chosen_t){.count = 0};
    for (const char *at = text; !status; at += strcspn(at, ",") + 1) {
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, ","), at);
        status = store_choice(option, name, &index);
        for (int i = 0; !status && i < chosen->count; i++)
            if (chosen->index[i] == index) status = pdl_error(PDL_ERR_INPUT, "%s is named twice", name);
        if (!status && chosen->count == PDL__MOST_CHOSEN)
            status = pdl_error(PDL_ERR_INPUT, "more than %d are named", PDL__MOST_CHOSEN);
        if (!status) chosen->index[chosen->count++] = index;
        if (at[strcspn(at, ",")] == '\0') break;
    }
    return status;
}

static pdl_status_t store_range(const pdl__option_t *option, const char *text, int64_t range[2])
{
    const char  *dots = strstr(text, "..");
    char         first[24];
    pdl_status_t status;

    if (dots == NULL) {
        status = pdl_parse_int(text, option->least, INT64_MAX, &range[0]);
        range[1] = range[0];
        return status;
    }
    snprintf(first, sizeof(first), "%.*s", (int)(dots - text < 23 ? dots - text : 23), text);
    status = pdl_parse_int(first, option->least, INT64_MAX, &range[0]);
    if (!status) status = pdl_parse_int(dots + 2, range[0], INT64_MAX, &range[1]);
    return status;
}

static pdl_status_t store_next(const char *text, pdl__texts_t *list)
{
    if (text[0] == '\0') return pdl_error(PDL_ERR_INPUT, "the value is empty");
    if (list->count == PDL__MOST_TEXTS)
        return pdl_error(PDL_ERR_INPUT, "given more than %d times", PDL__MOST_TEXTS);
    list->text[list->count++] = text;
    return PDL_OK;
}

static pdl_status_t store(const pdl__option_t *option, const char *text, void *values)
{
    void        *where = destination(option, values);
    pdl_status_t status = PDL_OK;

    switch (option->kind) {
    case PDL__OPTION_FLAG: *(bool *)where = true; break;
    case PDL__OPTION_TEXT:
        if (text[0] == '\0') status = pdl_error(PDL_ERR_INPUT, "the value is empty");
        *(const char **)where = text;
        break;
    case PDL__OPTION_INT: status = pdl_parse_int(text, option->least, INT64_MAX, where); break;
    case PDL__OPTION_RANGE: status = store_range(option, text, where); break;
    case PDL__OPTION_QUANTITY:
        status = pdl_parse_quantity(text, option->unit, where);
        if (!status && option->positive && *(const double *)where <= 0)
            status = pdl_error(PDL_ERR_INPUT, "expected more than 0, found \"%.40s\"; leave it out for none", text);
        break;
    case PDL__OPTION_CHOICE: status = store_choice(option, text, where); break;
    case PDL__OPTION_CHOICES: status = store_choices(option, text, where); break;
    case PDL__OPTION_LIST: status = store_next(text, where); break;
    }
    if (status) return pdl_error(status, "--%s: %s", option->name, pdl_error_message());
    return PDL_OK;
}

/* `text` is the name with its dashes, and perhaps '=' and a value. */
static pdl_status_t refuse_option(const pdl__command_t *command, const char *text)
{
    char        spelled[MAX_OPTIONS][MAX_NAME], name[MAX_NAME], hint[256];
    const char *names[MAX_OPTIONS] = {"--help"};
    size_t      count = 1;

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, "="), text);
    for (const pdl__option_t *o = command->options; o != NULL && o->name != NULL && count < MAX_OPTIONS; o++) {
        snprintf(spelled[count], MAX_NAME, "--%s", o->name);
        names[count] = spelled[count];
        count++;
    }
    if (pdl__closest_names(name, names, count, hint, sizeof(hint)))
        return pdl_error(PDL_ERR_INPUT, "unknown option %s: did you mean %s?", name, hint);
    return pdl_error(PDL_ERR_INPUT, "unknown option %s (paradl %s --help shows all)", name, command->name);
}

static bool is_named(const char *name, const char *text, size_t length)
{
    return name != NULL && strlen(name) == length && memcmp(name, text, length) == 0;
}

static const pdl__option_t *find_option(const pdl__option_t *options, const char *name, size_t length)
{
    for (const pdl__option_t *o = options; o != NULL && o->name != NULL; o++) {
        if (is_named(o->name, name, length) || is_named(o->also, name, length)) return o;
    }
    return NULL;
}

static const pdl__option_t *find_letter(const pdl__command_t *command, char letter)
{
    for (const pdl__option_t *o = command->options; o != NULL && o->name != NULL; o++) {
        if (o->letter == letter) return o;
    }
    return NULL;
}

typedef struct scan {
    const pdl__command_t *command;
    char                **arguments;
    int                   count, next;
    void                 *values;
    const char           *instead; /* an option that was given and goes without an optional operand */
} scan_t;

/* `value` is what stood after '=', or NULL. */
static pdl_status_t take(scan_t *scan, const pdl__option_t *option, const char *value)
{
    if (option->instead) scan->instead = option->name;
    if (option->noted > 0) *(bool *)((char *)scan->values + option->noted) = true;
    if (option->kind == PDL__OPTION_FLAG) {
        if (value != NULL) return pdl_error(PDL_ERR_INPUT, "--%s takes no value", option->name);
        return store(option, NULL, scan->values);
    }
    if (value == NULL && scan->next < scan->count && strncmp(scan->arguments[scan->next], "--", 2) != 0)
        value = scan->arguments[scan->next++];
    if (value == NULL) return pdl_error(PDL_ERR_INPUT, "--%s needs a value %s", option->name, option->argument);
    return store(option, value, scan->values);
}

static pdl_status_t take_long(scan_t *scan, const char *text)
{
    const char          *name = text + 2;
    size_t               length = strcspn(name, "=");
    const pdl__option_t *option = find_option(scan->command->options, name, length);

    if (option == NULL) return refuse_option(scan->command, text);
    pdl__option_t typed = *option; /* messages have the name that was typed */
    if (is_named(option->also, name, length)) typed.name = option->also;
    return take(scan, &typed, name[length] == '=' ? name + length + 1 : NULL);
}

static pdl_status_t take_short(scan_t *scan, const char *text)
{
    const pdl__option_t *option = find_letter(scan->command, text[1]);

    if (option == NULL) return refuse_option(scan->command, text);
    return take(scan, option, text[2] != '\0' ? text + 2 : NULL);
}

static pdl_status_t check_operands(const scan_t *scan, const pdl__operands_t *operands)
{
    const pdl__command_t *command = scan->command;
    int                   most = command->operands + command->optional;

    if (operands->count > most)
        return pdl_error(PDL_ERR_INPUT, "unexpected \"%.60s\"; usage: paradl %s %s", operands->text[most],
                         command->name, command->usage);
    if (operands->count < command->operands)
        return pdl_error(PDL_ERR_INPUT, "an argument is missing; usage: paradl %s %s", command->name,
                         command->usage);
    if (scan->instead && operands->count > command->operands)
        return pdl_error(PDL_ERR_INPUT, "--%s: %s says that; change it there, or leave the file out", scan->instead,
                         operands->text[operands->count - 1]);
    return PDL_OK;
}

/* A required number counts as given when it is not zero, which its lower bound excludes. */
static bool is_given(const pdl__option_t *option, void *values)
{
    const void *where = destination(option, values);

    return option->kind == PDL__OPTION_TEXT ? *(const char *const *)where != NULL : *(const int64_t *)where != 0;
}

static pdl_status_t check_required(const pdl__command_t *command, void *values)
{
    for (const pdl__option_t *o = command->options; o != NULL && o->name != NULL; o++) {
        if (o->required && !is_given(o, values))
            return pdl_error(PDL_ERR_INPUT, "--%s %s is missing; usage: paradl %s %s", o->name, o->argument,
                             command->name, command->usage);
    }
    return PDL_OK;
}

static pdl_status_t set_defaults(const pdl__command_t *command, void *values)
{
    pdl_status_t status = PDL_OK;

    for (const pdl__option_t *o = command->options; !status && o != NULL && o->name != NULL; o++) {
        if (o->standard != NULL) status = store(o, o->standard, values);
    }
    return status;
}

pdl_status_t pdl__options_parse(const pdl__command_t *command, int count, char **arguments, void *values,
                                pdl__operands_t *operands, pdl__help_t *help)
{
    scan_t       scan = {command, arguments, count, 0, values, NULL};
    bool         only_operands = false;
    pdl_status_t status = set_defaults(command, values);

    *operands = (pdl__operands_t){arguments, 0};
    while (!status && scan.next < count) {
        char *text = arguments[scan.next++];

        if (only_operands || text[0] != '-' || text[1] == '\0') {
            operands->text[operands->count++] = text;
        } else if (strcmp(text, "--") == 0) {
            only_operands = true;
        } else if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0 || strcmp(text, "--help-all") == 0) {
            *help = strcmp(text, "--help-all") == 0 ? PDL__HELP_ALL : PDL__HELP_FIRST;
            return PDL_OK;
        } else {
            status = text[1] == '-' ? take_long(&scan, text) : take_short(&scan, text);
        }
    }
    if (!status) status = check_operands(&scan, operands);
    return status || operands->count > command->operands ? status : check_required(command, values);
}

pdl_status_t pdl__option_set(const pdl__option_t *options, const char *name, const char *text, void *values)
{
    const pdl__option_t *option = find_option(options, name, strlen(name));

    if (option == NULL) return pdl_error(PDL_ERR_INPUT, "there is no option --%.40s", name);
    return store(option, text, values);
}

pdl_status_t pdl__options_reserve(const pdl__command_t *command, const void *values)
{
    const pdl__option_t *taken = NULL, *json = find_option(command->options, "json", 4);

    for (const pdl__option_t *o = command->options; o != NULL && o->name != NULL; o++) {
        const char *path = o->writes ? *(const char *const *)((const char *)values + o->offset) : NULL;

        if (path == NULL || !pdl_output_is_stdout(path)) continue;
        if (taken != NULL)
            return pdl_error(PDL_ERR_INPUT, "--%s and --%s cannot both be written to standard output", taken->name,
                             o->name);
        taken = o;
    }
    if (taken == NULL) return PDL_OK;
    if (json != NULL && json->kind == PDL__OPTION_FLAG && *(const bool *)((const char *)values + json->offset))
        return pdl_error(PDL_ERR_INPUT, "--json is written to standard output: give --%s a file", taken->name);
    return pdl_output_reserve_stdout();
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

bool pdl__option_changed(const pdl__option_t *options, const char *name, const void *values)
{
    const pdl__option_t *option = find_option(options, name, strlen(name));
    const char          *where = (const char *)values + option->offset;
    union {
        const char   *text;
        int64_t       number[2];
        double        quantity;
        int           choice;
        bool          flag;
        pdl__chosen_t chosen;
    } standard;
    pdl__option_t alone = *option;

    alone.offset = 0;
    memset(&standard, 0, sizeof(standard));
    if (option->standard != NULL && store(&alone, option->standard, &standard)) return true;
    switch (option->kind) {
    case PDL__OPTION_TEXT: return !same_text(*(const char *const *)where, standard.text);
    case PDL__OPTION_RANGE:
    case PDL__OPTION_INT: return *(const int64_t *)where != standard.number[0];
    case PDL__OPTION_QUANTITY: return *(const double *)where != standard.quantity;
    case PDL__OPTION_CHOICE: return *(const int *)where != standard.choice;
    case PDL__OPTION_CHOICES: return memcmp(where, &standard.chosen, sizeof(standard.chosen)) != 0;
    case PDL__OPTION_LIST: return ((const pdl__texts_t *)where)->count > 0;
    default: return *(const bool *)where;
    }
}

/* The name of an option as a user types it, with its letter and its value. */
static void add_name(pdl_table_t *table, const pdl__option_t *option)
{
    char letter[8] = "";

    if (option->letter != 0) snprintf(letter, sizeof(letter), "-%c, ", option->letter);
    pdl_table_cell(table, "  %s--%s%s%s", letter, option->name, option->argument != NULL ? " " : "",
                   option->argument != NULL ? option->argument : "");
}

/* `replaced`: an optional operand, which is a plan, says what required options say. */
static void add_help_row(pdl_table_t *table, const pdl__option_t *option, bool replaced)
{
    char all[256] = "", standard[64] = "", also[MAX_NAME] = "";

    if (option->kind == PDL__OPTION_CHOICE || option->kind == PDL__OPTION_CHOICES)
        pdl__join_names(option->choices, (size_t)option->choice_count, all, sizeof(all));
    if (option->required)
        snprintf(standard, sizeof(standard), " (required%s)", replaced ? " without a plan" : "");
    else if (option->standard != NULL)
        snprintf(standard, sizeof(standard), " (default %s)", option->standard);
    if (option->also != NULL) snprintf(also, sizeof(also), " (also --%s)", option->also);
    pdl_table_row(table, PDL_ROW_PLAIN);
    add_name(table, option);
    pdl_table_cell(table, "%s%s%s%s%s", option->help, all[0] != '\0' ? ": " : "", all, standard, also);
}

static void add_title(pdl_table_t *table, const char *title)
{
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_span(table, "%s", "");
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_span(table, "%s:", title);
}

/* Adds the options in their groups; a group of which none is shown has no title. Returns how many are left out. */
static int add_options(pdl_table_t *table, const pdl__command_t *command, pdl__help_t help)
{
    const char *title = NULL;
    int         left_out = 0, firsts = 0;

    for (const pdl__option_t *o = command->options; o != NULL && o->name != NULL; o++) firsts += o->first;
    for (const pdl__option_t *o = command->options; o != NULL && o->name != NULL; o++) {
        if (o->group != NULL) title = o->group;
        if (help == PDL__HELP_FIRST && firsts > 0 && !o->first) {
            left_out++;
            continue;
        }
        if (title != NULL) add_title(table, title);
        title = NULL;
        add_help_row(table, o, command->optional > 0);
    }
    return left_out;
}

pdl_status_t pdl__options_help(const pdl__command_t *command, pdl__help_t help, FILE *stream)
{
    static const pdl_column_t columns[] = {{"", PDL_LEFT}, {"", PDL_LEFT}};
    pdl_table_t              *table = pdl_table_create(columns, 2);
    pdl_status_t              status;

    fprintf(stream, "usage: paradl %s %s\n\n%s\n", command->name, command->usage, command->summary);
    if (command->notes != NULL) fprintf(stream, "%s\n", command->notes);
    if (command->options == NULL || command->options[0].group == NULL) fputs("\n", stream);
    int left_out = add_options(table, command, help);
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "  -h, --help");
    pdl_table_cell(table, left_out > 0 ? "shows this; --help-all shows %d more options" : "shows this", left_out);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status;
}

pdl_status_t pdl__split_list(const char *list, pdl_status_t (*each)(const char *, void *), void *context)
{
    char        *copy = strdup(list), *rest = copy, *part;
    pdl_status_t status = copy ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory");

    while (!status && (part = strtok_r(rest, ",", &rest)) != NULL) status = each(part, context);
    free(copy);
    return status;
}
