/*
 * Products by cuBLASLt, which is loaded when the first one is made. It sees matrices column by column: our d [m][n] is its
 * n x m, and b comes before a.
 */
#include "tensor/plugin/cuda/matmul/matmul.h"

#include "tensor/plugin/cuda/choices.h"
#include "tensor/plugin/cuda/gpu.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SONAME_OF(major) "libcublasLt.so." #major
#define SONAME(major)    SONAME_OF(major)

/* clang-format off */
#define FUNCTION_MAP(X)                                                                                        \
    X(Create) X(Destroy) X(GetVersion) X(GetStatusString) X(MatmulDescCreate) X(MatmulDescDestroy)  \
    X(MatmulDescSetAttribute) X(MatrixLayoutCreate) X(MatrixLayoutDestroy) X(MatmulPreferenceCreate)            \
    X(MatmulPreferenceDestroy) X(MatmulPreferenceSetAttribute) X(MatmulAlgoGetHeuristic) X(MatmulAlgoCheck) X(Matmul)
/* clang-format on */

typedef struct library {
    void            *file;
    cublasLtHandle_t handle;
#define FUNCTION_FIELD(name) __typeof__(&cublasLt##name) name;
    FUNCTION_MAP(FUNCTION_FIELD)
#undef FUNCTION_FIELD
} library_t;

/* An algorithm is for matrices at addresses that divide by 16, or at any. */
enum { ALIGNED, ANY, WAYS };

struct pdl__cuda_matmul {
    pdl__gpu_t             *gpu;
    const library_t        *lt;
    pdl__cuda_matmul_spec_t spec;
    bool                    finishes; /* bias and activation are a kernel of ours */
    size_t                  workspace_bytes;
    cublasLtMatmulDesc_t    product;
    cublasLtMatrixLayout_t  first, second, out;
    cublasLtMatmulAlgo_t    algorithm[WAYS];
};

typedef struct pdl__cuda_matmul matmul_t;

/* ---- the library ---- */

static void close_library(void *state)
{
    library_t *lt = state;

    if (lt->handle != NULL) (void)lt->Destroy(lt->handle);
    if (lt->file != NULL) dlclose(lt->file);
    free(lt);
}

static pdl_status_t load(library_t *lt)
{
    const char *name = SONAME(CUBLAS_VER_MAJOR);
    const char *missing = NULL;

    lt->file = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (lt->file == NULL)
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s is needed (%s); install CUDA %d's libcublas, or use --device cpu",
                         name, dlerror(), CUBLAS_VER_MAJOR);
#define FUNCTION_LOAD(name)                                          \
    *(void **)(void *)&lt->name = dlsym(lt->file, "cublasLt" #name); \
    if (lt->name == NULL) missing = "cublasLt" #name;
    FUNCTION_MAP(FUNCTION_LOAD)
#undef FUNCTION_LOAD
    if (missing != NULL) return pdl_error(PDL_ERR_UNSUPPORTED, "%s has no %s", name, missing);
    if (lt->Create(&lt->handle) != CUBLAS_STATUS_SUCCESS)
        return pdl_error(PDL_ERR_IO, "cuBLASLt cannot be started");
    return PDL_OK;
}

static pdl_status_t open_library(pdl__gpu_t *gpu, const library_t **library)
{
    library_t   *lt = gpu->part[PDL__GPU_PRODUCT].state;
    pdl_status_t status = PDL_OK;

    if (lt == NULL) {
        lt = calloc(1, sizeof(*lt));
        status = lt != NULL ? load(lt) : pdl_error(PDL_ERR_NOMEM, "out of memory");
        if (status != PDL_OK) {
            if (lt != NULL) close_library(lt);
            return status;
        }
        gpu->part[PDL__GPU_PRODUCT] = (pdl__gpu_part_t){lt, close_library};
    }
    *library = lt;
    return PDL_OK;
}

