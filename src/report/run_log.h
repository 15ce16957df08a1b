/*
 * The log of a run: JSON objects, one a line, whole after any kill. Internal to report.
 */
#ifndef PDL_REPORT_RUN_LOG_H
#define PDL_REPORT_RUN_LOG_H

#include <paradl/base/json.h>
#include <paradl/base/status.h>
#include <paradl/report/train_report.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct pdl__run_log {
    const char *path; /* borrowed */
    FILE       *stream;
    bool        regular; /* otherwise a pipe or terminal, which is written as it comes */
    bool        resumes; /* goes on with what is there */
} pdl__run_log_t;

/* Opens the file without changing it. One that is there and no log is refused. */
pdl_status_t pdl__run_log_open(const char *path, bool resumes, pdl__run_log_t *log);
/* Cuts the log after update `updates`: what a run did that was killed before its next checkpoint will be done again.
   `note` says in one line what is worth knowing, or is empty. */
pdl_status_t pdl__run_log_start(pdl__run_log_t *log, int64_t updates, char *note, size_t size);
/* All lines have reached the disk. */
pdl_status_t pdl__run_log_settle(pdl__run_log_t *log);
pdl_status_t pdl__run_log_close(pdl__run_log_t *log);

/* train_summary.c: what exchanges gradients, with or without the messages sent. */
void pdl__exchanges_json(pdl_json_t *json, const pdl_session_exchange_t *exchanges, int count, bool messages);
/* Everything that a summary says, inside the object that is open. */
void pdl__summary_json(pdl_json_t *json, const pdl_run_report_spec_t *spec, const pdl_train_summary_t *summary);

#endif
