/* What a rank does: operations and buffers. */
#ifndef PARADL_PROGRAM_MODULE_H
#define PARADL_PROGRAM_MODULE_H

#include <paradl/program/compile.h>
#include <paradl/program/copies.h>
#include <paradl/program/program.h>

#endif
