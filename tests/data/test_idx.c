/* IDX files, plain and compressed, whole and damaged; the real Fashion-MNIST where it is installed. */
#include "files.h"

enum { COUNT = 5, HEIGHT = 3, WIDTH = 4, PIXELS = HEIGHT * WIDTH };

static uint8_t images[16 + COUNT * PIXELS], labels[8 + COUNT];

static void put_number(uint8_t *place, uint32_t number)
{
    place[0] = (uint8_t)(number >> 24);
    place[1] = (uint8_t)(number >> 16);
    place[2] = (uint8_t)(number >> 8);
    place[3] = (uint8_t)number;
}

static void make(void)
{
    int i;

    put_number(images, 0x803);
    put_number(images + 4, COUNT);
    put_number(images + 8, HEIGHT);
    put_number(images + 12, WIDTH);
    for (i = 0; i < COUNT * PIXELS; i++) images[16 + i] = (uint8_t)(i * 4);
    put_number(labels, 0x801);
    put_number(labels + 4, COUNT);
    for (i = 0; i < COUNT; i++) labels[8 + i] = (uint8_t)(i % 3);
}

static const char *folder_with(const char *name, size_t image_size, size_t label_size)
{
    const char *folder = in_scratch("%s", name);

    make_folder(folder);
    write_file(in_scratch("%s/train-images-idx3-ubyte", name), images, image_size);
    write_file(in_scratch("%s/train-labels-idx1-ubyte", name), labels, label_size);
    return folder;
}

static void check_samples(pdl_source_t *source)
{
    const pdl_source_info_t *info = pdl_source_info(source);
    float                    values[PIXELS];
    int32_t                  label;
    pdl_sample_t             sample = {.values = values, .labels = &label};
    int                      i, p;

    CHECK_INT(info->samples, COUNT);
    CHECK_INT(info->classes, 3);
    CHECK_INT(info->target, PDL_TARGET_CLASS);
    CHECK_INT(info->target_count, 1);
    CHECK_INT(info->mean_count, 0);
    CHECK_NEAR(info->bytes_per_sample, PIXELS + 1, 0);
    for (i = 0; i < COUNT; i++) {
        CHECK_OK(pdl_source_read(source, i, &sample));
        CHECK_INT(label, i % 3);
        for (p = 0; p < PIXELS; p++) CHECK_NEAR(values[p], (float)images[16 + i * PIXELS + p] / 255.0f, 0);
    }
    CHECK_ERROR(pdl_source_read(source, COUNT, &sample), "no sample 5");
    CHECK_ERROR(pdl_source_read(source, -1, &sample), "no sample -1");
    CHECK_ERROR(pdl_source_read(source, 0, &(pdl_sample_t){.values = values}), "no place");
}

static void reads_plain_and_compressed(void)
{
    pdl_source_t *source;
    const char   *folder;

    make();
    CHECK_OK(open_plain(folder_with("plain", sizeof(images), sizeof(labels)), &source));
    CHECK_STR(pdl_source_info(source)->name, "plain");
    check_samples(source);
    pdl_source_close(source);

    folder = in_scratch("gz");
    make_folder(folder);
    write_gzip(in_scratch("gz/t10k-images-idx3-ubyte.gz"), images, sizeof(images));
    write_gzip(in_scratch("gz/t10k-labels-idx1-ubyte.gz"), labels, sizeof(labels));
    CHECK_OK(open_with(folder, PDL_SPLIT_VALID, IMAGE(1, HEIGHT, WIDTH), &source));
    check_samples(source);
    pdl_source_close(source);
    CHECK_REFUSED(folder, "train-images-idx3-ubyte");
}

