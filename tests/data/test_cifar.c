/* CIFAR files: both sets, several files, damaged ones. */
#include "files.h"

enum { PIXELS = 3072, RECORD10 = PIXELS + 1, RECORD100 = PIXELS + 2 };

static uint8_t records[4 * RECORD100];

/* `labels` bytes before the pixels; record i has class i + first. */
static void make(int labels, int count, int first)
{
    int i, p;

    for (i = 0; i < count; i++) {
        uint8_t *record = records + i * (PIXELS + labels);

        record[0] = 19;
        record[labels - 1] = (uint8_t)(first + i);
        for (p = 0; p < PIXELS; p++) record[labels + p] = (uint8_t)(p + first + i);
    }
}

static void check_sample(pdl_source_t *source, int64_t index, int class)
{
    static float values[PIXELS];
    int32_t      label;
    pdl_sample_t sample = {.values = values, .labels = &label};

    CHECK_OK(pdl_source_read(source, index, &sample));
    CHECK_INT(label, class);
    CHECK_NEAR(values[0], (float)(uint8_t) class / 255.0f, 0);
    CHECK_NEAR(values[PIXELS - 1], (float)(uint8_t)(PIXELS - 1 + class) / 255.0f, 0);
}

static void reads_cifar10(void)
{
    pdl_source_t *source;

    make_folder(in_scratch("ten"));
    make(1, 3, 0);
    write_file(in_scratch("ten/data_batch_1.bin"), records, 3 * RECORD10);
    make(1, 2, 3);
    write_file(in_scratch("ten/data_batch_2.bin"), records, 2 * RECORD10);
    make(1, 1, 9);
    write_file(in_scratch("ten/test_batch.bin"), records, RECORD10);
    CHECK_OK(open_plain(in_scratch("ten"), &source));
    CHECK_INT(pdl_source_info(source)->samples, 5);
    CHECK_INT(pdl_source_info(source)->classes, 10);
    CHECK_INT(pdl_source_info(source)->mean_count, 3);
    CHECK_NEAR(pdl_source_info(source)->deviation[2], 0.26158784, 1e-9);
    check_sample(source, 0, 0);
    check_sample(source, 2, 2);
    check_sample(source, 3, 3);
    check_sample(source, 4, 4);
    pdl_source_close(source);
    CHECK_OK(open_with(in_scratch("ten"), PDL_SPLIT_VALID, IMAGE(3, 32, 32), &source));
    CHECK_INT(pdl_source_info(source)->samples, 1);
    check_sample(source, 0, 9);
    pdl_source_close(source);
}

static void reads_cifar100(void)
{
    pdl_source_t *source;

    make_folder(in_scratch("hundred"));
    make(2, 2, 97);
    write_file(in_scratch("hundred/train.bin"), records, 2 * RECORD100);
    make(2, 1, 5);
    write_file(in_scratch("hundred/test.bin"), records, RECORD100);
    CHECK_OK(open_plain(in_scratch("hundred"), &source));
    CHECK_INT(pdl_source_info(source)->classes, 100);
    CHECK_INT(pdl_source_info(source)->samples, 2);
    check_sample(source, 1, 98);
    pdl_source_close(source);
    CHECK_OK(open_with(in_scratch("hundred"), PDL_SPLIT_VALID, IMAGE(1, 16, 16), &source));
    CHECK_INT(pdl_source_info(source)->mean_count, 0);
    pdl_source_close(source);
}

static void refuses_damaged_files(void)
{
    pdl_source_t        *source;
    pdl_source_options_t options = {.folder = files_folder};

    make(1, 2, 9);
    make_folder(in_scratch("bad"));
    write_file(in_scratch("bad/data_batch_1.bin"), records, 2 * RECORD10);
    CHECK_REFUSED(in_scratch("bad"), "record 1: label 10 is not below 10");
    write_file(in_scratch("bad/data_batch_1.bin"), records, RECORD10 + 5);
    CHECK_REFUSED(in_scratch("bad"), "not whole records");
    write_file(in_scratch("bad/data_batch_1.bin"), records, 0);
    CHECK_REFUSED(in_scratch("bad"), "is empty");
    CHECK_ERROR(open_with(in_scratch("bad"), PDL_SPLIT_VALID, (pdl_shape_t){0}, &source), "no test_batch.bin");
    CHECK_ERROR(pdl_source_open("cifar10", &options, &source), "paradl data get cifar10");
    CHECK_ERROR(pdl_source_open("cifar100", &options, &source), "put it there or give its path");
}

int main(void)
{
    files_begin();
    RUN(reads_cifar10);
    RUN(reads_cifar100);
    RUN(refuses_damaged_files);
    return test_done();
}
