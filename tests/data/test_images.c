/* JPEG and PNG images: decoding, folders of classes, tar shards, damaged files. */
#include "files.h"

#include "data/image/image.h"

#if defined(PDL_HAVE_JPEG) && defined(PDL_HAVE_PNG)

#include <jpeglib.h>
#include <png.h>

/* A colour that depends on nothing but the number, so that lossy images can be checked: levels 40 apart. */
static void colour_of(int number, uint8_t colour[3])
{
    colour[0] = (uint8_t)(number % 5 * 40 + 20);
    colour[1] = (uint8_t)(number / 5 % 5 * 40 + 20);
    colour[2] = (uint8_t)(number % 3 * 80 + 20);
}

static unsigned long encode_jpeg(int width, int height, int channels, const uint8_t *pixels, bool progressive,
                                 unsigned char **out)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr       errors;
    unsigned long               size = 0;

    *out = NULL;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, out, &size);
    jpeg.image_width = (JDIMENSION)width;
    jpeg.image_height = (JDIMENSION)height;
    jpeg.input_components = channels;
    jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 95, TRUE);
    if (progressive) jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < jpeg.image_height) {
        JSAMPROW row = (JSAMPROW)(pixels + jpeg.next_scanline * (size_t)(width * channels));

        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    return size;
}

static size_t encode_png(int width, int height, png_uint_32 format, const void *pixels, uint8_t *out, size_t room)
{
    png_image        png;
    png_alloc_size_t size = room;

    memset(&png, 0, sizeof(png));
    png.version = PNG_IMAGE_VERSION;
    png.width = (png_uint_32)width;
    png.height = (png_uint_32)height;
    png.format = format;
    CHECK(png_image_write_to_memory(&png, out, &size, 0, pixels, 0, NULL));
    return size;
}

static uint8_t canvas[300 * 300 * 4];

static void fill(int width, int height, int channels, const uint8_t *colour)
{
    int i;

    for (i = 0; i < width * height * channels; i++) canvas[i] = colour[i % channels];
}

static void check_colour(const pdl__image_t *image, const uint8_t *colour, int tolerance)
{
    int64_t i;

    for (i = 0; i < image->width * image->height * image->channels; i++) {
        if (abs(image->pixels[i] - colour[i % image->channels]) > tolerance) {
            CHECK_INT(image->pixels[i], colour[i % image->channels]);
            return;
        }
    }
}

static void decodes_jpeg(void)
{
    const uint8_t  colours[] = {200, 100, 50, 255};
    unsigned char *data;
    unsigned long  size;
    pdl__image_t   image;
    int            channels;

    for (channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1) {
        fill(150, 90, channels, colours);
        size = encode_jpeg(150, 90, channels, canvas, channels == 3, &data);
        CHECK_OK(pdl__image_head(data, size, "a.jpg", &image));
        CHECK_INT(image.width, 150);
        CHECK_INT(image.height, 90);
        CHECK_INT(image.channels, channels == 1 ? 1 : 3);
        CHECK_OK(pdl__image_decode(data, size, "a.jpg", 0, 0, &image));
        CHECK_INT(image.width, 150);
        check_colour(&image, colours, 3); /* full ink of the fourth leaves the others as they are */
        pdl__image_free(&image);
        /* At least 20 x 20 are wanted: a quarter will do, an eighth will not. */
        CHECK_OK(pdl__image_decode(data, size, "a.jpg", 20, 20, &image));
        CHECK_INT(image.width, 38);
        CHECK_INT(image.height, 23);
        check_colour(&image, colours, 3);
        pdl__image_free(&image);
        free(data);
    }
}

