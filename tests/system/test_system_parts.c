/*
 * Machines whose nodes have different devices: what is read, which rank has which device, and mistakes with file and line.
 */
#include "test.h"

#include <paradl/system/system.h>

#define HEAD "paradl: system/1\nname: toy\n"
#define FAST                                                                                                  \
    "{name: fast, memory: 32GB, memory_bandwidth: 900GB/s, peak: {fp32: 10TFLOP/s, fp16: 80TFLOP/s}, power: " \
    "300W, reserved: 1GB}"
#define SLOW \
    "{name: slow, memory: 16GB, memory_bandwidth: 400GB/s, peak: {fp32: 5TFLOP/s}, launch: 9us, power: 200W}"
#define LEVELS "levels:\n  - {name: node, fanout: 4, bandwidth: 50GB/s, latency: 9us}\n"
#define NODES  "  - {name: all, fanout: 3, bandwidth: 10GB/s, latency: 9us}\n"
#define PARTS  "devices:\n  - {name: a, nodes: 1, device: " FAST "}\n  - {name: b, nodes: 2, device: " SLOW "}\n"

static const pdl_system_t *read_text(const char *text)
{
    const pdl_system_t *system = NULL;

    REQUIRE_OK(pdl_system_read_memory(text, strlen(text), "toy.yaml", &system));
    return system;
}

static void parts_are_read(void)
{
    const pdl_system_t *system = read_text(HEAD PARTS LEVELS NODES "cost_per_pe_hour: 2\n");

    CHECK_INT(system->part_count, 2);
    CHECK_STR(system->part[1].name, "b");
    CHECK_STR(system->part[1].device.name, "slow");
    CHECK_INT(system->part[1].nodes, 2);
    CHECK_INT(system->part[1].kind, 1);
    CHECK_STR(system->device.name, "fast + slow");
    CHECK_NEAR(system->device.memory_bytes, 16e9, 0);
    CHECK_NEAR(system->device.peak_flop_per_s[PDL_FP16], 0, 0);
    CHECK_NEAR(system->device.launch_s, 9e-6, 0);
    CHECK_NEAR(system->device.reserved_bytes, 0, 0);
    CHECK_OK(pdl_system_check_precision(system, PDL_FP32));
    CHECK_ERROR(pdl_system_check_precision(system, PDL_FP16), "slow, a device of toy, does not compute in fp16");
    CHECK_ERROR(pdl_system_check_devices(system, 13), "give its parts more nodes");
    pdl_system_destroy(system);
}

/* A device with less memory may leave more of it free. */
static void something_is_left_of_the_weakest(void)
{
    const pdl_system_t *system = read_text(HEAD "devices:\n  - {name: a, nodes: 1, device: {name: a, memory: 10GB, "
                                                "memory_bandwidth: 1GB/s, peak: {fp32: 1TFLOP/s}}}\n"
                                                "  - {name: b, nodes: 2, device: {name: b, memory: 30GB, "
                                                "memory_bandwidth: 1GB/s, peak: {fp32: 1TFLOP/s}, reserved: "
                                                "25GB}}\n" LEVELS NODES);

    CHECK_NEAR(system->device.memory_bytes, 10e9, 0);
    CHECK_NEAR(system->device.reserved_bytes, 5e9, 0);
    pdl_system_destroy(system);
}

