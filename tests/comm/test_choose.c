/*
 * The choice of an allreduce on a network that was measured: written, read again, simulated, beside the library's own.
 */
#include "comm/choose.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

static pdl_topology_spec_t tree(void)
{
    pdl_topology_spec_t spec = pdl_topology_spec("fat-tree");

    spec.hosts = 8;
    spec.leaf_hosts = 4;
    spec.uplinks = 1;
    spec.link_bytes_per_s = 15.6e6;
    spec.host_link_bytes_per_s = 11.7e6;
    spec.link_latency_s = spec.host_link_latency_s = 60e-6;
    spec.messages = (pdl_message_layer_t){.exchange = 0.64,
                                          .exchange_bytes = 65536,
                                          .chunk_bytes = 49152,
                                          .buffered = true,
                                          .library_bytes = {4096, 65536, 1048576},
                                          .library_s = {1e-4, 0.02, 0.2},
                                          .library_sizes = 3};
    return spec;
}

/* What calibrate writes is what others read. */
static pdl_topology_t *through_a_file(const pdl_topology_spec_t *spec)
{
    FILE           *file = tmpfile();
    char            text[4096];
    size_t          length;
    pdl_topology_t *topology = NULL;

    REQUIRE(file != NULL);
    REQUIRE_OK(pdl_topology_write(spec, "a \"test\"", file));
    rewind(file);
    length = fread(text, 1, sizeof(text), file);
    fclose(file);
    REQUIRE_OK(pdl_topology_read_memory(text, length, "net.yaml", &topology));
    return topology;
}

static void files_keep_what_was_measured(void)
{
    pdl_topology_spec_t        spec = tree();
    pdl_topology_t            *topology = through_a_file(&spec);
    const pdl_topology_spec_t *read = pdl_topology_get_spec(topology);

    CHECK_INT(pdl_topology_hosts(topology), 8);
    CHECK_NEAR(read->link_bytes_per_s, 15.6e6, 1e-6);
    CHECK_NEAR(read->host_link_bytes_per_s, 11.7e6, 1e-6);
    CHECK_NEAR(read->host_link_latency_s, 60e-6, 1e-6);
    CHECK_NEAR(read->messages.exchange, 0.64, 1e-6);
    CHECK_NEAR(read->messages.exchange_bytes, 65536, 0);
    CHECK_NEAR(read->messages.chunk_bytes, 49152, 0);
    CHECK(read->messages.buffered);
    CHECK_INT(read->messages.library_sizes, 3);
    CHECK_NEAR(read->messages.library_s[1], 0.02, 1e-9);
    pdl_topology_destroy(topology);
}

static void times_of_the_library(void)
{
    pdl_topology_spec_t spec = tree();

    CHECK_NEAR(pdl__library_seconds(&spec.messages, 4096), 1e-4, 1e-9);
    CHECK_NEAR(pdl__library_seconds(&spec.messages, 262144), sqrt(0.02 * 0.2), 1e-9);
    CHECK_NEAR(pdl__library_seconds(&spec.messages, 1048576), 0.2, 1e-9);
    CHECK(isinf(pdl__library_seconds(&spec.messages, 64)));
    CHECK(isinf(pdl__library_seconds(&spec.messages, 1 << 24)));
    spec.messages.library_sizes = 0;
    CHECK(isinf(pdl__library_seconds(&spec.messages, 4096)));
}

