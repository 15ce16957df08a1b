/*
 * The short form of a plan's modes: the most frequent mode of each axis for all layers, and patterns for those
 * that differ.
 *
 * For the first layer that no rule covers yet, patterns are made from its name by putting stars in the place
 * of parts of it; of those that match only layers with the same modes, the one that covers most is taken.
 * So the same layer of all blocks becomes one rule ("h.*.attn"), as does a block whose layers
 * agree ("layer4.*"), and at worst a layer is named alone.
 */
#include "plan/file.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A name is cut at its dots into at most this many parts; the last one keeps the rest. */
#define MAX_PARTS 5

typedef enum part_form {
    FORM_WHOLE,
    FORM_STEM, /* digits at the end replaced by a star: "conv*" */
    FORM_STAR,
    FORM_COUNT
} part_form_t;

typedef struct part {
    const char *text;
    size_t      length;
    size_t      stem; /* without the digits at its end */
} part_t;

typedef struct maker {
    const pdl_plan_t  *plan;
    pdl__mode_rules_t *rules;
    int                layers;
    bool              *covered; /* by the default or by a rule */
    char              *pattern, *best;
} maker_t;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int split_name(const char *name, part_t parts[MAX_PARTS])
{
    int count = 0;

    for (;;) {
        part_t *part = &parts[count++];

        part->text = name;
        part->length = count == MAX_PARTS ? strlen(name) : strcspn(name, ".");
        part->stem = part->length;
        while (part->stem > 0 && is_digit(name[part->stem - 1])) part->stem--;
        if (name[part->length] == '\0') return count;
        name += part->length + 1;
    }
}

/* Copies a part, with a backslash before what would not stand for itself in a pattern. */
static char *put_text(char *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (strchr("*?[\\", text[i]) != NULL) *out++ = '\\';
        *out++ = text[i];
    }
    return out;
}

/* False when these forms give a pattern that others give as well. */
static bool make_pattern(const part_t *parts, int count, const part_form_t *forms, char *pattern)
{
    char *out = pattern;

    for (int i = 0; i < count; i++) {
        const part_t *part = &parts[i];

        if (forms[i] == FORM_STEM && (part->stem == 0 || part->stem == part->length)) return false;
        /* One star spans neighbouring parts and the dots between them. */
        if (forms[i] == FORM_STAR && i > 0 && forms[i - 1] == FORM_STAR) continue;
        if (i > 0) *out++ = '.';
        if (forms[i] != FORM_STAR) {
            out = put_text(out, part->text, forms[i] == FORM_STEM ? part->stem : part->length);
        }
        if (forms[i] != FORM_WHOLE) *out++ = '*';
    }
    *out = '\0';
    return true;
}

static bool same_modes(const pdl_plan_t *plan, const pdl_modes_t *a, const pdl_modes_t *b)
{
    for (int i = 0; i < plan->mesh.axis_count; i++) {
        if (pdl__axis_has_modes(&plan->mesh.axis[i]) && a->on[i] != b->on[i]) return false;
    }
    return true;
}

/* The number of layers a pattern would cover anew; 0 when it also matches a layer with other modes. */
static int gain_of(const maker_t *maker, const char *pattern, const pdl_modes_t *modes)
{
    int gain = 0;

    for (int i = 0; i < maker->layers; i++) {
        if (!pdl__glob_match(pattern, pdl_model_layer(maker->plan->model, i)->name)) continue;
        if (!same_modes(maker->plan, &maker->plan->modes[i], modes)) return 0;
        gain += !maker->covered[i];
    }
    return gain;
}

static bool next_forms(part_form_t *forms, int count)
{
    for (int i = count - 1; i >= 0; i--) {
        forms[i] = (part_form_t)(forms[i] + 1);
        if (forms[i] < FORM_COUNT) return true;
        forms[i] = FORM_WHOLE;
    }
    return false;
}

/* Leaves the best pattern for a layer in maker->best. The first one tried is the name itself, which always
   serves; of equally good ones the first has the most text. */
