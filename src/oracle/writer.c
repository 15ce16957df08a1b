/*
 * Text that grows until its buffer is full.
 */
#include "oracle/writer.h"

#include <stdarg.h>
#include <stdio.h>

void pdl__say(pdl__writer_t *w, const char *format, ...)
{
    va_list arguments;

    if (w->used >= w->size) return;
    va_start(arguments, format);
    int written = vsnprintf(w->text + w->used, w->size - w->used, format, arguments);
    va_end(arguments);
    if (written > 0) w->used += (size_t)written;
}
