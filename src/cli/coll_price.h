/*
 * paradl coll price.
 */
#ifndef PDL_CLI_COLL_PRICE_H
#define PDL_CLI_COLL_PRICE_H

#include "cli/options.h"

typedef struct pdl__coll_price {
    const char *system, *devices, *bytes, *parameters;
    int         collective;
    bool        json;
} pdl__coll_price_t;

extern const pdl__option_t pdl__coll_price_options[];
pdl_status_t               pdl__coll_price(const void *values, const pdl__operands_t *operands);

#endif
