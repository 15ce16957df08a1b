/*
 * Distillation (Hinton, Vinyals, Dean 2015) and the Jensen-Shannon divergence of several outputs, as FedDCT uses
 * it.
 */
#include "train/rounds/agreement.h"
#include <math.h>

/* Writes the logarithms of softmax(x / T). */
static void log_softmax(int64_t classes, const float *x, double temperature, double *y)
{
    double largest = -INFINITY, sum = 0;

    for (int64_t c = 0; c < classes; c++) largest = fmax(largest, (double)x[c] / temperature);
    for (int64_t c = 0; c < classes; c++) sum += exp((double)x[c] / temperature - largest);
    for (int64_t c = 0; c < classes; c++) y[c] = (double)x[c] / temperature - largest - log(sum);
}

double pdl__distill(int64_t classes, const float *teacher, const float *student, double temperature, double scale,
                    double *work, float *extra)
{
    double *p = work, *q = work + classes, divergence = 0;

    log_softmax(classes, teacher, temperature, p);
    log_softmax(classes, student, temperature, q);
    for (int64_t c = 0; c < classes; c++) {
        divergence += exp(p[c]) * (p[c] - q[c]);
        extra[c] += (float)(scale * (exp(q[c]) - exp(p[c])) / temperature);
    }
    return divergence;
}

double pdl__trust(int64_t classes, const float *teacher, const float *student, int32_t label, double *work)
{
    double *p = work, *q = work + classes;

    log_softmax(classes, teacher, 1, p);
    log_softmax(classes, student, 1, q);
    return fmax(0, 1 - exp(q[label] - p[label]));
}

double pdl__agree(int nets, int64_t classes, const float *const *logits, double scale, double *work,
                  float *const *extra)
{
    double *mean = work + nets * classes, divergence = 0;

    for (int64_t c = 0; c < classes; c++) mean[c] = 0;
    for (int i = 0; i < nets; i++) {
        log_softmax(classes, logits[i], 1, work + i * classes);
        for (int64_t c = 0; c < classes; c++) mean[c] += exp(work[i * classes + c]) / nets;
    }
    /* By p_i the derivative is (log p_i - log mean) / S; through the softmax its mean under p_i is taken off. */
    for (int i = 0; i < nets; i++) {
        const double *p = work + i * classes;
        double        apart = 0;
        for (int64_t c = 0; c < classes; c++) apart += exp(p[c]) * (p[c] - log(mean[c]));
        divergence += apart / nets;
        for (int64_t c = 0; c < classes; c++)
            extra[i][c] += (float)(scale * exp(p[c]) * (p[c] - log(mean[c]) - apart) / nets);
    }
    return divergence;
}
