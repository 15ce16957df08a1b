/*
 * Parses what is particular to `paradl simulate`: lists of names, sweeps, factors, stragglers, failed links.
 */
#include "cli/simulate/options.h"
#include "cli/topology_options.h"

#include <paradl/base/random.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WORD 64

/* Copies the text up to one of `stops` and moves behind it; false when there is none or it does not fit. */
static bool next_word(const char **at, const char *stops, char word[WORD])
{
    size_t length = strcspn(*at, stops);

    if (**at == '\0' || length == 0 || length >= WORD) return false;
    memcpy(word, *at, length);
    word[length] = '\0';
    *at += length;
    return true;
}

static bool skip(const char **at, char expected)
{
    if (**at != expected) return false;
    ++*at;
    return true;
}

pdl_status_t pdl__parse_names(const char *option, const char *text, pdl__names_t *names)
{
    names->count = 0;
    if (strcmp(text, "all") == 0) return PDL_OK;
    if (strlen(text) >= sizeof(names->copy)) return pdl_error(PDL_ERR_INPUT, "--%s: the list is too long", option);
    strcpy(names->copy, text);
    /* A nesting has commas of its own. */
    if (strncmp(text, "levels:", 7) == 0) {
        names->name[names->count++] = names->copy;
        return PDL_OK;
    }
    for (char *word = strtok(names->copy, ","); word != NULL; word = strtok(NULL, ",")) {
        if (names->count == PDL__MAX_CHOSEN)
            return pdl_error(PDL_ERR_INPUT, "--%s: at most %d names", option, PDL__MAX_CHOSEN);
        names->name[names->count++] = word;
    }
    if (names->count == 0) return pdl_error(PDL_ERR_INPUT, "--%s: no name in \"%.60s\"", option, text);
    return PDL_OK;
}

pdl_status_t pdl__parse_segments(const char *text, int64_t *segments)
{
    *segments = 0;
    if (strcmp(text, "auto") == 0 || pdl_parse_int(text, 1, INT32_MAX, segments) == PDL_OK) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "--segments: expected a number of at least 1, or auto, found \"%.60s\"", text);
}

pdl_status_t pdl__parse_sweep(const char *option, const char *text, pdl_unit_t unit,
                              int64_t points[PDL__MAX_POINTS], int *count)
{
    char        from[WORD], to[WORD], by[WORD];
    const char *at = text;
    double      first, last, factor;

    if (!next_word(&at, ":", from) || !skip(&at, ':') || !next_word(&at, ":", to) || !skip(&at, ':') ||
        !next_word(&at, ":", by) || *at != '\0' || pdl_parse_quantity(from, unit, &first) ||
        pdl_parse_quantity(to, unit, &last) || pdl_parse_quantity(by, PDL_UNIT_NONE, &factor))
        return pdl_error(PDL_ERR_INPUT, "--%s: expected FROM:TO:FACTOR, for example %s, found \"%.60s\"", option,
                         unit == PDL_UNIT_BYTES ? "1KiB:1GiB:4" : "64:4096:2", text);
    if (first < 1 || last < first || last > 9e18 || factor <= 1)
        return pdl_error(PDL_ERR_INPUT, "--%s: it goes from 1 or more upward by a factor above 1, not by \"%.60s\"",
                         option, text);
    *count = 0;
    for (double value = first; value <= last * (1 + 1e-12); value *= factor) {
        int64_t point = (int64_t)llround(value);

        if (*count > 0 && points[*count - 1] == point) continue;
        if (*count == PDL__MAX_POINTS)
            return pdl_error(PDL_ERR_INPUT, "--%s: more than %d points; take a larger factor", option,
                             PDL__MAX_POINTS);
        points[(*count)++] = point;
    }
    return PDL_OK;
}

