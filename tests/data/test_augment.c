/* Crops, flips and cuts in one to three dimensions, against the definition element by element. */
#include "test.h"

#include "data/image/augment.h"

static const pdl_shape_t shapes[] = {{.channels = 1, .extent = {7, 1, 1}, .rank = 1},
                                     {.channels = 1, .extent = {3, 5, 1}, .rank = 2},
                                     {.channels = 1, .extent = {4, 3, 6}, .rank = 3}};
#define MOST 128

/* The place in the stored sample of one in the result, or -1. */
static int64_t origin(const pdl_image_change_t *change, const pdl_shape_t *shape, int64_t place)
{
    int64_t at[PDL_MAX_SPACE], from = 0;

    for (int axis = shape->rank - 1; axis >= 0; axis--) {
        at[axis] = place % shape->extent[axis];
        place /= shape->extent[axis];
    }
    for (int axis = 0; axis < shape->rank; axis++) {
        if (axis == shape->rank - 1 && change->flip) at[axis] = shape->extent[axis] - 1 - at[axis];
        at[axis] += change->move[3 - shape->rank + axis];
        if (at[axis] < 0 || at[axis] >= shape->extent[axis]) return -1;
        from = from * shape->extent[axis] + at[axis];
    }
    return from;
}

static void moves(void)
{
    for (int s = 0; s < 3; s++) {
        for (int trial = 0; trial < 200; trial++) {
            /* Pads larger than the sample are allowed: then nothing of it may be left. */
            pdl_augmentation_t wanted = {.crop_pad = trial % 9, .flip = true};
            const int64_t      count = pdl_shape_positions(&shapes[s]);
            pdl_image_change_t change;
            float              from[MOST], to[MOST];
            int32_t            classes[MOST], moved[MOST];

            pdl__augment_draw(&wanted, &shapes[s], 3, 1, trial, &change);
            for (int64_t i = 0; i < count; i++) from[i] = (float)(classes[i] = (int32_t)i + 1);
            pdl_image_move(&change, &shapes[s], from, to);
            pdl_image_move(&change, &shapes[s], classes, moved);
            for (int64_t i = 0; i < count; i++) {
                int64_t source = origin(&change, &shapes[s], i);

                CHECK_NEAR(to[i], (double)(source + 1), 0);
                CHECK_INT(moved[i], source + 1);
            }
        }
    }
}

static void cuts(void)
{
    for (int s = 0; s < 3; s++) {
        for (int side = 1; side < 9; side++) {
            pdl_augmentation_t wanted = {.cutout = side};
            const int64_t      count = pdl_shape_positions(&shapes[s]);
            pdl_image_change_t change;
            float              values[MOST] = {0};
            int64_t            cut = 0, expected = 1;
            pdl_image_scale_t  ones = {.cut = {1}, .factor = {1}};

            pdl__augment_draw(&wanted, &shapes[s], 4, 0, side, &change);
            pdl_image_finish(&change, &ones, &shapes[s], 0, values);
            for (int64_t i = 0; i < count; i++) cut += values[i] == 1;
            for (int axis = 0; axis < shapes[s].rank; axis++) {
                int     at = 3 - shapes[s].rank + axis;
                int64_t low = change.cut_low[at], high = change.cut_high[at];

                CHECK(low >= 0 && high <= shapes[s].extent[axis]);
                CHECK(high > low && high - low <= side);
                expected *= high - low;
            }
            CHECK_INT(cut, expected);
        }
    }
}

static void draws_depend_on_the_sample_alone(void)
{
    pdl_augmentation_t all = {.crop_pad = 4, .flip = true, .cutout = 2}, crop = {.crop_pad = 4};
    pdl_image_change_t a, b;
    int                differ = 0;

    for (int i = 0; i < 50; i++) {
        pdl__augment_draw(&all, &shapes[1], 1, 0, i, &a);
        pdl__augment_draw(&crop, &shapes[1], 1, 0, i, &b);
        CHECK(memcmp(a.move, b.move, sizeof(a.move)) == 0); /* the other changes do not disturb the crop */
        pdl__augment_draw(&all, &shapes[1], 1, 1, i, &b);
        differ += memcmp(a.move, b.move, sizeof(a.move)) != 0;
    }
    CHECK(differ > 40);
    CHECK(!pdl__augment_moves(&(pdl_augmentation_t){.cutout = 3}));
    CHECK(pdl__augment_moves(&crop));
}

int main(void)
{
    RUN(moves);
    RUN(cuts);
    RUN(draws_depend_on_the_sample_alone);
    return test_done();
}
