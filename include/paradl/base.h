/* Status, arenas, units, files in YAML, JSON and CSV, random numbers. */
#ifndef PARADL_BASE_MODULE_H
#define PARADL_BASE_MODULE_H

#include <paradl/base/arena.h>
#include <paradl/base/csv.h>
#include <paradl/base/digest.h>
#include <paradl/base/document.h>
#include <paradl/base/json.h>
#include <paradl/base/json_read.h>
#include <paradl/base/output.h>
#include <paradl/base/random.h>
#include <paradl/base/share.h>
#include <paradl/base/status.h>
#include <paradl/base/trace.h>
#include <paradl/base/units.h>
#include <paradl/base/version.h>
#include <paradl/base/yaml.h>

#endif
