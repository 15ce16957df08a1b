/*
 * What data policies cost and save: closed forms against numbers computed by hand, and whole epochs on a small machine
 * whose every number is known.
 */
#include "bench.h"

#include <paradl/oracle/data_policy.h>

/* Nodes of 2 devices behind a link of 1 GB/s, four nodes to a rack, racks behind 1 GB/s that four nodes share. */
static const char machine[] = "paradl: system/1\nname: toy\n"
                              "device: {name: x, memory: 16GB, memory_bandwidth: 1TB/s, peak: {fp32: 10TFLOP/s}}\n"
                              "levels:\n"
                              "  - {name: node, fanout: 2, bandwidth: 10GB/s, latency: 1us}\n"
                              "  - {name: rack, fanout: 4, bandwidth: 1GB/s, latency: 2us}\n"
                              "  - {name: machine, fanout: 2, bandwidth: 1GB/s, latency: 10us, ports: 1}\n"
                              "storage:\n"
                              "  node_bandwidth: 100MB/s\n"
                              "  decode_samples_per_s: 1000\n"
                              "  local: {bandwidth: 200MB/s, capacity: 1GB}\n"
                              "  shared: {client_bandwidth: 50MB/s, bandwidth: 400MB/s, efficiency: 0.5}\n";

static void reading(void)
{
    /* 1,281,167 samples of 110 kB: 140.93 GB. 16 clients of 1 GB/s: 8.808 s; at 10 GB/s for all: 14.093 s. */
    CHECK_NEAR(pdl_policy_read_seconds(1281167, 110e3, 16, 1e9, 0), 8.80802, 1e-6);
    CHECK_NEAR(pdl_policy_read_seconds(1281167, 110e3, 16, 1e9, 10e9), 14.092837, 1e-6);
    /* Beyond M client > shared the time no longer falls. */
    CHECK_NEAR(pdl_policy_read_seconds(1281167, 110e3, 1024, 1e9, 10e9), 14.092837, 1e-6);
    CHECK_NEAR(pdl_policy_read_seconds(1281167, 110e3, 8, 1e9, 10e9), 17.61604625, 1e-9);
    CHECK_NEAR(pdl_policy_read_seconds(100, 10, 4, 0, 0), 0, 0);
}

static void exchanging(void)
{
    CHECK_NEAR(pdl_policy_exchanged(0.1, 1281167, 4096), 31, 0); /* round(0.1 * 312) */
    CHECK_NEAR(pdl_policy_exchanged(0, 1000, 4), 0, 0);
    CHECK_NEAR(pdl_policy_exchanged(1, 1003, 4), 250, 0);
    /* 31 messages of 40 us and 3.41 MB at 1 GB/s. */
    CHECK_NEAR(pdl_policy_exchange_seconds(31, 40e-6, 31 * 110e3, 1e9), 4.65e-3, 1e-12);
    CHECK_NEAR(pdl_policy_stall_seconds(0.4, 4, 0.06), 0.04, 1e-12);
    CHECK_NEAR(pdl_policy_stall_seconds(0.4, 8, 0.06), 0, 0);
}

static void mixing(void)
{
    CHECK_NEAR(pdl_policy_seen(0.1, 512, 90), 0.0192, 3e-3);
    CHECK_NEAR(pdl_policy_seen(0, 512, 90), 1.0 / 512, 1e-12);
    CHECK_NEAR(pdl_policy_seen(0.5, 1, 90), 1, 1e-12);
    CHECK_NEAR(pdl_policy_seen(1, 2, 2), 0.75, 1e-12);
    CHECK_NEAR(pdl_policy_never_left(0.1, 90), 8.46e-5, 1e-3);
    CHECK_NEAR(pdl_policy_never_left(0, 90), 1, 0);
    CHECK_NEAR(pdl_policy_never_left(1, 2), 0, 0);
}

