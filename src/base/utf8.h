/*
 * Internal to base.
 */
#ifndef PDL_BASE_UTF8_H
#define PDL_BASE_UTF8_H

/* The length of the well-formed UTF-8 sequence at `text`, or 0. Nothing behind a byte that ends it is read. */
int pdl__utf8_length(const unsigned char *text);

#endif
