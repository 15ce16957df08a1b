/*
 * What frameworks do, switch by switch: stages of equal blocks, scattered sends, gradients in 32 bits, gathers behind forward,
 * chains of element-wise layers, logits in 16 bits, experts by their shape, what is with the host.
 */
#include "oracle/internal.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

static const pdl_system_t *selene, *h100, *gb200;
static pdl_model_t        *gpt;

static pdl_projection_t project(const pdl_model_t *model, const pdl_system_t *system, const pdl_parameters_t *p,
                                const pdl_config_t *config)
{
    pdl_projection_t projection = {0};
    pdl_oracle_t    *oracle = NULL;

    REQUIRE_OK(pdl_oracle_create(model, system, p, &oracle));
    CHECK_OK(pdl_oracle_evaluate(oracle, config, NULL, &projection));
    pdl_oracle_destroy(oracle);
    return projection;
}

static pdl_parameters_t published(void)
{
    pdl_parameters_t p;

    REQUIRE_OK(pdl_parameters_load("published", &p));
    return p;
}

/* The same with hosts that are fast enough. */
static pdl_parameters_t published_devices(void)
{
    pdl_parameters_t p = published();

    p.queue_layer_s = p.queue_element_s = p.queue_call_s = 0;
    return p;
}

static pdl_config_t three_axes(int64_t pipeline, int64_t data, int64_t tensor)
{
    pdl_config_t c = pdl_config_default("3d");

    c.pipeline = pipeline;
    c.data = data;
    c.tensor = tensor;
    c.batch = 16 * data;
    c.micro_batches = 16;
    c.precision = PDL_BF16;
    c.optimizer = PDL_OPTIMIZER_ADAM;
    return c;
}

/* A vocabulary of four blocks' work beside the last of them. */
static void stages_of_equal_blocks_wait_for_the_logits(void)
{
    pdl_parameters_t p = published_devices();
    pdl_config_t     c = three_axes(4, 1, 1);
    int64_t          even[] = {3, 3, 3, 3}, fewer[] = {4, 4, 3, 1}, wrong[] = {3, 3, 3, 4};
    pdl_projection_t by_time = project(gpt, selene, &p, &c);

    p.even_stages = true;
    pdl_projection_t by_blocks = project(gpt, selene, &p, &c);
    CHECK(by_blocks.total_s > 1.1 * by_time.total_s);
    p.even_stages = false;
    c.stage_blocks = even;
    CHECK_NEAR(project(gpt, selene, &p, &c).total_s, by_blocks.total_s, 1e-12);
    c.stage_blocks = fewer;
    CHECK(project(gpt, selene, &p, &c).total_s < by_blocks.total_s);
    c.stage_blocks = wrong;
    pdl_oracle_t    *oracle = NULL;
    pdl_projection_t none;
    REQUIRE_OK(pdl_oracle_create(gpt, selene, &p, &oracle));
    CHECK_INT(pdl_oracle_evaluate(oracle, &c, NULL, &none), PDL_ERR_INPUT);
    pdl_oracle_destroy(oracle);
}

/* Twelve blocks do not divide into seven stages: one fewer beside the embedding and beside the logits does. */
static void stages_with_one_block_fewer_at_the_ends(void)
{
    pdl_parameters_t p = published();
    pdl_config_t     c = three_axes(7, 1, 1);
    int64_t          blocks[] = {1, 2, 2, 2, 2, 2, 1};

    p.even_stages = true;
    pdl_projection_t even = project(gpt, selene, &p, &c);
    p.even_stages = false;
    c.stage_blocks = blocks;
    CHECK_NEAR(project(gpt, selene, &p, &c).total_s, even.total_s, 1e-12);
}

/* Between the two sides of a U-Net no place has but one tensor to hand on. */
static void stages_of_a_unet_are_balanced(void)
{
    pdl_parameters_t p = published();
    pdl_config_t     c = three_axes(4, 1, 1);
    pdl_model_t     *unet = NULL;

    c.precision = PDL_FP32;
    REQUIRE_OK(pdl_model_load("unet-gpipe", &unet));
    CHECK(project(unet, selene, &p, &c).stage_imbalance < 1.3);
    pdl_model_destroy(unet);
}

