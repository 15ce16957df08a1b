/*
 * Under mpirun: memory of a device between ranks, by every transport that these ranks can use. Messages arrive in their order,
 * and exchanges, moves and routes have the bits that they have in memory of the processor.
 *
 *     program_transport guard | lazy | emulated | real
 *
 * On the guard, NCCL is an imitation (fake_library.h).
 */
#include <paradl/comm/exchange.h>
#include <paradl/comm/regions.h>
#include <paradl/comm/route.h>

#include "fake_library.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST  30000 /* elements */
#define WIRES 4

static pdl_backend_t       *backend;
static pdl_tensor_device_t *device;
static pdl_tensor_stream_t *stream;
static pdl_transport_t     *transport;

static float value_of(int r, int64_t i)
{
    return (float)((r + 1) * 1000 + i % 997) / 7;
}

static void *take(size_t bytes)
{
    void *memory = NULL;

    REQUIRE_OK(device->ops->alloc(device, PDL_SPACE_DEVICE, bytes, &memory));
    return memory;
}

static void give(void *memory, size_t bytes)
{
    device->ops->release(device, PDL_SPACE_DEVICE, memory, bytes);
}

static void fetch(void *to, const void *from, size_t bytes)
{
    CHECK_OK(pdl_device_fetch(device, stream, to, from, bytes));
}

/* Behind the work of the stream. */
static void put(void *to, const void *from, size_t bytes)
{
    CHECK_OK(device->ops->copy(device, stream, to, from, bytes));
    CHECK_OK(device->ops->synchronise(device, stream));
}

/* To the next rank and from the one before, several at once under one tag; from any place of an allocation. */
static void messages_arrive_in_order(void)
{
    static const int64_t counts[] = {1, 1000, MOST};
    static float         values[WIRES][MOST];
    pdl_wire_t          *there[WIRES], *here[WIRES];
    size_t               bytes = WIRES * (MOST + 3) * sizeof(float);
    float               *from = take(bytes), *to = take(bytes);
    int                  next = (rank + 1) % size, before = (rank + size - 1) % size;

    for (int w = 0; w < WIRES; w++) {
        REQUIRE_OK(pdl_wire_create(transport, ranks, PDL_SENT_MESSAGES, MOST * (int64_t)sizeof(float), &there[w]));
        REQUIRE_OK(pdl_wire_create(transport, ranks, PDL_SENT_MESSAGES, MOST * (int64_t)sizeof(float), &here[w]));
    }
    for (int round = 0; round < 6; round++) {
        int64_t count = counts[round % 3];

        CHECK_OK(pdl_transport_begin(transport));
        for (int w = 0; w < WIRES; w++)
            CHECK_OK(
                pdl_wire_receive(here[w], stream, to + w * MOST + 1, count * (int64_t)sizeof(float), before, 3));
        for (int w = 0; w < WIRES; w++) {
            for (int64_t i = 0; i < count; i++) values[w][i] = value_of(rank + 10 * w + round, i);
            CHECK_OK(
                device->ops->copy(device, stream, from + w * MOST + 2, values[w], (size_t)count * sizeof(float)));
            CHECK_OK(pdl_wire_send(there[w], stream, from + w * MOST + 2, count * (int64_t)sizeof(float), next, 3));
        }
        CHECK_OK(pdl_transport_end(transport));
        for (int w = WIRES - 1; w >= 0; w--) CHECK_OK(pdl_wire_wait(there[w]));
        for (int w = WIRES - 1; w >= 0; w--) CHECK_OK(pdl_wire_wait(here[w]));
        for (int w = 0; w < WIRES; w++) {
            int wrong = 0;

            fetch(values[w], to + w * MOST + 1, (size_t)count * sizeof(float));
            for (int64_t i = 0; i < count; i++) wrong += values[w][i] != value_of(before + 10 * w + round, i);
            CHECK(wrong == 0);
        }
    }
    for (int w = 0; w < WIRES; w++) {
        pdl_wire_destroy(there[w]);
        pdl_wire_destroy(here[w]);
    }
    give(from, bytes);
    give(to, bytes);
}

