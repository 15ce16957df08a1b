/* Quantities with units, in and out, in any locale. */
#include <paradl/base/units.h>

#include "test.h"

#include <locale.h>

static double read(const char *text, pdl_unit_t unit)
{
    double value = -1;

    CHECK_OK(pdl_parse_quantity(text, unit, &value));
    return value;
}

static void reads_plain_numbers(void)
{
    CHECK_NEAR(read("0", PDL_UNIT_NONE), 0, 0);
    CHECK_NEAR(read("12", PDL_UNIT_NONE), 12, 0);
    CHECK_NEAR(read("0.5", PDL_UNIT_NONE), 0.5, 0);
    CHECK_NEAR(read(".5", PDL_UNIT_NONE), 0.5, 0);
    CHECK_NEAR(read("5.", PDL_UNIT_NONE), 5, 0);
    CHECK_NEAR(read("1e-3", PDL_UNIT_NONE), 1e-3, 0);
    CHECK_NEAR(read("2.5E+2", PDL_UNIT_NONE), 250, 0);
    CHECK_NEAR(read("64k", PDL_UNIT_NONE), 64e3, 0);
    CHECK_NEAR(read("1.5T", PDL_UNIT_NONE), 1.5e12, 0);
    CHECK_NEAR(read("1.7976931348623157e308", PDL_UNIT_NONE), 1.7976931348623157e308, 0);
}

static void reads_units(void)
{
    CHECK_NEAR(read("64MiB", PDL_UNIT_BYTES), 67108864.0, 0);
    CHECK_NEAR(read("100KB", PDL_UNIT_BYTES), 100e3, 0);
    CHECK_NEAR(read("16GB", PDL_UNIT_BYTES), 16e9, 0);
    CHECK_NEAR(read("16 GB", PDL_UNIT_BYTES), 16e9, 0);
    CHECK_NEAR(read("1PiB", PDL_UNIT_BYTES), 1125899906842624.0, 0);
    CHECK_NEAR(read("4096", PDL_UNIT_BYTES), 4096, 0);
    CHECK_NEAR(read("4us", PDL_UNIT_SECONDS), 4e-6, 1e-15);
    CHECK_NEAR(read("1.5min", PDL_UNIT_SECONDS), 90, 0);
    CHECK_NEAR(read("2h", PDL_UNIT_SECONDS), 7200, 0);
    CHECK_NEAR(read("25GB/s", PDL_UNIT_BYTE_RATE), 25e9, 0);
    CHECK_NEAR(read("100Gb/s", PDL_UNIT_BYTE_RATE), 12.5e9, 0);
    CHECK_NEAR(read("100 Gbit/s", PDL_UNIT_BYTE_RATE), 12.5e9, 0);
    CHECK_NEAR(read("1GiB/s", PDL_UNIT_BYTE_RATE), 1073741824.0, 0);
    CHECK_NEAR(read("15.7TFLOP/s", PDL_UNIT_FLOP_RATE), 15.7e12, 1e-15);
    CHECK_NEAR(read("1EFLOPS", PDL_UNIT_FLOP_RATE), 1e18, 0);
    CHECK_NEAR(read("1.2kW", PDL_UNIT_WATT), 1200, 0);
}

static void refuses_what_is_not_a_quantity(void)
{
    static const char *const wrong[] = {
        "",    " ",    "x",    "nan",   "NaN", "inf", "infinity", "1e999", "-1",    "-0",    "+1",  " 1",
        "1 ",  "1  k", "0x10", "0x1p3", "1e",  "1e+", ".",        "e5",    "1,5",   "1_000", "1kk", "1 k k",
        "1\n", "1\tk", "1..2", "1.2.3", "--1", "1/0", "1e308k",   "12abc", "1KiBB", "k",     "1K",  "1%",
    };
    size_t i;
    int    unit;

    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        for (unit = PDL_UNIT_NONE; unit <= PDL_UNIT_WATT; unit++) {
            double value = 7;

            CHECK_ERROR(pdl_parse_quantity(wrong[i], (pdl_unit_t)unit, &value), "expected");
            CHECK_NEAR(value, 7, 0);
        }
    }
}

