/*
 * Read before every file of the core, which has addresses of 32 bits: what the planner calls a size is mostly the size of
 * something on a far machine, and a tensor of 21 GB must not become one of 4.6 GB. So a size has 64 bits in our sources, as it
 * has on the machines that they are written for; only what is really allocated is checked against the memory of the page.
 */
#ifndef PDL_CORE_WIDE_H
#define PDL_CORE_WIDE_H

#include <dirent.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#define size_t uint64_t
#undef SIZE_MAX
#define SIZE_MAX      UINT64_MAX
#define atomic_size_t _Atomic uint64_t

void *pdl__wide_malloc(uint64_t bytes);
void *pdl__wide_calloc(uint64_t count, uint64_t bytes);
void *pdl__wide_realloc(void *memory, uint64_t bytes);
#define malloc  pdl__wide_malloc
#define calloc  pdl__wide_calloc
#define realloc pdl__wide_realloc

/* Equals stay in their order, as they do where the command runs. */
void pdl__stable_sort(void *list, uint64_t count, uint64_t bytes, int (*compare)(const void *, const void *));
#define qsort pdl__stable_sort

/* Formats say z of a size, which the C library takes for 32 bits. */
int pdl__wide_printf(const char *format, ...);
int pdl__wide_fprintf(FILE *stream, const char *format, ...);
int pdl__wide_vfprintf(FILE *stream, const char *format, va_list arguments);
int pdl__wide_snprintf(char *text, uint64_t size, const char *format, ...);
int pdl__wide_vsnprintf(char *text, uint64_t size, const char *format, va_list arguments);
#define printf    pdl__wide_printf
#define fprintf   pdl__wide_fprintf
#define vfprintf  pdl__wide_vfprintf
#define snprintf  pdl__wide_snprintf
#define vsnprintf pdl__wide_vsnprintf

#endif