static void exchange(pdl_transport_t *by, const char *algorithm, pdl_collective_t collective, float *data)
{
    static const int64_t bound[] = {0, 5, 5000, 5000, MOST};
    int64_t              part[4 * 8];
    pdl_exchange_t      *made = NULL;
    pdl_exchange_spec_t  spec = {.ranks = ranks,
                                 .data = data,
                                 .bound = bound,
                                 .buckets = 4,
                                 .collective = collective,
                                 .part = part,
                                 .algorithm = algorithm,
                                 .overlap = true,
                                 .transport = by,
                                 .stream = by != NULL ? stream : NULL};

    for (int b = 0; b < 4; b++)
        for (int r = 0; r < size; r++) {
            int64_t low, high;

            pdl_block_range(bound[b + 1] - bound[b], size, r, &low, &high);
            part[b * size + r] = high - low;
        }
    if (collective == PDL_COLL_ALLREDUCE) spec.part = NULL;
    REQUIRE_OK(pdl_exchange_create(&spec, &made));
    for (int b = 0; b < 4; b++) CHECK_OK(pdl_exchange_ready(made, b));
    for (int b = 0; b < 4; b++) CHECK_OK(pdl_exchange_wait(made, b));
    CHECK_OK(device->ops->synchronise(device, stream));
    pdl_exchange_destroy(made);
}

/* After a reduce-scatter only the own parts are results. */
static void keep_parts(pdl_collective_t collective, float *data)
{
    static const int64_t bound[] = {0, 5, 5000, 5000, MOST};

    for (int b = 0; b < 4 && collective == PDL_COLL_REDUCE_SCATTER; b++) {
        int64_t low, high;

        pdl_block_range(bound[b + 1] - bound[b], size, rank, &low, &high);
        for (int64_t i = bound[b]; i < bound[b + 1]; i++)
            if (i < bound[b] + low || i >= bound[b] + high) data[i] = 0;
    }
}

static void compare_exchange(const char *algorithm, pdl_collective_t collective)
{
    static float expected[MOST], got[MOST];
    float       *data = take(sizeof(got));

    for (int64_t i = 0; i < MOST; i++) expected[i] = got[i] = value_of(rank, i);
    put(data, got, sizeof(got));
    exchange(NULL, algorithm, collective, expected);
    exchange(transport, algorithm, collective, data);
    fetch(got, data, sizeof(got));
    keep_parts(collective, expected);
    keep_parts(collective, got);
    /* What a trial finds to be the fastest may differ, and so may libraries. */
    if (strcmp(algorithm, "measure") == 0 || strcmp(algorithm, "library") == 0)
        for (int64_t i = 0; i < MOST; i++) CHECK(fabsf(expected[i] - got[i]) < 1e-5f * fabsf(expected[i]));
    else
        CHECK(memcmp(expected, got, sizeof(got)) == 0);
    give(data, sizeof(got));
}

static bool exists(const char *algorithm, pdl_collective_t collective)
{
    pdl_schedule_spec_t spec = {.collective = collective, .algorithm = algorithm, .ranks = size};
    pdl_schedule_t     *schedule = NULL;

    if (pdl_schedule_create_sized(&spec, MOST * sizeof(float), &schedule)) return false;
    pdl_schedule_destroy(schedule);
    return true;
}

static void exchanges_have_the_bits_of_the_processor(void)
{
    for (const char *const *name = pdl_coll_common(); *name != NULL; name++)
        if (!pdl_coll_nested(*name) && exists(*name, PDL_COLL_ALLREDUCE))
            compare_exchange(*name, PDL_COLL_ALLREDUCE);
    compare_exchange("ring", PDL_COLL_REDUCE_SCATTER);
    compare_exchange("ring", PDL_COLL_ALLGATHER);
    compare_exchange("library", PDL_COLL_ALLREDUCE);
    compare_exchange("library", PDL_COLL_ALLGATHER);
    compare_exchange("measure", PDL_COLL_ALLREDUCE);
}