/* The stage with the logits keeps its device busy longest, those in front of it their hosts: the closed form counts both, as the replay does. */
static void every_stage_waits_for_its_host(void)
{
    pdl_parameters_t p = published();
    pdl_config_t     c = three_axes(4, 1, 1);
    double           alone, all = 0;
    int64_t          by_device[] = {4, 4, 3, 1};

    c.micro_batches = c.batch = 64;
    p.queue_layer_s = 2e-3;
    p.queue_element_s = p.queue_call_s = 0;
    alone = project(gpt, selene, &p, &c).total_s;
    /* Twelve blocks of six layers with a product or attention, two stages of which at the most the slowest has. */
    all = 64 * 12 * 6 * p.queue_layer_s / 4;
    CHECK(alone > all);
    /* So stages are cut by both: no slower than equal blocks, and much faster than those that are balanced for devices alone. */
    c.stage_blocks = by_device;
    CHECK(project(gpt, selene, &p, &c).total_s > 1.15 * alone);
    c.stage_blocks = NULL;
    p.even_stages = true;
    CHECK(project(gpt, selene, &p, &c).total_s > all);
    CHECK(project(gpt, selene, &p, &c).total_s > 0.999 * alone);
}

/* What is overlapped slows computation, by less than it hides. So no search has to try plans without. */
static void overlap_never_loses(void)
{
    for (int64_t data = 1; data <= 64; data *= 4)
        for (int64_t tensor = 1; tensor <= 4; tensor *= 2)
            for (int64_t pipeline = 1; pipeline <= 4; pipeline *= 4) {
                pdl_parameters_t with = published_devices(), without = with;
                pdl_config_t     c = three_axes(pipeline, data, tensor);

                with.layer_overlap = 0.6;
                without.overlap_gradients = without.overlap_stages = false;
                for (int sharding = 0; sharding < PDL_SHARDING_COUNT; sharding++) {
                    c.sharding = data > 1 ? (pdl_sharding_t)sharding : PDL_SHARDING_NONE;
                    pdl_projection_t a = project(gpt, selene, &with, &c), b = project(gpt, selene, &without, &c);
                    CHECK(a.total_s <= b.total_s * (1 + 1e-12));
                    CHECK(data * tensor * pipeline == 1 || a.total_s < b.total_s);
                }
            }
}

static void tensor_ranks_share_a_send(void)
{
    pdl_parameters_t p = published();
    pdl_config_t     c = three_axes(4, 1, 4);
    pdl_projection_t whole = project(gpt, selene, &p, &c);

    p.scattered_sends = true;
    pdl_projection_t scattered = project(gpt, selene, &p, &c);
    CHECK(scattered.comm[PDL_COMM_STAGE] < 0.8 * whole.comm[PDL_COMM_STAGE]);
    CHECK_NEAR(scattered.compute_s, whole.compute_s, 1e-12);
    /* Split along the sequence there is nothing to share out. */
    c.sequence_parallel = true;
    pdl_projection_t split = project(gpt, selene, &p, &c);
    p.scattered_sends = false;
    CHECK_NEAR(split.total_s, project(gpt, selene, &p, &c).total_s, 1e-12);
}

/* Half of the norms' inputs there and back, once for every micro-batch, a part each where tensor ranks send parts. */
static void checkpoints_on_the_host_wait_for_its_memory(void)
{
    pdl_parameters_t p = published();
    pdl_config_t     c = three_axes(1, 2, 2);
    pdl_projection_t with, without;
    double bytes = 2.0 * 16 * 12 * 1024 * 768 * 2; /* micro-batches of a sample, blocks, positions, width, BF16 */

    c.batch = 32;
    c.sharding = PDL_SHARDING_ZERO3;
    c.recompute = PDL_RECOMPUTE_FULL;
    p.host_checkpoints = true;
    without = project(gpt, selene, &p, &c);
    p.pageable_bytes_per_s = 1e9;
    with = project(gpt, selene, &p, &c);
    /* The norm behind the last block counts as half a block. */
    CHECK_NEAR(with.total_s - without.total_s, bytes * 25 / 24 / 1e9, 1e-9);
    CHECK_NEAR(with.memory_bytes, without.memory_bytes, 0);
    p.scattered_sends = true;
    CHECK_NEAR(project(gpt, selene, &p, &c).total_s - without.total_s, bytes * 25 / 48 / 1e9, 1e-9);
    c.sharding = PDL_SHARDING_ZERO1;
    with = project(gpt, selene, &p, &c);
    p.pageable_bytes_per_s = 0;
    CHECK_NEAR(project(gpt, selene, &p, &c).total_s, with.total_s, 0);
}

