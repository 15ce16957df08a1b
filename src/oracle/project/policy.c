/*
 * Closed forms of data policies: shuffling.md 2.4 and 2.5 and sample_hiding.md 4 and 9 of the specification, as
 * docs/data_policy.md restates them.
 */
#include <paradl/oracle/data_policy.h>

#include <math.h>

double pdl_policy_read_seconds(double samples, double sample_bytes, double clients, double client_bytes_per_s,
                               double shared_bytes_per_s)
{
    double rate = client_bytes_per_s > 0 ? client_bytes_per_s : (double)INFINITY;

    if (shared_bytes_per_s > 0) rate = fmin(rate, shared_bytes_per_s / clients);
    return samples / clients * sample_bytes / rate;
}

double pdl_policy_exchanged(double exchange, double samples, double workers)
{
    return round(exchange * floor(samples / workers));
}

double pdl_policy_exchange_seconds(double messages, double startup_s, double bytes, double bytes_per_s)
{
    return messages * startup_s + (bytes_per_s > 0 ? bytes / bytes_per_s : 0);
}

double pdl_policy_stall_seconds(double exchange_s, double iterations, double pass_s)
{
    return fmax(0, exchange_s / iterations - pass_s);
}

double pdl_policy_seen(double exchange, double workers, double epochs)
{
    double first = 1 / workers;

    return first + (1 - first) * (1 - pow(1 - exchange / workers, epochs - 1));
}

double pdl_policy_never_left(double exchange, double epochs)
{
    return pow(1 - exchange, epochs - 1);
}

double pdl_hiding_mean(double fraction, int64_t epochs, const int64_t *milestone, int count, const double *factor)
{
    double  sum = 0;
    int64_t from = 0;

    for (int i = 0; i <= count; i++) {
        int64_t to = i < count && milestone[i] < epochs ? milestone[i] : epochs;

        if (to > from) {
            sum += factor[i] * (double)(to - from);
            from = to;
        }
    }
    return epochs > 0 ? fraction * sum / (double)epochs : 0;
}

/* T_hidden = (1-f) [t_f + t_b + t_c/B] + f t_f / k + t_sel per sample, of which the first bracket alone is T_full. */
double pdl_hiding_saving(double t_f_s, double t_b_s, double t_c_s, double batch, double fraction, double t_sel_s,
                         int64_t refresh_every)
{
    double full = t_f_s + t_b_s + t_c_s / batch;
    double refreshed = refresh_every > 0 ? 1 / (double)refresh_every : 0;

    if (!(full > 0)) return 0;
    return fraction * (full - refreshed * t_f_s) / full - t_sel_s / full;
}

double pdl_policy_exchange_rate(const pdl_system_t *system, const pdl_parameters_t *parameters, int64_t pe,
                                int64_t workers)
{
    double rate = INFINITY, all = (double)workers;

    for (int l = 0; l < system->level_count && workers > 1; l++) {
        const pdl_level_t *level = &system->level[l];
        double             child = l > 0 ? (double)pdl_system_group_size(system, l - 1) : 1;
        double             inside = fmax(1, floor(child * all / (double)pe));
        double             links = level->ports / level->oversubscription;
        double             efficiency = l > 0 ? parameters->network_efficiency : parameters->fabric_efficiency;

        if (inside >= all) break;
        if (level->shared_medium) links /= fmin((double)level->fanout, all / inside);
        /* Of what the workers of a child send, this part goes to workers outside of it. */
        double leaving = inside * (all - inside) / (all - 1);
        rate = fmin(rate, efficiency * links * level->bandwidth_bytes_per_s / leaving);
    }
    return rate;
}

void pdl_policy_list(pdl_data_policy_t list[PDL_POLICY_LIST_COUNT])
{
    static const struct {
        pdl_policy_shuffle_t shuffle;
        pdl_policy_store_t   store;
        double               exchange;
    } kinds[PDL_POLICY_LIST_COUNT / 2] = {
        {PDL_POLICY_GLOBAL, PDL_POLICY_PFS, 0},     {PDL_POLICY_GLOBAL, PDL_POLICY_NODE, 0},
        {PDL_POLICY_LOCAL, PDL_POLICY_NODE, 0},     {PDL_POLICY_PARTIAL, PDL_POLICY_NODE, 0.03},
        {PDL_POLICY_PARTIAL, PDL_POLICY_NODE, 0.1}, {PDL_POLICY_PARTIAL, PDL_POLICY_NODE, 0.3},
        {PDL_POLICY_PAIRED, PDL_POLICY_NODE, 0.1},
    };

    for (int i = 0; i < PDL_POLICY_LIST_COUNT; i++) {
        int kind = i % (PDL_POLICY_LIST_COUNT / 2);

        list[i] = pdl_data_policy_default();
        list[i].given = true;
        list[i].shuffle = kinds[kind].shuffle;
        list[i].store = kinds[kind].store;
        list[i].exchange = kinds[kind].exchange;
        list[i].hide = i >= PDL_POLICY_LIST_COUNT / 2 ? 0.3 : 0;
        list[i].hide_mean = PDL_POLICY_HIDE_MEAN * list[i].hide;
    }
}
