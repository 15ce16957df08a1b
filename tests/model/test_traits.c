/* Every row of the table of layer types is complete and does not contradict itself. */
#include "model/internal.h"
#include "test.h"

static const pdl_traits_t *row;
static pdl_layer_type_t    type;

/* A condition on the row at hand. */
#define MUST(condition)                                    \
    do {                                                   \
        if (!(condition)) {                                \
            test_fail_at(__FILE__, __LINE__);              \
            printf("%s: not %s\n", row->name, #condition); \
        }                                                  \
    } while (0)

static void for_every_row(void (*check)(void))
{
    for (int t = 0; t < PDL_LAYER_TYPE_COUNT; t++) {
        type = (pdl_layer_type_t)t;
        row = pdl_type_traits(type);
        check();
    }
}

static bool has_attribute(const char *key)
{
    return pdl__attribute_find(type, key) != NULL;
}

static void check_name(void)
{
    CHECK(row->name != NULL && row->name[0] != '\0');
    for (int t = 0; t < (int)type; t++) MUST(strcmp(row->name, pdl_layer_type_name((pdl_layer_type_t)t)) != 0);
    MUST(row->main_attribute == NULL || has_attribute(row->main_attribute));
}

static void rows_have_names(void)
{
    for_every_row(check_name);
    CHECK_STR(pdl_layer_type_name(PDL_LAYER_TYPE_COUNT), "unknown");
}

/* A type is one thing only; what it is decides what else it can be. */
static void check_kind(void)
{
    bool combines = row->combine != PDL_COMBINE_NONE, views = row->view != PDL_VIEW_NONE;
    bool loss = row->loss != PDL_LOSS_NONE, matrix = row->kernel == PDL_KERNEL_MATRIX;

    MUST(row->source + row->tokens + row->norm + row->activation + row->pool + row->drops + combines + views +
             loss + matrix <=
         1);
    MUST(!loss || (row->kernel == PDL_KERNEL_NONE && row->keeps_inputs && !row->linear));
    MUST(!loss || row->positions == PDL_POSITIONS_SUMMED);
    MUST(!row->activation || (row->positions == PDL_POSITIONS_ALONE && row->channels == PDL_CHANNELS_ALONE));
    MUST(!row->activation || (row->keeps_inputs != row->keeps_output && !row->linear));
    MUST(!row->norm || row->keeps_inputs);
    MUST(!views || (row->linear && !row->keeps_inputs && !row->keeps_output));
    MUST(!row->window || (has_attribute("kernel") && has_attribute("stride") && has_attribute("pad")));
    MUST(!row->pool || row->window);
    MUST(!row->transposed || (row->window && matrix));
    MUST((row->positions == PDL_POSITIONS_WINDOW) == (row->window && !row->transposed));
    MUST(!row->drops || (has_attribute("rate") && row->rate > 0));
    MUST(has_attribute("epsilon") == (row->epsilon > 0));
}

static void rows_are_of_one_kind(void)
{
    for_every_row(check_kind);
}

static void check_weights(void)
{
    bool weights = row->kernel != PDL_KERNEL_NONE;

    MUST(weights == has_attribute("init"));
    MUST(row->bias == has_attribute("bias"));
    MUST(!row->bias || row->kernel == PDL_KERNEL_MATRIX || row->kernel == PDL_KERNEL_SCALE);
    MUST(!row->statistics || row->norm);
    MUST((row->initial == PDL_INITIAL_ONE) == (row->kernel == PDL_KERNEL_SCALE));
    MUST((row->initial == PDL_INITIAL_NORMAL) == (row->initial_std > 0));
    MUST((row->work == PDL_WORK_MATRIX) == (row->kernel == PDL_KERNEL_MATRIX));
    MUST((row->work == PDL_WORK_EXPERTS) == (row->kernel == PDL_KERNEL_EXPERTS));
    MUST(row->tokens == (row->kernel == PDL_KERNEL_TABLE));
}

static void rows_say_what_weights_there_are(void)
{
    for_every_row(check_weights);
}

static void check_parallelism(void)
{
    bool filters = row->kernel == PDL_KERNEL_MATRIX || row->kernel == PDL_KERNEL_TABLE;

    MUST((row->channels == PDL_CHANNELS_FILTERS) == filters);
    MUST((row->shared == PDL_SHARED_HEADS) == (row->work == PDL_WORK_ATTENTION));
    MUST((row->shared == PDL_SHARED_EXPERTS) == (row->work == PDL_WORK_EXPERTS));
    MUST((row->shared == PDL_SHARED_VOCABULARY) == (row->tokens || row->loss == PDL_LOSS_CLASSES));
    MUST(!row->fuses_tail || row->activation || row->combine == PDL_COMBINE_SUM);
    MUST(!row->fuses_tail || !row->activation || row->main_attribute == NULL);
    MUST(!row->fuses_head || row->kernel != PDL_KERNEL_NONE);
}

static void rows_say_what_can_be_split_and_fused(void)
{
    for_every_row(check_parallelism);
}

/* Layers that are no products pass over memory, unless they only choose or rename. */
static void check_work(void)
{
    double passes = row->passes.forward_y + row->passes.forward_x;
    bool   renames = row->source || row->view != PDL_VIEW_NONE || type == PDL_LAYER_SELECT;

    MUST((passes > 0) == (row->work == PDL_WORK_ELEMENTS && !renames));
    MUST((passes > 0) == (row->passes.backward_y + row->passes.backward_x > 0));
    MUST(row->flop.weight == 0 || row->kernel != PDL_KERNEL_NONE);
    MUST(row->work == PDL_WORK_ELEMENTS || row->flop.forward == 0);
    MUST((row->flop.per == PDL_FLOP_PER_TERM) == (row->combine != PDL_COMBINE_NONE && row->flop.forward > 0));
}

static void rows_say_what_the_work_is(void)
{
    for_every_row(check_work);
}

int main(void)
{
    RUN(rows_have_names);
    RUN(rows_are_of_one_kind);
    RUN(rows_say_what_weights_there_are);
    RUN(rows_say_what_can_be_split_and_fused);
    RUN(rows_say_what_the_work_is);
    return test_done();
}
