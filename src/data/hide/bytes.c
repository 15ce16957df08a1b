/*
 * The state of hiding as bytes: a header, then losses, confidences and flags of all samples, padded to eight bytes, then
 * the bits of hidden and of noted samples, and what the method adds. Numbers are as this machine has them.
 */
#include "data/hide/state.h"

#include <math.h>
#include <string.h>

#define MAGIC UINT64_C(0x31656469686c6470) /* "pdlhide1" on the machines that checkpoints are for */

typedef struct header {
    uint64_t magic;
    int64_t  samples, method, scope;
    int64_t  epoch; /* at hand; -1: none */
    int64_t  candidates, hidden;
    double   most, threshold_loss;
} header_t;

/* Where the parts begin; `end` is the size of all. */
typedef struct places {
    int64_t loss, confidence, flags, hidden, noted, heavy, drawn, end;
} places_t;

static places_t places_of(const pdl_hide_t *hide)
{
    const int64_t n = hide->samples, words = hide->words;
    places_t      p;

    p.loss = (int64_t)sizeof(header_t);
    p.confidence = p.loss + 4 * n;
    p.flags = p.confidence + 4 * n;
    p.hidden = (p.flags + n + 7) / 8 * 8;
    p.noted = p.hidden + 8 * words;
    p.heavy = p.noted + 8 * words;
    p.drawn = p.heavy + (hide->heavy != NULL ? 8 * words : 0);
    p.end = p.drawn + (hide->drawn != NULL ? 4 * n : 0);
    return p;
}

int64_t pdl_hide_state_bytes(const pdl_hide_t *hide)
{
    return places_of(hide).end;
}

void pdl_hide_save(const pdl_hide_t *hide, void *bytes)
{
    const places_t p = places_of(hide);
    const size_t   n = (size_t)hide->samples, words = (size_t)hide->words;
    const header_t header = {.magic = MAGIC,
                             .samples = hide->samples,
                             .method = hide->options.method,
                             .scope = hide->options.scope,
                             .epoch = hide->epoch,
                             .candidates = hide->report.candidates,
                             .hidden = hide->report.hidden,
                             .most = hide->report.most,
                             .threshold_loss = hide->report.threshold_loss};
    char          *to = bytes;

    memcpy(to, &header, sizeof(header));
    memcpy(to + p.loss, hide->loss, 4 * n);
    memcpy(to + p.confidence, hide->confidence, 4 * n);
    memcpy(to + p.flags, hide->flags, n);
    memset(to + p.flags + n, 0, (size_t)(p.hidden - p.flags) - n);
    memcpy(to + p.hidden, hide->hidden_all, 8 * words);
    memcpy(to + p.noted, hide->noted, 8 * words);
    if (hide->heavy != NULL) memcpy(to + p.heavy, hide->heavy, 8 * words);
    for (size_t i = 0; hide->drawn != NULL && i < n; i++) {
        uint32_t sample = hide->epoch > 0 ? (uint32_t)hide->drawn[i] : 0;

        memcpy(to + p.drawn + 4 * i, &sample, sizeof(sample));
    }
}

static pdl_status_t wrong(const char *what)
{
    return pdl_error(PDL_ERR_INPUT, "the state of hiding is damaged (%s): take another checkpoint", what);
}

static pdl_status_t check_header(const pdl_hide_t *hide, const char *bytes, int64_t count, header_t *header)
{
    const int64_t expected = pdl_hide_state_bytes(hide);

    if (count < (int64_t)sizeof(*header)) return wrong("it is too short");
    memcpy(header, bytes, sizeof(*header));
    if (header->magic != MAGIC) return wrong("it does not begin as one");
    if (header->samples != hide->samples) {
        return pdl_error(PDL_ERR_INPUT,
                         "the state of hiding is of %lld samples, and there are %lld: resume with the "
                         "same data",
                         (long long)header->samples, (long long)hide->samples);
    }
    if (header->method < 0 || header->method >= PDL_HIDE_METHOD_COUNT) return wrong("method");
    if (header->scope < 0 || header->scope >= PDL_HIDE_SCOPE_COUNT) return wrong("scope");
    if (header->method != (int64_t)hide->options.method || header->scope != (int64_t)hide->options.scope) {
        return pdl_error(PDL_ERR_INPUT,
                         "the state of hiding is of --hide-method %s --hide-scope %s: resume with the same",
                         pdl_hide_method_names[header->method], pdl_hide_scope_names[header->scope]);
    }
    if (count != expected) return wrong("its size");
    if (header->epoch < -1) return wrong("epoch");
    if (header->hidden < 0 || header->hidden > header->candidates || header->candidates > header->samples ||
        (header->epoch <= 0 && header->candidates > 0)) {
        return wrong("number of hidden samples");
    }
    if (!(header->most >= 0 && header->most <= 1)) return wrong("hidden fraction");
    return isfinite(header->threshold_loss) ? PDL_OK : wrong("loss of the candidates");
}

