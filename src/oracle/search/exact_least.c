/*
 * What a step takes at the least before layers are cut into stages: on devices that are alike by formula, on several kinds by what every
 * layer takes where that weighs least (docs/oracle.md, "Exact search").
 */
#include "oracle/project/pipeline_time.h"
#include "oracle/search/exact_leaf.h"
#include <math.h>

/* Stages in a row on the same kinds of devices. */
typedef struct stretch {
    int64_t              end;
    unsigned             kinds;
    const pdl_profile_t *on;
    double               speed;  /* beside that of layers which are all on the device that is fastest for them */
    double               weight; /* of a second of a micro-batch here, in what a step takes */
} stretch_t;

/* Stages go round over the ranks of a part, on which they begin at one place and end at one, unless all are there. */
enum { MOST_STRETCHES = 2 * PDL_MAX_PARTS + 1 };

typedef struct places {
    const pdl__visit_t *v;
    int                 count;
    stretch_t           stretch[MOST_STRETCHES];
} places_t;

static pdl_status_t find_stretches(pdl__visit_t *v, places_t *p)
{
    const pdl_case_t *c = &v->c;
    pdl_status_t      status = PDL_OK;

    *p = (places_t){.v = v};
    for (int64_t s = 0; s < c->pipeline && !status; s++) {
        unsigned kinds =
            pdl_system_kinds(v->walk->oracle->system, c->part_order, c->pe, c->pipeline, c->pipeline_stride, s);
        pdl_profile_t *on;
        if (p->count == 0 || p->stretch[p->count - 1].kinds != kinds) {
            status = pdl__profile_for(v->profile, kinds, &on);
            if (!status) p->stretch[p->count++] = (stretch_t){.kinds = kinds, .on = on};
        }
        if (!status) p->stretch[p->count - 1].end = s + 1;
    }
    return status ? status : pdl__sum_passes(c, v->profile);
}

/* All layers of a micro-batch, each where it weighs least; `whole`: with what divided passes leave for later. */
static double lightest(const places_t *p, bool whole)
{
    int             layers = p->v->profile->partition->layer_count;
    pdl_recompute_t recompute = p->v->c.recompute;
    double          sum = 0;

    for (int i = 0; i < layers; i++) {
        double least = INFINITY;
        for (int k = 0; k < p->count; k++) {
            const pdl_profile_t *on = p->stretch[k].on;
            double               seconds = on->pass[recompute][i + 1] - on->pass[recompute][i];
            if (!whole) seconds -= on->later[i + 1] - on->later[i];
            least = fmin(least, seconds * p->stretch[k].weight);
        }
        sum += least;
    }
    return sum;
}

static void find_speeds(places_t *p, double fastest_s)
{
    int layers = p->v->profile->partition->layer_count;

    for (int k = 0; k < p->count; k++) {
        double seconds = p->stretch[k].on->pass[p->v->c.recompute][layers];
        p->stretch[k].speed = seconds > 0 ? fastest_s / seconds : 1;
    }
}

/* Of a micro-batch, what the stage takes that takes longest: no less than any mean of the stages, here that by their speeds. */
static double slowest_share(places_t *p)
{
    double  sum = 0;
    int64_t begin = 0;

    for (int k = 0; k < p->count; begin = p->stretch[k++].end)
        sum += (double)(p->stretch[k].end - begin) * p->stretch[k].speed;
    for (int k = 0; k < p->count; k++) p->stretch[k].weight = p->stretch[k].speed / sum;
    return lightest(p, true);
}

/* A mean of the bounds of all stages, with filling and draining: the shares of the stages are such that a second weighs `level` times
   as much as the stage is fast, or, where it does so with no share at all, more. Returns the sum of the shares; weights are those of
   shares that are scaled. */
static double weigh_stages(places_t *p, double level, double scale)
{
    double  m = (double)p->v->c.micro_batches, q = (double)p->v->c.pipeline, front = 0;
    bool    many = m > q;
    int64_t s = 0;

    for (int k = 0; k < p->count; k++) {
        p->stretch[k].weight = INFINITY;
        for (; s < p->stretch[k].end; s++) {
            double times = many ? m - (q - (double)s + 2) / 3 : (m - 1) / 2, fill = many ? front / 3 : 0;
            double share = fmax(0, (level * p->stretch[k].speed - 1 + fill) / times);
            p->stretch[k].weight = fmin(p->stretch[k].weight, 1 + (times * share - fill) * scale);
            front += share;
        }
    }
    return front;
}

static double filled(places_t *p)
{
    enum { TURNS = 24 };
    double low = 0, high = 0;

    for (int k = 0; k < p->count; k++) high = fmax(high, ((double)p->v->c.micro_batches + 1) / p->stretch[k].speed);
    for (int i = 0; i < TURNS; i++) {
        double middle = 0.5 * (low + high);
        *(weigh_stages(p, middle, 1) < 1 ? &low : &high) = middle;
    }
    /* Any shares will do that add up to one. */
    weigh_stages(p, high, 1 / weigh_stages(p, high, 1));
    return lightest(p, true);
}

/* What a micro-batch takes in all layers at the least, and without what divided passes leave for later; the slowest of its stages. */
typedef struct shares {
    double pass_s, sooner_s, share_s;
} shares_t;

