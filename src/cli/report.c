/*
 * paradl report: documents become one page, or a text; and the documents of a page become files again.
 */
#include "base/file.h"
#include "cli/capture.h"
#include "cli/commands.h"

#include <paradl/plan/plan.h>
#include <paradl/report/page.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_INPUTS 64

typedef struct values {
    const char *output, *title, *charts;
    bool        text, extract, no_core;
    int64_t     max_events;
} values_t;

static const pdl__option_t options[] = {
    {"output", "PAGE.html", NULL, "where the page goes; else beside the first document. --extract: a folder",
     PDL__TEXT(values_t, output), .letter = 'o'},
    {"title", "TEXT", NULL, "title of the page; else what the first document is about", PDL__TEXT(values_t, title)},
    {"charts", "DIR", NULL, "also writes every chart as a file of SVG", PDL__TEXT(values_t, charts)},
    {"max-events", "N", "200000", "of a timeline, operations that the page shows: whole updates, the first ones",
     PDL__INT(values_t, max_events, 1)},
    {"no-core", NULL, NULL, "a page of a plan that cannot be asked again, 0.5 MB smaller",
     PDL__FLAG(values_t, no_core)},
    {"text", NULL, NULL, "prints answers, charts and tables instead, for a terminal", PDL__FLAG(values_t, text)},
    {"extract", NULL, NULL, "writes the documents of a page back into files", PDL__FLAG(values_t, extract)},
    {.name = NULL},
};

static pdl_status_t make_folder(const char *folder)
{
    if (mkdir(folder, 0777) == 0 || errno == EEXIST) return PDL_OK;
    return pdl_error(PDL_ERR_IO, "%.200s: cannot make the folder: %s", folder, strerror(errno));
}

/* "runs/lenet.jsonl" gives "runs/lenet.html". */
static pdl_status_t page_beside(const char *input, char path[PATH_MAX])
{
    const char *slash = strrchr(input, '/'), *dot = strrchr(slash != NULL ? slash + 1 : input, '.');
    int         length = dot != NULL && dot > input ? (int)(dot - input) : (int)strlen(input);

    if (snprintf(path, PATH_MAX, "%.*s.html", length, input) >= PATH_MAX || strcmp(path, input) == 0)
        return pdl_error(PDL_ERR_INPUT, "%.200s: say with -o where the page goes", input);
    return PDL_OK;
}

static pdl_status_t write_page(const values_t *v, const pdl_documents_t *documents, const char *first)
{
    char          path[PATH_MAX];
    pdl_output_t *output;
    pdl_status_t  status = PDL_OK;

    if (v->output != NULL && snprintf(path, sizeof(path), "%s", v->output) >= PATH_MAX)
        return pdl_error(PDL_ERR_INPUT, "the name after -o is too long");
    if (v->output == NULL) status = page_beside(first, path);
    if (!status && v->charts != NULL) status = make_folder(v->charts);
    if (!status) status = pdl_output_open(path, &output);
    if (status) return status;
    status = pdl__finish_output(output,
                                pdl_report_page(documents, &(pdl_page_options_t){v->title, v->charts, v->no_core},
                                                pdl_output_stream(output)));
    if (!status && !pdl_output_is_stdout(path)) printf("%s\n", path);
    return status;
}

static pdl_status_t extract(const values_t *v, const pdl_documents_t *documents)
{
    const char *folder = v->output != NULL ? v->output : ".";

    pdl_status_t made = make_folder(folder);

    if (made) return made;
    for (int i = 0; i < pdl_documents_count(documents); i++) {
        char          path[PATH_MAX], name[160];
        pdl_output_t *output;
        pdl_status_t  status;

        if (snprintf(path, sizeof(path), "%s/%s", folder, pdl_documents_file(documents, i, name, sizeof(name))) >=
            PATH_MAX)
            return pdl_error(PDL_ERR_INPUT, "the name after -o is too long");
        status = pdl_output_open(path, &output);
        if (!status)
            status = pdl__finish_output(output, pdl_documents_write(documents, i, pdl_output_stream(output)));
        if (status) return status;
        printf("%s\n", path);
    }
    return PDL_OK;
}

/* What a command prints, as a document; it is computed here, and the page says by which command. */
static pdl_status_t add_computed(pdl_documents_t *documents, const char *name, const char *const *words, int count)
{
    char        *text = NULL;
    size_t       length;
    pdl_status_t status = pdl__capture(words, words, count, &text, &length);

    if (!status) status = pdl_documents_add_text(documents, name, text, length);
    free(text);
    return status;
}

/* A timeline that lies in a file of another name; what cannot be read is left out. */
static void add_timeline(pdl_documents_t *documents, const char *file)
{
    char  *text;
    size_t length;

    if (pdl__file_read_large(file, (size_t)1 << 30, &text, &length)) return;
    if (length > 0) (void)pdl_documents_add_text(documents, "timeline.json", text, length);
    free(text);
}

/* The plan simulated, and its timeline where there is one: that is written to a file, whose name the page need not know. */
static pdl_status_t add_simulation(pdl_documents_t *documents, const char *path)
{
    char         file[] = "/tmp/paradl-XXXXXX", *text = NULL;
    const char  *words[] = {"paradl", "simulate", path, "--json", "--trace", file, NULL};
    const char  *shown[] = {"paradl", "simulate", path, "--json", "--trace", "timeline.json", NULL};
    int          descriptor = mkstemp(file);
    size_t       length;
    pdl_status_t status = pdl__capture(words, shown, descriptor >= 0 ? 6 : 4, &text, &length);

    if (!status) status = pdl_documents_add_text(documents, "simulation.json", text, length);
    free(text);
    if (descriptor < 0) return status;
    if (!status) add_timeline(documents, file);
    close(descriptor);
    unlink(file);
    return status;
}