static void refuses_the_unit_of_something_else(void)
{
    double value;

    CHECK_ERROR(pdl_parse_quantity("4us", PDL_UNIT_BYTES, &value),
                "expected a size such as 64MiB or 16GB, found \"4us\"");
    CHECK_ERROR(pdl_parse_quantity("64MiB", PDL_UNIT_BYTE_RATE, &value), "25GB/s");
    CHECK_ERROR(pdl_parse_quantity("64mib", PDL_UNIT_BYTES, &value), "64MiB");
    CHECK_ERROR(pdl_parse_quantity("1e308TB", PDL_UNIT_BYTES, &value), "too large");
    CHECK_ERROR(pdl_parse_quantity("-3GB", PDL_UNIT_BYTES, &value), "not below zero");
}

static int64_t read_int(const char *text)
{
    int64_t value = -77;

    CHECK_OK(pdl_parse_int(text, INT64_MIN, INT64_MAX, &value));
    return value;
}

static void reads_whole_numbers(void)
{
    CHECK_INT(read_int("0"), 0);
    CHECK_INT(read_int("007"), 7);
    CHECK_INT(read_int("64k"), 64000);
    CHECK_INT(read_int("3G"), 3000000000LL);
    CHECK_INT(read_int("-12"), -12);
    CHECK_INT(read_int("-2k"), -2000);
    CHECK_INT(read_int("9223372036854775807"), INT64_MAX);
    CHECK_INT(read_int("-9223372036854775808"), INT64_MIN);
}

static void refuses_what_is_not_a_whole_number(void)
{
    static const char *const wrong[] = {"",
                                        "x",
                                        "1.0",
                                        "1e3",
                                        "+1",
                                        " 1",
                                        "1 ",
                                        "0x10",
                                        "9223372036854775808",
                                        "-",
                                        "k",
                                        "1kk",
                                        "--1",
                                        "1K",
                                        "1T",
                                        "1B",
                                        "nan",
                                        "-9223372036854775809",
                                        "9223372036854776k",
                                        "99999999999999999999999",
                                        "9223372037G"};
    int64_t                  value = 7;
    size_t                   i;

    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        CHECK_ERROR(pdl_parse_int(wrong[i], INT64_MIN, INT64_MAX, &value), "expected a whole number");
    }
    CHECK_INT(value, 7);
}

static void keeps_whole_numbers_in_range(void)
{
    int64_t value = 7;

    CHECK_ERROR(pdl_parse_int("0", 1, 64, &value), "expected a whole number from 1 to 64, found \"0\"");
    CHECK_ERROR(pdl_parse_int("65", 1, 64, &value), "from 1 to 64");
    CHECK_ERROR(pdl_parse_int("-1", 0, INT64_MAX, &value), "at least 0");
    CHECK_INT(value, 7);
    CHECK_OK(pdl_parse_int("1", 1, 64, &value));
    CHECK_OK(pdl_parse_int("64", 1, 64, &value));
    CHECK_INT(value, 64);
}

static void writes_seconds(void)
{
    char b[PDL_FORMAT_SIZE];

    CHECK_STR(pdl_format_seconds(0.271, b), "271 ms");
    CHECK_STR(pdl_format_seconds(10.6, b), "10.6 s");
    CHECK_STR(pdl_format_seconds_like(1.05, 0.87, b), "1050");
    CHECK_STR(pdl_format_seconds_like(0.718, 0.87, b), "718");
    CHECK_STR(pdl_format_seconds_like(0.44, 10.6, b), "0.44");
    CHECK_STR(pdl_format_seconds(4e-6, b), "4.00 us");
    CHECK_STR(pdl_format_seconds(999.7e-6, b), "1.00 ms");
    CHECK_STR(pdl_format_seconds(999.4e-6, b), "999 us");
    CHECK_STR(pdl_format_seconds(99.96e-3, b), "100 ms");
    CHECK_STR(pdl_format_seconds(0, b), "0 s");
    CHECK_STR(pdl_format_seconds(119, b), "119 s");
    CHECK_STR(pdl_format_seconds(150, b), "2.50 min");
    CHECK_STR(pdl_format_seconds(3 * 3600, b), "3.00 h");
    CHECK_STR(pdl_format_seconds(86400 * 12.5, b), "12.5 days");
    CHECK_STR(pdl_format_seconds(-0.005, b), "-5.00 ms");
    CHECK_STR(pdl_format_seconds(1e-15, b), "1e-06 ns");
    CHECK_STR(pdl_format_seconds(1e300, b), "1.16e+295 days");
    CHECK_STR(pdl_format_seconds(INFINITY, b), "inf");
    CHECK_STR(pdl_format_seconds(NAN, b), "nan");
}

