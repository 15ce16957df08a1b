/*
 * An ordinary MPI program. It knows nothing of libparadl-mpi.so and computes what every collective must give by
 * itself, so it passes with and without the library.
 */
#include <mpi.h>

#include "test.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int world_rank;

/* Whole numbers that 32 bits hold, so that sums of floats are exact too. */
static int64_t value_of(int rank, int64_t i)
{
    return (rank + 1) * 1000 + i % 97 - 40 * (i % 3);
}

static int64_t sum_of(int ranks, int64_t i)
{
    int64_t sum = 0;

    for (int r = 0; r < ranks; r++) sum += value_of(r, i);
    return sum;
}

static int64_t largest_of(int ranks, int64_t i)
{
    int64_t largest = value_of(0, i);

    for (int r = 1; r < ranks; r++) largest = value_of(r, i) > largest ? value_of(r, i) : largest;
    return largest;
}

static void *reserve(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);

    if (memory == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    return memory;
}

static void allreduce(MPI_Comm comm, int rank, int ranks, int count)
{
    int    *input = reserve((size_t)count, sizeof(*input)), *output = reserve((size_t)count, sizeof(*output));
    double *real = reserve((size_t)count, sizeof(*real));
    int     wrong = 0;

    for (int i = 0; i < count; i++) {
        input[i] = (int)value_of(rank, i);
        real[i] = (double)value_of(rank, i);
    }
    MPI_Allreduce(input, output, count, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < count; i++) wrong += output[i] != (int)sum_of(ranks, i);
    MPI_Allreduce(MPI_IN_PLACE, input, count, MPI_INT, MPI_MAX, comm);
    for (int i = 0; i < count; i++) wrong += input[i] != (int)largest_of(ranks, i);
    MPI_Allreduce(MPI_IN_PLACE, real, count, MPI_DOUBLE, MPI_SUM, comm);
    for (int i = 0; i < count; i++) wrong += real[i] != (double)sum_of(ranks, i);
    CHECK_INT(wrong, 0);
    free(input);
    free(output);
    free(real);
}

