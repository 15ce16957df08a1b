/*
 * Signals that stop a run after the update at hand. Runs do not nest.
 */
#ifndef PDL_TRAIN_SIGNALS_H
#define PDL_TRAIN_SIGNALS_H

#include <paradl/train/session.h>

/* SIGINT, SIGTERM and SIGUSR1 ask this session to stop; the second of a kind ends the process. */
void pdl__signals_catch(pdl_session_t *session);
void pdl__signals_release(void);

#endif
