/*
 * The passes of batch norm over memory, for one type of elements. The including file defines ELEMENT, LOAD, STORE,
 * and KERNELS, the name of the table.
 *
 * Sums are made in float over at most SHORT rows, then added up in double: nearly as exact as double throughout, at
 * the speed of float.
 */
#include "tensor/cpu/lanes.h"
#include "tensor/cpu/norm/batch_norm.h"

#define SHORT 32

typedef struct panel {
    int64_t base, rows;
    int64_t channel, lanes, sums; /* first channel, lanes in use, where its sums go */
} panel_t;

typedef struct sums {
    pdl__d16_t first, second;
} sums_t;

/* What the lanes of a panel are multiplied with. */
typedef struct factors {
    pdl__f16_t center, scale, shift, slope, offset;
} factors_t;

PDL__INLINE panel_t find_panel(const pdl__panels_t *p, int64_t index)
{
    int64_t part = index % p->parts, group = index / p->parts % p->groups, sample = index / p->parts / p->groups;
    int64_t left = p->rows - part * p->part_rows;
    panel_t panel = {.rows = left < p->part_rows ? left : p->part_rows, .lanes = 16};

    panel.base = sample * p->sample_step + group * p->group_step + part * p->part_rows * p->distance;
    panel.channel = p->single ? group : group * 16;
    if (!p->single && group == p->groups - 1) panel.lanes = p->last_lanes;
    panel.sums = (sample * p->parts + part) * 2 * p->padded + panel.channel;
    return panel;
}

PDL__INLINE pdl__f16_t load_factor(const pdl__norm_t *norm, const float *values, int64_t channel)
{
    if (values == NULL) return pdl__splat(0);
    return norm->panels.single ? pdl__splat(values[channel]) : pdl__load_f32(values + channel, 16);
}

PDL__INLINE factors_t load_factors(const pdl__norm_t *norm, int64_t channel)
{
    return (factors_t){.center = load_factor(norm, norm->center, channel),
                       .scale = load_factor(norm, norm->scale, channel),
                       .shift = load_factor(norm, norm->shift, channel),
                       .slope = load_factor(norm, norm->slope, channel),
                       .offset = load_factor(norm, norm->offset, channel)};
}

PDL__INLINE void measure_rows(const pdl__norm_t *norm, int64_t base, int64_t rows, int64_t lanes,
                              const factors_t *f, sums_t *sums)
{
    const ELEMENT *x = (const ELEMENT *)norm->x + base;
    int64_t        distance = norm->panels.distance;

    for (int64_t low = 0; low < rows; low += SHORT) {
        int64_t    high = low + SHORT < rows ? low + SHORT : rows;
        pdl__f16_t first[2] = {{0}, {0}}, second[2] = {{0}, {0}};
        int64_t    r = low;

        for (; r + 2 <= high; r += 2) {
            for (int k = 0; k < 2; k++) {
                pdl__f16_t d = LOAD(x + (r + k) * distance, lanes) - f->center;

                first[k] += d;
                second[k] += d * d;
            }
        }
        if (r < high) {
            pdl__f16_t d = LOAD(x + r * distance, lanes) - f->center;

            first[0] += d;
            second[0] += d * d;
        }
        sums->first += __builtin_convertvector(first[0] + first[1], pdl__d16_t);
        sums->second += __builtin_convertvector(second[0] + second[1], pdl__d16_t);
    }
}

/* The gradient in front of ReLU. */
PDL__INLINE pdl__f16_t load_gradient(const pdl__norm_t *norm, int64_t at, int64_t lanes, pdl__f16_t x,
                                     const factors_t *f)
{
    pdl__f16_t g = LOAD((const ELEMENT *)norm->gradient[0] + at, lanes), sign;

    if (norm->gradient[1] != NULL) g += LOAD((const ELEMENT *)norm->gradient[1] + at, lanes);
    if (!norm->relu) return g;
    sign = norm->mask_by_output ? LOAD((const ELEMENT *)norm->y + at, lanes) : x * f->scale + f->shift;
    return (pdl__f16_t)((pdl__i16_t)g & pdl__positive(sign));
}

PDL__INLINE void measure_back_rows(const pdl__norm_t *norm, int64_t base, int64_t rows, int64_t lanes,
                                   const factors_t *f, sums_t *sums)
{
    const ELEMENT *x = norm->x;
    ELEMENT       *kept = norm->kept;
    int64_t        distance = norm->panels.distance;

    for (int64_t low = 0; low < rows; low += SHORT) {
        int64_t    high = low + SHORT < rows ? low + SHORT : rows;
        pdl__f16_t first = {0}, second = {0};

        for (int64_t r = low; r < high; r++) {
            int64_t    at = base + r * distance;
            pdl__f16_t value = LOAD(x + at, lanes), g = load_gradient(norm, at, lanes, value, f);

            if (kept != NULL) STORE(kept + at, g, lanes);
            first += g;
            second += g * (value - f->center);
        }
        sums->first += __builtin_convertvector(first, pdl__d16_t);
        sums->second += __builtin_convertvector(second, pdl__d16_t);
    }
}

