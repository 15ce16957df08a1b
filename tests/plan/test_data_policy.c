/*
 * Data policies: what the text means, what is refused, and that a plan file keeps them.
 */
#include "test.h"

#include <paradl/plan/plan.h>

#include <stdlib.h>

#define HEAD "paradl: plan/1\nmodel: lenet\ndata: {batch: 64}\nstrategy: data\nmesh: [{data: 4}]\n"

static void check_refused(const char *text, const char *part)
{
    pdl_data_policy_t policy = {.hide = 42};

    CHECK_ERROR(pdl_data_policy_parse(text, &policy), part);
    CHECK_NEAR(policy.hide, 42, 0); /* written only on success */
}

static void reads_texts(void)
{
    pdl_data_policy_t p;

    CHECK_OK(pdl_data_policy_parse("global", &p));
    CHECK(p.given && p.shuffle == PDL_POLICY_GLOBAL && p.store == PDL_POLICY_PFS && p.refresh_every == 1);
    CHECK_NEAR(p.hide, 0, 0);
    CHECK_OK(pdl_data_policy_parse("global,store:local", &p));
    CHECK(p.store == PDL_POLICY_NODE);
    CHECK_OK(pdl_data_policy_parse("local", &p));
    CHECK(p.shuffle == PDL_POLICY_LOCAL && p.store == PDL_POLICY_NODE);
    CHECK_OK(pdl_data_policy_parse("partial:0.1,hide:0.3", &p));
    CHECK(p.shuffle == PDL_POLICY_PARTIAL);
    CHECK_NEAR(p.exchange, 0.1, 0);
    CHECK_NEAR(p.hide, 0.3, 0);
    CHECK_NEAR(p.hide_mean, 0.222, 1e-12);
    CHECK_OK(pdl_data_policy_parse("paired:1,refresh:4,hide:0.5,mean:0.2", &p));
    CHECK(p.shuffle == PDL_POLICY_PAIRED && p.refresh_every == 4);
    CHECK_NEAR(p.hide_mean, 0.2, 0);
    CHECK_OK(pdl_data_policy_parse("partial:0", &p));
}

static void formats_what_it_reads(void)
{
    static const char *const texts[] = {
        "global",       "global,store:local",   "local",
        "partial:0.03", "paired:0.1,hide:0.25", "local,hide:0.3,mean:0.1,refresh:0"};
    pdl_data_policy_t p;
    char              text[PDL_POLICY_TEXT_SIZE];

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        CHECK_OK(pdl_data_policy_parse(texts[i], &p));
        CHECK_STR(pdl_data_policy_format(&p, text), texts[i]);
    }
}

static void refuses_wrong_texts(void)
{
    char long_text[300];

    check_refused("", "unknown shuffling");
    check_refused("globl", "expected global, local, partial or paired");
    check_refused("partial", "such as partial:0.1");
    check_refused("partial:1.5", "from 0 to 1");
    check_refused("partial:-0.1", "from 0 to 1");
    check_refused("paired:nan", "from 0 to 1");
    check_refused("paired:", "from 0 to 1");
    check_refused("local:0.1", "takes no fraction");
    check_refused("local,hide:2", "from 0 to 1");
    check_refused("local,hide:-1", "from 0 to 1");
    check_refused("local,hide", "hide:F");
    check_refused("local,", "hide:F");
    check_refused("local,hide:0.1,mean:0.2", "mean hidden fraction of 0.2: expected 0 to 0.1");
    check_refused("local,refresh:-1", "number of epochs");
    check_refused("local,store:tape", "expected pfs or local");
    check_refused("local,store:pfs", "kept on the nodes");
    memset(long_text, 'x', sizeof(long_text));
    long_text[sizeof(long_text) - 1] = '\0';
    check_refused(long_text, "characters");
}

static pdl_status_t read_text(const char *text, pdl_plan_file_t *file)
{
    return pdl_plan_read_memory(text, strlen(text), "p.yaml", file);
}

static void survives_the_file(void)
{
    static const char *const texts[] = {"global",     "global,store:local,hide:0.3",
                                        "local",      "partial:0.0333333333333333,hide:0.3,mean:0.1,refresh:3",
                                        "paired:0.1", "partial:0"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        pdl_plan_file_t   file, again;
        char             *text = NULL;
        size_t            length;
        pdl_data_policy_t want;

        CHECK_OK(read_text(HEAD, &file));
        CHECK(!file.plan->data_policy.given);
        CHECK_OK(pdl_data_policy_parse(texts[i], &want));
        file.plan->data_policy = want;
        FILE *stream = open_memstream(&text, &length);
        CHECK_OK(pdl_plan_write(file.plan, NULL, NULL, NULL, NULL, stream));
        fclose(stream);
        CHECK_OK(read_text(text, &again));
        const pdl_data_policy_t *got = &again.plan->data_policy;
        CHECK(got->given && got->shuffle == want.shuffle && got->store == want.store);
        CHECK(got->exchange == want.exchange && got->hide == want.hide && got->hide_mean == want.hide_mean);
        CHECK(got->refresh_every == want.refresh_every);
        pdl_plan_file_free(&again);
        pdl_plan_file_free(&file);
        free(text);
    }
}

static void check_file_refused(const char *policy, const char *part)
{
    pdl_plan_file_t file;
    char            text[400];

    snprintf(text, sizeof(text), HEAD "data_policy: %s\n", policy);
    CHECK_ERROR(read_text(text, &file), part);
    CHECK(strstr(pdl_error_message(), "p.yaml:6") != NULL);
}

static void refuses_wrong_files(void)
{
    check_file_refused("{shuffle: some}", "some");
    check_file_refused("{hide: 0.3}", "shuffle");
    check_file_refused("global", "mapping");
    check_file_refused("{shuffle: partial}", "exchange");
    check_file_refused("{shuffle: partial, exchange: 1.01}", "from 0 to 1");
    check_file_refused("{shuffle: local, exchange: 0.1}", "exchanges nothing");
    check_file_refused("{shuffle: local, store: pfs}", "kept on the nodes");
    check_file_refused("{shuffle: local, hide: 1.5}", "from 0 to 1");
    check_file_refused("{shuffle: local, hide: 0.1, hide_mean: 0.2}", "0 to 0.1");
    check_file_refused("{shuffle: local, refresh_every: -1}", "refresh_every");
    check_file_refused("{shuffle: local, speed: 3}", "speed");
}

/* A plan made by hand in C is checked, too. */
static void refuses_wrong_plans(void)
{
    pdl_plan_file_t file;
    FILE           *nowhere = tmpfile();

    CHECK_OK(read_text(HEAD, &file));
    file.plan->data_policy.exchange = NAN;
    CHECK(pdl_plan_check(file.plan) == PDL_ERR_INPUT);
    file.plan->data_policy.exchange = 0;
    file.plan->data_policy.refresh_every = -3;
    CHECK(pdl_plan_check(file.plan) == PDL_ERR_INPUT);
    CHECK(pdl_plan_write(file.plan, NULL, NULL, NULL, NULL, nowhere) == PDL_ERR_INPUT);
    fclose(nowhere);
    pdl_plan_file_free(&file);
}

int main(void)
{
    RUN(reads_texts);
    RUN(formats_what_it_reads);
    RUN(refuses_wrong_texts);
    RUN(survives_the_file);
    RUN(refuses_wrong_files);
    RUN(refuses_wrong_plans);
    return test_done();
}