static void decodes_png(void)
{
    const uint8_t colours[] = {200, 100, 50, 255}, clear[] = {200, 100, 50, 0}, black[3] = {0};
    uint8_t       data[20000];
    pdl__image_t  image;
    size_t        size;

    fill(40, 30, 3, colours);
    size = encode_png(40, 30, PNG_FORMAT_RGB, canvas, data, sizeof(data));
    CHECK_OK(pdl__image_decode(data, size, "a.png", 0, 0, &image));
    CHECK_INT(image.channels, 3);
    CHECK_INT(image.height, 30);
    check_colour(&image, colours, 0);
    pdl__image_free(&image);
    CHECK_OK(pdl__image_decode(data, size, "a.png", 9, 7, &image)); /* halved twice */
    CHECK_INT(image.width, 10);
    CHECK_INT(image.height, 7);
    check_colour(&image, colours, 0);
    pdl__image_free(&image);
    fill(40, 30, 1, colours);
    size = encode_png(40, 30, PNG_FORMAT_GRAY, canvas, data, sizeof(data));
    CHECK_OK(pdl__image_decode(data, size, "a.png", 0, 0, &image));
    CHECK_INT(image.channels, 1);
    check_colour(&image, colours, 0);
    pdl__image_free(&image);
    fill(40, 30, 4, clear);
    size = encode_png(40, 30, PNG_FORMAT_RGBA, canvas, data, sizeof(data));
    CHECK_OK(pdl__image_decode(data, size, "a.png", 0, 0, &image));
    CHECK_INT(image.channels, 3);
    check_colour(&image, black, 0);
    pdl__image_free(&image);
}

static void refuses_damaged_images(void)
{
    static const uint8_t colours[] = {200, 100, 50};
    unsigned char       *jpeg;
    unsigned long        size;
    uint8_t              png[20000];
    pdl__image_t         image;
    size_t               png_size, i;

    fill(64, 64, 3, colours);
    for (i = 0; i < 64 * 64 * 3; i++) canvas[i] = (uint8_t)(i * i / 7);
    size = encode_jpeg(64, 64, 3, canvas, false, &jpeg);
    CHECK_ERROR(pdl__image_decode(jpeg, size / 2, "a.jpg", 0, 0, &image), "a.jpg: a damaged JPEG image");
    CHECK_ERROR(pdl__image_decode(jpeg, 20, "a.jpg", 0, 0, &image), "a damaged JPEG image");
    CHECK_ERROR(pdl__image_decode(jpeg + 1, size - 1, "a.jpg", 0, 0, &image), "neither a JPEG nor a PNG");
    for (i = 0; jpeg[i] != 0xff || jpeg[i + 1] != 0xc0; i++) continue;
    memset(jpeg + i + 5, 0xf0, 4);
    CHECK_ERROR(pdl__image_decode(jpeg, size, "a.jpg", 0, 0, &image), "61680 x 61680 pixels");
    free(jpeg);
    png_size = encode_png(64, 64, PNG_FORMAT_RGB, canvas, png, sizeof(png));
    CHECK_ERROR(pdl__image_decode(png, png_size - 100, "a.png", 0, 0, &image), "a.png: a damaged PNG image");
    png[png_size / 2] ^= 0x55;
    CHECK_ERROR(pdl__image_decode(png, png_size, "a.png", 0, 0, &image), "a damaged PNG image");
    CHECK_ERROR(pdl__image_head(png, 20, "a.png", &image), "a damaged PNG image");
}

/* An image of one colour, JPEG or PNG by turns, of its own size. */
static size_t make_image(int number, uint8_t *out, size_t room, const char **extension)
{
    const int      width = 20 + number % 7 * 9, height = 24 + number % 4 * 11;
    uint8_t        colour[3];
    unsigned char *data;
    unsigned long  size;

    colour_of(number, colour);
    fill(width, height, 3, colour);
    *extension = number % 2 == 0 ? "jpg" : "png";
    if (number % 2 != 0) return encode_png(width, height, PNG_FORMAT_RGB, canvas, out, room);
    size = encode_jpeg(width, height, 3, canvas, number % 4 == 0, &data);
    memcpy(out, data, size);
    free(data);
    return size;
}

