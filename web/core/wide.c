/*
 * Sizes of 64 bits for a C library that has 32: see wide.h, whose names are taken back here.
 */
#undef malloc
#undef calloc
#undef realloc
#undef vfprintf
#undef vsnprintf

/* Memory that the page cannot have; the browser may allow less, and then malloc() says so. */
#define MOST_BYTES ((uint64_t)1 << 31)
#define LONGEST    2048 /* of a format; ours fit a few lines */

void *pdl__wide_malloc(uint64_t bytes)
{
    return bytes < MOST_BYTES ? malloc((uint32_t)bytes) : NULL;
}

void *pdl__wide_calloc(uint64_t count, uint64_t bytes)
{
    if (bytes != 0 && count >= MOST_BYTES / bytes) return NULL;
    return calloc((uint32_t)count, (uint32_t)bytes);
}

void *pdl__wide_realloc(void *memory, uint64_t bytes)
{
    return bytes < MOST_BYTES ? realloc(memory, (uint32_t)bytes) : NULL;
}

/* Halves are sorted, then merged through a copy. Where memory is out, nothing is sorted; the caller will meet that too. */
void pdl__stable_sort(void *list, uint64_t count, uint64_t bytes, int (*compare)(const void *, const void *))
{
    uint64_t half = count / 2;
    char    *left, *right = (char *)list + half * bytes, *to = list;
    char    *end = (char *)list + count * bytes, *copy, *left_end;

    if (count < 2) return;
    pdl__stable_sort(list, half, bytes, compare);
    pdl__stable_sort(right, count - half, bytes, compare);
    left = copy = malloc((uint32_t)(half * bytes));
    if (copy == NULL) return;
    left_end = copy + half * bytes;
    memcpy(copy, list, half * bytes);
    while (left < left_end) {
        bool first = right == end || compare(left, right) <= 0;

        memcpy(to, first ? left : right, bytes);
        *(first ? &left : &right) += bytes;
        to += bytes;
    }
    free(copy);
}

/* "%zu" becomes "%llu"; a z that is no length of a conversion stays. */
static const char *widen(const char *format, char text[LONGEST])
{
    char *to = text;

    while (*format != '\0' && to < text + LONGEST - 3) {
        bool percent = *format == '%';

        *to++ = *format++;
        if (!percent) continue;
        if (*format == '%') {
            *to++ = *format++;
            continue;
        }
        while (*format != '\0' && strchr("-+ #0123456789.*", *format) != NULL && to < text + LONGEST - 3)
            *to++ = *format++;
        if (*format != 'z') continue;
        *to++ = 'l';
        *to++ = 'l';
        format++;
    }
    *to = '\0';
    return text;
}

int pdl__wide_vfprintf(FILE *stream, const char *format, va_list arguments)
{
    char text[LONGEST];

    return vfprintf(stream, strchr(format, 'z') == NULL ? format : widen(format, text), arguments);
}

int pdl__wide_vsnprintf(char *text, uint64_t size, const char *format, va_list arguments)
{
    char wide[LONGEST];

    return vsnprintf(text, (uint32_t)size, strchr(format, 'z') == NULL ? format : widen(format, wide), arguments);
}

int pdl__wide_fprintf(FILE *stream, const char *format, ...)
{
    va_list arguments;
    int     length;

    va_start(arguments, format);
    length = pdl__wide_vfprintf(stream, format, arguments);
    va_end(arguments);
    return length;
}

int pdl__wide_printf(const char *format, ...)
{
    va_list arguments;
    int     length;

    va_start(arguments, format);
    length = pdl__wide_vfprintf(stdout, format, arguments);
    va_end(arguments);
    return length;
}

int pdl__wide_snprintf(char *text, uint64_t size, const char *format, ...)
{
    va_list arguments;
    int     length;

    va_start(arguments, format);
    length = pdl__wide_vsnprintf(text, size, format, arguments);
    va_end(arguments);
    return length;
}
