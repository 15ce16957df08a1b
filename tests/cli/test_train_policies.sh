#!/usr/bin/env bash
# Every memory policy, and optimizer state or weights on the host or on disk, gives the weights of what keeps everything, to the last bit, after ten updates: a residual network with batch
# norms, a GPT with dropout, and a U-Net whose skip connections are long. DEVICE=cuda runs them on a GPU.
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
    tiers = {"host": "optimizer: host", "disk": "optimizer: disk", "weights": "weights: host",
             "all": "optimizer: disk, weights: host"}
    for way in policies + ["mixed"] + list(tiers):
        blocks = []
        for k, end in enumerate(ends):
            policy = way if way in policies else policies[(k + 1) % len(policies)]
            far = f", prefetch: {1 + k % 3}" if policy.startswith("swap") else ""
            blocks.append(f'{{to: "{end}", policy: {policy}{far}}}')
        with open(f"{net}-{way}.yaml", "w") as file:
            file.write(f"paradl: plan/1\nmodel: {net}.yaml\ndata: {{batch: 4}}\nstrategy: serial\nmesh: []\n"
                       f"memory: {{{tiers.get(way, 'optimizer: device')}, blocks: [{', '.join(blocks)}]}}\n")
PY

train=(--data synthetic --samples 40 --no-valid --threads 1 --quiet --lr 0.05 --momentum 0.9 ${DEVICE:+--device "$DEVICE"})
for net in cnn gpt unet; do
    for way in keep recompute swap swap_boundary recompute_cheap swap_cheap mixed host disk weights all; do
        expect 0 train $net-$way.yaml "${train[@]}" --steps 10 --checkpoint $net-$way
        for part in model state; do
            cmp {$net-keep,$net-$way}/step-00000010/$part.safetensors || fail "$net: other $part with $way"
        done
    done
    # Where it was stopped it goes on, and the file of the state has left nothing behind.
    expect 0 train $net-disk.yaml "${train[@]}" --steps 4 --checkpoint $net-again --state-dir .
    expect 0 train $net-disk.yaml "${train[@]}" --steps 10 --checkpoint $net-again --resume
    for part in model state; do
        cmp {$net-keep,$net-again}/step-00000010/$part.safetensors || fail "$net: other $part after --resume"
    done
done
[ -z "$(find . -name '.paradl-state*')" ] || fail "files of state are left"

# An optimizer without state has none to keep anywhere.
expect 0 train gpt-disk.yaml "${train[@]}" --steps 2 --momentum 0
# What cannot be done is said before the run.
expect 2 train gpt-disk.yaml --data synthetic --samples 40 --quiet --steps 1 --state-dir nowhere
has err "nowhere, the folder for the optimizer's state: No such file or directory"
expect 2 train gpt-host.yaml --data synthetic --samples 40 --quiet --steps 1 --optimizer lamb
has err "lamb needs norms of whole tensors, and the plan has the optimizer's state on host"
expect 2 train gpt-disk.yaml --data synthetic --samples 40 --quiet --steps 1 --ema 0.9
has err "cannot be on disk: use memory.optimizer: host"
sed 's/memory: {/memory: {optimizer: device, /' gpt-weights.yaml >gpt-near.yaml
expect 2 train gpt-near.yaml --data synthetic --samples 40 --quiet --steps 1
has err "weights on the host have their optimizer's state there or on disk: use memory.optimizer: host"
sed 's/weights: host/weights: disk/' gpt-weights.yaml >gpt-far.yaml
expect 2 train gpt-far.yaml --data synthetic --samples 40 --quiet --steps 1
has err "gpt-far.yaml:6: weights: expected device or host, found \"disk\""
sed 's/optimizer: host/optimizer: tape/' gpt-host.yaml >gpt-tape.yaml
expect 2 train gpt-tape.yaml --data synthetic --samples 40 --quiet --steps 1
has err "gpt-tape.yaml:6: optimizer: expected device, host or disk, found \"tape\""
# Updates follow the gradients that they need; with a norm of all gradients they follow the last.
for clip in 0 1; do
    expect 0 train gpt-host.yaml --device dry --data synthetic --samples 40 --clip $clip --json
    python3 -c 'import json, sys
