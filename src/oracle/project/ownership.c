/*
 * What a whole training takes.
 */
#include <paradl/oracle/ownership.h>

#include <math.h>
#include <string.h>

double pdl_ownership_interval(double checkpoint_s, double mtbf_s)
{
    double ratio = checkpoint_s / (2 * mtbf_s);

    if (ratio >= 1) return mtbf_s;
    return sqrt(2 * checkpoint_s * mtbf_s) * (1 + sqrt(ratio) / 3 + ratio / 9) - checkpoint_s;
}

double pdl_ownership_time(double work_s, double interval_s, double checkpoint_s, double restart_s, double mtbf_s)
{
    return mtbf_s * exp(restart_s / mtbf_s) * expm1((interval_s + checkpoint_s) / mtbf_s) * work_s / interval_s;
}

/* Weights that are trained, as they are updated, in 32 bits, and what the optimizer keeps of each. */
static double checkpoint_bytes(const pdl_plan_t *plan)
{
    static const double moments[PDL_OPTIMIZER_COUNT] = {
        [PDL_OPTIMIZER_SGD] = 0, [PDL_OPTIMIZER_MOMENTUM] = 1, [PDL_OPTIMIZER_ADAM] = 2};
    pdl_model_totals_t totals;

    pdl_model_totals(plan->model, &totals);
    return (double)totals.trained * (1 + moments[plan->optimizer]) * fmax(4, pdl_precision_bytes(plan->precision));
}

static void miss(pdl_ownership_t *o, const char *key)
{
    size_t used = strlen(o->missing);

    snprintf(o->missing + used, sizeof(o->missing) - used, "%s%s", used > 0 ? ", " : "", key);
}

static void project_failures(const pdl_system_t *system, double devices, pdl_ownership_t *o)
{
    const pdl_ownership_fields_t *fields = &system->ownership;

    if (fields->checkpoint_bytes_per_s > 0) o->checkpoint_s = o->checkpoint_bytes / fields->checkpoint_bytes_per_s;
    if (fields->device_mtbf_s > 0) o->mtbf_s = fields->device_mtbf_s / devices;
    if (isnan(o->mtbf_s)) miss(o, "ownership.device_mtbf (failures)");
    if (isnan(o->checkpoint_s)) miss(o, "ownership.checkpoint_bandwidth (checkpoints)");
    if (isnan(o->mtbf_s) || isnan(o->checkpoint_s)) return;
    o->interval_s = pdl_ownership_interval(o->checkpoint_s, o->mtbf_s);
    o->total_s = pdl_ownership_time(o->work_s, o->interval_s, o->checkpoint_s, fields->restart_s, o->mtbf_s);
    o->goodput = o->work_s / o->total_s;
}

/* Devices draw while work is repeated what they draw for it; nodes draw all the time. */
static void project_energy(const pdl_system_t *system, const pdl_projection_t *p, double devices,
                           pdl_ownership_t *o)
{
    const pdl_ownership_fields_t *fields = &system->ownership;
    double                        nodes = ceil(devices / (double)system->level[0].fanout);

    if (p->energy_j <= 0) {
        miss(o, "device.power (energy)");
        return;
    }
    o->energy_j = fields->pue * o->total_s * (p->energy_j / p->total_s + nodes * fields->node_power_w);
    if (fields->price_per_kwh > 0) o->energy_cost = o->energy_j / 3.6e6 * fields->price_per_kwh;
}

/* Of a device that the plan is on, on average; 0: not known. */
static double price_of(const pdl_system_t *system, const pdl_plan_t *plan)
{
    int order = 0;

    if (pdl_system_find_order(system, (const char(*)[PDL_PART_NAME])plan->part, plan->part_count, &order)) return 0;
    return pdl_system_price(system, order, pdl_mesh_size(&plan->mesh));
}

void pdl_ownership_project(const pdl_system_t *system, const pdl_plan_t *plan, const pdl_projection_t *projection,
                           double samples, pdl_ownership_t *ownership)
{
    double devices = (double)pdl_mesh_size(&plan->mesh), steps = ceil(samples / (double)plan->batch);

    *ownership = (pdl_ownership_t){.iterations = steps,
                                   .work_s = steps * projection->total_s,
                                   .low_s = steps * projection->low_s,
                                   .high_s = steps * projection->high_s,
                                   .checkpoint_bytes = checkpoint_bytes(plan),
                                   .checkpoint_s = NAN,
                                   .interval_s = NAN,
                                   .mtbf_s = NAN,
                                   .goodput = NAN,
                                   .total_s = steps * projection->total_s,
                                   .energy_j = NAN,
                                   .cost = NAN,
                                   .energy_cost = NAN};
    project_failures(system, devices, ownership);
    project_energy(system, projection, devices, ownership);
    ownership->device_hours = ownership->total_s * devices / 3600;
    double price = price_of(system, plan);
    if (price > 0)
        ownership->cost = ownership->device_hours * price;
    else
        miss(ownership, "cost_per_pe_hour (money)");
}
