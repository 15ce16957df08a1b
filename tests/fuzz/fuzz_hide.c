/*
 * Any bytes given as the state of hiding are refused, or give a state with which training goes on: epochs can be begun,
 * hidden samples exist, and what is saved can be restored. The first byte chooses method and scope, the second the
 * number of samples.
 */
#include <paradl/data/hide.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SAMPLES 256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int64_t            samples, everyone[MOST_SAMPLES];
static pdl_hide_workers_t workers = {.batch = 1, .count = 1, .sizes = &samples, .reports = true};

static void look(const pdl_hide_t *hide)
{
    const uint64_t   *bits = pdl_hide_bits(hide);
    int64_t           count = 0, hidden = 0;
    const int64_t    *drawn = pdl_hide_drawn(hide, &count);
    pdl_hide_report_t report;

    for (int64_t i = 0; bits != NULL && i < (samples + 63) / 64 * 64; i++) {
        hidden += bits[i / 64] >> (i % 64) & 1;
        assert(i < samples || !(bits[i / 64] >> (i % 64) & 1));
    }
    for (int64_t i = 0; i < count; i++) assert(drawn[i] >= 0 && drawn[i] < samples);
    pdl_hide_report(hide, &report);
    assert(report.hidden == hidden && report.candidates == hidden + report.moved_back);
    assert(pdl_hide_rate(hide) >= 1);
}

static void go_on(pdl_hide_t *hide, int64_t epoch, bool inside)
{
    int64_t bytes = pdl_hide_state_bytes(hide), epochs = INT64_MAX;
    void   *state;

    for (int k = 0; k < 3; k++) {
        pdl_status_t status = pdl_hide_begin(hide, epoch + k, epochs, &workers);

        assert(status == PDL_OK);
        look(hide);
    }
    state = malloc((size_t)bytes);
    assert(state != NULL);
    pdl_hide_save(hide, state);
    assert(pdl_hide_restore(hide, state, bytes, inside) == PDL_OK);
    free(state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int64_t *list[] = {everyone};
    pdl_hide_options_t    options;
    pdl_hide_t           *hide = NULL;
    int64_t               epoch = 0;
    bool                  inside;

    if (size < 2) return 0;
    if (workers.ranks == NULL && pdl_ranks_create(&workers.ranks) != PDL_OK) return 0;
    workers.partition = list;
    samples = data[1] + 1;
    for (int64_t i = 0; i < samples; i++) everyone[i] = i;
    pdl_hide_defaults(&options);
    options.method = (pdl_hide_method_t)(data[0] % PDL_HIDE_METHOD_COUNT);
    options.scope = data[0] & 64 ? PDL_HIDE_LOCAL : PDL_HIDE_GLOBAL;
    inside = data[0] & 128;
    if (pdl_hide_create(&options, samples, &hide) != PDL_OK) return 0;
    if (pdl_hide_restore(hide, data + 2, (int64_t)size - 2, inside) == PDL_OK) {
        memcpy(&epoch, data + 2 + 4 * sizeof(int64_t), sizeof(epoch));
        if (epoch < INT64_MAX - 4) go_on(hide, inside ? epoch : epoch + 1, inside);
    } else {
        assert(strstr(pdl_error_message(), "state of hiding") != NULL);
    }
    pdl_hide_destroy(hide);
    return 0;
}
