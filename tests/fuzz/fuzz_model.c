/*
 * Any bytes given to the model reader yield a model whose layers are consistent and which survives writing and
 * reading, or an error of one line.
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

static void check_layers(const pdl_model_t *model)
{
    for (int i = 0; i < pdl_model_layer_count(model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);

        require(layer->class_id >= 0 && layer->class_id < pdl_model_class_count(model));
        require(layer->y_elements == pdl_shape_elements(&layer->out));
        require(layer->flop_forward >= 0 && layer->flop_backward_data >= 0 && layer->flop_backward_weight >= 0);
        require(layer->weights >= layer->bias_weights);
        for (int k = 0; k < layer->input_count; k++) require(layer->inputs[k] >= 0 && layer->inputs[k] < i);
        require(pdl_model_find_layer(model, layer->name) == i);
    }
}

static void check_round_trip(const pdl_model_t *model)
{
    pdl_model_t *again;
    char        *text;
    size_t       length;
    FILE        *stream = open_memstream(&text, &length);
    pdl_status_t status;

    require(stream != NULL);
    status = pdl_model_write_yaml(model, stream);
    require(status == PDL_OK);
    fclose(stream);
    status = pdl_model_read_yaml_memory(text, length, "written", &again);
    require(status == PDL_OK);
    require(pdl_model_hash(again) == pdl_model_hash(model));
    pdl_model_destroy(again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl_model_t *model = NULL;

    if (pdl_model_read_yaml_memory((const char *)data, size, "input", &model) != PDL_OK) {
        require(model == NULL);
        require(pdl_error_message()[0] != '\0' && strchr(pdl_error_message(), '\n') == NULL);
        return 0;
    }
    check_layers(model);
    if (pdl_model_layer_count(model) < 200) check_round_trip(model);
    pdl_model_destroy(model);
    return 0;
}
