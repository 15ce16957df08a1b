/*
 * Numbers with units, in and out. Inside the program everything is in bytes, seconds, bytes per second and
 * FLOP per second; people write "64MiB", "25GB/s", "4us", "15.7TFLOP/s".
 */
#ifndef PARADL_UNITS_H
#define PARADL_UNITS_H

#include <paradl/base/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pdl_unit {
    PDL_UNIT_NONE,      /* plain number; k, M, G, T are decimal multipliers */
    PDL_UNIT_BYTES,     /* B kB MB GB TB PB, KiB MiB GiB TiB PiB; a bare number is bytes */
    PDL_UNIT_SECONDS,   /* ns us ms s min h; a bare number is seconds */
    PDL_UNIT_BYTE_RATE, /* kB/s MB/s GB/s TB/s, and Gb/s for bits; a bare number is bytes per second */
    PDL_UNIT_FLOP_RATE, /* GFLOP/s TFLOP/s PFLOP/s (also GFLOPS ...); a bare number is FLOP per second */
    PDL_UNIT_WATT       /* W kW MW */
} pdl_unit_t;

/* Parses the whole of `text`; a finite value >= 0 is required. On failure the message says what was expected
   but not where: callers with a place use pdl_yaml_number() or prefix their option's name. */
pdl_status_t pdl_parse_quantity(const char *text, pdl_unit_t unit, double *value);

/* Parses a whole decimal integer in [min, max]; accepts k, M, G as decimal multipliers ("64k"). */
pdl_status_t pdl_parse_int(const char *text, int64_t min, int64_t max, int64_t *value);

/* Writes a readable form into `buffer` and returns it: 271 ms, 14.1 GiB, 12.5 GB/s, 1,281,167, 25.6 M. */
#define PDL_FORMAT_SIZE 32
char *pdl_format_seconds(double seconds, char buffer[PDL_FORMAT_SIZE]);
/* The number alone, in the unit in which `like` is printed. */
char *pdl_format_seconds_like(double seconds, double like, char buffer[PDL_FORMAT_SIZE]);
char *pdl_format_bytes(double bytes, char buffer[PDL_FORMAT_SIZE]);
char *pdl_format_byte_rate(double bytes_per_s, char buffer[PDL_FORMAT_SIZE]);
char *pdl_format_flop_rate(double flop_per_s, char buffer[PDL_FORMAT_SIZE]);
char *pdl_format_count(int64_t count, char buffer[PDL_FORMAT_SIZE]); /* thousands separated by commas */
char *pdl_format_short(double number, char buffer[PDL_FORMAT_SIZE]); /* three digits and k, M, G, T */

#ifdef __cplusplus
}
#endif
#endif