static void check_sample(pdl_source_t *source, int64_t index, int number, int class)
{
    float        values[3 * 16 * 12];
    int32_t      label = -1;
    pdl_sample_t sample = {.values = values, .labels = &label};
    uint8_t      colour[3];
    int          i;

    colour_of(number, colour);
    CHECK_OK(pdl_source_read(source, index, &sample));
    CHECK_INT(label, class);
    for (i = 0; i < 3 * 16 * 12; i++) {
        if (fabs(values[i] * 255 - colour[i / (16 * 12)]) < 4) continue;
        CHECK_NEAR(values[i] * 255, colour[i / (16 * 12)], 0);
        return;
    }
}

static void write_image(const char *folder, int number)
{
    uint8_t     data[20000];
    const char *extension;
    size_t      size = make_image(number, data, sizeof(data), &extension);

    write_file(in_scratch("%s/%03d.%s", folder, number, extension), data, size);
}

static void reads_folders(void)
{
    static const char *const folders[] = {"photos",           "photos/train",           "photos/val",
                                          "photos/train/cat", "photos/train/ant",       "photos/train/bee",
                                          "photos/val/bee",   "photos/train/bee/images"};
    pdl_source_t            *source;
    size_t                   i;

    for (i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) make_folder(in_scratch("%s", folders[i]));
    write_image("photos/train/ant", 1);
    write_image("photos/train/ant", 2);
    write_image("photos/train/bee/images", 3);
    write_image("photos/train/cat", 4);
    write_image("photos/val/bee", 5);
    write_file(in_scratch("photos/train/cat/notes.txt"), "x", 1);
    CHECK_OK(open_with(in_scratch("photos"), PDL_SPLIT_TRAIN, IMAGE(3, 16, 12), &source));
    CHECK_INT(pdl_source_info(source)->samples, 4);
    CHECK_INT(pdl_source_info(source)->classes, 3);
    CHECK(pdl_source_info(source)->bytes_per_sample > 50);
    check_sample(source, 0, 1, 0);
    check_sample(source, 1, 2, 0);
    check_sample(source, 2, 3, 1);
    check_sample(source, 3, 4, 2);
    pdl_source_close(source);
    CHECK_OK(open_with(in_scratch("photos"), PDL_SPLIT_VALID, IMAGE(3, 16, 12), &source));
    CHECK_INT(pdl_source_info(source)->classes, 3);
    check_sample(source, 0, 5, 1);
    pdl_source_close(source);
    CHECK_OK(
        open_plain(in_scratch("photos/train"), &source)); /* classes without splits; the size of the first image */
    CHECK_INT(pdl_source_info(source)->shape.extent[1], 29);
    CHECK_INT(pdl_source_info(source)->shape.extent[0], 35);
    pdl_source_close(source);
}

static void refuses_bad_folders(void)
{
    pdl_source_t        *source;
    pdl_source_options_t options = {.shape = IMAGE(3, 16, 12), .classes = 2};
    float                values[3 * 16 * 12];
    int32_t              label;
    pdl_sample_t         sample = {.values = values, .labels = &label};

    CHECK_ERROR(pdl_source_open(in_scratch("photos"), &options, &source),
                "holds 3 classes, the model tells 2 apart");
    CHECK_ERROR(open_with(in_scratch("photos"), PDL_SPLIT_TRAIN, IMAGE(2, 8, 8), &source), "the model reads 2x8x8");
    write_file(in_scratch("photos/train/cat/004.jpg"), "junk", 4);
    CHECK_OK(open_with(in_scratch("photos"), PDL_SPLIT_TRAIN, IMAGE(3, 16, 12), &source));
    CHECK_ERROR(pdl_source_read(source, 3, &sample), "004.jpg: neither a JPEG nor a PNG image");
    pdl_source_close(source);
    make_folder(in_scratch("photos/val/dog"));
    CHECK_ERROR(open_with(in_scratch("photos"), PDL_SPLIT_VALID, IMAGE(3, 8, 8), &source), "no class of this name");
    make_folder(in_scratch("empty"));
    make_folder(in_scratch("empty/one"));
    CHECK_REFUSED(in_scratch("empty"), "no images in it");
}

/* ---- tar ---- */

