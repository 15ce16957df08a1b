/*
 * The batch where the device reads it.
 */
#ifndef PDL_TRAIN_INPUT_H
#define PDL_TRAIN_INPUT_H

#include "train/exec/session.h"

/* Places of small buffers from `at` on, returns where they end; and what else is taken. */
size_t       pdl__input_place(pdl_session_t *session, size_t at);
pdl_status_t pdl__input_create(pdl_session_t *session);
void         pdl__input_destroy(pdl_session_t *session);
/* The device that copies batches by itself, from pinned memory; NULL: it reads them where they are. */
pdl_tensor_device_t *pdl__input_device(const pdl_session_t *session);
/* Before a program is executed: session->executor.input.batch is what operations read. */
pdl_status_t pdl__input_begin(pdl_session_t *session, const pdl_batch_t *batch);

#endif
