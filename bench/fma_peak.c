/*
 * The arithmetic ceiling: single-precision fused multiply-adds on registers, in the widest vectors of the processor, on as
 * many threads as told (2). Prints the best of several rounds in GFLOP/s, a multiply-add being two operations.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MAX_THREADS 256
#define ROUNDS      20
#define ROUND_S     0.02
#define CHAINS      12 /* independent: 5 cycles of latency times 2 that begin in a cycle, and two more */
#define BURST       4096

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

static struct {
    burst_fn_t        burst;
    int               width;
    const char       *name;
    pthread_barrier_t begin;
} shared;

/* The time that this thread has run: others on the machine do not lower the ceiling. */
static double now_s(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void choose(void)
{
    shared.burst = burst_plain;
    shared.width = 4;
    shared.name = "plain vectors";
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        shared.burst = burst_avx512;
        shared.width = 16;
        shared.name = "AVX-512";
    } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        shared.burst = burst_avx2;
        shared.width = 8;
        shared.name = "AVX2";
    }
#endif
}

/* GFLOP/s of this thread in every round; all threads begin a round together. */
static void *run(void *argument)
{
    double        *rates = argument;
    volatile float sink = 0;

    for (int round = 0; round < ROUNDS; round++) {
        int64_t bursts = 0;
        double  start, end;

        pthread_barrier_wait(&shared.begin);
        start = now_s();
        do {
            for (int i = 0; i < 16; i++) sink = sink * 0 + shared.burst(0.5F);
            bursts += 16;
            end = now_s();
        } while (end - start < ROUND_S);
        rates[round] = 2e-9 * (double)(bursts * BURST * CHAINS * shared.width) / (end - start);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    const int     threads = count > 1 ? atoi(arguments[1]) : 2;
    static double rates[MAX_THREADS][ROUNDS];
    pthread_t     handles[MAX_THREADS];
    double        best = 0;

    if (threads < 1 || threads > MAX_THREADS) {
        fprintf(stderr, "usage: fma_peak [THREADS]\n");
        return 2;
    }
    choose();
    pthread_barrier_init(&shared.begin, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&handles[i], NULL, run, rates[i]) != 0) {
            fprintf(stderr, "fma_peak: cannot start thread %d\n", i + 1);
            return 1;
        }
    }
    for (int i = 0; i < threads; i++) pthread_join(handles[i], NULL);
    for (int round = 0; round < ROUNDS; round++) {
        double sum = 0;

        for (int i = 0; i < threads; i++) sum += rates[i][round];
        if (sum > best) best = sum;
    }
    printf("%.1f GFLOP/s, %s on %d threads\n", best, shared.name, threads);
    return 0;
}
