/*
 * Medians and quantiles of odd, even and empty lists.
 */
#include "test.h"

#include "base/sorted.h"

#include <math.h>

static void medians(void)
{
    double odd[] = {3, -1, 2}, even[] = {4, 1, 3, 2}, one[] = {7};

    CHECK(pdl__median(odd, 3) == 2);
    CHECK(odd[0] == -1 && odd[2] == 3);
    CHECK(pdl__median(even, 4) == 2.5);
    CHECK(pdl__median(one, 1) == 7);
    CHECK(isnan(pdl__median(NULL, 0)));
}

static void quantiles(void)
{
    double numbers[] = {10, 20, 30, 40, 50};

    CHECK(pdl__quantile(numbers, 5, 0) == 10);
    CHECK(pdl__quantile(numbers, 5, 1) == 50);
    CHECK(fabs(pdl__quantile(numbers, 5, 0.6) - 34) < 1e-12);
    CHECK(isnan(pdl__quantile(NULL, 0, 0.5)));
}

int main(void)
{
    RUN(medians);
    RUN(quantiles);
    return test_done();
}
