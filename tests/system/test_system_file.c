/*
 * System files: what is read, which defaults apply, and that mistakes are named with file and line.
 */
#include "test.h"

#include <paradl/system/system.h>

#define HEAD   "paradl: system/1\nname: toy\n"
#define DEVICE "device:\n  name: chip\n  memory: 16GB\n  memory_bandwidth: 900GB/s\n  peak: {fp32: 15.7TFLOP/s}\n"
#define LEVELS "levels:\n  - {name: node, fanout: 4, bandwidth: 50GB/s, latency: 9us}\n"
#define HOST   "host_path:\n  - {name: node, bandwidth: 16GB/s, latency: 3ms, ports: 2, shared: true}\n"

static const pdl_system_t *read_text(const char *text)
{
    const pdl_system_t *system = NULL;

    CHECK_OK(pdl_system_read_memory(text, strlen(text), "toy.yaml", &system));
    return system;
}

static void check_error(int line, const char *text, const char *part)
{
    const pdl_system_t *system = NULL;
    pdl_status_t        st = pdl_system_read_memory(text, strlen(text), "toy.yaml", &system);

    test_error(__FILE__, line, "reading", st, part);
    CHECK(system == NULL);
    CHECK(strchr(pdl_error_message(), '\n') == NULL);
    if (st == PDL_OK) pdl_system_destroy(system);
}
#define CHECK_REFUSED(text, part) check_error(__LINE__, text, part)

static void a_short_file_is_enough(void)
{
    const pdl_system_t *system = read_text(HEAD DEVICE LEVELS);

    if (system == NULL) return;
    CHECK_STR(system->name, "toy");
    CHECK_STR(system->description, "");
    CHECK(system->parameters == NULL);
    CHECK_INT(system->pe_count, 4);
    CHECK_NEAR(system->level[0].bandwidth_bytes_per_s, 50e9, 0);
    CHECK_NEAR(system->level[0].latency_s, 9e-6, 1e-15);
    CHECK_NEAR(system->level[0].ports, 1, 0);
    CHECK_NEAR(system->level[0].oversubscription, 1, 0);
    CHECK_NEAR(system->level[0].congestion, 1, 0);
    CHECK(!system->level[0].shared_medium && !system->has_host_path);
    CHECK_NEAR(system->host_level[0].bandwidth_bytes_per_s, 50e9, 0);
    CHECK_INT(system->device.compute_units, 1);
    CHECK_NEAR(system->device.matrix_efficiency, 1, 0);
    CHECK_NEAR(system->device.peak_flop_per_s[PDL_FP32], 15.7e12, 1e-15);
    CHECK_NEAR(system->device.peak_flop_per_s[PDL_FP16], 0, 0);
    pdl_system_destroy(system);
}

static void everything_that_can_be_said_is_read(void)
{
    const pdl_system_t *system = read_text(
        HEAD
        "description: a toy\nsource: nowhere\nparameters: toy-fit\ncost_per_pe_hour: 1.25\n" DEVICE
        "  compute_units: 80\n  launch: 5us\n  matrix_efficiency: 0.8\n  memory_efficiency: 0.7\n  power: 0.3kW\n"
        "  idle_power: 40W\n  host_bandwidth: 16GB/s\n  reserved: 512MiB\n" LEVELS
        "  - {name: rack, transport: ib, fanout: 8, bandwidth: 100Gb/s, latency: 5us, ports: 2, congestion: 1.5}\n"
        "  - {name: hall, fanout: 3, bandwidth: 100Gb/s, latency: 6us, oversubscription: 2.5}\n" HOST
        "storage: {node_bandwidth: 3GB/s, total_bandwidth: 1TB/s, decode_samples_per_s: 2k}\n");

    if (system == NULL) return;
    CHECK_STR(system->source, "nowhere");
    CHECK_STR(system->parameters, "toy-fit");
    CHECK_NEAR(system->cost_per_pe_hour, 1.25, 0);
    CHECK_INT(system->pe_count, 96);
    CHECK_INT(system->device.compute_units, 80);
    CHECK_NEAR(system->device.power_w, 300, 1e-15);
    CHECK_NEAR(system->device.host_link.bytes_per_s[PDL_HOST_TO_DEVICE], 16e9, 1e-15);
    CHECK(system->backend == NULL);
    CHECK_NEAR(system->device.reserved_bytes, 536870912, 0);
    CHECK_STR(system->level[1].transport, "ib");
    CHECK_NEAR(system->level[1].bandwidth_bytes_per_s, 12.5e9, 1e-15);
    CHECK_NEAR(system->level[1].congestion, 1.5, 0);
    CHECK_NEAR(system->level[2].ports, 16, 0); /* as many as lead into a rack: 8 nodes with 2 */
    CHECK_NEAR(system->level[2].oversubscription, 2.5, 0);
    CHECK(system->has_host_path && system->host_level[0].shared_medium);
    CHECK_NEAR(system->host_level[0].ports, 2, 0);
    CHECK_INT(system->host_level[0].fanout, 4);
    CHECK_NEAR(system->host_level[1].ports, 2, 0); /* left out: as without the host */
    CHECK_NEAR(system->host_level[2].oversubscription, 2.5, 0);
    CHECK_NEAR(system->storage.node_bandwidth_bytes_per_s, 3e9, 0);
    CHECK_NEAR(system->storage.total_bandwidth_bytes_per_s, 1e12, 0);
    CHECK_NEAR(system->storage.decode_samples_per_s, 2000, 0);
    /* Without keys of their own, node and parallel file system are as the two rates say. */
    CHECK_NEAR(system->storage.local_bandwidth_bytes_per_s, 3e9, 0);
    CHECK_NEAR(system->storage.client_bandwidth_bytes_per_s, 3e9, 0);
    CHECK_NEAR(system->storage.shared_bandwidth_bytes_per_s, 1e12, 0);
    CHECK_NEAR(system->storage.shared_efficiency, 1, 0);
    CHECK_NEAR(system->storage.local_bytes, 0, 0);
    pdl_system_destroy(system);
}