/* The table of published schedules: mean F_e, and two thirds of it in percent. */
static void hiding_schedules(void)
{
    static const struct {
        int64_t epochs, milestone[3];
        double  mean, bound;
    } rows[] = {{90, {30, 60, 80}, 0.2333, 15.6},
                {200, {60, 120, 160}, 0.2220, 14.8},
                {600, {200, 400, 600}, 0.2400, 16.0},
                {80, {30, 60, 80}, 0.2475, 16.5}};
    static const double factor[] = {1, 0.8, 0.6, 0.4};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double mean = pdl_hiding_mean(0.3, rows[i].epochs, rows[i].milestone, 3, factor);

        CHECK_NEAR(mean, rows[i].mean, 2.5e-4);
        CHECK_NEAR(100 * pdl_hiding_saving(1, 2, 0, 1024, mean, 0, 1), rows[i].bound, 4e-3);
    }
    CHECK_NEAR(pdl_hiding_mean(0.3, 10, NULL, 0, factor), 0.3, 1e-12);
    CHECK_NEAR(pdl_hiding_mean(0.3, 0, NULL, 0, factor), 0, 0);
    /* Milestones at 3/10, 6/10 and 8/10 give the share that plans assume. */
    int64_t thirds[] = {3, 6, 8};
    CHECK_NEAR(pdl_hiding_mean(1, 10, thirds, 3, factor), PDL_POLICY_HIDE_MEAN, 1e-12);
}

static void hiding_saves(void)
{
    /* By hand: f (t_b + t_c/B) / (t_f + t_b + t_c/B) = 0.3 * (2 + 1) / 4. */
    CHECK_NEAR(pdl_hiding_saving(1, 2, 10, 10, 0.3, 0, 1), 0.225, 1e-12);
    CHECK_NEAR(pdl_hiding_saving(1, 2, 10, 10, 0.3, 0.02, 1), 0.22, 1e-12);
    CHECK_NEAR(pdl_hiding_saving(1, 2, 1e9, 1, 0.3, 0, 1), 0.3, 1e-6); /* expensive exchange: nearly f */
    /* Refreshed every k-th epoch: (1 - 1/(3k)) f; never: f. */
    CHECK_NEAR(pdl_hiding_saving(1, 2, 0, 1, 0.3, 0, 4), 0.3 * (1 - 1.0 / 12), 1e-12);
    CHECK_NEAR(pdl_hiding_saving(1, 2, 0, 1, 0.3, 0, 0), 0.3, 1e-12);
    CHECK_NEAR(pdl_hiding_saving(1, 2, 0, 1, 0, 0.03, 1), -0.01, 1e-12);
    CHECK_NEAR(pdl_hiding_saving(0, 0, 0, 1, 0.3, 0, 1), 0, 0);
}

static const pdl_system_t *toy(void)
{
    const pdl_system_t *system = NULL;

    CHECK_OK(pdl_system_read_memory(machine, sizeof(machine) - 1, "toy.yaml", &system));
    return system;
}

static void rates(void)
{
    const pdl_system_t *system = toy();
    pdl_parameters_t    p = simple();

    CHECK(isinf(pdl_policy_exchange_rate(system, &p, 16, 1)));
    /* Two in a node: each to the other, at the speed of its link. */
    CHECK_NEAR(pdl_policy_exchange_rate(system, &p, 2, 2), 10e9, 1e-12);
    /* A rack: of the 2 in a node, 6/7 of what they send leaves by 1 GB/s. */
    CHECK_NEAR(pdl_policy_exchange_rate(system, &p, 8, 8), 1e9 / (2 * 6.0 / 7), 1e-12);
    /* Both racks: of 8, 8/15 leaves by 1 GB/s. */
    CHECK_NEAR(pdl_policy_exchange_rate(system, &p, 16, 16), 1e9 / (8 * 8.0 / 15), 1e-12);
    /* One worker a node: four in a rack, 4/7 leaves. */
    CHECK_NEAR(pdl_policy_exchange_rate(system, &p, 16, 8), 1e9 / (4 * 4.0 / 7), 1e-12);
    p.network_efficiency = 0.5;
    CHECK_NEAR(pdl_policy_exchange_rate(system, &p, 8, 8), 0.5e9 / (2 * 6.0 / 7), 1e-12);
    pdl_system_destroy(system);
}

