/*
 * Options of pretrain_gpt.py of Megatron-LM, as core_v0.15.0 names them.
 */
#include "report/export/export.h"

#include <string.h>

static void add_layers(pdl__exported_t *x)
{
    const pdl__export_network_t *n = &x->net;

    pdl__export_flag(x, "use-mcore-models", true);
    pdl__export_number(x, "num-layers", (double)n->layers);
    pdl__export_number(x, "hidden-size", (double)n->hidden);
    pdl__export_number(x, "ffn-hidden-size", (double)n->ffn);
    pdl__export_number(x, "num-attention-heads", (double)n->heads);
    if (n->shared_dim == 0) pdl__export_number(x, "kv-channels", (double)n->head_dim);
    pdl__export_flag(x, "group-query-attention", n->kv_heads < n->heads);
    if (n->kv_heads < n->heads) pdl__export_number(x, "num-query-groups", (double)n->kv_heads);
    pdl__export_number(x, "seq-length", (double)n->tokens);
    pdl__export_number(x, "max-position-embeddings", (double)n->tokens);
    pdl__export_text(x, "position-embedding-type", n->rotary ? "rope" : "learned_absolute");
    pdl__export_text(x, "normalization", n->rms ? "RMSNorm" : "LayerNorm");
    pdl__export_number(x, "norm-epsilon", n->epsilon);
    pdl__export_flag(x, "swiglu", n->gated);
    pdl__export_flag(x, "disable-bias-linear", !n->bias);
    pdl__export_flag(x, "add-qkv-bias", n->qkv_bias && !n->bias);
    pdl__export_flag(x, "qk-layernorm", n->qk_norm);
    pdl__export_flag(x, "untie-embeddings-and-output-weights", !n->tied);
    pdl__export_number(x, "hidden-dropout", n->dropout);
    pdl__export_number(x, "attention-dropout", n->attention_dropout);
    pdl__export_text(x, "tokenizer-type", "NullTokenizer");
    pdl__export_number(x, "vocab-size", (double)n->vocabulary - 1); /* it adds one that ends a document */
    if (n->window > 0)
        pdl__export_note(x, "a window of %lld tokens: add --window-size of a version that has it",
                         (long long)n->window);
}

static void add_latent(pdl__exported_t *x)
{
    const pdl__export_network_t *n = &x->net;

    if (n->shared_dim == 0) return;
    pdl__export_flag(x, "multi-latent-attention", true);
    if (n->query_rank > 0) pdl__export_number(x, "q-lora-rank", (double)n->query_rank);
    pdl__export_number(x, "kv-lora-rank", (double)n->key_rank);
    pdl__export_number(x, "qk-head-dim", (double)(n->head_dim - n->shared_dim));
    pdl__export_number(x, "qk-pos-emb-head-dim", (double)n->shared_dim);
    pdl__export_number(x, "v-head-dim", (double)n->value_dim);
}

static bool computes_in_bf16(const pdl__exported_t *x)
{
    return x->plan->precision == PDL_BF16 || pdl_precision_narrow(x->plan->precision);
}

/* Exchanges with experts beside the computation of another micro-batch, as they were projected. */
static void add_expert_overlap(pdl__exported_t *x)
{
    const pdl_plan_t *plan = x->plan;
    bool              in_turn = x->pipeline > 1 ? plan->virtual_stages > 1 : plan->micro_batches > 1;

    if (!x->overlaps_experts) return;
    bool possible = in_turn && x->recompute != PDL_RECOMPUTE_FULL;
    pdl__export_flag(x, "overlap-moe-expert-parallel-comm", possible);
    if (!possible)
        pdl__export_note(
            x, "exchanges with experts beside computation: Megatron-LM has them with interleaved stages or, "
               "without stages, several micro-batches, and without full recomputation");
}

