/*
 * Writing quantities for people: three significant digits and the unit that fits.
 */
#include <paradl/base/units.h>

#include "base/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct step {
    const char *unit;
    double      size; /* in the base unit */
} step_t;

static const step_t second_steps[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3},   {"s", 1},
                                      {"min", 60},  {"h", 3600},  {"days", 86400}};
static const step_t byte_steps[] = {{"B", 1},
                                    {"KiB", 1024.0},
                                    {"MiB", 1048576.0},
                                    {"GiB", 1073741824.0},
                                    {"TiB", 1099511627776.0},
                                    {"PiB", 1125899906842624.0},
                                    {"EiB", 1152921504606846976.0}};
static const step_t byte_rate_steps[] = {{"B/s", 1},    {"kB/s", 1e3},  {"MB/s", 1e6},
                                         {"GB/s", 1e9}, {"TB/s", 1e12}, {"PB/s", 1e15}};
static const step_t flop_rate_steps[] = {{"FLOP/s", 1},     {"kFLOP/s", 1e3},  {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9},
                                         {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}, {"EFLOP/s", 1e18}};
static const step_t short_steps[] = {{"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}};

#define COUNT(steps) ((int)(sizeof(steps) / sizeof((steps)[0])))

/* Digits after the point that leave three significant ones. */
static int decimals(double magnitude)
{
    if (magnitude < 9.995) return 2;
    return magnitude < 99.95 ? 1 : 0;
}

/* The value as it will be printed, so that 999.7 us is seen to be 1.00 ms and not 1000 us. */
static double rounded(double magnitude)
{
    double scale = pow(10.0, decimals(magnitude));

    return round(magnitude * scale) / scale;
}

/* A unit is left for the next one when the value would print as large as that one, except that seconds last
   until two minutes, minutes until two hours and hours until two days. */
static int pick(const step_t *steps, int count, double magnitude)
{
    int i = 0;

    while (i + 1 < count) {
        double ratio = steps[i + 1].size / steps[i].size;
        double limit = ratio < 100 ? 2 * ratio : ratio * (1 - 1e-12);

        if (rounded(magnitude / steps[i].size) < limit) break;
        i++;
    }
    return i;
}

static char *print_three(double value, const char *unit, char buffer[PDL_FORMAT_SIZE])
{
    const char *space = unit[0] == '\0' ? "" : " ";
    char        digits[20];

    if (fabs(value) >= 1e7 || (value != 0 && fabs(value) < 0.01)) {
        pdl__number_print(digits, sizeof(digits), "%.*g", 3, value);
    } else {
        /* Whole numbers below a thousand of the smallest unit are exact: "512 B", not "512.0". */
        int exact = value == floor(value) && (unit[0] == '\0' || strcmp(unit, "B") == 0);

        pdl__number_print(digits, sizeof(digits), "%.*f", exact || value == 0 ? 0 : decimals(fabs(value)), value);
    }
    snprintf(buffer, PDL_FORMAT_SIZE, "%s%s%s", digits, space, unit);
    return buffer;
}

/* `zero_unit` is what a zero is printed in. */
static char *format(double value, const step_t *steps, int count, const char *zero_unit,
                    char buffer[PDL_FORMAT_SIZE])
{
    int i;

    if (!isfinite(value)) {
        snprintf(buffer, PDL_FORMAT_SIZE, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return buffer;
    }
    if (value == 0) return print_three(0.0, zero_unit, buffer);
    i = pick(steps, count, fabs(value));
    return print_three(value / steps[i].size, steps[i].unit, buffer);
}

char *pdl_format_seconds(double value, char buffer[PDL_FORMAT_SIZE])
{
    return format(value, second_steps, COUNT(second_steps), "s", buffer);
}

char *pdl_format_seconds_like(double value, double like, char buffer[PDL_FORMAT_SIZE])
{
    if (!isfinite(value) || !isfinite(like)) return pdl_format_seconds(value, buffer);
    return print_three(value / second_steps[pick(second_steps, COUNT(second_steps), fabs(like))].size, "", buffer);
}

char *pdl_format_bytes(double value, char buffer[PDL_FORMAT_SIZE])
{
    return format(value, byte_steps, COUNT(byte_steps), "B", buffer);
}

char *pdl_format_byte_rate(double value, char buffer[PDL_FORMAT_SIZE])
{
    return format(value, byte_rate_steps, COUNT(byte_rate_steps), "B/s", buffer);
}

char *pdl_format_flop_rate(double value, char buffer[PDL_FORMAT_SIZE])
{
    return format(value, flop_rate_steps, COUNT(flop_rate_steps), "FLOP/s", buffer);
}

char *pdl_format_short(double value, char buffer[PDL_FORMAT_SIZE])
{
    return format(value, short_steps, COUNT(short_steps), "", buffer);
}

char *pdl_format_count(int64_t count, char buffer[PDL_FORMAT_SIZE])
{
    uint64_t magnitude = count < 0 ? -(uint64_t)count : (uint64_t)count;
    char     reversed[PDL_FORMAT_SIZE];
    int      length = 0, digits = 0, i;

    do {
        if (digits > 0 && digits % 3 == 0) reversed[length++] = ',';
        reversed[length++] = (char)('0' + (int)(magnitude % 10));
        magnitude /= 10;
        digits++;
    } while (magnitude > 0);
    if (count < 0) reversed[length++] = '-';
    for (i = 0; i < length; i++) buffer[i] = reversed[length - 1 - i];
    buffer[length] = '\0';
    return buffer;
}