/* An iteration of 128 samples on 16 devices: 100 ms forward, 200 ms backward, 50 ms gradients, 10 ms update. */
typedef struct epoch {
    const pdl_system_t     *system;
    bench_t                 b;
    pdl_dataset_t           dataset;
    pdl_projection_t        projection;
    pdl_policy_question_t   question;
    pdl_policy_projection_t answer;
} epoch_t;

static void start(epoch_t *e)
{
    memset(e, 0, sizeof(*e));
    e->system = toy();
    e->b = begin("lenet", e->system, simple());
    snprintf(e->dataset.name, sizeof(e->dataset.name), "made up");
    e->dataset.samples = 12800;
    e->dataset.bytes_per_sample = 1e6;
    e->projection.forward_s = 0.1;
    e->projection.backward_s = 0.2;
    e->projection.update_s = 0.01;
    e->projection.comm[PDL_COMM_GRADIENT] = 0.05;
    e->question = (pdl_policy_question_t){
        .dataset = &e->dataset, .pe = 16, .workers = 16, .batch = 128, .projection = &e->projection};
}

static const pdl_policy_projection_t *ask(epoch_t *e, const char *policy)
{
    CHECK_OK(pdl_data_policy_parse(policy, &e->question.policy));
    CHECK_OK(pdl_oracle_policy(e->b.oracle, &e->question, &e->answer));
    return &e->answer;
}

static void stop(epoch_t *e)
{
    end(&e->b);
    pdl_system_destroy(e->system);
}

static void epochs_global_and_local(void)
{
    epoch_t                        e;
    const pdl_policy_projection_t *p;

    start(&e);
    /* 12.8 GB: eight clients of 25 MB/s have as much as the file system's 200 MB/s: 64 s; 36 s are hidden. */
    p = ask(&e, "global");
    CHECK_NEAR(p->iterations, 100, 0);
    CHECK_NEAR(p->pass_s, 30, 1e-12);
    CHECK_NEAR(p->sync_s, 6, 1e-12);
    CHECK_NEAR(p->read_s, 64, 1e-12);
    CHECK_NEAR(p->io_s, 28, 1e-12);
    CHECK_NEAR(p->epoch_s, 64, 1e-12);
    CHECK(!p->shared_limits && p->fits);
    CHECK_NEAR(p->stored_share, 0, 0);
    CHECK_NEAR(p->seen, 1 - pow(15.0 / 16, 90), 1e-9);
    /* A copy on every node is read at 1.6 GB/s together, but does not fit. */
    p = ask(&e, "global,store:local");
    CHECK_NEAR(p->read_s, 8, 1e-12);
    CHECK_NEAR(p->epoch_s, 36, 1e-12);
    CHECK(!p->fits);
    CHECK_NEAR(p->node_bytes, 12.8e9, 1e-12);
    /* Two workers a node with 800 samples each do not fit in 1 GB either; with ten times smaller samples they do. */
    p = ask(&e, "local");
    CHECK_NEAR(p->node_bytes, 1.6e9, 1e-12);
    CHECK(!p->fits);
    e.dataset.bytes_per_sample = 1e5;
    p = ask(&e, "local");
    CHECK(p->fits);
    CHECK_NEAR(p->stored_share, 1.0 / 16, 1e-12);
    CHECK_NEAR(p->epoch_s, 36, 1e-12);
    CHECK_NEAR(p->exchange_s, 0, 0);
    CHECK_NEAR(p->never_left, 1, 0);
    /* Decoding may be slower than reading. */
    e.projection.staging_s = 0.5;
    p = ask(&e, "local");
    CHECK_NEAR(p->input_s, 50, 1e-12);
    CHECK_NEAR(p->io_s, 14, 1e-12);
    stop(&e);
}

