/*
 * Nobody sends signals to a page: handlers are taken and never called.
 */
#ifndef PDL_CORE_SIGNAL_H
#define PDL_CORE_SIGNAL_H

#include_next <signal.h>

struct sigaction {
    void (*sa_handler)(int);
    int sa_mask, sa_flags;
};
#define SA_RESTART                        1
#define SA_RESETHAND                      2
#define sigemptyset(set)                  (*(set) = 0)
#define sigaction(number, action, before) ((void)(action), (void)(before), 0)

#endif
