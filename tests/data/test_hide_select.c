/*
 * The smallest of many losses are those of a full sort by loss and index, whatever the losses are.
 */
#include <paradl/data/hide.h>

#include "data/hide/select.h"
#include "hide_cases.h"
#include "test.h"

#define MANY 1000000

static const float *compared;

/* As it is written down: by loss, zeros alike, what is not a number last, then by index. */
static int by_loss(const void *a, const void *b)
{
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    float   x = compared[i], y = compared[j];

    if (isnan(x) != isnan(y)) return isnan(x) ? 1 : -1;
    if (!isnan(x) && x != y) return x < y ? -1 : 1;
    return (i > j) - (i < j);
}

static int32_t *sorted(const float *loss, int64_t total)
{
    int32_t *order = malloc((size_t)total * sizeof(*order));

    for (int64_t i = 0; i < total; i++) order[i] = (int32_t)i;
    compared = loss;
    qsort(order, (size_t)total, sizeof(*order), by_loss);
    return order;
}

/* How many samples are chosen otherwise than by the sorted order. */
static int64_t differences(const float *loss, int64_t total, const int32_t *order, int64_t count)
{
    pdl_boundary_t boundary = {1, 2};
    int64_t        wrong = 0;

    CHECK_OK(pdl_select_smallest(loss, total, 0, count, NULL, &boundary));
    for (int64_t k = 0; k < total; k++) {
        bool expected = k < count && !isnan(loss[order[k]]);

        wrong += pdl_below(&boundary, loss[order[k]], order[k]) != expected;
    }
    return wrong;
}

static void a_million_as_sorted(void)
{
    float *loss = malloc(MANY * sizeof(*loss));

    for (int kind = 0; kind < KINDS; kind++) {
        int32_t *order;

        for (int64_t i = 0; i < MANY; i++) loss[i] = make_loss(kind, i, MANY);
        order = sorted(loss, MANY);
        CHECK_INT(differences(loss, MANY, order, MANY * 3 / 10), 0);
        CHECK_INT(differences(loss, MANY, order, MANY * 9 / 10), 0);
        free(order);
    }
    free(loss);
}

static void any_few_as_sorted(void)
{
    float loss[700];

    for (int turn = 0; turn < 400; turn++) {
        int64_t  total = turn % 8 == 0 ? between(1, 700) : between(1, 20);
        int32_t *order;

        for (int64_t i = 0; i < total; i++) loss[i] = make_loss(turn % KINDS, i, total);
        order = sorted(loss, total);
        for (int64_t count = 0; count <= total + 1; count += 1 + total / 20)
            CHECK_INT(differences(loss, total, order, count), 0);
        free(order);
    }
}

static void nothing_of_nothing(void)
{
    pdl_boundary_t boundary;

    CHECK_OK(pdl_select_smallest(NULL, 0, 0, 5, NULL, &boundary));
    CHECK(!pdl_below(&boundary, NAN, 0));
    CHECK_OK(pdl_select_smallest(&(float){-INFINITY}, 1, 0, 0, NULL, &boundary));
    CHECK(!pdl_below(&boundary, -INFINITY, 0));
    CHECK_OK(pdl_select_smallest(&(float){INFINITY}, 1, 0, 1, NULL, &boundary));
    CHECK(pdl_below(&boundary, INFINITY, 0));
    CHECK(!pdl_below(&boundary, NAN, 0));
}

static void keys_are_ordered_as_losses(void)
{
    static const float rising[] = {-INFINITY, -3e38F, -1, -1e-45F, 0, 1e-45F, 1e-39F, 1, 3e38F, INFINITY};

    for (size_t i = 1; i < sizeof(rising) / sizeof(rising[0]); i++) {
        CHECK(pdl__loss_key(rising[i - 1]) < pdl__loss_key(rising[i]));
        CHECK_NEAR(pdl__key_loss(pdl__loss_key(rising[i])), rising[i], 0);
    }
    CHECK(pdl__loss_key(-0.0F) == pdl__loss_key(0.0F));
    CHECK(pdl__loss_key(NAN) == PDL__KEY_NAN && pdl__loss_key(-NAN) == PDL__KEY_NAN);
}

int main(void)
{
    RUN(keys_are_ordered_as_losses);
    RUN(nothing_of_nothing);
    RUN(any_few_as_sorted);
    RUN(a_million_as_sorted);
    return test_done();
}
