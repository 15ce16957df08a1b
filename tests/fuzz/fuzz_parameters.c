/*
 * Any bytes given to the reader of parameter sets yield finite parameters that come out the same when they are written
 * and read again, or an error that names the file.
 */
#define _GNU_SOURCE
#include <paradl/oracle/oracle.h>

#include "as_file.h"

#include <assert.h>
#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static double value_of(const pdl_parameters_t *parameters, int i)
{
    double value;

    memcpy(&value, (const char *)parameters + pdl_parameter_info[i].offset, sizeof(value));
    return value;
}

static void require_same_again(const pdl_parameters_t *parameters)
{
    pdl_parameters_t again;
    fuzz_file_t      file;
    char            *text = NULL;
    size_t           length;
    FILE            *stream = open_memstream(&text, &length);
    int              i;

    assert(stream != NULL && pdl_parameters_write(parameters, "again", stream) == PDL_OK);
    fclose(stream);
    file = fuzz_file_make((const uint8_t *)text, length);
    if (pdl_parameters_load(file.path, &again) != PDL_OK) abort();
    for (i = 0; i < pdl_parameter_count; i++) {
        const double first = value_of(parameters, i);

        assert(isfinite(first) && fabs(value_of(&again, i) - first) <= 1e-3 * fabs(first));
    }
    fuzz_file_close(&file);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const fuzz_file_t file = fuzz_file_make(data, size);
    pdl_parameters_t  parameters;

    if (pdl_parameters_load(file.path, &parameters) == PDL_OK) {
        require_same_again(&parameters);
    } else {
        assert(strstr(pdl_error_message(), file.path) != NULL);
    }
    fuzz_file_close(&file);
    return 0;
}
