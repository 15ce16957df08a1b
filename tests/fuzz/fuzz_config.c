/*
 * Any bytes given to the reader of config.json yield a model whose layers are consistent, or an error of one line that
 * begins with the file.
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

    if (pdl_model_read_config_memory((const char *)data, size, "input", &model) != PDL_OK) {
        require(model == NULL);
        require(strncmp(pdl_error_message(), "input:", 6) == 0 && strchr(pdl_error_message(), '\n') == NULL);
        return 0;
    }
    pdl_model_totals(model, &totals);
    require(totals.weights > 0 && totals.flop_forward > 0 && totals.y_elements > 0);
    for (int i = 1; i < pdl_model_layer_count(model); i++)
        require(pdl_model_layer(model, i)->inputs[0] < i && pdl_model_layer(model, i)->weights >= 0);
    pdl_model_destroy(model);
    return 0;
}
