/*
 * Signals that stop a run.
 */
#include "train/run/signals.h"
#include <signal.h>

/* The session that a signal stops. */
static pdl_session_t *volatile running;

/* The first signal asks; one more ends a run that does not get round to stopping. */
static void on_signal(int number)
{
    if (running) pdl_session_request_stop(running);
    signal(number, SIG_DFL);
}

static const int stop_signals[] = {SIGINT, SIGTERM, SIGUSR1};
#define STOP_SIGNALS ((int)(sizeof(stop_signals) / sizeof(*stop_signals)))
static struct sigaction before[STOP_SIGNALS];

void pdl__signals_catch(pdl_session_t *session)
{
    struct sigaction action = {.sa_handler = on_signal};

    sigemptyset(&action.sa_mask);
    running = session;
    for (int i = 0; i < STOP_SIGNALS; i++) sigaction(stop_signals[i], &action, &before[i]);
}

void pdl__signals_release(void)
{
    for (int i = 0; i < STOP_SIGNALS; i++) sigaction(stop_signals[i], &before[i], NULL);
    running = NULL;
}
