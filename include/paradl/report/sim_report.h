/*
 * What people and programs are shown of the network laboratory: tables, JSON and drawings of topologies, of
 * simulated collectives and of simulated plans.
 */
#ifndef PARADL_SIM_REPORT_H
#define PARADL_SIM_REPORT_H

#include <paradl/base/status.h>
#include <paradl/report/report.h>
#include <paradl/sim/plan_sim.h>
#include <paradl/sim/sim.h>
#include <paradl/topo/topo.h>
#include <stdbool.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Size, links, metrics and cost of a topology in a machine room (NULL: the default one). */
pdl_status_t pdl_report_topology_list(FILE *stream);
pdl_status_t pdl_report_topology_list_json(FILE *stream);
pdl_status_t pdl_report_topology(const pdl_topology_t *topology, const pdl_room_t *room, FILE *stream);
pdl_status_t pdl_report_topology_json(const pdl_topology_t *topology, const pdl_room_t *room, FILE *stream);

/* Algorithms on one case, as pdl_sim_rank() sorts them; everything is borrowed. */
typedef struct pdl_sim_report {
    const pdl_sim_case_t    *asked;
    const pdl_sim_verdict_t *verdicts;
    int                      count;
    bool                     several;    /* a ranking was asked for, also where one algorithm is left */
    double                   intact_s;   /* time of the first without failed links; 0: none failed */
    const char              *algorithms; /* as asked for: one name, several with commas, or "all" */
} pdl_sim_report_t;
pdl_status_t pdl_report_simulation(const pdl_sim_report_t *report, FILE *stream);
pdl_status_t pdl_report_simulation_json(const pdl_sim_report_t *report, FILE *stream);

/* A sweep over sizes or hosts: one report per point, in which `algorithms` names the columns. */
typedef struct pdl_sim_sweep {
    const pdl_sim_report_t *points;
    int                     point_count;
    const char *const      *algorithms;
    int                     algorithm_count;
    bool                    over_hosts; /* else over bytes */
    bool                    networks;   /* `algorithms` are networks, each with its best algorithm */
} pdl_sim_sweep_t;
pdl_status_t pdl_report_sweep(const pdl_sim_sweep_t *sweep, FILE *stream);
pdl_status_t pdl_report_sweep_json(const pdl_sim_sweep_t *sweep, FILE *stream);
/* Time against size or hosts as a drawing with logarithmic axes that needs no other file. */
pdl_status_t pdl_report_sweep_svg(const pdl_sim_sweep_t *sweep, FILE *stream);
/* The same drawing with characters, for a terminal. */
pdl_status_t pdl_report_sweep_text(const pdl_sim_sweep_t *sweep, FILE *stream);

/* Networks side by side, each with its best algorithm, at one size or over a sweep. */
typedef struct pdl_networks_report {
    const pdl_sim_report_t *points; /* of network n at point p: p * networks + n */
    const char *const      *names;  /* as asked for */
    int                     networks, point_count;
    bool                    over_hosts; /* else over bytes */
    const pdl_room_t       *room;       /* that says what they cost and draw */
} pdl_networks_report_t;
pdl_status_t pdl_report_networks(const pdl_networks_report_t *report, FILE *stream);
pdl_status_t pdl_report_networks_json(const pdl_networks_report_t *report, FILE *stream);
/* As SVG, or with characters. */
pdl_status_t pdl_report_networks_plot(const pdl_networks_report_t *report, bool text, FILE *stream);

/* A simulated plan beside its projection; everything is borrowed. */
typedef struct pdl_plan_sim_report {
    const pdl_plan_t          *plan;
    const char                *model_name, *system_name, *parameters, *framework; /* framework "": none */
    const pdl_plan_sim_t      *sim;
    double                     device_bytes; /* memory of a device */
    const char                *trace;        /* path of the timeline that was written; NULL: none */
    const pdl_policy_report_t *policy;       /* or NULL */
} pdl_plan_sim_report_t;
pdl_status_t pdl_report_plan_simulation(const pdl_plan_sim_report_t *report, FILE *stream);
pdl_status_t pdl_report_plan_simulation_json(const pdl_plan_sim_report_t *report, FILE *stream);

#ifdef __cplusplus
}
#endif
#endif
