/*
 * Embedding and cross-entropy of which every rank has a part of the vocabulary: together the parts compute what the
 * whole layer computes. The ranks are threads here.
 */
#include "op_case.h"
#include "op_meeting.h"
#include "test.h"

#define MAX_PARTS 3

typedef struct split_case {
    const char *text;
    int64_t     samples;
    double      smoothing;
    bool        ignore;   /* some labels are left out, in sample 0 all */
    bool        ties;     /* logits of few values, often several largest */
    bool        evaluate; /* forward only */
    bool        weighted, accumulate;
} split_case_t;

/* The classes [first, first + count) on one rank; the whole layer when `all` is 0. */
typedef struct part {
    const split_case_t *c;
    pdl_backend_t      *backend;
    const pdl_layer_t  *whole;
    meeting_t          *meeting;
    int64_t             first, count, all;
    pdl_layer_t         layer;
    int64_t             out_count, gradient_count;
    double             *out, *gradient; /* of logits, or of the table */
    pdl_status_t        status;
} part_t;

static bool is_table(const part_t *part)
{
    return part->whole->type == PDL_LAYER_EMBEDDING;
}

static double logit(const split_case_t *c, int64_t index)
{
    double value = op_value(1, OP_INPUT, index);

    return c->ties ? floor(value * 2) / 2 : value * 4;
}

/* Index in the plain whole tensor of channel c at a position. */
static int64_t place(const pdl_shape_t *shape, int64_t row, int64_t c)
{
    int64_t positions = pdl_shape_positions(shape);

    return pdl__reference_at(shape, row / positions, c, row % positions);
}

/* With ties, mostly the first or the last of several largest. */
static int32_t label(const part_t *part, int64_t row)
{
    const pdl_shape_t *shape = &part->whole->in;
    int32_t            best = 0;

    if (part->c->ignore && (row < pdl_shape_positions(shape) || row % 3 == 1)) return -1;
    if (!part->c->ties || row % 4 == 1) return op_index(1, OP_TARGET, row, shape->channels);
    for (int32_t c = 1; c < shape->channels; c++) {
        double value = logit(part->c, place(shape, row, c)), largest = logit(part->c, place(shape, row, best));
        if (value > largest || (value == largest && row % 2 == 0)) best = c;
    }
    return best;
}

static void to_backend(const part_t *part, const double *plain, int64_t count, void *target)
{
    if (part->backend->weight_type == PDL_DTYPE_F64) {
        memcpy(target, plain, (size_t)count * sizeof(double));
        return;
    }
    for (int64_t i = 0; i < count; i++) ((float *)target)[i] = (float)plain[i];
}

static double *from_backend(const part_t *part, const void *source, int64_t count)
{
    double *plain = op_doubles(count);

    for (int64_t i = 0; i < count; i++)
        plain[i] = part->backend->weight_type == PDL_DTYPE_F64 ? ((const double *)source)[i]
                                                               : (double)((const float *)source)[i];
    return plain;
}

static void *take(const part_t *part, int64_t count)
{
    return op_take((size_t)count * pdl_dtype_bytes(part->backend->weight_type));
}

/* Tokens and the rows of the table. */
static void fill_table(part_t *part, pdl_op_run_t *run)
{
    int64_t  rows = part->c->samples * part->whole->in.extent[0], channels = part->whole->out.channels;
    int64_t  elements = part->count * channels;
    int32_t *tokens = op_take((size_t)rows * sizeof(*tokens));
    double  *plain = op_doubles(elements > part->out_count ? elements : part->out_count);

    for (int64_t i = 0; i < rows; i++) tokens[i] = op_index(1, OP_INPUT, i, part->whole->vocabulary);
    run->input[0] = tokens;
    run->weight[0] = take(part, elements);
    for (int64_t i = 0; i < elements; i++) plain[i] = op_value(1, OP_WEIGHT, part->first * channels + i);
    to_backend(part, plain, elements, run->weight[0]);
    run->weight_gradient[0] = take(part, elements);
    for (int64_t i = 0; i < elements; i++) plain[i] = op_value(1, OP_START, part->first * channels + i);
    to_backend(part, plain, elements, run->weight_gradient[0]);
    run->output_gradient[0] = take(part, part->out_count);
    for (int64_t i = 0; i < part->out_count; i++) plain[i] = op_value(1, OP_GRADIENT, i);
    to_backend(part, plain, part->out_count, (void *)run->output_gradient[0]);
    free(plain);
}