#define PDL__LORA_WORDS 4
/* Appends the adapters of a plan's model to a command; returns its words. `rank` is the text of a number that outlives it. */
static int add_lora(const pdl_plan_file_t *file, const char **words, int count, char rank[32])
{
    pdl_lora_t lora = pdl_model_lora(file->model);

    if (lora.rank == 0) return count;
    snprintf(rank, 32, "%lld", (long long)lora.rank);
    words[count++] = "--lora";
    words[count++] = rank;
    words[count++] = "--lora-layers";
    words[count++] = pdl_lora_layers_names[lora.layers];
    words[count] = NULL;
    return count;
}

/* The best plans on a quarter of its devices to four times as many; where the machine has not so many, the page goes without. */
static void add_scaling(pdl_documents_t *documents, const pdl_plan_file_t *file)
{
    int64_t     devices = pdl_mesh_size(&file->plan->mesh), each = file->plan->batch / devices;
    char        range[64], samples[32], rank[32];
    const char *words[13 + PDL__LORA_WORDS + 1] = {
        "paradl",         "plan",        "--model",
        file->model_name, "--system",    file->system_name,
        "--devices",      range,         "--samples-per-device",
        samples,          "--precision", pdl_precision_names[file->plan->precision],
        "--json",         NULL};

    snprintf(range, sizeof(range), "%lld..%lld", (long long)(devices > 4 ? devices / 4 : 1),
             (long long)devices * 4);
    snprintf(samples, sizeof(samples), "%lld", (long long)(each > 0 ? each : 1));
    (void)add_computed(documents, "scaling.json", words, add_lora(file, words, 13, rank));
}

/* A plan alone is enough: strategies at its devices and batch, and the plan simulated. */
static pdl_status_t add_plan(pdl_documents_t *documents, const char *path)
{
    pdl_plan_file_t file;
    char            devices[32], batch[32], rank[32];
    pdl_status_t    status = pdl_plan_read(path, &file);

    if (status) return status;
    if (file.system_name[0] == '\0')
        status = pdl_error(PDL_ERR_INPUT,
                           "%s names no system: write one into it, or report what paradl plan --json prints", path);
    snprintf(devices, sizeof(devices), "%lld", (long long)pdl_mesh_size(&file.plan->mesh));
    snprintf(batch, sizeof(batch), "%lld", (long long)file.plan->batch);
    const char *plan[17 + PDL__LORA_WORDS + 1] = {"paradl",       "plan",
                                                  "--model",      file.model_name,
                                                  "--system",     file.system_name,
                                                  "--devices",    devices,
                                                  "--batch",      batch,
                                                  "--precision",  pdl_precision_names[file.plan->precision],
                                                  "--json",       "--layers",
                                                  "--explain",    file.data_name[0] != '\0' ? "--data" : NULL,
                                                  file.data_name, NULL};
    int         count = 0;

    while (plan[count] != NULL) count++;
    if (!status) status = add_computed(documents, "plan.json", plan, add_lora(&file, plan, count, rank));
    if (!status) status = add_simulation(documents, path);
    if (!status) add_scaling(documents, &file);
    pdl_plan_file_free(&file);
    return status;
}

/* Plans are YAML; all else is JSON, or a page. */
static bool is_plan(const char *path)
{
    static const char begin[] = "paradl: plan/";
    char              text[sizeof(begin)] = "";
    FILE             *file = fopen(path, "r");

    if (file == NULL) return false;
    if (fgets(text, sizeof(text), file) == NULL) text[0] = '\0';
    fclose(file);
    return strcmp(text, begin) == 0;
}

static pdl_status_t add(pdl_documents_t *documents, const char *path)
{
    return is_plan(path) ? add_plan(documents, path) : pdl_documents_add(documents, path);
}

static pdl_status_t run(const void *given, const pdl__operands_t *operands)
{
    const values_t  *v = given;
    pdl_documents_t *documents = NULL;
    pdl_status_t     status = pdl_documents_create(&documents);

    if (!status && v->text && v->extract)
        status = pdl_error(PDL_ERR_INPUT, "--text and --extract exclude each other");
    for (int i = 0; !status && i < operands->count; i++) status = add(documents, operands->text[i]);
    if (!status && pdl_documents_count(documents) == 0)
        status = pdl_error(PDL_ERR_INPUT, "%.200s: there are no documents in it", operands->text[0]);
    if (!status && !v->extract) pdl_documents_limit_events(documents, v->max_events);
    if (!status && v->extract)
        status = extract(v, documents);
    else if (!status && v->text)
        status = pdl_report_page_text(documents, v->title, stdout);
    else if (!status)
        status = write_page(v, documents, operands->text[0]);
    pdl_documents_destroy(documents);
    return status;
}

const pdl__command_t pdl__report_commands[] = {
    {.name = "report",
     .usage = "DOCUMENT|PLAN.yaml... [-o PAGE.html] [--title TEXT] [--charts DIR] [--max-events N] [--no-core] "
              "[--text] | --extract "
              "PAGE.html "
              "[-o DIR]",
     .summary = "makes one page of plans, simulations, runs, sweeps and validations",
     .notes = "A document is what --json of a verb prints, or the log of train --log; several are compared. The "
              "page needs no other file\n"
              "and no network, and holds the documents.\n",
     .options = options,
     .values = sizeof(values_t),
     .operands = 1,
     .optional = MOST_INPUTS - 1,
     .run = run},
    {.name = NULL},
};