/* Twice, so that the second sum has what the first has left out. */
static void sparse_sums_have_the_bits_of_the_processor(const char *algorithm)
{
    static const int64_t bound[] = {0, 5, 5000, MOST};
    static float         values[2][MOST], got[MOST];
    float               *data = take(sizeof(got));
    pdl_exchange_t      *made[2] = {NULL};
    double               bytes[2], waited_s, polled_s;

    for (int pass = 0; pass < 2; pass++) {
        pdl_exchange_spec_t spec = {.ranks = ranks,
                                    .data = pass == 0 ? values[0] : data,
                                    .bound = bound,
                                    .buckets = 3,
                                    .algorithm = algorithm,
                                    .density = 0.05,
                                    .overlap = true,
                                    .transport = pass == 0 ? NULL : transport,
                                    .stream = pass == 0 ? NULL : stream};

        REQUIRE_OK(pdl_exchange_create(&spec, &made[pass]));
        for (int round = 0; round < 2; round++) {
            for (int64_t i = 0; i < MOST; i++) values[pass][i] = value_of(rank + round, 31 * i);
            if (pass == 1) put(data, values[1], sizeof(got));
            for (int b = 0; b < 3; b++) CHECK_OK(pdl_exchange_ready(made[pass], b));
            for (int b = 0; b < 3; b++) CHECK_OK(pdl_exchange_wait(made[pass], b));
        }
        pdl_exchange_counters(made[pass], &bytes[pass], &waited_s, &polled_s);
    }
    fetch(got, data, sizeof(got));
    CHECK(memcmp(values[0], got, sizeof(got)) == 0);
    CHECK(bytes[0] == bytes[1] && pdl_exchange_messages(made[0]) == pdl_exchange_messages(made[1]));
    for (int b = 0; b < 3; b++) {
        int64_t      count;
        const float *left[2];

        for (int pass = 0; pass < 2; pass++) left[pass] = pdl_exchange_residual(made[pass], b, &count);
        CHECK((left[0] == NULL) == (size == 1) && (left[1] == NULL) == (size == 1));
        if (size > 1) CHECK(memcmp(left[0], left[1], (size_t)count * sizeof(float)) == 0);
    }
    for (int pass = 0; pass < 2; pass++) pdl_exchange_destroy(made[pass]);
    give(data, sizeof(got));
}

/* Rows of a matrix to columns and back, so that nothing is one run of memory; backward adds. */
static void moves_have_the_bits_of_the_processor(void)
{
    enum { ROWS = 48, COLUMNS = 60 };
    static float own[ROWS * COLUMNS], need[ROWS * COLUMNS], back[ROWS * COLUMNS], got[ROWS * COLUMNS];
    pdl_region_t owns[8], needs[8];

    for (int r = 0; r < size; r++) {
        int64_t low, high;

        pdl_block_range(ROWS, size, r, &low, &high);
        owns[r] = (pdl_region_t){.rank = 2, .segments = {1, 1}, .range = {{{low, high}}, {{0, COLUMNS}}}};
        pdl_block_range(COLUMNS, size, r, &low, &high);
        needs[r] = (pdl_region_t){.rank = 2,
                                  .segments = {1, 1},
                                  .range = {{{0, ROWS}}, {{low, high + 3 < COLUMNS ? high + 3 : COLUMNS}}}};
    }
    size_t own_bytes = (size_t)pdl_region_elements(&owns[rank]) * sizeof(float);
    size_t need_bytes = (size_t)pdl_region_elements(&needs[rank]) * sizeof(float);
    for (size_t i = 0; i < own_bytes / sizeof(float); i++) own[i] = value_of(rank, (int64_t)i);
    for (int pass = 0; pass < 2; pass++) {
        pdl_transport_t *by = pass == 0 ? NULL : transport;
        float           *a = pass == 0 ? own : take(own_bytes), *b = pass == 0 ? need : take(need_bytes);
        float           *c = pass == 0 ? back : take(own_bytes);
        pdl_move_t      *move = NULL;
        pdl_move_spec_t  spec = {.group = ranks, .own = owns, .need = needs, .transport = by};

        if (pass == 1) put(a, own, own_bytes);
        REQUIRE_OK(pdl_move_create(&spec, &move));
        for (int again = 0; again < 3; again++) {
            CHECK_OK(pdl_move_forward(move, pass ? stream : NULL, a, b));
            CHECK_OK(pdl_move_backward(move, pass ? stream : NULL, b, c));
        }
        CHECK_OK(device->ops->synchronise(device, stream));
        pdl_move_destroy(move);
        if (pass == 0) continue;
        fetch(got, b, need_bytes);
        CHECK(memcmp(got, need, need_bytes) == 0);
        fetch(got, c, own_bytes);
        CHECK(memcmp(got, back, own_bytes) == 0);
        give(a, own_bytes);
        give(b, need_bytes);
        give(c, own_bytes);
    }
}

