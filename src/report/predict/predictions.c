/*
 * Files of predictions.
 */
#include <paradl/base/document.h>
#include <paradl/base/output.h>
#include <paradl/report/predict_report.h>

#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum format { NPY, CSV, JSON, FORMATS } format_t;

struct pdl_predictions {
    pdl_predictions_spec_t spec;
    format_t               format;
    pdl_output_t          *output;
    FILE                  *stream;
    pdl_json_t             json;
    int32_t               *classes;       /* [top_k] */
    double                *probabilities; /* [top_k] */
    int64_t                rows;
};

#define TABLE_COLUMNS 4096 /* beyond these nobody reads a table */

void pdl_top_classes(const float *values, int64_t count, int64_t k, int32_t *classes, double *probabilities)
{
    double total = 0;
    float  largest = values[0];

    for (int64_t c = 1; c < count; c++) largest = values[c] > largest ? values[c] : largest;
    for (int64_t c = 0; c < count; c++) total += exp((double)values[c] - (double)largest);
    for (int64_t i = 0; i < k; i++) {
        int64_t best = -1;

        for (int64_t c = 0; c < count; c++) {
            bool after = i == 0 || values[c] < values[classes[i - 1]] ||
                         (values[c] == values[classes[i - 1]] && c > classes[i - 1]);

            if (after && (best < 0 || values[c] > values[best])) best = c;
        }
        classes[i] = (int32_t)(best < 0 ? 0 : best);
        probabilities[i] = exp((double)values[classes[i]] - (double)largest) / total;
    }
}

static bool ends_in(const char *path, const char *ending)
{
    size_t length = strlen(path), tail = strlen(ending);

    return length > tail && strcmp(path + length - tail, ending) == 0;
}

static pdl_status_t choose_format(const pdl_predictions_spec_t *spec, format_t *format)
{
    static const char *const endings[FORMATS] = {".npy", ".csv", ".json"};

    *format = pdl_output_is_stdout(spec->path) ? CSV : FORMATS;
    for (int f = 0; f < FORMATS; f++)
        if (ends_in(spec->path, endings[f])) *format = (format_t)f;
    if (*format == FORMATS)
        return pdl_error(PDL_ERR_INPUT, "%s: predictions are written to .npy, .csv or .json", spec->path);
    if (*format == NPY && spec->top_k > 0)
        return pdl_error(PDL_ERR_INPUT,
                         "%s: classes with probabilities are no array: write --top-k to .csv or .json", spec->path);
    if (spec->top_k > 0 && pdl_shape_positions(&spec->shape) != 1)
        return pdl_error(PDL_ERR_INPUT, "--top-k is for one answer a sample, %s has %" PRId64 ": leave it out",
                         spec->model, pdl_shape_positions(&spec->shape));
    if (spec->top_k > spec->shape.channels)
        return pdl_error(PDL_ERR_INPUT, "--top-k %" PRId64 ": %s has %" PRId64 " classes", spec->top_k, spec->model,
                         spec->shape.channels);
    if (*format == CSV && spec->top_k == 0 && pdl_shape_elements(&spec->shape) > TABLE_COLUMNS)
        return pdl_error(PDL_ERR_INPUT, "%s: %" PRId64 " numbers a sample are too many for a table: write .npy",
                         spec->path, pdl_shape_elements(&spec->shape));
    return PDL_OK;
}

/* The shape of all outputs: samples first, then as pdl_session_predict() has them. */
static int all_dims(const pdl_predictions_spec_t *spec, int64_t dims[2 + PDL_MAX_SPACE])
{
    const pdl_shape_t *shape = &spec->shape;
    int                rank = 0;

    dims[rank++] = spec->samples;
    if (!shape->sequence) dims[rank++] = shape->channels;
    for (int d = 0; d < shape->rank; d++) dims[rank++] = shape->extent[d];
    if (shape->sequence) dims[rank++] = shape->channels;
    return rank;
}

/* Version 1.0 of the format: magic, length of the header, a dictionary of Python padded to 64 bytes. */
static void begin_npy(pdl_predictions_t *p)
{
    int64_t dims[2 + PDL_MAX_SPACE];
    int     rank = all_dims(&p->spec, dims), used;
    char    header[256];

    used = snprintf(header, sizeof(header), "{'descr': '<f4', 'fortran_order': False, 'shape': (");
    for (int d = 0; d < rank; d++)
        used += snprintf(header + used, sizeof(header) - (size_t)used, "%s%" PRId64, d > 0 ? ", " : "", dims[d]);
    used += snprintf(header + used, sizeof(header) - (size_t)used, "%s), }", rank == 1 ? "," : "");
    while ((used + 11) % 64 != 0) header[used++] = ' ';
    header[used++] = '\n';
    fwrite("\x93NUMPY\x01", 1, 7, p->stream);
    fputc(0, p->stream);
    fputc(used & 255, p->stream);
    fputc(used >> 8, p->stream);
    fwrite(header, 1, (size_t)used, p->stream);
}

