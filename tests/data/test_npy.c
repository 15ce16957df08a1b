/* NumPy arrays: types, axes, targets, damaged headers. */
#include "files.h"

/* Writes an array; `shape` as Python has it, "(2, 3)". */
static void write_npy(const char *path, const char *type, const char *shape, const void *data, size_t size)
{
    static uint8_t bytes[65536];
    char           header[256];
    int            length =
        snprintf(header, sizeof(header), "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);

    for (; (length + 11) % 64 != 0; length++) header[length] = ' ';
    header[length++] = '\n';
    memcpy(bytes, "\x93NUMPY\x01\x00", 8);
    bytes[8] = (uint8_t)length;
    bytes[9] = (uint8_t)(length >> 8);
    memcpy(bytes + 10, header, (size_t)length);
    memcpy(bytes + 10 + length, data, size);
    write_file(path, bytes, 10 + (size_t)length + size);
}

static const uint8_t  small_labels[] = {2, 0, 1, 2};
static const uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x3555}; /* 1, -2, 2^-24, 0.333 */

static void check_vector(const char *type, const void *data, size_t size, double a, double b, double scale)
{
    pdl_source_t *source;
    float         values[2];
    int32_t       label;
    pdl_sample_t  sample = {.values = values, .labels = &label};

    write_npy(in_scratch("v.npy"), type, "(2, 2)", data, size);
    write_npy(in_scratch("v.labels.npy"), "|u1", "(2,)", small_labels, 2);
    CHECK_OK(open_plain(in_scratch("v.npy"), &source));
    if (source == NULL) return;
    CHECK_INT(pdl_source_info(source)->samples, 2);
    CHECK_INT(pdl_source_info(source)->shape.channels, 2);
    CHECK_INT(pdl_source_info(source)->shape.rank, 0);
    CHECK_INT(pdl_source_info(source)->classes, 3);
    CHECK_OK(pdl_source_read(source, 0, &sample));
    CHECK_INT(label, 2);
    CHECK_NEAR(values[0], a / scale, 1e-6);
    CHECK_NEAR(values[1], b / scale, 1e-6);
    pdl_source_close(source);
}

static void reads_every_type(void)
{
    const uint8_t  u1[] = {200, 3, 5, 7};
    const int8_t   i1[] = {-100, 3, 5, 7};
    const uint16_t u2[] = {60000, 3, 5, 7};
    const int16_t  i2[] = {-30000, 3, 5, 7};
    const int32_t  i4[] = {-100000, 3, 5, 7};
    const uint32_t u4[] = {4000000000u, 3, 5, 7};
    const int64_t  i8[] = {-5000000000, 3, 5, 7};
    const float    f4[] = {0.1f, -3, 5, 7};
    const double   f8[] = {1e-3, -3, 5, 7};

    check_vector("|u1", u1, sizeof(u1), 200, 3, 255);
    check_vector("|i1", i1, sizeof(i1), -100, 3, 1);
    check_vector("<u2", u2, sizeof(u2), 60000, 3, 1);
    check_vector("<i2", i2, sizeof(i2), -30000, 3, 1);
    check_vector("<i4", i4, sizeof(i4), -100000, 3, 1);
    check_vector("<u4", u4, sizeof(u4), 4e9, 3, 1);
    check_vector("<i8", i8, sizeof(i8), -5e9, 3, 1);
    check_vector("<f4", f4, sizeof(f4), 0.1f, -3, 1);
    check_vector("<f8", f8, sizeof(f8), 1e-3, -3, 1);
    check_vector("<f2", halves, sizeof(halves), 1, -2, 1);
}

/* The same numbers as [c][h][w] and [h][w][c]. */
static void finds_the_channels(void)
{
    float        first[2 * 3 * 2 * 2], last[2 * 3 * 2 * 2], values[12];
    int32_t      label;
    pdl_sample_t sample = {.values = values, .labels = &label};
    const char  *names[] = {"first.npy", "last.npy"};
    int          s, c, p, i;

    for (s = 0; s < 2; s++) {
        for (c = 0; c < 3; c++) {
            for (p = 0; p < 4; p++) {
                first[s * 12 + c * 4 + p] = (float)(s * 100 + c * 10 + p);
                last[s * 12 + p * 3 + c] = (float)(s * 100 + c * 10 + p);
            }
        }
    }
    write_npy(in_scratch("first.npy"), "<f4", "(2, 3, 2, 2)", first, sizeof(first));
    write_npy(in_scratch("last.npy"), "<f4", "(2, 2, 2, 3)", last, sizeof(last));
    write_npy(in_scratch("first.labels.npy"), "<i8", "(2,)", (const int64_t[]){1, 0}, 16);
    write_npy(in_scratch("last.labels.npy"), "<i8", "(2, 1)", (const int64_t[]){1, 0}, 16);
    for (i = 0; i < 4; i++) {
        pdl_source_t *source;

        CHECK_OK(open_with(in_scratch("%s", names[i % 2]), PDL_SPLIT_TRAIN,
                           i < 2 ? IMAGE(3, 2, 2) : (pdl_shape_t){0}, &source));
        if (source == NULL) continue;
        CHECK_INT(pdl_source_info(source)->shape.channels, 3);
        CHECK_OK(pdl_source_read(source, 1, &sample));
        CHECK_INT(label, 0);
        for (p = 0; p < 12; p++) CHECK_NEAR(values[p], 100 + p / 4 * 10 + p % 4, 0);
        pdl_source_close(source);
    }
    {
        pdl_source_t *source;

        CHECK_ERROR(open_with(in_scratch("first.npy"), PDL_SPLIT_TRAIN, IMAGE(3, 4, 4), &source),
                    "the model reads 3x4x4");
        CHECK_OK(open_with(in_scratch("first.npy"), PDL_SPLIT_TRAIN, (pdl_shape_t){.channels = 12}, &source));
        CHECK_OK(pdl_source_read(source, 0, &sample));
        CHECK_NEAR(values[11], 23, 0);
        pdl_source_close(source);
    }
}

