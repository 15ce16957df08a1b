/*
 * Assertions for tests. A failed CHECK prints both values and the test goes on; the program fails at the end. A failed
 * REQUIRE ends the program: for what the rest of the test stands on, an object that was to be made say.
 *
 *     static void reads_units(void)
 *     {
 *         double value;
 *
 *         CHECK_OK(pdl_parse_quantity("64MiB", PDL_UNIT_BYTES, &value));
 *         CHECK_NEAR(value, 67108864.0, 0);
 *     }
 *
 *     int main(void)
 *     {
 *         RUN(reads_units);
 *         return test_done();
 *     }
 *
 * Also defined for every test: PDL_TEST_SOURCE, the root of the source tree, as a string.
 */
#ifndef PDL_TEST_H
#define PDL_TEST_H

#include <paradl/base/status.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int test_failures;
static int test_count;

__attribute__((unused)) static void test_fail_at(const char *file, int line)
{
    test_failures++;
    printf("%s:%d: ", file, line);
}

__attribute__((unused)) static void test_int(const char *file, int line, const char *what, long long a, long long b)
{
    if (a == b) return;
    test_fail_at(file, line);
    printf("%s is %lld, expected %lld\n", what, a, b);
}

__attribute__((unused)) static void test_str(const char *file, int line, const char *what, const char *a,
                                             const char *b)
{
    if (a != NULL && b != NULL ? strcmp(a, b) == 0 : a == b) return;
    test_fail_at(file, line);
    printf("%s is \"%s\", expected \"%s\"\n", what, a != NULL ? a : "(null)", b != NULL ? b : "(null)");
}

/* `rel` is relative to the expected value `b`; 0 asks for equality. NaN equals nothing. */
__attribute__((unused)) static void test_near(const char *file, int line, const char *what, double a, double b,
                                              double rel)
{
    if (a == b || fabs(a - b) <= rel * fabs(b)) return;
    test_fail_at(file, line);
    printf("%s is %.17g, expected %.17g within %g\n", what, a, b, rel);
}

__attribute__((unused)) static void test_ok(const char *file, int line, const char *what, pdl_status_t status)
{
    if (status == PDL_OK) return;
    test_fail_at(file, line);
    printf("%s failed (%s): %s\n", what, pdl_status_text(status), pdl_error_message());
}

__attribute__((unused)) static void test_error(const char *file, int line, const char *what, pdl_status_t status,
                                               const char *part)
{
    if (status != PDL_OK && strstr(pdl_error_message(), part) != NULL) return;
    test_fail_at(file, line);
    if (status == PDL_OK) {
        printf("%s succeeded, expected an error with \"%s\"\n", what, part);
    } else {
        printf("%s says \"%s\", expected \"%s\" in it\n", what, pdl_error_message(), part);
    }
}

/* Status of a program that tried nothing: ctest calls it skipped, not passed. */
#define TEST_SKIPPED 77

#define CHECK(condition)                              \
    do {                                              \
        if (!(condition)) {                           \
            test_fail_at(__FILE__, __LINE__);         \
            printf("%s does not hold\n", #condition); \
        }                                             \
    } while (0)
#define CHECK_INT(a, b)           test_int(__FILE__, __LINE__, #a, (long long)(a), (long long)(b))
#define CHECK_STR(a, b)           test_str(__FILE__, __LINE__, #a, (a), (b))
#define CHECK_NEAR(a, b, rel)     test_near(__FILE__, __LINE__, #a, (a), (b), (rel))
#define CHECK_OK(status)          test_ok(__FILE__, __LINE__, #status, (status))
#define CHECK_ERROR(status, part) test_error(__FILE__, __LINE__, #status, (status), (part))

#define REQUIRE(condition)                            \
    do {                                              \
        if (!(condition)) {                           \
            test_fail_at(__FILE__, __LINE__);         \
            printf("%s does not hold\n", #condition); \
            exit(1);                                  \
        }                                             \
    } while (0)
#define REQUIRE_OK(status)                          \
    do {                                            \
        int failed_before = test_failures;          \
        CHECK_OK(status);                           \
        if (test_failures > failed_before) exit(1); \
    } while (0)

/* Runs one test function; its name says what is shown. */
#define RUN(function)                                                            \
    do {                                                                         \
        int before = test_failures;                                              \
        function();                                                              \
        test_count++;                                                            \
        printf("%s %s\n", test_failures == before ? "ok  " : "FAIL", #function); \
        fflush(stdout);                                                          \
    } while (0)

/* Prints the sum and gives the exit status of the program. */
__attribute__((unused)) static int test_done(void)
{
    printf("%d tests, %d failed checks\n", test_count, test_failures);
    return test_failures == 0 && test_count > 0 ? 0 : 1;
}

#endif