/* Rank r has r + 1 numbers for every rank. */
static void routes_arrive(void)
{
    int64_t      to[8], from[8], sent = 0, received = 0, wrong = 0, at = 0;
    float        values[8 * 8 * 8], *there, *here;
    pdl_route_t *route = NULL;

    for (int r = 0; r < size; r++) {
        to[r] = (rank + 1) * (int64_t)sizeof(float);
        from[r] = (r + 1) * (int64_t)sizeof(float);
        sent += to[r];
        received += from[r];
    }
    for (int64_t i = 0; i < sent / 4; i++) values[i] = value_of(rank, i / (rank + 1));
    there = take((size_t)sent);
    here = take((size_t)received);
    put(there, values, (size_t)sent);
    REQUIRE_OK(pdl_route_create(transport, ranks, 8 * sizeof(float), &route));
    CHECK_OK(pdl_route_run(route, stream, there, to, here, from));
    fetch(values, here, (size_t)received);
    for (int r = 0; r < size; r++)
        for (int i = 0; i <= r; i++) wrong += values[at++] != value_of(r, rank);
    CHECK(wrong == 0);
    pdl_route_destroy(route);
    give(there, (size_t)sent);
    give(here, (size_t)received);
}

static void try_transport(pdl_transport_kind_t kind)
{
    pdl_status_t status = pdl_transport_create(ranks, device, kind, &transport);

    if (status == PDL_ERR_UNSUPPORTED) {
        if (rank == 0) printf("not tried: %s\n", pdl_error_message());
        return;
    }
    REQUIRE_OK(status);
    if (rank == 0) printf("transport %s\n", pdl_transport_name(transport));
    CHECK(kind == PDL_TRANSPORT_AUTO || size == 1 ||
          strcmp(pdl_transport_name(transport), pdl_transport_names[kind]) == 0);
    if (size > 1) messages_arrive_in_order();
    exchanges_have_the_bits_of_the_processor();
    sparse_sums_have_the_bits_of_the_processor("sparse_ring");
    sparse_sums_have_the_bits_of_the_processor("sparse_pairwise");
    moves_have_the_bits_of_the_processor();
    routes_arrive();
    CHECK(kind != PDL_TRANSPORT_NCCL || size == 1 || device->ops->library->identify != fake_identify ||
          fake_sent > 0);
    pdl_transport_destroy(transport);
}

static void all_transports(void)
{
    for (pdl_transport_kind_t kind = PDL_TRANSPORT_HOST; kind < PDL_TRANSPORT_COUNT; kind++) try_transport(kind);
}

static pdl_status_t create_backend(const char *name)
{
    pdl_cpu_options_t cpu = {.threads = 1};
    int               devices = 1;

    if (strcmp(name, "guard") == 0 || strcmp(name, "lazy") == 0)
        return pdl_backend_create_guard(&cpu, name[0] == 'l', &backend);
    if (getenv("PARADL_TEST_DEVICES") != NULL) devices = atoi(getenv("PARADL_TEST_DEVICES"));
    return pdl_backend_create_cuda(&(pdl_cuda_options_t){.device = pdl_ranks_node_rank(ranks) % devices,
                                                         .emulated = strcmp(name, "emulated") == 0},
                                   &backend);
}

int main(int argc, char **argv)
{
    if (argc != 2 || !begin_ranks()) return 1;
    if (pdl_ranks_agree(ranks, create_backend(argv[1]))) {
        if (rank == 0) printf("skipped: %s\n", pdl_error_message());
        pdl_ranks_destroy(ranks);
        return 77;
    }
    device = backend->device;
    pdl_device_ops_t ops = with_library(device->ops);
    if (device->ops->library == NULL) device->ops = &ops;
    REQUIRE_OK(device->ops->stream_create(device, &stream));
    RUN(all_transports);
    device->ops->stream_destroy(device, stream);
    pdl_backend_destroy(backend);
    return end_ranks();
}