pdl_status_t pdl__parse_factors(const char *option, const char *text, pdl_factor_t factors[PDL__MAX_FACTORS],
                                int *count)
{
    const char *at = text;

    for (*count = 0;; ++*count) {
        char          size[WORD], factor[WORD];
        pdl_factor_t *entry;

        if (*count == PDL__MAX_FACTORS)
            return pdl_error(PDL_ERR_INPUT, "--%s: at most %d factors", option, PDL__MAX_FACTORS);
        entry = &factors[*count];
        if (!next_word(&at, ":", size) || !skip(&at, ':') || !next_word(&at, ",", factor) ||
            pdl_parse_quantity(size, PDL_UNIT_BYTES, &entry->bytes) ||
            pdl_parse_quantity(factor, PDL_UNIT_NONE, &entry->factor))
            return pdl_error(PDL_ERR_INPUT,
                             "--%s: expected SIZE:FACTOR,SIZE:FACTOR.., for example 0:2,64KiB:1.1, "
                             "found \"%.60s\"",
                             option, text);
        if (!skip(&at, ',')) break;
    }
    ++*count;
    return PDL_OK;
}

pdl_status_t pdl__parse_stragglers(const char *text, int hosts, double **start_s)
{
    double     *start = calloc((size_t)hosts, sizeof(*start));
    const char *at = text;

    if (start == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for stragglers");
    for (;;) {
        char    host[WORD], time[WORD];
        int64_t index;
        double  seconds;

        if (!next_word(&at, ":", host) || !skip(&at, ':') || !next_word(&at, ",", time) ||
            pdl_parse_int(host, 0, hosts - 1, &index) || pdl_parse_quantity(time, PDL_UNIT_SECONDS, &seconds)) {
            free(start);
            return pdl_error(PDL_ERR_INPUT,
                             "--stragglers: expected HOST:TIME,HOST:TIME.. with hosts 0 to %d, "
                             "for example 3:2ms, found \"%.60s\"",
                             hosts - 1, text);
        }
        start[index] = seconds;
        if (!skip(&at, ',')) break;
    }
    *start_s = start;
    return PDL_OK;
}

pdl_status_t pdl__parse_slow(const char *text, int64_t ranks, int64_t *rank, double *factor)
{
    char        number[WORD], times[WORD];
    const char *at = text;

    if (next_word(&at, ":", number) && skip(&at, ':') && next_word(&at, ":", times) && *at == '\0' &&
        !pdl_parse_int(number, 0, ranks - 1, rank) && !pdl_parse_quantity(times, PDL_UNIT_NONE, factor) &&
        *factor > 0)
        return PDL_OK;
    return pdl_error(
        PDL_ERR_INPUT,
        "--slow: expected RANK:FACTOR with ranks 0 to %lld and a factor above 0, for example 3:1.5, found "
        "\"%.60s\"",
        (long long)ranks - 1, text);
}

static pdl_status_t fail_cable(pdl_topology_t *topology, const char *a_name, const char *b_name)
{
    const pdl_link_t *links = pdl_topology_links(topology);
    int               a, b, found = 0;
    pdl_status_t      status = pdl__parse_vertex(topology, a_name, &a);

    if (!status) status = pdl__parse_vertex(topology, b_name, &b);
    for (int i = 0; !status && i < pdl_topology_link_count(topology); i++) {
        if (!(links[i].src == a && links[i].dst == b) && !(links[i].src == b && links[i].dst == a)) continue;
        status = pdl_topology_fail_link(topology, i);
        found++;
    }
    if (status || found > 0) return status;
    return pdl_error(PDL_ERR_INPUT, "%s has no link between %s and %s", pdl_topology_name(topology), a_name,
                     b_name);
}

/* The links of the cable that a link is one way of. */
static pdl_status_t fail_both_ways(pdl_topology_t *topology, int link)
{
    const pdl_link_t *links = pdl_topology_links(topology);
    pdl_status_t      status = pdl_topology_fail_link(topology, link);

    if (status || link + 1 >= pdl_topology_link_count(topology) || !links[link + 1].way_back) return status;
    return pdl_topology_fail_link(topology, link + 1);
}

/* Takes a switch, or a cable between switches, out; false: it cannot be. */
static bool drop(pdl_topology_t *topology, bool switches, int place)
{
    if (switches) return pdl_topology_fail_switch(topology, pdl_topology_hosts(topology) + place) == PDL_OK;
    return pdl_topology_links(topology)[place].kind == PDL_LINK_SWITCH && fail_both_ways(topology, place) == PDL_OK;
}

/* random:N[:SEED]. What is out already, or without which hosts would be cut off, is drawn again. */
static pdl_status_t fail_random(const char *text, bool switches, pdl_topology_t *topology)
{
    const char *option = switches ? "fail-switch" : "fail-link", *at = text + strlen("random:");
    char        count[WORD], number[WORD];
    int64_t     wanted = 0, seed = 1, failed = 0, most = pdl_topology_link_count(topology);
    bool       *tried;

    if (switches) most = pdl_topology_vertices(topology) - pdl_topology_hosts(topology);
    if (!next_word(&at, ":", count) || pdl_parse_int(count, 1, most, &wanted) ||
        (skip(&at, ':') && (!next_word(&at, ":", number) || pdl_parse_int(number, 0, INT32_MAX, &seed))) ||
        *at != '\0')
        return pdl_error(PDL_ERR_INPUT,
                         "--%s: expected random:N or random:N:SEED with N up to %lld, found \"%.60s\"", option,
                         (long long)most, text);
    tried = calloc((size_t)most, sizeof(*tried));
    if (tried == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for failures");
    for (uint64_t draw = 0; failed < wanted && draw < 64 * (uint64_t)most; draw++) {
        uint64_t stream = pdl_random_stream(switches ? "switches" : "links", 0, 0);
        int      place = (int)(pdl_random_uniform((uint64_t)seed, stream, draw) * (double)most);

        if (!switches && pdl_topology_links(topology)[place].way_back) place--;
        if (tried[place]) continue;
        tried[place] = true; /* what cuts hosts off now does so with more failures as well */
        failed += drop(topology, switches, place);
    }
    free(tried);
    if (failed == wanted) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "--%s: after %lld failures any other would cut hosts off", option,
                     (long long)failed);
}

pdl_status_t pdl__fail_switches(const char *text, pdl_topology_t *topology)
{
    const char *at = text;

    if (strncmp(text, "random:", 7) == 0) return fail_random(text, true, topology);
    do {
        char         name[WORD];
        int          vertex;
        pdl_status_t status;

        if (!next_word(&at, ",", name) || name[0] != 's')
            return pdl_error(PDL_ERR_INPUT, "--fail-switch: expected S,S.., for example s0,s3, found \"%.60s\"",
                             text);
        status = pdl__parse_vertex(topology, name, &vertex);
        if (!status) status = pdl_topology_fail_switch(topology, vertex);
        if (status) return pdl_error(status, "--fail-switch: %s: %s", name, pdl_error_message());
    } while (skip(&at, ','));
    return PDL_OK;
}

pdl_status_t pdl__fail_links(const char *text, pdl_topology_t *topology)
{
    const char  *at = text;
    pdl_status_t status = PDL_OK;

    if (strncmp(text, "random:", 7) == 0) return fail_random(text, false, topology);
    do {
        char a[WORD], b[WORD];

        if (!next_word(&at, "-", a) || !skip(&at, '-') || !next_word(&at, ",", b))
            return pdl_error(PDL_ERR_INPUT, "--fail-link: expected A-B, for example s0-s1, found \"%.60s\"", text);
        status = fail_cable(topology, a, b);
        if (status) return pdl_error(status, "--fail-link: %s", pdl_error_message());
    } while (skip(&at, ','));
    return PDL_OK;
}
