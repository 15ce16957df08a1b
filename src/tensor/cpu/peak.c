/*
 * The arithmetic ceiling: single-precision fused multiply-adds on registers, in the widest vectors of the processor.
 */
#include <paradl/tensor/backend.h>
#include <time.h>

#define CHAINS 12 /* independent: 5 cycles of latency times 2 that begin in a cycle, and two more */
#define BURST  4096

typedef float (*burst_fn_t)(float factor);

/* BURST times a multiply-add on each of CHAINS registers. Their sum is returned so that none is left out. */
#define CHAIN(op, bits)                                                                                         \
    op(0, bits) op(1, bits) op(2, bits) op(3, bits) op(4, bits) op(5, bits) op(6, bits) op(7, bits) op(8, bits) \
        op(9, bits) op(10, bits) op(11, bits)

#if defined(__x86_64__)
#include <immintrin.h>

#define BEGIN(c, bits) __m##bits x##c = _mm##bits##_set1_ps(factor * (float)(c));
#define STEP(c, bits)  x##c = _mm##bits##_fmadd_ps(x##c, f, f);
#define SUM(c, bits)   f = _mm##bits##_add_ps(f, x##c);

#define BURST_OF(bits, extensions)                                                        \
    static __attribute__((target(extensions), noinline)) float burst_##bits(float factor) \
    {                                                                                     \
        __m##bits f = _mm##bits##_set1_ps(factor);                                        \
                                                                                          \
        CHAIN(BEGIN, bits)                                                                \
        for (int i = 0; i < BURST; i++) {                                                 \
            CHAIN(STEP, bits)                                                             \
        }                                                                                 \
        CHAIN(SUM, bits)                                                                  \
        return _mm##bits##_cvtss_f32(f);                                                  \
    }
BURST_OF(512, "avx512f")
BURST_OF(256, "avx2,fma")
#endif

#define BEGIN_1(c, bits) float x##c = factor * (float)(c);
#define STEP_1(c, bits)  x##c = x##c * factor + factor;
#define SUM_1(c, bits)   sum += x##c;

static __attribute__((noinline)) float burst_plain(float factor)
{
    float sum = 0;

    CHAIN(BEGIN_1, 32)
    for (int i = 0; i < BURST; i++) {
        CHAIN(STEP_1, 32)
    }
    CHAIN(SUM_1, 32)
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
    if (__builtin_cpu_supports("avx512f")) return (kernel_t){burst_512, 16, "AVX-512"};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return (kernel_t){burst_256, 8, "AVX2"};
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
