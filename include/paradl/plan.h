/* Plans and what follows from them. */
#ifndef PARADL_PLAN_MODULE_H
#define PARADL_PLAN_MODULE_H

#include <paradl/plan/border.h>
#include <paradl/plan/boxes.h>
#include <paradl/plan/collectives.h>
#include <paradl/plan/compile.h>
#include <paradl/plan/layout.h>
#include <paradl/plan/mesh.h>
#include <paradl/plan/partition.h>
#include <paradl/plan/parts.h>
#include <paradl/plan/pipeline.h>
#include <paradl/plan/plan.h>
#include <paradl/plan/rules.h>
#include <paradl/plan/strategy.h>

#endif
