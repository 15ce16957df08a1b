/*
 * Reading a measured run: numbers as text, a log of lines, or a trace.
 */
#include "validate/measured/measured.h"

#include "base/file.h"
#include "base/sorted.h"

#include <paradl/base/units.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES   ((size_t)1 << 30)
#define LEAST_MEMORY (1 << 20)

pdl_measured_run_t pdl__measured_nothing(void)
{
    return (pdl_measured_run_t){.iteration_s = NAN,
                                .compute_s = NAN,
                                .product_s = NAN,
                                .comm_s = NAN,
                                .overlapped_s = NAN,
                                .idle_s = NAN,
                                .io_s = NAN,
                                .memory_bytes = NAN};
}

/* Lines of a log of ours: what an update took. The first five are left out where there are enough. */
pdl_status_t pdl__measured_log(pdl_arena_t *arena, const char *text, size_t length, const char *name,
                               pdl_measured_run_t *run)
{
    static const char *const keys[4] = {"step_s", "compute_s", "comm_s", "io_s"};
    const char              *end = text + length;
    double                  *values[4];
    int                      count = 0, capacity = 1, skip;

    for (const char *p = text; p < end; p++) capacity += *p == '\n';
    for (int k = 0; k < 4; k++) {
        values[k] = pdl_arena_alloc(arena, (size_t)capacity, sizeof(double));
        if (values[k] == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", name);
    }
    for (int line = 1; text < end; line++) {
        const char       *stop = memchr(text, '\n', (size_t)(end - text));
        size_t            size = (size_t)((stop != NULL ? stop : end) - text);
        pdl_json_value_t *value;

        /* A last line that a kill has torn is no mistake. */
        if (size > 0 && pdl_json_read(arena, text, size, name, line, &value)) {
            if (stop != NULL) return PDL_ERR_INPUT;
        } else if (size > 0 && !isnan(pdl_json_number_of(value, "step_s"))) {
            for (int k = 0; k < 4; k++) values[k][count] = pdl_json_number_of(value, keys[k]);
            count++;
        }
        text += size + 1;
    }
    if (count == 0)
        return pdl_error(PDL_ERR_INPUT,
                         "%s: no line has step_s: give the log that paradl train --log wrote, a trace of "
                         "PyTorch's profiler, or iteration_s=SECONDS",
                         name);
    skip = count > 10 ? 5 : count > 1 ? 1 : 0;
    run->iterations = count - skip;
    run->iteration_s = pdl__median(values[0] + skip, (size_t)(count - skip));
    run->compute_s = pdl__median(values[1] + skip, (size_t)(count - skip));
    run->comm_s = pdl__median(values[2] + skip, (size_t)(count - skip));
    run->io_s = pdl__median(values[3] + skip, (size_t)(count - skip));
    snprintf(run->source, sizeof(run->source), "%d updates of the log %.100s", run->iterations, name);
    return PDL_OK;
}

/* Slips of those who type: parts of another iteration, and gigabytes without their unit. */
static pdl_status_t check_numbers(const pdl_measured_run_t *run)
{
    const double part[] = {run->compute_s, run->comm_s, run->idle_s, run->io_s};
    double       sum = 0;

    for (int i = 0; i < 4; i++) sum += isnan(part[i]) ? 0 : part[i];
    if (sum > 1.001 * run->iteration_s)
        return pdl_error(
            PDL_ERR_INPUT,
            "--measured: the parts take %g s, longer than iteration_s=%g: comm_s is communication that is "
            "not overlapped",
            sum, run->iteration_s);
    if (run->memory_bytes < LEAST_MEMORY)
        return pdl_error(PDL_ERR_INPUT, "--measured: memory=%g is in bytes: add a unit, such as memory=%gGiB",
                         run->memory_bytes, run->memory_bytes);
    return PDL_OK;
}

/* "iteration_s=2.1,comm_s=400ms,memory=70GiB" */
static pdl_status_t read_numbers(const char *text, pdl_measured_run_t *run)
{
    const struct {
        const char *key;
        pdl_unit_t  unit;
        double     *value;
    } known[] = {{"iteration_s", PDL_UNIT_SECONDS, &run->iteration_s},
                 {"compute_s", PDL_UNIT_SECONDS, &run->compute_s},
                 {"comm_s", PDL_UNIT_SECONDS, &run->comm_s},
                 {"idle_s", PDL_UNIT_SECONDS, &run->idle_s},
                 {"io_s", PDL_UNIT_SECONDS, &run->io_s},
                 {"memory", PDL_UNIT_BYTES, &run->memory_bytes}};

    while (*text != '\0') {
        size_t length = strcspn(text, ","), name = strcspn(text, "="), k = 0;
        char   number[40];

        while (k < 6 && (strlen(known[k].key) != name || strncmp(text, known[k].key, name) != 0)) k++;
        if (k == 6 || name >= length)
            return pdl_error(
                PDL_ERR_INPUT,
                "--measured: \"%.40s\" is no file and none of iteration_s=, compute_s=, comm_s=, idle_s=, "
                "io_s= and memory=",
                text);
        if (!isnan(*known[k].value))
            return pdl_error(PDL_ERR_INPUT, "--measured: %s is given twice: leave one out", known[k].key);
        snprintf(number, sizeof(number), "%.*s", (int)fmin((double)(length - name - 1), 39), text + name + 1);
        if (pdl_parse_quantity(number, known[k].unit, known[k].value))
            return pdl_error(PDL_ERR_INPUT, "--measured: %s: %s", known[k].key, pdl_error_message());
        text += length + (text[length] == ',');
    }
    snprintf(run->source, sizeof(run->source), "numbers given by hand");
    return check_numbers(run);
}

static pdl_status_t check(const pdl_measured_run_t *run, const char *name)
{
    if (run->iteration_s > 0) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "%s: the time of an iteration is missing: add iteration_s=SECONDS", name);
}