kinds = [op["kind"] for op in json.load(open("out"))["ops"]]
updates = [i for i, kind in enumerate(kinds) if kind == "update"]
last = max(i for i, kind in enumerate(kinds) if kind == "backward")
assert len(updates) > 4 and (updates[-1] > last > updates[0]) == (sys.argv[1] == "0"), updates
assert (updates[0] > last) == (sys.argv[1] == "1"), updates' $clip || fail "updates are elsewhere with --clip $clip"
done
# The device holds less: the moments are elsewhere; and weights come before every pass, in buckets.
for way in keep host weights; do
    expect 0 train gpt-$way.yaml --device dry --data synthetic --samples 40 --optimizer adamw --json
    cp out $way.json
done
python3 -c 'import json
ops = json.load(open("weights.json"))["ops"]
copied = [op["name"] for op in ops if op["name"].startswith("copy in weights")]
assert len(copied) > len(set(copied)) > 1, copied
assert not any(op["name"].startswith("copy in weights") for op in json.load(open("host.json"))["ops"])
keep, host = (json.load(open(name))["memory"] for name in ("keep.json", "host.json"))
assert keep["optimizer"] > 0 and host["optimizer"] == 0 and host["weights"] == keep["weights"]' || fail "state is on the device"
# Where nothing else fits, the optimizer's state leaves the device, to disk where the host is too small; then weights do.
model deep gpt2-124m 'layers: 6, hidden: 64, heads: 4, tokens: 16, vocabulary: 64'
model long gpt2-124m 'tokens: 16'
plan=(plan -n 1 --optimizer adam -o chosen.yaml)
for host in 128GiB 800MB 1.5MB; do
    # Of a host whose rate of updates is not known.
    sed "/^  host_update:/d; s/^  host_memory: .*/  host_memory: $host/" "$SOURCE/share/systems/h200-paradl.yaml" >$host.yaml
done
expect 0 "${plan[@]}" --model deep.yaml --system 128GiB.yaml --batch 2 --max-memory 5MB
grep -q 'sequence_parallel: false, optimizer: host}' chosen.yaml || fail "state stays on the device"
expect 0 "${plan[@]}" --model deep.yaml --system 128GiB.yaml --batch 2 --max-memory 3MB
grep -q 'optimizer: host, weights: host}' chosen.yaml || fail "weights stay on the device"
# Processors of the host update what is there where that is faster than passing it through the device.
sed 's/^  host_memory: .*/&\n  host_update: 1e12/' 128GiB.yaml >able.yaml
expect 0 "${plan[@]}" --model deep.yaml --system able.yaml --batch 2 --max-memory 3MB
grep -q 'optimizer: host, weights: host, update: host}' chosen.yaml || fail "the device updates"
sed 's/weights: host, //' chosen.yaml >near.yaml
expect 2 train near.yaml --data synthetic --samples 40 --quiet --steps 1
has err "memory.update: host goes with memory.weights: host and memory.optimizer: host"
# So they do with several devices, in parts: each host has those of its rank.
sed 's/fanout: 1,/fanout: 2,/' 128GiB.yaml >two.yaml
expect 0 plan -n 2 --strategy data --optimizer adam -o chosen.yaml --model deep.yaml --system two.yaml --batch 4 --max-memory 2.7MB
for word in 'sharding: zero3' 'optimizer: host' 'weights: host'; do
    grep -q "$word" chosen.yaml || fail "weights of two devices stay there: no $word"
done
sed 's/sharding: zero3/sharding: zero1/' chosen.yaml >halves.yaml
expect 2 train halves.yaml --device dry --data synthetic --samples 40
has err "weights on the host are divided as their optimizer's state is, and with zero1 they are whole: use memory.sharding: zero3 or none"
expect 0 "${plan[@]}" --model long.yaml --system 800MB.yaml --batch 1 --max-memory 1.5GiB
grep -q 'optimizer: disk}' chosen.yaml || fail "state is not on disk"
expect 2 "${plan[@]}" --model deep.yaml --system 1.5MB.yaml --batch 2 --max-memory 5MB
has err "MiB of host memory for what a device of 4.77 MiB does not hold, of 1.34 MiB"
finish