/* Sums that are rounded have the same bits in every call, whatever the library tries meanwhile. */
static void the_same_bits_in_every_call(void)
{
    enum { CALLS = 40, SIZES = 3 };
    static const int counts[SIZES] = {70, 20000, 20011};
    double          *input = reserve(20011, sizeof(*input)), *first = reserve(20011, sizeof(*first)),
           *output = reserve(20011, sizeof(*output));
    int wrong = 0;

    for (int i = 0; i < 20011; i++) input[i] = 1.0 / (3 + i + 7 * world_rank);
    for (int s = 0; s < SIZES; s++)
        for (int call = 0; call < CALLS; call++) {
            MPI_Allreduce(input, call == 0 ? first : output, counts[s], MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            if (call > 0) wrong += memcmp(first, output, (size_t)counts[s] * sizeof(*output)) != 0;
        }
    CHECK_INT(wrong, 0);
    free(input);
    free(first);
    free(output);
}

static void iallreduce(MPI_Comm comm, int rank, int ranks, int count)
{
    enum { AT_ONCE = 3 };
    int        *input = reserve((size_t)count, sizeof(*input)), *output[AT_ONCE], wrong = 0, flag = 0;
    MPI_Request request[AT_ONCE];

    for (int i = 0; i < count; i++) input[i] = (int)value_of(rank, i);
    for (int k = 0; k < AT_ONCE; k++) {
        output[k] = reserve((size_t)count, sizeof(*output[k]));
        MPI_Iallreduce(input, output[k], count, MPI_INT, k == 1 ? MPI_MAX : MPI_SUM, comm, &request[k]);
    }
    /* Other traffic and another collective while these are under way. */
    allreduce(comm, rank, ranks, 5);
    while (!flag) MPI_Test(&request[0], &flag, MPI_STATUS_IGNORE);
    MPI_Waitall(AT_ONCE, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < count; i++) {
        wrong += output[0][i] != (int)sum_of(ranks, i) || output[2][i] != output[0][i];
        wrong += output[1][i] != (int)largest_of(ranks, i);
    }
    CHECK_INT(wrong, 0);
    for (int k = 0; k < AT_ONCE; k++) free(output[k]);
    free(input);
}

static void reduce_scatter(MPI_Comm comm, int rank, int ranks, int count)
{
    int  total = count * ranks, wrong = 0, first = 0;
    int *input = reserve((size_t)total, sizeof(*input)), *output = reserve((size_t)total, sizeof(*output));
    int *counts = reserve((size_t)ranks, sizeof(*counts));

    for (int i = 0; i < total; i++) input[i] = (int)value_of(rank, i);
    MPI_Reduce_scatter_block(input, output, count, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < count; i++) wrong += output[i] != (int)sum_of(ranks, rank * count + i);

    /* Everything for the last rank but one element each for the others. */
    for (int r = 0; r < ranks; r++) counts[r] = r == ranks - 1 ? total - (count > 0 ? r : 0) : count > 0;
    for (int r = 0; r < rank; r++) first += counts[r];
    MPI_Reduce_scatter(input, output, counts, MPI_INT, MPI_MAX, comm);
    for (int i = 0; i < counts[rank]; i++) wrong += output[i] != (int)largest_of(ranks, first + i);
    MPI_Reduce_scatter(MPI_IN_PLACE, input, counts, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < counts[rank]; i++) wrong += input[i] != (int)sum_of(ranks, first + i);
    CHECK_INT(wrong, 0);
    free(input);
    free(output);
    free(counts);
}

static void allgather(MPI_Comm comm, int rank, int ranks, int count)
{
    int *input = reserve((size_t)count, sizeof(*input)), wrong = 0;
    int *output = reserve((size_t)count * (size_t)ranks, sizeof(*output));

    for (int i = 0; i < count; i++) input[i] = (int)value_of(rank, i);
    MPI_Allgather(input, count, MPI_INT, output, count, MPI_INT, comm);
    for (int i = 0; i < count * ranks; i++) wrong += output[i] != (int)value_of(i / count, i % count);
    for (int i = 0; i < count * ranks; i++) output[i] = i / count == rank ? output[i] : -1;
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, output, count, MPI_INT, comm);
    for (int i = 0; i < count * ranks; i++) wrong += output[i] != (int)value_of(i / count, i % count);
    CHECK_INT(wrong, 0);
    free(input);
    free(output);
}

static void all_to_all(MPI_Comm comm, int rank, int ranks, int count)
{
    int  total = count * ranks, wrong = 0;
    int *input = reserve((size_t)total, sizeof(*input)), *output = reserve((size_t)total, sizeof(*output));

    for (int i = 0; i < total; i++) input[i] = rank * 1000003 + i;
    MPI_Alltoall(input, count, MPI_INT, output, count, MPI_INT, comm);
    for (int i = 0; i < total; i++) wrong += output[i] != i / count * 1000003 + rank * count + i % count;
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, input, count, MPI_INT, comm);
    for (int i = 0; i < total; i++) wrong += input[i] != output[i];
    CHECK_INT(wrong, 0);
    free(input);
    free(output);
}

/* Ranks that describe the same data by different types: even ones every second int, odd ones plain. */
static void mixed_types(MPI_Comm comm, int rank, int ranks)
{
    enum { COUNT = 6 };
    MPI_Datatype spaced;
    int          stride = rank % 2 == 0 ? 2 : 1, input[2 * COUNT] = {0}, wrong = 0;
    int         *output = reserve((size_t)(2 * COUNT * ranks), sizeof(*output));

    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spaced);
    MPI_Type_commit(&spaced);
    for (int i = 0; i < COUNT; i++) input[stride * i] = (int)value_of(rank, i);
    MPI_Allgather(input, COUNT, stride == 2 ? spaced : MPI_INT, output, COUNT, stride == 2 ? MPI_INT : spaced,
                  comm);
    for (int i = 0; i < COUNT * ranks; i++)
        wrong += output[i * (3 - stride)] != (int)value_of(i / COUNT, i % COUNT);
    for (int i = 0; i < COUNT * ranks; i++) output[i * (3 - stride)] = rank * 100 + i;
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, output, COUNT, stride == 2 ? MPI_INT : spaced, comm);
    for (int i = 0; i < COUNT * ranks; i++)
        wrong += output[i * (3 - stride)] != i / COUNT * 100 + rank * COUNT + i % COUNT;
    CHECK_INT(wrong, 0);
    MPI_Type_free(&spaced);
    free(output);
}

