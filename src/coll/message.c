/*
 * Messages of the sparse allreduce as they are sent. Word 0 is the number of pairs; where that is the length of the
 * segment its values follow, else pairs of index and value.
 */
#include <paradl/coll/sparse.h>

#include <string.h>

/* Pairs from this number on take as much room as all values. */
static bool should_be_dense(int64_t count, int64_t length)
{
    return 2 * count >= length;
}

static float value_at(const uint32_t *word)
{
    float value;

    memcpy(&value, word, sizeof(value));
    return value;
}

static void put_pair(uint32_t *message, uint32_t index, float value)
{
    uint32_t *pair = message + 1 + 2 * (size_t)message[0]++;

    pair[0] = index;
    memcpy(pair + 1, &value, sizeof(value));
}

/* A dense message has the length as its count, and so has an empty segment. */
static bool is_dense(const uint32_t *message, int64_t length)
{
    return message[0] == (uint32_t)length;
}

static float *begin_dense(uint32_t *message, int64_t length)
{
    message[0] = (uint32_t)length;
    memset(message + 1, 0, (size_t)length * sizeof(float));
    return (float *)(message + 1);
}

int64_t pdl_message_words(const uint32_t *message, int64_t length)
{
    return 1 + (is_dense(message, length) ? length : 2 * (int64_t)message[0]);
}

void pdl_message_pairs(const uint32_t *index, const float *value, int64_t count, int64_t length, uint32_t *message)
{
    if (should_be_dense(count, length)) {
        float *values = begin_dense(message, length);

        for (int64_t k = 0; k < count; k++) values[index[k]] = value[k];
        return;
    }
    message[0] = 0;
    for (int64_t k = 0; k < count; k++) put_pair(message, index[k], value[k]);
}

void pdl_message_values(const float *values, int64_t length, uint32_t *message)
{
    int64_t count = 0;

    for (int64_t k = 0; k < length; k++) count += values[k] != 0;
    if (should_be_dense(count, length)) {
        memcpy(begin_dense(message, length), values, (size_t)length * sizeof(float));
        return;
    }
    message[0] = 0;
    for (int64_t k = 0; k < length; k++)
        if (values[k] != 0) put_pair(message, (uint32_t)k, values[k]);
}

void pdl_message_add(const uint32_t *message, int64_t length, float *values)
{
    if (is_dense(message, length)) {
        for (int64_t k = 0; k < length; k++) values[k] += value_at(message + 1 + k);
        return;
    }
    for (const uint32_t *pair = message + 1; pair < message + 1 + 2 * (size_t)message[0]; pair += 2)
        values[pair[0]] += value_at(pair + 1);
}

/* The first pair whose index is not below `element`. */
static int64_t find_pair(const uint32_t *message, int64_t element)
{
    int64_t low = 0, high = message[0];

    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (message[1 + 2 * middle] < element)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Pairs of a part of a message and those of `more`, both in order. */
static void merge(const uint32_t *pair, const uint32_t *end, uint32_t first, const uint32_t *more, uint32_t *sum)
{
    const uint32_t *other = more + 1, *other_end = other + 2 * (size_t)more[0];

    sum[0] = 0;
    while (pair < end || other < other_end) {
        bool here = pair < end && (other == other_end || pair[0] - first <= other[0]);
        bool there = other < other_end && (pair >= end || other[0] <= pair[0] - first);

        put_pair(sum, here ? pair[0] - first : other[0],
                 here && there ? value_at(other + 1) + value_at(pair + 1) : value_at((here ? pair : other) + 1));
        pair += here ? 2 : 0;
        other += there ? 2 : 0;
    }
}

/* The same where the part is dense; its zeros are left out. */
static void merge_values(const float *values, int64_t count, const uint32_t *more, uint32_t *sum)
{
    const uint32_t *other = more + 1, *end = other + 2 * (size_t)more[0];

    sum[0] = 0;
    for (int64_t k = 0; k < count; k++) {
        bool there = other < end && other[0] == k;

        if (there || values[k] != 0)
            put_pair(sum, (uint32_t)k, there ? value_at(other + 1) + values[k] : values[k]);
        other += there ? 2 : 0;
    }
}

void pdl_message_sum(const uint32_t *message, int64_t length, int64_t first, int64_t count, const uint32_t *more,
                     uint32_t *sum)
{
    static const uint32_t none[1] = {0};
    bool                  dense = is_dense(message, length), other_dense = more != NULL && is_dense(more, count);
    int64_t               low = dense ? 0 : find_pair(message, first);
    int64_t               pairs = dense ? 0 : find_pair(message, first + count) - low;
    const uint32_t       *pair = message + 1 + 2 * low;
    const float          *values = (const float *)(message + 1 + first);
    float                *all;

    for (int64_t k = 0; dense && k < count; k++) pairs += values[k] != 0;
    if (more == NULL) more = none;
    if (!other_dense && !should_be_dense(pairs + (int64_t)more[0], count)) {
        if (dense)
            merge_values(values, count, more, sum);
        else
            merge(pair, pair + 2 * pairs, (uint32_t)first, more, sum);
        return;
    }
    all = begin_dense(sum, count);
    if (more != none) pdl_message_add(more, count, all);
    for (int64_t k = 0; dense && k < count; k++) all[k] += values[k];
    for (int64_t k = 0; !dense && k < pairs; k++) all[pair[2 * k] - first] += value_at(pair + 2 * k + 1);
}
