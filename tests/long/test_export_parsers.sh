#!/usr/bin/env bash
# Exports of plans of many kinds, read by the frameworks' own parsers (export_parsers.py). A framework whose checkout is not named is left out:
#
#     MEGATRON=DIR DEEPSPEED=DIR TORCHTITAN=DIR ACCELERATE=DIR ctest -R long/export_parsers --output-on-failure
#
# docs/export.md says with which versions this was run.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"

read_by() { # framework, checkout
    [ -n "$2" ] || { echo "skip $1: no checkout is named"; return 0; }
    tried=yes
    python3 "$SOURCE/tests/long/export_parsers.py" "$1" "$2" "$1"/* || fail "$1"
}

# A plan, in a folder per framework.
make() { # name, options of plan
    local name=$1 framework
    shift
    for framework in megatron deepspeed torchtitan fsdp; do
        "$PARADL" plan --optimizer adam "$@" --export "$framework" -o "$framework/$name" >out 2>err || fail "$name: $(cat err)"
    done
}

python3 -c 'import yaml, pydantic' 2>/dev/null || { echo "skipped: Python has no yaml or pydantic"; exit 77; }
[ -n "${MEGATRON-}${DEEPSPEED-}${TORCHTITAN-}${ACCELERATE-}" ] || { echo "skipped: no checkout is named"; exit 77; }
mkdir megatron deepspeed torchtitan fsdp
cat >deepseek.json <<'JSON'
{"model_type": "deepseek_v3", "vocab_size": 129280, "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048,
 "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128, "n_shared_experts": 1, "n_routed_experts": 256,
 "num_experts_per_tok": 8, "first_k_dense_replace": 3, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
 "qk_rope_head_dim": 64, "v_head_dim": 128, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "tie_word_embeddings": false}
JSON
cat >qwen3.json <<'JSON'
{"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36, "head_dim": 128,
 "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "tie_word_embeddings": true}
JSON
make llama70b --model llama3-70b --system dgx-h100 -n 512 --precision bf16 --batch 1024 --strategy 3d --framework megatron
make llama8b-data --model llama3-8b --system dgx-h100 -n 64 --precision bf16 --batch 256 --strategy data
make llama8b-fp8 --model llama3-8b --system dgx-h100 -n 64 --precision fp8 --batch 256 --strategy data+tensor
"$PARADL" model import llama3-8b --sequence 131072 -o llama8b-128k.yaml
"$PARADL" model import llama3-405b --sequence 32768 -o llama405b-32k.yaml
make llama8b-context --model llama8b-128k.yaml --system dgx-h100 -n 64 --precision bf16 --batch 64 --strategy data+context
make llama405b --model llama405b-32k.yaml --system dgx-h100 -n 1024 --precision bf16 --batch 256 --strategy 3d-context
make gpt175b --model gpt3-175b --system selene -n 1024 --precision bf16 --batch 1536 --strategy 3d --framework megatron
make gpt175b-pipeline --model gpt3-175b --system selene -n 96 --precision fp16 --batch 192 --strategy data+pipeline
make gpt13b-small --model gpt3-13b --system dgx-v100 -n 32 --precision fp16 --batch 64 --strategy 3d
make gpt2-one-node --model gpt2-124m --system selene -n 8 --batch 64 --precision fp32 --strategy data
make gpt2-sgd --model gpt2-1.5b --system selene -n 20 --batch 64 --precision tf32 --strategy data+tensor --optimizer momentum
make mixtral --model mixtral-8x7b --system dgx-h100 -n 64 --precision bf16 --batch 256 --strategy 3d
make deepseek --model deepseek.json --system dgx-h100 -n 1024 --precision bf16 --batch 4096 --strategy 3d
make llama70b-overlap --model llama3-70b --system dgx-h100 -n 512 --precision bf16 --batch 1024 --strategy 3d --framework megatron-bridge
make qwen235b-overlap --model qwen3-235b-a22b --system dgx-h100 -n 256 --precision bf16 --batch 2048 --strategy 3d --framework megatron-bridge-overlap
make kimi --model kimi-k2 --system gb200 -n 512 --precision fp8 --batch 4096 --strategy data --framework megatron-bridge-26.06-overlap
make gpt-oss --model gpt-oss-20b --system dgx-b200 -n 64 --precision bf16 --batch 512 --strategy data
make llama4 --model llama4-maverick --system dgx-h200 -n 512 --precision bf16 --batch 2048 --strategy data
make nemotron --model nemotron4-340b --system dgx-h200 -n 512 --precision bf16 --batch 1024 --strategy 3d
make qwen3 --model qwen3.json --system gh200 -n 16 --precision bf16 --batch 64 --strategy all

EXPORTS=$PWD "$(dirname "$PARADL")/tests/test_report_export" || fail "exports of plans that no search chooses"

tried=
read_by megatron "${MEGATRON-}"
read_by deepspeed "${DEEPSPEED-}"
read_by torchtitan "${TORCHTITAN-}"
read_by fsdp "${ACCELERATE-}"
[ -n "$tried" ] || exit 77
finish