/* Logits and labels. */
static void fill_logits(part_t *part, pdl_op_run_t *run)
{
    int64_t  rows = part->c->samples * pdl_shape_positions(&part->whole->in);
    int32_t *labels = op_take((size_t)rows * sizeof(*labels));
    float   *weights = op_take((size_t)part->c->samples * sizeof(*weights));
    double  *plain = op_doubles(part->gradient_count);

    for (int64_t row = 0; row < rows; row++) {
        labels[row] = label(part, row);
        for (int64_t c = 0; c < part->count; c++)
            plain[place(&part->layer.in, row, c)] = logit(part->c, place(&part->whole->in, row, part->first + c));
    }
    for (int64_t n = 0; n < part->c->samples; n++)
        weights[n] = part->c->weighted ? (float)(1.5 + op_value(1, OP_SAMPLE_WEIGHT, n)) : 1;
    run->target = labels;
    run->sample_weight = weights;
    run->input[0] = take(part, part->gradient_count);
    to_backend(part, plain, part->gradient_count, (void *)run->input[0]);
    run->input_gradient[0] = take(part, part->gradient_count);
    free(plain);
}

static pdl_op_run_t make_run(part_t *part, const pdl_op_t *op)
{
    pdl_op_run_t run = {.output = op_take(op->description.out_bytes),
                        .saved = op_take(op->description.saved_bytes),
                        .workspace = op_take(op->description.workspace_bytes),
                        .training = !part->c->evaluate,
                        .accumulate = part->c->accumulate,
                        .loss_scale = 0.25,
                        .label_smoothing = part->c->smoothing};

    if (is_table(part))
        fill_table(part, &run);
    else
        fill_logits(part, &run);
    return run;
}

static void free_run(pdl_op_run_t *run)
{
    free(run->output);
    free(run->saved);
    free(run->workspace);
    free((void *)run->input[0]);
    free((void *)run->target);
    free((void *)run->sample_weight);
    free((void *)run->output_gradient[0]);
    free(run->input_gradient[0]);
    free(run->weight[0]);
    free(run->weight_gradient[0]);
}

static pdl_status_t make_op(part_t *part, pdl_op_t **op)
{
    pdl_format_t given = PDL_FORMAT_PLAIN;

    part->layer = *part->whole;
    if (is_table(part))
        part->layer.vocabulary = part->count;
    else
        part->layer.in.channels = part->count;
    part->out_count = part->c->samples * (is_table(part) ? pdl_shape_elements(&part->whole->out) : 3);
    part->gradient_count = is_table(part) ? part->count * part->whole->out.channels
                                          : part->c->samples * pdl_shape_elements(&part->layer.in);

    pdl_op_spec_t spec = {.layer = &part->layer,
                          .inputs = &part->layer.in,
                          .given = &given,
                          .input_count = 1,
                          .samples = part->c->samples,
                          .training = !part->c->evaluate,
                          .input_gradient = !is_table(part),
                          .accumulates = part->c->accumulate,
                          .id = 1,
                          .origin = {.whole = part->whole->out},
                          .first_class = part->all > 0 ? part->first : 0,
                          .classes = part->all};
    return part->backend->ops->op_create(part->backend, &spec, op);
}

static void compute(part_t *part)
{
    const pdl_backend_ops_t *ops = part->backend->ops;
    pdl_op_t                *op;

    part->status = make_op(part, &op);
    if (part->status) return;
    pdl_op_run_t run = make_run(part, op);
    part->status = meeting_run(op, &run, false, 0, part->meeting);
    memset(run.workspace, 0xff, op->description.workspace_bytes);
    if (!part->status && !part->c->evaluate)
        part->status = meeting_run(op, &run, true, PDL_BACKWARD_DATA | PDL_BACKWARD_WEIGHT, part->meeting);
    part->out = from_backend(part, run.output, part->out_count);
    part->gradient =
        from_backend(part, is_table(part) ? run.weight_gradient[0] : run.input_gradient[0], part->gradient_count);
    free_run(&run);
    ops->op_destroy(op);
}

