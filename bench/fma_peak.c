/*
 * The arithmetic ceiling on as many threads as told (2): the best of several rounds in GFLOP/s, a multiply-add being
 * two operations.
 */
#include <paradl/tensor/backend.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_THREADS 256
#define ROUNDS      20
#define ROUND_S     0.02

static pthread_barrier_t begin;

/* FLOP/s of this thread in every round; all threads begin a round together. */
static void *run(void *argument)
{
    double *rates = argument;

    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&begin);
        rates[round] = pdl_cpu_fma_speed(ROUND_S, NULL);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    const int     threads = count > 1 ? atoi(arguments[1]) : 2;
    static double rates[MAX_THREADS][ROUNDS];
    pthread_t     handles[MAX_THREADS];
    const char   *name;
    double        best = 0;

    if (threads < 1 || threads > MAX_THREADS) {
        fprintf(stderr, "usage: fma_peak [THREADS]\n");
        return 2;
    }
    pdl_cpu_fma_speed(0, &name);
    pthread_barrier_init(&begin, NULL, (unsigned)threads);
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
    printf("%.1f GFLOP/s, %s on %d threads\n", 1e-9 * best, name, threads);
    return 0;
}
