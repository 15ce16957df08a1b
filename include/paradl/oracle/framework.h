/*
 * What a training program does differently from the ideal, as data: share/frameworks/NAME.yaml. A framework names the
 * parameter set that it is laid over, the parameters and switches that are its own, and what it does where nobody says
 * otherwise. It knows no model and no machine.
 *
 *     pdl_framework_choose("pytorch", NULL, system, &parameters);
 */
#ifndef PARADL_FRAMEWORK_H
#define PARADL_FRAMEWORK_H

#include <paradl/oracle/oracle.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PDL_FRAMEWORK_VALUES = 64 };

typedef struct pdl_framework {
    char             name[64];
    char             base[64];    /* the parameter set beneath */
    char             machine[64]; /* the one system that its numbers were measured on; "": none, or several */
    pdl_parameters_t values;      /* those of its own; the rest is not to be read */
    bool             parameter_given[PDL_FRAMEWORK_VALUES], switch_given[PDL_FRAMEWORK_VALUES];
    /* Where a run does not say: */
    pdl_sharding_t  sharding;
    pdl_recompute_t recompute;
    bool            recompute_given; /* else nothing is recomputed but what memory asks for */
    pdl_optimizer_t optimizer;
    bool            optimizer_given; /* else Adam for transformers, momentum for others */
    bool            sequence_parallel, dropout, interleaved;
} pdl_framework_t;

/* A built-in name (share/frameworks) or a .yaml file. */
pdl_status_t pdl_framework_load(const char *name_or_path, pdl_framework_t *framework);
/* Lays the framework over a parameter set. */
void pdl_framework_apply(const pdl_framework_t *framework, pdl_parameters_t *parameters);
/* The parameters of a framework on a system: over the named set, else over that of the framework. Without a framework:
   pdl_parameters_choose(). */
pdl_status_t pdl_framework_choose(const char *framework, const char *parameters, const pdl_system_t *system,
                                  pdl_parameters_t *chosen);

#ifdef __cplusplus
}
#endif
#endif
