/* Made-up samples: the same at every reading, and such that they can be learnt. */
#include "files.h"

static pdl_source_t *open_synthetic(pdl_split_t split, pdl_target_t target, pdl_shape_t shape, int64_t classes)
{
    pdl_source_options_t options = {
        .split = split, .target = target, .shape = shape, .classes = classes, .samples = 400};
    pdl_source_t *source = NULL;

    REQUIRE_OK(pdl_source_open("synthetic", &options, &source));
    return source;
}

/* The mean of the training samples of a class is close to the validation samples of that class. */
static void classes_can_be_told_apart(void)
{
    enum { CLASSES = 5, ELEMENTS = 2 * 9 * 7 };
    pdl_source_t *train = open_synthetic(PDL_SPLIT_TRAIN, PDL_TARGET_CLASS, IMAGE(2, 9, 7), CLASSES);
    pdl_source_t *valid = open_synthetic(PDL_SPLIT_VALID, PDL_TARGET_CLASS, IMAGE(2, 9, 7), CLASSES);
    static double mean[CLASSES][ELEMENTS];
    float         values[ELEMENTS];
    int32_t       label;
    pdl_sample_t  sample = {.values = values, .labels = &label};
    int           count[CLASSES] = {0}, right = 0, i, c, e;

    CHECK_INT(pdl_source_info(train)->samples, 400);
    CHECK_INT(pdl_source_info(valid)->samples, 40);
    for (i = 0; i < 400; i++) {
        CHECK_OK(pdl_source_read(train, i, &sample));
        count[label]++;
        for (e = 0; e < ELEMENTS; e++) mean[label][e] += values[e];
    }
    for (c = 0; c < CLASSES; c++) CHECK(count[c] > 40);
    for (i = 0; i < 40; i++) {
        double best = 1e30;
        int    guess = -1;

        CHECK_OK(pdl_source_read(valid, i, &sample));
        for (c = 0; c < CLASSES; c++) {
            double distance = 0;

            for (e = 0; e < ELEMENTS; e++) distance += pow(mean[c][e] / count[c] - values[e], 2);
            if (distance < best) guess = c;
            if (distance < best) best = distance;
        }
        right += guess == label;
    }
    CHECK(right >= 36);
    pdl_source_close(train);
    pdl_source_close(valid);
}

static void reading_again_gives_the_same(void)
{
    enum { ELEMENTS = 4 * 5 * 6 * 300 };
    const pdl_shape_t shape = {.channels = 4, .extent = {5, 6, 300}, .rank = 3};
    pdl_source_t     *source = open_synthetic(PDL_SPLIT_TRAIN, PDL_TARGET_VALUES, shape, 4);
    float            *a = malloc(ELEMENTS * sizeof(float)), *b = malloc(ELEMENTS * sizeof(float));
    float             targets[4], again[4];
    double            sum = 0;
    int               e;

    CHECK_INT(pdl_source_info(source)->target_count, 4);
    CHECK_INT(pdl_source_info(source)->classes, 0);
    CHECK_OK(pdl_source_read(source, 7, &(pdl_sample_t){.values = a, .numbers = targets}));
    CHECK_OK(pdl_source_read(source, 8, &(pdl_sample_t){.values = b, .numbers = again}));
    CHECK(memcmp(targets, again, sizeof(targets)) != 0);
    CHECK_OK(pdl_source_read(source, 7, &(pdl_sample_t){.values = b, .numbers = again}));
    CHECK(memcmp(a, b, ELEMENTS * sizeof(float)) == 0 && memcmp(targets, again, sizeof(targets)) == 0);
    /* The first quarter of the last axis of the first rows is at the level of the first target. */
    for (e = 0; e < 75; e++) sum += a[e];
    CHECK(fabs(sum / 75 - targets[0]) < 0.3);
    free(a);
    free(b);
    pdl_source_close(source);
}

