/*
 * What every operation reads, writes and leaves as gradients in every mode, against the table of operation rules;
 * and that the movement chosen for backward is the transpose of the one chosen for forward, on integers.
 */
#include "random.h"
#include "test.h"

#include <paradl/plan/rules.h>

#include <stdlib.h>

static const char image_text[] =
    "paradl: model/1\nname: image\ninput: {channels: 6, size: [12, 8]}\nlayers:\n"
    "  - conv: {name: conv, out: 12, kernel: 3, pad: 1}\n"
    "  - conv: {name: depthwise, out: 24, kernel: 3, pad: 1, groups: 12}\n"
    "  - conv: {name: grouped, out: 24, kernel: 3, pad: 1, groups: 4}\n"
    "  - conv_transpose: {name: up_conv, out: 12, kernel: 2, stride: 2}\n"
    "  - batch_norm: {name: bn}\n  - group_norm: {name: gn, groups: 4}\n  - local_response_norm: {name: lrn}\n"
    "  - relu: {name: relu}\n  - leaky_relu: {name: leaky}\n  - tanh: {name: tanh}\n  - sigmoid: {name: sigmoid}\n"
    "  - max_pool: {name: max_pool, kernel: 2}\n  - upsample: {name: upsample, factor: 2}\n"
    "  - upsample: {name: bilinear, factor: 2, bilinear: true}\n  - avg_pool: {name: avg_pool, kernel: 2}\n"
    "  - conv: {name: side, out: 12, kernel: 1}\n"
    "  - add: {name: add, from: [avg_pool, side]}\n  - mul: {name: mul, from: [add, side]}\n"
    "  - concat: {name: concat, from: [add, mul]}\n  - dropout: {name: dropout, rate: 0.1}\n"
    "  - to_sequence: {name: to_sequence}\n  - global_avg_pool: {name: pool, from: dropout}\n"
    "  - flatten: {name: flatten, from: dropout}\n  - softmax: {name: softmax}\n"
    "  - linear: {name: linear, out: 10}\n  - mse: {name: mse}\n";

static const char sequence_text[] =
    "paradl: model/1\nname: sequence\ninput: {tokens: 12, vocabulary: 30}\nlayers:\n"
    "  - embedding: {name: embedding, out: 16}\n  - position: {name: position}\n"
    "  - layer_norm: {name: ln}\n  - linear: {name: qkv, out: 32}\n"
    "  - attention: {name: attention, heads: 8, kv_heads: 4}\n  - rms_norm: {name: rms}\n"
    "  - gelu: {name: gelu}\n  - silu: {name: silu}\n"
    "  - moe: {name: moe, experts: 4, top_k: 2, hidden: 24}\n"
    "  - linear: {name: head, out: 30}\n  - cross_entropy: {name: loss}\n"
    "  - select: {name: select, from: moe}\n";

static pdl_model_t *image, *sequence;

static const pdl_layer_t *layer_named(const char *name)
{
    int i = pdl_model_find_layer(image, name);

    if (i >= 0) return pdl_model_layer(image, i);
    i = pdl_model_find_layer(sequence, name);
    if (i < 0) printf("no layer %s\n", name);
    return i >= 0 ? pdl_model_layer(sequence, i) : pdl_model_layer(image, 0);
}

#define R  PDL_REPLICATED
#define P  PDL_PARTIAL
#define N  PDL_SPLIT_N
#define C  PDL_SPLIT_C
#define S0 PDL_SPLIT_S0
#define S1 PDL_SPLIT_S1

typedef struct row {
    const char     *layers; /* separated by blanks */
    pdl_mode_t      mode;
    int             dim; /* of the axis */
    pdl_placement_t reads, writes, dx, weight, dw;
} row_t;

