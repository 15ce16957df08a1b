/*
 * The arithmetic ceiling: single-precision fused multiply-adds on registers, in the widest vectors of the processor.
 */
#include <paradl/backend.h>
#include <time.h>

#define CHAINS 12 /* independent: 5 cycles of latency times 2 that begin in a cycle, and two more */
#define BURST  4096

typedef float (*burst_fn_t)(float factor);

/* BURST times a multiply-add on each of CHAINS registers. Their sum is returned so that none is left out. */
#define CHAIN(op) op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11)

#if defined(__x86_64__)
#include <immintrin.h>

#define BEGIN_512(c) __m512 x##c = _mm512_set1_ps(factor * (float)(c));
#define STEP_512(c)  x##c = _mm512_fmadd_ps(x##c, f, f);
#define SUM_512(c)   f = _mm512_add_ps(f, x##c);

static __attribute__((target("avx512f"), noinline)) float burst_avx512(float factor)
{
    __m512 f = _mm512_set1_ps(factor);

    CHAIN(BEGIN_512)
    for (int i = 0; i < BURST; i++) {
        CHAIN(STEP_512)
    }
    CHAIN(SUM_512)
    return _mm512_cvtss_f32(f);
}

#define BEGIN_256(c) __m256 x##c = _mm256_set1_ps(factor * (float)(c));
#define STEP_256(c)  x##c = _mm256_fmadd_ps(x##c, f, f);
#define SUM_256(c)   f = _mm256_add_ps(f, x##c);

static __attribute__((target("avx2,fma"), noinline)) float burst_avx2(float factor)
{
    __m256 f = _mm256_set1_ps(factor);

    CHAIN(BEGIN_256)
    for (int i = 0; i < BURST; i++) {
        CHAIN(STEP_256)
    }
    CHAIN(SUM_256)
    return _mm256_cvtss_f32(f);
}
#endif

#define BEGIN_1(c) float x##c = factor * (float)(c);
#define STEP_1(c)  x##c = x##c * factor + factor;
#define SUM_1(c)   sum += x##c;

static __attribute__((noinline)) float burst_plain(float factor)
{
    float sum = 0;

    CHAIN(BEGIN_1)
    for (int i = 0; i < BURST; i++) {
        CHAIN(STEP_1)
    }
    CHAIN(SUM_1)
    return sum;
}

typedef struct kernel {
    burst_fn_t  burst;
    int         width;
    const char *name;
} kernel_t;

static kernel_t choose(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return (kernel_t){burst_avx512, 16, "AVX-512"};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return (kernel_t){burst_avx2, 8, "AVX2"};
#endif
    return (kernel_t){burst_plain, 1, "plain vectors"};
}

/* The time that this thread has run: others on the machine do not lower the ceiling. */
static double now_s(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

double pdl_cpu_fma_speed(double seconds, const char **vectors)
{
    kernel_t       kernel = choose();
    volatile float sink = 0;
    int64_t        bursts = 0;
    double         start = now_s(), end;

    do {
        for (int i = 0; i < 16; i++) sink = sink * 0 + kernel.burst(0.5F);
        bursts += 16;
        end = now_s();
    } while (end - start < seconds);
    if (vectors) *vectors = kernel.name;
    return 2.0 * (double)(bursts * BURST * CHAINS * kernel.width) / (end - start);
}
