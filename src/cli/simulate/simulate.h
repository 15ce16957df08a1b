/*
 * What the files of `paradl simulate` share: its values, and a case at one point of them.
 */
#ifndef PDL_CLI_SIMULATE_H
#define PDL_CLI_SIMULATE_H

#include "cli/simulate/options.h"
#include "cli/topology_options.h"

#include <paradl/report/sim_report.h>

typedef struct pdl__simulate_values {
    pdl__topology_values_t topology;
    pdl__room_values_t     room;
    pdl__texts_t           networks, set, with;
    const char            *name; /* of the network at hand */
    const char *algorithm, *trace, *stragglers, *fail_link, *fail_switch, *sweep_bytes, *sweep_hosts, *plot;
    const char *index_sets;
    const char *latency_factors, *bandwidth_factors, *system, *framework, *parameters, *slow, *segments;
    double      bytes, gamma, eager, reverse_share, density, common;
    int64_t     jobs, trace_ranks;
    int         collective, engine, placement;
    bool        links, every_step, latency_share, json, ignore_memory;
} pdl__simulate_values_t;

extern const pdl__option_t pdl__simulate_options[];

/* What one run needs beside the topology. */
typedef struct pdl__setting {
    const pdl__simulate_values_t *values;
    pdl__names_t                  names;
    pdl_factor_t                  latency[PDL__MAX_FACTORS], bandwidth[PDL__MAX_FACTORS];
    int64_t                       segments; /* 0: the best */
    pdl_sim_options_t             options;
} pdl__setting_t;

/* One point: a topology (its own, or that of the point before), the case and its verdicts. */
typedef struct pdl__point {
    pdl_topology_t    *topology;
    bool               owned;
    double            *start_s;
    struct pdl_stream *supports; /* of `ranks` ranks */
    int                ranks;
    pdl_sim_case_t     asked;
    pdl_sim_verdict_t *verdicts;
    pdl_sim_report_t   report;
} pdl__point_t;

/* `hosts` 0: as --hosts says. `shared` is a topology to use again, or NULL. */
pdl_status_t pdl__open_point(const pdl__setting_t *setting, int64_t hosts, pdl_topology_t *shared,
                             pdl__point_t *point);
/* One algorithm that does not support the case is an error, unless a ranking is wanted; in a ranking it is a line. */
pdl_status_t pdl__run_point(const pdl__setting_t *setting, int64_t bytes, bool ranking, pdl__point_t *point);
void         pdl__free_point(pdl__point_t *point);

/* The sizes or numbers of hosts of a sweep; one point, 0, where there is none. */
pdl_status_t pdl__sweep_points(const pdl__simulate_values_t *values, int64_t points[PDL__MAX_POINTS], int *count);

/* networks.c: several networks side by side. */
pdl_status_t pdl__simulate_networks(const pdl__setting_t *setting);

#endif
