/*
 * Reading quantities with units. Writing them is in format.c.
 */
#include <paradl/base/units.h>

#include "base/number.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define KI       1024.0
#define MI       (1024.0 * KI)
#define GI       (1024.0 * MI)
#define TI       (1024.0 * GI)
#define PI_BYTES (1024.0 * TI)

typedef struct suffix {
    const char *name;
    double      factor;
} suffix_t;

static const suffix_t plain[] = {{"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {NULL, 0}};

/* KB is what many write for kB. */
static const suffix_t bytes[] = {
    {"", 1},      {"B", 1},    {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9},       {"TB", 1e12},
    {"PB", 1e15}, {"KiB", KI}, {"MiB", MI}, {"GiB", GI}, {"TiB", TI}, {"PiB", PI_BYTES}, {NULL, 0},
};

static const suffix_t seconds[] = {
    {"", 1}, {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}, {NULL, 0},
};

static const suffix_t byte_rate[] = {
    {"", 1},           {"B/s", 1},        {"kB/s", 1e3},   {"MB/s", 1e6},   {"GB/s", 1e9},   {"TB/s", 1e12},
    {"PB/s", 1e15},    {"KiB/s", KI},     {"MiB/s", MI},   {"GiB/s", GI},   {"TiB/s", TI},   {"b/s", 0.125},
    {"kb/s", 125},     {"Mb/s", 125e3},   {"Gb/s", 125e6}, {"Tb/s", 125e9}, {"kbit/s", 125}, {"Mbit/s", 125e3},
    {"Gbit/s", 125e6}, {"Tbit/s", 125e9}, {NULL, 0},
};

static const suffix_t flop_rate[] = {
    {"", 1},           {"FLOP/s", 1},     {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12},
    {"PFLOP/s", 1e15}, {"EFLOP/s", 1e18}, {"MFLOPS", 1e6},  {"GFLOPS", 1e9},  {"TFLOPS", 1e12},
    {"PFLOPS", 1e15},  {"EFLOPS", 1e18},  {NULL, 0},
};

static const suffix_t watt[] = {{"", 1}, {"W", 1}, {"kW", 1e3}, {"MW", 1e6}, {NULL, 0}};

static const struct {
    const suffix_t *suffixes;
    const char     *expected;
} units[] = {
    [PDL_UNIT_NONE] = {plain, "a number such as 12, 0.5 or 64k"},
    [PDL_UNIT_BYTES] = {bytes, "a size such as 64MiB or 16GB"},
    [PDL_UNIT_SECONDS] = {seconds, "a time such as 4us, 20ms or 1.5s"},
    [PDL_UNIT_BYTE_RATE] = {byte_rate, "a rate such as 25GB/s or 100Gb/s"},
    [PDL_UNIT_FLOP_RATE] = {flop_rate, "a speed such as 15.7TFLOP/s"},
    [PDL_UNIT_WATT] = {watt, "a power such as 300W or 1.2kW"},
};

pdl_status_t pdl_parse_quantity(const char *text, pdl_unit_t unit, double *value)
{
    const suffix_t *suffix = units[unit].suffixes;
    const char     *rest;
    double          number;

    if (text[0] == '-') {
        return pdl_error(PDL_ERR_INPUT, "expected %s, not below zero, found \"%.60s\"", units[unit].expected, text);
    }
    if (!pdl__number_scan(text, false, &rest, &number)) {
        return pdl_error(PDL_ERR_INPUT, "expected %s, found \"%.60s\"", units[unit].expected, text);
    }
    if (rest[0] == ' ' && rest[1] != '\0') rest++;
    while (suffix->name != NULL && strcmp(suffix->name, rest) != 0) suffix++;
    if (suffix->name == NULL) {
        return pdl_error(PDL_ERR_INPUT, "expected %s, found \"%.60s\"", units[unit].expected, text);
    }
    number *= suffix->factor;
    if (!isfinite(number)) {
        return pdl_error(PDL_ERR_INPUT, "expected %s, found \"%.60s\", which is too large", units[unit].expected,
                         text);
    }
    *value = number;
    return PDL_OK;
}

static bool multiply(uint64_t *number, uint64_t factor, uint64_t limit)
{
    if (*number > limit / factor) return false;
    *number *= factor;
    return true;
}

/* Reads digits and an optional multiplier into a magnitude of at most `limit`. */
static bool scan_magnitude(const char *text, uint64_t limit, uint64_t *magnitude)
{
    uint64_t number = 0, factor = 1;

    if (*text < '0' || *text > '9') return false;
    for (; *text >= '0' && *text <= '9'; text++) {
        uint64_t digit = (uint64_t)(*text - '0');

        if (!multiply(&number, 10, limit) || number > limit - digit) return false;
        number += digit;
    }
    if (*text == 'k') factor = 1000;
    if (*text == 'M') factor = 1000000;
    if (*text == 'G') factor = 1000000000;
    if (factor != 1) text++;
    if (*text != '\0' || !multiply(&number, factor, limit)) return false;
    *magnitude = number;
    return true;
}

static pdl_status_t refuse_int(const char *text, int64_t min, int64_t max)
{
    if (max == INT64_MAX) {
        return pdl_error(PDL_ERR_INPUT, "expected a whole number of at least %lld, found \"%.60s\"", (long long)min,
                         text);
    }
    return pdl_error(PDL_ERR_INPUT, "expected a whole number from %lld to %lld, found \"%.60s\"", (long long)min,
                     (long long)max, text);
}

pdl_status_t pdl_parse_int(const char *text, int64_t min, int64_t max, int64_t *value)
{
    bool     negative = text[0] == '-';
    uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    uint64_t magnitude;
    int64_t  number;

    if (!scan_magnitude(text + negative, limit, &magnitude)) return refuse_int(text, min, max);
    if (negative && magnitude == limit) {
        number = INT64_MIN;
    } else {
        number = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    }
    if (number < min || number > max) return refuse_int(text, min, max);
    *value = number;
    return PDL_OK;
}