/* 28 bytes a weight and update of AdamW at the rate of the host's processors, or of the link where that is not known. */
static void the_host_updates_what_it_has(void)
{
    pdl_parameters_t p = published();
    pdl_config_t     c = three_axes(1, 2, 1);
    pdl_system_t     system = *selene;
    double           bytes;

    c.sharding = PDL_SHARDING_ZERO1;
    c.optimizer_tier = PDL_TIER_HOST;
    p.host_updates = true;
    system.device.host_update_bytes_per_s = 10e9;
    pdl_model_totals_t totals;
    pdl_model_totals(gpt, &totals);
    bytes = 28.0 * (double)totals.weights / 2;
    CHECK_NEAR(project(gpt, &system, &p, &c).update_s, bytes / 10e9, 1e-6 * bytes / 10e9);
    CHECK_NEAR(project(gpt, selene, &p, &c).update_s, bytes / selene->device.host_link.bytes_per_s[PDL_HOST_BOTH],
               1e-6 * bytes / 10e9);
    /* Moments alone, there and back, where the device does it. */
    p.host_updates = false;
    CHECK(project(gpt, &system, &p, &c).update_s < bytes / 10e9);
    p.host_updates = true;
    c.optimizer_tier = PDL_TIER_DEVICE;
    CHECK(project(gpt, &system, &p, &c).update_s < 0.05 * bytes / 10e9);
}

static void wide_gradients_take_twice_as_long(void)
{
    pdl_parameters_t p = published();
    pdl_config_t     c = three_axes(1, 64, 1);

    p.ring_only = true;
    p.overlap_gradients = false;
    double narrow = project(gpt, selene, &p, &c).gradient_total_s;
    p.wide_gradients = true;
    double wide = project(gpt, selene, &p, &c).gradient_total_s;
    CHECK(wide > 1.8 * narrow && wide < 2 * narrow);
    /* Weights that are gathered have 16 bits all the same. */
    c.sharding = PDL_SHARDING_ZERO1;
    double sharded = project(gpt, selene, &p, &c).gradient_total_s;
    CHECK(sharded > 0.7 * wide && sharded < 0.8 * wide);
    c.precision = PDL_FP16;
    c.sharding = PDL_SHARDING_NONE;
    CHECK_NEAR(project(gpt, selene, &p, &c).gradient_total_s, narrow, 1e-9);
}

static void gathers_hide_behind_forward(void)
{
    pdl_parameters_t p = published();
    pdl_config_t     c = three_axes(1, 64, 1);

    p.ring_only = true;
    c.batch = 64;
    c.micro_batches = 1;
    pdl_projection_t all = project(gpt, selene, &p, &c);
    c.sharding = PDL_SHARDING_ZERO1;
    pdl_projection_t sharded = project(gpt, selene, &p, &c);
    CHECK(sharded.comm[PDL_COMM_GRADIENT] < all.comm[PDL_COMM_GRADIENT]);
    CHECK(sharded.comm[PDL_COMM_GRADIENT] <= sharded.gradient_total_s);
}

static double seconds_on(const pdl_system_t *system, const pdl_model_t *model, const pdl_parameters_t *p,
                         const char *name, pdl_precision_t precision)
{
    pdl_oracle_t *oracle = NULL;
    double        seconds[2] = {0, 0};
    bool          found = false;

    REQUIRE_OK(pdl_oracle_create(model, system, p, &oracle));
    for (int i = 0; i < pdl_model_layer_count(model); i++)
        if (strcmp(pdl_model_layer(model, i)->name, name) == 0) {
            CHECK_OK(pdl_oracle_layer_seconds(oracle, i, 8, precision, seconds));
            found = true;
        }
    CHECK(found);
    pdl_oracle_destroy(oracle);
    return seconds[0] + seconds[1];
}

static double layer_seconds(const pdl_model_t *model, const pdl_parameters_t *p, const char *name,
                            pdl_precision_t precision)
{
    return seconds_on(h100, model, p, name, precision);
}

