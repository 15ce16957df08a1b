#include "base/number.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;
static locale_t       c_locale;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
}

/* Switches this thread to the C locale and returns what uselocale() needs to switch back. Should the locale
   be missing, which takes an exhausted memory, uselocale(0) changes nothing. */
static locale_t enter_c_locale(void)
{
    pthread_once(&c_locale_once, make_c_locale);
    return uselocale(c_locale);
}

static const char *skip_digits(const char *text)
{
    while (*text >= '0' && *text <= '9') text++;
    return text;
}

/* The end of the decimal number at `text`, or NULL. Done by hand because strtod() also takes blanks, "inf",
   "nan" and hexadecimal. */
static const char *number_end(const char *text, bool sign)
{
    const char *digits = sign && (*text == '-' || *text == '+') ? text + 1 : text;
    const char *end = skip_digits(digits);
    size_t      count = (size_t)(end - digits);

    if (*end == '.') {
        const char *fraction = end + 1;

        end = skip_digits(fraction);
        count += (size_t)(end - fraction);
    }
    if (count == 0) return NULL;
    if (*end == 'e' || *end == 'E') {
        const char *exponent = end + 1;

        if (*exponent == '+' || *exponent == '-') exponent++;
        if (skip_digits(exponent) != exponent) end = skip_digits(exponent);
    }
    return end;
}

bool pdl__number_scan(const char *text, bool sign, const char **end, double *value)
{
    const char *expected = number_end(text, sign);
    locale_t    previous;
    char       *stop;
    double      number;

    if (expected == NULL) return false;
    previous = enter_c_locale();
    number = strtod(text, &stop);
    uselocale(previous);
    if (stop != expected || !isfinite(number)) return false;
    *end = stop;
    *value = number;
    return true;
}

int pdl__number_print(char *buffer, size_t size, const char *format, int precision, double value)
{
    locale_t previous = enter_c_locale();
    int      length;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    length = snprintf(buffer, size, format, precision, value);
#pragma GCC diagnostic pop
    uselocale(previous);
    return length;
}
