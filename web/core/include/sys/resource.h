/*
 * Nobody says how much memory a page has used.
 */
#ifndef PDL_CORE_SYS_RESOURCE_H
#define PDL_CORE_SYS_RESOURCE_H

struct rusage {
    long ru_maxrss;
};
#define RUSAGE_SELF             0
#define getrusage(whose, usage) ((void)(usage), -1)

#endif