static void scales_images_of_bytes(void)
{
    uint8_t       pixels[2 * 4 * 4];
    float         values[3 * 2 * 2];
    int32_t       label;
    pdl_sample_t  sample = {.values = values, .labels = &label};
    pdl_source_t *source;

    memset(pixels, 51, sizeof(pixels));
    write_npy(in_scratch("grey.npy"), "|u1", "(2, 4, 4)", pixels, sizeof(pixels));
    write_npy(in_scratch("grey.labels.npy"), "|b1", "(2,)", small_labels + 1, 2);
    CHECK_OK(open_with(in_scratch("grey.npy"), PDL_SPLIT_TRAIN, IMAGE(3, 2, 2), &source));
    CHECK_OK(pdl_source_read(source, 1, &sample));
    CHECK_NEAR(values[11], 0.2, 1e-6);
    CHECK_INT(label, 1);
    pdl_source_close(source);
}

static void reads_volumes_masks_and_values(void)
{
    static float  volume[2 * 2 * 3 * 4 * 5];
    uint8_t       mask[2 * 6];
    float         values[120], numbers[3];
    int32_t       labels[6];
    pdl_sample_t  sample = {.values = values, .labels = labels, .numbers = numbers};
    pdl_source_t *source;
    int           i;

    for (i = 0; i < 240; i++) volume[i] = (float)i;
    write_npy(in_scratch("volume.npy"), "<f4", "(2, 2, 3, 4, 5)", volume, sizeof(volume));
    write_npy(in_scratch("volume.labels.npy"), "<f4", "(2, 3)", volume, 24);
    CHECK_OK(open_plain(in_scratch("volume.npy"), &source));
    CHECK_INT(pdl_source_info(source)->shape.rank, 3);
    CHECK_INT(pdl_source_info(source)->shape.extent[2], 5);
    CHECK_INT(pdl_source_info(source)->target, PDL_TARGET_VALUES);
    CHECK_INT(pdl_source_info(source)->target_count, 3);
    CHECK_INT(pdl_source_info(source)->classes, 0);
    CHECK_OK(pdl_source_read(source, 1, &sample));
    CHECK_NEAR(numbers[2], 5, 0);
    CHECK_NEAR(values[119], 239, 0);
    pdl_source_close(source);

    for (i = 0; i < 12; i++) mask[i] = (uint8_t)(i % 4);
    write_npy(in_scratch("mask.npy"), "<f4", "(2, 2, 2, 3)", volume, 96);
    write_npy(in_scratch("mask.labels.npy"), "|u1", "(2, 2, 3)", mask, 12);
    CHECK_OK(open_with(in_scratch("mask.npy"), PDL_SPLIT_TRAIN, IMAGE(2, 2, 3), &source));
    CHECK_INT(pdl_source_info(source)->target, PDL_TARGET_MASK);
    CHECK_INT(pdl_source_info(source)->classes, 4);
    CHECK_OK(pdl_source_read(source, 1, &sample));
    CHECK_INT(labels[5], 3);
    pdl_source_close(source);
    {
        pdl_source_options_t options = {.shape = IMAGE(2, 2, 3), .classes = 3};

        REQUIRE_OK(pdl_source_open(in_scratch("mask.npy"), &options, &source));
        CHECK_ERROR(pdl_source_read(source, 0, &sample), "sample 0: label 3 is not a class");
        pdl_source_close(source);
    }
}

