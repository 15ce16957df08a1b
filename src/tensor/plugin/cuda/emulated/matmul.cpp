/*
 * Products by plain loops, in double precision, for the emulated GPU.
 */
#include "tensor/plugin/cuda/matmul/matmul.h"
#include "tensor/plugin/cuda/kernel.h"

#include <stdlib.h>

struct pdl__cuda_matmul {
    pdl__gpu_t             *gpu;
    pdl__cuda_matmul_spec_t spec;
};

namespace
{

pdl_status_t create(pdl__gpu_t *gpu, const pdl__cuda_matmul_spec_t *spec, pdl__cuda_matmul_t **matmul)
{
    pdl__cuda_matmul_t *m = (pdl__cuda_matmul_t *)malloc(sizeof(*m));

    if (m == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    *m = {gpu, *spec};
    *matmul = m;
    return PDL_OK;
}

void destroy(pdl__cuda_matmul_t *matmul)
{
    free(matmul);
}

template <typename T, typename D> void multiply(const pdl__cuda_matmul_spec_t &s, const pdl__cuda_matmul_run_t &run)
{
    const T *a = (const T *)run.a, *b = (const T *)run.b;
    const D *c = (const D *)run.c;

    int64_t a_row = s.a_row > 0 ? s.a_row : s.a_turned ? s.m : s.k;

    for (int64_t i = 0; i < s.m; i++)
        for (int64_t j = 0; j < s.n; j++) {
            double sum = 0;

            for (int64_t k = 0; k < s.k; k++)
                sum += (double)(float)a[s.a_turned ? k * a_row + i : i * a_row + k] *
                       (double)(float)b[s.b_turned ? j * s.k + k : k * s.n + j];
            if (c != NULL) sum += (double)(float)c[i * s.n + j];
            ((D *)run.d)[i * s.n + j] = D((float)sum);
        }
}

pdl_status_t run(pdl__cuda_matmul_t *matmul, pdl_tensor_stream_t *stream, const pdl__cuda_matmul_run_t *run)
{
    const pdl__cuda_matmul_spec_t s = matmul->spec;
    const pdl__cuda_matmul_run_t  now = *run;
    pdl_status_t                  status = pdl__emulated_give(stream, [=] {
        if (s.type == PDL_DTYPE_F32)
            multiply<float, float>(s, now);
        else if (s.out == PDL_DTYPE_F32)
            multiply<pdl_bf16, float>(s, now);
        else
            multiply<pdl_bf16, pdl_bf16>(s, now);
        return PDL_OK;
    });

    if (status || (!s.bias && s.activation == PDL_NO_ACTIVATION)) return status;
    return pdl__cuda_finish_product(matmul->gpu, stream, &s, run->d, s.bias ? run->bias : NULL,
                                    s.keeps_before ? run->before : NULL);
}

} // namespace

extern "C" const pdl__cuda_products_t pdl__cuda_products = {create, destroy, run, pdl__cuda_sum_columns,
                                                            pdl__cuda_slope_columns};
