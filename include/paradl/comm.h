/* Ranks, their groups and what they exchange. <paradl/comm/comm.h>, which speaks of MPI, is
   included by its own name. */
#ifndef PARADL_COMM_MODULE_H
#define PARADL_COMM_MODULE_H

#include <paradl/comm/bench.h>
#include <paradl/comm/exchange.h>
#include <paradl/comm/launch.h>
#include <paradl/comm/network.h>
#include <paradl/comm/ranks.h>
#include <paradl/comm/regions.h>
#include <paradl/comm/route.h>
#include <paradl/comm/transport.h>
#include <paradl/comm/watch.h>

#endif
