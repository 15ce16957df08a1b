/*
 * MPI_Allreduce of floats, which libparadl-mpi.so takes the place of, beside PMPI_Allreduce, the library's own, in turns of the same
 * run. Prints bytes, both medians of the slowest rank in microseconds, and the median of the quotients of neighbours.
 *
 *     bench_allreduce [LEAST MOST SECONDS]      bytes by a factor of 4; seconds a size and side
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_ROUNDS 4000
#define LEAST       15
#define FIRST       30 /* calls in which auto still tries what is fastest */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), compare);
    return (values[count / 2] + values[(count - 1) / 2]) / 2;
}

/* One call; the time of the slowest rank, on all of them. */
static double time_of(int ours, const float *in, float *out, int count)
{
    double begin, mine, slowest;

    PMPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    if (ours)
        MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else
        PMPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    mine = MPI_Wtime() - begin;
    PMPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

static void measure(long bytes, double seconds, const float *in, float *out)
{
    static double ours[MOST_ROUNDS], theirs[MOST_ROUNDS], ratio[MOST_ROUNDS];
    int           count = (int)(bytes / (long)sizeof(float)), rounds = 0, rank;
    double        spent = 0;

    for (int i = 0; i < 2 * FIRST; i++) time_of(i % 2, in, out, count);
    while (rounds < MOST_ROUNDS && (rounds < LEAST || spent < 2 * seconds)) {
        int first = rounds % 2; /* neither always follows the other */

        for (int i = 0; i < 2; i++)
            *(i == first ? &ours[rounds] : &theirs[rounds]) = time_of(i == first, in, out, count);
        spent += ours[rounds] + theirs[rounds];
        ratio[rounds] = ours[rounds] / theirs[rounds];
        rounds++;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("%ld %.3f %.3f %.4f\n", bytes, 1e6 * median(ours, rounds), 1e6 * median(theirs, rounds),
               median(ratio, rounds));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    long   least = argc > 1 ? atol(argv[1]) : 1024, most = argc > 2 ? atol(argv[2]) : 64L << 20;
    double seconds = argc > 3 ? atof(argv[3]) : 0.2;
    float *in = malloc((size_t)most), *out = malloc((size_t)most);

    MPI_Init(&argc, &argv);
    if (in == NULL || out == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    for (long i = 0; i < most / (long)sizeof(float); i++) in[i] = 1;
    for (long bytes = least; bytes <= most; bytes *= 4) measure(bytes, seconds, in, out);
    free(in);
    free(out);
    MPI_Finalize();
    return 0;
}