static void the_link_to_the_host_is_read(void)
{
    const pdl_system_t *system =
        read_text(HEAD DEVICE "  queue: 5us\n  step: 50us\n  sharing: 0.95\n  slice: 100us\n  host_memory: 4GB\n"
                              "  host_link:\n    d2h: 50GB/s\n    h2d: 40GB/s\n    both: 30GB/s\n"
                              "    by_size:\n      - {bytes: 1MB, d2h: 10GB/s}\n"
                              "      - {bytes: 10MB, d2h: 25GB/s, both: 20GB/s}\n" LEVELS "backend: cuda\n");

    if (system == NULL) return;
    const pdl_host_link_t *link = &system->device.host_link;
    CHECK_STR(system->backend, "cuda");
    CHECK_NEAR(system->device.queue_s, 5e-6, 1e-12);
    CHECK_NEAR(system->device.step_s, 5e-5, 1e-12);
    CHECK_NEAR(pdl_host_link_seconds(link, PDL_HOST_TO_HOST, 1e9), 0.02, 1e-12);
    CHECK_NEAR(pdl_host_link_seconds(link, PDL_HOST_TO_DEVICE, 1e9), 0.025, 1e-12);
    CHECK_NEAR(pdl_host_link_seconds(link, PDL_HOST_BOTH, 3e9), 0.1, 1e-12);
    CHECK_NEAR(pdl_host_link_seconds(link, PDL_HOST_TO_HOST, 10), 1e-4, 1e-12);
    CHECK_NEAR(pdl_host_link_seconds(link, PDL_HOST_TO_HOST, 5.5e6), 2.5e-4, 1e-12);
    CHECK_NEAR(pdl_host_link_seconds(link, PDL_HOST_BOTH, 1e6), 2e-4, 1e-12); /* one after the other */
    /* Two ranks share the device: its time is the oracle's business, its memory and its host's are halved. */
    pdl_system_t wide = pdl_system_widen(system, 2 * system->pe_count);
    CHECK_NEAR(wide.device.sharers, 2, 0);
    CHECK_NEAR(wide.device.memory_bytes, system->device.memory_bytes / 2, 1e-15);
    CHECK_NEAR(wide.device.host_bytes, 2e9, 1e-15);
    CHECK_NEAR(wide.level[0].latency_s, system->level[0].latency_s + 2 * 1e-4, 1e-12); /* a turn of each */
    pdl_system_destroy(system);
    CHECK_REFUSED(HEAD DEVICE "  host_bandwidth: 1GB/s\n  host_link: {d2h: 1GB/s}\n" LEVELS, "leave one out");
    CHECK_REFUSED(HEAD DEVICE "  host_link: {both: 1GB/s}\n" LEVELS, "d2h or h2d is missing");
    CHECK_REFUSED(HEAD DEVICE "  host_link: {d2h: 0GB/s}\n" LEVELS, "d2h must be");
    CHECK_REFUSED(HEAD DEVICE "  host_link:\n    d2h: 1GB/s\n    by_size:\n      - {bytes: 2, d2h: 1GB/s}\n"
                              "      - {bytes: 2, d2h: 1GB/s}\n" LEVELS,
                  "must grow");
    CHECK_REFUSED(HEAD DEVICE LEVELS "backend: opencl\n", "opencl");
}