static pdl_status_t check(const matmul_t *m, cublasStatus_t error, const char *what)
{
    if (error == CUBLAS_STATUS_SUCCESS) return PDL_OK;
    return pdl_error(error == CUBLAS_STATUS_ALLOC_FAILED ? PDL_ERR_NOMEM : PDL_ERR_IO, "cuBLASLt: %s: %s", what,
                     m->lt->GetStatusString(error));
}

/* ---- descriptions ---- */

static cudaDataType_t type_of(pdl_dtype_t type)
{
    return type == PDL_DTYPE_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static cublasLtEpilogue_t epilogue_of(const pdl__cuda_matmul_spec_t *spec)
{
    if (spec->activation == PDL_LAYER_RELU)
        return spec->bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    if (spec->activation == PDL_LAYER_GELU_TANH && spec->keeps_before)
        return spec->bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    if (spec->activation == PDL_LAYER_GELU_TANH)
        return spec->bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    return spec->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

static cublasStatus_t set_product(const matmul_t *m, cublasLtMatmulDescAttributes_t what, const void *value,
                                  size_t bytes)
{
    return m->lt->MatmulDescSetAttribute(m->product, what, value, bytes);
}

static cublasStatus_t describe_product(matmul_t *m)
{
    const pdl__cuda_matmul_spec_t *spec = &m->spec;
    cublasOperation_t              first = spec->b_turned ? CUBLAS_OP_T : CUBLAS_OP_N,
                      second = spec->a_turned ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = m->finishes ? CUBLASLT_EPILOGUE_DEFAULT : epilogue_of(spec);
    cudaDataType_t     out = type_of(spec->out);
    int64_t            row = spec->n;
    cublasStatus_t     error = set_product(m, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof(first));

    if (!error) error = set_product(m, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof(second));
    if (!error) error = set_product(m, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue));
    if (!error && spec->bias && !m->finishes)
        error = set_product(m, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &out, sizeof(out));
    if (!error && spec->keeps_before && !m->finishes)
        error = set_product(m, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &row, sizeof(row));
    return error;
}

static cublasStatus_t describe_matrices(matmul_t *m)
{
    const pdl__cuda_matmul_spec_t *spec = &m->spec;
    cudaDataType_t                 type = type_of(spec->type);
    int64_t        b_rows = spec->b_turned ? spec->k : spec->n, a_rows = spec->a_turned ? spec->m : spec->k;
    cublasStatus_t error;

    error = m->lt->MatrixLayoutCreate(&m->first, type, (uint64_t)b_rows,
                                      (uint64_t)(spec->b_turned ? spec->n : spec->k), b_rows);
    if (!error)
        error = m->lt->MatrixLayoutCreate(&m->second, type, (uint64_t)a_rows,
                                          (uint64_t)(spec->a_turned ? spec->k : spec->m),
                                          spec->a_row > 0 ? spec->a_row : a_rows);
    if (!error)
        error =
            m->lt->MatrixLayoutCreate(&m->out, type_of(spec->out), (uint64_t)spec->n, (uint64_t)spec->m, spec->n);
    return error;
}

/* ---- algorithms ---- */

#define CANDIDATES 16

static cublasStatus_t set_preference(const matmul_t *m, cublasLtMatmulPreference_t preference, int way)
{
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                                                                      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                                                      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                                                                      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    /* Sums in place have no order: their bits differ from run to run. */
    uint32_t       schemes = CUBLASLT_REDUCTION_SCHEME_MASK & ~(uint32_t)CUBLASLT_REDUCTION_SCHEME_INPLACE;
    uint32_t       bytes[] = {(uint32_t)pdl__gpu_element(m->spec.type), (uint32_t)pdl__gpu_element(m->spec.out)};
    cublasStatus_t error = m->lt->MatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                               &m->workspace_bytes, sizeof(m->workspace_bytes));

    if (!error)
        error = m->lt->MatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                    &schemes, sizeof(schemes));
    for (int i = 0; !error && i < 4; i++) {
        uint32_t alignment = way == ALIGNED ? 16 : bytes[i / 2];

        error = m->lt->MatmulPreferenceSetAttribute(preference, alignments[i], &alignment, sizeof(alignment));
    }
    return error;
}