PDL__INLINE void apply_rows(const pdl__norm_t *norm, int64_t base, int64_t rows, int64_t lanes, const factors_t *f)
{
    const ELEMENT *x = norm->x, *add = norm->add;
    ELEMENT       *out = norm->out;
    int64_t        distance = norm->panels.distance;

    for (int64_t r = 0; r < rows; r++) {
        int64_t    at = base + r * distance;
        pdl__f16_t v = LOAD(x + at, lanes) * f->scale + f->shift;

        if (add != NULL) v += LOAD(add + at, lanes);
        if (norm->relu) v = pdl__relu(v);
        STORE(out + at, v, lanes);
    }
}

PDL__INLINE void apply_back_rows(const pdl__norm_t *norm, int64_t base, int64_t rows, int64_t lanes,
                                 const factors_t *f)
{
    const ELEMENT *x = norm->x, *kept = norm->kept;
    ELEMENT       *out = norm->out;
    int64_t        distance = norm->panels.distance;

    for (int64_t r = 0; r < rows; r++) {
        int64_t    at = base + r * distance;
        pdl__f16_t value = LOAD(x + at, lanes);
        pdl__f16_t g = kept != NULL ? LOAD(kept + at, lanes) : load_gradient(norm, at, lanes, value, f);

        STORE(out + at, f->scale * (g + f->slope * (value - f->center) + f->offset), lanes);
    }
}

PDL__INLINE double add_lanes(pdl__d16_t v, int64_t lanes)
{
    double sum = 0;

    for (int64_t k = 0; k < lanes; k++) sum += v[k];
    return sum;
}

/* When all lanes are one channel, a last row may be shorter, and the lanes are added up. */
PDL__INLINE void store_sums(const pdl__norm_t *norm, const panel_t *panel, const sums_t *sums, const sums_t *last)
{
    const pdl__panels_t *p = &norm->panels;
    double              *first = norm->partial + panel->sums, *second = first + p->padded;

    if (p->single) {
        *first = add_lanes(sums->first, 16) + add_lanes(last->first, p->last_lanes);
        *second = add_lanes(sums->second, 16) + add_lanes(last->second, p->last_lanes);
    } else {
        memcpy(first, &sums->first, sizeof(sums->first));
        memcpy(second, &sums->second, sizeof(sums->second));
    }
}

/* Calls ROWS for whole rows with a constant number of lanes, for the rest with a variable one. */
#define MEASURE_PANELS(ROWS)                                                                 \
    const pdl__norm_t *norm = context;                                                       \
                                                                                             \
    for (int64_t i = first; i < end; i++) {                                                  \
        panel_t   panel = find_panel(&norm->panels, i);                                      \
        factors_t f = load_factors(norm, panel.channel);                                     \
        sums_t    sums = {{0}, {0}}, last = {{0}, {0}};                                      \
                                                                                             \
        if (panel.lanes == 16)                                                               \
            ROWS(norm, panel.base, panel.rows, 16, &f, &sums);                               \
        else                                                                                 \
            ROWS(norm, panel.base, panel.rows, panel.lanes, &f, &sums);                      \
        if (norm->panels.single && norm->panels.last_lanes > 0)                              \
            ROWS(norm, panel.base + panel.rows * 16, 1, norm->panels.last_lanes, &f, &last); \
        store_sums(norm, &panel, &sums, &last);                                              \
    }

#define APPLY_PANELS(ROWS)                                                            \
    const pdl__norm_t *norm = context;                                                \
                                                                                      \
    for (int64_t i = first; i < end; i++) {                                           \
        panel_t   panel = find_panel(&norm->panels, i);                               \
        factors_t f = load_factors(norm, panel.channel);                              \
                                                                                      \
        if (panel.lanes == 16)                                                        \
            ROWS(norm, panel.base, panel.rows, 16, &f);                               \
        else                                                                          \
            ROWS(norm, panel.base, panel.rows, panel.lanes, &f);                      \
        if (norm->panels.single && norm->panels.last_lanes > 0)                       \
            ROWS(norm, panel.base + panel.rows * 16, 1, norm->panels.last_lanes, &f); \
    }

PDL__CLONES static void measure(void *context, int64_t first, int64_t end){MEASURE_PANELS(measure_rows)}

PDL__CLONES static void measure_back(void *context, int64_t first, int64_t end){MEASURE_PANELS(measure_back_rows)}

PDL__CLONES static void apply(void *context, int64_t first, int64_t end){APPLY_PANELS(apply_rows)}

PDL__CLONES static void apply_back(void *context, int64_t first, int64_t end)
{
    APPLY_PANELS(apply_back_rows)
}

const pdl__norm_kernels_t KERNELS = {measure, apply, measure_back, apply_back};