static void find_pattern(maker_t *maker, int layer)
{
    part_t      parts[MAX_PARTS];
    part_form_t forms[MAX_PARTS] = {FORM_WHOLE};
    int         count = split_name(pdl_model_layer(maker->plan->model, layer)->name, parts), best = 0;

    do {
        int gain = make_pattern(parts, count, forms, maker->pattern)
                       ? gain_of(maker, maker->pattern, &maker->plan->modes[layer])
                       : 0;

        if (gain <= best) continue;
        best = gain;
        strcpy(maker->best, maker->pattern);
    } while (next_forms(forms, count));
}

static pdl_status_t add_rule(maker_t *maker, int layer)
{
    pdl__mode_rule_t  *rule = &maker->rules->rules[maker->rules->count];
    const pdl_modes_t *modes = &maker->plan->modes[layer];

    find_pattern(maker, layer);
    rule->match = malloc(strlen(maker->best) + 1);
    if (rule->match == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for the modes of a plan");
    strcpy(rule->match, maker->best);
    rule->modes = *modes;
    for (int a = 0; a < maker->plan->mesh.axis_count; a++) {
        rule->given[a] =
            pdl__axis_has_modes(&maker->plan->mesh.axis[a]) && modes->on[a] != maker->rules->everywhere.on[a];
    }
    maker->rules->count++;
    for (int i = 0; i < maker->layers; i++) {
        if (pdl__glob_match(rule->match, pdl_model_layer(maker->plan->model, i)->name)) maker->covered[i] = true;
    }
    return PDL_OK;
}

/* The most frequent mode of an axis; of equally frequent ones the first. */
static uint8_t frequent_mode(const pdl_plan_t *plan, int layers, int axis)
{
    int uses[PDL_MODE_COUNT] = {0}, best = 0;

    for (int i = 0; i < layers; i++) {
        assert(plan->modes[i].on[axis] < PDL_MODE_COUNT);
        uses[plan->modes[i].on[axis]]++;
    }
    for (int m = 1; m < PDL_MODE_COUNT; m++) {
        if (uses[m] > uses[best]) best = m;
    }
    return (uint8_t)best;
}

static size_t longest_name(const pdl_model_t *model)
{
    size_t longest = 0;

    for (int i = 0; i < pdl_model_layer_count(model); i++) {
        size_t length = strlen(pdl_model_layer(model, i)->name);

        if (length > longest) longest = length;
    }
    return longest;
}

pdl_status_t pdl__mode_rules_create(const pdl_plan_t *plan, pdl__mode_rules_t *rules)
{
    maker_t      maker = {.plan = plan, .rules = rules, .layers = pdl_model_layer_count(plan->model)};
    size_t       size = 2 * longest_name(plan->model) + MAX_PARTS + 1;
    pdl_status_t st = PDL_OK;

    memset(rules, 0, sizeof(*rules));
    rules->rules = calloc((size_t)maker.layers, sizeof(*rules->rules));
    maker.covered = calloc((size_t)maker.layers, sizeof(*maker.covered));
    maker.pattern = malloc(size);
    maker.best = malloc(size);
    if (rules->rules == NULL || maker.covered == NULL || maker.pattern == NULL || maker.best == NULL) {
        st = pdl_error(PDL_ERR_NOMEM, "out of memory for the modes of a plan");
    }
    for (int a = 0; a < plan->mesh.axis_count && st == PDL_OK; a++) {
        rules->everywhere.on[a] = frequent_mode(plan, maker.layers, a);
    }
    for (int i = 0; i < maker.layers && st == PDL_OK; i++) {
        maker.covered[i] |= same_modes(plan, &plan->modes[i], &rules->everywhere);
        if (!maker.covered[i]) st = add_rule(&maker, i);
    }
    free(maker.covered);
    free(maker.pattern);
    free(maker.best);
    if (st != PDL_OK) pdl__mode_rules_free(rules);
    return st;
}

void pdl__mode_rules_free(pdl__mode_rules_t *rules)
{
    for (int i = 0; i < rules->count; i++) free(rules->rules[i].match);
    free(rules->rules);
    memset(rules, 0, sizeof(*rules));
}