/* Keeps the left operand's factor: associative, not commutative. */
static void compose(void *in, void *inout, int *length, MPI_Datatype *type)
{
    int *a = in, *b = inout;

    (void)type;
    for (int i = 0; i < *length; i++) {
        b[2 * i + 1] = a[2 * i + 1] * b[2 * i] + b[2 * i + 1];
        b[2 * i] = a[2 * i] * b[2 * i];
    }
}

static void own_operation(MPI_Comm comm, int rank, int ranks)
{
    MPI_Op op;
    int    input[2] = {2, rank + 1}, output[2], expected[2] = {2, 1};

    for (int r = 1; r < ranks; r++) {
        expected[1] = expected[1] * 2 + r + 1;
        expected[0] *= 2;
    }
    MPI_Op_create(compose, 0, &op);
    MPI_Allreduce(input, output, 1, MPI_2INT, op, comm);
    CHECK_INT(output[0], expected[0]);
    CHECK_INT(output[1], expected[1]);
    MPI_Op_free(&op);
}

static void find_largest(MPI_Comm comm, int rank, int ranks)
{
    struct {
        double value;
        int    rank;
    } input[3] = {{(double)(rank * 7 % 5), rank}, {1, rank}, {(double)-rank, rank}}, output[3];

    MPI_Allreduce(input, output, 3, MPI_DOUBLE_INT, MPI_MAXLOC, comm);
    CHECK_INT(output[1].rank, 0);
    CHECK_INT(output[2].rank, 0);
    CHECK_INT(output[0].value, output[0].rank * 7 % 5);
    CHECK(output[0].rank < ranks);
}

/* The program's own messages with any tag are never taken for ours. */
static void own_messages(MPI_Comm comm, int rank, int ranks)
{
    int         to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks, got = -1;
    MPI_Request request[2];

    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &request[0]);
    allreduce(comm, rank, ranks, 1000);
    MPI_Isend(&rank, 1, MPI_INT, to, 0, comm, &request[1]);
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    CHECK_INT(got, from);
}

static void everything_on(MPI_Comm comm)
{
    const int counts[] = {0, 1, 7, 5003};
    int       rank, ranks;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        allreduce(comm, rank, ranks, counts[i]);
        iallreduce(comm, rank, ranks, counts[i]);
        reduce_scatter(comm, rank, ranks, counts[i]);
        if (counts[i] > 0) allgather(comm, rank, ranks, counts[i]);
        if (counts[i] > 0) all_to_all(comm, rank, ranks, counts[i]);
    }
    mixed_types(comm, rank, ranks);
    own_operation(comm, rank, ranks);
    find_largest(comm, rank, ranks);
    own_messages(comm, rank, ranks);
}

static void on_the_world(void)
{
    everything_on(MPI_COMM_WORLD);
}

/* Communicators come and go; ranks are in reverse order in one, and some have only one rank. */
static void on_parts_of_it(void)
{
    MPI_Comm part;

    for (int i = 0; i < 3; i++) {
        MPI_Comm_split(MPI_COMM_WORLD, world_rank % 2, -world_rank, &part);
        everything_on(part);
        MPI_Comm_free(&part);
    }
    MPI_Comm_split(MPI_COMM_WORLD, world_rank == 0 ? MPI_UNDEFINED : 0, 0, &part);
    if (part != MPI_COMM_NULL) {
        everything_on(part);
        MPI_Comm_free(&part);
    }
    everything_on(MPI_COMM_SELF);
}

/* A started reduction does not block the program, and goes on while its rank waits elsewhere: rank 0 waits for a
   message that the others send only when the reduction is complete. */