static void fits_the_model(void)
{
    pdl_source_t *source;
    float         values[3 * 8 * 8];
    int32_t       label;
    pdl_sample_t  sample = {.values = values, .labels = &label};
    const char   *folder = in_scratch("plain");
    int           p;

    CHECK_OK(open_with(folder, PDL_SPLIT_TRAIN, IMAGE(3, 3, 4), &source));
    CHECK_OK(pdl_source_read(source, 1, &sample));
    for (p = 0; p < 3 * PIXELS; p++) CHECK_NEAR(values[p], (float)images[16 + PIXELS + p % PIXELS] / 255.0f, 0);
    pdl_source_close(source);

    /* Twice as large: the image covers 6 x 8, the centre of 6 x 6 is kept; its first pixel is a quarter of the way
       from pixel 0 to 1, and in the second row also a quarter of the way down. */
    CHECK_OK(open_with(folder, PDL_SPLIT_TRAIN, IMAGE(1, 6, 6), &source));
    CHECK_OK(pdl_source_read(source, 0, &sample));
    CHECK_NEAR(values[0], 0.25 * 4 / 255, 1e-5);
    CHECK_NEAR(values[6], (0.25 * 4 + 0.25 * 16) / 255, 1e-5);
    pdl_source_close(source);

    CHECK_OK(open_with(folder, PDL_SPLIT_TRAIN, (pdl_shape_t){.channels = PIXELS}, &source));
    CHECK_OK(pdl_source_read(source, 2, &sample));
    CHECK_NEAR(values[5], (float)images[16 + 2 * PIXELS + 5] / 255.0f, 0);
    pdl_source_close(source);

    CHECK_ERROR(open_with(folder, PDL_SPLIT_TRAIN, SEQUENCE(8), &source), "holds images of 1x3x4");
    CHECK_ERROR(open_with(folder, PDL_SPLIT_TRAIN, IMAGE(4, 3, 4), &source), "the model reads 4x3x4");
}

static void refuses_damaged_files(void)
{
    uint8_t saved[sizeof(images)], saved_labels[sizeof(labels)];

    memcpy(saved, images, sizeof(images));
    memcpy(saved_labels, labels, sizeof(labels));
    CHECK_REFUSED(folder_with("cut", sizeof(images) - 1, sizeof(labels)), "75 bytes where its header says 76");
    CHECK_REFUSED(folder_with("head", 7, sizeof(labels)), "too short for its header");
    CHECK_REFUSED(folder_with("none", 0, sizeof(labels)), "is empty");
    put_number(labels + 4, COUNT - 1);
    CHECK_REFUSED(folder_with("fewer", sizeof(images), sizeof(labels) - 1), "4 labels for 5 images");
    memcpy(labels, saved_labels, sizeof(labels));
    put_number(images + 4, 0xffffffff);
    put_number(images + 8, 0xffffffff);
    CHECK_REFUSED(folder_with("huge", sizeof(images), sizeof(labels)), "larger than any file");
    put_number(images + 4, 0);
    CHECK_REFUSED(folder_with("zero", sizeof(images), sizeof(labels)), "no samples");
    memcpy(images, saved, sizeof(images));
    images[2] = 0x0d;
    CHECK_REFUSED(folder_with("float", sizeof(images), sizeof(labels)), "only bytes");
    images[0] = 'x';
    CHECK_REFUSED(folder_with("magic", sizeof(images), sizeof(labels)), "not an IDX file");
    memcpy(images, labels, sizeof(labels));
    CHECK_REFUSED(folder_with("rank", sizeof(labels), sizeof(labels)), "images have rank 3");
    memcpy(images, saved, sizeof(images));
}

static void refuses_bombs_and_wrong_labels(void)
{
    static uint8_t       bomb[1 << 20];
    pdl_source_t        *source;
    pdl_source_options_t options = {.classes = 2};

    make_folder(in_scratch("bomb"));
    memcpy(bomb, images, sizeof(images));
    write_gzip(in_scratch("bomb/train-images-idx3-ubyte.gz"), bomb, sizeof(bomb));
    write_file(in_scratch("bomb/train-labels-idx1-ubyte"), labels, sizeof(labels));
    CHECK_REFUSED(in_scratch("bomb"), "more than the 76 bytes expected");
    write_file(in_scratch("bomb/train-images-idx3-ubyte.gz"), "\x1f\x8b\x08\x00garbage", 11);
    CHECK_REFUSED(in_scratch("bomb"), "gzip stream");
    CHECK_ERROR(pdl_source_open(in_scratch("plain"), &options, &source),
                "holds 3 classes, the model tells 2 apart");
}