static const row_t rows[] = {
    {"conv linear side up_conv bn ln rms relu gelu silu attention moe embedding pool flatten concat upsample "
     "softmax "
     "max_pool add mul dropout position gn lrn select to_sequence",
     PDL_MODE_SAMPLE, 0, N, N, N, R, P},
    {"loss mse", PDL_MODE_SAMPLE, 0, N, P, N, R, P},
    {"conv depthwise side max_pool avg_pool bn relu leaky tanh sigmoid add mul concat dropout upsample bilinear",
     PDL_MODE_SPACE, 0, S0, S0, S0, R, P},
    {"conv max_pool bn relu add upsample", PDL_MODE_SPACE, 1, S1, S1, S1, R, P},
    {"pool", PDL_MODE_SPACE, 1, S1, P, S1, R, P},
    {"to_sequence", PDL_MODE_SPACE, 0, S0, S0, S0, R, P},
    {"qkv head ln rms gelu silu embedding position", PDL_MODE_SPACE, 0, S0, S0, S0, R, P},
    {"loss", PDL_MODE_SPACE, 0, S0, P, S0, R, P},
    {"conv side linear qkv head up_conv embedding", PDL_MODE_FILTER, 0, R, C, P, C, C},
    {"conv side linear qkv head up_conv", PDL_MODE_CHANNEL, 0, C, P, C, C, C},
    {"depthwise grouped bn relu leaky gelu silu tanh sigmoid max_pool avg_pool pool add mul upsample dropout "
     "flatten "
     "to_sequence position select",
     PDL_MODE_FILTER, 0, C, C, C, C, C},
    {"attention", PDL_MODE_HEADS, 0, C, C, C, R, R},
    {"embedding", PDL_MODE_VOCABULARY, 0, R, P, R, C, C},
    {"loss", PDL_MODE_VOCABULARY, 0, C, R, C, R, R},
    {"moe", PDL_MODE_EXPERT, 0, S0, S0, S0, C, C},
    {"conv linear bn ln attention moe embedding loss pool flatten concat", PDL_MODE_REPLICATE, 0, R, R, R, R, R},
};

static void check_row(const row_t *row, const char *name)
{
    const pdl_axis_t      axis = {PDL_AXIS_TENSOR, 2, row->dim};
    const pdl_layer_t    *layer = layer_named(name);
    const pdl_placement_t given[4] = {R, R, R, R};
    char                  why[128];

    if (!pdl_mode_allowed(layer, row->mode, &axis, why, sizeof(why))) {
        test_fail_at(__FILE__, __LINE__);
        printf("%s in mode %s: %s\n", name, pdl_mode_names[row->mode], why);
        return;
    }
    pdl_rule_t rule = pdl_layer_rule(layer, row->mode, &axis, given);
    int        before = test_failures;
    CHECK_INT(rule.reads, row->reads);
    CHECK_INT(rule.writes, row->writes);
    CHECK_INT(rule.dx, row->dx);
    CHECK_INT(rule.weight, row->weight);
    CHECK_INT(rule.dw, row->dw);
    CHECK_INT(rule.redundant, row->mode == PDL_MODE_REPLICATE);
    CHECK(rule.share > 0 && rule.share <= 1);
    if (test_failures != before) printf("  (%s in mode %s)\n", name, pdl_mode_names[row->mode]);
}

static void rules_follow_the_table(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char names[512], *save = NULL;
        snprintf(names, sizeof(names), "%s", rows[i].layers);
        for (char *name = strtok_r(names, " ", &save); name; name = strtok_r(NULL, " ", &save))
            check_row(&rows[i], name);
    }
}

