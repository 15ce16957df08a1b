/*
 * Any bytes given to the reader of .net files yield a table of layers, or an error with file and line.
 */
#include <paradl/model/model.h>

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
    pdl_model_t       *model = NULL;
    pdl_model_totals_t totals;

    if (pdl_model_read_net_memory((const char *)data, size, "input", &model) != PDL_OK) {
        require(model == NULL);
        require(strncmp(pdl_error_message(), "input:", 6) == 0);
        return 0;
    }
    require(!pdl_model_trainable(model));
    pdl_model_totals(model, &totals);
    require(totals.weights >= 0 && totals.flop_forward >= 0 && totals.y_elements >= 0);
    pdl_model_destroy(model);
    return 0;
}
