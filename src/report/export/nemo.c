/*
 * A program for NeMo, with the arguments of v2.4.0.
 */
#include "report/export/export.h"

static void add_model(pdl__exported_t *x)
{
    const pdl__export_network_t *n = &x->net;

    pdl__export_number(x, "model.num_layers", (double)n->layers);
    pdl__export_number(x, "model.hidden_size", (double)n->hidden);
    pdl__export_number(x, "model.ffn_hidden_size", (double)n->ffn);
    pdl__export_number(x, "model.num_attention_heads", (double)n->heads);
    pdl__export_number(x, "model.num_query_groups", (double)n->kv_heads);
    pdl__export_number(x, "model.kv_channels", (double)n->head_dim);
    pdl__export_number(x, "model.seq_length", (double)n->tokens);
    pdl__export_text(x, "model.normalization", n->rms ? "RMSNorm" : "LayerNorm");
    pdl__export_number(x, "model.layernorm_epsilon", n->epsilon);
    pdl__export_bool(x, "model.gated_linear_unit", n->gated);
    pdl__export_bool(x, "model.add_bias_linear", n->bias);
    pdl__export_bool(x, "model.add_qkv_bias", n->qkv_bias);
    pdl__export_bool(x, "model.qk_layernorm", n->qk_norm);
    pdl__export_text(x, "model.position_embedding_type", n->rotary ? "rope" : "learned_absolute");
    pdl__export_bool(x, "model.share_embeddings_and_output_weights", n->tied);
    pdl__export_number(x, "model.hidden_dropout", n->dropout);
    pdl__export_number(x, "model.attention_dropout", n->attention_dropout);
    pdl__export_number(x, "model.vocab_size", (double)n->vocabulary);
    if (n->experts > 0) {
        pdl__export_number(x, "model.num_moe_experts", (double)n->experts);
        pdl__export_number(x, "model.moe_router_topk", (double)n->top_k);
        pdl__export_number(x, "model.moe_ffn_hidden_size", (double)n->expert_ffn);
        if (n->capacity_factor > 0) {
            pdl__export_number(x, "model.moe_expert_capacity_factor", n->capacity_factor);
            pdl__export_bool(x, "model.moe_pad_expert_input_to_capacity", true);
        }
        if (n->shared_ffn > 0)
            pdl__export_number(x, "model.moe_shared_expert_intermediate_size", (double)n->shared_ffn);
    }
    if (n->first_experts > 0)
        pdl__export_note(x, "model: the first %lld layers have no experts; set moe_layer_freq",
                         (long long)n->first_experts);
    if (n->shared_dim > 0)
        pdl__export_note(x, "model: latent attention needs llm.DeepSeekV3Config in place of llm.GPTConfig");
    if (x->recompute == PDL_RECOMPUTE_NONE) return;
    bool some = x->recomputed_blocks > 0;
    pdl__export_text(x, "model.recompute_granularity", x->recompute == PDL_RECOMPUTE_FULL ? "full" : "selective");
    if (x->recompute != PDL_RECOMPUTE_FULL) return;
    pdl__export_text(x, "model.recompute_method", some ? "block" : "uniform");
    pdl__export_number(x, "model.recompute_num_layers", some ? (double)x->recomputed_blocks : 1);
}

static void add_strategy(pdl__exported_t *x)
{
    const pdl_plan_t *plan = x->plan;
    bool overlaps = x->overlaps || plan->sharding > PDL_SHARDING_ZERO1; /* Megatron's FSDP always does */
    char layout[200];

    pdl__export_number(x, "strategy.tensor_model_parallel_size", (double)x->tensor);
    pdl__export_number(x, "strategy.pipeline_model_parallel_size", (double)x->pipeline);
    if (x->pipeline > 1 && pdl__stage_layout(plan, layout, sizeof(layout)))
        pdl__export_text(x, "strategy.pipeline_model_parallel_layout", "%s", layout);
    else if (plan->virtual_stages > 1)
        pdl__export_number(x, "strategy.virtual_pipeline_model_parallel_size", plan->virtual_stages);
    if (x->context > 1) pdl__export_number(x, "strategy.context_parallel_size", (double)x->context);
    pdl__export_bool(x, "strategy.sequence_parallel", plan->sequence_parallel && x->tensor > 1);
    if (x->net.experts > 0) {
        pdl__export_number(x, "strategy.expert_model_parallel_size", (double)x->experts);
        pdl__export_number(x, "strategy.expert_tensor_parallel_size", 1);
    }
    pdl__export_bool(x, "strategy.use_tp_pp_dp_mapping", x->pipeline > 1 && !x->outer && x->data > 1);
    if (plan->sharding > PDL_SHARDING_ZERO1) pdl__export_text(x, "strategy.fsdp", "megatron");
    pdl__export_bool(x, "ddp.use_distributed_optimizer", plan->sharding != PDL_SHARDING_NONE);
    pdl__export_bool(x, "ddp.overlap_grad_reduce", overlaps);
    pdl__export_bool(x, "ddp.overlap_param_gather", overlaps && plan->sharding != PDL_SHARDING_NONE);
    if (plan->sharding > PDL_SHARDING_ZERO1)
        pdl__export_text(x, "ddp.data_parallel_sharding_strategy",
                         plan->sharding == PDL_SHARDING_ZERO3 ? "optim_grads_params" : "optim_grads");
}

