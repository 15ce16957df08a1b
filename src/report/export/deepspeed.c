/*
 * The configuration of DeepSpeed, as v0.19.5 reads it.
 */
#include "report/export/export.h"

static void add_optimizer(pdl__exported_t *x)
{
    bool adam = x->plan->optimizer == PDL_OPTIMIZER_ADAM;

    pdl__export_text(x, "optimizer.type", adam ? "AdamW" : "SGD");
    pdl__export_number(x, "optimizer.params.lr", 1e-4);
    if (x->plan->optimizer == PDL_OPTIMIZER_MOMENTUM) pdl__export_number(x, "optimizer.params.momentum", 0.9);
    /* Without it, sharded state of others than Adam is refused. */
    if (!adam && x->plan->sharding != PDL_SHARDING_NONE) pdl__export_bool(x, "zero_allow_untested_optimizer", true);
}

static void add_sharding(pdl__exported_t *x)
{
    static const char *const devices[PDL_TIER_COUNT] = {NULL, "cpu", "nvme"};
    const char              *device = devices[x->plan->optimizer_tier];

    pdl__export_number(x, "zero_optimization.stage", x->plan->sharding);
    pdl__export_bool(x, "zero_optimization.overlap_comm", x->overlaps);
    pdl__export_bool(x, "zero_optimization.contiguous_gradients", true);
    pdl__export_bool(x, "zero_optimization.reduce_scatter", true);
    if (device == NULL) return;
    pdl__export_text(x, "zero_optimization.offload_optimizer.device", "%s", device);
    pdl__export_bool(x, "zero_optimization.offload_optimizer.pin_memory", true);
    if (x->plan->sharding == PDL_SHARDING_NONE)
        pdl__export_note(x, "optimizer state off the device without sharding: DeepSpeed does it from stage 1 on");
    if (x->plan->optimizer_tier == PDL_TIER_DISK)
        pdl__export_note(x, "optimizer state on disk: add zero_optimization.offload_optimizer.nvme_path");
}

static void add_precision(pdl__exported_t *x)
{
    pdl_precision_t precision = x->plan->precision;

    pdl__export_bool(x, "bf16.enabled", precision == PDL_BF16 || pdl_precision_narrow(precision));
    pdl__export_bool(x, "fp16.enabled", precision == PDL_FP16);
    if (pdl_precision_narrow(precision))
        pdl__export_note(x, "precision %s: the model's own layers have to compute in it",
                         pdl_precision_names[precision]);
    if (precision == PDL_FP64) pdl__export_note(x, "precision fp64: call double() on the model");
}

static void add_splits(pdl__exported_t *x)
{
    if (x->tensor > 1) pdl__export_number(x, "tensor_parallel.autotp_size", (double)x->tensor);
    if (x->tensor > 1 && x->plan->sharding > PDL_SHARDING_ZERO2)
        pdl__export_note(x, "zero3 with a tensor axis: DeepSpeed splits matrices with stages 0 to 2");
    if (x->context > 1)
        pdl__export_note(
            x, "tokens over %lld ranks: attention in the program, deepspeed.sequence.layer.DistributedAttention",
            (long long)x->context);
    if (x->pipeline > 1)
        pdl__export_note(x, "pipeline of %lld: it is made in the program, PipelineModule(num_stages=%lld)",
                         (long long)x->pipeline, (long long)x->pipeline);
    if (x->pipeline > 1 && x->plan->sharding > PDL_SHARDING_ZERO1)
        pdl__export_note(x, "%s with a pipeline: DeepSpeed allows stages 0 and 1",
                         pdl_sharding_names[x->plan->sharding]);
    if (x->pipeline > 1 && x->plan->schedule >= PDL_SCHEDULE_INTERLEAVED)
        pdl__export_note(x, "schedule %s: DeepSpeed runs 1f1b", pdl_schedule_names[x->plan->schedule]);
    if (x->net.experts > 0 && x->experts > 1)
        pdl__export_note(x, "experts over %lld ranks: made in the program, deepspeed.moe.layer.MoE(ep_size=%lld)",
                         (long long)x->experts, (long long)x->experts);
    if (x->recomputed_blocks > 0)
        pdl__export_note(x,
                         "recompute of %lld blocks a stage: made in the program, deepspeed.checkpointing or "
                         "torch.utils.checkpoint",
                         (long long)x->recomputed_blocks);
    else if (x->recompute != PDL_RECOMPUTE_NONE)
        pdl__export_note(x, "recompute %s: made in the program, deepspeed.checkpointing or torch.utils.checkpoint",
                         pdl_recompute_names[x->recompute]);
}

/* DeepSpeed checks the batch against micro-batches of all replicas. These are the ranks of a PipelineModule's data axis, or of the mesh
   that it makes of two sizes; else it takes every rank for one, those of a tensor axis as well. */
static void add_batch(pdl__exported_t *x)
{
    bool counts_tensor = x->tensor > 1 && x->pipeline == 1;

    if (!counts_tensor) pdl__export_number(x, "train_batch_size", (double)x->plan->batch);
    if (counts_tensor)
        pdl__export_note(x,
                         "batch of %lld: DeepSpeed states %lld times as much, as it counts the ranks of a tensor "
                         "axis as replicas",
                         (long long)x->plan->batch, (long long)x->tensor);
    if (x->context > 1 && x->pipeline == 1) {
        pdl__export_number(x, "data_parallel_size", (double)x->data);
        pdl__export_number(x, "sequence_parallel_size", (double)x->context);
    }
}

pdl_status_t pdl__export_deepspeed(pdl__exported_t *x)
{
    add_batch(x);
    pdl__export_number(x, "train_micro_batch_size_per_gpu", (double)x->micro);
    pdl__export_number(x, "gradient_accumulation_steps", (double)x->plan->micro_batches);
    pdl__export_number(x, "steps_per_print", 1);
    pdl__export_bool(x, "wall_clock_breakdown", true);
    add_optimizer(x);
    add_sharding(x);
    add_precision(x);
    add_splits(x);
    return pdl__export_file(x, "ds_config.json", pdl__write_json);
}