static void masks_follow_the_values(void)
{
    pdl_source_t *source = open_synthetic(PDL_SPLIT_TRAIN, PDL_TARGET_MASK, IMAGE(3, 8, 8), 3);
    float         values[192];
    int32_t       labels[64], seen[3] = {0};
    int           i;

    CHECK_INT(pdl_source_info(source)->target_count, 64);
    CHECK_OK(pdl_source_read(source, 0, &(pdl_sample_t){.values = values, .labels = labels}));
    for (i = 0; i < 64; i++) {
        CHECK(labels[i] >= 0 && labels[i] < 3);
        seen[labels[i]]++;
        CHECK_INT(labels[i], labels[i / 16 * 16 + i % 8 / 2 * 2]);
    }
    CHECK(seen[0] < 64 && seen[1] < 64 && seen[2] < 64);
    pdl_source_close(source);
}

/* Each token is followed by at most four others. */
static void tokens_have_few_successors(void)
{
    enum { WORDS = 10, LENGTH = 50 };
    pdl_source_t *source = open_synthetic(PDL_SPLIT_TRAIN, PDL_TARGET_TOKENS, SEQUENCE(LENGTH), WORDS);
    int32_t       tokens[LENGTH], labels[LENGTH], shifted[LENGTH];
    bool          follows[WORDS][WORDS] = {{false}};
    int           i, j, count;

    CHECK(pdl_source_info(source)->tokens);
    CHECK_INT(pdl_source_info(source)->classes, WORDS);
    for (i = 0; i < 100; i++) {
        CHECK_OK(pdl_source_read(source, i, &(pdl_sample_t){.tokens = tokens, .labels = labels}));
        for (j = 0; j < LENGTH; j++) follows[tokens[j]][labels[j]] = true;
        for (j = 1; j < LENGTH; j++) CHECK_INT(tokens[j], labels[j - 1]);
    }
    for (i = 0; i < WORDS; i++) {
        for (count = 0, j = 0; j < WORDS; j++) count += follows[i][j];
        CHECK(count <= 4);
    }
    CHECK_OK(pdl_source_read(source, 99, &(pdl_sample_t){.tokens = shifted, .labels = labels, .shift = 3}));
    for (j = 0; j + 3 < LENGTH; j++) CHECK_INT(shifted[j], tokens[j + 3]);
    pdl_source_close(source);
}

static void takes_vectors_and_refuses_nonsense(void)
{
    pdl_source_t *source = open_synthetic(PDL_SPLIT_TRAIN, PDL_TARGET_CLASS, (pdl_shape_t){.channels = 30}, 2);
    pdl_source_options_t options = {.shape = IMAGE(3, 0, 5)};
    float                values[30];
    int32_t              label;

    CHECK_OK(pdl_source_read(source, 399, &(pdl_sample_t){.values = values, .labels = &label}));
    pdl_source_close(source);
    CHECK_ERROR(pdl_source_open("synthetic", &options, &source), "cannot be made");
    options.shape = IMAGE(INT64_MAX / 2, 1000, 1000);
    CHECK_ERROR(pdl_source_open("synthetic", &options, &source), "cannot be made");
    options.shape = IMAGE(3, 8, 8);
    options.target = PDL_TARGET_TOKENS;
    CHECK_ERROR(pdl_source_open("synthetic", &options, &source), "sequences");
    options = (pdl_source_options_t){0};
    REQUIRE_OK(pdl_source_open("synthetic", &options, &source));
    CHECK_INT(pdl_source_info(source)->shape.channels, 3);
    CHECK_INT(pdl_source_info(source)->classes, 10);
    pdl_source_close(source);
}

int main(void)
{
    RUN(classes_can_be_told_apart);
    RUN(reading_again_gives_the_same);
    RUN(masks_follow_the_values);
    RUN(tokens_have_few_successors);
    RUN(takes_vectors_and_refuses_nonsense);
    return test_done();
}
