/*
 * A plan in the words of other software: launch options or the configuration file of a framework that trains, a Slurm
 * script, and what to look at in the first iterations. What a framework cannot express is named.
 *
 *     pdl_export_t what = {.plan = plan, .projection = &projection, .system = system, .model_name = "llama3-8b"};
 *     pdl_report_export(&what, "megatron", "run", stdout);
 *
 * Names of options were compared with the sources of the frameworks (docs/export.md).
 */
#ifndef PARADL_EXPORT_H
#define PARADL_EXPORT_H

#include <paradl/oracle/oracle.h>
#include <paradl/plan/plan.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_export {
    const pdl_plan_t       *plan;
    const pdl_projection_t *projection;
    const pdl_system_t     *system;
    const pdl_parameters_t *parameters;               /* of the projection; NULL: exchanges are overlapped */
    const char             *model_name, *system_name; /* as they were asked for */
} pdl_export_t;

/* Those that can be written, ended by NULL. */
extern const char *const pdl_export_names[];
#define PDL_EXPORT_COUNT 6

/* Whether it runs pipelines that make gradients of weights in passes of their own; of a name that is none, true. */
bool pdl_export_has_zero_bubble(const char *framework);

/* Writes the files into a folder that exists, and to `stream` which they are and what they do not say. A framework that cannot
   train such a network at all is refused. */
pdl_status_t pdl_report_export(const pdl_export_t *what, const char *framework, const char *folder, FILE *stream);

#ifdef __cplusplus
}
#endif
#endif
