/*
 * Pipeline stages: cuts of the layer sequence such that the slowest stage is as fast as it can be.
 */
#include "oracle/internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void subtract(const pdl_sums_t *a, const pdl_sums_t *b, pdl_sums_t *out)
{
    /* The struct is doubles throughout. */
    const double *x = (const double *)a, *y = (const double *)b;
    double       *z = (double *)out;

    for (size_t i = 0; i < sizeof(*out) / sizeof(double); i++) z[i] = y[i] - x[i];
}

/* Borders where a cut is allowed, ascending; NULL: anywhere after the first layer that follows the input. */
typedef struct cuts {
    const int *at;
    int        count;
} cuts_t;

/* What is cut, and into stages on which devices. */
typedef struct task {
    const pdl_profile_t *profile;
    const pdl_stages_t  *st;
} task_t;

/* Prefix sums of what a micro-batch spends in a layer on the devices of stage s, with their hosts. */
static const double *run_of(const task_t *task, int64_t s)
{
    const pdl_profile_t *on = pdl__profile_on(task->profile, task->st, s);

    return on->balance != NULL ? on->balance : on->run;
}

static int cut_at(const cuts_t *cuts, int i)
{
    return cuts->at ? cuts->at[i] : i + 2;
}

/* Index of the last cut before which a stage that begins at layer `begin` takes at most `limit` seconds: where the one before it
   would let expect it, or else anywhere up to `high`. */