static void add_run(pdl__exported_t *x)
{
    bool sixteen = x->plan->precision == PDL_BF16 || pdl_precision_narrow(x->plan->precision);

    pdl__export_number(x, "data.seq_length", (double)x->net.tokens);
    pdl__export_number(x, "data.micro_batch_size", (double)x->micro);
    pdl__export_number(x, "data.global_batch_size", (double)x->plan->batch);
    pdl__export_text(x, "precision.precision",
                     sixteen                          ? "bf16-mixed"
                     : x->plan->precision == PDL_FP16 ? "16-mixed"
                                                      : "32");
    if (x->plan->precision == PDL_FP8) pdl__export_text(x, "precision.fp8", "hybrid");
    if (x->plan->precision == PDL_NVFP4)
        pdl__export_note(
            x,
            "precision nvfp4: NeMo v2.4.0 has no name for it, so products are in bf16 here; Megatron-LM has one");
    pdl__export_text(x, "optimizer.optimizer", x->plan->optimizer == PDL_OPTIMIZER_ADAM ? "adam" : "sgd");
    pdl__export_number(x, "optimizer.lr", 1e-4);
    pdl__export_bool(x, "optimizer.bf16", sixteen);
    pdl__export_bool(x, "optimizer.use_distributed_optimizer", x->plan->sharding != PDL_SHARDING_NONE);
    pdl__export_number(x, "trainer.devices", (double)x->per_node);
    pdl__export_number(x, "trainer.num_nodes", (double)x->nodes);
    pdl__export_number(x, "trainer.max_steps", 50);
    pdl__export_text(x, "trainer.accelerator", "gpu");
    pdl__export_number(x, "trainer.log_every_n_steps", 1);
    pdl__export_number(x, "trainer.limit_val_batches", 0);
    if (x->plan->optimizer_tier != PDL_TIER_DEVICE)
        pdl__export_note(x, "optimizer state on the %s: not set here", pdl_tier_names[x->plan->optimizer_tier]);
}

static void write_call(const pdl__exported_t *x, const char *name, const char *group, const char *more,
                       FILE *stream)
{
    fprintf(stream, "%s(\n", name);
    pdl__write_python(x, group, stream);
    fprintf(stream, "%s)\n", more);
}

static void write_program(const pdl__exported_t *x, FILE *stream)
{
    fputs("# Pre-training with NeMo v2.4.0 on mock data; data, learning rate and logging are placeholders.\n"
          "import torch\n"
          "from megatron.core.distributed import DistributedDataParallelConfig\n"
          "from megatron.core.optimizer import OptimizerConfig\n"
          "from nemo import lightning as nl\n"
          "from nemo.collections import llm\n\n",
          stream);
    if (x->net.activation == PDL_LAYER_SILU)
        write_call(x, "config = llm.GPTConfig", "model", "    activation_func=torch.nn.functional.silu,\n", stream);
    else
        write_call(x, "config = llm.GPTConfig", "model", "", stream);
    write_call(x, "ddp = DistributedDataParallelConfig", "ddp", "", stream);
    write_call(x, "strategy = nl.MegatronStrategy", "strategy",
               x->pipeline > 1 ? "    pipeline_dtype=torch.bfloat16,\n    ddp=ddp,\n" : "    ddp=ddp,\n", stream);
    write_call(x, "plugin = nl.MegatronMixedPrecision", "precision", "", stream);
    write_call(x, "trainer = nl.Trainer", "trainer", "    strategy=strategy,\n    plugins=plugin,\n", stream);
    write_call(x, "data = llm.MockDataModule", "data", "", stream);
    write_call(x, "optimizer = OptimizerConfig", "optimizer", "", stream);
    fputs("\nif __name__ == \"__main__\":\n"
          "    llm.pretrain(\n"
          "        model=llm.GPTModel(config, tokenizer=data.tokenizer),\n"
          "        data=data,\n"
          "        trainer=trainer,\n"
          "        optim=nl.MegatronOptimizerModule(config=optimizer),\n"
          "    )\n",
          stream);
}

pdl_status_t pdl__export_nemo(pdl__exported_t *x)
{
    pdl_status_t status = pdl__export_needs_transformer(x);

    if (status) return status;
    add_model(x);
    add_strategy(x);
    add_run(x);
    return pdl__export_file(x, "nemo_pretrain.py", write_program);
}