static void begin_csv(pdl_predictions_t *p)
{
    fprintf(p->stream, "sample,label");
    for (int64_t i = 0; i < p->spec.top_k; i++)
        fprintf(p->stream, ",class%" PRId64 ",probability%" PRId64, i + 1, i + 1);
    for (int64_t i = 0; p->spec.top_k == 0 && i < pdl_shape_elements(&p->spec.shape); i++)
        fprintf(p->stream, ",y%" PRId64, i);
    fprintf(p->stream, "\n");
}

static void begin_json(pdl_predictions_t *p)
{
    pdl_document_begin(&p->json, p->stream, "predictions/1");
    pdl_json_string(&p->json, "model", p->spec.model);
    pdl_json_string(&p->json, "data", p->spec.data);
    pdl_json_open(&p->json, "samples", '[');
}

pdl_status_t pdl_predictions_open(const pdl_predictions_spec_t *spec, pdl_predictions_t **predictions)
{
    static void (*const begin[FORMATS])(pdl_predictions_t *) = {begin_npy, begin_csv, begin_json};
    pdl_predictions_t *p = calloc(1, sizeof(*p));
    pdl_status_t       status = p ? choose_format(spec, &p->format) : pdl__no_memory("for predictions");

    if (p && !status) {
        p->spec = *spec;
        p->classes = calloc((size_t)spec->top_k + 1, sizeof(*p->classes));
        p->probabilities = calloc((size_t)spec->top_k + 1, sizeof(*p->probabilities));
        if (!p->classes || !p->probabilities) status = pdl__no_memory("for predictions");
    }
    if (!status) status = pdl_output_open(spec->path, &p->output);
    if (status) {
        (void)pdl_predictions_close(p, status);
        return status;
    }
    p->stream = pdl_output_stream(p->output);
    begin[p->format](p);
    *predictions = p;
    return PDL_OK;
}

/* A sample has several labels where it has several positions; a table shows one. */
static void add_csv(pdl_predictions_t *p, int64_t sample, const float *values, int64_t count, const int32_t *labels,
                    int64_t targets)
{
    fprintf(p->stream, "%" PRId64 ",", sample);
    if (labels && targets == 1) fprintf(p->stream, "%d", labels[0]);
    for (int64_t i = 0; i < p->spec.top_k; i++) fprintf(p->stream, ",%d,%.6g", p->classes[i], p->probabilities[i]);
    for (int64_t i = 0; p->spec.top_k == 0 && i < count; i++) fprintf(p->stream, ",%.9g", (double)values[i]);
    fprintf(p->stream, "\n");
}

static void add_json(pdl_predictions_t *p, int64_t sample, const float *values, int64_t count,
                     const int32_t *labels, int64_t targets)
{
    pdl_json_open(&p->json, NULL, '{');
    pdl_json_int(&p->json, "sample", sample);
    if (labels && targets == 1) pdl_json_int(&p->json, "label", labels[0]);
    pdl_json_open(&p->json, p->spec.top_k > 0 ? "classes" : "outputs", '[');
    for (int64_t i = 0; i < p->spec.top_k; i++) pdl_json_int(&p->json, NULL, p->classes[i]);
    for (int64_t i = 0; p->spec.top_k == 0 && i < count; i++) pdl_json_number(&p->json, NULL, (double)values[i]);
    pdl_json_close(&p->json);
    if (p->spec.top_k > 0) {
        pdl_json_open(&p->json, "probabilities", '[');
        for (int64_t i = 0; i < p->spec.top_k; i++) pdl_json_number(&p->json, NULL, p->probabilities[i]);
        pdl_json_close(&p->json);
    }
    pdl_json_close(&p->json);
}

pdl_status_t pdl_predictions_add(pdl_predictions_t *p, const pdl_predict_rows_t *rows)
{
    for (int64_t n = 0; n < rows->count; n++) {
        const float   *values = rows->outputs + n * rows->elements;
        const int32_t *labels = rows->labels ? rows->labels + n * rows->target_count : NULL;

        if (p->spec.top_k > 0) pdl_top_classes(values, rows->elements, p->spec.top_k, p->classes, p->probabilities);
        if (p->format == NPY)
            fwrite(values, sizeof(*values), (size_t)rows->elements, p->stream);
        else if (p->format == CSV)
            add_csv(p, rows->first + n, values, rows->elements, labels, rows->target_count);
        else
            add_json(p, rows->first + n, values, rows->elements, labels, rows->target_count);
    }
    p->rows += rows->count;
    return ferror(p->stream) ? pdl_error(PDL_ERR_IO, "%s cannot be written", p->spec.path) : PDL_OK;
}

pdl_status_t pdl_predictions_close(pdl_predictions_t *p, pdl_status_t status)
{
    if (p == NULL) return status;
    if (!status && p->format == JSON) {
        pdl_json_close(&p->json);
        pdl_json_close(&p->json);
    }
    if (status)
        pdl_output_discard(p->output);
    else
        status = pdl_output_close(p->output);
    free(p->classes);
    free(p->probabilities);
    free(p);
    return status;
}
