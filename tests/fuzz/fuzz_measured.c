/*
 * Any bytes given as a log or a trace yield the time of an iteration, or an error of one line that begins with the file.
 */
#include <paradl/validate/measured_run.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Holds in release builds too, where assert() is empty. */
static void require(bool condition)
{
    if (!condition) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_measured_run_t run;

    if (pdl_measured_run_read_memory((const char *)data, size, "input", &run) == PDL_OK) {
        require(run.iteration_s > 0 && run.iterations > 0);
        return 0;
    }
    require(strncmp(pdl_error_message(), "input:", 6) == 0 && strchr(pdl_error_message(), '\n') == NULL);
    return 0;
}