/* Four fast devices, then eight slow ones; or the other way round. */
static void ranks_are_on_parts(void)
{
    const pdl_system_t *system = read_text(HEAD PARTS LEVELS NODES);
    int64_t             count[PDL_MAX_PARTS];
    int                 order[PDL_MAX_PARTS];

    CHECK_INT(pdl_system_orders(system), 2);
    pdl_system_order(system, 1, order);
    CHECK_INT(order[0], 1);
    CHECK_INT(order[1], 0);
    /* Three stages outermost: one of them is fast; as the innermost axis all are on both. */
    for (int s = 0; s < 3; s++) {
        CHECK_INT(pdl_system_kinds(system, 0, 12, 3, 4, s), s == 0 ? 1 : 2);
        CHECK_INT(pdl_system_kinds(system, 1, 12, 3, 4, s), s == 2 ? 1 : 2);
        CHECK_INT(pdl_system_kinds(system, 0, 12, 3, 1, s), 3);
        CHECK_INT(pdl_system_kinds(system, 0, 12, 3, 2, s), s == 2 ? 2 : 3);
    }
    CHECK_INT(pdl_system_kinds(system, 0, 12, 2, 6, 0), 3);
    CHECK_INT(pdl_system_kinds(system, 0, 12, 2, 6, 1), 2);
    CHECK_INT(pdl_system_kinds(system, 0, 4, 1, 1, 0), 1);
    CHECK_INT(pdl_system_kinds(system, 1, 4, 1, 1, 0), 2);
    pdl_system_count_kinds(system, 1, 10, count);
    CHECK_INT(count[0], 2);
    CHECK_INT(count[1], 8);
    CHECK_NEAR(pdl_system_peak(system, 0, 12, PDL_FP32), (4 * 10e12 + 8 * 5e12) / 12, 1e-12);
    CHECK_NEAR(pdl_system_price(system, 0, 12), 0, 0);
    pdl_system_destroy(system);
}

/* Against ranks that are looked at one by one. */
static void stages_by_the_rank(void)
{
    const pdl_system_t *system = read_text(HEAD PARTS LEVELS NODES);

    for (int stages = 1; stages <= 12; stages++)
        for (int stride = 1; stages * stride <= 12; stride++)
            for (int order = 0; order < 2 && 12 % (stages * stride) == 0; order++)
                for (int s = 0; s < stages; s++) {
                    unsigned kinds = 0;
                    for (int r = 0; r < 12; r++)
                        if (r / stride % stages == s) kinds |= (order == 0 ? r < 4 : r >= 8) ? 1 : 2;
                    CHECK_INT(pdl_system_kinds(system, order, 12, stages, stride, s), kinds);
                }
    pdl_system_destroy(system);
}

static void every_order_is_another(void)
{
    const pdl_system_t *system = read_text(
        HEAD "devices:\n  - {name: a, nodes: 1, device: " FAST "}\n  - {name: b, nodes: 2, device: " SLOW
             "}\n  - {name: c, nodes: 1, device: " FAST "}\n  - {name: d, nodes: 1, system: dgx-v100}\n" LEVELS
             "  - {name: all, fanout: 5, bandwidth: 10GB/s, latency: 9us}\n");
    bool seen[256] = {false};

    CHECK_INT(pdl_system_orders(system), 24);
    CHECK_INT(system->part[2].kind, 0);
    CHECK_STR(system->part[3].device.name, "NVIDIA V100 SXM2 32 GB");
    for (int n = 0; n < 24; n++) {
        int  order[PDL_MAX_PARTS], number = -1, digits = 0;
        char names[PDL_MAX_PARTS][PDL_PART_NAME] = {{0}};

        pdl_system_order(system, n, order);
        for (int i = 0; i < 4; i++) {
            digits = 4 * digits + order[i];
            names[i][0] = system->part[order[i]].name[0];
        }
        CHECK(!seen[digits]);
        seen[digits] = true;
        CHECK_OK(pdl_system_find_order(system, (const char(*)[PDL_PART_NAME])names, 4, &number));
        CHECK_INT(number, n);
    }
    pdl_system_destroy(system);
}

static void names_of_a_plan_are_found(void)
{
    static const char   good[2][PDL_PART_NAME] = {"b", "a"}, twice[2][PDL_PART_NAME] = {"a", "a"};
    const pdl_system_t *system = read_text(HEAD PARTS LEVELS NODES), *plain = NULL;
    int                 number = -1;

    CHECK_OK(pdl_system_find_order(system, good, 2, &number));
    CHECK_INT(number, 1);
    CHECK_OK(pdl_system_find_order(system, good, 0, &number));
    CHECK_INT(number, 0);
    CHECK_ERROR(pdl_system_find_order(system, twice, 2, &number), "it has a, b");
    CHECK_ERROR(pdl_system_find_order(system, good, 1, &number), "are not those of toy, each once");
    /* Where all devices are alike it does not matter what a plan calls them. */
    REQUIRE_OK(pdl_system_load("dgx-v100", &plain));
    CHECK_OK(pdl_system_find_order(plain, twice, 2, &number));
    CHECK_INT(number, 0);
    pdl_system_destroy(plain);
    pdl_system_destroy(system);
}