static void names_what_is_missing(void)
{
    pdl_source_t        *source;
    pdl_source_options_t options = {.folder = files_folder};

    CHECK_ERROR(pdl_source_open("mnist", &options, &source), "run: paradl data get mnist");
    CHECK(strstr(pdl_error_message(), files_folder) != NULL);
    CHECK_ERROR(pdl_source_open("imagenet", &options, &source), "give its path");
    CHECK_ERROR(pdl_source_open("mnits", &options, &source), "did you mean mnist");
    CHECK_ERROR(pdl_source_open("no/such/folder", &options, &source), "no data set at");
    make_folder(in_scratch("nothing"));
    CHECK_REFUSED(in_scratch("nothing"), "no data in it");
    write_file(in_scratch("nothing.xyz"), "x", 1);
    CHECK_REFUSED(in_scratch("nothing.xyz"), "not a kind of file");
    make_folder(in_scratch("mnist"));
    CHECK_ERROR(pdl_source_open("mnist", &options, &source), "not both there; run: paradl data get mnist");
    rmdir(in_scratch("mnist"));
    options.valid_share = 1.5;
    CHECK_ERROR(pdl_source_open("synthetic", &options, &source), "share of validation");
}

static void a_known_set_has_its_means(void)
{
    pdl_source_t        *source;
    pdl_source_options_t options = {.folder = files_folder};

    rename(in_scratch("plain"), in_scratch("mnist"));
    REQUIRE_OK(pdl_source_open("mnist", &options, &source));
    CHECK_INT(pdl_source_info(source)->classes, 10);
    CHECK_INT(pdl_source_info(source)->mean_count, 1);
    CHECK_NEAR(pdl_source_info(source)->mean[0], 0.13066, 1e-9);
    pdl_source_close(source);
    options.classes = 9;
    CHECK_ERROR(pdl_source_open("mnist", &options, &source), "holds 10 classes, the model tells 9 apart");
    labels[9] = 11;
    write_file(in_scratch("mnist/train-labels-idx1-ubyte"), labels, sizeof(labels));
    options.classes = 0;
    CHECK_ERROR(pdl_source_open("mnist", &options, &source), "a label is 11, but the set has 10 classes");
}

/* Mean and deviation of all training pixels as published. */
static void reads_fashion_mnist(void)
{
    pdl_source_t        *source;
    pdl_source_options_t options = {.folder = files_folder};
    static float         values[28 * 28];
    int32_t              label, count[10] = {0};
    pdl_sample_t         sample = {.values = values, .labels = &label};
    double               sum = 0, squares = 0, mean;
    int64_t              i;
    int                  p;

    if (pdl_source_open("fashion-mnist", &options, &source) != PDL_OK) {
        printf("     fashion-mnist is not installed: left out\n");
        return;
    }
    CHECK_INT(pdl_source_info(source)->samples, 60000);
    for (i = 0; i < 60000; i++) {
        CHECK_OK(pdl_source_read(source, i, &sample));
        count[label]++;
        for (p = 0; p < 28 * 28; p++) {
            sum += values[p];
            squares += (double)values[p] * values[p];
        }
    }
    mean = sum / (60000.0 * 784);
    CHECK_NEAR(mean, pdl_source_info(source)->mean[0], 2e-5);
    CHECK_NEAR(sqrt(squares / (60000.0 * 784) - mean * mean), pdl_source_info(source)->deviation[0], 2e-5);
    for (p = 0; p < 10; p++) CHECK_INT(count[p], 6000);
    pdl_source_close(source);
    options.split = PDL_SPLIT_VALID;
    REQUIRE_OK(pdl_source_open("fashion-mnist", &options, &source));
    CHECK_INT(pdl_source_info(source)->samples, 10000);
    pdl_source_close(source);
}

int main(void)
{
    files_begin();
    RUN(reads_plain_and_compressed);
    RUN(fits_the_model);
    RUN(refuses_damaged_files);
    RUN(refuses_bombs_and_wrong_labels);
    RUN(names_what_is_missing);
    RUN(a_known_set_has_its_means);
    RUN(reads_fashion_mnist);
    return test_done();
}