static void add_experts(pdl__exported_t *x)
{
    const pdl__export_network_t *n = &x->net;

    if (n->experts == 0) return;
    pdl__export_number(x, "num-experts", (double)n->experts);
    pdl__export_number(x, "moe-router-topk", (double)n->top_k);
    pdl__export_number(x, "moe-ffn-hidden-size", (double)n->expert_ffn);
    pdl__export_flag(x, "moe-router-pre-softmax", n->top_k == 1); /* of one score alone a softmax is 1 */
    if (n->capacity_factor > 0) pdl__export_number(x, "moe-expert-capacity-factor", n->capacity_factor);
    pdl__export_flag(x, "moe-pad-expert-input-to-capacity", n->capacity_factor > 0);
    pdl__export_flag(x, "moe-grouped-gemm", computes_in_bf16(x)); /* it refuses others */
    if (n->shared_ffn > 0) pdl__export_number(x, "moe-shared-expert-intermediate-size", (double)n->shared_ffn);
    if (n->first_experts > 0)
        pdl__export_text(x, "moe-layer-freq", "[0]*%lld+[1]*%lld", (long long)n->first_experts,
                         (long long)(n->layers - n->first_experts));
    /* A tensor axis shares experts out whole. */
    pdl__export_number(x, "expert-model-parallel-size", (double)x->experts);
    if (x->tensor > 1) pdl__export_number(x, "expert-tensor-parallel-size", 1);
    if (x->experts > 1) pdl__export_text(x, "moe-token-dispatcher-type", "alltoall");
    add_expert_overlap(x);
    if (x->experts > 1 && x->plan->precision == PDL_FP16)
        pdl__export_note(x,
                         "experts of several ranks in fp16: Megatron-LM refuses them; plan with --precision bf16");
}

static void add_pipeline(pdl__exported_t *x)
{
    const pdl_plan_t *plan = x->plan;
    char              layout[200];

    pdl__export_number(x, "pipeline-model-parallel-size", (double)x->pipeline);
    if (x->pipeline == 1) return;
    if (pdl__stage_layout(plan, layout, sizeof(layout)))
        pdl__export_text(x, "pipeline-model-parallel-layout", "%s", layout);
    else if (plan->virtual_stages > 1)
        pdl__export_number(x, "num-virtual-stages-per-pipeline-rank", plan->virtual_stages);
    pdl__export_flag(x, "use-tp-pp-dp-mapping", !x->outer && x->data > 1);
    if (plan->schedule == PDL_SCHEDULE_GPIPE)
        pdl__export_note(x, "schedule gpipe: Megatron-LM runs 1f1b, which needs less memory and as much time");
    if (plan->schedule == PDL_SCHEDULE_ZERO_BUBBLE)
        pdl__export_note(x, "schedule zero-bubble: Megatron-LM runs 1f1b, whose bubble is longer");
}

/* Megatron-LM has an update on the host for Adam alone, and as part of the optimizer that is sharded. */
static bool offloads(const pdl__exported_t *x)
{
    return x->plan->optimizer_tier == PDL_TIER_HOST && x->plan->optimizer == PDL_OPTIMIZER_ADAM;
}

static void add_offload(pdl__exported_t *x)
{
    pdl__export_flag(x, "optimizer-cpu-offload", offloads(x));
    pdl__export_flag(x, "use-precision-aware-optimizer", offloads(x));
    if (x->plan->optimizer_tier == PDL_TIER_HOST && !offloads(x))
        pdl__export_note(x, "optimizer state of %s on the host: Megatron-LM moves that of Adam only",
                         pdl_optimizer_names[x->plan->optimizer]);
    if (x->plan->optimizer_tier == PDL_TIER_DISK)
        pdl__export_note(x, "optimizer state on disk: Megatron-LM keeps it on the device or on the host");
}

static void add_sharding(pdl__exported_t *x)
{
    static const char *const strategies[PDL_SHARDING_COUNT] = {NULL, NULL, "optim_grads", "optim_grads_params"};
    const char              *strategy = strategies[x->plan->sharding];

    pdl__export_flag(x, "use-distributed-optimizer", x->plan->sharding != PDL_SHARDING_NONE || offloads(x));
    pdl__export_flag(x, "use-megatron-fsdp", strategy != NULL);
    if (strategy != NULL) {
        pdl__export_text(x, "data-parallel-sharding-strategy", "%s", strategy);
        pdl__export_text(x, "ckpt-format", "fsdp_dtensor");
    }
    /* Its FSDP has no other way. */
    pdl__export_flag(x, "overlap-grad-reduce", x->overlaps || strategy != NULL);
    pdl__export_flag(x, "overlap-param-gather",
                     strategy != NULL || (x->overlaps && x->plan->sharding != PDL_SHARDING_NONE));
    if (strategy != NULL && x->tensor * x->context > 1)
        pdl__export_note(
            x,
            "%s with a tensor or context axis: Megatron-LM refuses CUDA_DEVICE_MAX_CONNECTIONS=1 for its FSDP, "
            "without which these axes overlap less; compare with zero1",
            pdl_sharding_names[x->plan->sharding]);
}

