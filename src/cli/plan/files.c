/*
 * Files of paradl plan: the plan, its timeline, and exports.
 */
#include "cli/plan/plan.h"

#include <paradl/oracle/replay.h>
#include <paradl/report/export.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A path as the plan has to say it: relative paths are relative to the plan, so one that is elsewhere gets absolute
   ones. Names stay what they are. */
static const char *name_in_plan(const char *plan, const char *name, char path[PATH_MAX])
{
    if (name == NULL || name[0] == '/' || strchr(plan, '/') == NULL) return name;
    if (strchr(name, '/') == NULL && strchr(name, '.') == NULL) return name;
    return realpath(name, path) != NULL ? path : name;
}

pdl_status_t pdl__plan_write(const pdl__plan_asked_t *v, const pdl_candidate_t *best, const char *path)
{
    char                    model[PATH_MAX], system[PATH_MAX], data[PATH_MAX];
    const pdl_projection_t *p = &best->projection;
    pdl_plan_projection_t   projection = {.iteration_s = p->total_s,
                                          .low_s = p->low_s,
                                          .high_s = p->high_s,
                                          .compute_s = p->compute_s,
                                          .comm_s = p->comm_s,
                                          .io_s = p->io_s,
                                          .bubble_s = p->bubble_s,
                                          .memory_bytes = p->memory_bytes};
    pdl_output_t           *output;
    pdl_status_t            status = pdl_output_open(path, &output);

    if (status) return status;
    status = pdl_plan_write(best->plan, name_in_plan(path, v->model, model), name_in_plan(path, v->system, system),
                            name_in_plan(path, v->data, data), &projection, pdl_output_stream(output));
    return pdl__finish_output(output, status);
}

pdl_status_t pdl__plan_write_trace(const char *path, const pdl_timeline_t *timeline)
{
    enum { MOST_RANKS = 64 };
    pdl_output_t *output;
    pdl_status_t  status = pdl_output_open(path, &output);

    if (status) return status;
    pdl_replay_trace(timeline->ranks, timeline->count < MOST_RANKS ? timeline->count : MOST_RANKS,
                     pdl_output_stream(output));
    return pdl_output_close(output);
}

static pdl_status_t make_folder(const char *path)
{
    struct stat info;

    if (mkdir(path, 0777) == 0) return PDL_OK;
    if (errno == EEXIST && stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return PDL_OK;
    return pdl_error(PDL_ERR_IO, "cannot make the folder %s: %s", path, strerror(errno));
}

/* What is said about the files goes to standard error beside a document. */
pdl_status_t pdl__plan_export(const pdl__plan_asked_t *v, const pdl_system_t *system,
                              const pdl_parameters_t *parameters, const pdl_candidate_t *best)
{
    pdl_export_t what = {.plan = best->plan,
                         .projection = &best->projection,
                         .system = system,
                         .parameters = parameters,
                         .model_name = v->model,
                         .system_name = v->system};
    char         path[PATH_MAX];
    pdl_status_t status = make_folder(v->output);

    if (!status && snprintf(path, sizeof(path), "%s/plan.yaml", v->output) >= (int)sizeof(path))
        status = pdl_error(PDL_ERR_INPUT, "the path is too long: %s", v->output);
    if (!status) status = pdl__plan_write(v, best, path);
    if (status) return status;
    return pdl_report_export(&what, v->export_name, v->output, v->json ? stderr : stdout);
}
