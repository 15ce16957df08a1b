/*
 * What an update takes besides its operations, and the host for each of them besides queueing its kernels: that with which the
 * programs of the networks whose updates were timed whole, replayed, come nearest to these times.
 */
#include "base/sorted.h"
#include "train/calibrate/calibrate.h"
#include <math.h>
#include <paradl/oracle/replay.h>
#include <stdlib.h>

#define MOST_ISSUE_S 20e-6
#define ISSUE_STEP_S 0.25e-6

/* The description so far. */
static pdl_status_t read_back(const pdl_calibration_t *r, const pdl_system_t **system)
{
    char        *text = NULL;
    size_t       length = 0;
    FILE        *stream = open_memstream(&text, &length);
    pdl_status_t status = stream == NULL ? pdl_error(PDL_ERR_NOMEM, "out of memory for a calibration") : PDL_OK;

    if (!status) status = pdl_calibration_write(r, "here", stream);
    if (stream != NULL) fclose(stream);
    if (!status) status = pdl_system_read_memory(text, length, "the calibration", system);
    free(text);
    return status;
}

/* The program of an update; none where the oracle cannot tell. */
static void find_timeline(const pdl_system_t *system, const pdl__whole_t *whole, pdl_timeline_t **timeline)
{
    pdl_mesh_t       mesh = {{{PDL_AXIS_DATA, 1, 0}}, 1};
    pdl_plan_t      *plan = NULL;
    pdl_oracle_t    *oracle = NULL;
    pdl_parameters_t parameters;
    pdl_status_t     status = pdl_plan_create(whole->model, &mesh, whole->batch, &plan);

    *timeline = NULL;
    if (!status) status = pdl_plan_apply_preset(plan, "serial", NULL);
    if (!status) status = pdl_parameters_choose(NULL, system, &parameters);
    if (!status) status = pdl_oracle_create(whole->model, system, &parameters, &oracle);
    if (!status) {
        plan->precision = whole->precision;
        if (pdl_oracle_timeline(oracle, plan, timeline)) *timeline = NULL;
    }
    pdl_oracle_destroy(oracle);
    if (plan != NULL) pdl_plan_destroy(plan);
}

/* With so much more for every operation: the median of what is missing, and how far off the updates are then. */
static double misses(const pdl__calibrate_t *c, pdl_timeline_t *const *timeline, double more_s, double *rest_s)
{
    double missing[PDL__WHOLES], off = 0;
    int    count = 0;

    for (int w = 0; w < c->whole_count; w++) {
        double total_s;

        if (timeline[w] == NULL) continue;
        double *queue_s = (double *)(uintptr_t)timeline[w]->ranks[0].queue_s;
        for (int i = 0; i < timeline[w]->ranks[0].program->op_count; i++) queue_s[i] += more_s;
        if (pdl_program_replay(timeline[w]->ranks, 1, &total_s)) continue;
        timeline[w]->total_s = total_s;
        missing[count++] = c->whole[w].step_s - total_s;
    }
    if (count == 0) return INFINITY;
    *rest_s = fmax(0, pdl__median(missing, (size_t)count));
    for (int w = 0; w < c->whole_count; w++)
        if (timeline[w] != NULL)
            off += fabs(c->whole[w].step_s - timeline[w]->total_s - *rest_s) / c->whole[w].step_s;
    return off;
}

/* Of the operations that were timed. */
static double mean_queue(const pdl_calibration_t *r)
{
    double sum = 0;

    for (int i = 0; i < r->operation_count; i++) sum += r->operation[i].queue_s[PDL_TIMED_FORWARD];
    return r->operation_count > 0 ? sum / r->operation_count : r->kernel_queue_s;
}

pdl_status_t pdl__calibrate_rest(pdl__calibrate_t *c)
{
    const pdl_system_t *system = NULL;
    pdl_timeline_t     *timeline[PDL__WHOLES] = {NULL};
    pdl_calibration_t  *r = c->result;
    double              least = INFINITY;

    r->queue_s = mean_queue(r);
    pdl_status_t status = read_back(r, &system);
    if (status) return status;
    for (int w = 0; w < c->whole_count; w++) find_timeline(system, &c->whole[w], &timeline[w]);
    for (double issue_s = 0; issue_s < MOST_ISSUE_S; issue_s += ISSUE_STEP_S) {
        double rest_s = 0, off = misses(c, timeline, issue_s > 0 ? ISSUE_STEP_S : 0, &rest_s);

        if (!(off < least)) continue;
        least = off;
        r->issue_s = issue_s;
        r->step_s = rest_s;
    }
    r->queue_s += r->issue_s;
    r->graphs = c->backend[0]->device->captures; /* updates above were timed operation by operation */
    for (int w = 0; w < c->whole_count; w++) pdl_timeline_destroy(timeline[w]);
    pdl_system_destroy(system);
    return PDL_OK;
}
