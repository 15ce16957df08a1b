/*
 * A simulated plan as tables and as JSON: projected beside simulated, part by part, then the stages, the
 * communications and the busiest link.
 */
#include <paradl/base/document.h>
#include <paradl/base/output.h>
#include <paradl/base/units.h>
#include <paradl/report/sim_report.h>
#include <paradl/report/table.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COMMS_SHOWN = 12, STAGES_SHOWN = 16 };

/* The parts in the order in which they are shown, of a projection or of a simulation. */
enum { PART_COMPUTE, PART_COMM, PART_BUBBLE = PART_COMM + PDL_COMM_CLASS_COUNT, PART_TOTAL, PART_COUNT };

static const char *const part_names[PART_COUNT] = {
    [PART_COMPUTE] = "computation",
    [PART_COMM + PDL_COMM_LAYER] = "layer collectives",
    [PART_COMM + PDL_COMM_HALO] = "halo exchange",
    [PART_COMM + PDL_COMM_STAGE] = "stage transfer",
    [PART_COMM + PDL_COMM_GRADIENT] = "gradient exchange, exposed",
    [PART_BUBBLE] = "bubble",
    [PART_TOTAL] = "total",
};
static const char *const part_keys[PART_COUNT] = {
    [PART_COMPUTE] = "compute_s",
    [PART_COMM + PDL_COMM_LAYER] = "layer_s",
    [PART_COMM + PDL_COMM_HALO] = "halo_s",
    [PART_COMM + PDL_COMM_STAGE] = "stage_s",
    [PART_COMM + PDL_COMM_GRADIENT] = "gradient_s",
    [PART_BUBBLE] = "bubble_s",
    [PART_TOTAL] = "total_s",
};

static void list_parts(const pdl_plan_sim_t *sim, double projected[PART_COUNT], double simulated[PART_COUNT])
{
    projected[PART_COMPUTE] = sim->projected.compute_s;
    simulated[PART_COMPUTE] = sim->simulated.compute_s;
    for (int c = 0; c < PDL_COMM_CLASS_COUNT; c++) {
        projected[PART_COMM + c] = sim->projected.comm[c];
        simulated[PART_COMM + c] = sim->simulated.comm[c];
    }
    projected[PART_BUBBLE] = sim->projected.bubble_s;
    simulated[PART_BUBBLE] = sim->simulated.bubble_s;
    projected[PART_TOTAL] = sim->projected.total_s;
    simulated[PART_TOTAL] = sim->simulated.total_s;
}

static void print_heading(const pdl_plan_sim_report_t *report, FILE *stream)
{
    char ranks[PDL_FORMAT_SIZE], batch[PDL_FORMAT_SIZE], used[PDL_FORMAT_SIZE], has[PDL_FORMAT_SIZE], mesh[128];

    fprintf(stream, "%s   %s on %s device%s of %s: %s\n", report->model_name, report->plan->strategy,
            pdl_format_count(report->sim->ranks, ranks), report->sim->ranks == 1 ? "" : "s", report->system_name,
            pdl_mesh_format(&report->plan->mesh, mesh, sizeof(mesh)));
    fprintf(stream, "batch %s, %lld micro-batch%s", pdl_format_count(report->plan->batch, batch),
            (long long)report->plan->micro_batches, report->plan->micro_batches == 1 ? "" : "es");
    if (report->sim->stage_count > 1)
        fprintf(stream, ", %s%s", pdl_schedule_names[report->plan->schedule],
                report->plan->virtual_stages > 1 ? " chunks" : "");
    fprintf(stream, ", engine %s", pdl_engine_names[report->sim->engine]);
    if (*report->framework != '\0') fprintf(stream, ", framework %s", report->framework);
    fprintf(stream, ", parameters %s\n", report->parameters);
    fprintf(stream, "memory %s of %s per device%s\n", pdl_format_bytes(report->sim->projected.memory_bytes, used),
            pdl_format_bytes(report->device_bytes, has), report->sim->projected.fits ? "" : ": does not fit");
    if (report->plan->stage_devices[0] != '\0') fprintf(stream, "devices %s\n", report->plan->stage_devices);
    fputc('\n', stream);
}

