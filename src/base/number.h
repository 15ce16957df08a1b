/*
 * Decimal numbers whose text does not depend on the user's locale. Internal to base.
 */
#ifndef PDL_BASE_NUMBER_H
#define PDL_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

/* Reads digits[.digits][e[+-]digits] at the start of `text`, without leading blanks; a sign only if `sign`.
   False when there is no number or when it is not finite; *end is the first character after it. */
bool pdl__number_scan(const char *text, bool sign, const char **end, double *value);

/* snprintf of one double in the C locale. `format` holds a precision as '*' and one floating conversion. */
int pdl__number_print(char *buffer, size_t size, const char *format, int precision, double value);

#endif
