/* All of paradl but what speaks of MPI, <paradl/comm/comm.h>. */
#ifndef PARADL_PARADL_H
#define PARADL_PARADL_H

#include <paradl/base.h>
#include <paradl/coll.h>
#include <paradl/comm.h>
#include <paradl/data.h>
#include <paradl/model.h>
#include <paradl/oracle.h>
#include <paradl/plan.h>
#include <paradl/program.h>
#include <paradl/report.h>
#include <paradl/sim.h>
#include <paradl/system.h>
#include <paradl/tensor.h>
#include <paradl/topo.h>
#include <paradl/train.h>
#include <paradl/validate.h>

#endif
