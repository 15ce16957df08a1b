/*
 * JPEG by libjpeg-turbo. Images much larger than what is wanted are decoded at a half, quarter or eighth, which the
 * format makes cheap. Errors of the library come back through setjmp.
 */
#include "data/plugin/image.h"

#include "base/plugin.h"

#include <setjmp.h>
#include <stdio.h> /* before jpeglib.h, which needs it */
#include <stdlib.h>

#include <jerror.h>
#include <jpeglib.h>

/* A progressive image may ask for any number of passes over all of it; real ones have about ten. */
#define MAX_SCANS 100

typedef struct decoder {
    struct jpeg_error_mgr         errors; /* first: the library hands a pointer to it back */
    struct jpeg_decompress_struct jpeg;
    struct jpeg_progress_mgr      progress;
    jmp_buf                       failed;
    char                          text[JMSG_LENGTH_MAX];
    uint8_t                      *pixels;
    uint8_t                      *line; /* one row of four inks */
} decoder_t;

static void fail(j_common_ptr common)
{
    decoder_t *decoder = (decoder_t *)common->err;

    common->err->format_message(common, decoder->text);
    longjmp(decoder->failed, 1);
}

/* Pictures from the wild have stray bytes, which do no harm; one that ends early is refused. */
static void warn(j_common_ptr common, int level)
{
    if (level < 0 && common->err->msg_code == JWRN_JPEG_EOF) fail(common);
}

static void ignore(j_common_ptr common)
{
    (void)common;
}

static void count_scans(j_common_ptr common)
{
    decoder_t *decoder = (decoder_t *)common->err;

    if (decoder->jpeg.input_scan_number <= MAX_SCANS) return;
    snprintf(decoder->text, sizeof(decoder->text), "more than %d scans", MAX_SCANS);
    longjmp(decoder->failed, 1);
}

/* The smallest scale that still covers what is wanted. */
static void choose_scale(struct jpeg_decompress_struct *jpeg, int64_t width, int64_t height)
{
    unsigned int part = 8;

    jpeg->scale_num = 1;
    jpeg->scale_denom = 1;
    if (width <= 0 || height <= 0) return;
    while (part > 1 && (jpeg->image_width / part < width || jpeg->image_height / part < height)) part /= 2;
    jpeg->scale_denom = part;
}

/* Four inks, stored inverted as all programs do that write such files. */
static void inks_to_colours(const uint8_t *inks, int64_t width, uint8_t *out)
{
    int64_t x;
    int     c;

    for (x = 0; x < width; x++, inks += 4) {
        for (c = 0; c < 3; c++) *out++ = (uint8_t)(inks[c] * inks[3] / 255);
    }
}

/* Runs under setjmp: nothing here may keep a resource outside the decoder. */
static void read_rows(decoder_t *decoder, pdl__image_t *image)
{
    struct jpeg_decompress_struct *jpeg = &decoder->jpeg;
    const size_t                   row = (size_t)image->width * (size_t)image->channels;

    while (jpeg->output_scanline < jpeg->output_height) {
        uint8_t *out = decoder->pixels + jpeg->output_scanline * row;
        JSAMPROW target = decoder->line != NULL ? decoder->line : out;

        if (jpeg_read_scanlines(jpeg, &target, 1) == 1 && decoder->line != NULL) {
            inks_to_colours(decoder->line, image->width, out);
        }
    }
    jpeg_finish_decompress(jpeg);
}

static pdl_status_t start(decoder_t *decoder, const pdl__encoded_t *encoded)
{
    struct jpeg_decompress_struct *jpeg = &decoder->jpeg;

    jpeg_create_decompress(jpeg);
    decoder->progress.progress_monitor = count_scans;
    jpeg->progress = &decoder->progress;
    jpeg_mem_src(jpeg, encoded->data, (unsigned long)encoded->size);
    jpeg_read_header(jpeg, TRUE);
    return encoded->check(encoded->name, jpeg->image_width, jpeg->image_height);
}

static pdl_status_t read_pixels(decoder_t *decoder, const pdl__encoded_t *encoded, pdl__image_t *image)
{
    struct jpeg_decompress_struct *jpeg = &decoder->jpeg;
    const bool                     inks = jpeg->num_components == 4;

    choose_scale(jpeg, encoded->width, encoded->height);
    jpeg->out_color_space = jpeg->num_components == 1 ? JCS_GRAYSCALE : inks ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(jpeg);
    image->width = jpeg->output_width;
    image->height = jpeg->output_height;
    image->channels = jpeg->num_components == 1 ? 1 : 3;
    decoder->pixels = malloc((size_t)image->width * (size_t)image->height * (size_t)image->channels);
    if (inks) decoder->line = malloc((size_t)image->width * 4);
    if (decoder->pixels == NULL || (inks && decoder->line == NULL))
        return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", encoded->name);
    read_rows(decoder, image);
    image->pixels = decoder->pixels;
    decoder->pixels = NULL;
    return PDL_OK;
}

static pdl_status_t decode(const pdl__encoded_t *encoded, pdl__image_t *image)
{
    decoder_t   *decoder = calloc(1, sizeof(*decoder)); /* not a local: its content has to survive the jump */
    pdl_status_t status;

    if (decoder == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", encoded->name);
    decoder->jpeg.err = jpeg_std_error(&decoder->errors);
    decoder->errors.error_exit = fail;
    decoder->errors.emit_message = warn;
    decoder->errors.output_message = ignore;
    if (setjmp(decoder->failed) != 0) {
        status = pdl_error(PDL_ERR_INPUT, "%s: a damaged JPEG image: %s", encoded->name, decoder->text);
    } else {
        status = start(decoder, encoded);
        if (status == PDL_OK && encoded->head) {
            *image = (pdl__image_t){.width = decoder->jpeg.image_width,
                                    .height = decoder->jpeg.image_height,
                                    .channels = decoder->jpeg.num_components == 1 ? 1 : 3};
        } else if (status == PDL_OK) {
            status = read_pixels(decoder, encoded, image);
        }
    }
    jpeg_destroy_decompress(&decoder->jpeg);
    free(decoder->pixels);
    free(decoder->line);
    free(decoder);
    return status;
}

static const pdl__decoder_t functions = {decode};
PDL__PLUGIN(jpeg, functions)