/* What earlier versions measured was measured on processor cores. */
static void measured_layers_mean_the_cpu(void)
{
    const pdl_system_t *system =
        read_text(HEAD DEVICE LEVELS "measured:\n"
                                     "  - {layer: relu, work: [1, 1], seconds: [1, 1]}\n"
                                     "  - {layer: relu, precision: bf16, work: [1, 1], seconds: [1, 1]}\n");

    if (system == NULL) return;
    CHECK_STR(system->backend, "cpu");
    CHECK_INT(system->measured[0].precision, PDL_FP32);
    CHECK_INT(system->measured[1].precision, PDL_BF16);
    pdl_system_destroy(system);
}

static void mistakes_in_levels_are_named(void)
{
    CHECK_REFUSED(HEAD DEVICE, "levels are missing");
    CHECK_REFUSED(HEAD DEVICE "levels: []\n", "toy.yaml:8: at least one level");
    CHECK_REFUSED(HEAD DEVICE "levels: 4\n", "toy.yaml:8:");
    CHECK_REFUSED(HEAD DEVICE "levels:\n  - {fanout: 4, bandwidth: 1GB/s, latency: 1us}\n", "name");
    CHECK_REFUSED(HEAD DEVICE "levels:\n  - {name: n, fanout: 0, bandwidth: 1GB/s, latency: 1us}\n", "toy.yaml:9:");
    CHECK_REFUSED(HEAD DEVICE "levels:\n  - {name: n, fanout: 4, bandwidth: 0GB/s, latency: 1us}\n",
                  "toy.yaml:9: bandwidth must be at least 1");
    CHECK_REFUSED(HEAD DEVICE "levels:\n  - {name: n, fanout: 4, bandwidth: 1e30, latency: 1us}\n",
                  "at most 1e+18");
    CHECK_REFUSED(HEAD DEVICE "levels:\n  - {name: n, fanout: 4, latency: 1us}\n", "bandwidth");
    CHECK_REFUSED(HEAD DEVICE "levels:\n  - {name: n, fanout: 4, bandwidth: 1GB/s}\n", "latency");
    CHECK_REFUSED(HEAD DEVICE "levels:\n  - name: n\n    fanout: 4\n    bandwidth: 1GB/s\n    latency: 1us\n"
                              "    oversubscription: 0.5\n",
                  "toy.yaml:13: oversubscription must be at least 1");
    CHECK_REFUSED(HEAD DEVICE "levels:\n  - {name: n, fanout: 4, bandwidth: 1GB/s, latency: 1us, ports: 0}\n",
                  "ports must be at least 1");
    CHECK_REFUSED(HEAD DEVICE "levels:\n  - {name: n, fanout: 4, bandwidth: 1GB/s, latency: 1us, lanes: 4}\n",
                  "lanes");
    CHECK_REFUSED(HEAD DEVICE "levels:\n"
                              "  - {name: a, fanout: 2000000000, bandwidth: 1GB/s, latency: 1us}\n"
                              "  - {name: b, fanout: 2000000000, bandwidth: 1GB/s, latency: 1us}\n"
                              "  - {name: c, fanout: 2000000000, bandwidth: 1GB/s, latency: 1us, ports: 1}\n",
                  "toy.yaml:11: the fanouts up to level c");
    CHECK_REFUSED(HEAD DEVICE "levels:\n"
                              "  - {name: a, fanout: 2, bandwidth: 1GB/s, latency: 1us}\n"
                              "  - {name: b, fanout: 2000000000, bandwidth: 1GB/s, latency: 1us}\n"
                              "  - {name: c, fanout: 2, bandwidth: 1GB/s, latency: 1us}\n",
                  "give ports");
    CHECK_REFUSED(HEAD DEVICE LEVELS "host_path:\n  - {name: rack, bandwidth: 1GB/s, latency: 1us}\n",
                  "toy.yaml:11:");
    CHECK_REFUSED(HEAD DEVICE LEVELS "host_path:\n  - {name: node, bandwidth: 1GB/s, latency: 1us}\n"
                                     "  - {name: node, bandwidth: 1GB/s, latency: 1us}\n",
                  "more entries");
}