static pdl_status_t print_parts(const pdl_plan_sim_report_t *report, FILE *stream)
{
    static const pdl_column_t columns[] = {{"one iteration", PDL_LEFT},
                                           {"projected", PDL_RIGHT},
                                           {"simulated", PDL_RIGHT},
                                           {"difference", PDL_RIGHT}};
    pdl_table_t              *table = pdl_table_create(columns, 4);
    double                    projected[PART_COUNT], simulated[PART_COUNT];
    pdl_status_t              status;

    list_parts(report->sim, projected, simulated);
    for (int i = 0; i < PART_COUNT; i++) {
        char a[PDL_FORMAT_SIZE], b[PDL_FORMAT_SIZE];

        if (i != PART_TOTAL && i != PART_COMPUTE && projected[i] <= 0 &&
            simulated[i] <= 1e-9 * projected[PART_TOTAL])
            continue;
        pdl_table_row(table, i == PART_TOTAL ? PDL_ROW_STRONG : PDL_ROW_PLAIN);
        pdl_table_cell(table, "%s", part_names[i]);
        pdl_table_cell(table, "%s", pdl_format_seconds(projected[i], a));
        pdl_table_cell(table, "%s", pdl_format_seconds(fmax(simulated[i], 0), b));
        if (projected[i] > 0) pdl_table_cell(table, "%+.2f %%", 100 * (simulated[i] / projected[i] - 1));
    }
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status;
}

/* Many stages look alike: the ones in the middle are left out. Of interleaved ones the first chunk is named. */
static pdl_status_t print_stages(const pdl_plan_sim_t *sim, int chunks, FILE *stream)
{
    static const pdl_column_t columns[] = {{"stage", PDL_RIGHT},
                                           {"layers", PDL_LEFT},
                                           {"computes", PDL_RIGHT},
                                           {"exchanges", PDL_RIGHT},
                                           {"idle", PDL_RIGHT}};
    pdl_table_t              *table;
    pdl_status_t              status;

    if (sim->stage_count == 1) return PDL_OK;
    table = pdl_table_create(columns, 5);
    for (int s = 0; s < sim->stage_count; s++) {
        const pdl_stage_sim_t *stage = &sim->stages[s];
        char                   a[PDL_FORMAT_SIZE], b[PDL_FORMAT_SIZE];
        bool                   hidden =
            sim->stage_count > STAGES_SHOWN && s >= STAGES_SHOWN / 2 && s < sim->stage_count - STAGES_SHOWN / 2;

        if (hidden && s > STAGES_SHOWN / 2) continue;
        pdl_table_row(table, hidden ? PDL_ROW_FAINT : PDL_ROW_PLAIN);
        if (hidden) {
            pdl_table_cell(table, "...");
            continue;
        }
        pdl_table_cell(table, "%d", s);
        pdl_table_cell(table, "%d to %d%s", stage->first_layer, stage->last_layer - 1, chunks > 1 ? ", ..." : "");
        pdl_table_cell(table, "%s", pdl_format_seconds(stage->compute_s, a));
        pdl_table_cell(table, "%s", pdl_format_seconds(stage->comm_s, b));
        pdl_table_cell(table, "%.1f %%", 100 * stage->idle_share);
    }
    fputc('\n', stream);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status;
}

static int longest_first(const void *a, const void *b)
{
    const pdl_comm_sim_t *x = *(const pdl_comm_sim_t *const *)a, *y = *(const pdl_comm_sim_t *const *)b;
    double                p = x->times * x->simulated_s, q = y->times * y->simulated_s;

    if (p != q) return p < q ? 1 : -1;
    return x < y ? -1 : x > y;
}

static void add_comm(pdl_table_t *table, const pdl_comm_sim_t *comm)
{
    char bytes[PDL_FORMAT_SIZE], a[PDL_FORMAT_SIZE], b[PDL_FORMAT_SIZE], times[PDL_FORMAT_SIZE];

    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "%s %s", pdl_primitive_names[comm->primitive], comm->algorithm);
    pdl_table_cell(table, "%lld x %lld", (long long)comm->groups, (long long)comm->size);
    pdl_table_cell(table, "%lld", (long long)comm->stride);
    pdl_table_cell(table, "%s", pdl_format_bytes(comm->bytes, bytes));
    pdl_table_cell(table, "%s", pdl_format_count((int64_t)llround(comm->times), times));
    pdl_table_cell(table, "%s", pdl_format_seconds(comm->projected_s, a));
    pdl_table_cell(table, "%s", pdl_format_seconds(comm->simulated_s, b));
}