/* What the table does not list is refused, with a reason. */
static void other_modes_are_refused(void)
{
    static const struct {
        const char *layers;
        pdl_mode_t  mode;
    } refused[] = {
        {"flatten softmax attention linear mse up_conv gn lrn select", PDL_MODE_SPACE},
        {"ln rms gn lrn attention concat softmax loss mse moe", PDL_MODE_FILTER},
        {"bn relu pool add attention embedding grouped depthwise loss", PDL_MODE_CHANNEL},
        {"conv linear bn loss", PDL_MODE_HEADS},
        {"conv linear head mse", PDL_MODE_VOCABULARY},
        {"conv linear embedding", PDL_MODE_EXPERT},
    };
    const pdl_axis_t axis = {PDL_AXIS_TENSOR, 2, 0};

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        char names[256], why[128], *save = NULL;
        snprintf(names, sizeof(names), "%s", refused[i].layers);
        for (char *name = strtok_r(names, " ", &save); name; name = strtok_r(NULL, " ", &save)) {
            bool allowed = pdl_mode_allowed(layer_named(name), refused[i].mode, &axis, why, sizeof(why));
            if (allowed) printf("%s in mode %s\n", name, pdl_mode_names[refused[i].mode]);
            CHECK(!allowed && why[0] != '\0');
        }
    }
}

static bool allowed_at(const char *name, pdl_mode_t mode, int64_t size, int dim)
{
    return pdl_mode_allowed(layer_named(name), mode, &(pdl_axis_t){PDL_AXIS_TENSOR, size, dim}, NULL, 0);
}

static void sizes_are_limited(void)
{
    CHECK(allowed_at("conv", PDL_MODE_FILTER, 12, 0) && !allowed_at("conv", PDL_MODE_FILTER, 13, 0));
    CHECK(allowed_at("conv", PDL_MODE_CHANNEL, 6, 0) && !allowed_at("conv", PDL_MODE_CHANNEL, 7, 0));
    CHECK(allowed_at("conv", PDL_MODE_SPACE, 12, 0) && !allowed_at("conv", PDL_MODE_SPACE, 13, 0));
    CHECK(allowed_at("conv", PDL_MODE_SPACE, 8, 1) && !allowed_at("conv", PDL_MODE_SPACE, 9, 1));
    CHECK(!allowed_at("conv", PDL_MODE_SPACE, 2, 2));
    CHECK(allowed_at("grouped", PDL_MODE_FILTER, 4, 0) && !allowed_at("grouped", PDL_MODE_FILTER, 5, 0));
    CHECK(allowed_at("depthwise", PDL_MODE_FILTER, 12, 0) && !allowed_at("depthwise", PDL_MODE_FILTER, 13, 0));
    /* Whole key-value groups: 4 of them for 8 heads. */
    CHECK(allowed_at("attention", PDL_MODE_HEADS, 4, 0) && !allowed_at("attention", PDL_MODE_HEADS, 8, 0));
    CHECK(!allowed_at("attention", PDL_MODE_HEADS, 3, 0));
    CHECK(allowed_at("embedding", PDL_MODE_VOCABULARY, 30, 0) &&
          !allowed_at("embedding", PDL_MODE_VOCABULARY, 31, 0));
    CHECK(allowed_at("loss", PDL_MODE_VOCABULARY, 30, 0) && !allowed_at("loss", PDL_MODE_VOCABULARY, 31, 0));
    CHECK(allowed_at("moe", PDL_MODE_EXPERT, 4, 0) && !allowed_at("moe", PDL_MODE_EXPERT, 5, 0));
    /* Blocks of channels line up with those of the flat vector only when they are equal. */
    CHECK(allowed_at("flatten", PDL_MODE_FILTER, 12, 0) && !allowed_at("flatten", PDL_MODE_FILTER, 5, 0));
    /* Rows of an image are neighbours in a sequence, columns are not. */
    CHECK(allowed_at("to_sequence", PDL_MODE_SPACE, 4, 0) && !allowed_at("to_sequence", PDL_MODE_SPACE, 2, 1));
    for (int mode = 0; mode < PDL_MODE_COUNT; mode++) CHECK(allowed_at("conv", (pdl_mode_t)mode, 1, 0));
}

