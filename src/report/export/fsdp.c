/*
 * PyTorch FSDP 2, by the configuration file of accelerate v1.14.0.
 */
#include "report/export/export.h"

static const char *mixed_precision(pdl_precision_t precision)
{
    switch (precision) {
    case PDL_FP16: return "fp16";
    case PDL_BF16:
    case PDL_NVFP4: return "bf16";
    case PDL_FP8: return "fp8";
    default: return "no";
    }
}

static void add_sharding(pdl__exported_t *x)
{
    bool transformer = x->net.layers > 0;

    pdl__export_number(x, "fsdp_config.fsdp_version", 2);
    pdl__export_bool(x, "fsdp_config.fsdp_reshard_after_forward", x->plan->sharding == PDL_SHARDING_ZERO3);
    pdl__export_text(x, "fsdp_config.fsdp_auto_wrap_policy",
                     transformer ? "TRANSFORMER_BASED_WRAP" : "SIZE_BASED_WRAP");
    if (!transformer) pdl__export_number(x, "fsdp_config.fsdp_min_num_params", 1e6);
    pdl__export_text(x, "fsdp_config.fsdp_state_dict_type", "SHARDED_STATE_DICT");
    pdl__export_bool(x, "fsdp_config.fsdp_activation_checkpointing", x->recompute == PDL_RECOMPUTE_FULL);
    pdl__export_all_blocks(x);
    pdl__export_bool(x, "fsdp_config.fsdp_offload_params", x->plan->optimizer_tier == PDL_TIER_HOST);
    if (x->plan->sharding == PDL_SHARDING_ZERO1)
        pdl__export_note(
            x, "zero1: FSDP shards gradients and weights too; without resharding weights are gathered once");
    if (x->plan->optimizer_tier == PDL_TIER_HOST)
        pdl__export_note(x, "optimizer state on the host: FSDP moves weights and gradients there too");
}

static void add_parallelism(pdl__exported_t *x)
{
    if (x->tensor == 1) return;
    pdl__export_number(x, "parallelism_config.parallelism_config_dp_shard_size", (double)x->data);
    pdl__export_number(x, "parallelism_config.parallelism_config_tp_size", (double)x->tensor);
    pdl__export_note(
        x, "tensor axis: the model has to be loaded with a plan for it, from_pretrained(tp_plan=\"auto\")");
}

static void add_notes(pdl__exported_t *x)
{
    if (x->plan->precision == PDL_NVFP4)
        pdl__export_note(x, "precision nvfp4: accelerate has no name for it, so products are in bf16 here");
    if (x->context > 1)
        pdl__export_note(
            x,
            "tokens over %lld ranks: made in the program, torch.distributed.tensor.experimental.context_parallel",
            (long long)x->context);
    if (x->pipeline > 1)
        pdl__export_note(x,
                         "pipeline of %lld: neither FSDP nor accelerate trains with one; plan with --strategy data",
                         (long long)x->pipeline);
    if (x->recompute == PDL_RECOMPUTE_SELECTIVE)
        pdl__export_note(x, "recompute selective: made in the program, torch.utils.checkpoint with a policy");
    pdl__export_note(x, "in your program: batches of %lld samples a device, gradient_accumulation_steps=%lld",
                     (long long)x->micro, (long long)x->plan->micro_batches);
}

pdl_status_t pdl__export_fsdp(pdl__exported_t *x)
{
    bool sharded = x->plan->sharding != PDL_SHARDING_NONE;

    pdl__export_text(x, "compute_environment", "LOCAL_MACHINE");
    pdl__export_text(x, "distributed_type", sharded ? "FSDP" : "MULTI_GPU");
    pdl__export_text(x, "mixed_precision", "%s", mixed_precision(x->plan->precision));
    pdl__export_number(x, "num_machines", (double)x->nodes);
    pdl__export_number(x, "num_processes", (double)pdl_mesh_size(&x->plan->mesh));
    if (sharded) add_sharding(x);
    add_parallelism(x);
    add_notes(x);
    return pdl__export_file(x, "accelerate.yaml", pdl__write_yaml);
}