static pdl_status_t print_comms(const pdl_plan_sim_t *sim, FILE *stream)
{
    static const pdl_column_t columns[] = {{"communication", PDL_LEFT}, {"groups x ranks", PDL_RIGHT},
                                           {"stride", PDL_RIGHT},       {"bytes", PDL_RIGHT},
                                           {"times", PDL_RIGHT},        {"projected", PDL_RIGHT},
                                           {"simulated", PDL_RIGHT}};
    const pdl_comm_sim_t    **order;
    pdl_table_t              *table;
    pdl_status_t              status;

    if (sim->comm_count == 0) return PDL_OK;
    order = malloc((size_t)sim->comm_count * sizeof(*order));
    if (order == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a table");
    for (int i = 0; i < sim->comm_count; i++) order[i] = &sim->comms[i];
    qsort(order, (size_t)sim->comm_count, sizeof(*order), longest_first);
    table = pdl_table_create(columns, 7);
    for (int i = 0; i < sim->comm_count && i < COMMS_SHOWN; i++) add_comm(table, order[i]);
    fputc('\n', stream);
    status = pdl_table_print(table, stream);
    if (sim->comm_count > COMMS_SHOWN) fprintf(stream, "and %d shorter ones\n", sim->comm_count - COMMS_SHOWN);
    pdl_table_destroy(table);
    free(order);
    return status;
}

static pdl_status_t print_levels(const pdl_plan_sim_t *sim, FILE *stream)
{
    static const pdl_column_t columns[] = {{"links of", PDL_LEFT},
                                           {"in use", PDL_RIGHT},
                                           {"busiest carries", PDL_RIGHT},
                                           {"busy", PDL_RIGHT},
                                           {"mean", PDL_RIGHT}};
    pdl_table_t              *table = pdl_table_create(columns, 5);
    pdl_status_t              status;

    for (int l = 0; l < sim->level_count; l++) {
        const pdl_level_sim_t *level = &sim->levels[l];
        char                   bytes[PDL_FORMAT_SIZE];

        if (level->used == 0) continue;
        pdl_table_row(table, PDL_ROW_PLAIN);
        pdl_table_cell(table, "%s", level->name);
        pdl_table_cell(table, "%d of %d", level->used, level->links);
        pdl_table_cell(table, "%s", pdl_format_bytes(level->largest_bytes, bytes));
        pdl_table_cell(table, "%.1f %%", 100 * level->largest_share);
        pdl_table_cell(table, "%.1f %%", 100 * level->mean_share);
    }
    fputc('\n', stream);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status;
}

pdl_status_t pdl_report_plan_simulation(const pdl_plan_sim_report_t *report, FILE *stream)
{
    const pdl_plan_sim_t *sim = report->sim;
    char                  bytes[PDL_FORMAT_SIZE];
    pdl_status_t          status;

    print_heading(report, stream);
    status = print_parts(report, stream);
    if (!status) status = print_stages(sim, report->plan->virtual_stages, stream);
    if (!status) status = print_comms(sim, stream);
    if (!status && sim->busiest_link[0] != '\0') status = print_levels(sim, stream);
    if (status) return status;
    if (sim->busiest_link[0] != '\0')
        fprintf(stream, "\nbusiest link: %s, %s, busy for %.0f %% of the time\n", sim->busiest_link,
                pdl_format_bytes(sim->busiest_bytes, bytes), 100 * sim->busiest_share);
    if (report->policy != NULL) status = pdl_report_policy(report->policy, stream);
    if (status) return status;
    if (report->trace != NULL) fprintf(stream, "timeline: %s\n", report->trace);
    return pdl_output_flush(stream, "standard output");
}

static void write_parts(pdl_json_t *json, const char *key, const double parts[PART_COUNT])
{
    pdl_json_open(json, key, '{');
    for (int i = 0; i < PART_COUNT; i++) pdl_json_number(json, part_keys[i], parts[i]);
    pdl_json_close(json);
}

static void write_stages(pdl_json_t *json, const pdl_plan_sim_t *sim)
{
    pdl_json_open(json, "stages", '[');
    for (int s = 0; s < sim->stage_count; s++) {
        const pdl_stage_sim_t *stage = &sim->stages[s];

        pdl_json_open(json, NULL, '{');
        pdl_json_int(json, "first_layer", stage->first_layer);
        pdl_json_int(json, "last_layer", stage->last_layer - 1);
        pdl_json_number(json, "compute_s", stage->compute_s);
        pdl_json_number(json, "comm_s", stage->comm_s);
        pdl_json_number(json, "end_s", stage->end_s);
        pdl_json_number(json, "idle_share", stage->idle_share);
        pdl_json_close(json);
    }
    pdl_json_close(json);
}

static void write_comms(pdl_json_t *json, const pdl_plan_sim_t *sim)
{
    pdl_json_open(json, "communications", '[');
    for (int i = 0; i < sim->comm_count; i++) {
        const pdl_comm_sim_t *comm = &sim->comms[i];

        pdl_json_open(json, NULL, '{');
        pdl_json_string(json, "primitive", pdl_primitive_names[comm->primitive]);
        pdl_json_string(json, "algorithm", comm->algorithm);
        pdl_json_int(json, "groups", comm->groups);
        pdl_json_int(json, "ranks", comm->size);
        pdl_json_int(json, "stride", comm->stride);
        pdl_json_bytes(json, "bytes", comm->bytes);
        pdl_json_number(json, "times", comm->times);
        pdl_json_number(json, "projected_s", comm->projected_s);
        pdl_json_number(json, "simulated_s", comm->simulated_s);
        pdl_json_close(json);
    }
    pdl_json_close(json);
}

static void write_levels(pdl_json_t *json, const pdl_plan_sim_t *sim)
{
    pdl_json_open(json, "levels", '[');
    for (int l = 0; l < sim->level_count; l++) {
        const pdl_level_sim_t *level = &sim->levels[l];

        pdl_json_open(json, NULL, '{');
        pdl_json_string(json, "name", level->name);
        pdl_json_int(json, "links", level->links);
        pdl_json_int(json, "used", level->used);
        pdl_json_number(json, "mean_share", level->mean_share);
        pdl_json_number(json, "largest_share", level->largest_share);
        pdl_json_bytes(json, "largest_bytes", level->largest_bytes);
        pdl_json_close(json);
    }
    pdl_json_close(json);
}

static void write_plan(pdl_json_t *json, const pdl_plan_sim_report_t *report)
{
    char mesh[128];

    pdl_json_string(json, "model", report->model_name);
    pdl_json_string(json, "system", report->system_name);
    pdl_json_string(json, "parameters", report->parameters);
    pdl_json_string(json, "framework", *report->framework ? report->framework : NULL);
    pdl_json_string(json, "strategy", report->plan->strategy);
    if (report->plan->stage_devices[0] != '\0') pdl_json_string(json, "stage_devices", report->plan->stage_devices);
    pdl_json_int(json, "ranks", report->sim->ranks);
    pdl_json_string(json, "mesh", pdl_mesh_format(&report->plan->mesh, mesh, sizeof(mesh)));
    pdl_json_int(json, "batch", report->plan->batch);
    pdl_json_int(json, "micro_batches", report->plan->micro_batches);
    pdl_json_string(json, "schedule", pdl_schedule_names[report->plan->schedule]);
    pdl_json_string(json, "engine", pdl_engine_names[report->sim->engine]);
}

pdl_status_t pdl_report_plan_simulation_json(const pdl_plan_sim_report_t *report, FILE *stream)
{
    const pdl_plan_sim_t *sim = report->sim;
    double                projected[PART_COUNT], simulated[PART_COUNT];
    pdl_json_t            json;

    list_parts(sim, projected, simulated);
    pdl_document_begin(&json, stream, "plan-simulation/1");
    write_plan(&json, report);
    pdl_json_bytes(&json, "memory_bytes", sim->projected.memory_bytes);
    pdl_json_bytes(&json, "device_memory_bytes", report->device_bytes);
    pdl_json_bool(&json, "fits", sim->projected.fits);
    write_parts(&json, "projected", projected);
    write_parts(&json, "simulated", simulated);
    pdl_json_number(&json, "gradient_total_s", sim->gradient_total_s);
    write_stages(&json, sim);
    write_comms(&json, sim);
    write_levels(&json, sim);
    if (sim->busiest_link[0] == '\0') {
        pdl_json_string(&json, "busiest_link", NULL);
    } else {
        pdl_json_open(&json, "busiest_link", '{');
        pdl_json_string(&json, "name", sim->busiest_link);
        pdl_json_bytes(&json, "bytes", sim->busiest_bytes);
        pdl_json_number(&json, "share", sim->busiest_share);
        pdl_json_close(&json);
    }
    if (report->policy != NULL)
        pdl_report_policy_json(&json, "data_policy", &report->policy->rows[0], report->policy->base);
    pdl_json_int(&json, "flows", sim->flows);
    pdl_json_number(&json, "wall_s", sim->wall_s);
    pdl_json_close(&json);
    return pdl_output_flush(stream, "standard output");
}