static void devices_are_shared_by_the_weakest(void)
{
    const pdl_system_t *system = read_text(HEAD PARTS LEVELS NODES);
    pdl_system_t        wide = pdl_system_widen(system, 24);

    CHECK_INT(wide.part_count, 0);
    CHECK_NEAR(wide.device.memory_bytes, 16e9, 0);
    CHECK_INT(pdl_system_widen(system, 12).part_count, 2);
    pdl_system_destroy(system);
}

static void check_error(int line, const char *text, const char *part)
{
    const pdl_system_t *system = NULL;
    pdl_status_t        st = pdl_system_read_memory(text, strlen(text), "toy.yaml", &system);

    test_error(__FILE__, line, "reading", st, part);
    CHECK(strncmp(pdl_error_message(), "toy.yaml:", 9) == 0);
    CHECK(strchr(pdl_error_message(), '\n') == NULL);
    if (st == PDL_OK) pdl_system_destroy(system);
}
#define CHECK_REFUSED(text, part) check_error(__LINE__, text, part)
#define PART(text)                HEAD "devices:\n  - " text "\n" LEVELS

static void mistakes_are_named(void)
{
    CHECK_REFUSED(PART("{name: a, nodes: 0, device: " FAST "}"), "nodes");
    CHECK_REFUSED(PART("{name: a, device: " FAST "}"), "nodes");
    CHECK_REFUSED(PART("{nodes: 1, device: " FAST "}"), "name");
    CHECK_REFUSED(PART("{name: '', nodes: 1, device: " FAST "}"), "expected 1 to 31 letters, digits and .-+_");
    CHECK_REFUSED(PART("{name: \"a\\nb\", nodes: 1, device: " FAST "}"), "expected 1 to 31 letters");
    CHECK_REFUSED(PART("{name: a100-with-a-name-that-is-too-long, nodes: 1, device: " FAST "}"),
                  "expected 1 to 31");
    CHECK_REFUSED(PART("{name: a, nodes: 1}"), "needs either device, or system");
    CHECK_REFUSED(PART("{name: a, nodes: 1, system: selene, device: " FAST "}"), "needs either device, or system");
    CHECK_REFUSED(PART("{name: a, nodes: 1, system: selen}"), "selene");
    CHECK_REFUSED(PART("{name: a, nodes: 1, system: a100-v100}"), "has several kinds of devices itself");
    CHECK_REFUSED(PART("{name: a, nodes: 1, device: {name: x}}"), "memory");
    CHECK_REFUSED(PART("{name: a, nodes: 1, colour: red, device: " FAST "}"), "colour");
    CHECK_REFUSED(PART("a"), "a part such as");
    CHECK_REFUSED(HEAD "devices: 3\n" LEVELS, "a list of parts");
    CHECK_REFUSED(HEAD "devices: []\n" LEVELS, "expected 1 to 4 parts");
    CHECK_REFUSED(HEAD PARTS LEVELS, "the parts have 3 nodes, but the levels join 1");
    CHECK_REFUSED(PART("{name: a, nodes: 9223372036854775807, device: " FAST "}"), "nodes");
    CHECK_REFUSED(HEAD "devices:\n  - {name: a, nodes: 1, device: " FAST "}\n  - {name: a, nodes: 2, device: " SLOW
                       "}\n" LEVELS NODES,
                  "two parts are called a");
    CHECK_REFUSED(HEAD PARTS "device: " FAST "\n" LEVELS NODES, "device has no place beside devices");
    CHECK_REFUSED(HEAD PARTS "network: {topology: torus, shape: [3]}\n" LEVELS NODES,
                  "network has no place beside devices");
    CHECK_REFUSED(HEAD PARTS "backend: cuda\n" LEVELS NODES, "backend has no place beside devices");
    CHECK_REFUSED(HEAD LEVELS, "device is missing");
}

int main(void)
{
    RUN(parts_are_read);
    RUN(something_is_left_of_the_weakest);
    RUN(ranks_are_on_parts);
    RUN(stages_by_the_rank);
    RUN(every_order_is_another);
    RUN(names_of_a_plan_are_found);
    RUN(devices_are_shared_by_the_weakest);
    RUN(mistakes_are_named);
    return test_done();
}