static void in_the_background(void)
{
    int         one = 1, sum = 0, ranks, token = 0;
    MPI_Request request;

    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (world_rank == 0) {
        MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
        for (int r = 1; r < ranks; r++) MPI_Send(&token, 1, MPI_INT, r, 1, MPI_COMM_WORLD);
        for (int r = 1; r < ranks; r++) MPI_Recv(&token, 1, MPI_INT, r, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(&token, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Send(&token, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
    }
    CHECK_INT(sum, ranks);
}

/* Two communicators whose reductions are started in different order on different ranks. */
static void in_any_order(void)
{
    MPI_Comm    comm[2];
    MPI_Request request[2];
    int         one = 1, sum[2] = {0, 0}, ranks;

    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < 2; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
        allreduce(comm[i], world_rank, ranks, 3);
    }
    for (int k = 0; k < 2; k++) {
        int i = world_rank % 2 == 0 ? k : 1 - k;

        MPI_Iallreduce(&one, &sum[i], 1, MPI_INT, MPI_SUM, comm[i], &request[i]);
    }
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(sum[i], ranks);
        MPI_Comm_free(&comm[i]);
    }
}

#define COMMS 3
#define EACH  4 /* operations of a communicator that are under way at once */

/* Completes all requests in one of the ways that MPI offers; every one of them must let the operations move on. */
static void complete_all(MPI_Request *request, int how)
{
    int count = COMMS * EACH, index, done = 0, some[COMMS * EACH];

    switch (how % 5) {
    case 0: MPI_Waitall(count, request, MPI_STATUSES_IGNORE); break;
    case 1:
        for (int i = 0; i < count; i++) MPI_Waitany(count, request, &index, MPI_STATUS_IGNORE);
        break;
    case 2:
        while (!done) MPI_Testall(count, request, &done, MPI_STATUSES_IGNORE);
        break;
    case 3:
        for (int left = count; left > 0; left -= index)
            MPI_Waitsome(count, request, &index, some, MPI_STATUSES_IGNORE);
        break;
    default: /* the last first, one after the other */
        for (int i = count - 1; i >= 0; i--) {
            for (done = 0; !done;) MPI_Test(&request[i], &done, MPI_STATUS_IGNORE);
        }
    }
}

/* Many reductions under way on several communicators, which every rank starts in another order and completes in another
   way, with a library's own operation and a message to a neighbour among them. */
static void many_at_once(void)
{
    static int  input[COMMS * EACH][1000], output[COMMS * EACH][1000];
    MPI_Comm    comm[COMMS];
    MPI_Request request[COMMS * EACH], barrier;
    int         ranks, token = 0;

    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int c = 0; c < COMMS; c++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm[c]);
        allreduce(comm[c], world_rank, ranks, 3);
    }
    for (int round = 0; round < 10; round++) {
        for (int k = 0; k < COMMS * EACH; k++) {
            int c = (k + world_rank + round) % COMMS, at = c * EACH + k / COMMS, count = 1 + 333 * (k / COMMS);

            for (int i = 0; i < count; i++) input[at][i] = world_rank + i + at;
            MPI_Iallreduce(input[at], output[at], count, MPI_INT, MPI_SUM, comm[c], &request[at]);
        }
        MPI_Ibarrier(comm[round % COMMS], &barrier);
        MPI_Sendrecv_replace(&token, 1, MPI_INT, (world_rank + 1) % ranks, 5, (world_rank + ranks - 1) % ranks, 5,
                             MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        complete_all(request, world_rank + round);
        MPI_Wait(&barrier, MPI_STATUS_IGNORE);
        for (int at = 0; at < COMMS * EACH; at++) {
            int last = 333 * (at % EACH);

            CHECK_INT(output[at][last], ranks * (ranks - 1) / 2 + ranks * (last + at));
        }
    }
    for (int c = 0; c < COMMS; c++) MPI_Comm_free(&comm[c]);
}

/* Between two groups the reductions cross over. */
static void between_groups(void)
{
    MPI_Comm half, inter;
    int      ranks, side = world_rank % 2, got = -1;

    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks < 2) return;
    MPI_Comm_split(MPI_COMM_WORLD, side, world_rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 3, &inter);
    MPI_Allreduce(&side, &got, 1, MPI_INT, MPI_MAX, inter);
    CHECK_INT(got, 1 - side);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

int main(int argc, char **argv)
{
    int failed, all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    RUN(on_the_world);
    RUN(the_same_bits_in_every_call);
    RUN(on_parts_of_it);
    RUN(in_the_background);
    RUN(in_any_order);
    RUN(many_at_once);
    RUN(between_groups);
    failed = test_failures != 0;
    MPI_Reduce(&failed, &all, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Bcast(&all, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return all != 0 || test_count == 0;
}
