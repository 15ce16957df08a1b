/* Simulations. */
#ifndef PARADL_SIM_MODULE_H
#define PARADL_SIM_MODULE_H

#include <paradl/sim/plan_sim.h>
#include <paradl/sim/sim.h>

#endif
