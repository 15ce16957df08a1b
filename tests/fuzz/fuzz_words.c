/*
 * Any text given to the readers of options (sizes, times, rates, shuffling, rounds, data policies) yields a value in its range,
 * or an error. The first byte chooses the reader.
 */
#include <paradl/base/units.h>
#include <paradl/data/shuffle.h>
#include <paradl/plan/plan.h>
#include <paradl/train/aggregate.h>

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static pdl_status_t read_words(int reader, const char *text)
{
    pdl_aggregate_options_t aggregate = {0};
    pdl_shuffle_options_t   shuffle = {0};
    pdl_data_policy_t       policy = {0};
    double                  value = 0;
    int64_t                 number = 0;
    pdl_status_t            st;

    if (reader <= PDL_UNIT_WATT) {
        st = pdl_parse_quantity(text, (pdl_unit_t)reader, &value);
        assert(st != PDL_OK || (isfinite(value) && value >= 0));
        return st;
    }
    switch (reader - PDL_UNIT_WATT) {
    case 1:
        st = pdl_parse_int(text, -7, 1000, &number);
        assert(st != PDL_OK || (number >= -7 && number <= 1000));
        return st;
    case 2: return pdl_aggregate_parse(text, &aggregate);
    case 3:
        st = pdl_shuffle_parse(text, &shuffle);
        assert(st != PDL_OK || (shuffle.fraction >= 0 && shuffle.fraction <= 1));
        return st;
    default:
        st = pdl_data_policy_parse(text, &policy);
        assert(st != PDL_OK ||
               (policy.exchange >= 0 && policy.exchange <= 1 && policy.hide >= 0 && policy.hide <= 1));
        return st;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text;

    if (size == 0) return 0;
    text = malloc(size);
    if (text == NULL) abort();
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    if (read_words(data[0] % (PDL_UNIT_WATT + 5), text) != PDL_OK) assert(pdl_error_message()[0] != '\0');
    free(text);
    return 0;
}
