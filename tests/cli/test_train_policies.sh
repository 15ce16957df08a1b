#!/usr/bin/env bash
# Every memory policy gives the weights of what keeps everything, to the last bit, after ten updates: a residual network with batch
# norms, a GPT with dropout, and a U-Net whose skip connections are long.
set -euo pipefail
. "$SOURCE/tests/cli/common.sh"
export OMP_NUM_THREADS=1

model() {
    printf 'paradl: model/1\nname: %s\nextends: %s\nparameters: {%s}\n' "$1" "$2" "$3" >"$1.yaml"
}
model cnn resnet-tiny 'width: 8, size: 12'
model gpt gpt2-124m 'layers: 3, hidden: 32, heads: 4, tokens: 24, vocabulary: 64, dropout: 0.1, bias: 1'
model unet unet 'width: 2, size: 32'

for net in cnn gpt unet; do
    expect 0 model show $net.yaml --json
    cp out $net.json
done
# plans: blocks of five layers each, all with one policy, or with all of them in turn.
python3 - <<'PY'
import json

policies = ["keep", "recompute", "swap", "swap_boundary", "recompute_cheap", "swap_cheap"]
for net in "cnn", "gpt", "unet":
    names = [layer["name"] for layer in json.load(open(f"{net}.json"))["layers"]]
    ends = names[4:-1:5] + names[-1:]
    for way in policies + ["mixed"]:
        blocks = []
        for k, end in enumerate(ends):
            policy = policies[(k + 1) % len(policies)] if way == "mixed" else way
            far = f", prefetch: {1 + k % 3}" if policy.startswith("swap") else ""
            blocks.append(f'{{to: "{end}", policy: {policy}{far}}}')
        with open(f"{net}-{way}.yaml", "w") as file:
            file.write(f"paradl: plan/1\nmodel: {net}.yaml\ndata: {{batch: 4}}\nstrategy: serial\nmesh: []\n"
                       f"memory: {{blocks: [{', '.join(blocks)}]}}\n")
PY

for net in cnn gpt unet; do
    for way in keep recompute swap swap_boundary recompute_cheap swap_cheap mixed; do
        expect 0 train $net-$way.yaml --data synthetic --samples 40 --no-valid --threads 1 --quiet --steps 10 --lr 0.05 \
            --momentum 0.9 --checkpoint $net-$way
        cmp {$net-keep,$net-$way}/step-00000010/model.safetensors || fail "$net: other weights with $way"
    done
done
finish
