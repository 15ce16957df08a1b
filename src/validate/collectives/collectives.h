/*
 * Fits of collectives inside a node.
 */
#ifndef PDL_VALIDATE_COLLECTIVES_H
#define PDL_VALIDATE_COLLECTIVES_H

#include <paradl/validate/collectives.h>

/* Values of the fabric that bring the allreduces closest to what was measured, none of them negative: least squares of
   relative errors, over the rows of one accelerator (that of `like`) but those with `without` devices. False: too few rows. */
bool pdl__fit_fabric(const pdl_collective_row_t *row, size_t count, const char *like, int without,
                     pdl_fabric_t *fabric);

#endif