static void add_numbers(pdl__exported_t *x)
{
    pdl_precision_t precision = x->plan->precision;

    pdl__export_flag(x, "bf16", computes_in_bf16(x));
    pdl__export_flag(x, "fp16", precision == PDL_FP16);
    if (precision == PDL_FP8) pdl__export_text(x, "fp8-format", "hybrid");
    if (precision == PDL_NVFP4) {
        pdl__export_text(x, "fp4-format", "e2m1");
        pdl__export_text(x, "fp4-recipe", "nvfp4");
    }
    if (precision == PDL_FP64) pdl__export_note(x, "precision fp64: Megatron-LM computes in fp32");
    pdl__export_text(x, "optimizer", x->plan->optimizer == PDL_OPTIMIZER_ADAM ? "adam" : "sgd");
    if (x->plan->optimizer != PDL_OPTIMIZER_ADAM)
        pdl__export_number(x, "sgd-momentum", x->plan->optimizer == PDL_OPTIMIZER_MOMENTUM ? 0.9 : 0);
    add_offload(x);
    pdl__export_number(x, "lr", 1e-4);
}

static void add_recompute(pdl__exported_t *x)
{
    bool some = x->recomputed_blocks > 0;

    if (x->recompute == PDL_RECOMPUTE_NONE) return;
    pdl__export_text(x, "recompute-granularity", x->recompute == PDL_RECOMPUTE_FULL ? "full" : "selective");
    if (x->recompute != PDL_RECOMPUTE_FULL) return;
    pdl__export_text(x, "recompute-method", some ? "block" : "uniform");
    pdl__export_number(x, "recompute-num-layers", some ? (double)x->recomputed_blocks : 1);
}

static void write_arguments(const pdl__exported_t *x, FILE *stream)
{
    fputs("# Options of pretrain_gpt.py (Megatron-LM core_v0.15.0); job.slurm reads this file.\n"
          "# Mock data and a tokenizer without words: replace --mock-data by --data-path, --tokenizer-type and "
          "--lr by yours.\n",
          stream);
    /* Its own FSDP refuses to start with one connection, tensor and context axes without it. */
    fputs(x->plan->sharding > PDL_SHARDING_ZERO1 ? "unset CUDA_DEVICE_MAX_CONNECTIONS\n"
                                                 : "export CUDA_DEVICE_MAX_CONNECTIONS=1\n",
          stream);
    pdl__write_shell(x, stream);
}

pdl_status_t pdl__export_megatron(pdl__exported_t *x)
{
    pdl_status_t status = pdl__export_needs_transformer(x);

    if (status) return status;
    add_layers(x);
    add_latent(x);
    add_experts(x);
    pdl__export_number(x, "tensor-model-parallel-size", (double)x->tensor);
    bool sequence_parallel = (x->plan->sequence_parallel || x->net.experts > 0) && x->tensor > 1;
    pdl__export_flag(x, "sequence-parallel", sequence_parallel);
    pdl__export_flag(x, "tp-comm-overlap", sequence_parallel && x->overlaps_layers);
    if (x->context > 1) {
        pdl__export_number(x, "context-parallel-size", (double)x->context);
        pdl__export_text(x, "cp-comm-type", "a2a");
    }
    if (x->net.experts > 0 && x->tensor > 1 && !x->plan->sequence_parallel)
        pdl__export_note(
            x, "experts with a tensor axis: Megatron-LM trains them with --sequence-parallel only, so it is set");
    add_pipeline(x);
    pdl__export_number(x, "micro-batch-size", (double)x->micro);
    pdl__export_number(x, "global-batch-size", (double)x->plan->batch);
    add_sharding(x);
    add_recompute(x);
    add_numbers(x);
    pdl__export_number(x, "train-iters", 50);
    pdl__export_flag(x, "mock-data", true);
    pdl__export_number(x, "log-interval", 1);
    pdl__export_flag(x, "log-throughput", true);
    pdl__export_number(x, "eval-iters", 0);
    if (!x->net.causal) pdl__export_note(x, "attention looks both ways: use pretrain_bert.py with these options");
    return pdl__export_file(x, "megatron_args.sh", write_arguments);
}
