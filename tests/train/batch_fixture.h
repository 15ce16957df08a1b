/*
 * One batch of random samples for any network, of which every rank takes its part. A program defines before how many
 * samples it has (BATCH) and how many values a sample has at most (ROOM).
 */
#ifndef PDL_TEST_BATCH_FIXTURE_H
#define PDL_TEST_BATCH_FIXTURE_H

#include <paradl/train/session.h>

#include "random.h"
#include "test.h"

static float   values[BATCH * ROOM], weight[BATCH];
static int32_t tokens[BATCH * ROOM], labels[BATCH * ROOM];

/* Tokens are below 13, labels below `classes`. */
static void fill_batch(int classes)
{
    for (int i = 0; i < BATCH * ROOM; i++) {
        values[i] = (float)between(-1000, 1000) / 700;
        tokens[i] = (int32_t)between(0, 12);
        labels[i] = (int32_t)between(0, classes - 1);
    }
    for (int i = 0; i < BATCH; i++) weight[i] = 1;
}

static pdl_batch_t part_of_batch(const pdl_plan_t *plan, const pdl_session_t *session)
{
    const pdl_layer_t *loss = pdl_model_layer(plan->model, pdl_model_layer_count(plan->model) - 1);
    pdl_shape_t        input = pdl_model_input(plan->model);
    int64_t            first, count;

    CHECK(pdl_shape_elements(&input) <= ROOM && pdl_shape_positions(&loss->in) <= ROOM);
    pdl_session_share(session, &first, &count);
    return (pdl_batch_t){.values = values + first * pdl_shape_elements(&input),
                         .tokens = tokens + first * pdl_shape_positions(&input),
                         .numbers = values + first * pdl_shape_elements(&loss->in),
                         .labels = labels + first * pdl_shape_positions(&loss->in),
                         .weight = weight + first};
}

/* Of all tensors of an array, such that neither their order nor their place is lost. Collective. */
__attribute__((unused)) static double sum_array(pdl_session_t *session, pdl_session_array_t array)
{
    double sum = 0;

    for (int i = 0; i < pdl_session_tensor_count(session); i++) {
        int64_t elements = pdl_session_tensor(session, i)->elements;
        float  *plain = malloc((size_t)elements * sizeof(*plain));
        if (pdl_session_has(session, i, array)) {
            CHECK_OK(pdl_session_get(session, i, array, plain));
            for (int64_t k = 0; k < elements; k++) sum += (double)plain[k] * (1 + (double)(k % 7));
        }
        free(plain);
    }
    return sum;
}

__attribute__((unused)) static double sum_weights(pdl_session_t *session)
{
    return sum_array(session, PDL_ARRAY_WEIGHT);
}

#endif
