/*
 * The one message for memory that was not to be had. Internal to the library.
 */
#ifndef PDL_BASE_MEMORY_H
#define PDL_BASE_MEMORY_H

#include <paradl/base/status.h>

/* "out of memory for WHAT" or "out of memory while ...", as `what` begins. */
static inline pdl_status_t pdl__no_memory(const char *what)
{
    return pdl_error(PDL_ERR_NOMEM, "out of memory %s", what);
}

#endif
