/*
 * Hiding in one process: how tests begin an epoch and what they ask afterwards.
 */
#ifndef PDL_TEST_HIDE_FIXTURE_H
#define PDL_TEST_HIDE_FIXTURE_H

#include <paradl/data/hide.h>

#include "hide_cases.h"
#include "test.h"

static pdl_ranks_t *ranks;

static pdl_hide_options_t defaults(pdl_hide_method_t method)
{
    pdl_hide_options_t options;

    pdl_hide_defaults(&options);
    options.method = method;
    return options;
}

static void begin(pdl_hide_t *hide, int64_t epoch, int64_t epochs, int64_t batch)
{
    CHECK_OK(pdl_hide_begin(hide, epoch, epochs, &(pdl_hide_workers_t){.batch = batch, .ranks = ranks}));
}

static bool is_hidden(const pdl_hide_t *hide, int64_t i)
{
    const uint64_t *bits = pdl_hide_bits(hide);

    return bits != NULL && bits[i / 64] >> (i % 64) & 1;
}

static pdl_hide_report_t report_of(const pdl_hide_t *hide)
{
    pdl_hide_report_t report;

    pdl_hide_report(hide, &report);
    return report;
}

#endif
