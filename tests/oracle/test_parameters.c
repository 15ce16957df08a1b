/*
 * Parameters of the cost model: what is written reads back the same, and what is wrong is refused at its line.
 */
#include "base/scratch.h"
#include "random.h"
#include "test.h"

#include <paradl/oracle/oracle.h>

static double value(const pdl_parameters_t *p, int i)
{
    return *(const double *)(const void *)((const char *)p + pdl_parameter_info[i].offset);
}

static void set_value(pdl_parameters_t *p, int i, double number)
{
    *(double *)(void *)((char *)p + pdl_parameter_info[i].offset) = number;
}

static void defaults_come_from_the_table(void)
{
    pdl_parameters_t p;

    pdl_parameters_default(&p);
    CHECK_STR(p.name, "default");
    for (int i = 0; i < pdl_parameter_count; i++) {
        const pdl_parameter_info_t *info = &pdl_parameter_info[i];
        CHECK_NEAR(value(&p, i), info->standard, 0);
        CHECK(info->low <= info->high && info->meaning[0] != '\0');
        /* 0 may stand for "as the system says"; else the default lies in the range. */
        CHECK(info->standard == 0 || (info->standard >= info->low && info->standard <= info->high));
    }
    CHECK_NEAR(p.fabric_efficiency, 0.85, 0);
    CHECK(p.overlap_gradients && !p.ring_only);
}

/* Writes into the scratch folder and loads again. */
static pdl_status_t round_trip(const pdl_parameters_t *p, const char *comment, pdl_parameters_t *back)
{
    FILE *file = fopen(scratch_path("parameters.yaml"), "w");

    CHECK(file != NULL);
    if (!file) return PDL_ERR_IO;
    CHECK_OK(pdl_parameters_write(p, comment, file));
    fclose(file);
    return pdl_parameters_load(scratch_path("parameters.yaml"), back);
}

static void written_parameters_read_back(void)
{
    for (int times = 0; times < 20; times++) {
        pdl_parameters_t p, back;

        pdl_parameters_default(&p);
        memset(p.name, 0, sizeof(p.name));
        snprintf(p.name, sizeof(p.name), "set-%d", times);
        for (int i = 0; i < pdl_parameter_count; i++) {
            double share = (double)(draw() >> 11) / 9007199254740992.0;
            set_value(&p, i,
                      pdl_parameter_info[i].low + share * (pdl_parameter_info[i].high - pdl_parameter_info[i].low));
        }
        p.ring_only = between(0, 1);
        p.overlap_gradients = between(0, 1);
        p.host_halo = between(0, 1);
        CHECK_OK(round_trip(&p, times % 2 ? "Fitted to: nothing # at all" : NULL, &back));
        CHECK_STR(back.name, p.name);
        for (int i = 0; i < pdl_parameter_count; i++) CHECK_NEAR(value(&back, i), value(&p, i), 0);
        CHECK(back.ring_only == p.ring_only && back.overlap_gradients == p.overlap_gradients &&
              back.host_halo == p.host_halo);
        CHECK(memcmp(&back, &p, sizeof(p)) == 0);
    }
}

static pdl_status_t load_text(const char *text, pdl_parameters_t *p)
{
    return pdl_parameters_load(scratch_file("given.yaml", text, strlen(text)), p);
}

static void keys_left_out_keep_their_defaults(void)
{
    pdl_parameters_t p, standard;

    pdl_parameters_default(&standard);
    CHECK_OK(load_text("paradl: parameters/1\nname: few\nparameters: {kernel_s: 5us, bucket_bytes: 1MB}\n"
                       "switches: {ring_only: true}\n",
                       &p));
    CHECK_STR(p.name, "few");
    CHECK_NEAR(p.kernel_s, 5e-6, 1e-12);
    CHECK_NEAR(p.bucket_bytes, 1e6, 0);
    CHECK(p.ring_only);
    CHECK_NEAR(p.narrow_tile, standard.narrow_tile, 0);
    CHECK_OK(load_text("paradl: parameters/1\nname: none\n", &p));
    strcpy(p.name, "default");
    CHECK(memcmp(&p, &standard, sizeof(p)) == 0);
}