/* No bits behind the last sample. */
static bool bits_end(const pdl_hide_t *hide, const char *bits)
{
    uint64_t last;

    memcpy(&last, bits + 8 * (hide->words - 1), sizeof(last));
    return hide->samples % 64 == 0 || last >> (hide->samples % 64) == 0;
}

static pdl_status_t check_bits(const pdl_hide_t *hide, const char *bytes, const places_t *p, const header_t *header)
{
    int64_t hidden = 0;

    if (!bits_end(hide, bytes + p->hidden) || !bits_end(hide, bytes + p->noted))
        return wrong("samples there are not");
    if (hide->heavy != NULL && !bits_end(hide, bytes + p->heavy)) return wrong("samples there are not");
    for (int64_t w = 0; w < hide->words; w++) {
        uint64_t word, heavy = 0;

        memcpy(&word, bytes + p->hidden + 8 * w, sizeof(word));
        hidden += __builtin_popcountll(word);
        if (hide->heavy != NULL) memcpy(&heavy, bytes + p->heavy + 8 * w, sizeof(heavy));
        if (word & heavy) return wrong("hidden samples that are weighed");
    }
    return hidden == header->hidden ? PDL_OK : wrong("number of hidden samples");
}

static pdl_status_t check_samples(const pdl_hide_t *hide, const char *bytes, const places_t *p)
{
    for (int64_t i = 0; i < hide->samples; i++) {
        float confidence;

        memcpy(&confidence, bytes + p->confidence + 4 * i, sizeof(confidence));
        if (!(confidence >= 0 && confidence <= 1)) return wrong("confidence");
    }
    for (int64_t i = 0; hide->drawn != NULL && i < hide->samples; i++) {
        uint32_t sample;

        memcpy(&sample, bytes + p->drawn + 4 * i, sizeof(sample));
        if (sample >= hide->samples) return wrong("samples there are not");
    }
    return PDL_OK;
}

static void read_epoch(pdl_hide_t *hide, const char *bytes, const places_t *p, const header_t *header)
{
    const size_t words = (size_t)hide->words;

    memcpy(hide->hidden_all, bytes + p->hidden, 8 * words);
    memcpy(hide->noted, bytes + p->noted, 8 * words);
    if (hide->heavy != NULL) memcpy(hide->heavy, bytes + p->heavy, 8 * words);
    for (int64_t i = 0; hide->drawn != NULL && i < hide->samples; i++) {
        uint32_t sample;

        memcpy(&sample, bytes + p->drawn + 4 * i, sizeof(sample));
        hide->drawn[i] = sample;
    }
    hide->report = (pdl_hide_report_t){.candidates = header->candidates,
                                       .moved_back = header->candidates - header->hidden,
                                       .hidden = header->hidden,
                                       .most = header->most,
                                       .fraction = (double)header->hidden / (double)hide->samples,
                                       .threshold_loss = header->threshold_loss};
}

pdl_status_t pdl_hide_restore(pdl_hide_t *hide, const void *bytes, int64_t count, bool inside)
{
    const places_t p = places_of(hide);
    const char    *from = bytes;
    header_t       header;
    pdl_status_t   status = check_header(hide, from, count, &header);

    if (!status) status = check_bits(hide, from, &p, &header);
    if (!status) status = check_samples(hide, from, &p);
    if (!status && inside && header.epoch < 0) status = wrong("no epoch was at hand");
    if (status) return status;
    memcpy(hide->loss, from + p.loss, 4 * (size_t)hide->samples);
    memcpy(hide->confidence, from + p.confidence, 4 * (size_t)hide->samples);
    memcpy(hide->flags, from + p.flags, (size_t)hide->samples);
    memset(hide->mine, 0, 8 * (size_t)hide->words);
    hide->mine_count = 0;
    hide->epoch = header.epoch;
    read_epoch(hide, from, &p, &header);
    hide->resumed = inside;
    return PDL_OK;
}