pdl_status_t pdl_measured_run_read_memory(const char *text, size_t length, const char *name,
                                          pdl_measured_run_t *run)
{
    pdl_arena_t       *arena = pdl_arena_create();
    pdl_json_value_t  *root = NULL;
    pdl_measured_run_t read = pdl__measured_nothing();
    bool               lines = false;
    pdl_status_t       status;

    if (arena == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", name);
    /* One document is a trace, or the document of a run; else it is lines. */
    status = pdl_json_read(arena, text, length, name, 1, &root);
    lines = status == PDL_ERR_INPUT && memchr(text, '\n', length) != NULL && length > 0 && text[0] == '{' &&
            memchr(text, '}', (size_t)((const char *)memchr(text, '\n', length) - text)) != NULL;
    if (lines || (!status && !isnan(pdl_json_number_of(root, "step_s"))))
        status = pdl__measured_log(arena, text, length, name, &read);
    else if (!status)
        status = pdl__measured_trace(arena, root, name, &read);
    if (!status) status = check(&read, name);
    if (!status) *run = read;
    pdl_arena_destroy(arena);
    return status;
}

/* Handlers of PyTorch's profiler may compress what they write. */
static bool is_compressed(const char *text, size_t length)
{
    return length >= 2 && (unsigned char)text[0] == 0x1f && (unsigned char)text[1] == 0x8b;
}

pdl_status_t pdl_measured_run_read(const char *given, pdl_measured_run_t *run)
{
    pdl_measured_run_t read = pdl__measured_nothing();
    char              *text;
    size_t             length;
    pdl_status_t       status;

    if (strchr(given, '=') != NULL && strchr(given, '/') == NULL) {
        status = read_numbers(given, &read);
        if (!status) status = check(&read, "--measured");
        if (!status) *run = read;
        return status;
    }
    status = pdl__file_read_large(given, MOST_BYTES, &text, &length);
    if (status) return status;
    if (is_compressed(text, length))
        status = pdl_error(PDL_ERR_INPUT, "%s: the file is compressed: unpack it first, gunzip %s", given, given);
    else
        status = pdl_measured_run_read_memory(text, length, given, run);
    free(text);
    return status;
}
