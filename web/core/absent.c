/*
 * What a page has otherwise than a machine, or has not: files that are complete when they are written, no plugins, no ranks.
 */
#include "base/plugin.h"
#include "cli/commands.h"
#include "train/state/state_file.h"

#include <errno.h>
#include <paradl/base/output.h>
#include <paradl/base/version.h>
#include <paradl/comm/exchange.h>
#include <paradl/comm/launch.h>
#include <paradl/comm/watch.h>
#include <paradl/tensor/backend.h>

struct pdl_output {
    FILE *stream;
};

bool pdl_output_is_stdout(const char *path)
{
    return strcmp(path, "-") == 0;
}

pdl_status_t pdl_output_open(const char *path, pdl_output_t **output)
{
    pdl_output_t *made = calloc(1, sizeof(*made));

    if (made != NULL) made->stream = pdl_output_is_stdout(path) ? stdout : fopen(path, "w");
    if (made == NULL || made->stream == NULL) {
        free(made);
        return pdl_error(PDL_ERR_IO, "cannot write %.200s: %s", path, strerror(errno));
    }
    *output = made;
    return PDL_OK;
}

FILE *pdl_output_stream(const pdl_output_t *output)
{
    return output->stream;
}

pdl_status_t pdl_output_close(pdl_output_t *output)
{
    pdl_status_t status = pdl_output_flush(output->stream, "a file");

    if (output->stream != stdout) fclose(output->stream);
    free(output);
    return status;
}

void pdl_output_discard(pdl_output_t *output)
{
    if (output != NULL) (void)pdl_output_close(output);
}

void pdl_output_clean_up_on_signals(void)
{
}

pdl_status_t pdl_output_reserve_stdout(void)
{
    return PDL_OK;
}

pdl_status_t pdl_output_flush(FILE *stream, const char *name)
{
    if (fflush(stream) == 0 && !ferror(stream)) return PDL_OK;
    return pdl_error(PDL_ERR_IO, "cannot write %.200s: %s", name, strerror(errno));
}

pdl_status_t pdl__plugin_load(pdl__plugin_id_t id, const char *user, size_t bytes, const void **table)
{
    (void)id, (void)bytes, (void)table;
    return pdl_error(PDL_ERR_UNSUPPORTED, "%.300s needs a library that a page has not: run the command", user);
}

bool pdl__plugin_found(pdl__plugin_id_t id)
{
    (void)id;
    return false;
}

/* What convolutions take on a processor is asked of its library; the memory of plans for processors is that of the formulas. */
pdl_status_t pdl_backend_create_cpu(const pdl_cpu_options_t *options, pdl_backend_t **backend)
{
    (void)options, (void)backend;
    return pdl_error(PDL_ERR_UNSUPPORTED, "a page knows nothing of kernels of processors");
}

void pdl_watch_forget(pdl_ranks_t *ranks)
{
    (void)ranks;
}

void pdl__state_file_destroy(pdl__state_file_t *file)
{
    (void)file;
}

void *pdl_memory_take(size_t bytes)
{
    return malloc(bytes);
}

void pdl_memory_give(void *memory, size_t bytes)
{
    (void)bytes;
    free(memory);
}

bool pdl_launch_speaks(void)
{
    return true;
}

void pdl_launch_let_speak(void)
{
}

pdl_status_t pdl__print_version(FILE *stream)
{
    fprintf(stream, "paradl %s, in a page\n", pdl_version());
    return PDL_OK;
}

/* Paths of a page are what they are. */
char *realpath(const char *path, char *resolved)
{
    return resolved != NULL ? strcpy(resolved, path) : strdup(path);
}

/* Sessions of a page are dry: their buckets have no exchange. */
void pdl_exchange_destroy(pdl_exchange_t *exchange)
{
    (void)exchange;
}