/* dropout and the sum behind it are one pass; an activation behind a product has a pass of its own. */
static void chains_of_element_wise_layers_pass_once(void)
{
    pdl_parameters_t p = published();
    double           gelu = layer_seconds(gpt, &p, "h.3.mlp.gelu", PDL_BF16);

    p.fused_elements = true;
    CHECK(layer_seconds(gpt, &p, "h.3.mlp.dropout", PDL_BF16) > 0);
    CHECK_NEAR(layer_seconds(gpt, &p, "h.3.add_2", PDL_BF16), 0, 1e-15);
    CHECK_NEAR(layer_seconds(gpt, &p, "h.3.mlp.gelu", PDL_BF16), gelu, 1e-12);
}

static void logits_stay_in_16_bits(void)
{
    pdl_parameters_t p = published();
    double           logits = layer_seconds(gpt, &p, "lm_head", PDL_FP8);

    CHECK_NEAR(logits, layer_seconds(gpt, &p, "lm_head", PDL_BF16), 1e-9);
    CHECK(layer_seconds(gpt, &p, "h.3.mlp.c_fc", PDL_FP8) < layer_seconds(gpt, &p, "h.3.mlp.c_fc", PDL_BF16));
}

/* Three products of 8 samples of 1,024 tokens, 768 to 3,072 channels, memory aside: 84 % at 10 PFLOP/s and 16 % at 2.5 in NVFP4, all at
   5 in FP8. Factors are written twice, with 0.5625 bytes an element in place of 1. */
static void products_in_nvfp4_stay_in_part_in_16_bits(void)
{
    pdl_parameters_t p;
    const double     share = 0.52, bandwidth = 0.85 * 8e12; /* of gb200.yaml */
    const double     rows = 8 * 1024, in = 768, out = 3072, flop = 3 * 2 * rows * in * out;
    const double     written = 2 * (rows * in + (in + 1) * out + rows * out) / bandwidth;
    double           seconds[2];

    pdl_parameters_default(&p);
    seconds[0] = seconds_on(gb200, gpt, &p, "h.3.mlp.c_fc", PDL_FP8);
    seconds[1] = seconds_on(gb200, gpt, &p, "h.3.mlp.c_fc", PDL_NVFP4);
    CHECK_NEAR(seconds[0], flop / (share * 5e15) + written + 3 * 3.5e-6, 1e-9);
    CHECK_NEAR(seconds[1], flop / share * (0.84 / 10e15 + 0.16 / 2.5e15) + 0.5625 * written + 3 * 3.5e-6, 1e-9);
}

/* Fused or not: attention, and what passes over memory, have 16 bits beside narrow formats. */
static void narrow_formats_are_for_products_alone(void)
{
    static const char *const others[] = {"h.3.attn", "h.3.mlp.gelu", "h.3.ln_1", "lm_head"};
    pdl_parameters_t         p = published();

    for (int fused = 0; fused < 2; fused++)
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
            p.fused_attention = fused;
            double wide = seconds_on(gb200, gpt, &p, others[i], PDL_BF16);
            CHECK_NEAR(seconds_on(gb200, gpt, &p, others[i], PDL_FP8), wide, 1e-12);
            CHECK_NEAR(seconds_on(gb200, gpt, &p, others[i], PDL_NVFP4), wide, 1e-12);
        }
}

/* What is kept has 16 bits beside narrow formats, masks of dropout a byte. */
static void narrow_formats_keep_as_much_as_16_bits(void)
{
    static const pdl_precision_t precisions[] = {PDL_BF16, PDL_FP8, PDL_NVFP4};
    pdl_parameters_t             p = published();
    pdl_config_t                 c = three_axes(1, 8, 1);
    double                       wide = 0;

    for (size_t i = 0; i < sizeof(precisions) / sizeof(precisions[0]); i++) {
        c.precision = precisions[i];
        pdl_projection_t projection = project(gpt, gb200, &p, &c);
        if (i == 0) wide = projection.memory_bytes;
        CHECK_NEAR(projection.memory_bytes, wide, 1);
    }
}