static void epochs_with_exchange(void)
{
    epoch_t                        e;
    const pdl_policy_projection_t *p;
    double                         rate = 1e9 / (8 * 8.0 / 15);

    start(&e);
    /* 80 samples of 1 MB a worker, 10 us each to start; a hundredth of it a slice, of which the last one shows. */
    p = ask(&e, "partial:0.1");
    CHECK_NEAR(p->exchange_samples, 80, 0);
    CHECK_NEAR(p->exchange_bytes, 80e6, 0);
    CHECK_NEAR(p->exchange_total_s, 80 * 10e-6 + 80e6 / rate, 1e-12);
    CHECK_NEAR(p->stall_s, 0, 0);
    CHECK_NEAR(p->exchange_s, p->exchange_total_s / 100, 1e-12);
    CHECK_NEAR(p->stored_share, 1.1 / 16, 1e-12);
    CHECK_NEAR(p->epoch_s, 36 + p->io_s + p->exchange_s, 1e-12);
    /* A slow network: 80 MB at 1 MB/s take 80 s, 0.8 s a slice behind passes of 0.3 s. */
    e.question.exchange_bytes_per_s = 1e6;
    p = ask(&e, "partial:0.1");
    CHECK_NEAR(p->stall_s, (80 + 8e-4) / 100 - 0.3, 1e-9);
    CHECK_NEAR(p->exchange_s, 100 * p->stall_s + p->exchange_total_s / 100, 1e-12);
    /* In pairs there is one message, after the scores: four steps and 64 bytes. */
    e.question.exchange_bytes_per_s = 1e9;
    p = ask(&e, "paired:0.1");
    CHECK_NEAR(p->exchange_total_s, 5 * 10e-6 + (80e6 + 64) / 1e9, 1e-9);
    /* Nothing to exchange: as local. One worker: nobody to exchange with. */
    p = ask(&e, "partial:0");
    CHECK_NEAR(p->exchange_s, 0, 0);
    e.question.workers = 1;
    p = ask(&e, "partial:0.5");
    CHECK_NEAR(p->exchange_s, 0, 0);
    CHECK_NEAR(p->seen, 1, 1e-12);
    stop(&e);
}

static void epochs_with_hiding(void)
{
    epoch_t                        e;
    const pdl_policy_projection_t *p;

    start(&e);
    e.dataset.bytes_per_sample = 1e4;
    e.question.exchange_bytes_per_s = 1e9;
    p = ask(&e, "local,hide:0.4,mean:0.25");
    /* Selection: 800 samples of 15 ns, four steps of 10 us, 6 bytes of each sample at 1 GB/s. */
    double select_s = 800 * 15e-9 + 4 * 10e-6 + 6 * 12800 / 1e9;
    CHECK_NEAR(p->select_s, select_s, 1e-9);
    CHECK_NEAR(p->iterations, 75, 1e-12);
    CHECK_NEAR(p->pass_s, 75 * 0.3 + 25 * 0.1, 1e-12);
    CHECK_NEAR(p->sync_s, 75 * 0.06, 1e-12);
    CHECK_NEAR(p->epoch_s, 29.5 + select_s, 1e-12);
    /* What the closed form of the saving says is what the parts add up to. */
    CHECK_NEAR(p->epoch_s, 36 * (1 - p->saving), 1e-9);
    /* Never refreshed, they are not read either. */
    p = ask(&e, "local,hide:0.4,mean:0.25,refresh:0");
    CHECK_NEAR(p->pass_s, 75 * 0.3, 1e-12);
    CHECK_NEAR(p->read_s, 0.75 * 12800 * 1e4 / 8 / 200e6, 1e-12);
    CHECK_NEAR(p->epoch_s, 36 * (1 - p->saving), 1e-9);
    /* Exchanges inside layers and the bubble are half forward. */
    e.projection.comm[PDL_COMM_LAYER] = 0.02;
    e.projection.bubble_s = 0.04;
    p = ask(&e, "local,hide:0.4,mean:0.25");
    CHECK_NEAR(p->pass_s, 75 * 0.36 + 25 * 0.13, 1e-12);
    stop(&e);
}