static void *compute_part(void *argument)
{
    part_t *part = argument;

    compute(part);
    if (part->status) printf("a part failed: %s\n", pdl_error_message());
    meeting_leave(part->meeting);
    return NULL;
}

/* The part of the whole gradient that belongs to a part, in its order. */
static double *wanted_gradient(const part_t *whole, const part_t *part)
{
    double *wanted = op_doubles(part->gradient_count);
    int64_t rows = part->c->samples * pdl_shape_positions(&part->whole->in);

    if (is_table(part)) {
        memcpy(wanted, whole->gradient + part->first * part->whole->out.channels,
               (size_t)part->gradient_count * sizeof(double));
        return wanted;
    }
    for (int64_t row = 0; row < rows; row++)
        for (int64_t c = 0; c < part->count; c++)
            wanted[place(&part->layer.in, row, c)] = whole->gradient[place(&part->whole->in, row, part->first + c)];
    return wanted;
}

static void check_parts(const part_t *whole, part_t *parts, int count, double bound)
{
    for (int i = 0; i < count; i++) {
        double *wanted = wanted_gradient(whole, &parts[i]);

        if (!parts[i].c->evaluate)
            CHECK(op_difference(parts[i].gradient, wanted, parts[i].gradient_count) <= bound);
        if (!is_table(whole)) {
            CHECK(op_difference(parts[i].out, whole->out, whole->out_count) <= bound);
            CHECK(memcmp(parts[i].out, parts[0].out, (size_t)whole->out_count * sizeof(double)) == 0);
        }
        free(wanted);
    }
    if (!is_table(whole)) return;
    for (int i = 1; i < count; i++)
        for (int64_t j = 0; j < whole->out_count; j++) parts[0].out[j] += parts[i].out[j];
    CHECK(op_difference(parts[0].out, whole->out, whole->out_count) <= bound);
}

static void run_parts(pdl_backend_t *const *backends, const part_t *whole, int count, double bound)
{
    int64_t   all = whole->count;
    int64_t   bounds[2][MAX_PARTS + 1] = {{0, all / 3, all}, {0, 1, all - all / 2, all}}; /* uneven */
    meeting_t meeting = MEETING_OF(count);
    part_t    parts[MAX_PARTS];
    pthread_t threads[MAX_PARTS];

    for (int i = 0; i < count; i++) {
        const int64_t *at = &bounds[count - 2][i];
        parts[i] = (part_t){.c = whole->c,
                            .backend = backends[i],
                            .whole = whole->whole,
                            .meeting = &meeting,
                            .first = at[0],
                            .count = at[1] - at[0],
                            .all = all};
        CHECK_INT(pthread_create(&threads[i], NULL, compute_part, &parts[i]), 0);
    }
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    pdl_status_t status = PDL_OK;
    for (int i = 0; i < count; i++) status = status ? status : parts[i].status;
    CHECK_OK(status);
    if (!status) check_parts(whole, parts, count, bound);
    for (int i = 0; i < count; i++) {
        free(parts[i].out);
        free(parts[i].gradient);
    }
}

static pdl_backend_t *reference[MAX_PARTS], *cpus[MAX_PARTS], *gpus[MAX_PARTS];

static pdl_model_t *read_model(const char *body)
{
    char         text[512];
    int          length = snprintf(text, sizeof(text), "paradl: model/1\nname: case\n%s\n", body);
    pdl_model_t *model = NULL;

    CHECK_OK(pdl_model_read_yaml_memory(text, (size_t)length, "case", &model));
    return model;
}

static part_t whole_part(const split_case_t *c, const pdl_model_t *model)
{
    part_t part = {.c = c, .backend = reference[0], .whole = pdl_model_layer(model, 1)};

    part.count = is_table(&part) ? part.whole->vocabulary : part.whole->in.channels;
    return part;
}