/* On the 1:3 tree a ring wins large vectors, and everything that sends far at once loses; the library is left what it is faster at. */
static void the_network_decides(void)
{
    pdl_topology_spec_t spec = tree();
    pdl_topology_t     *network = through_a_file(&spec);
    pdl__choice_t       choice;
    pdl_schedule_t     *schedule = NULL;

    REQUIRE_OK(pdl__choose_on_network(network, PDL_COLL_ALLREDUCE, 1 << 20, &choice));
    REQUIRE(choice.algorithm != NULL);
    CHECK(strstr(choice.algorithm, "ring") != NULL);
    CHECK(!choice.library);
    REQUIRE_OK(
        pdl__network_schedule(network, PDL_COLL_ALLREDUCE, choice.algorithm, 1 << 20, choice.segments, &schedule));
    CHECK_INT(pdl_schedule_ranks(schedule), 8);
    pdl_schedule_destroy(schedule);
    REQUIRE_OK(pdl__choose_on_network(network, PDL_COLL_ALLREDUCE, 4096, &choice));
    CHECK(choice.seconds > 1e-4);
    CHECK(choice.library);
    REQUIRE_OK(pdl__choose_on_network(network, PDL_COLL_ALLTOALL, 1 << 20, &choice));
    CHECK(choice.algorithm != NULL && !choice.library);
    pdl_topology_destroy(network);
}

/* Small vectors are the library's, then those that fit go through shared memory; of two ranks, what is neither small nor large is the
   library's as well. */
static void one_machine_has_three_ways(void)
{
    const int64_t limit = 256 << 10;

    CHECK_INT(pdl__choose_way(2, limit, 512), PDL__WAY_LIBRARY);
    CHECK_INT(pdl__choose_way(2, limit, 513), PDL__WAY_SHARED);
    CHECK_INT(pdl__choose_way(2, limit, (double)limit), PDL__WAY_SHARED);
    CHECK_INT(pdl__choose_way(2, limit, (double)limit + 1), PDL__WAY_LIBRARY);
    CHECK_INT(pdl__choose_way(2, limit, (8 << 20) - 1), PDL__WAY_LIBRARY);
    CHECK_INT(pdl__choose_way(2, limit, 8 << 20), PDL__WAY_SHARED);
    CHECK_INT(pdl__choose_way(4, limit, 8 << 20), PDL__WAY_MESSAGES);
    CHECK_INT(pdl__choose_way(4, limit, 2048), PDL__WAY_LIBRARY);
    CHECK_INT(pdl__choose_way(4, limit, 4096), PDL__WAY_SHARED);
    CHECK_INT(pdl__choose_way(4, limit, 1 << 20), PDL__WAY_MESSAGES);
    CHECK_INT(pdl__choose_way(2, 0, 4096), PDL__WAY_MESSAGES);
    CHECK(pdl__ways_differ(2, limit, 513) && pdl__ways_differ(2, limit, 64 << 20));
    CHECK(!pdl__ways_differ(2, limit, 512) && !pdl__ways_differ(2, 0, 4096) && !pdl__ways_differ(4, limit, 4096));
    REQUIRE(setenv("PARADL_SHARED", "1MiB", 1) == 0);
    CHECK_INT(pdl__shared_limit(), 1 << 20);
    REQUIRE(unsetenv("PARADL_SHARED") == 0);
    CHECK_INT(pdl__shared_limit(), limit);
}

static void mistakes_are_named(void)
{
    pdl_topology_t *topology = NULL;

#define REFUSED(messages, message)                                                                   \
    do {                                                                                             \
        const char *text = "paradl: topology/1\ntopology: ring\nhosts: 4\nmessages: " messages "\n"; \
        CHECK_ERROR(pdl_topology_read_memory(text, strlen(text), "n.yaml", &topology), message);     \
    } while (0)
    REFUSED("{exchange: 1.5}", "n.yaml:4: exchange is a share");
    REFUSED("{exchange: 0}", "exchange is a share");
    REFUSED("{reverse: 1.5}", "n.yaml:4: reverse is a share, from 0 to 1");
    REFUSED("{rate: 1}", "rate");
    REFUSED("{library: [{bytes: 4KiB, seconds: 1ms}, {bytes: 4KiB, seconds: 1ms}]}", "sizes must grow");
    REFUSED("{library: [{bytes: 4KiB, seconds: 0s}]}", "times be above 0");
}

int main(void)
{
    RUN(files_keep_what_was_measured);
    RUN(times_of_the_library);
    RUN(the_network_decides);
    RUN(one_machine_has_three_ways);
    RUN(mistakes_are_named);
    return test_done();
}
