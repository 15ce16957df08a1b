/*
 * Which paradl this is.
 */
#ifndef PARADL_VERSION_H
#define PARADL_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

const char *pdl_version(void); /* "0.1.0" */

#ifdef __cplusplus
}
#endif
#endif
