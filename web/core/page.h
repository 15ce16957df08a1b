/*
 * What only a page asks.
 */
#ifndef PDL_CORE_PAGE_H
#define PDL_CORE_PAGE_H

#include "cli/options.h"

extern const pdl__command_t pdl__page_commands[];

#endif