static void shares_are_those_of_the_largest_block(void)
{
    const pdl_axis_t      five = {PDL_AXIS_TENSOR, 5, 0}, three = {PDL_AXIS_TENSOR, 3, 0};
    const pdl_placement_t given[2] = {R, R};

    CHECK_NEAR(pdl_layer_rule(layer_named("conv"), PDL_MODE_FILTER, &five, given).share, 3.0 / 12, 0);
    CHECK_NEAR(pdl_layer_rule(layer_named("conv"), PDL_MODE_CHANNEL, &five, given).share, 2.0 / 6, 0);
    CHECK_NEAR(pdl_layer_rule(layer_named("conv"), PDL_MODE_SPACE, &five, given).share, 3.0 / 12, 0);
    /* Two filters to a group, by whole groups. */
    CHECK_NEAR(pdl_layer_rule(layer_named("depthwise"), PDL_MODE_FILTER, &five, given).share, 3.0 / 12, 0);
    CHECK_NEAR(pdl_layer_rule(layer_named("grouped"), PDL_MODE_FILTER, &three, given).share, 2.0 / 4, 0);
    CHECK_NEAR(pdl_layer_rule(layer_named("head"), PDL_MODE_SAMPLE, &five, given).share, 1, 0);
}

static pdl_mode_t passed(const char *name, pdl_placement_t first, pdl_placement_t second)
{
    const pdl_placement_t given[2] = {first, second};

    return pdl_mode_of_pass(layer_named(name), &(pdl_axis_t){PDL_AXIS_TENSOR, 2, 0}, given);
}

/* PASS keeps what arrives where the operation can work on it, and asks for the whole elsewhere. */
static void pass_keeps_what_it_can(void)
{
    CHECK_INT(passed("relu", C, R), PDL_MODE_FILTER);
    CHECK_INT(passed("relu", S0, R), PDL_MODE_SPACE);
    CHECK_INT(passed("relu", N, R), PDL_MODE_SAMPLE);
    CHECK_INT(passed("relu", P, R), PDL_MODE_REPLICATE);
    CHECK_INT(passed("ln", C, R), PDL_MODE_REPLICATE);
    CHECK_INT(passed("ln", S0, R), PDL_MODE_SPACE);
    CHECK_INT(passed("conv", C, R), PDL_MODE_REPLICATE);
    CHECK_INT(passed("flatten", S0, R), PDL_MODE_REPLICATE);
    CHECK_INT(passed("attention", C, R), PDL_MODE_HEADS);
    CHECK_INT(passed("attention", S0, R), PDL_MODE_REPLICATE);
    CHECK_INT(passed("loss", C, R), PDL_MODE_VOCABULARY);
    CHECK_INT(passed("loss", S0, R), PDL_MODE_SPACE);
    CHECK_INT(passed("concat", C, C), PDL_MODE_REPLICATE);
    /* Of several inputs a split one decides: the others are sliced. */
    CHECK_INT(passed("add", R, C), PDL_MODE_FILTER);
    CHECK_INT(passed("add", C, R), PDL_MODE_FILTER);
    CHECK_INT(passed("add", C, P), PDL_MODE_FILTER);
    CHECK_INT(passed("add", P, R), PDL_MODE_REPLICATE);
    CHECK_INT(passed("add", R, P), PDL_MODE_REPLICATE);
}

/* --- A tensor [n][c][s] of integers on a group of ranks, and the movements of data, in the plainest form. --- */

enum { RANKS = 3, DN = 4, DC = 5, DS = 7, ELEMENTS = DN * DC * DS };

typedef struct spread {
    pdl_placement_t placement;
    int64_t         at[RANKS][ELEMENTS];
    bool            has[RANKS][ELEMENTS]; /* which elements a rank holds */
} spread_t;

/* The rank that owns an element under a split. */
static int owner(pdl_placement_t placement, int element)
{
    static const int64_t extent[] = {[N] = DN, [C] = DC, [S0] = DS};
    int64_t at = placement == N ? element / (DC * DS) : placement == C ? element / DS % DC : element % DS;

    for (int r = 0; r < RANKS; r++) {
        int64_t low, high;
        pdl_block_range(extent[placement], RANKS, r, &low, &high);
        if (at >= low && at < high) return r;
    }
    return -1;
}

