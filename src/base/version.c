/*
 * The version, as the build knows it.
 */
#include <paradl/base/version.h>

const char *pdl_version(void)
{
    return PDL_VERSION;
}
