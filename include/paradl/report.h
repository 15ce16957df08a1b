/* Tables, JSON, drawings and pages. */
#ifndef PARADL_REPORT_MODULE_H
#define PARADL_REPORT_MODULE_H

#include <paradl/report/bench_report.h>
#include <paradl/report/dry_report.h>
#include <paradl/report/export.h>
#include <paradl/report/page.h>
#include <paradl/report/predict_report.h>
#include <paradl/report/report.h>
#include <paradl/report/scaling.h>
#include <paradl/report/sim_report.h>
#include <paradl/report/table.h>
#include <paradl/report/train_report.h>

#endif