static bool holds(pdl_placement_t placement, int rank, int element)
{
    return placement == R || placement == P || owner(placement, element) == rank;
}

static void fill(spread_t *t, pdl_placement_t placement)
{
    memset(t, 0, sizeof(*t));
    t->placement = placement;
    for (int e = 0; e < ELEMENTS; e++) {
        int64_t same = between(-9, 9);
        for (int r = 0; r < RANKS; r++) {
            t->has[r][e] = holds(placement, r, e);
            if (t->has[r][e]) t->at[r][e] = placement == P ? between(-9, 9) : same;
        }
    }
}

/* Carries out a primitive by its name; what arrives must be what `to` says, which the caller checks. */
static void move(const spread_t *x, pdl_primitive_t primitive, pdl_placement_t to, spread_t *y)
{
    memset(y, 0, sizeof(*y));
    y->placement = to;
    for (int r = 0; r < RANKS; r++)
        for (int e = 0; e < ELEMENTS; e++) {
            int64_t sum = 0, held = 0;
            bool    any = false;
            for (int s = 0; s < RANKS; s++) {
                sum += x->at[s][e];
                if (x->has[s][e] && !any) held = x->at[s][e], any = true;
            }
            if (!holds(to, r, e)) continue;
            y->has[r][e] = true;
            switch (primitive) {
            case PDL_LOCAL: /* nothing moves: a rank has it already, or it is not its to keep */
                y->has[r][e] = x->has[r][e];
                y->at[r][e] = x->at[r][e];
                break;
            case PDL_ALLREDUCE:
            case PDL_REDUCE_SCATTER: y->at[r][e] = sum; break;
            case PDL_ALLGATHER:
            case PDL_ALLTOALL: y->at[r][e] = held; break;
            default: y->has[r][e] = false; break;
            }
        }
}

static int64_t global(const spread_t *t, int e)
{
    int64_t sum = 0;

    if (t->placement == R) return t->at[0][e];
    for (int r = 0; r < RANKS; r++) sum += t->has[r][e] ? t->at[r][e] : 0;
    return sum;
}

static void check_valid(const spread_t *t)
{
    int wrong = 0;

    for (int r = 0; r < RANKS; r++)
        for (int e = 0; e < ELEMENTS; e++) {
            wrong += t->has[r][e] != holds(t->placement, r, e);
            if (t->placement == R) wrong += t->at[r][e] != t->at[0][e];
        }
    CHECK_INT(wrong, 0);
}

/* The change of the loss that a change x of a tensor makes when its gradient is g: ranks add up when either is
   partial or split, and count once when both are the same everywhere. */
static int64_t paired(const spread_t *x, const spread_t *g)
{
    int64_t sum = 0;

    for (int e = 0; e < ELEMENTS; e++)
        for (int r = 0; r < RANKS; r++) {
            if (!x->has[r][e] || !g->has[r][e]) continue;
            if (x->placement == R && g->placement == R && r > 0) continue;
            sum += x->at[r][e] * g->at[r][e];
        }
    return sum;
}

static void check_adjoint(pdl_placement_t written, pdl_placement_t reads, pdl_placement_t dx)
{
    static spread_t x, ax, y, aty;
    pdl_placement_t expected = pdl_gradient_placement(written);
    int             before = test_failures;

    fill(&x, written);
    fill(&y, dx);
    move(&x, pdl_redistribution(written, reads), reads, &ax);
    move(&y, pdl_redistribution(dx, expected), expected, &aty);
    check_valid(&ax);
    check_valid(&aty);
    CHECK_INT(paired(&ax, &y), paired(&x, &aty));
    for (int e = 0; e < ELEMENTS; e++) {
        CHECK_INT(global(&ax, e), global(&x, e));
        CHECK_INT(global(&aty, e), global(&y, e));
    }
    if (test_failures != before)
        printf("  (written %s, read %s, gradient %s)\n", pdl_placement_names[written], pdl_placement_names[reads],
               pdl_placement_names[dx]);
}