/* Nobody reads at these addresses yet: the library looks how they are aligned. */
static cublasStatus_t set_addresses(const matmul_t *m, int way)
{
    uintptr_t      address = way == ALIGNED ? 16 : pdl__gpu_element(m->spec.out);
    cublasStatus_t error = CUBLAS_STATUS_SUCCESS;

    if (m->spec.bias && !m->finishes)
        error = set_product(m, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &address, sizeof(address));
    if (!error && m->spec.keeps_before && !m->finishes)
        error = set_product(m, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &address, sizeof(address));
    return error;
}

/* What the library would try, best first; *count 0: nothing can do it. */
static pdl_status_t find_candidates(const matmul_t *m, int way, cublasLtMatmulHeuristicResult_t found[CANDIDATES],
                                    int *count)
{
    cublasLtMatmulPreference_t preference;
    cublasStatus_t             error = m->lt->MatmulPreferenceCreate(&preference);

    *count = 0;
    if (error) return check(m, error, "preference");
    error = set_preference(m, preference, way);
    if (!error) error = set_addresses(m, way);
    if (!error)
        error = m->lt->MatmulAlgoGetHeuristic(m->lt->handle, m->product, m->first, m->second, m->out, m->out,
                                              preference, CANDIDATES, found, count);
    (void)m->lt->MatmulPreferenceDestroy(preference);
    if (error == CUBLAS_STATUS_NOT_SUPPORTED) *count = 0;
    return error == CUBLAS_STATUS_NOT_SUPPORTED ? PDL_OK : check(m, error, "heuristics");
}

static cublasStatus_t multiply(const matmul_t *m, const cublasLtMatmulAlgo_t *algorithm,
                               pdl_tensor_stream_t *stream, const pdl__cuda_matmul_run_t *run)
{
    float          one = 1, beta = run->c != NULL ? 1 : 0;
    uintptr_t      beyond = (uintptr_t)run->workspace % PDL__MATMUL_ALIGNMENT;
    char          *workspace = (char *)run->workspace + (beyond > 0 ? PDL__MATMUL_ALIGNMENT - beyond : 0);
    cublasStatus_t error = CUBLAS_STATUS_SUCCESS;

    if (m->spec.bias && !m->finishes)
        error = set_product(m, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &run->bias, sizeof(run->bias));
    if (!error && m->spec.keeps_before && !m->finishes)
        error = set_product(m, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &run->before, sizeof(run->before));
    if (error) return error;
    return m->lt->Matmul(m->lt->handle, m->product, &one, run->b, m->first, run->a, m->second, &beta,
                         run->c != NULL ? run->c : run->d, m->out, run->d, m->out, algorithm, workspace,
                         m->workspace_bytes, PDL__CUDA_STREAM(stream));
}

/* ---- timing ---- */

#define WARM_UPS     2
#define TIMED_RUNS   6
#define HOPELESS     3   /* times the best so far: not looked at further */
#define WORTH_TIMING 1e6 /* operations; smaller products take the library's first */

/* Matrices to try algorithms on, as the product is run: what is added is read, too. */
enum { TRIAL_A, TRIAL_B, TRIAL_C, TRIAL_D, TRIAL_BIAS, TRIAL_BEFORE, TRIAL_WORKSPACE, TRIAL_PARTS };

typedef struct trial {
    matmul_t              *m;
    pdl_tensor_stream_t   *stream;
    pdl_tensor_event_t    *from, *to;
    void                  *memory[TRIAL_PARTS];
    pdl__cuda_matmul_run_t run;
} trial_t;