static size_t put_header(uint8_t *out, const char *name, size_t size, char type)
{
    unsigned sum = 0;
    int      i;

    memset(out, 0, 512);
    memcpy(out, name, strlen(name) < 100 ? strlen(name) : 100);
    snprintf((char *)out + 124, 12, "%011o", (unsigned)size);
    memcpy(out + 257, "ustar\00000", 8);
    out[156] = (uint8_t)type;
    memset(out + 148, ' ', 8);
    for (i = 0; i < 512; i++) sum += out[i];
    snprintf((char *)out + 148, 8, "%06o", sum);
    return 512;
}

static size_t put_entry(uint8_t *out, const char *name, const void *data, size_t size, char type)
{
    const size_t padded = (size + 511) / 512 * 512;

    put_header(out, name, size, type);
    memset(out + 512, 0, padded);
    memcpy(out + 512, data, size);
    return 512 + padded;
}

static uint8_t shard[1 << 18];

/* Samples from..to-1 with a class each, the end, and the size of all. */
static size_t make_shard(int from, int to)
{
    size_t at = 0;
    int    i;

    for (i = from; i < to; i++) {
        uint8_t     data[20000];
        const char *extension;
        size_t      size = make_image(i, data, sizeof(data), &extension);
        char        name[256], class[8];

        snprintf(class, sizeof(class), "%d\n", i % 4);
        snprintf(name, sizeof(name), "some.folder/%04d.cls", i);
        if (i % 2 != 0) at += put_entry(shard + at, name, class, strlen(class), '0');
        if (i == 5) { /* a name that does not fit into its header */
            snprintf(name, sizeof(name), "some.folder/%04d.%s", i, extension);
            at += put_entry(shard + at, "././@LongLink", name, strlen(name) + 1, 'L');
            at += put_entry(shard + at, "cut", data, size, '0');
        } else if (i == 7) { /* the same in POSIX's way, with its size */
            char record[64];

            snprintf(record, sizeof(record), "29 path=some.folder/%04d.%s\n%d size=%zu\n", i, extension,
                     snprintf(NULL, 0, "%zu", size) + 9, size);
            at += put_entry(shard + at, "pax", record, strlen(record), 'x');
            at += put_entry(shard + at, "cut", data, size, '0');
        } else {
            snprintf(name, sizeof(name), "some.folder/%04d.%s", i, extension);
            at += put_entry(shard + at, name, data, size, '\0');
        }
        snprintf(name, sizeof(name), "some.folder/%04d.cls", i);
        if (i % 2 == 0) at += put_entry(shard + at, name, class, strlen(class), '0');
        snprintf(name, sizeof(name), "some.folder/%04d.json", i);
        at += put_entry(shard + at, name, "{}", 2, '0');
    }
    memset(shard + at, 0, 1024);
    return at + 1024;
}

static void reads_shards(void)
{
    pdl_source_t *source;
    int           i;

    make_folder(in_scratch("shards"));
    write_file(in_scratch("shards/train-000.tar"), shard, make_shard(0, 6));
    write_file(in_scratch("shards/train-001.tar"), shard, make_shard(6, 6)); /* nothing in it */
    write_file(in_scratch("shards/train-002.tar"), shard, make_shard(6, 9));
    write_file(in_scratch("shards/val-000.tar"), shard, make_shard(9, 11));
    CHECK_OK(open_with(in_scratch("shards"), PDL_SPLIT_TRAIN, IMAGE(3, 16, 12), &source));
    CHECK_INT(pdl_source_info(source)->samples, 9);
    CHECK_INT(pdl_source_info(source)->classes, 4);
    for (i = 0; i < 9; i++) check_sample(source, i, i, i % 4);
    pdl_source_close(source);
    CHECK_OK(open_with(in_scratch("shards"), PDL_SPLIT_VALID, IMAGE(3, 16, 12), &source));
    CHECK_INT(pdl_source_info(source)->samples, 2);
    check_sample(source, 1, 10, 2);
    pdl_source_close(source);
    write_file(in_scratch("one.tar"), shard, make_shard(0, 11));
    CHECK_OK(open_with(in_scratch("one.tar"), PDL_SPLIT_VALID, IMAGE(3, 16, 12), &source));
    CHECK_INT(pdl_source_info(source)->samples, 1);
    check_sample(source, 0, 9, 1);
    pdl_source_close(source);
}