/* Every placement an operation may have written, against every (x, dx) that the table lets an operation have. */
static void movements_are_adjoint(void)
{
    static const pdl_placement_t written[] = {R, P, N, C, S0};
    static const pdl_placement_t reads[][2] = {{R, R}, {R, P}, {N, N}, {C, C}, {S0, S0}};

    for (int times = 0; times < 20; times++)
        for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++)
            for (size_t j = 0; j < sizeof(reads) / sizeof(reads[0]); j++)
                check_adjoint(written[i], reads[j][0], reads[j][1]);
}

/* Halo: every piece gets the rows its outputs touch; backward the same rows go back and are added. */
static void halos_are_adjoint(void)
{
    for (int times = 0; times < 2000; times++) {
        pdl_window_t w = {between(4, 30), 0, between(1, 5), between(1, 3), 1, 0};
        int64_t      pieces = between(1, 6), x[30], aty[30] = {0}, left = 0, right = 0, most = 0;
        int          neighbours;

        w.pad = (w.kernel - 1) / 2;
        w.out = (w.in + 2 * w.pad - w.kernel) / w.stride + 1;
        if (w.out < pieces) continue;
        for (int64_t i = 0; i < w.in; i++) x[i] = between(-9, 9);
        for (int64_t r = 0; r < pieces; r++) {
            int64_t low, high, own_low, own_high, received = 0, returned = 0;
            pdl_block_range(w.in, pieces, r, &own_low, &own_high);
            pdl_block_range(w.out, pieces, r, &low, &high);
            low = low * w.stride - w.pad;
            high = (high - 1) * w.stride - w.pad + w.kernel;
            for (int64_t i = 0; i < w.in; i++) {
                bool own = i >= own_low && i < own_high, needed = i >= low && i < high;
                if (!needed) continue;
                int64_t y = between(-9, 9);
                left += x[i] * y;
                aty[i] += y; /* at the owner, whoever computed it */
                received += !own;
                returned += !own;
            }
            CHECK_INT(received, returned);
            if (received > most) most = received;
        }
        for (int64_t i = 0; i < w.in; i++) right += x[i] * aty[i];
        CHECK_INT(left, right);
        CHECK_INT(pdl_halo_rows(&w, pieces, &neighbours), most);
    }
}

static void windows_of_layers(void)
{
    pdl_window_t w = pdl_layer_window(layer_named("conv"), 0);
    int          neighbours;

    CHECK(w.in == 12 && w.out == 12 && w.kernel == 3 && w.pad == 1 && w.stride == 1);
    /* Operations without a window exchange no rows, whatever their output's extent. */
    static const char *const without[] = {"relu", "pool", "upsample", "to_sequence",
                                          "loss", "ln",   "head",     "position"};
    for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++) {
        w = pdl_layer_window(layer_named(without[i]), 0);
        CHECK_INT(pdl_halo_rows(&w, 2, &neighbours), 0);
    }
    /* Interpolation reads a row beyond either border. */
    w = pdl_layer_window(layer_named("bilinear"), 0);
    CHECK_INT(pdl_halo_rows(&w, 3, &neighbours), 2);
}

int main(void)
{
    if (pdl_model_read_yaml_memory(image_text, sizeof(image_text) - 1, "image", &image) ||
        pdl_model_read_yaml_memory(sequence_text, sizeof(sequence_text) - 1, "sequence", &sequence)) {
        printf("%s\n", pdl_error_message());
        return 1;
    }
    RUN(rules_follow_the_table);
    RUN(other_modes_are_refused);
    RUN(sizes_are_limited);
    RUN(shares_are_those_of_the_largest_block);
    RUN(pass_keeps_what_it_can);
    RUN(movements_are_adjoint);
    RUN(halos_are_adjoint);
    RUN(windows_of_layers);
    pdl_model_destroy(image);
    pdl_model_destroy(sequence);
    return test_done();
}