static void check_refused(epoch_t *e, pdl_status_t status, const char *part)
{
    pdl_status_t got = pdl_oracle_policy(e->b.oracle, &e->question, &e->answer);

    CHECK_ERROR(got, part);
    CHECK_INT(got, status);
}

static void refuses(void)
{
    epoch_t e;

    start(&e);
    ask(&e, "local,hide:0.99");
    e.question.policy.hide = 0.995;
    check_refused(&e, PDL_ERR_LIMIT, "leaves less than one batch");
    e.question.policy.hide = 1.5;
    check_refused(&e, PDL_ERR_INPUT, "expected 0 to 1");
    e.question.policy.hide = e.question.policy.hide_mean = 0;
    e.question.pe = e.question.workers = 12801;
    check_refused(&e, PDL_ERR_LIMIT, "has only 12800 samples");
    e.question.pe = 1;
    check_refused(&e, PDL_ERR_INPUT, "needs a device");
    e.dataset.samples = 0;
    check_refused(&e, PDL_ERR_INPUT, "known size");
    e.question.dataset = NULL;
    check_refused(&e, PDL_ERR_INPUT, "known size");
    stop(&e);
}

/* ImageNet on 4,096 workers: the stored share of the publication. */
static void storage_at_scale(void)
{
    const pdl_system_t     *system;
    pdl_policy_projection_t out;
    pdl_projection_t        projection = {.forward_s = 0.03, .backward_s = 0.06};
    pdl_dataset_t           imagenet;
    bench_t                 b;

    REQUIRE_OK(pdl_system_load("abci-v", &system));
    REQUIRE_OK(pdl_dataset_load("imagenet", &imagenet));
    b = begin("lenet", system, simple());
    pdl_policy_question_t question = {
        .dataset = &imagenet, .pe = 4096, .workers = 4096, .batch = 131072, .projection = &projection};
    CHECK_OK(pdl_data_policy_parse("partial:0.1", &question.policy));
    CHECK_OK(pdl_oracle_policy(b.oracle, &question, &out));
    CHECK_NEAR(100 * out.stored_share, 0.027, 6e-3);
    CHECK_NEAR(out.exchange_samples, 31, 0);
    CHECK_NEAR(out.capacity_bytes, 1.6e12, 0);
    CHECK(out.fits);
    end(&b);
    pdl_system_destroy(system);
}

static void lists_and_explains(void)
{
    pdl_data_policy_t list[PDL_POLICY_LIST_COUNT];
    char              text[4096], name[PDL_POLICY_TEXT_SIZE];
    epoch_t           e;
    pdl_policy_row_t  base, row;

    pdl_policy_list(list);
    for (int i = 0; i < PDL_POLICY_LIST_COUNT; i++) CHECK_OK(pdl_data_policy_check(&list[i]));
    CHECK_STR(pdl_data_policy_format(&list[4], name), "partial:0.1");
    CHECK_STR(pdl_data_policy_format(&list[13], name), "paired:0.1,hide:0.3");
    start(&e);
    base.projection = *ask(&e, "global");
    base.policy = e.question.policy;
    row.projection = *ask(&e, "partial:0.1,hide:0.3");
    row.policy = e.question.policy;
    pdl_policy_explain(&row, &base, text, sizeof(text));
    CHECK(strstr(text, "reading: ") && strstr(text, "exchange: ") && strstr(text, "hiding: "));
    CHECK(strstr(text, "storage: ") && strstr(text, "mixing: ") && strstr(text, "more than it holds"));
    pdl_policy_explain(&row, &base, text, 10); /* what does not fit is left out */
    CHECK(strlen(text) == 9);
    stop(&e);
}

int main(void)
{
    RUN(reading);
    RUN(exchanging);
    RUN(mixing);
    RUN(hiding_schedules);
    RUN(hiding_saves);
    RUN(rates);
    RUN(epochs_global_and_local);
    RUN(epochs_with_exchange);
    RUN(epochs_with_hiding);
    RUN(refuses);
    RUN(storage_at_scale);
    RUN(lists_and_explains);
    return test_done();
}
