/*
 * Why the winner wins, and what would have to change for the next one to win.
 */
#include "oracle/internal.h"
#include "oracle/writer.h"
#include <math.h>
#include <paradl/oracle/search.h>
#include <string.h>

typedef struct part {
    const char *name;
    double      first, second;
} part_t;

/* The part of an iteration in which the first gains most. */
static void say_chief_part(pdl__writer_t *w, const pdl_projection_t *p, const pdl_projection_t *q)
{
    part_t parts[] = {
        {"forward and backward", p->forward_s + p->backward_s, q->forward_s + q->backward_s},
        {"weight update", p->update_s, q->update_s},
        {"collectives in layers", p->comm[PDL_COMM_LAYER], q->comm[PDL_COMM_LAYER]},
        {"halo exchange", p->comm[PDL_COMM_HALO], q->comm[PDL_COMM_HALO]},
        {"stage transfers and bubble", p->comm[PDL_COMM_STAGE] + p->bubble_s,
         q->comm[PDL_COMM_STAGE] + q->bubble_s},
        {"gradient exchange", p->comm[PDL_COMM_GRADIENT], q->comm[PDL_COMM_GRADIENT]},
        {"input", p->io_s, q->io_s},
    };
    const part_t *most = &parts[0];
    char          x[PDL_FORMAT_SIZE], y[PDL_FORMAT_SIZE];

    for (size_t i = 1; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (parts[i].second - parts[i].first > most->second - most->first) most = &parts[i];
    if (most->second > most->first)
        pdl__say(w, ", chiefly in %s: %s against %s", most->name, pdl_format_seconds(most->first, x),
                 pdl_format_seconds(most->second, y));
}

static void say_difference(pdl__writer_t *w, const pdl_candidate_t *a, const pdl_candidate_t *b)
{
    double gain = 100 * (b->projection.total_s / a->projection.total_s - 1);

    if (pdl_candidates_tie(a, b)) {
        pdl__say(w, "%s ties with %s: the times differ by less than %.1f %%, and %s is simpler.\n",
                 a->config.strategy->name, b->config.strategy->name, 100 * PDL_TIE, a->config.strategy->name);
        return;
    }
    pdl__say(w, gain < 10 ? "%s beats %s by %.1f %%" : "%s beats %s by %.0f %%", a->config.strategy->name,
             b->config.strategy->name, gain);
    say_chief_part(w, &a->projection, &b->projection);
    pdl__say(w, ".\n");
}

/* Seconds of a candidate under other parameters; negative when they cannot be had. */
static double seconds_of(pdl_oracle_t *oracle, const pdl_request_t *request, const pdl_candidate_t *c)
{
    pdl_projection_t projection;
    pdl_status_t     status;

    if (c->config.strategy->per_layer)
        status = pdl_oracle_replay(oracle, c->plan, request->dataset, &projection);
    else
        status = pdl__evaluate_replayed(oracle, &c->config, request->dataset, &projection);
    return status ? -1 : projection.total_s;
}

/* The second over the first, of times on a network that is faster by a factor; negative where they cannot be had. */
static double ratio_at(pdl_oracle_t *oracle, const pdl_request_t *request, const pdl_search_t *s,
                       const pdl_parameters_t *original, double factor)
{
    pdl_parameters_t p = *original;

    p.network_efficiency *= factor;
    pdl_oracle_set_parameters(oracle, &p);
    double first = seconds_of(oracle, request, &s->candidates[0]);
    double second = seconds_of(oracle, request, &s->candidates[1]);
    return first > 0 && second > 0 ? second / first : -1;
}

/* Quick evaluations differ a little from the times in the table; what they have in common at the present speed is taken
   out, so that the order there is that of the table. */
static bool second_wins(pdl_oracle_t *oracle, const pdl_request_t *request, const pdl_search_t *s,
                        const pdl_parameters_t *original, double factor, double present)
{
    double table = s->candidates[1].projection.total_s / s->candidates[0].projection.total_s;
    double ratio = ratio_at(oracle, request, s, original, factor);

    return ratio > 0 && ratio / present * table < 1;
}

/* The change of network speed at which the order turns, by bisection on a logarithmic scale; 0: none within 64-fold. */
static double turning_factor(pdl_oracle_t *oracle, const pdl_request_t *request, const pdl_search_t *s)
{
    pdl_parameters_t original = oracle->p;
    double           answer = 0, present = ratio_at(oracle, request, s, &original, 1);

    for (int direction = -1; direction <= 1 && answer == 0 && present > 0; direction += 2) {
        double good = 0, bad = direction * log(64.0);
        if (!second_wins(oracle, request, s, &original, exp(bad), present)) continue;
        for (int i = 0; i < 30; i++) {
            double middle = 0.5 * (good + bad);
            if (second_wins(oracle, request, s, &original, exp(middle), present))
                bad = middle;
            else
                good = middle;
        }
        answer = exp(bad);
    }
    pdl_oracle_set_parameters(oracle, &original);
    return answer;
}

static void say_network(pdl__writer_t *w, pdl_oracle_t *oracle, const pdl_request_t *request, const pdl_search_t *s)
{
    const pdl_system_t *system = oracle->system;
    int                 level = system->level_count > 1 ? 1 : 0;
    char                then[PDL_FORMAT_SIZE], now[PDL_FORMAT_SIZE];

    if (request->pe <= pdl_system_group_size(system, 0)) return;
    double factor = turning_factor(oracle, request, s);
    if (factor == 0) {
        pdl__say(w, "No speed of the network between nodes (from 1/64 to 64 times) makes %s win.\n",
                 s->candidates[1].config.strategy->name);
        return;
    }
    double bandwidth = system->level[level].bandwidth_bytes_per_s;
    pdl_format_byte_rate(factor * bandwidth, then);
    pdl_format_byte_rate(bandwidth, now);
    if (strcmp(then, now) == 0) return; /* nobody can tell the two apart */
    pdl__say(w, "%s would win if the bandwidth between nodes %s %s per port (it is %s).\n",
             s->candidates[1].config.strategy->name, factor < 1 ? "fell below" : "rose above", then, now);
}

/* The best of the first strategy in the memory that the second takes; infinite where it does not fit. */
static pdl_status_t seconds_within(pdl_oracle_t *oracle, const pdl_request_t *request, const pdl_search_t *s,
                                   double *seconds)
{
    pdl_request_t smaller = *request;
    pdl_search_t *result;

    smaller.batch = s->batch;
    smaller.strategy = s->candidates[0].config.strategy;
    smaller.max_memory = s->candidates[1].projection.memory_bytes;
    pdl_status_t status = pdl_search_run(oracle, &smaller, &result);
    if (status) return status;
    *seconds = result->possible > 0 ? result->candidates[0].projection.total_s : INFINITY;
    pdl_search_destroy(result);
    return PDL_OK;
}

/* Less memory is no loss where micro-batches or a policy make up for it. */
static pdl_status_t say_memory(pdl__writer_t *w, pdl_oracle_t *oracle, const pdl_request_t *request,
                               const pdl_search_t *s)
{
    const pdl_candidate_t *a = &s->candidates[0], *b = &s->candidates[1];
    char                   less[PDL_FORMAT_SIZE], time[PDL_FORMAT_SIZE];
    double                 seconds;

    /* Where memory is counted by compiling, a cap on the model's figures says nothing. */
    if (b->projection.memory_bytes >= 0.98 * a->projection.memory_bytes || oracle->system->backend != NULL)
        return PDL_OK;
    pdl_status_t status = seconds_within(oracle, request, s, &seconds);
    if (status || seconds <= b->projection.total_s) return status;
    pdl__say(w, "%s would win with %s of memory per device: %s then ", b->config.strategy->name,
             pdl_format_bytes(b->projection.memory_bytes, less), a->config.strategy->name);
    if (isinf(seconds))
        pdl__say(w, "does not fit.\n");
    else
        pdl__say(w, "takes %s.\n", pdl_format_seconds(seconds, time));
    return PDL_OK;
}

static void say_batch(pdl__writer_t *w, const pdl_candidate_t *a, const pdl_candidate_t *b)
{
    char count[PDL_FORMAT_SIZE];

    if (b->config.data < a->config.data)
        pdl__say(w, "%s would win if the batch had to stay below %s samples, one for each replica of %s.\n",
                 b->config.strategy->name, pdl_format_count(a->config.data, count), a->config.strategy->name);
}

/* Where the time of a pipeline goes that is no work, and what would change that. */
static void say_pipeline(pdl__writer_t *w, const pdl_candidate_t *c)
{
    const pdl_projection_t *p = &c->projection;
    double                  bubble = p->bubble_s / p->total_s, sent = p->comm[PDL_COMM_STAGE] / p->total_s;
    long long               m = (long long)c->config.micro_batches;

    if (c->config.pipeline < 2 || p->total_s <= 0) return;
    pdl__say(
        w,
        "Of %s's %lld stages the slowest takes %.2f times the mean; %.1f %% of the time is bubble, %.1f %% are "
        "transfers between stages.\n",
        c->config.strategy->name, (long long)c->config.pipeline, p->stage_imbalance, 100 * bubble, 100 * sent);
    if (bubble < 0.02 || p->stage_imbalance > 1.1) return;
    pdl__say(w,
             "About %.1f %% would be bubble with %lld micro-batches instead of %lld in a batch twice as large.\n",
             100 * bubble / (2 - bubble), 2 * m, m);
}

/* On which devices stages are, and which of them has the least room. */
static void say_places(pdl__writer_t *w, const pdl_system_t *system, const pdl_candidate_t *c)
{
    pdl_mesh_t mesh = pdl_config_mesh(&c->config);
    char       places[256], bytes[PDL_FORMAT_SIZE], room[PDL_FORMAT_SIZE];

    if (system->part_count == 0) return;
    pdl__say(w, "%s is on %s; ", c->config.strategy->name,
             pdl_oracle_places(system, c->config.part_order, &mesh, places, sizeof(places)));
    pdl__say(w, "nearest to its memory is stage %lld: %s of the %s of its %s.\n",
             (long long)c->projection.memory_stage, pdl_format_bytes(c->projection.memory_bytes, bytes),
             pdl_format_bytes(c->projection.memory_room, room), c->projection.memory_device);
}

pdl_status_t pdl_search_explain(pdl_oracle_t *oracle, const pdl_request_t *request, const pdl_search_t *s,
                                char *text, size_t size)
{
    pdl__writer_t w = {text, size, 0};

    if (size) text[0] = '\0';
    if (s->possible == 0) {
        pdl__say(&w, "No strategy fits: more devices, more memory per device or fewer samples are needed.\n");
        return PDL_OK;
    }
    const pdl_candidate_t *best = &s->candidates[0];
    for (int i = 0; i < best->projection.finding_count; i++) {
        const pdl_finding_t *f = &best->projection.findings[i];
        if (f->share <= 1)
            pdl__say(&w, "%s: %s %.0f %%; %s.\n", f->limit ? "limit" : "bottleneck", f->name, 100 * f->share,
                     f->hint);
        else
            pdl__say(&w, "%s: %s (%.3g); %s.\n", f->limit ? "limit" : "bottleneck", f->name, f->share, f->hint);
    }
    if (!s->certified && s->not_certified[0] != '\0')
        pdl__say(&w, "The ranking is not certified: %s.\n", s->not_certified);
    say_places(&w, oracle->system, best);
    say_pipeline(&w, best);
    if (best->largest_batch > best->config.batch) {
        char count[PDL_FORMAT_SIZE];
        pdl__say(&w, "With as many micro-batches, memory would hold a batch of up to %s samples.\n",
                 pdl_format_count(best->largest_batch, count));
    }
    if (s->possible < 2) return PDL_OK;
    if (request->goal == PDL_GOAL_TIME) {
        say_difference(&w, best, &s->candidates[1]);
        if (!pdl_candidates_tie(best, &s->candidates[1])) say_network(&w, oracle, request, s);
        say_batch(&w, best, &s->candidates[1]);
        return say_memory(&w, oracle, request, s);
    }
    return PDL_OK;
}
