/*
 * Losses between outputs of networks on one sample, and their gradients by the logits.
 */
#ifndef PDL_TRAIN_AGREEMENT_H
#define PDL_TRAIN_AGREEMENT_H

#include <stdint.h>

#define PDL__MAX_NETS 64

/* Adds `scale` times the gradient of KL(softmax(teacher / T) || softmax(student / T)) by the student's logits to
   `extra`; returns the divergence. `work` has place for two rows. */
double pdl__distill(int64_t classes, const float *teacher, const float *student, double temperature, double scale,
                    double *work, float *extra);

/* How far a teacher can be trusted with a sample: max(0, 1 - q / p), where p is what it gives to the label and q
   what the student does. 0: the student is as good, and would only be held back. */
double pdl__trust(int64_t classes, const float *teacher, const float *student, int32_t label, double *work);

/* As pdl__distill(), of JS(p_1 .. p_S) = H(mean p_i) - mean H(p_i), p_i = softmax(logits_i), by the logits of each. `work`
   has place for nets + 1 rows. */
double pdl__agree(int nets, int64_t classes, const float *const *logits, double scale, double *work,
                  float *const *extra);

#endif
