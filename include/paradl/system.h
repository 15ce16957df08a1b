/* Machines. */
#ifndef PARADL_SYSTEM_MODULE_H
#define PARADL_SYSTEM_MODULE_H

#include <paradl/system/fabric.h>
#include <paradl/system/system.h>

#endif