static void end_trial(trial_t *trial)
{
    const pdl__cuda_runtime_t *runtime = &pdl__cuda_runtime;
    pdl__gpu_t                *gpu = trial->m->gpu;

    if (trial->stream != NULL) (void)runtime->synchronise(gpu, trial->stream);
    for (int i = 0; i < TRIAL_PARTS; i++) runtime->release(gpu, PDL_SPACE_DEVICE, trial->memory[i]);
    if (trial->from != NULL) runtime->event_destroy(gpu, trial->from);
    if (trial->to != NULL) runtime->event_destroy(gpu, trial->to);
    if (trial->stream != NULL) runtime->stream_destroy(gpu, trial->stream);
}

static pdl_status_t begin_trial(matmul_t *m, trial_t *trial)
{
    const pdl__cuda_runtime_t     *runtime = &pdl__cuda_runtime;
    const pdl__cuda_matmul_spec_t *spec = &m->spec;
    int64_t      rows = spec->a_turned ? spec->k : spec->m, row = spec->a_turned ? spec->m : spec->k;
    int64_t      out = spec->m * spec->n;
    int64_t      elements[] = {[TRIAL_A] = rows * (spec->a_row > row ? spec->a_row : row),
                               [TRIAL_B] = spec->k * spec->n,
                               [TRIAL_C] = spec->adds ? out : 0,
                               [TRIAL_D] = out,
                               [TRIAL_BIAS] = spec->n,
                               [TRIAL_BEFORE] = spec->keeps_before ? out : 0};
    pdl_status_t status;

    *trial = (trial_t){.m = m};
    status = runtime->stream_create(m->gpu, &trial->stream);
    if (!status) status = runtime->event_create(m->gpu, &trial->from);
    if (!status) status = runtime->event_create(m->gpu, &trial->to);
    for (int i = 0; !status && i < TRIAL_WORKSPACE; i++) {
        pdl_dtype_t type = i <= TRIAL_B ? spec->type : spec->out;

        if (elements[i] == 0) continue;
        status = runtime->alloc(m->gpu, PDL_SPACE_DEVICE, (size_t)elements[i] * pdl__gpu_element(type),
                                &trial->memory[i]);
        if (!status) status = pdl__cuda_fill_random(m->gpu, trial->stream, type, trial->memory[i], elements[i]);
    }
    if (!status)
        status = runtime->alloc(m->gpu, PDL_SPACE_DEVICE, m->workspace_bytes, &trial->memory[TRIAL_WORKSPACE]);
    trial->run = (pdl__cuda_matmul_run_t){.a = trial->memory[TRIAL_A],
                                          .b = trial->memory[TRIAL_B],
                                          .c = trial->memory[TRIAL_C],
                                          .d = trial->memory[TRIAL_D],
                                          .bias = trial->memory[TRIAL_BIAS],
                                          .before = trial->memory[TRIAL_BEFORE],
                                          .workspace = trial->memory[TRIAL_WORKSPACE]};
    return status;
}

/* Seconds of `runs` runs; negative: it does not run. */
static double seconds_of(const trial_t *trial, const cublasLtMatmulAlgo_t *algorithm, int runs)
{
    const pdl__cuda_runtime_t *runtime = &pdl__cuda_runtime;
    pdl__gpu_t                *gpu = trial->m->gpu;
    pdl_status_t               status = runtime->record(gpu, trial->stream, trial->from);

    for (int i = 0; !status && i < runs; i++)
        if (multiply(trial->m, algorithm, trial->stream, &trial->run) != CUBLAS_STATUS_SUCCESS) return -1;
    if (!status) status = runtime->record(gpu, trial->stream, trial->to);
    if (!status) status = runtime->synchronise(gpu, trial->stream);
    return !status ? runtime->elapsed(gpu, trial->from, trial->to) : -1;
}