static void mistakes_are_refused(void)
{
#define HEAD "paradl: parameters/1\nname: wrong\n"
    pdl_parameters_t p, before;

    memset(&p, 7, sizeof(p));
    before = p;
    CHECK_ERROR(load_text(HEAD "parameters: {speed: 3}\n", &p), "unknown parameter \"speed\"");
    CHECK_ERROR(load_text(HEAD "parameters:\n  kernel_s: 1us\n  speed: 3\n", &p), "given.yaml:5");
    CHECK_ERROR(load_text(HEAD "switches: {magic: true}\n", &p), "unknown switch \"magic\"");
    CHECK_ERROR(load_text(HEAD "switches: {ring_only: 3}\n", &p), "given.yaml:3");
    CHECK_ERROR(load_text(HEAD "parameters: {kernel_s: -1us}\n", &p), "given.yaml:3");
    CHECK_ERROR(load_text(HEAD "parameters: {kernel_s: fast}\n", &p), "given.yaml:3");
    CHECK_ERROR(load_text(HEAD "parameters: {kernel_s: 3GB/s}\n", &p), "given.yaml:3");
    CHECK_ERROR(load_text(HEAD "parameters: {fabric_efficiency: 0}\n", &p), "fabric_efficiency");
    CHECK_ERROR(load_text(HEAD "parameters: {bucket_bytes: 0}\n", &p), "bucket_bytes");
    CHECK_ERROR(load_text(HEAD "parameters: [1, 2]\n", &p), "given.yaml:3");
    CHECK_ERROR(load_text(HEAD "speeds: {}\n", &p), "speeds");
    CHECK_ERROR(load_text("paradl: parameters/1\n", &p), "name");
    CHECK_ERROR(load_text("paradl: system/1\nname: wrong\n", &p), "system");
    CHECK_ERROR(pdl_parameters_load("no-such-set", &p), "no-such-set");
    /* A failed load writes nothing. */
    CHECK(memcmp(&p, &before, sizeof(p)) == 0);
    CHECK_OK(load_text(HEAD "parameters: {call_s: 0, update_tensor_s: 0, pack_bytes_per_s: 0}\n", &p));
}

/* One value at a time, by name; the name of the set says which. */
static void values_are_changed_by_name(void)
{
    static const char *const good[] = {"overlap_gradients=false", "queue_layer_s=150us", "layer_overlap=0.6"};
    static const struct {
        const char *text, *message;
    } bad[] = {{"overlap_gradient=false", "did you mean overlap_gradients?"},
               {"overlap_gradients=12", "expected true or false"},
               {"queue_layer_s=3GB", "expected a time"},
               {"layer_overlap=1.5", "is not from 0 to 1"},
               {"narrow_tile=0", "must be larger than 0"},
               {"layer_overlap", "is not NAME=VALUE"},
               {"=1", "is not NAME=VALUE"},
               {"layer_overlap=", "is not NAME=VALUE"},
               {"layer_overlap=0.5\nqueue_layer_s: 1s", "is not NAME=VALUE"},
               {"layer_overlap={", "layer_overlap="}};
    pdl_parameters_t p;

    pdl_parameters_default(&p);
    CHECK_OK(pdl_parameters_change(good, 3, &p));
    CHECK(!p.overlap_gradients);
    CHECK_NEAR(p.queue_layer_s, 150e-6, 1e-12);
    CHECK_NEAR(p.layer_overlap, 0.6, 1e-12);
    CHECK_STR(p.name, "default with overlap_gradients=false, queue_layer_s=150us, layer_overlap=0.6");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_ERROR(pdl_parameters_change(&bad[i].text, 1, &p), bad[i].message);
}

int main(void)
{
    if (!scratch_begin()) return 1;
    RUN(defaults_come_from_the_table);
    RUN(written_parameters_read_back);
    RUN(keys_left_out_keep_their_defaults);
    RUN(mistakes_are_refused);
    RUN(values_are_changed_by_name);
    scratch_end();
    return test_done();
}