static int last_within(const double *run, const cuts_t *cuts, int low, int high, int expected, int begin,
                       double limit)
{
    double end = run[begin] + limit;

    if (expected >= low && expected < high) {
        if (run[cut_at(cuts, expected)] > end)
            high = expected - 1 > low ? expected - 1 : low;
        else if (run[cut_at(cuts, expected + 1)] > end)
            return expected;
        else
            low = expected + 1;
    }
    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        if (run[cut_at(cuts, middle)] <= end)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Fills stages greedily with at most `limit` seconds each, leaving a cut for each that follows; true when `count`
   suffice. *turn: the slowest of them then, or else the least limit with which it may go otherwise. */
static bool greedy(const task_t *task, const cuts_t *cuts, double limit, int *first, double *turn)
{
    int64_t       count = task->st->count;
    int           begin = 0, next = 0, step = 0, layers = task->profile->partition->layer_count;
    double        most = limit * (1 + 1e-9), slowest = 0, longer = INFINITY;
    const double *run = run_of(task, 0);

    first[0] = 0;
    for (int64_t s = 1; s < count; s++) {
        int room = cuts->count - (int)(count - s);
        int cut = last_within(run, cuts, next, room, next + step, begin, most);
        first[s] = cut_at(cuts, cut);
        double stage = run[first[s]] - run[begin], rest = 0;
        if (task->st->alike) rest = (run[layers] - run[first[s]]) / (double)(count - s);
        if (cut < room) longer = fmin(longer, run[cut_at(cuts, cut + 1)] - run[begin]);
        slowest = fmax(slowest, stage);
        /* What is left is too much, however it is shared out. */
        *turn = fmin(longer, fmax(stage, rest));
        if (stage > most || rest > most * (1 + 1e-9)) return false;
        begin = first[s];
        step = cut - next;
        next = cut + 1;
        run = run_of(task, s);
    }
    first[count] = layers;
    slowest = fmax(slowest, run[layers] - run[begin]);
    *turn = slowest <= most ? slowest : fmin(longer, slowest);
    return slowest <= most;
}

/* The longest run of layers between two cuts. */
static double widest_step(const task_t *task, const cuts_t *cuts)
{
    const double *run = run_of(task, 0);
    double        before = 0, widest = 0;

    for (int i = 0; i <= cuts->count; i++) {
        double here = run[i < cuts->count ? cut_at(cuts, i) : task->profile->partition->layer_count];
        if (here - before > widest) widest = here - before;
        before = here;
    }
    return widest;
}

/* On devices that differ, a limit with which no stage is left over is that of all layers on the slowest. */
static bool bisect(const task_t *task, const cuts_t *cuts, int *first)
{
    int    layers = task->profile->partition->layer_count;
    double high = 0, low = 0, enough = INFINITY, little = 0, turn;

    if (cuts->count < task->st->count - 1) return false;
    for (int64_t s = 0; s < task->st->count; s++) high = fmax(high, run_of(task, s)[layers]);
    /* With room for an even share and one step more no stage is left over. What is known of other limits need not be tried. */
    if (task->st->alike) {
        low = high / (double)task->st->count;
        enough = low + widest_step(task, cuts);
    }
    while (high - low > 1e-5 * high) {
        double middle = 0.5 * (low + high), most = middle * (1 + 1e-9);
        bool   suffices = most >= enough;
        if (!suffices && most >= little * (1 - 1e-12)) {
            suffices = greedy(task, cuts, middle, first, &turn);
            *(suffices ? &enough : &little) = turn;
        }
        *(suffices ? &high : &low) = middle;
    }
    return greedy(task, cuts, high, first, &turn);
}

static pdl_status_t too_many(const pdl_profile_t *profile, int64_t count)
{
    return pdl_error(PDL_ERR_LIMIT, "%lld pipeline stages, but only %d layers to share out", (long long)count,
                     profile->partition->layer_count - 1);
}

int pdl__block_begin(const pdl_profile_t *profile, int attention)
{
    int begin = 0;

    for (int i = 0; i < profile->single_count && profile->single[i] <= attention; i++) begin = profile->single[i];
    return begin;
}

bool pdl__stages_of_blocks(const pdl_profile_t *profile, int64_t count, const int64_t *blocks, int *first)
{
    int     layers = profile->partition->layer_count;
    int64_t stage = 1, seen = 0, next = blocks[0];

    first[0] = 0;
    for (int i = 0; i < layers; i++) {
        if (profile->prefix[i + 1].attentions - profile->prefix[i].attentions < 0.5) continue;
        if (seen++ != next || stage == count) continue;
        first[stage] = pdl__block_begin(profile, i);
        if (first[stage] <= first[stage - 1]) return false;
        next += blocks[stage++];
    }
    first[count] = layers;
    return stage == count && seen == next;
}

/* As many blocks for every stage, or, where these do not divide, one fewer beside the embedding and beside the logits. */
static bool even(const pdl_profile_t *profile, int64_t count, int *first)
{
    int64_t blocks = (int64_t)(profile->prefix[profile->partition->layer_count].attentions + 0.5);
    int64_t fewer = blocks % count == 0 ? 0 : 1, each = (blocks + 2 * fewer) / count;
    bool    found = false;

    if (!profile->even_stages || (blocks + 2 * fewer) % count != 0 || each <= fewer) return false;
    int64_t *shared = malloc((size_t)count * sizeof(*shared));
    if (shared == NULL) return false;
    for (int64_t s = 0; s < count; s++) shared[s] = each - (s == 0 || s + 1 == count ? fewer : 0);
    found = pdl__stages_of_blocks(profile, count, shared, first);
    free(shared);
    return found;
}

static double slowest_of(const task_t *task, const int *first)
{
    double most = 0;

    for (int64_t s = 0; s < task->st->count; s++) {
        const double *run = run_of(task, s);
        double        seconds = run[first[s + 1]] - run[first[s]];
        if (seconds > most) most = seconds;
    }
    return most;
}

/* Where hardly a place has but one tensor to hand on, as between the two sides of a U-Net, several are handed on. */
static bool by_time(const task_t *task, int *first)
{
    static const double WORSE = 1.5;
    int                 layers = task->profile->partition->layer_count;
    int64_t             count = task->st->count;
    cuts_t natural = {task->profile->single, task->profile->single_count}, anywhere = {NULL, layers - 2};
    bool   found = bisect(task, &natural, first);
    double slowest = found ? slowest_of(task, first) : 0;

    if (found && task->st->alike && slowest <= WORSE * (run_of(task, 0)[layers] / (double)count)) return true;
    int *other = malloc(((size_t)count + 1) * sizeof(*other));
    if (other == NULL || !bisect(task, &anywhere, other)) {
        free(other);
        return found;
    }
    if (!found || slowest > WORSE * slowest_of(task, other))
        memcpy(first, other, ((size_t)count + 1) * sizeof(*other));
    free(other);
    return true;
}

/* As many blocks everywhere are no aim where devices differ. */
static pdl_status_t partition(const pdl_profile_t *profile, pdl_stages_t *st)
{
    task_t task = {profile, st};

    if (st->count == 1) {
        st->first[0] = 0;
        st->first[1] = profile->partition->layer_count;
        return PDL_OK;
    }
    if ((st->alike && even(profile, st->count, st->first)) || by_time(&task, st->first)) return PDL_OK;
    return too_many(profile, st->count);
}

/* Backward runs from the last layer of the heaviest stage to its first, and gradients are exchanged in buckets: a
   bucket is ready when backward of all its layers is done, and then it and all after it remain to be exchanged. */
static void gradient_points(const pdl_profile_t *profile, pdl_stages_t *st)
{
    int               first = st->first[st->heaviest_stage], last = st->first[st->heaviest_stage + 1], top = last;
    const pdl_sums_t *prefix = pdl__profile_on(profile, st, st->heaviest_stage)->prefix, *end = &prefix[last];
    double            bucket = st->sums[st->heaviest_stage].weights / PDL_GRADIENT_POINTS;

    st->points = 0;
    for (int i = last - 1; i >= first; i--) {
        bool full = prefix[top].weights - prefix[i].weights >= bucket && st->points < PDL_GRADIENT_POINTS - 1;
        if (!full && i > first) continue;
        st->ready[st->points] = end->backward - prefix[i].backward + end->layer_backward -
                                prefix[i].layer_backward + end->halo_backward - prefix[i].halo_backward;
        st->remaining_wide[st->points] = prefix[top].wide_weights - prefix[first].wide_weights;
        st->remaining[st->points++] = prefix[top].weights - prefix[first].weights;
        top = i;
    }
}

/* Stages of repeated blocks are alike: the same classes of layers in the same modes and order. */
static bool stages_alike(const pdl_profile_t *profile, const pdl_stages_t *st, int64_t a, int64_t b)
{
    const pdl_plan_t *plan = profile->plan;
    int               x = st->first[a], y = st->first[b], length = st->first[a + 1] - x;

    if (length != st->first[b + 1] - y || plan->block_count > 0) return false;
    if (st->kinds != NULL && st->kinds[a] != st->kinds[b]) return false;
    if (memcmp(&plan->modes[x], &plan->modes[y], (size_t)length * sizeof(*plan->modes)) != 0) return false;
    for (int i = 0; i < length; i++)
        if (pdl_model_layer(plan->model, x + i)->class_id != pdl_model_layer(plan->model, y + i)->class_id)
            return false;
    return true;
}

/* Liveness is walked once per kind of stage. The first and last are never copied: they touch input and loss. */
static void stage_memory(const pdl_profile_t *profile, const pdl_stages_t *st, int64_t s)
{
    enum { LOOK_BACK = 4 };

    for (int64_t t = s - 1; t >= 1 && t >= s - LOOK_BACK && s < st->count - 1; t--)
        if (stages_alike(profile, st, t, s)) {
            st->held->memory[s] = st->held->memory[t];
            return;
        }
    st->held->kinds[st->held->kind_count++] = (int)s;
    pdl_partition_memory(profile->partition, st->first[s], st->first[s + 1], &st->held->memory[s]);
}

void pdl__stages_memory(const pdl_profile_t *profile, const pdl_stages_t *st)
{
    for (int64_t s = 0; s < st->count && (s > 0 || st->held->kind_count == 0); s++) stage_memory(profile, st, s);
}

/* Natural cuts strictly inside a stage. */
static int singles_between(const pdl_profile_t *profile, int first, int last)
{
    int count = 0, low = 0, high = profile->single_count;

    while (low < high) {
        int middle = (low + high) / 2;
        if (profile->single[middle] <= first)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < profile->single_count && profile->single[low] < last; low++) count++;
    return count;
}

static int64_t stage_of(const pdl_stages_t *st, int layer)
{
    int64_t s = 0;

    while (st->first[s + 1] <= layer) s++;
    return s;
}

/* Weights used in two stages live in both. */
static void find_tied(const pdl_profile_t *profile, pdl_stages_t *st)
{
    for (int i = 0; i < profile->partition->layer_count; i++) {
        int     owner = pdl_model_layer(profile->plan->model, i)->tied_to;
        int64_t s = owner >= 0 ? stage_of(st, i) : 0;
        if (owner < 0 || s == stage_of(st, owner)) continue;
        if (pdl_model_layer(profile->plan->model, owner)->frozen) {
            st->sums[s].frozen += profile->partition->local[owner].weights;
            continue;
        }
        st->tied[s] += profile->partition->local[owner].weights;
        if (st->tied[s] > st->tied_elements) st->tied_elements = st->tied[s];
    }
}

static void measure(const pdl_profile_t *profile, pdl_stages_t *st)
{
    for (int64_t s = 0; s < st->count; s++) {
        int                  first = st->first[s], last = st->first[s + 1];
        const pdl_profile_t *on = pdl__profile_on(profile, st, s);
        subtract(&on->prefix[first], &on->prefix[last], &st->sums[s]);
        st->seconds[s] = on->run[last] - on->run[first];
        st->total += st->seconds[s];
        if (st->seconds[s] > st->seconds[st->slowest_stage]) st->slowest_stage = (int)s;
        if (st->sums[s].weights > st->sums[st->heaviest_stage].weights) st->heaviest_stage = (int)s;
        if (s && profile->borders[first] > st->border_elements) st->border_elements = profile->borders[first];
        st->cuts[s] = singles_between(profile, first, last);
    }
    st->slowest = st->seconds[st->slowest_stage];
    if (st->count > 1) find_tied(profile, st);
    gradient_points(profile, st);
}

static pdl_status_t complete(const pdl_profile_t *profile, pdl_stages_t *st)
{
    size_t n = (size_t)st->count;

    if (st->sums != NULL) return PDL_OK;
    st->seconds = malloc(n * sizeof(*st->seconds));
    st->cuts = malloc(n * sizeof(*st->cuts));
    st->tied = calloc(n, sizeof(*st->tied));
    st->held = calloc(1, sizeof(*st->held));
    if (st->held) st->held->kinds = malloc(n * sizeof(*st->held->kinds));
    if (st->held) st->held->memory = malloc(n * sizeof(*st->held->memory));
    if (st->held) st->held->load = malloc(n * PDL__LOAD_SETS * sizeof(*st->held->load));
    if (st->seconds && st->cuts && st->tied && st->held && st->held->kinds && st->held->memory && st->held->load)
        st->sums = malloc(n * sizeof(*st->sums));
    if (st->sums == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for %lld stages", (long long)st->count);
    measure(profile, st);
    return PDL_OK;
}

void pdl__stages_destroy(pdl_stages_t *st)
{
    if (!st) return;
    free(st->first);
    free(st->sums);
    free(st->seconds);
    free(st->cuts);
    if (st->held) free(st->held->kinds);
    if (st->held) free(st->held->memory);
    if (st->held) free(st->held->load);
    free(st->held);
    free(st->tied);
    free(st->kinds);
    free(st->on);
    free(st);
}

/* `places`: of machines with several kinds of devices. */
static pdl_stages_t *allocate(int64_t count, bool places)
{
    pdl_stages_t *st = calloc(1, sizeof(*st));

    if (!st) return NULL;
    st->count = count;
    st->first = malloc(((size_t)count + 1) * sizeof(*st->first));
    if (places) st->kinds = malloc((size_t)count * sizeof(*st->kinds));
    if (places) st->on = calloc((size_t)count, sizeof(*st->on));
    if (st->first && (!places || (st->kinds && st->on))) return st;
    pdl__stages_destroy(st);
    return NULL;
}

static pdl_status_t keep(pdl_profile_t *profile, pdl_stages_t *st)
{
    pdl_stages_t **grown = realloc(profile->stages, ((size_t)profile->stage_sets + 1) * sizeof(*grown));

    if (!grown) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    profile->stages = grown;
    profile->stages[profile->stage_sets++] = st;
    return PDL_OK;
}

/* Virtual stage k is one of rank k modulo the stages of the pipeline. */
static unsigned kinds_of(const pdl_case_t *c, const pdl_profile_t *profile, int64_t k)
{
    return pdl_system_kinds(pdl_oracle_system(profile->oracle), c->part_order, c->pe, c->pipeline,
                            c->pipeline_stride, k % c->pipeline);
}

static pdl_status_t find_places(const pdl_case_t *c, pdl_profile_t *profile, pdl_stages_t *st)
{
    pdl_status_t status = PDL_OK;

    st->alike = true;
    for (int64_t k = 0; k < st->count && st->kinds != NULL && !status; k++) {
        st->kinds[k] = kinds_of(c, profile, k);
        st->alike = st->alike && st->kinds[k] == st->kinds[0];
        status = pdl__profile_for(profile, st->kinds[k], &st->on[k]);
    }
    return status;
}

static pdl_status_t find_stages(const pdl_case_t *c, pdl_profile_t *profile, int64_t count, const int *given,
                                pdl_stages_t **out)
{
    for (int i = 0; i < profile->stage_sets && !given; i++)
        if (profile->stages[i]->count == count && !profile->stages[i]->given &&
            profile->stages[i]->places == c->places) {
            *out = profile->stages[i];
            return PDL_OK;
        }
    if (!given && count > 1 && count > profile->partition->layer_count - 1) return too_many(profile, count);
    if (count > 1 && !profile->borders_known) pdl_partition_borders(profile->partition, profile->borders);
    profile->borders_known |= count > 1;
    pdl_stages_t *st = allocate(count, profile->kinds != 0);
    if (!st) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    pdl_status_t status = find_places(c, profile, st);
    st->given = given != NULL;
    st->places = c->places;
    if (given && !status) memcpy(st->first, given, ((size_t)count + 1) * sizeof(*given));
    if (!given && !status) status = partition(profile, st);
    if (!status) status = keep(profile, st);
    if (status) {
        pdl__stages_destroy(st);
        return status;
    }
    *out = st;
    return PDL_OK;
}

pdl_status_t pdl__profile_stages(const pdl_case_t *c, pdl_profile_t *profile, int64_t count, const int *given,
                                 const pdl_stages_t **out)
{
    pdl_stages_t *st;
    pdl_status_t  status = find_stages(c, profile, count, given, &st);

    if (!status) status = complete(profile, st);
    if (!status) *out = st;
    return status;
}

pdl_status_t pdl__profile_runs(const pdl_case_t *c, pdl_profile_t *profile, int64_t count, const int *given,
                               const pdl_stages_t **out)
{
    pdl_stages_t *st;
    pdl_status_t  status = find_stages(c, profile, count, given, &st);

    if (!status) *out = st;
    return status;
}