static int fastest(const trial_t *trial, const cublasLtMatmulHeuristicResult_t *found, int count)
{
    double best = -1;
    int    chosen = 0;

    for (int i = 0; i < count; i++) {
        double once, all;

        if (seconds_of(trial, &found[i].algo, WARM_UPS) < 0) continue;
        once = seconds_of(trial, &found[i].algo, 1);
        if (once < 0 || (best > 0 && once > HOPELESS * best)) continue;
        all = seconds_of(trial, &found[i].algo, TIMED_RUNS);
        if (all < 0 || (best > 0 && all / TIMED_RUNS >= best)) continue;
        best = all / TIMED_RUNS;
        chosen = i;
    }
    return chosen;
}

/* ---- choices ---- */

static void name_choice(const matmul_t *m, char *key, size_t size)
{
    const pdl__cuda_matmul_spec_t *spec = &m->spec;

    snprintf(key, size, "cublasLt %zu: %lld x %lld x %lld%s%s%s%s %s %s epilogue %d workspace %zu",
             m->lt->GetVersion(), (long long)spec->m, (long long)spec->n, (long long)spec->k,
             spec->a_turned ? " a turned" : "", spec->b_turned ? " b turned" : "",
             spec->a_row > (spec->a_turned ? spec->m : spec->k) ? " a padded" : "", spec->adds ? " adds" : "",
             spec->type == PDL_DTYPE_BF16 ? "bf16"
             : spec->tf32                 ? "tf32"
                                          : "fp32",
             spec->out == PDL_DTYPE_BF16 ? "bf16" : "fp32",
             (int)(m->finishes ? CUBLASLT_EPILOGUE_DEFAULT : epilogue_of(spec)), m->workspace_bytes);
}

/* An algorithm is 64 bytes that mean something to this version of the library only. */
static void write_algorithm(const cublasLtMatmulAlgo_t *algorithm, char text[2 * sizeof(*algorithm) + 1])
{
    for (size_t i = 0; i < sizeof(*algorithm); i++)
        snprintf(text + 2 * i, 3, "%02x", ((const unsigned char *)algorithm)[i]);
}

static bool read_algorithm(const matmul_t *m, const char *text, cublasLtMatmulAlgo_t *algorithm)
{
    cublasLtMatmulHeuristicResult_t result;

    if (text == NULL || strlen(text) != 2 * sizeof(*algorithm)) return false;
    for (size_t i = 0; i < sizeof(*algorithm); i++) {
        unsigned byte;

        if (sscanf(text + 2 * i, "%2x", &byte) != 1) return false;
        ((unsigned char *)algorithm)[i] = (unsigned char)byte;
    }
    return m->lt->MatmulAlgoCheck(m->lt->handle, m->product, m->first, m->second, m->out, m->out, algorithm,
                                  &result) == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= m->workspace_bytes;
}

/* The fastest of several, or what was chosen before. Where memory for a trial is missing the first one is taken. */
static pdl_status_t choose(matmul_t *m, const cublasLtMatmulHeuristicResult_t *found, int count)
{
    char            key[256], text[2 * sizeof(cublasLtMatmulAlgo_t) + 1];
    pdl__choices_t *choices = m->gpu->choices;
    trial_t         trial;
    pdl_status_t    status;

    m->algorithm[ALIGNED] = found[0].algo;
    if (count < 2 || 2.0 * (double)m->spec.m * (double)m->spec.n * (double)m->spec.k < WORTH_TIMING) return PDL_OK;
    name_choice(m, key, sizeof(key));
    if (read_algorithm(m, pdl__choices_find(choices, key), &m->algorithm[ALIGNED])) return PDL_OK;
    status = begin_trial(m, &trial);
    if (status == PDL_OK) {
        m->algorithm[ALIGNED] = found[fastest(&trial, found, count)].algo;
        write_algorithm(&m->algorithm[ALIGNED], text);
        status = pdl__choices_add(choices, key, text);
    }
    end_trial(&trial);
    return status == PDL_ERR_NOMEM ? PDL_OK : status;
}

