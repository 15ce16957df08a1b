/* Projections and the search. */
#ifndef PARADL_ORACLE_MODULE_H
#define PARADL_ORACLE_MODULE_H

#include <paradl/oracle/chain.h>
#include <paradl/oracle/data_policy.h>
#include <paradl/oracle/exact.h>
#include <paradl/oracle/framework.h>
#include <paradl/oracle/oracle.h>
#include <paradl/oracle/ownership.h>
#include <paradl/oracle/prices.h>
#include <paradl/oracle/replay.h>
#include <paradl/oracle/search.h>
#include <paradl/oracle/sensitivity.h>

#endif