static void writes_sizes_and_rates(void)
{
    char b[PDL_FORMAT_SIZE];

    CHECK_STR(pdl_format_bytes(14.1 * 1073741824.0, b), "14.1 GiB");
    CHECK_STR(pdl_format_bytes(512, b), "512 B");
    CHECK_STR(pdl_format_bytes(1, b), "1 B");
    CHECK_STR(pdl_format_bytes(0, b), "0 B");
    CHECK_STR(pdl_format_bytes(1023, b), "1023 B");
    CHECK_STR(pdl_format_bytes(1024, b), "1.00 KiB");
    CHECK_STR(pdl_format_bytes(1023.7 * 1024, b), "1.00 MiB");
    CHECK_STR(pdl_format_bytes(-2048, b), "-2.00 KiB");
    CHECK_STR(pdl_format_byte_rate(12.5e9, b), "12.5 GB/s");
    CHECK_STR(pdl_format_byte_rate(999.9e6, b), "1.00 GB/s");
    CHECK_STR(pdl_format_flop_rate(15.7e12, b), "15.7 TFLOP/s");
    CHECK_STR(pdl_format_flop_rate(1e18, b), "1.00 EFLOP/s");
}

static void writes_counts(void)
{
    char b[PDL_FORMAT_SIZE];

    CHECK_STR(pdl_format_count(1281167, b), "1,281,167");
    CHECK_STR(pdl_format_count(0, b), "0");
    CHECK_STR(pdl_format_count(999, b), "999");
    CHECK_STR(pdl_format_count(1000, b), "1,000");
    CHECK_STR(pdl_format_count(-12345, b), "-12,345");
    CHECK_STR(pdl_format_count(INT64_MAX, b), "9,223,372,036,854,775,807");
    CHECK_STR(pdl_format_count(INT64_MIN, b), "-9,223,372,036,854,775,808");
    CHECK_STR(pdl_format_short(25.6e6, b), "25.6 M");
    CHECK_STR(pdl_format_short(4.09e9, b), "4.09 G");
    CHECK_STR(pdl_format_short(64, b), "64");
    CHECK_STR(pdl_format_short(0.125, b), "0.12");
    CHECK_STR(pdl_format_short(999.96, b), "1.00 k");
    CHECK_STR(pdl_format_short(175e9, b), "175 G");
}

/* The locales that write a comma; a machine may have none of them. */
static void ignores_the_locale(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR"};
    char                     b[PDL_FORMAT_SIZE];
    size_t                   i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (setlocale(LC_ALL, names[i]) != NULL) break;
    }
    CHECK_NEAR(read("1.5GB", PDL_UNIT_BYTES), 1.5e9, 0);
    CHECK_STR(pdl_format_seconds(1.5, b), "1.50 s");
    setlocale(LC_ALL, "C");
}

int main(void)
{
    RUN(reads_plain_numbers);
    RUN(reads_units);
    RUN(refuses_what_is_not_a_quantity);
    RUN(refuses_the_unit_of_something_else);
    RUN(reads_whole_numbers);
    RUN(refuses_what_is_not_a_whole_number);
    RUN(keeps_whole_numbers_in_range);
    RUN(writes_seconds);
    RUN(writes_sizes_and_rates);
    RUN(writes_counts);
    RUN(ignores_the_locale);
    return test_done();
}