static const split_case_t cases[] = {
    {.text = "input: {tokens: 7, vocabulary: 5}\nlayers: [{embedding: 3}]", .samples = 2},
    {.text = "input: {tokens: 19, vocabulary: 31}\nlayers: [{embedding: 17}]", .samples = 3, .accumulate = true},
    {.text = "input: {channels: 7}\nlayers: [{cross_entropy: {}}]", .samples = 3},
    {.text = "input: {channels: 33}\nlayers: [{cross_entropy: {}}]", .samples = 4, .smoothing = 0.1},
    {.text = "input: {channels: 9}\nlayers: [{cross_entropy: {}}]", .samples = 40, .ties = true},
    {.text = "input: {channels: 9}\nlayers: [{cross_entropy: {}}]", .samples = 9, .ties = true, .evaluate = true},
    {.text = "input: {tokens: 5, channels: 13}\nlayers: [{cross_entropy: {}}]", .samples = 2, .weighted = true},
    {.text = "input: {tokens: 5, channels: 2503}\nlayers: [{cross_entropy: {}}]",
     .samples = 3,
     .smoothing = 0.2,
     .ignore = true},
    {.text = "input: {channels: 5, size: [9, 11]}\nlayers: [{cross_entropy: {}}]", .samples = 2, .ties = true},
    {.text = "input: {channels: 18, size: [3, 3]}\nlayers: [{cross_entropy: {}}]",
     .samples = 3,
     .smoothing = 0.2,
     .ignore = true,
     .weighted = true},
};

/* Of GPUs only those whose tensors are plain: the tests hand over memory of the host, which the emulated one takes. */
static bool is_tried(const pdl_backend_t *backend, const pdl_layer_t *layer)
{
    return strcmp(backend->ops->name, "cuda") != 0 || layer->in.sequence || layer->in.rank == 0;
}

static void check_all(pdl_backend_t *const *backends, double bound)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pdl_model_t *model = read_model(cases[i].text);
        part_t       whole = whole_part(&cases[i], model);

        compute(&whole);
        CHECK_OK(whole.status);
        for (int count = 2; count <= MAX_PARTS && is_tried(backends[0], whole.whole); count++)
            run_parts(backends, &whole, count, bound);
        free(whole.out);
        free(whole.gradient);
        pdl_model_destroy(model);
    }
}

static void parts_of_the_reference_make_the_whole(void)
{
    check_all(reference, 1e-12);
}

static void parts_on_cpus_make_the_whole(void)
{
    check_all(cpus, 2e-6);
}

static void parts_on_gpus_make_the_whole(void)
{
    check_all(gpus, 2e-6);
}

/* Labels and tokens that no rank has are refused before anybody waits for anybody. */
static void unknown_classes_are_refused(void)
{
    meeting_t alone = MEETING_OF(1);

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int cpu = 0; cpu < 2; cpu++) {
            pdl_model_t *model = read_model(cases[i].text);
            part_t       part = whole_part(&cases[i], model);

            part.backend = cpu ? cpus[0] : reference[0];
            part.meeting = &alone;
            part.all = part.count = 1; /* labels and tokens are drawn from more */
            compute(&part);
            CHECK_INT(part.status, PDL_ERR_INPUT);
            free(part.out);
            free(part.gradient);
            pdl_model_destroy(model);
        }
}

int main(void)
{
    pdl_cpu_options_t  options = {.threads = 1, .precision = PDL_DTYPE_F32};
    pdl_cuda_options_t gpu = {.precision = PDL_DTYPE_F32, .emulated = true};
    pdl_status_t       status = PDL_OK;

    for (int i = 0; i < MAX_PARTS; i++)
        if (pdl_backend_create_reference(&reference[i]) || pdl_backend_create_cpu(&options, &cpus[i])) {
            printf("no backend: %s\n", pdl_error_message());
            return 1;
        }
    RUN(parts_of_the_reference_make_the_whole);
    RUN(parts_on_cpus_make_the_whole);
    for (int i = 0; i < MAX_PARTS && !status; i++) status = pdl_backend_create_cuda(&gpu, &gpus[i]);
    if (status)
        printf("     no emulated GPU here: %s\n", pdl_error_message());
    else
        RUN(parts_on_gpus_make_the_whole);
    RUN(unknown_classes_are_refused);
    for (int i = 0; i < MAX_PARTS; i++) {
        pdl_backend_destroy(reference[i]);
        pdl_backend_destroy(cpus[i]);
        pdl_backend_destroy(gpus[i]);
    }
    return test_done();
}
