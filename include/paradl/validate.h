/* Measured and published runs beside projections. */
#ifndef PARADL_VALIDATE_MODULE_H
#define PARADL_VALIDATE_MODULE_H

#include <paradl/validate/collectives.h>
#include <paradl/validate/device.h>
#include <paradl/validate/measured_run.h>
#include <paradl/validate/orig.h>
#include <paradl/validate/published.h>
#include <paradl/validate/validate.h>

#endif