static void too_many_levels_are_refused(void)
{
    char text[4096] = HEAD DEVICE "levels:\n";

    for (int i = 0; i <= PDL_MAX_LEVELS; i++)
        strcat(text, "  - {name: n, fanout: 1, bandwidth: 1GB/s, latency: 1us, ports: 1}\n");
    CHECK_REFUSED(text, "at most 8 levels");
}

static void mistakes_in_the_rest_are_named(void)
{
    CHECK_REFUSED("paradl: model/1\nname: toy\n", "system");
    CHECK_REFUSED("- 1\n", "toy.yaml:1:");
    CHECK_REFUSED(HEAD LEVELS, "device is missing");
    CHECK_REFUSED("paradl: system/1\n" DEVICE LEVELS, "name");
    CHECK_REFUSED(HEAD "color: red\n" DEVICE LEVELS, "toy.yaml:3:");
    CHECK_REFUSED(HEAD DEVICE "  cores: 4\n" LEVELS, "toy.yaml:8:");
    CHECK_REFUSED(HEAD DEVICE "  matrix_efficiency: 1.5\n" LEVELS, "toy.yaml:8: matrix_efficiency is a share");
    CHECK_REFUSED(HEAD DEVICE "  compute_units: 0\n" LEVELS, "toy.yaml:8:");
    CHECK_REFUSED(HEAD DEVICE "  reserved: 16GB\n" LEVELS, "toy.yaml:8: reserved leaves no memory");
    CHECK_REFUSED(HEAD DEVICE "  launch: 5GB\n" LEVELS, "toy.yaml:8:");
    CHECK_REFUSED(HEAD "device: {name: c, memory: 1GB, memory_bandwidth: 1GB/s}\n" LEVELS, "peak is missing");
    CHECK_REFUSED(HEAD "device: {name: c, memory: 0, memory_bandwidth: 1GB/s, peak: {fp32: 1TFLOP/s}}\n" LEVELS,
                  "memory must be greater than 0");
    CHECK_REFUSED(HEAD "device: {name: c, memory: 1GB, memory_bandwidth: 1GB/s, peak: {fp16: 1TFLOP/s}}\n" LEVELS,
                  "fp32 is missing");
    CHECK_REFUSED(HEAD "device: {name: c, memory: 1GB, memory_bandwidth: 1GB/s, peak: {fp33: 1TFLOP/s}}\n" LEVELS,
                  "fp33");
    CHECK_REFUSED(HEAD "device: {name: c, memory: 40, memory_bandwidth: 1GB/s, peak: {fp32: 1TFLOP/s}}\n" LEVELS,
                  "memory is 40 bytes: write its unit, such as 40GB");
    CHECK_REFUSED(HEAD DEVICE "levels: [{name: node, fanout: 2, bandwidth: 1GB/s, latency: 3}]\n",
                  "latency is 3 seconds: write its unit, such as 3us");
    CHECK_REFUSED(HEAD DEVICE "levels: [{name: node, fanout: 2, bandwidth: 25, latency: 3us}]\n",
                  "bandwidth is 25 bytes per second: write its unit, such as 25GB/s");
    CHECK_REFUSED(HEAD DEVICE LEVELS "storage: {speed: 1GB/s}\n", "speed");
    CHECK_REFUSED(HEAD DEVICE LEVELS "storage: fast\n", "toy.yaml:10:");
    CHECK_REFUSED(HEAD DEVICE LEVELS "storage: {local: 1TB}\n", "toy.yaml:10:");
    CHECK_REFUSED(HEAD DEVICE LEVELS "storage: {local: {capacity: 0}}\n", "capacity");
    CHECK_REFUSED(HEAD DEVICE LEVELS "storage: {shared: {efficiency: 2}}\n", "efficiency");
    CHECK_REFUSED(HEAD DEVICE LEVELS "storage: {shared: {speed: 2}}\n", "speed");
}

static void unknown_names_are_refused(void)
{
    const pdl_system_t *system = NULL;

    CHECK_ERROR(pdl_system_load("no-such-machine", &system), "no-such-machine");
    CHECK_ERROR(pdl_system_load("./no-such-file.yaml", &system), "no-such-file.yaml");
    pdl_system_destroy(NULL);
}

int main(void)
{
    RUN(a_short_file_is_enough);
    RUN(everything_that_can_be_said_is_read);
    RUN(the_link_to_the_host_is_read);
    RUN(measured_layers_mean_the_cpu);
    RUN(mistakes_in_levels_are_named);
    RUN(too_many_levels_are_refused);
    RUN(mistakes_in_the_rest_are_named);
    RUN(unknown_names_are_refused);
    return test_done();
}
