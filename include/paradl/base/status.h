/*
 * Status codes and the error message that goes with them.
 *
 * A function that can fail returns pdl_status_t: PDL_OK (0) or a negative code. The function that first
 * knows what went wrong calls pdl_error() with the cause it saw; callers pass the code up in silence. The
 * program prints the message once:
 *
 *     if (pdl_model_load("resnet50", &model) != PDL_OK) {
 *         fprintf(stderr, "paradl: %s\n", pdl_error_message());
 *         return 1;
 *     }
 */
#ifndef PARADL_STATUS_H
#define PARADL_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
#define PDL_STATUS_MAP(X)                                                                                      \
    X(OK, 0, "success")                                                                                        \
    X(ERR_NOMEM, -1, "out of memory")                                                                          \
    X(ERR_INPUT, -2, "wrong input")               /* a value, name or file content that cannot be used */      \
    X(ERR_IO, -3, "input or output failed")       /* the operating system refused */                           \
    X(ERR_LIMIT, -4, "not possible")              /* a well-formed request that the machine or model forbids */ \
    X(ERR_UNSUPPORTED, -5, "not supported")       /* this build or this version cannot do it */               \
    X(ERR_NOT_FINITE, -6, "not finite")           /* a computation came to infinity or to no number */
/* clang-format on */

typedef enum pdl_status {
#define PDL_STATUS_ENUM(name, value, text) PDL_##name = (value),
    PDL_STATUS_MAP(PDL_STATUS_ENUM)
#undef PDL_STATUS_ENUM
} pdl_status_t;

#if defined(__GNUC__) || defined(__clang__)
#define PDL_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define PDL_PRINTF(fmt, args)
#endif

/* The fixed text of a code, for example "wrong input". */
const char *pdl_status_text(pdl_status_t status);

/* The exit status of a program that ends with it: 2 for what can be mended by typing something else or by giving
   another file, 1 for what the system refused and for numbers that are not finite, 0 for PDL_OK. */
int pdl_status_exit(pdl_status_t status);

/* Records the message of this thread's latest failure and returns `status`, so that a failing function ends
   with `return pdl_error(PDL_ERR_INPUT, "...")`. Messages are one line, lower case, without a full stop. */
pdl_status_t pdl_error(pdl_status_t status, const char *format, ...) PDL_PRINTF(2, 3);

/* The message of this thread's latest failure; valid until the next one. Never NULL. */
const char *pdl_error_message(void);

#ifdef __cplusplus
}
#endif
#endif