static void splits(void)
{
    float         data[20];
    uint8_t       labels[20];
    float         value;
    int32_t       label;
    pdl_sample_t  sample = {.values = &value, .labels = &label};
    pdl_source_t *train, *valid;
    int           seen[20] = {0}, i;

    for (i = 0; i < 20; i++) {
        data[i] = (float)i;
        labels[i] = (uint8_t)i;
    }
    write_npy(in_scratch("s.npy"), "<f4", "(20, 1)", data, sizeof(data));
    write_npy(in_scratch("s.labels.npy"), "|u1", "(20,)", labels, sizeof(labels));
    CHECK_OK(open_with(in_scratch("s.npy"), PDL_SPLIT_TRAIN, (pdl_shape_t){0}, &train));
    CHECK_OK(open_with(in_scratch("s.npy"), PDL_SPLIT_VALID, (pdl_shape_t){0}, &valid));
    CHECK_INT(pdl_source_info(train)->samples, 18);
    CHECK_INT(pdl_source_info(valid)->samples, 2);
    for (i = 0; i < 20; i++) {
        CHECK_OK(pdl_source_read(i < 18 ? train : valid, i < 18 ? i : i - 18, &sample));
        CHECK_NEAR(value, label, 0);
        seen[label]++;
    }
    for (i = 0; i < 20; i++) CHECK_INT(seen[i], 1);
    pdl_source_close(train);
    pdl_source_close(valid);
    make_folder(in_scratch("both"));
    rename(in_scratch("s.npy"), in_scratch("both/train.npy"));
    rename(in_scratch("s.labels.npy"), in_scratch("both/train.labels.npy"));
    write_npy(in_scratch("both/val.npy"), "<f4", "(3, 1)", data, 12);
    write_npy(in_scratch("both/val.labels.npy"), "|u1", "(3,)", labels, 3);
    CHECK_OK(open_plain(in_scratch("both"), &train));
    CHECK_OK(open_with(in_scratch("both"), PDL_SPLIT_VALID, (pdl_shape_t){0}, &valid));
    CHECK_INT(pdl_source_info(train)->samples, 20);
    CHECK_INT(pdl_source_info(valid)->samples, 3);
    pdl_source_close(train);
    pdl_source_close(valid);
}

static void refuse_array(const char *type, const char *shape, size_t size, const char *part)
{
    static const uint8_t zeros[256];

    write_npy(in_scratch("bad.npy"), type, shape, zeros, size);
    CHECK_REFUSED(in_scratch("bad.npy"), part);
}

static void refuses_damaged_files(void)
{
    const int64_t negative[] = {0, -1};

    write_file(in_scratch("lonely.npy"), "x", 1);
    CHECK_REFUSED(in_scratch("lonely.npy"), "put them into");
    write_npy(in_scratch("bad.labels.npy"), "|u1", "(2,)", small_labels, 2);
    refuse_array("<f4", "(2, 3)", 23, "23 bytes of data where its shape says 6 elements of 4");
    refuse_array("<f4", "(0, 3)", 0, "an extent is 0");
    refuse_array("<f4", "(99999999999, 99999999999)", 8, "larger than any file");
    refuse_array("<f4", "(9999999, 9999999)", 8, "larger than any file");
    refuse_array("<f4", "(1, 1, 1, 1, 1, 1)", 4, "more than 5 axes");
    refuse_array("<f4", "()", 4, "single number");
    refuse_array("<f4", "(2)", 8, "one axis only");
    refuse_array("<f4", "(2, x)", 8, "not a list of numbers");
    refuse_array(">f4", "(2, 2)", 16, "little-endian");
    refuse_array("<c8", "(2, 2)", 32, "little-endian");
    refuse_array("<f4", "(2, 2), 'shape': (2, 2)", 16, "twice");
    refuse_array("<f4", "(3, 2)", 24, "2 labels for 3 samples");
    write_npy(in_scratch("bad.labels.npy"), "<i8", "(2,)", negative, sizeof(negative));
    refuse_array("<f4", "(2, 2)", 16, "label 1 is -1");
    write_npy(in_scratch("bad.labels.npy"), "<i8", "(2, 3)", (const int64_t[6]){0}, 48);
    refuse_array("<f4", "(2, 2)", 16, "3 integers for each sample");
    write_file(in_scratch("bad.npy"), "\x93NUMPY\x01\x00\xff\xff{}", 12);
    CHECK_REFUSED(in_scratch("bad.npy"), "ends within its header");
    write_file(in_scratch("bad.npy"), "\x93NUMPY\x09\x00\x02\x00{}", 12);
    CHECK_REFUSED(in_scratch("bad.npy"), "version");
    write_file(in_scratch("bad.npy"), "\x93NUMPY\x01\x00\x02\x00{}", 12);
    CHECK_REFUSED(in_scratch("bad.npy"), "lacks type, order or shape");
}

int main(void)
{
    files_begin();
    RUN(reads_every_type);
    RUN(finds_the_channels);
    RUN(scales_images_of_bytes);
    RUN(reads_volumes_masks_and_values);
    RUN(splits);
    RUN(refuses_damaged_files);
    return test_done();
}
