/*
 * The job configuration of torchtitan, as v0.2.2 reads it.
 */
#include "report/export/export.h"

#define LLAMA3_VOCABULARY 128256

/* Sizes of Llama 3 that torchtitan has by name. */
static const struct {
    const char *flavor;
    int64_t     hidden, layers, ffn;
} flavors[] = {{"8B", 4096, 32, 14336}, {"70B", 8192, 80, 28672}, {"405B", 16384, 126, 53248}};

static void add_model(pdl__exported_t *x)
{
    const pdl__export_network_t *n = &x->net;
    const char *name = n->shared_dim > 0 ? "deepseek_v3" : n->qk_norm ? "qwen3" : "llama3", *flavor = NULL;

    for (size_t i = 0; i < sizeof(flavors) / sizeof(flavors[0]); i++)
        if (n->experts == 0 && n->vocabulary == LLAMA3_VOCABULARY && n->hidden == flavors[i].hidden &&
            n->layers == flavors[i].layers && n->ffn == flavors[i].ffn)
            flavor = flavors[i].flavor;
    pdl__export_text(x, "model.name", "%s", name);
    pdl__export_text(x, "model.flavor", "%s", flavor != NULL ? flavor : "custom");
    pdl__export_text(x, "model.hf_assets_path", "./assets/hf");
    if (flavor == NULL)
        pdl__export_note(
            x,
            "model: add a flavor \"custom\" to torchtitan/models/%s with %lld layers of width %lld, ffn %lld, "
            "%lld heads (%lld of keys), vocabulary %lld",
            name, (long long)n->layers, (long long)n->hidden, (long long)n->ffn, (long long)n->heads,
            (long long)n->kv_heads, (long long)n->vocabulary);
    if (n->experts > 0 && n->shared_dim == 0 && !n->qk_norm)
        pdl__export_note(x, "model: no network of torchtitan has these experts behind this attention; write one");
    if (n->capacity_factor > 0)
        pdl__export_note(x, "model: a capacity factor of %g: experts of torchtitan take every token",
                         n->capacity_factor);
    if (!n->rms || !n->gated || !n->rotary)
        pdl__export_note(
            x, "model: torchtitan's have RMS norms, gated networks and rotary positions, this one has not");
    if (x->plan->precision == PDL_FP8) pdl__export_text(x, "model.converters", "[\"quantize.linear.float8\"]");
}

/* Without a pipeline, a step accumulates until it has the batch. */
static void add_training(pdl__exported_t *x)
{
    int64_t replica = x->plan->batch / x->data;

    pdl__export_number(x, "training.local_batch_size", (double)(x->pipeline > 1 ? replica : x->micro));
    pdl__export_number(x, "training.global_batch_size", (double)x->plan->batch);
    pdl__export_number(x, "training.seq_len", (double)x->net.tokens);
    pdl__export_number(x, "training.steps", 50);
    pdl__export_text(x, "training.dtype", "float32");
    pdl__export_text(x, "training.mixed_precision_param",
                     x->plan->precision == PDL_BF16 || pdl_precision_narrow(x->plan->precision) ? "bfloat16"
                                                                                                : "float32");
    pdl__export_bool(x, "training.enable_cpu_offload", x->plan->optimizer_tier == PDL_TIER_HOST);
    pdl__export_text(x, "training.dataset", "c4_test");
    if (x->plan->precision == PDL_FP16 || x->plan->precision == PDL_FP64 || x->plan->precision == PDL_NVFP4)
        pdl__export_note(x, "precision %s: torchtitan trains in bfloat16 or float32",
                         pdl_precision_names[x->plan->precision]);
    if (x->plan->optimizer_tier == PDL_TIER_HOST)
        pdl__export_note(x, "optimizer state on the host: torchtitan moves weights and gradients there too");
}

