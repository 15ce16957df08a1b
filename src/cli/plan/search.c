/*
 * The search of paradl plan, with its progress on a terminal and an end at Ctrl-C.
 */
#include "base/clock.h"
#include "cli/plan/plan.h"

#include <paradl/report/table.h>

#include <signal.h>
#include <string.h>

enum { TOP = 10 };

#define PATIENCE_S 1.0 /* after which progress is shown */

static volatile sig_atomic_t interrupted;

/* A second one ends the command. */
static void interrupt(int number)
{
    interrupted = 1;
    signal(number, SIG_DFL);
}

typedef struct watch {
    double begin_s;
    bool   shows, shown;
} watch_t;

static bool watch(void *context, double share)
{
    watch_t *w = context;

    if (w->shows && pdl__seconds() - w->begin_s > PATIENCE_S) {
        fprintf(stderr, "\rsearching: %3.0f %%, Ctrl-C ends with the best so far", 100 * share);
        fflush(stderr);
        w->shown = true;
    }
    return interrupted != 0;
}

pdl_status_t pdl__plan_search(const pdl__plan_asked_t *v, const pdl_system_t *system, pdl_oracle_t *oracle,
                              pdl_request_t *request, pdl_exact_options_t *exact, pdl_search_t **search)
{
    watch_t w = {.begin_s = pdl__seconds(), .shows = pdl_terminal_width(stderr) > 0};

    *exact = (pdl_exact_options_t){.exhaustive = v->exhaustive,
                                   .top = v->top > 0 && v->top < TOP ? (int)v->top : TOP,
                                   .stop = watch,
                                   .context = &w};
    request->exact = exact;
    if (v->exhaustive && system->backend != NULL)
        return pdl_error(PDL_ERR_UNSUPPORTED,
                         "--exhaustive: plans for the backend of %s are compiled to know their memory, which takes "
                         "too long for all: leave it out, or plan for a system without backend",
                         system->name);
    interrupted = 0;
    void (*before)(int) = signal(SIGINT, interrupt);
    pdl_status_t status = pdl_search_run(oracle, request, search);
    if (before != SIG_ERR) signal(SIGINT, before);
    if (w.shown) fprintf(stderr, "\r%*s\r", 60, "");
    return status;
}