/* ---- the table ---- */

static void destroy(matmul_t *m)
{
    if (m == NULL) return;
    if (m->out != NULL) (void)m->lt->MatrixLayoutDestroy(m->out);
    if (m->second != NULL) (void)m->lt->MatrixLayoutDestroy(m->second);
    if (m->first != NULL) (void)m->lt->MatrixLayoutDestroy(m->first);
    if (m->product != NULL) (void)m->lt->MatmulDescDestroy(m->product);
    free(m);
}

/* Algorithms for both alignments; *possible: there are any. */
static pdl_status_t find_algorithms(matmul_t *m, bool *possible)
{
    cublasLtMatmulHeuristicResult_t found[WAYS][CANDIDATES];
    int                             count[WAYS] = {0, 0};
    pdl_status_t                    status = check(m, describe_product(m), "description");

    /* Aligned last: what was chosen before is checked with the addresses that are set then. */
    for (int way = WAYS - 1; !status && way >= 0; way--) status = find_candidates(m, way, found[way], &count[way]);
    *possible = count[ANY] > 0;
    if (status != PDL_OK || !*possible) return status;
    m->algorithm[ANY] = found[ANY][0].algo;
    if (count[ALIGNED] > 0) return choose(m, found[ALIGNED], count[ALIGNED]);
    m->algorithm[ALIGNED] = m->algorithm[ANY];
    return PDL_OK;
}

static cublasComputeType_t compute_type(const pdl__cuda_matmul_spec_t *spec)
{
    return spec->tf32 && spec->type == PDL_DTYPE_F32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

static pdl_status_t create(pdl__gpu_t *gpu, const pdl__cuda_matmul_spec_t *spec, matmul_t **matmul)
{
    matmul_t    *m = calloc(1, sizeof(*m));
    bool         possible = false;
    pdl_status_t status;

    if (m == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    m->gpu = gpu;
    m->spec = *spec;
    m->workspace_bytes = pdl__cuda_matmul_sums(spec->m, spec->n);
    status = open_library(gpu, &m->lt);
    if (!status)
        status = check(m, m->lt->MatmulDescCreate(&m->product, compute_type(spec), CUDA_R_32F), "description");
    if (!status) status = check(m, describe_matrices(m), "matrices");
    if (!status) status = find_algorithms(m, &possible);
    if (!status && !possible && epilogue_of(spec) != CUBLASLT_EPILOGUE_DEFAULT) {
        m->finishes = true;
        status = find_algorithms(m, &possible);
    }
    if (!status && !possible)
        status = pdl_error(PDL_ERR_UNSUPPORTED, "cuBLASLt has no product of %lld x %lld x %lld", (long long)spec->m,
                           (long long)spec->n, (long long)spec->k);
    if (status != PDL_OK) {
        if (m->lt != NULL)
            destroy(m);
        else
            free(m);
        return status;
    }
    *matmul = m;
    return PDL_OK;
}

static bool is_aligned(const void *address)
{
    return (uintptr_t)address % 16 == 0;
}

static pdl_status_t run(matmul_t *m, pdl_tensor_stream_t *stream, const pdl__cuda_matmul_run_t *run)
{
    bool aligned = is_aligned(run->a) && is_aligned(run->b) && is_aligned(run->c) && is_aligned(run->d) &&
                   is_aligned(run->bias) && is_aligned(run->before);
    pdl_status_t status = check(m, multiply(m, &m->algorithm[aligned ? ALIGNED : ANY], stream, run), "product");

    if (status != PDL_OK || !m->finishes) return status;
    return pdl__cuda_finish_product(m->gpu, stream, &m->spec, run->d, run->bias, run->before);
}

const pdl__cuda_products_t pdl__cuda_products = {
    .create = create,
    .destroy = destroy,
    .run = run,
    .sum_columns = pdl__cuda_sum_columns,
    .slope_columns = pdl__cuda_slope_columns,
};
