/*
 * What all backends share.
 */
#include <paradl/tensor/backend.h>

size_t pdl_dtype_bytes(pdl_dtype_t type)
{
    switch (type) {
    case PDL_DTYPE_F32:
    case PDL_DTYPE_I32: return 4;
    case PDL_DTYPE_BF16: return 2;
    case PDL_DTYPE_F64: return 8;
    }
    return 0;
}

void pdl_backend_destroy(pdl_backend_t *backend)
{
    if (backend != NULL) backend->ops->destroy(backend);
}
