/* Collectives as schedules. */
#ifndef PARADL_COLL_MODULE_H
#define PARADL_COLL_MODULE_H

#include <paradl/coll/coll.h>
#include <paradl/coll/sparse.h>

#endif
