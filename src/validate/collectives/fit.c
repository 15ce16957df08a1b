/*
 * Times are linear in the values of a fabric, so that the best ones follow from normal equations. A value that would be negative is 0:
 * of all sets of values that may be positive, the best one is taken.
 */
#include "validate/collectives/collectives.h"

#include <math.h>
#include <string.h>

enum { TERMS = PDL_FABRIC_TERMS };

typedef struct normal {
    double matrix[TERMS][TERMS], right[TERMS];
    int    rows;
} normal_t;

/* Each row counts by its relative error. */
static void add_row(normal_t *n, const double term[TERMS], double measured_s)
{
    for (int i = 0; i < TERMS; i++) {
        for (int j = 0; j < TERMS; j++) n->matrix[i][j] += term[i] * term[j] / (measured_s * measured_s);
        n->right[i] += term[i] / measured_s;
    }
    n->rows++;
}

/* Solves for the terms of a set, the others 0, by elimination; false where they cannot be told apart or one is negative. */
static bool solve(const normal_t *n, unsigned set, double value[TERMS])
{
    double a[TERMS][TERMS + 1] = {{0}};
    int    at[TERMS], count = 0;

    for (int i = 0; i < TERMS; i++)
        if (set >> i & 1) at[count++] = i;
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < count; j++) a[i][j] = n->matrix[at[i]][at[j]];
        a[i][count] = n->right[at[i]];
    }
    memset(value, 0, TERMS * sizeof(*value));
    for (int i = 0; i < count; i++) {
        double before = n->matrix[at[i]][at[i]];

        if (!(a[i][i] > 1e-9 * before)) return false; /* the matrix is positive: no exchange of rows */
        for (int k = i + 1; k < count; k++) {
            double factor = a[k][i] / a[i][i];
            for (int j = i; j <= count; j++) a[k][j] -= factor * a[i][j];
        }
    }
    for (int i = count - 1; i >= 0; i--) {
        double sum = a[i][count];
        for (int j = i + 1; j < count; j++) sum -= a[i][j] * value[at[j]];
        value[at[i]] = sum / a[i][i];
        if (value[at[i]] < 0) return false;
    }
    return true;
}

/* The sum of squares, less its constant part. */
static double loss(const normal_t *n, const double value[TERMS])
{
    double sum = 0;

    for (int i = 0; i < TERMS; i++) {
        sum -= 2 * value[i] * n->right[i];
        for (int j = 0; j < TERMS; j++) sum += value[i] * value[j] * n->matrix[i][j];
    }
    return sum;
}

bool pdl__fit_fabric(const pdl_collective_row_t *row, size_t count, const char *like, int without,
                     pdl_fabric_t *fabric)
{
    normal_t n = {.rows = 0};
    double   value[TERMS], best = INFINITY;
    int      first = 0;
    bool     several = false;

    for (size_t i = 0; i < count; i++) {
        pdl_fabric_use_t use = {row[i].devices, 1, 1, 2};
        double           term[TERMS];

        if (strcmp(row[i].accelerator, like) != 0 || row[i].devices == without) continue;
        several = several || (first > 0 && row[i].devices != first);
        first = row[i].devices;
        pdl_fabric_terms(fabric, &use, row[i].bytes, term);
        add_row(&n, term, row[i].measured_s);
    }
    if (n.rows < TERMS || !several) return false;
    for (unsigned set = 1; set < 1u << TERMS; set++) {
        if (!solve(&n, set, value) || loss(&n, value) >= best) continue;
        best = loss(&n, value);
        memcpy(fabric->value, value, sizeof(value));
    }
    return true;
}