static void refuse_shard(size_t size, const char *part)
{
    write_file(in_scratch("bad.tar"), shard, size);
    CHECK_REFUSED(in_scratch("bad.tar"), part);
}

static void refuses_damaged_shards(void)
{
    float         values[3 * 16 * 12];
    int32_t       label;
    pdl_sample_t  sample = {.values = values, .labels = &label};
    pdl_source_t *source;
    size_t        at;

    (void)make_shard(0, 3);
    shard[3] ^= 1;
    refuse_shard(4096, "wrong check sum");
    at = put_entry(shard, "1.jpg", "x", 1, '0');
    refuse_shard(at, "sample 1 has no .cls");
    at += put_entry(shard + at, "1.cls", "cat", 3, '0');
    refuse_shard(at, "at byte 1024: a .cls entry that is not a class");
    at = put_entry(shard, "1.cls", "99999999999", 11, '0');
    refuse_shard(at, "not a class");
    at = put_entry(shard, "1.cls", "3", 1, '0');
    refuse_shard(at, "sample 1 has no .jpg or .png");
    put_header(shard, "1.jpg", 1 << 30, '0');
    refuse_shard(1024, "an entry is longer than the archive");
    at = put_entry(shard, "x", "garbage", 7, 'x');
    refuse_shard(at, "damaged pax record");
    at = put_entry(shard, "x", "999 path=a\n", 11, 'x');
    refuse_shard(at, "damaged pax record");
    at = put_entry(shard, "readme", "x", 1, '0');
    refuse_shard(at, "no samples");
    refuse_shard(at + 100, "the archive is cut off");
    at = put_entry(shard, "1.jpg", "junk", 4, '0');
    at += put_entry(shard + at, "1.cls", "0", 1, '0');
    refuse_shard(at, "bad.tar: 1.jpg: neither a JPEG nor a PNG image");
    {
        const char *extension;
        uint8_t     data[20000];
        size_t      size = make_image(1, data, sizeof(data), &extension);

        at = put_entry(shard, "0.png", data, size, '0');
        at += put_entry(shard + at, "0.cls", "0", 1, '0');
        at += put_entry(shard + at, "../../1.png", data, size / 2, '0');
        at += put_entry(shard + at, "../../1.cls", "1", 1, '0');
        write_file(in_scratch("bad.tar"), shard, at);
        CHECK_OK(open_with(in_scratch("bad.tar"), PDL_SPLIT_TRAIN, IMAGE(3, 16, 12), &source));
        CHECK_OK(pdl_source_read(source, 0, &sample));
        CHECK_ERROR(pdl_source_read(source, 1, &sample), "bad.tar: ../../1.png: a damaged PNG image");
        pdl_source_close(source);
    }
}

int main(void)
{
    files_begin();
    RUN(decodes_jpeg);
    RUN(decodes_png);
    RUN(refuses_damaged_images);
    RUN(reads_folders);
    RUN(refuses_bad_folders);
    RUN(reads_shards);
    RUN(refuses_damaged_shards);
    return test_done();
}

#else

static void says_that_it_cannot(void)
{
    pdl__image_t image;
    const char  *part = "and build paradl again";

#ifndef PDL_HAVE_JPEG
    CHECK_ERROR(pdl__image_head((const uint8_t *)"\xff\xd8\xff", 3, "a.jpg", &image), part);
#endif
#ifndef PDL_HAVE_PNG
    CHECK_ERROR(pdl__image_head((const uint8_t *)"\x89PNG\r\n\x1a\n", 8, "a.png", &image), part);
#endif
}

int main(void)
{
    RUN(says_that_it_cannot);
    return test_done();
}

#endif