/* As many operations in narrower experts take longer. */
static void narrow_experts_are_slower(void)
{
    static const char form[] =
        "paradl: model/1\nname: m\nextends: mixtral-8x7b\nparameters: {layers: 1, hidden: 2048,"
        " heads: 16, kv_heads: 4, head_dim: 128, ffn: %d, experts: %d, top_k: %d, tokens: 4096,"
        " vocabulary: 32000}\n";
    pdl_parameters_t p = published();
    double           seconds[2];

    for (int i = 0; i < 2; i++) {
        char         text[512];
        pdl_model_t *model = NULL;
        int          length = snprintf(text, sizeof(text), form, i ? 512 : 2048, i ? 64 : 16, i ? 8 : 2);

        REQUIRE_OK(pdl_model_read_yaml_memory(text, (size_t)length, "experts", &model));
        for (int l = 0; l < pdl_model_layer_count(model); l++)
            if (pdl_layer_traits(pdl_model_layer(model, l))->work == PDL_WORK_EXPERTS)
                seconds[i] = layer_seconds(model, &p, pdl_model_layer(model, l)->name, PDL_BF16);
        pdl_model_destroy(model);
    }
    CHECK(seconds[1] > 1.1 * seconds[0]);
}

/* Every rank has a part of the tokens and sends all but its own share of that. */
static void an_all_to_all_moves_what_ranks_have(void)
{
    pdl_parameters_t p = published();
    pdl_model_t     *mixtral = NULL;
    pdl_oracle_t    *oracle = NULL;
    pdl_profile_t   *profile = NULL;
    pdl_plan_t      *plan = NULL;
    pdl_config_t     c = pdl_config_default("tensor");
    int              found = 0;

    c.tensor = 8;
    c.precision = PDL_BF16;
    REQUIRE_OK(pdl_model_load("mixtral-8x7b", &mixtral));
    REQUIRE_OK(pdl_oracle_create(mixtral, h100, &p, &oracle));
    REQUIRE_OK(pdl_oracle_plan(oracle, &c, &plan));
    REQUIRE_OK(pdl__profile_create(oracle, plan, 1, &profile));
    for (int i = 0; i < profile->partition->transfer_count; i++) {
        const pdl_transfer_t *t = &profile->partition->transfers[i];
        const pdl_layer_t    *layer = pdl_model_layer(mixtral, t->layer);

        if (t->primitive != PDL_ALLTOALL || pdl_layer_traits(layer)->work != PDL_WORK_EXPERTS) continue;
        double tokens = (double)layer->in.extent[0] / 8, row = 2 * (double)layer->in.channels;
        CHECK_NEAR(pdl__transfer_bytes(profile, t), tokens * (double)layer->top_k * row, 1e-9);
        found++;
    }
    CHECK(found > 0);
    pdl__profile_destroy(profile);
    pdl_plan_destroy(plan);
    pdl_oracle_destroy(oracle);
    pdl_model_destroy(mixtral);
}

int main(void)
{
    if (pdl_system_load("selene", &selene) || pdl_system_load("dgx-h100", &h100) ||
        pdl_system_load("gb200", &gb200) || pdl_model_load("gpt2-124m", &gpt))
        return 1;
    RUN(stages_of_equal_blocks_wait_for_the_logits);
    RUN(stages_with_one_block_fewer_at_the_ends);
    RUN(stages_of_a_unet_are_balanced);
    RUN(every_stage_waits_for_its_host);
    RUN(overlap_never_loses);
    RUN(tensor_ranks_share_a_send);
    RUN(checkpoints_on_the_host_wait_for_its_memory);
    RUN(the_host_updates_what_it_has);
    RUN(wide_gradients_take_twice_as_long);
    RUN(gathers_hide_behind_forward);
    RUN(chains_of_element_wise_layers_pass_once);
    RUN(logits_stay_in_16_bits);
    RUN(products_in_nvfp4_stay_in_part_in_16_bits);
    RUN(narrow_formats_are_for_products_alone);
    RUN(narrow_formats_keep_as_much_as_16_bits);
    RUN(narrow_experts_are_slower);
    RUN(an_all_to_all_moves_what_ranks_have);
    pdl_model_destroy(gpt);
    pdl_system_destroy(selene);
    pdl_system_destroy(h100);
    pdl_system_destroy(gb200);
    return test_done();
}