static pdl_status_t find_shares(pdl__visit_t *v, places_t *p, shares_t *found)
{
    pdl_status_t status = find_stretches(v, p);

    if (status) return status;
    for (int k = 0; k < p->count; k++) p->stretch[k].weight = 1;
    found->pass_s = lightest(p, true);
    found->sooner_s = lightest(p, false);
    find_speeds(p, found->pass_s);
    found->share_s = slowest_share(p);
    return PDL_OK;
}

/* The same where all devices are alike: the slowest stage has an even share at the least. */
static shares_t even_shares(const pdl__visit_t *v)
{
    const pdl_sums_t nothing = {.forward = 0}, *all = &v->profile->prefix[v->profile->partition->layer_count];
    double           pass_s = pdl__run_seconds(&v->c, &nothing, all);

    return (shares_t){pass_s, pass_s - all->later, pass_s / (double)v->c.pipeline};
}

static pdl__least_t least_of(const pdl__visit_t *v, const shares_t *s)
{
    double       m = (double)v->config.micro_batches, q = (double)v->config.pipeline;
    pdl__least_t least = {.divided_s = fmax(s->sooner_s, m * s->share_s)};

    least.interleaved_s = fmax(s->pass_s, m * s->share_s);
    least.whole_s = v->walk->list->kinds ? fmax(s->pass_s + (m - 1) / 2 * s->share_s, m * s->share_s)
                                         : pdl__least_passes(s->pass_s, m, q, false);
    return least;
}

pdl_status_t pdl__visit_least(pdl__visit_t *v)
{
    bool         kinds = v->walk->list->kinds;
    places_t     p;
    shares_t     shares = {0};
    pdl_status_t status = PDL_OK;

    if (kinds)
        status = find_shares(v, &p, &shares);
    else
        shares = even_shares(v);
    if (status) return status;
    v->least = least_of(v, &shares);
    if (kinds && v->config.micro_batches > 1 && v->config.pipeline > 1)
        v->least.whole_s = fmax(v->least.whole_s, filled(&p));
    return PDL_OK;
}

double pdl__least_of_all(const pdl__visit_t *v, const pdl__least_t *least)
{
    double seconds = least->whole_s;

    if (v->choices.virtual_stages > 1) seconds = fmin(seconds, least->interleaved_s);
    return v->choices.divided > 0 ? fmin(seconds, least->divided_s) : seconds;
}

/* What is known of nodes with ranks so far apart, and stages on such devices. */
static pdl__exact_rate_t *find_rate(pdl__exact_walk_t *walk, const pdl__node_t *node)
{
    int i = 0;

    while (i < walk->rates && (walk->rate[i].stride != node->stride || walk->rate[i].places != node->places ||
                               walk->rate[i].expert_stride != node->expert_stride))
        i++;
    if (i == walk->rates && i < PDL__MOST_RATES)
        walk->rate[walk->rates++] = (pdl__exact_rate_t){.stride = node->stride,
                                                        .expert_stride = node->expert_stride,
                                                        .places = node->places};
    return i < PDL__MOST_RATES ? &walk->rate[i] : NULL;
}

static double by_rate(const pdl__visit_t *v, const pdl__exact_rate_t *rate)
{
    double       size = v->node->micro_batch, q = (double)v->config.pipeline;
    shares_t     shares = {rate->sample_s * size, rate->sooner_s * size, rate->share_s * size};
    pdl__least_t least;

    if (!v->walk->list->kinds) shares.share_s = shares.pass_s / q;
    least = least_of(v, &shares);
    return pdl__least_of_all(v, &least);
}

double pdl__rate_seconds(const pdl__visit_t *v)
{
    const pdl__exact_rate_t *rate = find_rate(v->walk, v->node);
    double                   seconds = by_rate(v, &v->walk->anywhere);

    return rate != NULL ? fmax(seconds, by_rate(v, rate)) : seconds;
}

static void remember(pdl__exact_rate_t *rate, const shares_t *shares, double samples)
{
    rate->sample_s = fmax(rate->sample_s, shares->pass_s / samples);
    rate->sooner_s = fmax(rate->sooner_s, shares->sooner_s / samples);
    rate->share_s = fmax(rate->share_s, shares->share_s / samples);
}

pdl_status_t pdl__rate_remember(pdl__visit_t *v)
{
    const pdl_sums_t  *all = &v->profile->prefix[v->profile->partition->layer_count];
    pdl__exact_rate_t *rate = find_rate(v->walk, v->node);
    double             compute_s = all->forward + (v->c.run_mode == PDL_TRAINING ? all->backward : 0);
    shares_t           shares = {compute_s, compute_s - all->later, 0};
    places_t           p;
    pdl_status_t       status = PDL_OK;

    if (!pdl__parts_take_longer(v->walk->oracle, v->config.precision)) return PDL_OK;
    if (!v->walk->list->kinds) remember(&v->walk->anywhere, &shares, v->c.micro_batch);
    if (rate == NULL) return PDL_OK;
    if (v->walk->list->kinds)
        status = find_shares(v, &p, &shares);
    else
        shares = even_shares(v);
    if (!status) remember(rate, &shares, v->c.micro_batch);
    return status;
}
