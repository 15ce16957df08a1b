/*
 * Linked into every plugin: errors become those of the library that has loaded it.
 */
#include "base/plugin.h"

#include <stdarg.h>
#include <stdio.h>

static pdl__report_t report_to;

void pdl__plugin_connect(pdl__report_t report)
{
    report_to = report;
}

pdl_status_t pdl_error(pdl_status_t status, const char *format, ...)
{
    char    text[2048];
    va_list args;

    va_start(args, format);
    if (vsnprintf(text, sizeof(text), format, args) < 0) text[0] = '\0';
    va_end(args);
    return report_to(status, "%s", text);
}