static void add_sharding(pdl__exported_t *x)
{
    pdl_sharding_t sharding = x->plan->sharding;
    bool           sharded = sharding != PDL_SHARDING_NONE;

    pdl__export_number(x, "parallelism.data_parallel_replicate_degree", sharded ? 1 : (double)x->data);
    pdl__export_number(x, "parallelism.data_parallel_shard_degree", sharded ? (double)x->data : 1);
    pdl__export_text(x, "parallelism.fsdp_reshard_after_forward",
                     sharding == PDL_SHARDING_ZERO3 ? "always" : "never");
    if (sharding == PDL_SHARDING_ZERO1)
        pdl__export_note(
            x, "zero1: torchtitan shards gradients and weights too; \"never\" gathers weights once a step");
    if (sharding == PDL_SHARDING_ZERO2)
        pdl__export_note(x, "zero2: torchtitan shards weights too; \"never\" gathers them once a step");
}

static void add_splits(pdl__exported_t *x)
{
    static const char *const schedules[PDL_SCHEDULE_COUNT] = {"GPipe", "1F1B", "Interleaved1F1B", "1F1B"};
    char                     layout[200];

    pdl__export_number(x, "parallelism.tensor_parallel_degree", (double)x->tensor);
    pdl__export_number(x, "parallelism.pipeline_parallel_degree", (double)x->pipeline);
    if (x->context > 1) {
        pdl__export_number(x, "parallelism.context_parallel_degree", (double)x->context);
        pdl__export_note(
            x, "tokens over %lld ranks: torchtitan passes keys and values round instead of exchanging heads",
            (long long)x->context);
    }
    if (x->pipeline > 1) {
        pdl__export_text(x, "parallelism.pipeline_parallel_schedule", "%s", schedules[x->plan->schedule]);
        pdl__export_number(x, "parallelism.pipeline_parallel_microbatch_size", (double)x->micro);
        if (x->plan->schedule == PDL_SCHEDULE_ZERO_BUBBLE)
            pdl__export_note(x, "schedule zero-bubble: torchtitan has it only with virtual stages "
                                "(InterleavedZeroBubble, ZBVZeroBubble), 1F1B is written");
        if (pdl__stage_layout(x->plan, layout, sizeof(layout)))
            pdl__export_note(x, "stages %s: torchtitan divides layers by itself, or by module_fqns_per_model_part",
                             layout);
        if (!x->outer && x->data > 1)
            pdl__export_note(
                x, "order of axes: torchtitan puts the pipeline outside of the data axis, the plan inside");
    }
    if (x->net.experts > 0) pdl__export_number(x, "parallelism.expert_parallel_degree", (double)x->experts);
    if (x->overlaps_layers) {
        pdl__export_bool(x, "parallelism.enable_async_tensor_parallel", true);
        pdl__export_bool(x, "compile.enable", true);
    }
    if (x->tensor > 1 && !x->plan->sequence_parallel)
        pdl__export_note(
            x, "torchtitan splits sequences between matrices wherever it splits matrices; the plan does not");
}

static void write_job_config(const pdl__exported_t *x, FILE *stream)
{
    fputs("# Job configuration of torchtitan v0.2.2; dataset and assets are placeholders.\n", stream);
    pdl__write_toml(x, stream);
}

pdl_status_t pdl__export_torchtitan(pdl__exported_t *x)
{
    static const char *const modes[PDL_RECOMPUTE_COUNT] = {"none", "selective", "full"};
    pdl_status_t             status = pdl__export_needs_transformer(x);

    if (status) return status;
    pdl__export_text(x, "job.description", "a plan of paradl");
    pdl__export_number(x, "metrics.log_freq", 1);
    add_model(x);
    pdl__export_text(x, "optimizer.name", "AdamW");
    if (x->plan->optimizer != PDL_OPTIMIZER_ADAM)
        pdl__export_note(x, "optimizer %s: torchtitan has Adam and AdamW", pdl_optimizer_names[x->plan->optimizer]);
    pdl__export_number(x, "optimizer.lr", 1e-4);
    add_training(x);
    add_sharding(x);
    add_splits(x);
    pdl__export_text(x, "activation_checkpoint.mode", "%s", modes[x->recompute]);
    pdl__export_all_blocks(x);
    return pdl__export_file(x, "torchtitan.toml", write_job_config);
}
